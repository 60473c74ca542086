"""Materialized views of drawn queries over drawn tables with keys of any type, against DuckDB.

``python -m tests.properties.wide --count 100 --seed 7``. Each history has three Delta tables that others
write (rows that are added, changed, merged, deleted, files that are put together, partitions), and four views
with joins, subqueries, UNION in each other, window functions, windows, and views over views; its changes are
cut into commits and ticks at random, with crashes between. In the end each view holds what DuckDB gives of
its query over the tables as they are.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from lakestream.errors import LakestreamError
from tests.properties.followed import POINTS, START, plain, run_histories

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


@dataclass
class World:
    """The Delta tables of a history, and who writes them."""

    random: Random
    folder: Path
    kind: str
    ids: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in NAMES})
    _next: int = 0

    @property
    def schema(self) -> pa.Schema:
        """The columns of each table."""
        key, at = KEYS[self.kind][0], pa.timestamp("us", "UTC")
        named = {"ts": at, "id": pa.int32(), "k": key, "g": pa.string(), "v": pa.int32()}
        return pa.schema(named.items())

    def make(self) -> None:
        """Make the tables, some of them partitioned."""
        for name in NAMES:
            DeltaTable.create(
                str(self.folder / name),
                schema=self.schema,
                partition_by=["g"] if self.random.random() < 0.3 else None,
                configuration={"delta.enableChangeDataFeed": "true"},
            )
            if self.random.random() < 0.8:
                self._add(name)

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
        elif what < 0.95:
            self._merge(table, name, some)
        else:
            table.optimize.compact()

    def _add(self, name: str) -> None:
        write_deltalake(str(self.folder / name), self._rows(name, self.random.randint(1, 3)), mode="append")

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
        at, choose = START + timedelta(seconds=self.random.randint(0, 400)), self.random.choice
        return {"ts": at, "k": choose(KEYS[self.kind][1]), "g": choose("xy"), "v": choose([None, *range(5)])}

    def _value(self) -> str:
        return self.random.choice(["0", "3", "v + 1", "NULL"])

    def database(self) -> duckdb.DuckDBPyConnection:
        """Return the tables as DuckDB has them."""
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        for name in NAMES:
            rows = DeltaTable(str(self.folder / name)).to_pyarrow_table()
            connection.register(f"rows_{name}", rows)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows_{name}")
        return connection


@dataclass(frozen=True)
class View:
    """A view's query; ``{bucket}`` and the like stand for what DuckDB has other words for."""

    query: str
    columns: tuple[str, ...]


@dataclass
class Drawing:
    """Queries that are drawn, each over the tables and the views before it."""

    random: Random
    spark: bool = False
    views: list[View] = field(default_factory=list)

    def view(self) -> View:
        """Draw a query."""
        ways: list[Callable[[], View]] = [self._united, self._named, self._grouped, self._top, self._rows]
        ways += [self._bucketed] + [self._of_views] * 2 * bool(self.views) + [self._total]
        found = self.random.choice(ways)()
        self.views.append(found)
        return found

    def _choose(self, *options: str) -> str:
        return self.random.choice(options)

    def _from(self) -> tuple[str, tuple[str, ...]]:
        """Draw what rows come from, and the names of what may be NULL or not of it."""
        a, b, c = self.random.sample(NAMES, 3)
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
        a, b = self.random.sample(NAMES, 2)
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
        function = self._choose("row_number()", "row_number()", *(["rank()"] if self.spark else []))
        inner = (
            f"SELECT p.k AS k, p.v AS n, {function} OVER (PARTITION BY {self._choose('p.k', 'p.g')} "
            f"ORDER BY p.v DESC NULLS LAST, {order}) AS place FROM {source}"
        )
        return View(f"SELECT k, n FROM ({inner}) t WHERE place <= {self._choose('1', '2')}", ("k", "n"))

    def _bucketed(self) -> View:
        source, _ = self._from()
        source = source if "WHERE" in source else self._where(source)
        aggregate = self._choose("count(*)", "sum(p.v)", "max(p.id)", "count(DISTINCT p.k)")
        key = self._choose("", ", p.k", ", p.g")
        return View(
            f"SELECT {{start}} AS low, {aggregate} AS n FROM {source} GROUP BY {{bucket}}{key}", ("low", "n")
        )

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
            f"SELECT d.k, e.v AS n FROM d JOIN {self._choose(*NAMES)} e ON e.k = d.k",
            f"SELECT d.k, e.v AS n FROM d LEFT JOIN {self._choose(*NAMES)} e ON e.v = d.n",
        )
        return View(f"WITH d AS ({inner}) {outer}", ("k", "n"))

    def _of_views(self) -> View:
        numbers = range(len(self.views))
        known = [number for number in numbers if self.views[number].columns == ("k", "n")]
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

    def differences(self) -> list[str]:
        """Run it, and return what is other than it should be."""
        random, folder = Random(self.seed), mkdtemp(prefix="wide-")
        world = World(random, Path(folder), random.choice([*KEYS] if self.spark else SMALL))
        drawing, made = Drawing(random, self.spark), dict[int, View]()
        try:
            world.make()
            with Lake(f"{folder}/lake", settings=_settings()) as lake:
                for name in NAMES:
                    lake.sql(f"CREATE TABLE {name} LOCATION '{folder}/{name}' TIMESTAMP BY ts")
                for number in range(self.views):
                    view = drawing.view()
                    try:
                        with suppress(NotOursError):
                            self._create(lake, world, made, number, view)
                            made[number] = view
                    except LakestreamError as error:
                        self.seen[f"refused {str(error)[:150]} :: {view.query}"] += 1
                    if number not in made:
                        drawing.views[number] = View("", ())
            for _ in range(self.steps):
                self._step(world, folder)
            with Lake(f"{folder}/lake", settings=_settings()) as lake:
                lake.run()
                return self._compared(lake, world, made)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _create(self, lake: Lake, world: World, made: Iterable[int], number: int, view: View) -> None:
        """Create a view, where DuckDB takes its query too."""
        with world.database() as database:
            for one in made:
                database.register(f"v{one}", lake.sql(f"SELECT * FROM v{one} LIMIT 0").to_arrow())
            try:
                database.execute(view.query.format(**THEIRS))
            except duckdb.Error as error:
                self.seen[f"not for DuckDB {str(error)[:80]}"] += 1
                raise NotOursError from None
        lake.sql(f"CREATE MATERIALIZED VIEW v{number} AS {view.query.format(**OURS)}")
        said = lake.sql(f"EXPLAIN MATERIALIZED VIEW v{number}").fetchall()
        how = [str(text) for what, text in said if what == "refresh"]
        moved = any("move what is kept" in text for text in how)
        self.seen["moved" if moved else " ".join(how[0].split()[:3])] += 1
        if how[0].startswith("as a whole"):
            self.seen[f"why {how[0]}"] += 1

    def _step(self, world: World, folder: str) -> None:
        for _ in range(world.random.randint(1, 3)):
            world.change()
        with Lake(f"{folder}/lake", settings=_settings()) as lake:
            if world.random.random() >= self.crashes:
                lake.run()
                return
            point = world.random.choice(POINTS)
            with suppress(SimulatedCrash), crash_at(point, world.random.randint(1, 6)):
                lake.run()

    def _compared(self, lake: Lake, world: World, made: dict[int, View]) -> list[str]:
        failed = [f"{one.name}: {one.last_error}" for one in lake.streams() if one.last_error]
        found = [f"{self.seed} {world.kind} {error}" for error in failed]
        with world.database() as database:
            for number, view in made.items():
                query = view.query.format(**THEIRS)
                database.execute(f"CREATE TABLE v{number} AS {query}")
                expected = alike(database.execute(f"SELECT * FROM v{number}").fetchall())
                ours = alike(lake.sql(f"SELECT * FROM v{number}").fetchall())
                if ours != expected:
                    said = f"  found    {ours}\n  expected {expected}"
                    found.append(f"{self.seed} {world.kind} v{number}: {view.query}\n{said}")
        return found


class NotOursError(Exception):
    """A query that is no case: DuckDB does not take it."""


def _settings() -> Settings:
    return Settings(checkpoint_ticks=2)


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
