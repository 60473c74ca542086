"""Tables that are partitioned by values of any type, as sources, lookups and outputs, against DuckDB.

``python -m tests.properties.parted --count 20 --seed 7``. Each history draws a type, and values that no
folder is plainly named after; others (delta-rs or Spark) write a source and a lookup that are partitioned by
them, and a source that is not. Streams and views read and write such tables; changes, ticks and statements
that change rows come in any order. In the end outputs, tables and VERIFY agree with DuckDB, to which a text
that folders do not tell from NULL was NULL from the start.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings
from tests.properties.followed import START, evaluator, run_histories
from tests.properties.wide import alike

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    from pyspark.sql import SparkSession

UNTOLD = ("", "__HIVE_DEFAULT_PARTITION__")
"""Texts that folders do not tell from NULL."""
PLAIN = (None, "x", "X", *UNTOLD, "null", "..", "-1", "2025-01-01")
ODD = (
    " ",
    " a",
    "a ",
    "a/b",
    "%",
    "%2F",
    "a=b",
    "a:b",
    "a'b",
    'a"b',
    "a\nb",
    "a\tb",
    "\x7f",
    "#?&+",
    "a\\b",
    "é",
    "日本",
    "{*}",
    "x" * 200,
)
LONG_AGO = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


@dataclass(frozen=True)
class Kind:
    """A type of values by which tables are partitioned, and some.

    ``small``: no JVM is asked for them; ``by_spark``: delta-rs does not write some of them as they are.
    """

    arrow: pa.DataType
    values: tuple[object, ...]
    small: bool = True
    by_spark: bool = False
    is_output: bool = True


KINDS = {
    "plain text": Kind(pa.string(), PLAIN),
    "odd text": Kind(pa.string(), (*PLAIN, *ODD), small=False),
    "tinyint": Kind(pa.int8(), (None, 0, 127, -128)),
    "int": Kind(pa.int32(), (None, 0, 1, -1)),
    "bigint": Kind(pa.int64(), (None, 0, 2**63 - 1, -(2**63))),
    "boolean": Kind(pa.bool_(), (None, True, False)),
    "date": Kind(
        pa.date32(),
        (None, date(1969, 12, 31), date(2025, 1, 1), date(1582, 10, 4), date(9999, 12, 31), date.min),
    ),
    "timestamp": Kind(
        pa.timestamp("us", "UTC"),
        (None, START, LONG_AGO, START + timedelta(microseconds=1), datetime(2025, 3, 30, 2, 30, tzinfo=UTC)),
        small=False,
    ),
    "local": Kind(
        pa.timestamp("us"),
        (None, START.replace(tzinfo=None), LONG_AGO.replace(tzinfo=None), datetime(2025, 3, 30, 2, 30)),  # noqa: DTZ001
        small=False,
    ),
    "decimal": Kind(
        pa.decimal128(20, 4),
        (
            None,
            Decimal(0),
            Decimal("-1.5"),
            Decimal("1.5001"),
            Decimal("-0.0001"),
            -Decimal(10**20 - 1) / 10**4,
        ),
        small=False,
        by_spark=True,
    ),
    "double": Kind(
        pa.float64(), (None, nan, 0.0, -0.0, inf, -inf, 0.1, 1e16, -1e-7, 1e200), small=False, by_spark=True
    ),
    "float": Kind(pa.float32(), (None, nan, 0.0, -0.0, inf, 0.5, 3e38, 1e-40), small=False),
    "binary": Kind(
        pa.binary(), (None, b"", b"a", b"\0", b"\xff/"), small=False, by_spark=True, is_output=False
    ),
}

TABLES = ("src", "look", "flat")
LAYOUT = {"src": ["g"], "look": ["g"], "flat": None}
WINDOW = "time_bucket(INTERVAL 1 MINUTE, ts)"
CLOSED = f"{WINDOW} + INTERVAL 1 MINUTE <= (SELECT max(ts) FROM {{0}})"


@dataclass(frozen=True)
class Form:
    """A stream or view, its columns, and DuckDB's query; ``parted``: the output is partitioned by ``k``."""

    statement: str
    expected: str
    columns: str
    parted: bool = False


def _grid(source: str, options: str, query: str, into: str) -> str:
    return (
        f"CREATE STREAM {{0}} INTERVAL(1m) SLIDING(1m) FROM {source} "
        f"STREAM_OPTIONS(FILL_HISTORY | {options}) INTO {{0}}_o (at, {into}) {{1}}AS {query}"
    )


FORMS = {
    "by_key": Form(
        _grid(
            "src",
            "EXACT",
            "SELECT _twstart, g, count(*), max(id) FROM %%trows GROUP BY g",
            "k COMPOSITE KEY, n, m",
        ),
        f"SELECT {WINDOW} AS at, g, count(*), max(id) FROM src WHERE {CLOSED.format('src')} GROUP BY 1, g",
        "at, k, n, m",
        parted=True,
    ),
    "flat_by_key": Form(
        _grid(
            "flat",
            "EXACT",
            "SELECT _twstart, g, count(*), max(id) FROM %%trows GROUP BY g",
            "k COMPOSITE KEY, n, m",
        ),
        f"SELECT {WINDOW} AS at, g, count(*), max(id) FROM flat WHERE {CLOSED.format('flat')} GROUP BY 1, g",
        "at, k, n, m",
        parted=True,
    ),
    "of_lookup": Form(
        _grid(
            "flat",
            "EXACT(ALL)",
            "SELECT _twstart, count(*), sum(l.v) FROM flat f JOIN look l ON l.g = f.g "
            "WHERE f.ts >= _twstart AND f.ts < _twend",
            "n, m",
        ),
        f"SELECT w AS at, count(l.id), sum(l.v) FROM (SELECT unnest(generate_series(min({WINDOW}), "
        f"max({WINDOW}) - INTERVAL 1 MINUTE, INTERVAL 1 MINUTE)) AS w FROM flat) "
        f"LEFT JOIN (SELECT f.ts, l.id, l.v FROM flat f JOIN look l ON l.g = f.g) l "
        f"ON l.ts >= w AND l.ts < w + INTERVAL 1 MINUTE GROUP BY w",
        "at, n, m",
    ),
    "counts": Form(
        "CREATE MATERIALIZED VIEW {0}_o {1}AS SELECT g AS k, count(*) AS n, sum(v) AS m FROM src GROUP BY g",
        "SELECT g, count(*), sum(v) FROM src GROUP BY g",
        "k, n, m",
        parted=True,
    ),
    "most": Form(
        "CREATE MATERIALIZED VIEW {0}_o {1}AS SELECT g AS k, max(v) AS n, min(id) AS m FROM flat GROUP BY g",
        "SELECT g, max(v), min(id) FROM flat GROUP BY g",
        "k, n, m",
        parted=True,
    ),
    "joined": Form(
        "CREATE MATERIALIZED VIEW {0}_o {1}AS SELECT f.g AS k, f.id AS n, l.id AS m FROM flat f "
        "LEFT JOIN look l ON l.g = f.g",
        "SELECT f.g, f.id, l.id FROM flat f LEFT JOIN look l ON l.g = f.g",
        "k, n, m",
        parted=True,
    ),
    "missing": Form(
        "CREATE MATERIALIZED VIEW {0}_o {1}AS SELECT s.g AS k, s.id AS n FROM src s WHERE NOT EXISTS "
        "(SELECT 1 FROM look l WHERE l.g = s.g)",
        "SELECT s.g, s.id FROM src s WHERE NOT EXISTS (SELECT 1 FROM look l WHERE l.g = s.g)",
        "k, n",
        parted=True,
    ),
    "known": Form(
        "CREATE MATERIALIZED VIEW {0}_o {1}AS SELECT DISTINCT g AS k FROM src WHERE g IS NOT NULL",
        "SELECT DISTINCT g FROM src WHERE g IS NOT NULL",
        "k",
    ),
    "both": Form(
        "CREATE MATERIALIZED VIEW {0}_o {1}AS SELECT g AS k, v AS n FROM src UNION SELECT g, v FROM flat",
        "SELECT g, v FROM src UNION SELECT g, v FROM flat",
        "k, n",
        parted=True,
    ),
}


@dataclass
class World:
    """The tables as they should be, and who writes them."""

    random: Random
    folder: Path
    kind: Kind
    values: Sequence[object]
    spark: SparkSession | None = None
    rows: dict[str, dict[int, dict[str, Any]]] = field(default_factory=lambda: {name: {} for name in TABLES})
    _next: int = 0

    @property
    def schema(self) -> pa.Schema:
        """The columns of each table."""
        at = pa.timestamp("us", "UTC")
        return pa.schema([("ts", at), ("id", pa.int32()), ("g", self.kind.arrow), ("v", pa.int32())])

    def make(self) -> None:
        """Make the tables, by one writer or the other."""
        fed = {"delta.enableChangeDataFeed": "true"}
        for name in TABLES:
            DeltaTable.create(
                str(self.folder / name), schema=self.schema, partition_by=LAYOUT[name], configuration=fed
            )
            self.add(name)

    def drawn(self, count: int) -> list[dict[str, Any]]:
        """Draw rows."""
        found = []
        for _ in range(count):
            self._next += 1
            at = START + timedelta(seconds=self.random.randint(0, 300))
            given = self.random.choice(self.values), self.random.choice([None, *range(4)])
            found.append({"ts": at, "id": self._next, "g": given[0], "v": given[1]})
        return found

    def told(self, name: str, rows: Sequence[dict[str, Any]]) -> None:
        """Have rows in a table."""
        for row in rows:
            untold = LAYOUT[name] is not None and row["g"] in UNTOLD and isinstance(row["g"], str)
            self.rows[name][row["id"]] = {**row, "g": None if untold else row["g"]}

    def add(self, name: str) -> None:
        """Append rows."""
        rows = self.drawn(self.random.randint(1, 4))
        self.told(name, rows)
        table = pa.Table.from_pylist(rows, self.schema)
        if self.spark is None:
            write_deltalake(str(self.folder / name), table, mode="append")
        else:
            frame = self.spark.createDataFrame(table)
            frame.write.format("delta").mode("append").save(str(self.folder / name))

    def change(self, lake: Lake) -> None:
        """Change a table, by its writer or by a statement."""
        name = self.random.choice(TABLES)
        known = self.rows[name]
        some = self.random.sample(sorted(known), min(len(known), self.random.choice([1, 1, 2])))
        what = self.random.random()
        if not some or what < 0.4:
            self.add(name)
        elif what < 0.6:
            self._statement(lake, name, f"DELETE FROM {{0}} WHERE id IN ({', '.join(map(str, some))})")
            for one in some:
                del known[one]
        elif what < 0.75:
            self._statement(lake, name, f"UPDATE {{0}} SET v = 3 WHERE id IN ({', '.join(map(str, some))})")
            for one in some:
                known[one]["v"] = 3
        elif what < 0.85:
            self._merge(name, some)
        else:
            self._by_value(lake, name)

    def _statement(self, lake: Lake, name: str, text: str) -> None:
        if self.spark is not None and self.random.random() < 0.5:
            self.spark.sql(text.format(f"delta.`{self.folder / name}`"))
        else:
            lake.sql(text.format(name))

    def _by_value(self, lake: Lake, name: str) -> None:
        """Change rows that have one value, which is said as a literal."""
        value = self.random.choice(
            [v for v in self.values if v is None or isinstance(v, (str, int))] or [None]
        )
        says = "IS NULL" if value is None else f"= {_literal(value)}"
        lake.sql(f"UPDATE {name} SET v = 2 WHERE g {says}")
        for row in self.rows[name].values():
            if (value is None) == (row["g"] is None) and row["g"] == value:
                row["v"] = 2

    def _merge(self, name: str, some: Sequence[int]) -> None:
        rows = [
            {**row, "id": one} for one, row in zip(some, self.drawn(len(some)), strict=True)
        ] + self.drawn(1)
        self.told(name, rows)
        table = pa.Table.from_pylist(rows, self.schema)
        if self.spark is None:
            merge = DeltaTable(str(self.folder / name)).merge(table, "t.id = s.id", "s", "t")
            merge.when_matched_update_all().when_not_matched_insert_all().execute()
            return
        self.spark.createDataFrame(table).createOrReplaceTempView("merged")
        self.spark.sql(
            f"MERGE INTO delta.`{self.folder / name}` t USING merged s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def database(self) -> duckdb.DuckDBPyConnection:
        """Return the tables as DuckDB has them."""
        connection = evaluator()
        for name, rows in self.rows.items():
            connection.register(f"rows_{name}", pa.Table.from_pylist([*rows.values()], self.schema))
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows_{name}")
        return connection


def _literal(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    return str(value)


def differences(seed: str, spark: SparkSession | None = None, *, steps: int = 4, kind: str = "") -> list[str]:
    """Run one history, and return what is other than it should be."""
    random, folder = Random(seed), Path(mkdtemp(prefix="parted-"))
    names = [name for name, one in KINDS.items() if spark is not None or one.small]
    kind = kind or random.choice(names)
    known = KINDS[kind]
    values = random.sample(known.values, min(len(known.values), 4))
    world = World(random, folder, known, values, spark if known.by_spark or random.random() < 0.6 else None)
    forms = random.sample(sorted(FORMS), 4)
    settings = Settings(checkpoint_ticks=2, small_rows=random.choice([0, 200_000]) if spark else 200_000)
    about = f"{seed} {kind} {values} {settings.small_rows} by {'Spark' if world.spark else 'delta-rs'}"
    try:
        world.make()
        with Lake(folder / "lake", settings=settings) as lake:
            for name in TABLES:
                lake.sql(f"CREATE TABLE {name} LOCATION '{folder / name}' TIMESTAMP BY ts")
            for name in forms:
                by = "PARTITIONED BY (k) " if FORMS[name].parted and known.is_output else ""
                lake.sql(FORMS[name].statement.format(name, by))
        for _ in range(steps):
            with Lake(folder / "lake", settings=settings) as lake:
                for _ in range(random.randint(1, 3)):
                    world.change(lake)
                lake.run()
        with Lake(folder / "lake", settings=settings) as lake:
            lake.run()
            return [f"{about} {found}" for found in _found(lake, world, forms, verified=spark is not None)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _found(lake: Lake, world: World, forms: Sequence[str], *, verified: bool) -> list[str]:
    """Return what differs; with Spark, which VERIFY asks, it is ``verified`` too."""
    found = [f"{one.name}: {one.last_error}" for one in lake.streams() if one.last_error]
    with world.database() as database:
        for name in TABLES:
            found += _unlike(lake, database, name, f"SELECT ts, id, g, v FROM {name}", "ts, id, g, v")
        for name in forms:
            form = FORMS[name]
            by = name if form.parted and world.kind.is_output else ""
            found += _unlike(lake, database, f"{name}_o", form.expected, form.columns, folder=bool(by))
    for name in forms if verified else ():
        stream = f"{name}_o" if "VIEW" in FORMS[name].statement else name
        said = lake.sql(f"VERIFY STREAM {stream}").fetchall()
        found += [f"VERIFY {name}: {said}"] * (dict(said)["differing rows"] != "0")
    return found


def _unlike(
    lake: Lake,
    database: duckdb.DuckDBPyConnection,
    name: str,
    expected: str,
    columns: str,
    *,
    folder: bool = False,
) -> list[str]:
    rows = database.execute(expected).fetchall()
    place = columns.split(", ").index("k") if folder else None
    wanted = alike([_untold(row, place) for row in rows])
    ours = alike(lake.sql(f"SELECT {columns} FROM {name}").fetchall())
    return [] if ours == wanted else [f"{name}\n  found    {ours}\n  expected {wanted}"]


def _untold(row: Sequence[object], place: int | None) -> list[object]:
    return [
        None if at == place and value in UNTOLD and isinstance(value, str) else value
        for at, value in enumerate(row)
    ]


def main() -> int:
    """Run histories of tables that are partitioned."""

    def found(seed: str, with_spark: bool) -> list[str]:
        from lakestream.storage.sessions.session import spark_session

        return differences(seed, spark_session(Settings()) if with_spark else None)

    return run_histories(
        "python -m tests.properties.parted", "also values of all types, and Spark as writer", found
    )


if __name__ == "__main__":
    sys.exit(main())
