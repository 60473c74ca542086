// Tables and the streams between them, from left to right: each stands right of all that it reads.

import { svg } from "./dom.js";

const ROW = 54;
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
  const label = `${lineage.tables.length} tables and ${lineage.streams.length} streams`;
  const drawn = svg(
    "svg",
    { class: "lineage", viewBox: `-1 -1 ${width} ${height}`, width, height, role: "group", "aria-label": label },
    arrowHead(),
  );
  for (const node of nodes.values()) for (const from of node.from) drawn.append(edge(nodes.get(from), node));
  for (const node of nodes.values()) drawn.append(box(node, statuses, highlight));
  return drawn;
}

// Only what a stream reads and writes.
export function around(lineage, name) {
  const streams = lineage.streams.filter((stream) => stream.name === name);
  const touched = new Set(streams.flatMap((stream) => [...stream.reads, stream.writes]));
  return { tables: lineage.tables.filter((table) => touched.has(table.name)), streams };
}

function nodesOf(lineage) {
  const nodes = new Map();
  for (const table of lineage.tables) {
    nodes.set(`table ${table.name}`, { name: table.name, kind: table.kind, isStream: false, from: [] });
  }
  for (const stream of lineage.streams) {
    const key = `stream ${stream.name}`;
    const reads = stream.reads.map((table) => `table ${table}`).filter((table) => nodes.has(table));
    nodes.set(key, { name: stream.name, kind: "stream", isStream: true, from: reads });
    nodes.get(`table ${stream.writes}`)?.from.push(key);
  }
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
  const status = node.isStream ? (statuses.get(node.name) ?? "") : "";
  const kind = node.isStream ? `stream node-${status.toLowerCase()}` : node.kind.replace(" ", "-");
  const chosen = node.isStream && node.name === highlight ? " node-chosen" : "";
  const shape = { x: node.x, y: node.y, width: node.width, height: HEIGHT, rx: node.isStream ? HEIGHT / 2 : 5 };
  const label = node.isStream ? `stream ${node.name}${status && `, ${status}`}` : `${node.kind} ${node.name}`;
  const drawn = svg(
    "g",
    { class: `node node-${kind}${chosen}` },
    svg("title", {}, label),
    svg("rect", shape),
    svg("text", { x: node.x + node.width / 2, y: node.y + HEIGHT / 2 + 4.5, "text-anchor": "middle" }, node.label),
  );
  if (!node.isStream) return drawn;
  const [database, ...rest] = node.name.split(".");
  const href = `#/streams/${encodeURIComponent(database)}/${encodeURIComponent(rest.join("."))}`;
  return svg("a", { href, "aria-label": label }, drawn);
}
