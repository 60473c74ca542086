// Plots over time, by uPlot, in the colours of the style sheet.

import { el, note } from "./dom.js";
import { count, instant, lakeZone } from "./format.js";

const COLOURS = 8;
const HEIGHT = 210;
const drawn = new Set();

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Plot series over instants (seconds); `bands` are ranges of instants to shade, `unit` ends each value, and
// `whole` is for what is counted, `select` hears of a range (instants) that is drawn over the plot.
export function plot(label, times, series, { unit = "", bands = [], bars = false, whole = false, select = null } = {}) {
  if (!times.length) return note("Nothing to show yet.");
  const holder = el("div", { class: "plot", role: "img", "aria-label": described(label, times, series, unit) });
  const draw = () => new uPlot(options(holder, series, { unit, bands, bars, whole, select }), [times, ...series.map((one) => one.values)], holder);
  const chart = { holder, draw, plotted: null };
  drawn.add(chart);
  new ResizeObserver(() => resize(chart)).observe(holder);
  return holder;
}

function resize(chart) {
  const width = chart.holder.clientWidth;
  if (!width) return;
  if (chart.plotted) chart.plotted.setSize({ width, height: HEIGHT });
  else chart.plotted = chart.draw();
}

// Plots know their colours from when they were drawn.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const chart of drawn) {
    if (!chart.holder.isConnected) drawn.delete(chart);
    else if (chart.plotted) {
      chart.plotted.destroy();
      chart.plotted = chart.draw();
    }
  }
});

function described(label, times, series, unit) {
  const last = series.map((one) => {
    const value = one.values.findLast((found) => found !== null && found !== undefined);
    return `${one.label} ${count(value)}${unit}`;
  });
  const at = (seconds) => instant(new Date(seconds * 1000).toISOString());
  return `${label}, from ${at(times[0])} to ${at(times.at(-1))}; last: ${last.join(", ")}`;
}

// How instants are written on the axis, by the distance of two ticks in seconds; the date where it changes.
const CLOCK = [
  [31536000, "{YYYY}", null, null, null, null, null, null, 1],
  [2419200, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [0.001, "{ss}.{fff}", "\n{YYYY}-{MM}-{DD} {HH}:{mm}", null, "\n{MM}-{DD} {HH}:{mm}", null, "\n{HH}:{mm}", null, 1],
];

// How many digits behind the point tell the ticks of an axis apart.
function digitsOf(ticks) {
  const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : 1;
  return Math.max(1, Math.ceil(-Math.log10(step) - 1e-9) + 1);
}

// Steps of an axis that counts.
const WHOLE = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8].flatMap((step) => [step, 2 * step, 5 * step]);

function options(holder, series, { unit, bands, bars, whole, select }) {
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
  const values = (_, ticks) => {
    const digits = digitsOf(ticks);
    return ticks.map((tick) => `${count(tick, digits)}${unit}`);
  };
  return {
    width: holder.clientWidth,
    height: HEIGHT,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), lakeZone()),
    legend: { live: false, show: series.length > 1 },
    cursor: { points: { size: 6 }, ...(select && { drag: { x: true, y: false, setScale: false } }) },
    plugins: [tip(series, unit)],
    hooks: { drawClear: [(chart) => shade(chart, bands)], ...(select && { setSelect: [(chart) => brushed(chart, select)] }) },
    axes: [{ ...axis, space: 84, values: CLOCK }, { ...axis, size: 64, values, ...(whole && { incrs: WHOLE }) }],
    series: [{}, ...series.map((one, number) => line(one, number, bars))],
    scales: { x: { range: ({ data: [times] }, low, high) => around(times, low, high) }, y: { range: (_, low, high) => span(low, high) } },
  };
}

function line(one, number, bars) {
  const stroke = colour(`--series-${(number % COLOURS) + 1}`);
  const shape = bars ? { paths: uPlot.paths.bars({ size: [0.7, 14, 2] }), fill: stroke, points: { show: false } } : { points: { size: 5 } };
  return { label: one.label, stroke, width: 2, spanGaps: true, ...shape };
}

// A single instant stands in a minute: by itself uPlot gives it years.
export function around(times, low, high) {
  return times.length === 1 || low === high ? [times[0] - 30, times[0] + 30] : [low, high];
}

// Zero belongs to what is never negative: half of a small number is not made to look like nothing.
function span(low, high) {
  if (low === null || high === null) return [0, 1];
  const bottom = Math.min(0, low);
  const top = high > bottom ? high : bottom + 1;
  return low > (high - low) * 3 ? [low - (high - low || 1) * 0.1, high + (high - low || 1) * 0.1] : [bottom, top + (top - bottom) * 0.06];
}

function brushed(chart, select) {
  const { left, width } = chart.select;
  if (width > 2) select(chart.posToVal(left, "x"), chart.posToVal(left + width, "x"));
}

function shade(chart, bands) {
  const { left, top, width, height } = chart.bbox;
  chart.ctx.save();
  chart.ctx.fillStyle = colour("--band");
  for (const [from, to] of bands) {
    const x1 = Math.max(left, chart.valToPos(from ?? -1e12, "x", true));
    const x2 = Math.min(left + width, chart.valToPos(to ?? 1e12, "x", true));
    if (x2 > x1) chart.ctx.fillRect(x1, top, x2 - x1, height);
  }
  chart.ctx.restore();
}

// The values under the pointer, in a box that follows it.
function tip(series, unit) {
  const box = el("div", { class: "tip" });
  const show = (chart) => {
    const { idx, left, top } = chart.cursor;
    box.hidden = idx === null || idx === undefined || left < 0;
    if (box.hidden) return;
    const at = el("b", {}, instant(new Date(chart.data[0][idx] * 1000).toISOString()));
    const lines = series
      .map((one, number) => [one.label, chart.data[number + 1][idx]])
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([label, value]) => el("div", {}, `${label} ${count(value)}${unit}`));
    box.replaceChildren(at, ...lines);
    const isRight = left > chart.over.clientWidth / 2;
    box.style.left = isRight ? "" : `${left + 12}px`;
    box.style.right = isRight ? `${chart.over.clientWidth - left + 12}px` : "";
    box.style.top = `${Math.min(top, HEIGHT / 2)}px`;
  };
  return { hooks: { init: [(chart) => chart.over.append(box)], setCursor: [show] } };
}
