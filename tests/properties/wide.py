"""Materialized views of drawn queries over drawn tables with keys of any type, against DuckDB.

``python -m tests.properties.wide --count 100 --seed 7``. Each history has three Delta tables that others
write (rows that are added, changed, merged, deleted, files that are put together, partitions of odd values),
in one or two databases, a stream with EXACT(ALL) from one of them, and four views with joins, subqueries,
UNION in each other, window functions, windows that overlap, sessions, stars, LATERAL VIEW, outer joins, what
:mod:`tests.properties.shapes` has, and views over views and over what the stream writes, so that a change
comes by several ways; some of the views' tables are partitioned. Its changes (rows written in the place of
others, RESTORE, new columns, and tables that are made again too) are cut into commits and ticks at random,
with crashes and REFRESH between; where some lakes are, clocks are changed for summer or winter meanwhile.
In the end each view holds what DuckDB gives of its query over the tables as they are.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from lakestream import Lake, Settings
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from lakestream.errors import LakestreamError, StreamError
from lakestream.language.folders import UNTOLD
from tests.properties.followed import POINTS, START, Reopened, evaluator, plain, run_histories
from tests.properties.shapes import SHAPES, SPARK_SHAPES, draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string())])
KEYS: dict[str, tuple[pa.DataType, tuple[object, ...]]] = {
    "int": (pa.int32(), (None, 1, 2, -1)),
    "bigint": (pa.int64(), (None, 0, 1, 1 << 40)),
    "double": (pa.float64(), (None, math.nan, 0.0, -0.0, 1.5, math.inf)),
    "float": (pa.float32(), (None, math.nan, 0.0, -0.0, 0.5)),
    "string": (pa.string(), (None, "", "a", "A", "ä' b")),
    "boolean": (pa.bool_(), (None, True, False)),
    "decimal": (pa.decimal128(20, 4), (None, Decimal("1.5"), Decimal("1.5001"), Decimal(0))),
    "date": (pa.date32(), (None, date(2025, 1, 1), date(1969, 12, 31))),
    "timestamp": (pa.timestamp("us", "UTC"), (None, START, START + timedelta(microseconds=1))),
    "binary": (pa.binary(), (None, b"", b"a", b"\0")),
    "struct": (_STRUCT, (None, {"x": 1, "y": None}, {"x": None, "y": "a"}, {"x": 1, "y": "a"})),
}
"""Types of keys, with some values."""

SMALL = ("int", "bigint", "double", "string", "boolean", "date", "timestamp")
"""The types of keys that the small path computes, without a JVM."""

NAMES = ("a", "b", "c")
PLAIN = (None, "x", "", "..", "-1", "2025-01-01", "__HIVE_DEFAULT_PARTITION__")
ODD = (*PLAIN, " ", "%", "/", "x=%2F", "a' b", "a:b")
"""Texts that are no plain name of a folder; of those beyond ``PLAIN`` only Spark reads the changes."""
CLOCKS = (
    ("UTC", START),
    ("UTC", START),
    ("Europe/Berlin", datetime(2025, 3, 30, 0, 57, tzinfo=UTC)),
    ("America/New_York", datetime(2025, 11, 2, 5, 57, tzinfo=UTC)),
    ("Asia/Kathmandu", datetime(2025, 1, 1, 18, 13, tzinfo=UTC)),
)
"""Time zones of lakes, with the time of the first rows: about midnight, or a change of the clock."""
STREAM = "so"
"""The table that the stream of a history writes: a row for each closed minute."""


@dataclass
class World:
    """The Delta tables of a history, and who writes them."""

    random: Random
    folder: Path
    kind: str
    spark: bool = False
    ids: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in NAMES})
    texts: tuple[str | None, ...] = ("x", "y")
    names: tuple[str, ...] = NAMES
    stream: str = ""
    zone: str = "UTC"
    start: datetime = START
    _next: int = 0

    def draw(self) -> None:
        """Draw what texts there are, in which databases the tables are, and a stream from them."""
        choose = self.random.choice
        self.zone, self.start = choose(CLOCKS)
        self.texts = choose([("x", "y"), (*self.random.sample(ODD if self.spark else PLAIN, 3),)])
        self.names = choose([NAMES, NAMES, ("a", "other.b", "c"), ("other.a", "other.b", "c")])
        if self.random.random() < 0.4:
            a, b, _ = self.random.sample(self.names, 3)
            how = choose(["JOIN", "LEFT JOIN", "SEMI JOIN"])
            shown = choose(["max(p.v)", "sum(p.id)", "count(DISTINCT p.g)"])
            rows = f"FROM {a} p {how} {b} q ON q.g = p.g WHERE p.ts >= {{low}} AND p.ts < {{high}}"
            self.stream = f"{a}: SELECT {{low}} AS at, count(*) AS k, {shown} AS n {rows}"

    def create(self, lake: Lake) -> None:
        """Have a lake know the tables, and make the stream."""
        lake.sql("CREATE DATABASE other")
        for name, full in zip(NAMES, self.names, strict=True):
            lake.sql(f"CREATE TABLE {full} LOCATION '{self.folder}/{name}' TIMESTAMP BY ts")
        if self.stream:
            source, _, query = self.stream.partition(": ")
            lake.sql(
                f"CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM {source} "
                f"STREAM_OPTIONS(FILL_HISTORY | EXACT(ALL)) INTO {STREAM} (at, k, n) AS "
                + query.format(low="_twstart", high="_twend")
            )

    def closed_windows(self) -> str:
        """Return DuckDB's query of what the stream writes."""
        source, _, query = self.stream.partition(": ")
        rows = query.format(low="w", high="w + INTERVAL 1 MINUTE").replace("w AS at, ", "", 1)
        minutes = "generate_series(time_bucket(INTERVAL 1 MINUTE, min(ts)), max(ts) - INTERVAL 1 MINUTE, "
        return (
            f"SELECT w AS at, r.* FROM (SELECT unnest({minutes}INTERVAL 1 MINUTE)) AS w FROM {source}) m, "
            f"LATERAL ({rows}) r"
        )

    @property
    def settings(self) -> Settings:
        """Those of the lake."""
        return Settings(checkpoint_ticks=2, timezone=self.zone)

    @property
    def schema(self) -> pa.Schema:
        """The columns of each table."""
        key, at = KEYS[self.kind][0], pa.timestamp("us", "UTC")
        named = {"ts": at, "id": pa.int32(), "k": key, "g": pa.string(), "v": pa.int32()}
        return pa.schema(named.items())

    def make(self) -> None:
        """Make the tables, some of them partitioned."""
        for name in NAMES:
            self._make(name)
            if self.random.random() < 0.8:
                self._add(name)

    def _make(self, name: str) -> None:
        DeltaTable.create(
            str(self.folder / name),
            schema=self.schema,
            partition_by=self._folders(),
            configuration={"delta.enableChangeDataFeed": "true"},
        )

    def _make_again(self, name: str) -> None:
        """Have another table in the place of one."""
        shutil.rmtree(self.folder / name)
        self.ids[name] = []
        self._make(name)
        if self.random.random() < 0.8:
            self._add(name)

    def _folders(self) -> list[str] | None:
        """Draw what a table is partitioned by."""
        is_folder = self.kind not in ("struct", "string") and (self.spark or self.kind != "timestamp")
        found = self.random.choice([["g"], ["k"], ["k", "g"]] if is_folder else [["g"]])
        return found if self.random.random() < 0.4 else None

    def change(self) -> None:
        """Commit a change of one of the tables."""
        name = self.random.choice(NAMES)
        table, ids = DeltaTable(str(self.folder / name)), self.ids[name]
        some = self.random.sample(ids, min(len(ids), self.random.choice([1, 1, 2])))
        ours = f"id IN ({', '.join(map(str, some))})"
        what = self.random.random()
        if not ids or what < 0.4:
            self._add(name)
        elif what < 0.6:
            table.delete(ours)
            self.ids[name] = [one for one in ids if one not in some]
        elif what < 0.75:
            table.update(predicate=ours, updates={"v": self._value()})
        elif what < 0.87:
            self._merge(table, name, some)
        elif what < 0.9:
            self._put_back(table, name)
        elif what < 0.93:
            self._overwrite(name, ours, some)
        elif what < 0.95:
            self._widen(table)
        elif what < 0.97:
            self._make_again(name)
        else:
            table.optimize.compact()

    def _put_back(self, table: DeltaTable, name: str) -> None:
        """Put a table back by a commit, where it had the same columns then."""
        before = DeltaTable(str(self.folder / name), version=max(table.version() - 1, 0))
        if before.schema() == table.schema():
            table.restore(before.version())
            self.ids[name] = self.rows_of(name)["id"].to_pylist()

    def _overwrite(self, name: str, ours: str, some: Sequence[int]) -> None:
        """Write rows in the place of some, or of all."""
        if self.random.random() < 0.5:
            rows = pa.Table.from_pylist([{**self._row(), "id": one} for one in some], self.schema)
            write_deltalake(str(self.folder / name), rows, mode="overwrite", predicate=ours)
            return
        self.ids[name] = []
        write_deltalake(str(self.folder / name), self._rows(name, 2), mode="overwrite")

    def _widen(self, table: DeltaTable) -> None:
        """Give a table a column that no query reads."""
        if len(table.schema().fields) == len(self.schema):
            table.alter.add_columns([Field("more", PrimitiveType("integer"), nullable=True)])

    def _add(self, name: str) -> None:
        rows = self._rows(name, self.random.randint(1, 3))
        write_deltalake(str(self.folder / name), rows, mode="append", schema_mode="merge")

    def _merge(self, table: DeltaTable, name: str, some: Sequence[int]) -> None:
        rows = self._rows(name, 1).to_pylist() + [{**self._row(), "id": one} for one in some]
        merge = table.merge(pa.Table.from_pylist(rows, self.schema), "t.id = s.id", "s", "t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def _rows(self, name: str, count: int) -> pa.Table:
        rows = []
        for _ in range(count):
            self._next += 1
            rows.append({**self._row(), "id": self._next})
            self.ids[name].append(self._next)
        return pa.Table.from_pylist(rows, self.schema)

    def _row(self) -> dict[str, object]:
        at, choose = self.start + timedelta(seconds=self.random.randint(0, 400)), self.random.choice
        return {
            "ts": at,
            "k": choose(KEYS[self.kind][1]),
            "g": choose(self.texts),
            "v": choose([None, *range(5)]),
        }

    def _value(self) -> str:
        return self.random.choice(["0", "3", "v + 1", "NULL"])

    def rows_of(self, name: str) -> pa.Table:
        """Return a table's rows, read by another one than lakestream."""
        table = DeltaTable(str(self.folder / name))
        rows = table.to_pyarrow_table(columns=self.schema.names)
        if "g" in table.metadata().partition_columns:  # such a text is NULL, which delta-rs tells at times
            told = [None if text in UNTOLD else text for text in rows["g"].to_pylist()]
            rows = rows.set_column(rows.column_names.index("g"), "g", pa.array(told, pa.string()))
        return rows

    def database(self) -> duckdb.DuckDBPyConnection:
        """Return the tables as DuckDB has them."""
        connection = evaluator()  # in UTC, as Spark's session, whatever the lake's is
        connection.execute("CREATE SCHEMA other")
        for name, full in zip(NAMES, self.names, strict=True):
            connection.register(f"rows_{name}", self.rows_of(name))
            connection.execute(f"CREATE TABLE {full} AS SELECT * FROM rows_{name}")
        if self.stream:
            connection.execute(f"CREATE TABLE {STREAM} AS {self.closed_windows()}")
        return connection


@dataclass(frozen=True)
class View:
    """A view's query; ``{bucket}`` and the like stand for what DuckDB has other words for.

    ``theirs`` is DuckDB's query where it is another one.
    """

    query: str
    columns: tuple[str, ...]
    theirs: str = ""
    folder: str = ""
    """The column by which its table is partitioned."""
    listed: str = ""
    """The list of its columns, which calls them otherwise than the query."""

    @property
    def expected(self) -> str:
        """DuckDB's query."""
        query = (self.theirs or self.query).format(**THEIRS)
        return f"SELECT * FROM ({query}) listed {self.listed}" if self.listed else query

    @property
    def layout(self) -> str:
        """What a statement says of that."""
        return f"{self.listed}{f'PARTITIONED BY ({self.folder}) ' if self.folder else ''}"


@dataclass
class Drawing:
    """Queries that are drawn, each over the tables and the views before it."""

    random: Random
    spark: bool = False
    names: tuple[str, ...] = NAMES
    reads_stream: bool = False
    views: list[View] = field(default_factory=list)

    def view(self) -> View:
        """Draw a query."""
        ways: list[Callable[[], View]] = [self._united, self._named, self._grouped, self._top, self._rows]
        ways += [self._bucketed] + [self._of_views] * 2 * bool(self.views) + [self._total, self._sessions]
        ways += [self._sets] * self.spark + [
            self._outer,
            self._scalar,
            self._lagged,
            self._exploded,
            self._sliding,
            self._starred,
        ]
        ways += [self._shaped] * 12
        ways += [self._diamond] * bool(self.views) + [self._of_stream] * 3 * self.reads_stream
        found = self.random.choice(ways)()
        if self.random.random() < 0.25:
            found = replace(found, folder=self._choose(*found.columns))
        if self.random.random() < 0.1:
            found = replace(found, listed=f"({', '.join(reversed(found.columns))}) ")
        self.views.append(found)
        return found

    def _choose(self, *options: str) -> str:
        return self.random.choice(options)

    def _from(self) -> tuple[str, tuple[str, ...]]:
        """Draw what rows come from, and the names of what may be NULL or not of it."""
        a, b, c = self.random.sample(self.names, 3)
        same = self._choose("p.k = q.k", "p.k = q.k", "p.k IS NOT DISTINCT FROM q.k", "p.g = q.g")
        more = self._choose("", "", " AND q.v > 1", " AND p.v > q.v")
        inner = f"(SELECT k, g, max(v) AS v, min(id) AS id FROM {b} GROUP BY k, g) q"
        return self.random.choice(
            [
                (f"{a} p", ("p",)),
                (f"{a} p JOIN {b} q ON {same}{more}", ("p", "q")),
                (f"{a} p LEFT JOIN {b} q ON {same}{more}", ("p", "q")),
                (f"{a} p SEMI JOIN {b} q ON {same}{more}", ("p",)),
                (f"{a} p ANTI JOIN {b} q ON {same}{more}", ("p",)),
                (f"{a} p JOIN {a} q ON p.k = q.k AND p.id < q.id", ("p", "q")),
                (f"{a} p LEFT JOIN {a} q ON {same} AND p.id <> q.id", ("p", "q")),
                (f"{a} p JOIN {inner} ON {same}{more}", ("p", "q")),
                (f"{a} p LEFT JOIN {b} q ON {same}{more} LEFT JOIN {c} r ON r.k = q.k", ("p", "q", "r")),
                (f"{a} p LEFT JOIN {b} q ON {same} JOIN {c} r ON r.g = p.g AND r.v = 1", ("p", "q", "r")),
                (f"{a} p, {b} q WHERE {same}{more}", ("p", "q")),
            ]
        )

    def _where(self, source: str) -> str:
        """Draw a condition on the rows."""
        a, b = self.random.sample(self.names, 2)
        there = (
            f"EXISTS (SELECT 1 FROM {a} x WHERE x.k = p.k AND x.v > 1)",
            f"NOT EXISTS (SELECT 1 FROM {a} x WHERE x.k = p.k)",
        )
        condition = self._choose(
            "",
            "",
            "p.v > 1",
            "p.v IS NULL OR p.v < 4",
            *(there if self.spark else ()),
            f"p.k IN (SELECT k FROM {a})",
            f"p.v IN (SELECT x.v FROM {a} x WHERE x.g = p.g)",
            f"p.k NOT IN (SELECT k FROM {a})",
            f"p.k NOT IN (SELECT k FROM {a} WHERE k IS NOT NULL)",
            f"p.v > (SELECT min(v) FROM {b})",
            f"p.v >= (SELECT max(x.v) FROM {b} x WHERE x.k = p.k)",
        )
        if not condition:
            return source
        return f"{source} {'AND' if ' WHERE ' in source and 'p, ' in source else 'WHERE'} ({condition})"

    def _sources(self) -> tuple[str, tuple[str, ...]]:
        source, names = self._from()
        return self._where(source), names

    def _rows(self) -> View:
        source, names = self._sources()
        what = self._choose("", "", "DISTINCT ")
        other = self.random.choice(names)
        shown = self._choose(
            f"p.k, {other}.v AS n", f"{other}.k AS k, p.v AS n", f"p.k, p.v + {other}.id AS n"
        )
        return View(f"SELECT {what}{shown} FROM {source}", ("k", "n"))

    def _grouped(self) -> View:
        source, names = self._sources()
        other = self.random.choice(names)
        key = self._choose("p.k", f"{other}.k", "p.g", f"{other}.v % 2", f"p.k, {other}.g")
        shown = key.split(", ")[0]
        value = f"{other}.v"
        aggregate = self._choose(
            "count(*)",
            f"sum({value})",
            f"max({value})",
            f"count(DISTINCT {value})",
            f"avg({value})",
            f"min(p.id) + count({value})",
            f"sum({value}) FILTER (WHERE p.v > 0)",
        )
        having = self._choose("", "", "", " HAVING count(*) > 1", f" HAVING max({value}) > 1")
        return View(f"SELECT {shown} AS k, {aggregate} AS n FROM {source} GROUP BY {key}{having}", ("k", "n"))

    def _total(self) -> View:
        source, _ = self._sources()
        aggregate = self._choose("sum(p.v)", "count(DISTINCT p.k)", "max(p.id)", "avg(p.v)")
        return View(f"SELECT count(*) AS k, {aggregate} AS n FROM {source}", ("k", "n"))

    def _top(self) -> View:
        source, names = self._sources()
        order = ", ".join(f"{name}.id" for name in names)
        function = self._choose("row_number()", "row_number()", "rank()")
        shown, outer = self.random.choice([("p.k AS k, p.v AS n", "k, n"), ("p.*", "k, v AS n")])
        shown = "*" if shown == "p.*" and names == ("p",) else shown
        inner = (
            f"SELECT {shown}, {function} OVER (PARTITION BY {self._choose('p.k', 'p.g')} "
            f"ORDER BY p.v DESC NULLS LAST, {order}) AS place FROM {source}"
        )
        return View(f"SELECT {outer} FROM ({inner}) t WHERE place <= {self._choose('1', '2')}", ("k", "n"))

    def _bucketed(self) -> View:
        source, _ = self._from()
        source = source if "WHERE" in source else self._where(source)
        aggregate = self._choose("count(*)", "sum(p.v)", "max(p.id)", "count(DISTINCT p.k)")
        key = self._choose("", ", p.k", ", p.g")
        return View(
            f"SELECT {{start}} AS low, {aggregate} AS n FROM {source} GROUP BY {{bucket}}{key}", ("low", "n")
        )

    def _sessions(self) -> View:
        source = f"{self._choose(*self.names)} p{self._choose('', ' WHERE p.v > 0', ' WHERE p.id % 2 = 0')}"
        gap, aggregate = self._choose("20", "45", "60"), self._choose("count(*)", "sum(p.v)", "max(p.id)")
        key = self._choose("", "p.k", "p.g")
        by = f"PARTITION BY {key} " if key else ""
        late = f"p.ts - lag(p.ts) OVER ({by}ORDER BY p.ts) > INTERVAL {gap} SECOND AS late"
        counted = f"count(*) FILTER (late) OVER ({by}ORDER BY ts ROWS UNBOUNDED PRECEDING) AS session"
        cut = f"SELECT *, {counted} FROM (SELECT p.*, {late} FROM {source}) p"
        return View(
            f"SELECT session_window.start AS low, {aggregate} AS n FROM {source} "
            f"GROUP BY session_window(p.ts, '{gap} seconds'){key and f', {key}'}",
            ("low", "n"),
            f"SELECT min(ts) AS low, {aggregate} AS n FROM ({cut}) p GROUP BY session{key and f', {key}'}",
        )

    def _outer(self) -> View:
        a, b, c = self.random.sample(self.names, 3)
        same = self._choose("p.k = q.k", "p.g = q.g", "p.k = q.k AND p.v > q.v")
        side = self._choose("RIGHT", "FULL")
        both, every = self._choose("EXCEPT", "INTERSECT"), self._choose("", "ALL ")
        query = self._choose(
            f"SELECT coalesce(p.k, q.k) AS k, p.v AS n FROM {a} p {side} JOIN {b} q ON {same}",
            f"SELECT q.k, count(p.id) AS n FROM {a} p {side} JOIN {b} q ON {same} GROUP BY q.k",
            f"SELECT r.k, q.v AS n FROM {a} p {side} JOIN {b} q ON {same} LEFT JOIN {c} r ON r.k = q.k",
            f"SELECT p.k, q.v AS n FROM {a} p FULL JOIN {b} q ON {same}{self._choose('', ' WHERE p.v > 0')}",
            f"SELECT p.g AS k, r.v AS n FROM {a} p FULL JOIN {b} q ON {same} LEFT JOIN {c} r ON r.g = p.g",
            f"SELECT r.g AS k, max(q.v) AS n FROM {a} p FULL JOIN {b} q ON {same} JOIN {c} r "
            "ON r.k = p.k GROUP BY r.g",
            f"SELECT r.k, d.v AS n FROM {c} r LEFT JOIN (SELECT p.k, q.v FROM {a} p FULL JOIN {b} q "
            f"ON {same}) d ON d.k = r.k",
            f"SELECT r.k, r.v AS n FROM {c} r WHERE r.v IN (SELECT q.v FROM {a} p FULL JOIN {b} q ON {same} "
            "WHERE p.k = r.k)",
            f"SELECT k, v AS n FROM {a} {both} {every}SELECT k, v FROM {b}",
            f"SELECT k, v AS n FROM {a} {both} {every}SELECT k, v FROM {b} WHERE v > 0 UNION ALL "
            f"SELECT k, v FROM {c}",
            f"(SELECT k, id % 2 AS n FROM {a} UNION ALL SELECT k, v FROM {b}) {both} {every}"
            f"SELECT k, 1 FROM {c}",
            f"SELECT k, n FROM (SELECT k, max(v) AS n FROM {a} GROUP BY k) x {both} SELECT p.k, q.v "
            f"FROM {b} p JOIN {c} q ON q.g = p.g",
        )
        return View(query, ("k", "n"))

    def _sets(self) -> View:
        a, b = self.random.sample(self.names, 2)
        query = self._choose(
            f"SELECT k, count(*) AS n FROM {a} GROUP BY ROLLUP (k)",
            f"SELECT k, sum(v) AS n FROM {a} GROUP BY CUBE (k, g)",
            f"SELECT g AS k, max(v) AS n FROM {a} GROUP BY GROUPING SETS ((k), (g), ())",
            f"SELECT k, v AS n FROM {a} INTERSECT SELECT k, v FROM {b}",
            f"SELECT k, avg(v) FILTER (WHERE v > 0) AS n FROM {a} GROUP BY k HAVING bool_or(v > 1)",
        )
        return View(query, ("k", "n"))

    def _scalar(self) -> View:
        a, b = self.random.sample(self.names, 2)
        value = self._choose(
            f"(SELECT max(x.v) FROM {b} x WHERE x.k = p.k)",
            f"(SELECT count(*) FROM {b} x WHERE x.g = p.g)",
            f"(SELECT sum(x.v) FROM {b} x)",
            f"CASE WHEN p.v > 1 THEN p.id WHEN p.k IN (SELECT k FROM {b}) THEN -1 ELSE 0 END",
        )
        return View(f"SELECT p.k, {value} AS n FROM {a} p", ("k", "n"))

    def _lagged(self) -> View:
        source, names = self._sources()
        order = ", ".join(f"{name}.id" for name in names)
        value = self._choose(
            "lag(p.v) OVER (PARTITION BY {by} ORDER BY {order})",
            "lead(p.v, 2, -1) OVER (PARTITION BY {by} ORDER BY {order})",
            "sum(p.v) OVER (PARTITION BY {by} ORDER BY {order} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
            "count(*) OVER (PARTITION BY {by}, p.v)",
            "dense_rank() OVER (PARTITION BY {by} ORDER BY p.v NULLS FIRST)",
        )
        value = value.format(by=self._choose("p.k", "p.g"), order=order)
        return View(f"SELECT p.k, {value} AS n FROM {source}", ("k", "n"))

    def _exploded(self) -> View:
        a, b = self.random.sample(self.names, 2)
        view = f"{a} p LATERAL VIEW explode(array(p.v, p.id % 3)) e AS x"
        rows = f"(SELECT *, unnest([v, id % 3]) AS x FROM {a}) p"
        shown, group = self.random.choice(
            [
                ("p.k, x AS n", ""),
                ("x AS k, count(*) AS n", " GROUP BY x"),
                ("p.g AS k, max(x) AS n", " GROUP BY p.g"),
            ]
        )
        where = self._choose("", " WHERE x > 0", f" WHERE x IN (SELECT v FROM {b})")
        return View(f"SELECT {shown} FROM {view}{where}{group}", ("k", "n"),
                    f"SELECT {shown} FROM {rows}{where}{group}")  # fmt: skip

    def _sliding(self) -> View:
        source = self._where(f"{self._choose(*self.names)} p")
        length, offset = self._choose("2", "3"), self._choose("0", "20")
        aggregate, key = self._choose("count(*)", "sum(p.v)", "max(p.id)"), self._choose("", ", p.k", ", p.g")
        newest = f"time_bucket(INTERVAL 1 MINUTE, p.ts, INTERVAL {offset} SECOND)"
        times = f"generate_series({newest} - INTERVAL {int(length) - 1} MINUTE, {newest}, INTERVAL 1 MINUTE)"
        window = f"window(p.ts, '{length} minutes', '1 minute', '{offset} seconds')"
        return View(
            f"SELECT window.start AS low, {aggregate} AS n FROM {source} GROUP BY {window}{key}",
            ("low", "n"),
            f"SELECT low, {aggregate} AS n FROM (SELECT p.*, unnest({times}) AS low FROM {source}) p "
            f"GROUP BY low{key}",
        )

    def _starred(self) -> View:
        a, b = self.random.sample(self.names, 2)
        side = self._choose("", "LEFT ")
        query = self._choose(
            f"SELECT p.* EXCEPT (ts, id, g, v), q.v AS n FROM {a} p {side}JOIN {b} q ON p.k = q.k",
            f"SELECT * EXCEPT (m) FROM (SELECT k, g AS m, max(v) AS n FROM {a} GROUP BY k, g) d",
            f"WITH d AS (SELECT k, v AS n FROM {a} WHERE v > 0) SELECT * FROM d",
            f"SELECT * FROM (SELECT p.k, q.v AS n FROM {a} p {side}JOIN {b} q ON p.g = q.g) d WHERE n > 1",
            f"SELECT g AS k, any_value(v) AS n FROM {a} GROUP BY g",
        )
        return View(query, ("k", "n"), query.replace("EXCEPT (", "EXCLUDE (").replace("any_value", "min"))

    def _shaped(self) -> View:
        shape = self.random.choice(SHAPES + SPARK_SHAPES * self.spark)
        query, theirs = draw(self.random, shape, self.random.sample(self.names, 3))
        return View(
            query.replace("{", "{{").replace("}", "}}"),
            ("k", "n"),
            theirs.replace("{", "{{").replace("}", "}}"),
        )

    def _of_stream(self) -> View:
        a, number = self._choose(*self.names), self._choose(*(f"v{one}" for one in self._known()), "")
        other = f"(SELECT n, count(*) AS k FROM {number} GROUP BY n)" if number else a
        query = self._choose(
            f"SELECT k, count(*) AS n FROM {STREAM} GROUP BY k",
            f"SELECT k, n FROM {STREAM} WHERE n > 1",
            f"SELECT o.k, count(p.v) AS n FROM {STREAM} o JOIN {a} p ON p.v = o.k GROUP BY o.k",
            f"SELECT p.g AS k, sum(o.k) AS n FROM {a} p LEFT JOIN {STREAM} o ON o.k = p.v GROUP BY p.g",
            f"SELECT p.k, o.k AS n FROM {STREAM} o JOIN {other} p ON p.k IS NOT NULL AND o.k = p.n"
            if number
            else f"SELECT k, n FROM {STREAM} UNION SELECT v, id FROM {a}",
        )
        return View(query, ("k", "n"))

    def _known(self) -> list[int]:
        return [number for number, view in enumerate(self.views) if view.columns == ("k", "n")]

    def _diamond(self) -> View:
        """Draw a view of one table, and of a view."""
        known = self._known()
        if not known:
            return self._rows()
        number, a = self.random.choice(known), self._choose(*self.names)
        query = self._choose(
            f"SELECT p.g AS k, count(l.n) AS n FROM {a} p LEFT JOIN v{number} l ON l.n = p.v GROUP BY p.g",
            f"SELECT p.v AS k, l.n FROM {a} p JOIN v{number} l ON l.n = p.v",
            f"SELECT v AS k, count(*) AS n FROM {a} WHERE v NOT IN (SELECT n FROM v{number} "
            "WHERE n IS NOT NULL) GROUP BY v",
            f"SELECT g AS k, max(v) AS n FROM {a} GROUP BY g "
            f"HAVING max(v) > (SELECT count(*) FROM v{number})",
            f"SELECT v AS k, id AS n FROM {a} UNION ALL SELECT {{whole}}, 0 FROM v{number}",
            f"SELECT {{whole}} AS k FROM v{number} UNION SELECT v FROM {a}",
        )
        return View(query, ("k",) if query.endswith(f"SELECT v FROM {a}") else ("k", "n"))

    def _simple(self) -> View:
        return self.random.choice([self._rows, self._grouped, self._top])()

    def _united(self) -> View:
        parts = [self._of_key("k") for _ in range(self.random.choice([2, 2, 3, 4]))]
        whole = [f"SELECT k, {{whole}} AS n FROM ({part}) u" for part in parts]
        while len(whole) > 1:
            left, right = whole.pop(0), whole.pop(0)
            joined = f"{left} {self._choose('UNION', 'UNION ALL')} {right}"
            whole.append(f"({joined})" if whole and self.random.random() < 0.5 else joined)
        return View(whole[0].removeprefix("(") if whole[0].count("(") < whole[0].count(")") else whole[0],
                    ("k", "n"))  # fmt: skip

    def _of_key(self, key: str) -> str:
        """Draw a query whose column k is that of a table."""
        while not (found := self._simple().query).split(".", 1)[-1].startswith(key) or " % 2 AS k" in found:
            pass
        return found

    def _named(self) -> View:
        inner = self._of_key("k") if self.random.random() < 0.6 else self._united().query
        outer = self._choose(
            "SELECT k, count(*) AS n FROM d GROUP BY k",
            "SELECT k, max(n) AS n FROM d GROUP BY k HAVING count(*) > 1",
            "SELECT n AS k, count(*) AS n FROM d GROUP BY n",
            "SELECT k, n FROM d WHERE n > 1",
            "SELECT DISTINCT k, 1 AS n FROM d",
            f"SELECT d.k, e.v AS n FROM d JOIN {self._choose(*self.names)} e ON e.k = d.k",
            f"SELECT d.k, e.v AS n FROM d LEFT JOIN {self._choose(*self.names)} e ON e.v = d.n",
        )
        return View(f"WITH d AS ({inner}) {outer}", ("k", "n"))

    def _of_views(self) -> View:
        known = self._known()
        if not known:
            return self._rows()
        one, other = self.random.choice(known), self.random.choice(known)
        query = self._choose(
            f"SELECT k, count(*) AS n FROM v{one} GROUP BY k",
            f"SELECT k, sum(n) AS n FROM v{one} GROUP BY k",
            f"SELECT l.k, count(m.n) AS n FROM v{one} l LEFT JOIN v{other} m ON m.n = l.n GROUP BY l.k",
            f"SELECT l.k, m.n FROM v{one} l JOIN v{other} m ON m.n = l.n AND l.n > 0",
            f"SELECT {{whole}} AS k, 1 AS n FROM v{one} UNION SELECT {{whole}}, 2 FROM v{other}",
        )
        return View(query, ("k", "n"))


OURS = {"start": "window.start", "bucket": "window(p.ts, '2 minutes')", "whole": "CAST(n AS BIGINT)"}
THEIRS = {
    "start": "time_bucket(INTERVAL 2 MINUTE, p.ts)",
    "bucket": "time_bucket(INTERVAL 2 MINUTE, p.ts)",
    "whole": "CAST(trunc(n) AS BIGINT)",
}


@dataclass
class History:
    """One history: tables, views, and what came of it."""

    seed: str
    views: int = 4
    steps: int = 4
    crashes: float = 0.3
    spark: bool = False
    seen: Counter[str] = field(default_factory=Counter)
    worlds: type[World] = World

    def differences(self) -> list[str]:
        """Run it, and return what is other than it should be."""
        random, folder = Random(self.seed), mkdtemp(prefix="wide-")
        kind = random.choice([*KEYS] if self.spark else SMALL)
        world = self.worlds(random, Path(folder), kind, self.spark)
        world.draw()
        drawing = Drawing(random, self.spark, world.names, bool(world.stream))
        made = dict[int, View]()
        try:
            world.make()
            with Reopened(f"{folder}/lake", world.settings, random) as lakes:
                with lakes.process() as lake:
                    self._begin(lake, world, drawing, made)
                for _ in range(self.steps):
                    self._step(world, lakes)
                with lakes.process() as lake:
                    for _ in range(1 + self.views):
                        lake.run()
                        if not _begun_anew(lake):
                            break
                    return self._compared(lake, world, made)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _begin(self, lake: Lake, world: World, drawing: Drawing, made: dict[int, View]) -> None:
        """Make the tables known, and the views."""
        world.create(lake)
        for number in range(self.views):
            view = drawing.view()
            try:
                with suppress(NotOursError):
                    self._create(lake, world, made, number, view)
                    made[number] = view
            except LakestreamError as error:
                told = "asks Spark" if error.code == "JAVA_MISSING" else f"refused {str(error)[:150]}"
                self.seen[f"{told} :: {view.query}"] += 1
            if number not in made:
                drawing.views[number] = View("", ())

    def _create(self, lake: Lake, world: World, made: Iterable[int], number: int, view: View) -> None:
        """Create a view, where DuckDB takes its query too."""
        with world.database() as database:
            for one in made:
                database.register(f"v{one}", lake.sql(f"SELECT * FROM v{one} LIMIT 0").to_arrow())
            try:
                database.execute(view.expected)
            except duckdb.Error as error:
                self.seen[f"not for DuckDB {str(error)[:80]}"] += 1
                raise NotOursError from None
        lake.sql(f"CREATE MATERIALIZED VIEW v{number} {view.layout}AS {view.query.format(**OURS)}")
        said = lake.sql(f"EXPLAIN MATERIALIZED VIEW v{number}").fetchall()
        how = [str(text) for what, text in said if what == "refresh"]
        moved = any("move what is kept" in text for text in how)
        self.seen["moved" if moved else " ".join(how[0].split()[:3])] += 1
        if how[0].startswith("as a whole"):
            self.seen[f"why {how[0]}"] += 1

    def _step(self, world: World, lakes: Reopened) -> None:
        for _ in range(world.random.randint(1, 3)):
            world.change()
        with suppress(SimulatedCrash), lakes.process() as lake:
            views = [stream.name for stream in lake.streams() if stream.name.rpartition(".")[2] != "s"]
            if views and world.random.random() < 0.2:
                with suppress(StreamError):  # a table was made again: it begins anew in the end
                    lake.sql(f"REFRESH MATERIALIZED VIEW {world.random.choice(views)}")
            if world.random.random() >= self.crashes:
                lake.run()
                return
            with crash_at(world.random.choice(POINTS), world.random.randint(1, 6)):
                lake.run()

    def _compared(self, lake: Lake, world: World, made: dict[int, View]) -> list[str]:
        failed = [f"{one.name}: {one.last_error}" for one in lake.streams() if one.last_error]
        if any("JAVA_MISSING" in error for error in failed):
            self.seen["ended where Spark is asked"] += 1
            return []
        found = [f"{self.seed} {world.kind} {error}" for error in failed]
        with world.database() as database:
            if world.stream:
                found += _differences(f"{self.seed} {world.kind} {world.stream}", lake, database, STREAM)
            for number, view in made.items():
                _make(database, f"v{number}", view)
                about = f"{self.seed} {world.kind} v{number}: {view.layout}{view.query}"
                found += _differences(about, lake, database, f"v{number}")
        return found


def _make(database: duckdb.DuckDBPyConnection, name: str, view: View) -> None:
    """Make a view's table; texts that name no folder of their own are NULL."""
    database.execute(f"CREATE TABLE {name} AS {view.expected}")
    kinds = {column[0]: column[1] for column in database.execute(f"DESCRIBE {name}").fetchall()}
    if kinds.get(view.folder) == "VARCHAR":
        told = ", ".join(f"'{text}'" for text in UNTOLD)
        database.execute(f"UPDATE {name} SET {view.folder} = NULL WHERE {view.folder} IN ({told})")


def _differences(about: str, lake: Lake, database: duckdb.DuckDBPyConnection, name: str) -> list[str]:
    """Say what is other in a table of the lake than in DuckDB's."""
    expected = alike(database.execute(f"SELECT * FROM {name}").fetchall())
    ours = alike(lake.sql(f"SELECT * FROM {name}").fetchall())
    return [] if ours == expected else [f"{about}\n  found    {ours}\n  expected {expected}"]


class NotOursError(Exception):
    """A query that is no case: DuckDB does not take it."""


def _begun_anew(lake: Lake) -> bool:
    """Have streams of which a table was made again begin anew, and return whether there are such."""
    waiting = [one.name for one in lake.streams() if "SOURCE_REPLACED" in str(one.last_error)]
    for name in waiting:
        lake.sql(f"RECALCULATE STREAM {name} RESYNC")
    return bool(waiting)


def alike(rows: Sequence[Sequence[object]]) -> list[str]:
    """Return rows as they are compared: in an order, and numbers by their value."""
    return sorted(repr(tuple(map(_alike, row))) for row in rows)


def _alike(value: object) -> object:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else round(value, 9) + 0.0  # sums in any order
    if isinstance(value, Decimal):
        return value.normalize() + 0
    if isinstance(value, dict):
        return {name: _alike(one) for name, one in value.items()}
    return plain(value)


def main() -> int:
    """Run histories of drawn views."""
    seen: Counter[str] = Counter()

    def found(seed: str, spark: bool) -> list[str]:
        return History(seed, spark=spark, seen=seen).differences()

    status = run_histories("python -m tests.properties.wide", "also keys of all types, and EXISTS", found)
    sys.stdout.writelines(f"{count} {what}\n" for what, count in seen.most_common())
    return status


if __name__ == "__main__":
    sys.exit(main())
