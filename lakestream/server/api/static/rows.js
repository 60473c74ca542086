// Rows of a result or an output, as a table and as lines over time.

import { plot } from "./charts.js";
import { el, note } from "./dom.js";
import { compared, instant } from "./format.js";

const LINES = 8;
const NUMBERS = /^(u?int|float|double|half|decimal)/;
const FRACTIONS = /^(float|double|half)/;
const TIMES = /^(timestamp|date)/;

export function seconds(text) {
  return new Date(text).getTime() / 1000;
}

export function valueOf(value, column) {
  if (value === null) return el("i", { class: "null" }, "NULL");
  if (column.type.startsWith("timestamp")) return instant(value);
  return typeof value === "object" ? JSON.stringify(value) : typeof value === "boolean" ? String(value) : value;
}

// The place of the time that rows are plotted by, and those of the numbers; null where there is no such plot.
export function plottable(columns) {
  const time = columns.findIndex((column) => TIMES.test(column.type));
  const measures = columns.flatMap((column, place) => (NUMBERS.test(column.type) ? [place] : []));
  return time < 0 || !measures.length ? null : { time, measures };
}

// The number that is plotted: the one that was chosen, else the first one with fractions.
export function measureOf(columns, measures, chosen) {
  const first = measures.find((place) => FRACTIONS.test(columns[place].type)) ?? measures[0];
  return measures.includes(chosen) ? chosen : first;
}

// A number column over time, a line for each group, with what chooses another column.
export function plotted(title, { columns, rows }, found, measure, change, how = {}) {
  const chosen = measureOf(columns, found.measures, measure);
  const { times, series, hidden } = lines(columns, rows, found.time, chosen);
  const choices = found.measures.map((place) => el("option", { value: place, selected: place === chosen }, columns[place].name));
  const chooser = el("label", { class: "chooser" }, "Column", el("select", { change: (event) => change(Number(event.target.value)) }, ...choices));
  return [
    found.measures.length > 1 ? chooser : null,
    plot(`${columns[chosen].name} of ${title}`, times, series, how),
    hidden ? note(`${LINES} of ${LINES + hidden} groups are plotted.`) : null,
  ].filter((part) => part !== null);
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

// What says which group a row is of, as a text; empty where there is one group only.
export function groupOf(columns, rows) {
  const texts = dividing(columns, rows);
  return (row) => texts.map((place) => row[place]).join(" · ");
}

// A line per group: the values of one column over time.
function lines(columns, rows, time, measure) {
  const nameOf = groupOf(columns, rows);
  const groups = new Map();
  for (const row of rows) {
    const group = nameOf(row) || columns[measure].name;
    if (!groups.has(group)) groups.set(group, new Map());
    groups.get(group).set(seconds(row[time]), typeof row[measure] === "number" ? row[measure] : null);
  }
  const shown = [...groups].sort(([one], [other]) => compared(one, other)).slice(0, LINES);
  const times = [...new Set(shown.flatMap(([, values]) => [...values.keys()]))].sort((one, other) => one - other);
  const series = shown.map(([label, values]) => ({ label, values: times.map((at) => values.get(at)) }));
  return { times, series, hidden: groups.size - shown.length };
}
