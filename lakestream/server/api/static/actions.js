// What can be done to a stream, each after a question.

import { post, streamPath } from "./api.js";
import { el } from "./dom.js";
import { instant, lakeZone } from "./format.js";
import { nameOf } from "./overview.js";

// The buttons of a stream; `done` hears what was done.
export function buttons(stream, done) {
  const runs = stream.status === "Running" || stream.status === "Retrying";
  const stop = action("Stop", "It stops after the running tick, and goes on from there when it is started.", "stop");
  const start = action("Start", "It goes on from where it stopped.", "start");
  const recalculate = recalculation();
  const verify = action(
    "Verify",
    "Its output is compared with the batch evaluation of its statement, which may take a while.",
    "verify",
    () => range(false),
  );
  const found = (answer) => done(`${answer.equal_rows} of ${answer.expected_rows} rows equal`);
  return [
    ...[runs ? stop : start, recalculate].map((one) => button(one, stream, (answer) => done(answer.message))),
    button(verify, stream, found),
  ];
}

// The button of what leads out of a state that only RESYNC does.
export function resync(stream, done) {
  const one = action(
    "Resync",
    "It begins anew from the source as it is: all its windows are computed again, and replaced in the output.",
    "recalculate",
    () => [],
    { resync: true },
  );
  return button(one, stream, (answer) => done(answer.message));
}

function button(one, stream, done) {
  return el("button", { type: "button", click: () => ask(one, stream, done) }, one.title);
}

function action(title, description, path, fields = () => [], body = {}) {
  return { title, description, path, fields, body };
}

// Ask for a recalculation of a range of instants.
export function recalculateRange(stream, from, to, done) {
  const [low, high] = [Math.floor(from), Math.ceil(to)].map((seconds) => instant(new Date(seconds * 1000).toISOString()).replace(" ", "T"));
  const one = recalculation(() => range(true, low, high));
  ask(one, stream, (answer) => done(answer.message));
}

function recalculation(fields = range) {
  return action(
    "Recalculate",
    "Windows that overlap the range are computed again from the source as it is, and replaced in the output.",
    "recalculate",
    fields,
  );
}

function range(isNeeded = true, low = "", high = "") {
  const zone = el("p", { class: "note" }, `Times are in the lake's time zone, ${lakeZone()}.`);
  const from = isNeeded ? "From (included)" : "From (included); empty: the beginning";
  return [field(from, "from", isNeeded, low), field("To (not included); empty: all there is", "to", false, high), zone];
}

function field(label, name, required, value) {
  return el("label", {}, label, el("input", { type: "datetime-local", step: "1", name, required, value }));
}

function ask(one, stream, done) {
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const confirm = el("button", { type: "submit", class: "primary" }, one.title);
  const dialog = el(
    "dialog",
    { "aria-labelledby": "question", close: () => dialog.remove() },
    el(
      "form",
      { submit: (event) => send(event) },
      el("h2", { id: "question" }, `${one.title} ${nameOf(stream)}?`),
      el("p", {}, one.description),
      ...one.fields(),
      problem,
      el("div", { class: "buttons" }, el("button", { type: "button", click: () => dialog.close() }, "Cancel"), confirm),
    ),
  );
  const send = async (event) => {
    event.preventDefault();
    confirm.disabled = true;
    const given = [...new FormData(event.target)].filter(([, value]) => value);
    const body = { ...one.body, ...Object.fromEntries(given.map(([name, value]) => [name, value.replace("T", " ")])) };
    try {
      const answer = await post(streamPath(stream, `/${one.path}`), body);
      dialog.close();
      done(answer);
    } catch (error) {
      problem.textContent = [error.message, error.hint].filter(Boolean).join(". ");
      problem.hidden = false;
      confirm.disabled = false;
    }
  };
  document.body.append(dialog);
  dialog.showModal();
}
