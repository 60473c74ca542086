"""Streams compiled from their statements over tables that are only described, and what ticks of them take."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from lakestream.engine.creation.compile import compile_stream
from lakestream.engine.reading.transport import ARROW
from lakestream.engine.streams.target import Target, columns_of, keys_are_unique, output_shape
from lakestream.language import parse_statement
from lakestream.language.model import CreateStream
from lakestream.storage.names.table_info import Column, TableInfo
from lakestream.storage.records.registry import TickPlan
from lakestream.storage.tables.log import AddedFile, CommitInfo

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import Stream
    from lakestream.storage.names.catalog import Catalog

SECOND = 1_000_000
_TIME = Column("ts", "timestamp")
_TABLES = {
    "nt": TableInfo("db", "nt", "/lake/nt", "table", (_TIME, Column("v", "int")), "ts", ("ts",)),
    "m": TableInfo(
        "db",
        "m",
        "/lake/m",
        "stable",
        (_TIME, Column("v", "int"), Column("tbname", "string"), Column("loc", "int", is_tag=True)),
        "ts",
        ("tbname", "ts"),
    ),
}
_CLOCK = TableInfo("_lakestream", "clock", "/lake/clock", "table", (_TIME,), "ts", ("ts",))
_RESULTS = {"ws": "timestamp", "at": "timestamp", "n": "bigint"}


class _Described:
    """As much of a catalog as a stream is compiled against."""

    def find_table(self, database: str, name: str) -> TableInfo | None:
        return _TABLES.get(name) if database == "db" else None

    def subtable(self, database: str, name: str) -> None:
        del database, name

    def clock(self) -> TableInfo:
        return _CLOCK


@cache
def stream(text: str, dialect: str = "tdengine", *, combines: bool = True) -> Stream:
    """Return a statement's stream; ``combines``: Spark has found that its aggregates may be combined."""
    statement = parse_statement(text, dialect=dialect)
    assert isinstance(statement, CreateStream)
    definition = statement.definition.within("db")
    partial_types: dict[str, str] | None = {} if combines else None
    return compile_stream(
        "u",
        definition,
        cast("Catalog", _Described()),
        "UTC",
        exact=definition.options.late.exact,
        partial_types=None if definition.options.late.drops else partial_types,
    )


def new(trigger: str, options: str = "", *, notify: str = "", by: str = "tbname") -> Stream:
    """Return a stream of TDengine's syntax with the trigger first."""
    listed = f"STREAM_OPTIONS({options})" if options else ""
    time = {"PERIOD": "CAST(_tlocaltime / 1000000 AS TIMESTAMP)", "SLIDING": "_tcurrent_ts"}
    start = time.get(trigger.partition("(")[0], "_twstart")
    keys = f"PARTITION BY {by}" if by else ""
    clause = f"NOTIFY('ws://h:1/n') ON ({notify})" if notify else ""
    rows = "m WHERE ts >= _twstart" if "WINDOW_OPEN" in options else "%%trows"  # an opening has no rows
    query = f"SELECT {start} AS ws, count(*) AS n FROM {rows}"
    return stream(f"CREATE STREAM s {trigger} FROM m {keys} {listed} {clause} INTO o AS {query}")


def classic(window: str, options: str = "") -> Stream:
    """Return a stream of TDengine's classic syntax."""
    query = f"SELECT _wstart AS ws, count(*) AS n FROM m PARTITION BY tbname {window}"
    return stream(f"CREATE STREAM s {options} INTO o AS {query}")


def ekuiper(window: str, options: str = "TIMESTAMP = 'ts'", *, select: str = "count(*) AS n") -> Stream:
    """Return a stream of eKuiper's syntax; of processing time where no option says otherwise."""
    given = f"WITH ({options})" if options else ""
    return stream(f"CREATE STREAM s {given} INTO o AS SELECT {select} FROM m GROUP BY {window}", "ekuiper")


def target(of: Stream, *, shared: bool = False, unique: bool | None = None) -> Target:
    """Return a stream's output, as creation describes it; ``shared``: it holds other rows besides."""
    names = of.calculation.names
    kinds = [_RESULTS.get(name, "bigint") for name in names]
    shape = output_shape(of.definition, names, kinds, ["string"] * len(of.groups), of.zone)
    info = TableInfo("db", "o", "/lake/o", "output", (*columns_of(shape),), "ws", shape.key)
    own = keys_are_unique(of) if unique is None else unique
    appends = (own and not shared and not of.emission.fires_early) or not shape.key
    errors = replace(info, name="s__errors") if of.definition.options.late.drops else None
    return Target(info, shape, own, appends, errors)


def plan(kind: str = "changes", after: int = 4, upto: int = 5, clock_us: int = 0, **facts: Any) -> TickPlan:
    """Return the plan of a tick of rows that are only added, taken as Arrow, unless ``facts`` say other."""
    known = {"transport": ARROW, "appends_only": True, **facts}
    return TickPlan("u", 7, kind, -1 if kind == "history" else after, upto, clock_us, **known)


def commit(
    version: int, *seconds: int, appends: bool = True, changes: bool = True, statistics: bool = True
) -> CommitInfo:
    """Return what the log says of a commit of rows at some seconds; ``statistics``: with statistics."""
    ends = [_iso(second) for second in (min(seconds), max(seconds))] if seconds and statistics else []
    minimum, maximum = ({"ts": end} for end in ends) if ends else ({}, {})
    files = (AddedFile("f", 1, len(seconds), minimum, maximum),) if seconds else ()
    return CommitInfo(
        version=version,
        adds=len(files),
        removes=0 if appends else 1,
        cdc_files=0,
        add_rows=len(seconds),
        add_bytes=1,
        data_change=changes,
        append_only=appends,
        schema_changed=False,
        schema_json=None,
        change_feed=None,
        metadata_id=None,
        operation="WRITE",
        user_metadata=json.dumps({}),
        timestamp_ms=0,
        transactions=(),
        files=files,
        removed=(),
        written=(),
    )


def _iso(second: int) -> str:
    return f"1970-01-01T00:{second // 60:02}:{second % 60:02}.000Z"
