// Numbers, durations and instants as text; instants in the lake's time zone.

// What stands where there is nothing to say.
export const NOTHING = "–";

let zone = "UTC";

export function useZone(name) {
  zone = name;
}

export function lakeZone() {
  return zone;
}

// A number with at most some digits behind the point.
export function count(number, digits = 1) {
  return number === null || number === undefined ? NOTHING : number.toLocaleString("en", { maximumFractionDigits: digits });
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NOTHING;
  if (seconds < 1) return whole(Math.round(seconds * 1000), "ms");
  if (seconds < 60) return whole(count(seconds), "s");
  if (seconds < 3600) return `${whole(Math.floor(seconds / 60), "min")} ${whole(Math.floor(seconds % 60), "s")}`;
  if (seconds < 86400) return `${whole(Math.floor(seconds / 3600), "h")} ${whole(Math.floor((seconds % 3600) / 60), "min")}`;
  return `${whole(Math.floor(seconds / 86400), "d")} ${whole(Math.floor((seconds % 86400) / 3600), "h")}`;
}

// A number and its unit, between which no line ends.
function whole(number, unit) {
  return `${number}\u00a0${unit}`;
}

// An instant (ISO 8601 text) as date and time; an open end of a range is null.
export function instant(text) {
  if (!text) return NOTHING;
  const parts = { dateStyle: "short", timeStyle: "medium", timeZone: zone };
  return new Intl.DateTimeFormat("sv", parts).format(new Date(text));
}

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

// How long ago an instant was, in its largest unit.
export function ago(text) {
  if (!text) return "never";
  const seconds = (Date.now() - new Date(text)) / 1000;
  const found = UNITS.find(([length]) => seconds >= length);
  return found ? `${count(Math.floor(seconds / found[0]))} ${found[1]} ago` : "now";
}

export function plural(number, noun, several = `${noun}s`) {
  return whole(count(number), number === 1 ? noun : several);
}

// The order of texts as people sort them, numbers in them by their size: hourly_2, hourly_10.
export const compared = new Intl.Collator("en", { numeric: true }).compare;
