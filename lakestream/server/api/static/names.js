// The names of a lake, for lists and for completion: as the statements of whoever looks tell them.

import { get, post } from "./api.js";

const columns = new Map();

export function quoted(name) {
  return `\`${name.replaceAll("`", "``")}\``;
}

export function run(sql, options = {}, signal = null) {
  return post("/api/statements", { sql, ...options }, signal);
}

async function listed(sql) {
  return (await run(sql)).rows.map((row) => row[0]);
}

// All tables as {database, name, kind, of}: `of` is the super table of a subtable.
export async function tablesOf() {
  const databases = await listed("SHOW DATABASES");
  const found = await Promise.all(databases.map(ofDatabase));
  return found.flat();
}

async function ofDatabase(database) {
  const [stables, tables] = await Promise.all([
    listed(`SHOW ${quoted(database)}.STABLES`),
    run(`SHOW ${quoted(database)}.TABLES`).then((answer) => answer.rows),
  ]);
  return [
    ...stables.map((name) => ({ database, name, kind: "super table", of: null })),
    ...tables.map(([name, of]) => ({ database, name, kind: of ? "subtable" : "table", of })),
  ];
}

// The columns of a table; none where it cannot be described.
export function columnsOf(database, name) {
  const key = `${database}.${name}`;
  if (!columns.has(key)) {
    const found = listed(`DESCRIBE ${quoted(database)}.${quoted(name)}`).catch(() => []);
    columns.set(key, found);
  }
  return columns.get(key);
}

export async function streamsOf() {
  return (await get("/api/streams")).map(({ database, name }) => ({ database, name, kind: "stream" }));
}
