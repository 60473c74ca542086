// The tables of the lake: what they are, which streams and continuous queries read and write them.

import { get } from "./api.js";
import { cards, el, note, table } from "./dom.js";
import { plural } from "./format.js";
import { quoted, tablesOf } from "./names.js";
import { written } from "./lineage.js";
import { linkOf, QUERIES } from "./links.js";

const COLUMNS = ["Table", "Kind", "Written by", "Read by"];
const LISTED = 6;
const chosen = { words: "", subtables: false };

export class TablesPage {
  title = "Tables – lakestream";

  constructor(main) {
    this.main = main;
  }

  async load() {
    [this.tables, this.lineage] = await Promise.all([tablesOf(), get("/api/lineage")]);
    this.build();
    this.fill();
  }

  async refresh() {
    [this.tables, this.lineage] = await Promise.all([tablesOf(), get("/api/lineage")]);
    this.fill();
  }

  hears() {
    return false;
  }

  build() {
    const find = (event) => {
      chosen.words = event.target.value;
      this.fill();
    };
    const subtables = (event) => {
      chosen.subtables = event.target.checked;
      this.fill();
    };
    this.summary = el("p", { class: "note" });
    this.holder = el("div", {});
    this.main.replaceChildren(
      el("h1", {}, "Tables"),
      this.summary,
      el(
        "div",
        { class: "finding", role: "search" },
        el("label", {}, "Find", el("input", { type: "search", value: chosen.words, placeholder: "name, super table, stream", input: find })),
        el("label", {}, el("input", { type: "checkbox", checked: chosen.subtables, change: subtables }), "Subtables"),
      ),
      this.holder,
    );
  }

  fill() {
    const words = chosen.words.toLowerCase().split(/\s+/).filter(Boolean);
    const listed = this.tables
      .filter((one) => chosen.subtables || one.kind !== "subtable")
      .map((one) => ({ ...one, ...this.streams(one) }))
      .filter((one) => words.every((word) => [nameOf(one), one.of, ...[...one.readers, ...one.writers].map(({ name }) => name)].join(" ").toLowerCase().includes(word)));
    this.summary.textContent = `${plural(this.tables.filter((one) => one.kind !== "subtable").length, "table")}, ${plural(this.tables.filter((one) => one.kind === "subtable").length, "subtable")}`;
    const rows = listed.map((one) => [
      el("a", { href: linkToRows(one), class: "name", title: "its rows" }, nameOf(one)),
      one.of ? `${one.kind} of ${one.of}` : one.kind,
      links(one.writers),
      links(one.readers),
    ]);
    this.holder.replaceChildren(rows.length ? cards(table("Tables", COLUMNS, rows), COLUMNS, 2) : note("No table is like that."));
    this.holder.firstChild.classList.add("streams");
  }

  streams({ database, name, of }) {
    const names = new Set([`${database}.${name}`, ...(of ? [`${database}.${of}`] : [])]);
    const { streams, queries } = this.lineage;
    const linked = [...streams.map((one) => ({ ...one, href: linkOf(one.name) })), ...queries.map((one) => ({ ...one, href: QUERIES }))];
    return {
      writers: linked.filter((one) => written(one).some((table) => names.has(table))),
      readers: linked.filter((one) => one.reads.some((read) => names.has(read))),
    };
  }
}

function nameOf(one) {
  return `${one.database}.${one.name}`;
}

function linkToRows(one) {
  return `#/sql/${encodeURIComponent(`SELECT * FROM ${quoted(one.database)}.${quoted(one.name)} LIMIT 100`)}`;
}

// The streams and queries of a table: the first ones, and the others where somebody opens them.
function links(linked) {
  const listed = (some) => some.flatMap(({ name, href }, place) => [place ? ", " : "", el("a", { href }, name)]);
  const [first, others] = [linked.slice(0, LISTED), linked.slice(LISTED)];
  return el(
    "span",
    {},
    ...listed(first),
    others.length ? el("details", {}, el("summary", {}, `and ${plural(others.length, "other")}`), ...listed(others)) : null,
  );
}
