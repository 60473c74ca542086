// All streams and their lineage.

import { get } from "./api.js";
import { cell, el, note, section, table } from "./dom.js";
import { ago, count, duration, instant, plural } from "./format.js";
import { picture } from "./lineage.js";

const COLUMNS = ["Stream", "State", "Trigger", "Lag", "Last tick", "Rows/s", "Rows in", "Rows out", "Late", "Next due"];
const FIRST_STREAM = `CREATE STREAM hourly INTERVAL(1h) SLIDING(1h)
  FROM power INTO power_hourly
  AS SELECT _twstart AS hour, avg(watts) AS mean FROM %%trows`;

export function nameOf(stream) {
  return `${stream.database}.${stream.name}`;
}

export function linkTo(stream) {
  return `#/streams/${encodeURIComponent(stream.database)}/${encodeURIComponent(stream.name)}`;
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
  if (stream.retry_at) found.push(`tries again at ${instant(stream.retry_at)}`);
  return found;
}

export function lag(stream) {
  if (!stream.lag) return "–";
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
    [this.streams, this.lineage] = await Promise.all([get("/api/streams"), get("/api/lineage")]);
    this.draw();
  }

  async refresh() {
    const before = JSON.stringify(this.streams.map(nameOf));
    this.streams = await get("/api/streams");
    if (JSON.stringify(this.streams.map(nameOf)) !== before) this.lineage = await get("/api/lineage");
    this.draw();
  }

  hears() {
    return true;
  }

  draw() {
    if (!this.streams.length) {
      this.main.replaceChildren(el("h1", {}, "Streams"), ...nothing());
      return;
    }
    const rows = this.streams.map(row);
    // Whoever stands in the table, or has scrolled it, stays there.
    const names = JSON.stringify([this.streams.map(nameOf), this.lineage]);
    if (names === this.shown && this.body?.isConnected) this.update(rows);
    else this.build(rows);
    this.shown = names;
    this.summary.textContent = summary(this.streams);
    this.drawLineage();
  }

  drawLineage() {
    const statuses = this.streams.map((stream) => [nameOf(stream), stream.status]);
    const key = JSON.stringify([this.lineage, statuses]);
    if (this.graph.dataset.shown === key) return;
    this.graph.dataset.shown = key;
    this.graph.replaceChildren(picture(this.lineage, new Map(statuses)));
  }

  build(rows) {
    this.summary = el("p", { class: "note" });
    this.graph = el("div", { class: "scroll picture", tabindex: "0", role: "region", "aria-label": "Lineage" });
    const holder = table("Streams", COLUMNS, rows);
    holder.classList.add("streams");
    this.body = holder.querySelector("tbody");
    label(this.body);
    this.main.replaceChildren(el("h1", {}, "Streams"), this.summary, holder, section("Lineage", this.graph, legend()));
  }

  update(rows) {
    rows.forEach((values, number) => {
      const line = this.body.rows[number];
      values.slice(1).forEach((value, place) => line.cells[place + 1].replaceWith(cell(value)));
    });
    label(this.body);
  }
}

// On a narrow screen each row is a card, whose cells carry the names of their columns.
function label(body) {
  for (const line of body.rows) [...line.cells].forEach((one, place) => one.setAttribute("data-column", COLUMNS[place]));
}

function row(stream) {
  const listed = [...remarks(stream), ...(stream.last_error ? [stream.last_error] : [])];
  return [
    el("a", { href: linkTo(stream), class: "name" }, nameOf(stream)),
    el("span", {}, state(stream), ...listed.map((text) => el("small", { class: stream.last_error === text ? "wrong" : "" }, text))),
    stream.trigger,
    lag(stream),
    el("span", { title: instant(stream.last_tick_at) }, ago(stream.last_tick_at)),
    stream.rows_per_second ? Math.round(stream.rows_per_second * 10) / 10 : 0,
    stream.rows_in,
    stream.rows_out,
    stream.late,
    stream.next_due_at ? instant(stream.next_due_at) : "–",
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
  const kinds = [["table", "table"], ["super-table", "super table"], ["stream", "stream"], ["output", "output"]];
  return el("p", { class: "legend" }, ...kinds.map(([kind, text]) => el("span", { class: `key key-${kind}` }, text)));
}
