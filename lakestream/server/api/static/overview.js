// All streams, and the lineage of them and of continuous queries.

import { get } from "./api.js";
import { cards, cell, el, label, note, section, table } from "./dom.js";
import { NOTHING, ago, compared, count, duration, instant, plural } from "./format.js";
import { LineageView } from "./lineage.js";
import { linkOf } from "./links.js";

const COLUMNS = ["Stream", "State", "Trigger", "Lag", "Last tick", "Rows/s", "Rows in", "Rows out", "Late", "Next due"];
// What the columns are sorted by; a column without a value here is not sorted.
const ORDERS = {
  Stream: nameOf,
  State: (stream) => ["Failed", "Retrying", "Stopped", "Running"].indexOf(stream.status),
  Trigger: (stream) => stream.trigger,
  Lag: (stream) => -(stream.lag_seconds ?? 0) || -stream.lag,
  "Last tick": (stream) => stream.last_tick_at ?? "",
  "Rows/s": (stream) => -stream.rows_per_second,
  "Rows in": (stream) => -stream.rows_in,
  "Rows out": (stream) => -stream.rows_out,
  Late: (stream) => -stream.late,
  "Next due": (stream) => stream.next_due_at ?? "~",
};
const FILTERS = {
  "All states": () => true,
  "Not current": (stream) => stream.why !== "",
  "Failed or retrying": (stream) => stream.status === "Failed" || stream.status === "Retrying",
  Running: (stream) => stream.status === "Running",
  Stopped: (stream) => stream.status === "Stopped",
};
// What somebody has to look after stands first where no column is chosen.
const URGENT = ["Failed", "Retrying"];
// What is looked for, shown and sorted by stays while one looks at a stream.
const chosen = { words: "", filter: "All states", order: null, backwards: false };
const FIRST_STREAM = `CREATE STREAM hourly INTERVAL(1h) SLIDING(1h)
  FROM power INTO power_hourly
  AS SELECT _twstart AS hour, avg(watts) AS mean FROM %%trows`;

export function nameOf(stream) {
  return `${stream.database}.${stream.name}`;
}

// The state in a word, with a colour beside it.
export function state(stream) {
  return el("span", { class: `state state-${stream.status.toLowerCase()}` }, stream.status);
}

// What else there is to say of a state, shortest first.
export function remarks(stream) {
  const found = [];
  if (stream.recalculating) found.push(`recalculating: ${stream.recalculating}`);
  if (stream.held_back) found.push(`held back by ${stream.held_back}`);
  if (stream.waiting_groups.length) found.push(`too many windows, waiting: ${stream.waiting_groups.join("; ")}`);
  if (stream.doing) {
    const turn = stream.waits_for_turn ? "waits for its turn, " : "";
    found.push(`${turn}${stream.doing} since ${instant(stream.begun_at)}`);
  }
  if (stream.retry_at) found.push(`tries again at ${instant(stream.retry_at)}`);
  return found;
}

export function lag(stream) {
  if (!stream.lag) return NOTHING;
  const since = stream.lag_seconds ? `, ${duration(stream.lag_seconds)}` : "";
  return `${plural(stream.lag, "commit")}${since}`;
}

// A page has load(), which draws it, and refresh(), which brings it up to date.
export class Overview {
  title = "lakestream";

  constructor(main) {
    this.main = main;
    this.shown = "";
  }

  async load() {
    [this.streams, this.lineage, this.queries] = await Promise.all([get("/api/streams"), get("/api/lineage"), queriesOf()]);
    this.draw();
  }

  async refresh() {
    const before = this.names();
    [this.streams, this.queries] = await Promise.all([get("/api/streams"), queriesOf()]);
    if (this.names() !== before) this.lineage = await get("/api/lineage");
    this.draw();
  }

  names() {
    return JSON.stringify([this.streams.map(nameOf), this.queries.map(({ name }) => name)]);
  }

  hears() {
    return true;
  }

  draw() {
    if (!this.streams.length) {
      this.main.replaceChildren(el("h1", {}, "Streams"), ...nothing(), ...continuous(this.queries));
      return;
    }
    // Whoever writes a word, stands in the table, or has scrolled it, stays there.
    if (!this.body?.isConnected) this.build();
    this.fill();
    this.summary.textContent = summary(this.streams);
    this.others.replaceChildren(...continuous(this.queries));
    this.drawLineage();
  }

  // The rows of the streams that were asked for, in the order that was.
  fill() {
    const listed = found(this.streams);
    const rows = listed.map(row);
    const names = JSON.stringify(listed.map(nameOf));
    if (names === this.shown) this.update(rows);
    else this.body.replaceChildren(...rows.map((values) => el("tr", {}, ...values.map(cell))));
    this.shown = names;
    label(this.body, COLUMNS, 3);
    this.none.hidden = listed.length > 0;
    for (const head of this.heads) {
      const isChosen = head.textContent === chosen.order;
      const direction = chosen.backwards ? "descending" : "ascending";
      if (isChosen) head.setAttribute("aria-sort", direction);
      else head.removeAttribute("aria-sort");
    }
  }

  drawLineage() {
    this.graph.show(this.lineage, new Map(this.streams.map((stream) => [nameOf(stream), stream.status])));
  }

  build() {
    this.shown = "";
    this.summary = el("p", { class: "note" });
    this.graph = new LineageView();
    const holder = table("Streams", COLUMNS, this.streams.map(row));
    holder.classList.add("streams", "cards");
    this.body = holder.querySelector("tbody");
    this.heads = [...holder.querySelectorAll("th")];
    for (const head of this.heads) {
      const order = head.textContent;
      head.replaceChildren(el("button", { type: "button", click: () => this.sort(order) }, order));
    }
    this.none = note("No stream is like that.");
    this.others = el("div", {});
    this.main.replaceChildren(
      el("h1", {}, "Streams"),
      this.summary,
      this.finding(),
      holder,
      this.none,
      this.others,
      section("Lineage", this.graph.element, legend()),
    );
  }

  // What streams are found by.
  finding() {
    const find = (event) => {
      chosen.words = event.target.value;
      this.fill();
    };
    const filter = (event) => {
      chosen.filter = event.target.value;
      this.fill();
    };
    const choices = Object.keys(FILTERS).map((name) => el("option", { selected: name === chosen.filter }, name));
    return el(
      "div",
      { class: "finding", role: "search" },
      el("label", {}, "Find", el("input", { type: "search", value: chosen.words, placeholder: "name, table, trigger, error", input: find })),
      el("label", {}, "Show", el("select", { change: filter }, ...choices)),
    );
  }

  // The second time a column is chosen it is turned, the third time the streams stand as they did.
  sort(order) {
    if (chosen.order !== order) Object.assign(chosen, { order, backwards: false });
    else if (!chosen.backwards) chosen.backwards = true;
    else Object.assign(chosen, { order: null, backwards: false });
    this.fill();
  }

  update(rows) {
    rows.forEach((values, number) => {
      const line = this.body.rows[number];
      values.slice(1).forEach((value, place) => line.cells[place + 1].replaceWith(cell(value)));
    });
  }
}

// The streams that have all words somewhere, and the state that is shown, in the order of a column.
function found(streams) {
  const words = chosen.words.toLowerCase().split(/\s+/).filter(Boolean);
  const texts = (stream) => [nameOf(stream), stream.trigger, stream.output, stream.last_error, ...stream.sources].join(" ").toLowerCase();
  const listed = streams.filter((stream) => FILTERS[chosen.filter](stream) && words.every((word) => texts(stream).includes(word)));
  if (chosen.order === null) return listed.sort((one, other) => urgency(one) - urgency(other));
  const value = ORDERS[chosen.order];
  const difference = (one, other) => (typeof one === "string" ? compared(one, other) : one - other);
  listed.sort((one, other) => difference(value(one), value(other)) || compared(nameOf(one), nameOf(other)));
  return chosen.backwards ? listed.reverse() : listed;
}

function urgency(stream) {
  const place = URGENT.indexOf(stream.status);
  return place < 0 ? URGENT.length : place;
}

// A token for some databases is not told of them.
function queriesOf() {
  return get("/api/queries").catch((error) => {
    if (error.code === "FORBIDDEN") return [];
    throw error;
  });
}

function continuous(queries) {
  if (!queries.length) return [];
  const rows = queries.map((query) => [
    query.name,
    el("span", {}, query.state.toLowerCase(), query.last_error ? wrong(query.last_error) : null),
    instant(query.last_at),
    instant(query.next_at),
    query.skipped,
    el("code", { class: "message" }, query.sql),
  ]);
  const columns = ["Query", "State", "Last execution", "Next", "Skipped", "Statement"];
  return [section("Continuous queries", cards(table("Continuous queries", columns, rows), columns, 2))];
}

// A reason as long as a sentence or two is not to make the table wide, or its line tall.
function wrong(text) {
  return el("small", { class: "wrong", title: text }, text);
}

function row(stream) {
  return [
    el("a", { href: linkOf(nameOf(stream)), class: "name" }, nameOf(stream)),
    el("span", {}, state(stream), ...remarks(stream).map((text) => el("small", { title: text }, text)), stream.last_error ? wrong(stream.last_error) : null),
    stream.trigger,
    lag(stream),
    el("span", { title: instant(stream.last_tick_at) }, ago(stream.last_tick_at)),
    stream.rows_per_second ? Math.round(stream.rows_per_second * 10) / 10 : 0,
    stream.rows_in,
    stream.rows_out,
    stream.late,
    stream.next_due_at ? instant(stream.next_due_at) : NOTHING,
  ];
}

function summary(streams) {
  const counts = new Map();
  for (const stream of streams) counts.set(stream.status, (counts.get(stream.status) ?? 0) + 1);
  const states = [...counts].map(([status, number]) => `${count(number)} ${status.toLowerCase()}`);
  return `${plural(streams.length, "stream")}: ${states.join(", ")}`;
}

function nothing() {
  return [
    note("There is no stream in this lake yet. A statement makes one, for example by lakestream sql:"),
    el("pre", {}, el("code", {}, FIRST_STREAM)),
  ];
}

function legend() {
  const kinds = [["table", "table"], ["super-table", "super table"], ["stream", "stream"], ["continuous-query", "continuous query"], ["output", "output"]];
  return el("p", { class: "legend" }, ...kinds.map(([kind, text]) => el("span", { class: `key key-${kind}` }, text)));
}
