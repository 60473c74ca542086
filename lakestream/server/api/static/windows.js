// The newest windows of a stream over event time: fired, fired again, and what is open still.

import { el, note, svg, table } from "./dom.js";
import { NOTHING, compared, count, instant, plural } from "./format.js";
import { groupOf, seconds } from "./rows.js";

const GROUPS = 8;
const WINDOWS = 40;
const LANES = 4;
const BAR = 12;
const LANE = 15;
const LABEL = 26;
const STATES = { fired: "fired", again: "fired again", open: "open" };

// Draw the windows of the newest rows; `newest` is the newest event time of the source.
export function timeline(output, newest) {
  if (output.error || !output.rows.length) return [note("No window has fired yet.")];
  if (output.windows.every((window) => window === null)) return [note("The rows of this table do not say which windows they are of.")];
  const groups = windowsOf(output, newest);
  const all = groups.flatMap(({ windows }) => windows);
  const number = (state) => all.filter((window) => window.state === state).length;
  const said = [plural(number("fired") + number("again"), "window"), `${count(number("again"))} fired again of late`, number("open") ? `open since ${instant(all.find((window) => window.state === "open").start)}` : "none open"];
  const hidden = groups.hidden ? note(`${GROUPS} of ${GROUPS + groups.hidden} groups are drawn.`) : null;
  const keys = Object.entries(STATES).map(([state, text]) => el("span", { class: `key key-${state}` }, text));
  return [note(`${said.join(", ")}.`), drawn(groups, said.join(", ")), hidden, el("p", { class: "legend" }, ...keys), listed(groups)].filter(Boolean);
}

// By group the newest windows, each once, and the event time behind them that no window has taken yet.
function windowsOf({ columns, rows, windows }, newest) {
  const nameOf = groupOf(columns, rows);
  const groups = new Map();
  rows.forEach((row, place) => {
    const window = windows[place];
    if (window === null) return;
    const name = nameOf(row);
    if (!groups.has(name)) groups.set(name, new Map());
    const key = `${window.start} ${window.end}`;
    const known = groups.get(name).get(key);
    if (known) known.rows += 1;
    else groups.get(name).set(key, { ...window, state: window.again ? "again" : "fired", rows: 1 });
  });
  const found = [...groups].sort(([one], [other]) => compared(one, other));
  const shown = found.slice(0, GROUPS).map(([name, byKey]) => ({ name, windows: newestOf([...byKey.values()], newest) }));
  shown.hidden = found.length - shown.length;
  return shown;
}

function newestOf(windows, newest) {
  windows.sort((one, other) => seconds(one.start) - seconds(other.start));
  const kept = windows.slice(-WINDOWS);
  const last = kept.reduce((latest, window) => (seconds(window.end) > seconds(latest) ? window.end : latest), kept[0].end);
  const isOpen = newest && seconds(newest) >= seconds(last);
  return isOpen ? [...kept, { start: last, end: newest, state: "open", rows: null }] : kept;
}

function drawn(groups, label) {
  const holder = el("div", { class: "windows", role: "img", "aria-label": `Windows: ${label}` });
  new ResizeObserver(() => holder.clientWidth && holder.replaceChildren(bars(groups, holder.clientWidth))).observe(holder);
  return holder;
}

function bars(groups, width) {
  const all = groups.flatMap(({ windows }) => windows);
  const low = Math.min(...all.map((window) => seconds(window.start)));
  const high = Math.max(...all.map((window) => seconds(window.end)), low + 1);
  const x = (text) => ((seconds(text) - low) / (high - low)) * (width - 4) + 2;
  const parts = [];
  let y = LABEL;
  for (const { name, windows } of groups) {
    if (name) {
      parts.push(svg("text", { x: 2, y: y + 4, class: "group" }, name));
      y += 10;
    }
    const lanes = laid(windows);
    for (const window of windows) {
      const begin = x(window.start);
      const size = { x: begin, y: y + window.lane * LANE, width: Math.max(2, x(window.end) - begin - 1), height: BAR, rx: 2 };
      parts.push(svg("rect", { ...size, class: `window window-${window.state}` }, svg("title", {}, told(window))));
    }
    y += lanes * LANE + 12;
  }
  const end = (text, at, anchor) => svg("text", { x: at, y: 10, class: "group", "text-anchor": anchor }, text);
  const shown = (at) => instant(new Date(at * 1000).toISOString());
  return svg("svg", { width, height: y, viewBox: `0 0 ${width} ${y}`, "aria-hidden": "true" }, end(shown(low), 2, "start"), end(shown(high), width - 2, "end"), ...parts);
}

// Put windows that overlap below each other, as far as there is room; return how many lanes there are.
function laid(windows) {
  const ends = [];
  for (const window of windows) {
    const free = ends.findIndex((end) => end <= seconds(window.start));
    window.lane = free >= 0 ? free : Math.min(ends.length, LANES - 1);
    ends[window.lane] = seconds(window.end);
  }
  return Math.max(1, ends.length);
}

function told(window) {
  return `${instant(window.start)} to ${instant(window.end)}: ${STATES[window.state]}`;
}

function listed(groups) {
  const rows = groups.flatMap(({ name, windows }) =>
    windows.map((window) => [name || NOTHING, instant(window.start), instant(window.end), window.rows ?? NOTHING, STATES[window.state]]),
  );
  const holder = table("Windows", ["Group", "Start", "End", "Rows", "State"], rows.reverse());
  holder.classList.add("tall");
  return el("details", {}, el("summary", {}, "As a table"), holder);
}
