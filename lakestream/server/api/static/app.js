// The page: which part of it is shown, and how it keeps up with the lake.

import { get, listen } from "./api.js";
import { el, note } from "./dom.js";
import { useZone } from "./format.js";
import { Overview } from "./overview.js";
import { SqlPage } from "./sql.js";
import { StreamPage } from "./stream.js";
import { TablesPage } from "./tables.js";

const PAUSE = 1000;
const POLL = 10000;
const main = document.getElementById("main");
const connection = document.getElementById("connection");

// The page that was asked for last: what comes late for another one is not shown.
let current = null;
let waiting = null;

function pageOf(hash) {
  const [, kind, database, name] = hash.split("/").map(decodeURIComponent);
  const holder = el("div");
  if (kind === "streams" && name) return new StreamPage(holder, database, name);
  if (kind === "tables") return new TablesPage(holder);
  return kind === "sql" ? new SqlPage(holder, database) : new Overview(holder);
}

// Say which part is shown, to the eye and to screen readers.
function mark(hash) {
  const part = `#/${hash.split("/")[1] ?? ""}`;
  for (const link of document.querySelectorAll("#parts a")) {
    const isHere = link.getAttribute("href") === (part === "#/streams" ? "#/" : part);
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

async function show() {
  const hash = location.hash || "#/";
  current = pageOf(hash);
  mark(hash);
  document.title = current.title;
  main.replaceChildren(note("Loading …"));
  await refresh();
  scrollTo(0, 0);
}

async function refresh() {
  const page = current;
  await guarded(page, () => (page.main.isConnected ? page.refresh() : attach(page)));
}

async function attach(page) {
  await page.load();
  if (page === current) main.replaceChildren(page.main);
}

// Do what may fail; an error is shown in the place of a page, or above the one that is there.
async function guarded(page, work) {
  try {
    await work();
    if (page === current) document.getElementById("problem")?.remove();
  } catch (error) {
    if (!error.code) console.error(error);
    if (page === current) showProblem(error);
  }
}

function showProblem(error) {
  const shown = problem(error);
  document.getElementById("problem")?.remove();
  if (current?.main.isConnected) main.prepend(shown);
  else main.replaceChildren(shown, el("p", {}, el("a", { href: "#/" }, "All streams")));
}

function problem(error) {
  const place = error.place ? ` (line ${error.place.line}, column ${error.place.column})` : "";
  return el(
    "div",
    { id: "problem", class: "problem", role: "alert" },
    el("b", {}, `${error.message}${place}`),
    error.hint ? el("div", {}, error.hint) : null,
    error.code ? el("small", {}, error.code) : null,
  );
}

// Many messages in a moment are one look.
function soon() {
  waiting ??= setTimeout(() => {
    waiting = null;
    refresh();
  }, PAUSE);
}

async function start() {
  await guarded(current, async () => {
    const lake = await get("/api/lake");
    useZone(lake.timezone);
    document.getElementById("lake").textContent = lake.root;
    const { owner } = lake;
    const footer = `lakestream ${lake.version} · process ${owner.pid} on ${owner.host} · times in ${lake.timezone}`;
    document.getElementById("footer").textContent = footer;
  });
  addEventListener("hashchange", show);
  await show();
  listen(
    (message) => current.hears(message) && soon(),
    (isLive) => {
      connection.textContent = isLive ? "live" : "not connected";
      connection.classList.toggle("live", isLive);
      soon();
    },
  );
  // Ages and lags grow without a message.
  setInterval(refresh, POLL);
}

start();
