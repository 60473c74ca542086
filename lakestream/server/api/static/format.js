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

export function count(number) {
  return number === null || number === undefined ? NOTHING : number.toLocaleString("en", { maximumFractionDigits: 1 });
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NOTHING;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${count(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

// An instant (ISO 8601 text) as date and time; an open end of a range is null.
export function instant(text) {
  if (!text) return NOTHING;
  const parts = { dateStyle: "short", timeStyle: "medium", timeZone: zone };
  return new Intl.DateTimeFormat("sv", parts).format(new Date(text));
}

export function ago(text) {
  if (!text) return "never";
  const seconds = (Date.now() - new Date(text)) / 1000;
  return seconds < 1 ? "now" : `${duration(Math.floor(seconds))} ago`;
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}
