// One stream: its definition, what it wrote, its ticks, recalculations, errors and events.

import { get, streamPath } from "./api.js";
import { buttons, recalculateRange, resync } from "./actions.js";
import { plot } from "./charts.js";
import { cards, el, note, section, table } from "./dom.js";
import { NOTHING, ago, count, duration, instant } from "./format.js";
import { around, picture } from "./lineage.js";
import { quoted, run } from "./names.js";
import { lag, nameOf, remarks, state } from "./overview.js";
import { plottable, plotted, seconds, valueOf } from "./rows.js";
import { timeline } from "./windows.js";

const RUNS = 200;
const ROWS = 500;
const ROWS_LISTED = 12;
const EVENTS = 50;
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
    const names = ["head", "said", "trouble", "figures", "written", "windows", "next", "ticks", "lags", "late", "expectations", "ranges", "errors", "events", "rows"];
    this.parts = Object.fromEntries(names.map((name) => [name, part()]));
    this.parts.said.setAttribute("role", "status");
    const { head, said, trouble, figures, written, windows, next, ticks, lags, late, expectations, ranges, errors, events, rows } = this.parts;
    const statuses = new Map([[nameOf(this.id), this.stream.status]]);
    const drawn = picture(around(this.lineage, nameOf(this.id)), statuses, nameOf(this.id));
    this.main.replaceChildren(
      el("p", { class: "crumb" }, el("a", { href: "#/" }, "All streams")),
      head,
      said,
      trouble,
      figures,
      section("Output", written),
      section("Windows", windows),
      section("Definition", el("pre", { tabindex: "0" }, el("code", {}, this.stream.sql)), el("div", { class: "scroll picture" }, drawn)),
      el("div", { class: "pair" }, section("Seconds per tick", ticks), section("Lag in commits after each tick", lags)),
      section("Late rows per tick", late),
      section("Next tick", next),
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
    // The instants of PERIOD are of the wall clock, which the newest event time says nothing of.
    const newest = stream.trigger.startsWith("PERIOD") ? null : stream.newest;
    this.fill("windows", [this.output, newest], () => timeline(this.output, newest));
    this.fill("next", stream.status, () => [this.plan()]);
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
    if (!this.output.rows.length) return note("Nothing is written yet.");
    const found = plottable(this.output.columns);
    if (!found) return note("It has no time or no number to plot; the newest rows stand below.");
    const bands = this.stream.recalculations.map((job) => [job.from && seconds(job.from), job.to && seconds(job.to)]);
    const change = (place) => {
      this.measure = place;
      this.draw();
      this.parts.written.querySelector("select").focus();
    };
    const brushed = el("div", { class: "brushed" });
    const select = (from, to) => brushed.replaceChildren(this.again(from, to));
    return el(
      "div",
      {},
      ...plotted(this.stream.output, this.output, found, this.measure, change, { bands, select }),
      brushed,
      bands.length ? el("p", { class: "legend" }, el("span", { class: "key key-band" }, "recalculated")) : null,
    );
  }

  // What recalculates a range that was drawn over the plot.
  again(from, to) {
    const shown = [from, to].map((at) => instant(new Date(at * 1000).toISOString())).join(" to ");
    const click = () => recalculateRange(this.stream, from, to, this.done);
    return el("button", { type: "button", click }, `Recalculate ${shown}`);
  }

  // The stages of the next tick, when they are asked for.
  plan() {
    const shown = el("div", { role: "status" });
    const click = async () => {
      shown.replaceChildren(note("Planning …"));
      const { database, name } = this.id;
      try {
        const { rows } = await run(`EXPLAIN STREAM ${quoted(database)}.${quoted(name)}`);
        const columns = ["Stage", "What it does"];
        const stages = rows.map(([stage, what]) => [el("b", {}, stage), el("span", { class: "message" }, what)]);
        shown.replaceChildren(cards(table("Stages of the next tick", columns, stages), columns, columns.length));
      } catch (error) {
        shown.replaceChildren(note(error.message));
      }
    };
    return el("div", {}, el("button", { type: "button", click }, "Show the plan"), shown);
  }

  newest() {
    if (this.output.error || !this.output.rows.length) return note("Nothing is written yet.");
    const { columns, rows } = this.output;
    const shown = rows.slice(0, ROWS_LISTED).map((values) => values.map((value, place) => valueOf(value, columns[place])));
    return table("Newest rows", columns.map((column) => column.name), shown);
  }
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
  return [...notes, carded("Expectations", ["Name", "Rows of", "Condition", "On violation", "Passed", "Violated"], rows)];
}

function recalculations(jobs) {
  if (!jobs.length) return note("None was asked for.");
  const rows = [...jobs].reverse().map((job) => [
    job.from ? instant(job.from) : "the beginning",
    job.to ? instant(job.to) : "the stream's progress",
    job.status,
    job.parts === null ? NOTHING : `${count(job.done)} of ${count(job.parts)}`,
    count(job.rows),
  ]);
  return carded("Recalculations", ["From", "To", "State", "Parts done", "Rows written"], rows);
}

function errors(stream) {
  const notes = stream.errors_table ? [note(`Windows that could not be computed stand in ${stream.errors_table}.`)] : [];
  if (!stream.errors.length) return [...notes, note("There were none.")];
  const rows = stream.errors.map((error) => [
    instant(error.at),
    el("code", {}, error.code),
    el("span", { class: "message" }, error.message),
  ]);
  return [...notes, tall(carded("Errors", ["When", "Code", "What was wrong, and where"], rows))];
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
  return tall(carded("Events", ["When", "Type", "Window", "Table", "Result", "Told"], rows));
}

// The ends of a window are milliseconds; it has the second one once it is closed.
function windowOf({ windowStart, windowEnd }) {
  const ends = [windowStart, windowEnd].filter((end) => typeof end === "number");
  return ends.map((end) => instant(new Date(end).toISOString())).join(" – ");
}

function carded(caption, columns, rows) {
  return cards(table(caption, columns, rows), columns);
}

function tall(holder) {
  holder.classList.add("tall");
  return holder;
}
