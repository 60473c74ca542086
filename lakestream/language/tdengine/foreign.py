"""Statements of TDengine and Spark that are known by name and not built, and what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakestream.errors import NotSupportedError
    from lakestream.language.reading.reader import Reader

NO_NODES = "streams need no nodes of their own: lakestream run or lakestream serve evaluates them"

_PAGE = "`lakestream docs coming-from/tdengine` has what stands in its place"

_NODES = dict.fromkeys(("SNODE", "MNODE", "QNODE", "DNODE", "BNODE", "ANODE", "VNODE", "VGROUP"), NO_NODES)
_OBJECTS: dict[str, str] = _NODES | {
    "VIEW": "CREATE MATERIALIZED VIEW keeps the rows of a query as a table",
    "VTABLE": "",
    "TOPIC": "NOTIFY sends what a stream gives",
    "CONSUMER": "",
    "TSMA": "CREATE STREAM INTERVAL(…) … INTO keeps aggregates by time",
    "RSMA": "CREATE STREAM INTERVAL(…) … INTO keeps aggregates by time",
    "SMA": "",
    "INDEX": "",
    "FUNCTION": "",
    "AGGREGATE": "",
    "USER": "",
    "ROLE": "",
    "TOKEN": "",
    "ENCRYPT_KEY": "",
    "SCHEMA": "CREATE DATABASE",
    "TEMPORARY": "",
    "GLOBAL": "",
    "EXTERNAL": "CREATE TABLE … LOCATION '…' names a table that is there",
    "MOUNT": "",
    "COMPACT": "",
    "TRANSACTION": "",
    "CONNECTION": "",
    "QUERY": "",
}
_VERBS: dict[str, str] = {
    "MERGE": "INSERT replaces rows by their key",
    "TRUNCATE": "DELETE FROM",
    "EXPLAIN": "EXPLAIN STREAM",
    "REPLACE": "INSERT replaces rows by their key",
} | dict.fromkeys(
    (
        "ANALYZE",
        "BALANCE",
        "BEGIN",
        "CACHE",
        "CALL",
        "COMMIT",
        "COMPACT",
        "COPY",
        "DECLARE",
        "EXECUTE",
        "GRANT",
        "KILL",
        "LOAD",
        "OPTIMIZE",
        "REDISTRIBUTE",
        "REFRESH",
        "RESET",
        "RESTORE",
        "REVOKE",
        "ROLLBACK",
        "SET",
        "SPLIT",
        "SYNC",
        "TRIM",
        "UNCACHE",
        "VACUUM",
    ),
    "",
)
_SHOWN = frozenset(
    {"CREATE", "TAGS", "TABLE", "FUNCTIONS", "COLUMNS", "PARTITIONS", "VARIABLES", "LOCAL", "CLUSTER"}
    | {"ALIVE", "APPS", "CONNECTIONS", "CONSUMERS", "GRANTS", "INDEXES", "LICENCES", "SCORES"}
    | {"SUBSCRIPTIONS", "TOPICS", "TRANSACTIONS", "USERS", "VGROUPS", "VIEWS", "VNODES", "TSMAS", "RSMAS"}
    | {"DNODES", "MNODES", "QNODES", "BNODES", "ANODES", "COMPACTS", "ENCRYPTIONS", "MACHINES", "USAGE"}
)


def foreign_statement(reader: Reader) -> NotSupportedError | None:
    """Return the error of a statement that is known by its first words, None for any other."""
    first = reader.peek().text.upper()
    if any(reader.sees(*words) for words in (("EXPLAIN", "STREAM"), ("KILL", "QUERY"))):
        return None
    if reader.sees(first, "MATERIALIZED", "VIEW"):
        return None
    if first in _VERBS:
        return reader.unsupported(first, hint=_hint(_VERBS[first]))
    if first not in ("CREATE", "DROP", "ALTER"):
        return None
    at = 3 if reader.sees(first, "OR", "REPLACE") else 1
    named = reader.peek(at).text.upper()
    hint = _OBJECTS.get(named)
    if hint is None and (first, named) not in (("ALTER", "STREAM"), ("ALTER", "DATABASE")):
        return None
    return reader.unsupported(f"{first} {named}", hint=_hint(hint or ""))


def _hint(instead: str) -> str:
    """Return what to do instead, where it is known, and the page that explains."""
    return "; ".join(filter(None, (instead, _PAGE)))


def foreign_show(reader: Reader) -> NotSupportedError | None:
    """Return the error of what SHOW might list elsewhere, None for any other word."""
    word = reader.peek().text.upper()
    if word not in _SHOWN:
        return None
    hint = NO_NODES if word.endswith("NODES") else "information_schema has what is known of streams"
    return reader.unsupported(f"SHOW {word}", hint=_hint(hint))
