"""Statements of other programs that are known by their first words, and what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakestream.errors import NotSupportedError
    from lakestream.language.reading.reader import Reader

NO_NODES = "streams need no nodes of their own: lakestream run or lakestream serve evaluates them"

_PAGE = "`lakestream docs coming-from/{}` has what stands in its place"

_TREE = "SHOW TIMESERIES lists series, with --dialect iotdb"
_HEADS: dict[str, dict[tuple[str, ...], str]] = {
    "flink": {
        ("BEGIN", "STATEMENT"): "statements stand behind one another, with ; between them",
        ("CREATE", "CATALOG"): "CREATE TABLE … USING TABLE names one of a catalog",
        ("CREATE", "MATERIALIZED", "TABLE"): "CREATE MATERIALIZED VIEW",
        ("EXECUTE", "STATEMENT"): "statements stand behind one another, with ; between them",
        ("SHOW", "JOBS"): "SHOW STREAMS",
        ("STOP", "JOB"): "STOP STREAM",
        ("USE", "CATALOG"): "CREATE TABLE … USING TABLE names one of a catalog",
    },
    "declarative-pipelines": {
        ("APPLY", "CHANGES"): "an INSERT of a key that is there replaces the row",
        ("AUTO", "CDC"): "an INSERT of a key that is there replaces the row",
        ("CREATE", "FLOW"): "a CREATE STREAM for each flow",
        ("CREATE", "LIVE"): "CREATE MATERIALIZED VIEW",
        ("CREATE", "OR", "REFRESH"): "CREATE OR REPLACE STREAM, or MATERIALIZED VIEW",
        ("CREATE", "STREAMING"): "CREATE STREAM … INTO table AS SELECT …",
        ("CREATE", "TEMPORARY", "VIEW"): "WITH in the query, or CREATE MATERIALIZED VIEW",
    },
    "ekuiper": {
        ("DESCRIBE", "STREAM"): "DESCRIBE, of a table",
        ("DROP", "RULE"): "DROP STREAM",
        ("EXPLAIN", "RULE"): "EXPLAIN STREAM",
        ("GETSTATUS", "RULE"): "SHOW STREAMS",
        ("RESTART", "RULE"): "START STREAM",
        ("SHOW", "RULES"): "SHOW STREAMS",
        ("START", "RULE"): "START STREAM",
        ("STOP", "RULE"): "STOP STREAM",
    },
    "iotdb": {
        ("COUNT", "DEVICES"): _TREE,
        ("COUNT", "NODES"): _TREE,
        ("COUNT", "TIMESERIES"): _TREE,
        ("CREATE", "DEVICE", "TEMPLATE"): "",
        ("CREATE", "PIPE"): "",
        ("CREATE", "SCHEMA", "TEMPLATE"): "",
        ("SET", "TTL"): "",
        ("SHOW", "CHILD"): "",
        ("SHOW", "DEVICES"): "",
        ("UNSET", "TTL"): "",
    },
    "structured-streaming": {
        ("CREATE", "OR", "REPLACE", "TEMP"): "WITH in the query, or CREATE MATERIALIZED VIEW",
        ("CREATE", "TEMP"): "WITH in the query, or CREATE MATERIALIZED VIEW",
        ("INSERT", "OVERWRITE"): "DELETE FROM, then INSERT INTO",
    },
}
"""By the page that explains: how statements begin that are nobody else's, and what is written here."""

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
_TABLE_FUNCTIONS = ("TUMBLE", "HOP", "SESSION", "CUMULATE")
_VERBS: dict[str, str] = {
    **dict.fromkeys(("ANALYZE", "CACHE", "CALL", "DECLARE", "EXECUTE", "UNCACHE"), ""),
    **dict.fromkeys(("BEGIN", "COMMIT", "ROLLBACK"), "each statement is done, or not, by itself"),
    **dict.fromkeys(("COPY", "LOAD"), "any program that writes Delta, or lake.insert() with an Arrow table"),
    **dict.fromkeys(("MERGE", "REPLACE"), "INSERT replaces rows by their key"),
    **dict.fromkeys(("OPTIMIZE", "VACUUM"), "`lakestream maintain`, or `serve`, does so"),
    "EXPLAIN": "EXPLAIN STREAM, or MATERIALIZED VIEW",
    "KILL": "KILL QUERY, of those that SHOW QUERIES lists",
    "REFRESH": "REFRESH MATERIALIZED VIEW",
    "RESTORE": "`lakestream restore` makes a lake of a backup",
    "SET": "`lakestream config show` has the settings",
    "TRUNCATE": "DELETE FROM",
    **dict.fromkeys(
        ("BALANCE", "COMPACT", "GRANT", "REDISTRIBUTE", "RESET", "REVOKE", "SPLIT", "SYNC", "TRIM"),
        _PAGE.format("tdengine"),
    ),
}
_SHOWN = frozenset(
    {"CREATE", "TAGS", "TABLE", "FUNCTIONS", "COLUMNS", "PARTITIONS", "VARIABLES", "LOCAL", "CLUSTER"}
    | {"ALIVE", "APPS", "CONNECTIONS", "CONSUMERS", "GRANTS", "INDEXES", "LICENCES", "SCORES"}
    | {"SUBSCRIPTIONS", "TOPICS", "TRANSACTIONS", "USERS", "VGROUPS", "VIEWS", "VNODES", "TSMAS", "RSMAS"}
    | {"DNODES", "MNODES", "QNODES", "BNODES", "ANODES", "COMPACTS", "ENCRYPTIONS", "MACHINES", "USAGE"}
)


def foreign_statement(reader: Reader) -> NotSupportedError | None:
    """Return the error of a statement that is known by its first words, None for any other."""
    if reader.sees_symbol("{"):
        return _template(reader)
    for page, heads in _HEADS.items():
        for words, instead in heads.items():
            if reader.sees(*words):
                return reader.unsupported(" ".join(words), hint=_hint(instead, page))
    first = reader.peek().text.upper()
    if any(reader.sees(*words) for words in (("EXPLAIN", "STREAM"), ("KILL", "QUERY"))):
        return None
    if reader.sees(first, "MATERIALIZED", "VIEW"):
        return None
    if first in _VERBS:
        return reader.unsupported(first, hint=_VERBS[first])
    return _foreign_object(reader, first) if first in ("CREATE", "DROP", "ALTER") else None


def foreign_query(reader: Reader) -> NotSupportedError | None:
    """Return the error of a query that is written in the words of another program, None for any other."""
    if not any(reader.sees(first) for first in ("SELECT", "WITH", "INSERT")):
        return None
    for at, word in enumerate(reader.words):
        before = [one.text.upper() for one in reader.words[max(0, at - 2) : at]]
        if before == ["TABLE", "("] and word.text.upper() in _TABLE_FUNCTIONS:
            what = f"{word.text} in FROM"
            return reader.unsupported(what, word=word, hint=_hint("CREATE STREAM has windows", "flink"))
        if word.is_word("MATCH_RECOGNIZE"):
            return reader.unsupported(word.text, word=word, hint=_hint("EVENT_WINDOW", "flink"))
        if word.is_symbol("{") and before[-1:] == ["{"]:
            return reader.unsupported("a template", word=word, hint=_hint("", "dbt"))
    return None


def _template(reader: Reader) -> NotSupportedError:
    """Return the error of what another program makes statements of, or does by them."""
    is_template = reader.peek(1).is_symbol("{") or reader.peek(1).is_symbol("%")
    what, page = ("a template", "dbt") if is_template else ("a rule as JSON", "ekuiper")
    return reader.unsupported(what, hint=_hint("", page))


def _foreign_object(reader: Reader, first: str) -> NotSupportedError | None:
    at = 3 if reader.sees(first, "OR", "REPLACE") else 1
    named = reader.peek(at).text.upper()
    hint = _OBJECTS.get(named)
    if hint is None and (first, named) not in (("ALTER", "STREAM"), ("ALTER", "DATABASE")):
        return None
    return reader.unsupported(f"{first} {named}", hint=_hint(hint or ""))


def _hint(instead: str, page: str = "tdengine") -> str:
    """Return what to do instead, where it is known, and the page that explains."""
    return "; ".join(filter(None, (instead, _PAGE.format(page))))


def foreign_show(reader: Reader) -> NotSupportedError | None:
    """Return the error of what SHOW might list elsewhere, None for any other word."""
    word = reader.peek().text.upper()
    if word not in _SHOWN:
        return None
    hint = NO_NODES if word.endswith("NODES") else "information_schema has what is known of streams"
    return reader.unsupported(f"SHOW {word}", hint=_hint(hint))
