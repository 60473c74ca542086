// Tables, and the streams and continuous queries between them, from left to right: each stands right of all
// that it reads.

import { el, svg } from "./dom.js";
import { compared, plural } from "./format.js";
import { linkOf, QUERIES } from "./links.js";

const ROW = 46;
const HEIGHT = 34;
const GAP = 56;
const CHARACTER = 7.4;
const PADDING = 14;
const LONGEST = 34;

// Draw the lineage; `streams` says which status each stream has, `highlight` names one stream.
export function picture(lineage, statuses, highlight = null) {
  const nodes = nodesOf(lineage);
  place(nodes);
  const width = Math.max(...[...nodes.values()].map((node) => node.x + node.width)) + 2;
  const height = Math.max(...[...nodes.values()].map((node) => node.y + HEIGHT)) + 2;
  const queries = lineage.queries.length ? ` and ${plural(lineage.queries.length, "continuous query", "continuous queries")}` : "";
  const label = `${plural(lineage.tables.length, "table")}, ${plural(lineage.streams.length, "stream")}${queries}`;
  const drawn = svg(
    "svg",
    { class: "lineage", viewBox: `-1 -1 ${width} ${height}`, width, height, role: "group", "aria-label": label },
    arrowHead(),
  );
  for (const node of nodes.values()) for (const from of node.from) drawn.append(edge(nodes.get(from), node));
  for (const node of nodes.values()) drawn.append(box(node, statuses, highlight));
  return drawn;
}

// A stream with all that leads to it, and all that goes on from it.
export function around(lineage, name) {
  const start = lineage.streams.find((stream) => stream.name === name);
  const found = start ? new Set([...reached(lineage, start, true), ...reached(lineage, start, false)]) : new Set();
  const touched = new Set([...found].flatMap((one) => [...one.reads, ...written(one)]));
  return {
    tables: lineage.tables.filter((table) => touched.has(table.name)),
    streams: lineage.streams.filter((stream) => found.has(stream)),
    queries: lineage.queries.filter((query) => found.has(query)),
  };
}

function reached(lineage, start, isDown) {
  const found = new Set([start]);
  for (const one of found) {
    for (const other of [...lineage.streams, ...lineage.queries]) {
      const [from, to] = isDown ? [one, other] : [other, one];
      if (written(from).some((table) => to.reads.includes(table))) found.add(other);
    }
  }
  return found;
}

// The tables that a stream writes, which is one or none, or a continuous query.
export function written({ writes }) {
  return Array.isArray(writes) ? writes : writes === null ? [] : [writes];
}

const ZOOMS = [0.25, 0.35, 0.5, 0.7, 1, 1.4, 2];
// Letters that are smaller are not read: what is wider then is scrolled.
const SMALLEST_FITTED = 0.7;
const ALL = "All streams";
// How it is looked at stays while one looks at something else.
const view = { focus: ALL, zoom: 1 };

// The lineage with what chooses a stream and how large it is.
export class LineageView {
  constructor() {
    const zoom = (title, label, work) => el("button", { type: "button", title, "aria-label": title, click: work }, label);
    this.choice = el("select", { change: (event) => this.focus(event.target.value) });
    this.holder = el("div", { class: "scroll picture", tabindex: "0", role: "region", "aria-label": "Lineage" });
    this.element = el(
      "div",
      {},
      el(
        "div",
        { class: "finding" },
        el("label", {}, "Around", this.choice),
        el("div", { class: "buttons" }, zoom("Smaller", "−", () => this.step(-1)), zoom("Larger", "+", () => this.step(1)), zoom("Fit the width", "Fit", () => this.fit())),
      ),
      this.holder,
    );
    this.shown = "";
  }

  show(lineage, statuses) {
    const key = JSON.stringify([lineage, [...statuses]]);
    if (this.shown === key) return;
    [this.shown, this.lineage, this.statuses] = [key, lineage, statuses];
    const names = [ALL, ...lineage.streams.map((stream) => stream.name).sort(compared)];
    if (!names.includes(view.focus)) view.focus = ALL;
    this.choice.replaceChildren(...names.map((name) => el("option", { selected: name === view.focus }, name)));
    this.draw();
  }

  draw() {
    const isAll = view.focus === ALL;
    const shown = isAll ? this.lineage : around(this.lineage, view.focus);
    this.picture = picture(shown, this.statuses, isAll ? null : view.focus);
    this.size = [Number(this.picture.getAttribute("width")), Number(this.picture.getAttribute("height"))];
    this.holder.replaceChildren(this.picture);
    this.scale(view.zoom);
  }

  focus(name) {
    view.focus = name;
    this.draw();
    if (name !== ALL) this.fit(SMALLEST_FITTED);
  }

  step(direction) {
    const place = ZOOMS.findLastIndex((zoom) => zoom <= view.zoom + 1e-9);
    this.scale(ZOOMS[Math.min(ZOOMS.length - 1, Math.max(0, place + direction))]);
  }

  // As large as there is room for, no smaller than `least`.
  fit(least = 0) {
    this.scale(Math.max(least, Math.min(1, (this.holder.clientWidth - 8) / this.size[0])));
  }

  scale(zoom) {
    view.zoom = zoom;
    this.picture.setAttribute("width", this.size[0] * zoom);
    this.picture.setAttribute("height", this.size[1] * zoom);
  }
}

function nodesOf(lineage) {
  const nodes = new Map();
  for (const table of lineage.tables) {
    nodes.set(`table ${table.name}`, { name: table.name, kind: table.kind, from: [] });
  }
  const add = (one, kind) => {
    const key = `${kind} ${one.name}`;
    const reads = one.reads.map((table) => `table ${table}`).filter((table) => nodes.has(table));
    nodes.set(key, { name: one.name, kind, from: reads });
    for (const table of written(one)) nodes.get(`table ${table}`)?.from.push(key);
  };
  for (const stream of lineage.streams) add(stream, "stream");
  for (const query of lineage.queries) add(query, "continuous query");
  for (const node of nodes.values()) {
    node.label = node.name.length > LONGEST ? `${node.name.slice(0, LONGEST - 1)}…` : node.name;
    node.width = node.label.length * CHARACTER + 2 * PADDING;
  }
  return nodes;
}

function place(nodes) {
  const columns = [];
  for (const [key, node] of nodes) {
    node.column = columnOf(key, nodes, new Set());
    (columns[node.column] ??= []).push(node);
  }
  let x = 0;
  for (const column of columns) {
    column.sort((one, other) => middle(one, nodes) - middle(other, nodes));
    let free = 0;
    for (const node of column) {
      // As near to what it reads as there is room.
      node.y = Math.max(free, Number.isFinite(middle(node, nodes)) ? middle(node, nodes) : 0);
      node.x = x;
      free = node.y + ROW;
    }
    x += Math.max(...column.map((node) => node.width)) + GAP;
  }
  besideReaders(columns[0] ?? [], nodes);
}

// What reads nothing stands beside the first that reads it, out of the ways from others.
function besideReaders(sources, nodes) {
  const readers = new Map(sources.map((source) => [source, []]));
  for (const node of nodes.values()) for (const from of node.from) readers.get(nodes.get(from))?.push(node.y);
  let free = 0;
  for (const source of sources) {
    const ys = readers.get(source);
    source.y = Math.max(free, ys.length ? Math.min(...ys) : 0);
    free = source.y + ROW;
  }
}

// The longest way from a node without a source; what a circle would add is left out.
function columnOf(key, nodes, seen) {
  const node = nodes.get(key);
  if (node.depth !== undefined) return node.depth;
  seen.add(key);
  const before = node.from.filter((from) => !seen.has(from)).map((from) => columnOf(from, nodes, seen) + 1);
  seen.delete(key);
  node.depth = Math.max(0, ...before);
  return node.depth;
}

function middle(node, nodes) {
  const ys = node.from.map((from) => nodes.get(from).y).filter((y) => y !== undefined);
  return ys.length ? ys.reduce((sum, y) => sum + y, 0) / ys.length : Infinity;
}

function arrowHead() {
  const marker = { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" };
  return svg("defs", {}, svg("marker", marker, svg("path", { d: "M0 0L8 4L0 8z", class: "arrow" })));
}

function edge(from, to) {
  const [x1, y1] = [from.x + from.width, from.y + HEIGHT / 2];
  const [x2, y2] = [to.x - 2, to.y + HEIGHT / 2];
  const bend = (x2 - x1) / 2;
  return svg("path", { class: "edge", d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, "marker-end": "url(#arrow)" });
}

function box(node, statuses, highlight) {
  const isStream = node.kind === "stream";
  const isTable = !isStream && node.kind !== "continuous query";
  const status = isStream ? (statuses.get(node.name) ?? "") : "";
  const kind = isStream ? `stream node-${status.toLowerCase()}` : node.kind.replace(" ", "-");
  const chosen = isStream && node.name === highlight ? " node-chosen" : "";
  const shape = { x: node.x, y: node.y, width: node.width, height: HEIGHT, rx: isTable ? 5 : HEIGHT / 2 };
  const label = `${node.kind} ${node.name}${status && `, ${status}`}`;
  const drawn = svg(
    "g",
    { class: `node node-${kind}${chosen}` },
    svg("title", {}, label),
    svg("rect", shape),
    svg("text", { x: node.x + node.width / 2, y: node.y + HEIGHT / 2 + 4.5, "text-anchor": "middle" }, node.label),
  );
  return isTable ? drawn : svg("a", { href: isStream ? linkOf(node.name) : QUERIES, "aria-label": label }, drawn);
}
