"""Streams that follow every table they read, over random histories of three tables, against DuckDB.

``python -m tests.properties.followed --count 100 --seed 7``. Each history inserts, updates and deletes rows
of any table, in any order, cut into commits and ticks at random, with crashes between; in the end the outputs
are what DuckDB gives of the queries, evaluated for each window over the tables as they are. A history has
some of the streams, and takes about two seconds of one core: 10,000 of them, and of views, are a night.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Self
from unittest.mock import patch

import duckdb

from lakestream import Lake
from lakestream.compute.windows.evaluate import Way
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from lakestream.engine.planning import analysis
from lakestream.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

POINTS = ("C1", "C2", "C3", "C4", "C6a", "C6b", "C7")
START = datetime(2025, 1, 1, 8, tzinfo=UTC)
SITES, REGIONS = ("a", "b", "c"), ("x", "y")

TABLES = """
CREATE TABLE meters (ts TIMESTAMP, site VARCHAR(4) COMPOSITE KEY, amps INT);
CREATE TABLE sites (ts TIMESTAMP, site VARCHAR(4) COMPOSITE KEY, region VARCHAR(4), most INT);
CREATE TABLE regions (ts TIMESTAMP, region VARCHAR(4) COMPOSITE KEY, factor INT);
"""
BOUNDED = "m.ts >= _twstart AND m.ts < _twend"


@dataclass(frozen=True)
class Form:
    """A calculation, its columns beside the start of the window, and what the stream says besides."""

    query: str
    columns: str = "n"
    trigger: str = "INTERVAL(1m) SLIDING(1m)"
    groups: str = ""
    exact: str = "EXACT(ALL)"
    step: int = 60
    length: int = 60
    needs_spark: bool = False


FORMS = {
    "left": Form(
        f"SELECT _twstart, count(*), sum(m.amps * s.most) FROM meters m LEFT JOIN sites s ON s.site = m.site "
        f"WHERE {BOUNDED}",
        "n, total",
    ),
    "chain": Form(
        f"SELECT _twstart, r.factor, sum(m.amps) FROM meters m JOIN sites s ON s.site = m.site "
        f"JOIN regions r ON r.region = s.region WHERE {BOUNDED} GROUP BY r.factor",
        "factor COMPOSITE KEY, total",
    ),
    "left_chain": Form(
        f"SELECT _twstart, count(*), sum(r.factor) FROM meters m LEFT JOIN sites s ON s.site = m.site "
        f"LEFT JOIN regions r ON r.region = s.region WHERE {BOUNDED}",
        "n, total",
    ),
    "missing": Form(
        f"SELECT _twstart, count(*) FROM meters m LEFT JOIN sites s ON s.site = m.site "
        f"WHERE {BOUNDED} AND s.site IS NULL",
    ),
    "exists": Form(
        f"SELECT _twstart, count(*) FROM meters m WHERE {BOUNDED} AND EXISTS "
        f"(SELECT 1 FROM sites s WHERE s.site = m.site AND s.most > 3)",
        needs_spark=True,
    ),
    "not_in": Form(
        f"SELECT _twstart, count(*) FROM meters m WHERE {BOUNDED} AND m.site NOT IN "
        f"(SELECT s.site FROM sites s WHERE s.most > 3)",
    ),
    "grouped": Form(
        f"WITH d AS (SELECT region, max(most) AS most FROM sites GROUP BY region) "
        f"SELECT _twstart, sum(d.most) FROM meters m JOIN sites s ON s.site = m.site "
        f"JOIN d ON d.region = s.region WHERE {BOUNDED}",
    ),
    "union": Form(
        "SELECT _twstart, count(*), sum(u.v) FROM (SELECT ts, amps AS v FROM meters WHERE ts >= _twstart AND "
        "ts < _twend UNION ALL SELECT ts, factor AS v FROM regions WHERE ts >= _twstart AND ts < _twend) u",
        "n, total",
        exact="EXACT(meters, regions)",
    ),
    "as_of": Form(
        f"SELECT _twstart, sum(m.amps * s.most) FROM meters m JOIN sites s ON s.site = m.site "
        f"AND s.ts <= m.ts WHERE {BOUNDED} AND s.ts <= _twend",
        trigger="INTERVAL(2m) SLIDING(1m)",
        length=120,
    ),
    "of_group": Form(
        "SELECT _twstart, (SELECT max(s.most) FROM sites s WHERE s.site = %%1), count(*) FROM %%trows",
        "most, n",
        groups="PARTITION BY site ",
        needs_spark=True,
    ),
    "whole": Form(
        "SELECT _twstart, (SELECT sum(factor) FROM regions), count(*) FROM %%trows",
        "total, n",
        exact="EXACT(ALL, WITHIN 1d)",
    ),
}


SMALL = tuple(name for name, form in FORMS.items() if not form.needs_spark)
"""The forms that the small path computes, without a JVM."""


@contextmanager
def without_spark() -> Iterator[None]:
    """Have the small path give the types of results that Spark is asked for."""
    sure = patch.object(analysis, "_SURE", tuple(Way))
    with sure, patch.object(analysis, "_is_plain", lambda _: True):
        yield


@contextmanager
def without_java() -> Iterator[None]:
    """Do without Spark whatever asks for it: that is refused, JAVA_MISSING."""
    with without_spark(), patch.dict(os.environ, JAVA_HOME="/nonexistent"):
        yield


def evaluator() -> duckdb.DuckDBPyConnection:
    """Return a DuckDB that evaluates queries over tables of its own.

    By what DuckDB 2.0.0 knows of their values it leaves out groups: of those that meet ``sum(x) > 4`` too.
    """
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; SET disabled_optimizers = 'statistics_propagation'")
    return connection


@dataclass
class Reopened:
    """A lake that goes on in the same process or in a new one, as is drawn; a context manager."""

    path: str
    settings: Settings
    random: Random
    _lake: Lake | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._lake is not None:
            self._lake.close()

    @contextmanager
    def process(self) -> Iterator[Lake]:
        """Give the open lake; it is closed behind an error, such as a crash, and at times without one."""
        lake, self._lake = self._lake or Lake(self.path, settings=self.settings), None
        with ExitStack() as closing:
            closing.enter_context(lake)
            yield lake
            if self.random.random() < 0.6:
                closing.pop_all()
                self._lake = lake


@dataclass
class World:
    """The tables as they should be: rows by their key."""

    random: Random
    rows: dict[str, dict[tuple[datetime, str], tuple[Any, ...]]] = field(
        default_factory=lambda: {"meters": {}, "sites": {}, "regions": {}}
    )

    def statement(self) -> str:
        """Draw a statement over one table, and follow it."""
        name = self.random.choice(["meters", "meters", "sites", "regions"])
        rows = self.rows[name]
        if len(rows) > (name == "meters") and self.random.random() < 0.3:  # an empty source is for Spark
            key = self.random.choice(sorted(rows))
            del rows[key]
            column = {"meters": "site", "sites": "site", "regions": "region"}[name]
            return f"DELETE FROM {name} WHERE ts = '{_written(key[0])}' AND {column} = '{key[1]}'"
        made = [self._row(name) for _ in range(self.random.randint(1, 3))]
        rows |= made
        values = " ".join(f"({', '.join(map(_literal, (*key, *rest)))})" for key, rest in dict(made).items())
        return f"INSERT INTO {name} VALUES {values}"

    def _row(self, name: str) -> tuple[tuple[datetime, str], tuple[Any, ...]]:
        at = START + timedelta(seconds=self.random.randint(0, 300))
        number = self.random.choice([None, *range(6)])
        if name == "meters":
            return (at, self.random.choice(SITES)), (number,)
        at = START + timedelta(seconds=60 * self.random.randint(0, 5))
        if name == "regions":
            return (at, self.random.choice(REGIONS)), (number,)
        return (at, self.random.choice(SITES)), (self.random.choice([*REGIONS, None]), number)

    def expected(self, form: Form) -> list[tuple[Any, ...]]:
        """Return what a form's output should hold, by DuckDB."""
        connection = self.database()
        found: list[tuple[Any, ...]] = []
        for group in self._groups(form):
            times = [at for at, site in self.rows["meters"] if group in ("", site)]
            for low in _windows(min(times), max(times), form):
                sql = _bound(form, low, group)
                found += [(*row, group) if group else row for row in connection.execute(sql).fetchall()]
        return sorted(found, key=repr)

    def database(self) -> duckdb.DuckDBPyConnection:
        """Return the tables as DuckDB has them."""
        connection = evaluator()
        for statement in TABLES.replace(" COMPOSITE KEY", "").replace("TIMESTAMP", "TIMESTAMPTZ").split(";"):
            connection.execute(statement)
        for name, rows in self.rows.items():
            for key, rest in rows.items():
                marks = ", ".join("?" * (2 + len(rest)))
                connection.execute(f"INSERT INTO {name} VALUES ({marks})", [*key, *rest])
        return connection

    def _groups(self, form: Form) -> list[str]:
        if form.groups:
            return sorted({site for _, site in self.rows["meters"]})
        return [""] if self.rows["meters"] else []


def _windows(first: datetime, newest: datetime, form: Form) -> Iterator[datetime]:
    """Give the starts of the windows that have closed: from the earliest one that holds the first row."""
    step, length = timedelta(seconds=form.step), timedelta(seconds=form.length)
    low = START - length
    while low + length <= newest:
        if low + length > first:
            yield low
        low += step


def _bound(form: Form, low: datetime, group: str) -> str:
    high = low + timedelta(seconds=form.length)
    bounds = f"ts >= '{_written(low)}' AND ts < '{_written(high)}'"
    own = f" AND site = '{group}'" if group else ""
    sql = form.query.replace("%%trows", f"meters WHERE {bounds}{own}").replace("%%1", f"'{group}'")
    for name, at in (("_twstart", low), ("_twend", high)):
        sql = sql.replace(name, f"TIMESTAMPTZ '{_written(at)}'")
    return sql


def _written(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S+00:00")


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    return f"'{_written(value)}'" if isinstance(value, datetime) else repr(value)


def statements(names: Sequence[str], history: bool) -> str:
    """Return the statements that make streams of some forms."""
    option = "FILL_HISTORY | " if history else ""
    return "".join(
        f"CREATE STREAM {name}_s {form.trigger} FROM meters {form.groups}"
        f"STREAM_OPTIONS({option}{form.exact}) INTO {name}_o (at, {form.columns}) AS {form.query};\n"
        for name, form in ((name, FORMS[name]) for name in names)
    )


def differences(seed: str, names: Sequence[str], steps: int, *, crashes: float = 0.3) -> list[str]:
    """Run one history, and return what is other than it should be; ``crashes`` is how likely one is."""
    random = Random(seed)
    world, folder = World(random), mkdtemp(prefix="followed-")
    try:
        with Reopened(folder, Settings(checkpoint_ticks=2), random) as lakes:
            with lakes.process() as lake:
                lake.sql(TABLES)
                history = random.random() < 0.5
                for _ in range(random.randint(1, 4) if history else 0):
                    lake.sql(world.statement())
                lake.sql(statements(names, history))
            for _ in range(steps):
                step(lakes, world, crashes)
            with lakes.process() as lake:
                lake.run()
                return [found for name in names if (found := _compared(lake, world, name))]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def step(lakes: Reopened, world: World, crashes: float) -> None:
    """Write some commits, then run a round that may be ended at some point."""
    with suppress(SimulatedCrash), lakes.process() as lake:
        for _ in range(world.random.randint(1, 3)):
            lake.sql(world.statement())
        if world.random.random() >= crashes:
            lake.run()
            return
        with crash_at(world.random.choice(POINTS), world.random.randint(1, 3)):
            lake.run()


def _compared(lake: Lake, world: World, name: str) -> str:
    form = FORMS[name]
    rows = lake.sql(f"SELECT * FROM {name}_o").fetchall()
    columns = [column.lower() for column in lake.sql(f"SELECT * FROM {name}_o").columns]
    wanted = [c.split()[0] for c in ("at", *form.columns.split(", "))] + (
        ["tag_site", "site"] if form.groups else []
    )
    places = [columns.index(column) for column in wanted if column in columns]
    found = in_order(tuple(row[place] for place in places) for row in rows)
    expected = in_order(world.expected(form))
    if found == expected:
        return ""
    return f"{name}: {world.rows}\n  found    {found}\n  expected {expected}"


def plain(value: object) -> object:
    """Return a value of a row as it is compared."""
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value


def in_order(rows: Iterable[Sequence[object]]) -> list[tuple[object, ...]]:
    """Return rows as they are compared, in an order that is that of equal rows."""
    return sorted((tuple(map(plain, row)) for row in rows), key=repr)


def run_histories(prog: str, spark: str, found_in: Callable[[str, bool], list[str]]) -> int:
    """Run histories as the command line says; exit status 1 when one does not hold.

    ``spark`` says what ``--spark`` is for; ``found_in`` gives what differs in the history of a seed, with it
    or without.
    """
    parser = argparse.ArgumentParser(prog=prog)
    parser.add_argument("--count", type=int, default=20, help="how many histories (default: 20)")
    parser.add_argument("--seed", type=int, default=1, help="other seeds give other histories (default: 1)")
    parser.add_argument("--spark", action="store_true", help=spark)
    options = parser.parse_args()
    failed = 0
    for number in range(options.count):
        seed = f"{options.seed}-{number}"
        with nullcontext() if options.spark else without_java():
            found = found_in(seed, options.spark)
        failed += bool(found)
        sys.stdout.write(f"seed {seed}: {'holds' if not found else chr(10).join(found)}\n")
        sys.stdout.flush()
    return 1 if failed else 0


def some(seed: str, names: Sequence[str], most: int) -> list[str]:
    """Draw a few of the names for the history of a seed: all in each would be few histories a night."""
    return Random(f"some of {seed}").sample([*names], most)


def main() -> int:
    """Run histories of streams that follow every table of their query."""
    return run_histories(
        "python -m tests.properties.followed",
        "also the queries that only Spark computes",
        lambda seed, spark: differences(seed, some(seed, (*FORMS,) if spark else SMALL, 3), steps=5),
    )


if __name__ == "__main__":
    sys.exit(main())
