"""Statements of other programs that are known by their first words, and what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.language.reading.words import Kind

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
        ("CREATE", "SINK"): "a stream writes INTO a table",
        ("CREATE", "SOURCE"): "CREATE TABLE … LOCATION '…' names a table that is there",
        ("CREATE", "WATERMARK"): "STREAM_OPTIONS(WATERMARK(…))",
        ("DROP", "CATALOG"): "",
        ("USE", "MODULES"): "",
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
        ("DROP", "RULE"): "DROP STREAM",
        ("EXPLAIN", "RULE"): "EXPLAIN STREAM",
        ("GETSTATUS", "RULE"): "SHOW STREAMS",
        ("RESTART", "RULE"): "START STREAM",
        ("SHOW", "RULES"): "SHOW STREAMS",
        ("START", "RULE"): "START STREAM",
        ("STOP", "RULE"): "STOP STREAM",
    },
    "iotdb": {
        ("COUNT", "NODES"): _TREE,
        ("CREATE", "DEVICE", "TEMPLATE"): "",
        ("CREATE", "PIPE"): "",
        ("CREATE", "SCHEMA", "TEMPLATE"): "",
        ("SET", "TTL"): "",
        ("SHOW", "CHILD"): "",
        ("SHOW", "TTL"): "",
        ("START", "REPAIR"): "",
        ("STOP", "REPAIR"): "",
        ("UNSET", "TTL"): "",
    },
    "tdengine": {
        ("FLUSH", "DATABASE"): "what is written is written",
        ("FLUSH", "TABLES"): "what is written is written",
    },
    "structured-streaming": {
        ("CREATE", "OR", "REPLACE", "TEMP"): "WITH in the query, or CREATE MATERIALIZED VIEW",
        ("CREATE", "TEMP"): "WITH in the query, or CREATE MATERIALIZED VIEW",
        ("ALTER", "MATERIALIZED", "VIEW"): "CREATE OR REPLACE MATERIALIZED VIEW",
        ("CREATE", "OR", "REPLACE", "TABLE"): "DROP TABLE, then CREATE TABLE",
        ("INSERT", "OR"): "INSERT INTO replaces rows by their key",
        ("INSERT", "OVERWRITE"): "DELETE FROM, then INSERT INTO",
        ("SHOW", "MATERIALIZED", "VIEWS"): "SHOW STREAMS lists them too",
        ("START", "TRANSACTION"): "each statement is done, or not, by itself",
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
    **dict.fromkeys(
        ("RECURSIVE", "LOGICAL"), "CREATE MATERIALIZED VIEW keeps the rows of a query as a table"
    ),
    **dict.fromkeys(
        ("CQ", "PIPE", "TRIGGER", "EVENT"), "CREATE STREAM computes as rows come, or by the clock"
    ),
    **dict.fromkeys(("UNIQUE", "BLOOMFILTER"), "COMPOSITE KEY tells rows of one time apart"),
    **dict.fromkeys(("SEQUENCE", "TYPE", "EXTENSION", "PROCEDURE", "MODEL", "MACRO", "POLICY"), ""),
    **dict.fromkeys(("VOLUME", "STORAGE", "SHARE", "RECIPIENT", "PROVIDER", "SERVER", "CATALOG"), ""),
    "STREAMING": "CREATE OR REPLACE STREAM",
    **dict.fromkeys(("ALL", "LOCAL"), NO_NODES),
    "TEMPORARY": "",
    "GLOBAL": "",
    "EXTERNAL": "CREATE TABLE … LOCATION '…' names a table that is there",
    "MOUNT": "",
    "COMPACT": "",
    "TRANSACTION": "",
    "CONNECTION": "",
    "QUERY": "",
}
_NAMES = (Kind.WORD, Kind.NAME)
_TABLE_FUNCTIONS = ("TUMBLE", "HOP", "SESSION", "CUMULATE")
_VERBS: dict[str, str] = {
    **dict.fromkeys(
        ("ANALYZE", "CACHE", "CALL", "CLEAR", "DECLARE", "DO", "EXECUTE", "HANDLER", "UNCACHE"), ""
    ),
    **dict.fromkeys(
        ("DEALLOCATE", "LISTEN", "LOCK", "PRAGMA", "PREPARE", "UNLOCK", "ASSIGN", "DENY", "MIGRATE"), ""
    ),
    **dict.fromkeys(("ADD", "COMPILE", "LIST", "REMOVE", "UNLOAD"), "jars are told by the setting `jars`"),
    **dict.fromkeys(("ATTACH", "CONVERT", "DETACH", "IMPORT"), "CREATE TABLE … LOCATION names what is there"),
    **dict.fromkeys(("CHECK", "FSCK"), "`lakestream verify` compares streams with their definitions"),
    **dict.fromkeys(("EXPORT", "CHECKPOINT"), "`lakestream backup`"),
    **dict.fromkeys(("FROM", "TABLE", "PIVOT", "SUMMARIZE"), "SELECT … FROM …"),
    **dict.fromkeys(
        ("MSCK", "PURGE", "REORG", "REPAIR", "UPGRADE"), "`lakestream maintain` does what is due"
    ),
    "FLUSH": "FLUSH STREAM closes what is open; what is written is written",
    **dict.fromkeys(("CLUSTER", "REINDEX"), "`lakestream maintain` compacts tables"),
    "GENERATE": "readers of Delta need no manifest",
    "NOTIFY": "NOTIFY is a clause of CREATE STREAM",
    "UNDROP": "`lakestream restore` makes a lake of a backup",
    "UPSERT": "INSERT replaces rows by their key",
    **dict.fromkeys(
        ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT"), "each statement is done, or not, by itself"
    ),
    **dict.fromkeys(("COPY", "LOAD"), "any program that writes Delta, or lake.insert() with an Arrow table"),
    **dict.fromkeys(("MERGE", "REPLACE"), "INSERT replaces rows by their key"),
    **dict.fromkeys(("OPTIMIZE", "VACUUM"), "`lakestream maintain`, or `serve`, does so"),
    "EXPLAIN": "EXPLAIN STREAM, MATERIALIZED VIEW, or a query",
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
    | {"BACKUPS", "CATALOGS", "CLUSTERID", "CREDENTIALS", "CURRENT_TIMESTAMP", "CURRENT_USER", "ENGINES"}
    | {"EVENTS", "EXTERNAL", "FIELDS", "FULL", "GROUPS", "INDEX", "KEYS", "LOCKS", "MODULES", "PIPEPLUGINS"}
    | {"PIPES", "PROCEDURES", "PROCESSLIST", "PROVIDERS", "QUERY", "RECIPIENTS", "REGIONS", "RETENTIONS"}
    | {"ROLES", "SEQUENCES", "SHARES", "STATUS", "TRIGGERS", "USER", "VERSION", "VOLUMES"}
    | {
        "WARNINGS",
        "DATANODES",
        "CONFIGNODES",
        "ALL",
        "CURRENT",
        "DNODES",
        "MNODES",
        "QNODES",
        "BNODES",
        "ANODES",
        "COMPACTS",
        "ENCRYPTIONS",
        "MACHINES",
        "USAGE",
    }
)


_KNOWN = "information_schema has what is known of streams"
_SHOWN_BY = {
    **dict.fromkeys(("FIELDS", "COLUMNS"), "DESCRIBE"),
    **dict.fromkeys(("PROCESSLIST", "QUERY", "FULL"), "SHOW QUERIES"),
    **dict.fromkeys(("CURRENT", "CATALOGS"), "SHOW DATABASES"),
    "VERSION": "`lakestream --version`",
}
_DESCRIBED = {
    "CATALOG": "SHOW DATABASES",
    "DATABASE": "SHOW DATABASES",
    "SCHEMA": "SHOW DATABASES",
    "DETAIL": "DESCRIBE, SHOW TABLES",
    "FUNCTION": "`lakestream docs calculations` lists functions",
    "QUERY": "SELECT … LIMIT 0 has the columns",
    "RULE": "EXPLAIN STREAM",
    "STREAM": "EXPLAIN STREAM",
    "VIEW": "EXPLAIN MATERIALIZED VIEW",
}
_TABLES = {
    "AS": "without the columns before it: those of the query are the table's",
    "LIKE": "CREATE TABLE with the columns that DESCRIBE lists",
    **dict.fromkeys(("CLONE", "DEEP", "SHALLOW"), "CREATE TABLE, then INSERT INTO … SELECT"),
    "USING": "leave it out: all tables are Delta's",
    **dict.fromkeys(("CLUSTER", "PARTITIONED", "STORED", "ROW", "TBLPROPERTIES", "OPTIONS", "WITH"), ""),
}
_ANEW = "CREATE TABLE with the columns that it is to have, then INSERT INTO … SELECT"
_ALTERED = {
    "ADD": {
        "COLUMNS": "ADD COLUMN, one after the other",
        "CONSTRAINT": "EXPECT … CHECK of a stream",
        "PARTITION": "",
        "IF": "",
    },
    "": {
        **dict.fromkeys(("CHANGE", "DROP", "MODIFY", "RENAME", "REPLACE"), _ANEW),
        **dict.fromkeys(("CLUSTER", "OWNER", "SET", "UNSET"), ""),
    },
}


def refuse_description(reader: Reader) -> None:
    """Refuse by name to describe what is no table; a table may have the word for its name."""
    word, following = reader.peek(), reader.peek(1)
    if following.kind in _NAMES and (hint := _DESCRIBED.get(word.text.upper())) is not None:
        raise reader.unsupported(f"DESCRIBE {word.text.upper()}", hint=_hint(hint, "structured-streaming"))


def refuse_table(reader: Reader) -> None:
    """Refuse by name what else a table is made of, or made as, behind its name or its columns."""
    word = reader.peek()
    if word.kind is Kind.WORD and (hint := _TABLES.get(word.text.upper())) is not None:
        what = f"CREATE TABLE … {word.text.upper()}"
        raise reader.unsupported(what, hint=_hint(hint, "structured-streaming"))


def refuse_change(reader: Reader, said: str) -> None:
    """Refuse by name what else is changed of a table, behind what is ``said`` of it."""
    word = reader.peek()
    if word.kind is Kind.WORD and (hint := _ALTERED[said].get(word.text.upper())) is not None:
        what = " ".join(filter(None, ("ALTER TABLE …", said, word.text.upper())))
        raise reader.unsupported(what, hint=_hint(hint, "structured-streaming"))


def foreign_statement(reader: Reader) -> NotSupportedError | None:
    """Return the error of a statement that is known by its first words, None for any other."""
    if reader.sees_symbol("{"):
        return _template(reader)
    for page, heads in _HEADS.items():
        for words, instead in heads.items():
            if reader.sees(*words):
                return reader.unsupported(" ".join(words), hint=_hint(instead, page))
    first = reader.peek().text.upper()
    if any(reader.sees(*words) for words in (("EXPLAIN", "STREAM"), ("FLUSH", "STREAM"), ("KILL", "QUERY"))):
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
    hint = NO_NODES if word.endswith("NODES") else _SHOWN_BY.get(word, _KNOWN)
    return reader.unsupported(f"SHOW {word}", hint=_hint(hint))
