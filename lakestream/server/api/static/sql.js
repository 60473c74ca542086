// A box for statements: names are completed, the result is a table and, where it has a time, a chart.

import { el, note, section, table } from "./dom.js";
import { count, duration } from "./format.js";
import { columnsOf, run, streamsOf, tablesOf } from "./names.js";
import { plottable, plotted, valueOf } from "./rows.js";

const LISTED = 200;
const SUGGESTED = 8;
const DIALECTS = ["tdengine", "iotdb", "ekuiper"];
const WORD = /[\p{L}\p{N}_.`]+$/u;
const WORDS = (
  "SELECT FROM WHERE GROUP BY ORDER BY HAVING LIMIT INSERT INTO VALUES UPDATE DELETE SHOW STREAMS TABLES STABLES DATABASES DESCRIBE " +
  "CREATE STREAM TABLE STABLE DATABASE INTERVAL SLIDING SESSION STATE_WINDOW EVENT_WINDOW COUNT_WINDOW PERIOD CALENDAR PARTITION " +
  "STREAM_OPTIONS EXPECT CHECK NOTIFY FILL_HISTORY WATERMARK EXACT EXPLAIN VERIFY RECALCULATE START STOP DROP MATERIALIZED VIEW " +
  "_twstart _twend %%trows %%tbname count sum avg min max"
).split(" ");
// What was written stays while one looks at something else.
const kept = { text: "", dialect: DIALECTS[0] };

export class SqlPage {
  title = "SQL – lakestream";

  constructor(main, text) {
    this.main = main;
    if (text) kept.text = text;
    this.names = [];
    this.running = null;
  }

  async load() {
    this.build();
    // Who may see only some of it is helped with that.
    const found = await Promise.allSettled([tablesOf(), streamsOf()]);
    this.names = found.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
  }

  async refresh() {}

  hears() {
    return false;
  }

  build() {
    this.box = el("textarea", {
      id: "statements",
      rows: 7,
      spellcheck: "false",
      autocapitalize: "off",
      "aria-autocomplete": "list",
      "aria-controls": "suggestions",
      "aria-describedby": "keys",
      input: () => this.suggest(),
      keydown: (event) => this.press(event),
      blur: () => this.close(),
    });
    this.box.value = kept.text;
    this.list = el("ul", { id: "suggestions", role: "listbox", "aria-label": "Suggestions", class: "suggestions", hidden: true });
    const choices = DIALECTS.map((name) => el("option", { selected: name === kept.dialect }, name));
    this.button = el("button", { type: "submit", class: "primary" }, "Run");
    this.cancel = el("button", { type: "button", hidden: true, click: () => this.running?.abort() }, "Cancel");
    this.answer = el("div", { role: "status" });
    this.result = el("div", {});
    const dialect = el("select", { change: (event) => (kept.dialect = event.target.value) }, ...choices);
    const form = el(
      "form",
      { submit: (event) => this.run(event) },
      el("label", { for: "statements", class: "unseen" }, "Statements"),
      this.box,
      this.list,
      el("div", { class: "finding" }, el("label", {}, "Dialect", dialect), el("div", { class: "buttons" }, this.cancel, this.button)),
      el("p", { id: "keys", class: "note" }, "Ctrl+Enter runs; names are completed as you write: arrows choose, Tab or Enter takes, Escape closes."),
    );
    this.main.replaceChildren(el("h1", {}, "SQL"), section("Statements", form), this.answer, this.result);
  }

  async run(event) {
    event?.preventDefault();
    kept.text = this.box.value;
    if (this.running || !kept.text.trim()) return;
    this.running = new AbortController();
    this.waits(true);
    const begun = performance.now();
    try {
      const answer = await run(kept.text, { dialect: kept.dialect, yes: false }, this.running.signal);
      this.show(answer, (performance.now() - begun) / 1000);
    } catch (error) {
      this.fail(error);
    } finally {
      this.running = null;
      this.waits(false);
    }
  }

  waits(isRunning) {
    this.button.disabled = isRunning;
    this.cancel.hidden = !isRunning;
    if (isRunning) this.answer.replaceChildren(note("Running …"));
  }

  show(answer, took) {
    const rows = `${count(answer.rows.length)}${answer.truncated ? " of more" : ""} ${answer.rows.length === 1 ? "row" : "rows"}`;
    const said = [answer.message, answer.columns.length ? rows : null, duration(took)].filter(Boolean).join(" · ");
    this.answer.replaceChildren(note(said));
    this.found = { columns: answer.columns.map((name, place) => ({ name, type: answer.types[place] })), rows: answer.rows };
    this.measure = null;
    this.drawResult();
  }

  drawResult() {
    const { columns, rows } = this.found;
    if (!columns.length) {
      this.result.replaceChildren();
      return;
    }
    const shown = rows.slice(0, LISTED).map((values) => values.map((value, place) => valueOf(value, columns[place])));
    const more = rows.length > LISTED ? note(`The first ${LISTED} of ${count(rows.length)} rows are listed.`) : null;
    const listed = section("Result", ...[table("Result", columns.map((column) => column.name), shown), more].filter(Boolean));
    listed.querySelector(".scroll").classList.add("tall");
    const found = rows.length > 1 ? plottable(columns) : null;
    const change = (place) => {
      this.measure = place;
      this.drawResult();
      this.result.querySelector("select").focus();
    };
    const chart = found ? [section("Chart", ...plotted("the result", this.found, found, this.measure, change))] : [];
    this.result.replaceChildren(listed, ...chart);
  }

  fail(error) {
    if (error.name === "AbortError") {
      this.answer.replaceChildren(note("Cancelled."));
      return;
    }
    const shown = [el("p", {}, error.message), pointed(kept.text, error.place), error.hint ? el("p", {}, error.hint) : null, error.code ? el("small", {}, error.code) : null];
    this.answer.replaceChildren(el("div", { class: "problem", role: "alert" }, ...shown.filter(Boolean)));
    this.result.replaceChildren();
  }

  // --- completion ---

  async suggest() {
    kept.text = this.box.value;
    const word = this.word();
    const found = word ? await this.candidates(word) : [];
    if (word !== this.word()) return; // somebody went on writing
    this.offered = found.slice(0, SUGGESTED);
    this.chosen = 0;
    this.offer();
  }

  word() {
    return WORD.exec(this.box.value.slice(0, this.box.selectionStart))?.[0] ?? "";
  }

  async candidates(word) {
    const text = this.box.value.toLowerCase();
    const tables = this.names.filter((one) => one.kind !== "stream" && text.includes(one.name.toLowerCase()));
    const columns = (await Promise.all(tables.slice(0, 6).map((one) => columnsOf(one.database, one.name)))).flat();
    const named = this.names.flatMap(({ database, name }) => (database === "main" ? [name, `main.${name}`] : [`${database}.${name}`]));
    const begun = word.toLowerCase();
    const all = [...new Set([...columns, ...named, ...WORDS])];
    return all.filter((name) => name.toLowerCase().startsWith(begun) && name.length > begun.length);
  }

  offer() {
    const isOpen = this.offered.length > 0;
    this.list.hidden = !isOpen;
    const option = (name, place) =>
      el("li", { role: "option", id: `suggestion-${place}`, "aria-selected": String(place === this.chosen), mousedown: (event) => this.take(place, event) }, name);
    this.list.replaceChildren(...this.offered.map(option));
    if (isOpen) this.box.setAttribute("aria-activedescendant", `suggestion-${this.chosen}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  press(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      this.close();
      this.run(event);
      return;
    }
    if (this.list.hidden) return;
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) {
      this.chosen = (this.chosen + steps[event.key] + this.offered.length) % this.offered.length;
      this.offer();
    } else if (event.key === "Escape") this.close();
    else if (event.key === "Tab" || event.key === "Enter") this.take(this.chosen, event);
    else return;
    event.preventDefault();
  }

  take(place, event) {
    event.preventDefault();
    const end = this.box.selectionStart;
    this.box.setRangeText(this.offered[place], end - this.word().length, end, "end");
    kept.text = this.box.value;
    this.close();
  }

  close() {
    this.offered = [];
    this.offer();
  }
}

// The line that is wrong, with a mark below the place.
function pointed(text, place) {
  if (!place) return null;
  const line = text.split("\n")[place.line - 1] ?? "";
  return el("pre", {}, el("code", {}, `${line}\n${" ".repeat(Math.max(0, place.column - 1))}^`));
}
