// One stream: its definition, what it wrote, its ticks, recalculations, errors and events.

import { get, streamPath } from "./api.js";
import { buttons, resync } from "./actions.js";
import { plot } from "./charts.js";
import { el, note, section, table } from "./dom.js";
import { ago, count, duration, instant } from "./format.js";
import { around, picture } from "./lineage.js";
import { lag, nameOf, remarks, state } from "./overview.js";

const RUNS = 200;
const ROWS = 500;
const ROWS_LISTED = 12;
const EVENTS = 50;
const LINES = 8;
const NUMBERS = /^(u?int|float|double|half|decimal)/;
const FRACTIONS = /^(float|double|half)/;
const TIMES = /^(timestamp|date)/;

export class StreamPage {
  constructor(main, database, name) {
    this.main = main;
    this.id = { database, name };
    this.title = `${nameOf(this.id)} – lakestream`;
    this.measure = null;
    // Say what was done.
    this.done = (message) => {
      this.parts.said.replaceChildren(note(message));
      this.refresh();
    };
  }

  async load() {
    const lineage = get("/api/lineage");
    await this.fetch();
    this.lineage = await lineage;
    this.build();
    this.draw();
  }

  async refresh() {
    await this.fetch();
    this.draw();
  }

  hears(message) {
    return message.stream === nameOf(this.id);
  }

  async fetch() {
    const events = `/api/events?stream=${encodeURIComponent(nameOf(this.id))}&limit=${EVENTS}`;
    // The output may not be there yet, which is no reason to show nothing else.
    const output = get(streamPath(this.id, `/output?limit=${ROWS}`)).catch((error) => ({ error }));
    [this.stream, this.runs, this.output, this.events] = await Promise.all([
      get(streamPath(this.id)),
      get(streamPath(this.id, `/runs?limit=${RUNS}`)),
      output,
      get(events),
    ]);
  }

  // The parts that stay; draw() fills them again and again.
  build() {
    const part = () => el("div", {});
    const names = ["head", "said", "trouble", "figures", "written", "ticks", "lags", "late", "expectations", "ranges", "errors", "events", "rows"];
    this.parts = Object.fromEntries(names.map((name) => [name, part()]));
    this.parts.said.setAttribute("role", "status");
    const { head, said, trouble, figures, written, ticks, lags, late, expectations, ranges, errors, events, rows } = this.parts;
    const statuses = new Map([[nameOf(this.id), this.stream.status]]);
    const drawn = picture(around(this.lineage, nameOf(this.id)), statuses, nameOf(this.id));
    this.main.replaceChildren(
      el("p", { class: "crumb" }, el("a", { href: "#/" }, "All streams")),
      head,
      said,
      trouble,
      figures,
      section("Output", written),
      section("Definition", el("pre", { tabindex: "0" }, el("code", {}, this.stream.sql)), el("div", { class: "scroll picture" }, drawn)),
      el("div", { class: "pair" }, section("Seconds per tick", ticks), section("Lag in commits after each tick", lags)),
      section("Late rows per tick", late),
      section("Expectations", expectations),
      section("Recalculations", ranges),
      section("Errors", errors),
      section("Events", events),
      section("Newest rows", rows),
    );
  }

  draw() {
    const { stream, parts } = this;
    this.fill("head", [stream.status, stream.trigger, remarks(stream)], () => this.heading());
    this.fill("trouble", [stream.last_error, stream.status], () => trouble(stream, this.done));
    parts.figures.replaceChildren(figures(stream));
    this.fill("written", [this.output, stream.recalculations, this.measure], () => [this.written()]);
    this.fill("ticks", this.runs, () => [this.ofRuns("Seconds per tick", "tick", (run) => run.seconds, { unit: " s" })]);
    this.fill("lags", this.runs, () => [this.ofRuns("Lag in commits", "lag", (run) => run.lag, { whole: true })]);
    this.fill("late", this.runs, () => [this.lateRows()]);
    this.fill("expectations", [stream.expectations, stream.quarantines], () => expectations(stream));
    this.fill("ranges", stream.recalculations, () => [recalculations(stream.recalculations)]);
    this.fill("errors", [stream.errors, stream.errors_table], () => errors(stream));
    this.fill("events", this.events, () => [events(this.events)]);
    this.fill("rows", this.output, () => [this.newest()]);
  }

  // Make a part anew when what it shows has changed.
  fill(name, shown, make) {
    const key = JSON.stringify(shown);
    const part = this.parts[name];
    if (part.dataset.shown === key) return;
    part.dataset.shown = key;
    part.replaceChildren(...make());
  }

  heading() {
    const { stream } = this;
    return [
      el(
        "div",
        { class: "heading" },
        el("h1", {}, nameOf(stream)),
        state(stream),
        el("div", { class: "buttons" }, ...buttons(stream, this.done)),
      ),
      el("p", { class: "note" }, [stream.trigger, ...remarks(stream)].join(" · ")),
    ];
  }

  ofRuns(title, label, value, how) {
    const runs = this.runs.filter((run) => run.error === null).reverse();
    return plot(title, runs.map((run) => seconds(run.at)), [{ label, values: runs.map(value) }], how);
  }

  lateRows() {
    const runs = [...this.runs].reverse();
    if (!runs.some((run) => run.late)) return note("No tick that is kept saw a late row.");
    const series = [{ label: "late rows", values: runs.map((run) => run.late) }];
    return plot("Late rows", runs.map((run) => seconds(run.at)), series, { bars: true, whole: true });
  }

  written() {
    if (this.output.error) return note(this.output.error.message);
    const { columns, rows } = this.output;
    const time = columns.findIndex((column) => TIMES.test(column.type));
    const measures = columns.flatMap((column, place) => (NUMBERS.test(column.type) ? [place] : []));
    if (!rows.length) return note("Nothing is written yet.");
    if (time < 0 || !measures.length) return note("It has no time or no number to plot; the newest rows stand below.");
    const first = measures.find((place) => FRACTIONS.test(columns[place].type)) ?? measures[0];
    const chosen = measures.includes(this.measure) ? this.measure : first;
    const bands = this.stream.recalculations.map((job) => [job.from && seconds(job.from), job.to && seconds(job.to)]);
    const { times, series, hidden } = lines(columns, rows, time, chosen);
    return el(
      "div",
      {},
      measures.length > 1 ? this.chooser(columns, measures, chosen) : null,
      plot(`${columns[chosen].name} of ${this.stream.output}`, times, series, { bands }),
      hidden ? note(`${LINES} of ${LINES + hidden} groups are plotted.`) : null,
      bands.length ? el("p", { class: "legend" }, el("span", { class: "key key-band" }, "recalculated")) : null,
    );
  }

  chooser(columns, measures, chosen) {
    const change = (event) => {
      this.measure = Number(event.target.value);
      this.draw();
      this.parts.written.querySelector("select").focus();
    };
    const choices = measures.map((place) => el("option", { value: place, selected: place === chosen }, columns[place].name));
    return el("label", { class: "chooser" }, "Column", el("select", { change }, ...choices));
  }

  newest() {
    if (this.output.error || !this.output.rows.length) return note("Nothing is written yet.");
    const { columns, rows } = this.output;
    const shown = rows.slice(0, ROWS_LISTED).map((values) => values.map((value, place) => valueOf(value, columns[place])));
    return table("Newest rows", columns.map((column) => column.name), shown);
  }
}

function seconds(text) {
  return new Date(text).getTime() / 1000;
}

function valueOf(value, column) {
  if (value === null) return el("i", { class: "null" }, "NULL");
  if (column.type.startsWith("timestamp")) return instant(value);
  return typeof value === "object" ? JSON.stringify(value) : typeof value === "boolean" ? String(value) : value;
}

// The columns of text that tell groups apart: without those that others of them follow from.
function dividing(columns, rows) {
  const groups = (places) => new Set(rows.map((row) => JSON.stringify(places.map((place) => row[place])))).size;
  const texts = columns.flatMap((column, place) => (column.type.includes("string") ? [place] : []));
  const all = groups(texts);
  return texts.reduce((kept, place) => {
    const others = kept.filter((one) => one !== place);
    return groups(others) === all ? others : kept;
  }, texts);
}

// A line per group: the values of one column over time.
function lines(columns, rows, time, measure) {
  const texts = dividing(columns, rows);
  const groups = new Map();
  for (const row of rows) {
    const group = texts.map((place) => row[place]).join(" · ") || columns[measure].name;
    if (!groups.has(group)) groups.set(group, new Map());
    groups.get(group).set(seconds(row[time]), typeof row[measure] === "number" ? row[measure] : null);
  }
  const plotted = [...groups].sort(([one], [other]) => one.localeCompare(other)).slice(0, LINES);
  const times = [...new Set(plotted.flatMap(([, values]) => [...values.keys()]))].sort((one, other) => one - other);
  const series = plotted.map(([label, values]) => ({ label, values: times.map((at) => values.get(at)) }));
  return { times, series, hidden: groups.size - plotted.length };
}

function trouble(stream, done) {
  if (!stream.last_error) return [];
  const leadsOut = stream.status === "Failed" && /\bRESYNC\b/.test(stream.last_error);
  return [el("div", { class: "problem", role: "alert" }, el("p", {}, stream.last_error), leadsOut ? resync(stream, done) : null)];
}

function figures(stream) {
  const listed = [
    ["Lag", lag(stream)],
    ["Last tick", ago(stream.last_tick_at), instant(stream.last_tick_at)],
    ["It took", duration(stream.last_tick_seconds)],
    ["Rows per second", count(stream.rows_per_second)],
    ["Rows in", count(stream.rows_in)],
    ["Rows out", count(stream.rows_out)],
    ["Late rows", count(stream.late)],
    ["Next due", stream.next_due_at ? instant(stream.next_due_at) : "on commit"],
  ];
  const items = listed.map(([name, value, title]) => el("div", { title }, el("dt", {}, name), el("dd", {}, value)));
  return el("dl", { class: "figures" }, ...items);
}

function expectations(stream) {
  if (!stream.expectations.length) return [note("There are none; EXPECT says what rows are to meet.")];
  const notes = stream.quarantines.map((name) => note(`Rows that do not meet them stand in ${name}.`));
  const rows = stream.expectations.map((one) => [
    one.name,
    one.rows,
    el("code", {}, one.condition),
    one.action,
    count(one.passed),
    count(one.violated),
  ]);
  return [...notes, table("Expectations", ["Name", "Rows of", "Condition", "On violation", "Passed", "Violated"], rows)];
}

function recalculations(jobs) {
  if (!jobs.length) return note("None was asked for.");
  const rows = [...jobs].reverse().map((job) => [
    job.from ? instant(job.from) : "the beginning",
    job.to ? instant(job.to) : "the stream's progress",
    job.status,
    job.parts === null ? "–" : `${count(job.done)} of ${count(job.parts)}`,
    count(job.rows),
  ]);
  return table("Recalculations", ["From", "To", "State", "Parts done", "Rows written"], rows);
}

function errors(stream) {
  const notes = stream.errors_table ? [note(`Windows that could not be computed stand in ${stream.errors_table}.`)] : [];
  if (!stream.errors.length) return [...notes, note("There were none.")];
  const rows = stream.errors.map((error) => [
    instant(error.at),
    el("code", {}, error.code),
    el("span", { class: "message" }, error.message),
  ]);
  return [...notes, tall(table("Errors", ["When", "Code", "What was wrong, and where"], rows))];
}

function events(found) {
  if (!found.length) return note("There are none; NOTIFY makes a stream tell of its windows.");
  const rows = [...found].reverse().map((event) => [
    instant(event.at),
    event.type,
    windowOf(event.event),
    event.event.tableName ?? event.group ?? "",
    el("code", {}, JSON.stringify(event.event.result ?? event.event)),
    el("span", { class: "message" }, event.deliveries.map((one) => `${one.target}: ${one.state}`).join("\n")),
  ]);
  return tall(table("Events", ["When", "Type", "Window", "Table", "Result", "Told"], rows));
}

// The ends of a window are milliseconds; it has the second one once it is closed.
function windowOf({ windowStart, windowEnd }) {
  const ends = [windowStart, windowEnd].filter((end) => typeof end === "number");
  return ends.map((end) => instant(new Date(end).toISOString())).join(" – ");
}

function tall(holder) {
  holder.classList.add("tall");
  return holder;
}
