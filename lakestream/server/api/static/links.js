// Addresses of the parts of the page.

// Where continuous queries are told of: below the streams.
export const QUERIES = "#/";

// The address of a stream by its name, `database.name`.
export function linkOf(stream) {
  const [database, ...rest] = stream.split(".");
  return `#/streams/${encodeURIComponent(database)}/${encodeURIComponent(rest.join("."))}`;
}
