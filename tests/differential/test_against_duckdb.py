"""Calculations over random data against DuckDB: the same figures from two engines."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

from lakestream import Lake, ManualClock, Settings
from tests.differential.duck import answer
from tests.properties.driving import run, same_row, tidy

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECOND = 1_000_000
START = datetime(2025, 3, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Calculation(NamedTuple):
    """A calculation: the output's columns, the stream's query, and the same over DuckDB's windows."""

    columns: str
    stream: str
    duck: str


CALCULATIONS = {
    "aggregates": Calculation(
        "ws, we, n, nv, total, mean, lo, hi, dev, spread, fst, lst",
        "SELECT _twstart, _twend, count(*), count(v), sum(v), avg(v), min(v), max(v), stddev(v),"
        " spread(v), first(v), last(v) FROM %%trows",
        "SELECT g, ws, we, count(ts), count(v), sum(v), avg(v), min(v), max(v), stddev_pop(v),"
        " max(v) - min(v), arg_min(v, ts) FILTER (v IS NOT NULL), arg_max(v, ts) FILTER (v IS NOT NULL)"
        " FROM held GROUP BY g, ws, we",
    ),
    "expressions of aggregates": Calculation(
        "ws, share, big",
        "SELECT _twstart, sum(v) / count(v), sum(CASE WHEN v > 50 THEN 1 ELSE 0 END) FROM %%trows",
        "SELECT g, ws, sum(v) / nullif(count(v), 0), CASE WHEN count(ts) > 0 THEN"
        " count(*) FILTER (v > 50) END FROM held GROUP BY g, ws",
    ),
    "groups of the calculation": Calculation(
        "ws, kind COMPOSITE KEY, n, total",
        "SELECT _twstart, kind, count(*), sum(v) FROM %%trows GROUP BY kind",
        "SELECT g, ws, kind, count(*), sum(v) FROM held WHERE ts IS NOT NULL GROUP BY g, ws, kind",
    ),
    "another table in the window's range": Calculation(
        "ws, n, top",
        "SELECT _twstart, count(*), max(p) FROM prices WHERE ts >= _twstart AND ts < _twend",
        "SELECT g, ws, (SELECT count(*) FROM prices p WHERE p.ts >= ws AND p.ts < we),"
        " (SELECT max(p.p) FROM prices p WHERE p.ts >= ws AND p.ts < we)"
        " FROM (SELECT DISTINCT g, ws, we FROM held)",
    ),
    "the last price before the end": Calculation(
        "ws, price",
        "SELECT _twstart, p FROM prices WHERE ts < _twend ORDER BY ts DESC LIMIT 1",
        "SELECT g, ws, (SELECT arg_max(p.p, p.ts) FROM prices p WHERE p.ts < we)"
        " FROM (SELECT DISTINCT g, ws, we FROM held)",
    ),
}
TRIGGERS = {
    "INTERVAL(10s) SLIDING(10s) FROM readings": (10, 10, 0),
    "INTERVAL(60s) SLIDING(5s) FROM readings PARTITION BY tbname": (60, 5, 0),
    "INTERVAL(15s, 1s) SLIDING(4s) FROM readings PARTITION BY tbname": (15, 4, 1),
    "INTERVAL(5s) SLIDING(20s) FROM readings": (5, 20, 0),
}
"""What stands between a stream's name and INTO: length, step and offset in seconds."""


def rows_of(number: int, tables: int, seed: int) -> pa.Table:
    """Return rows in time order, their times unique, a tenth of the values NULL."""
    chance = random.Random(seed)
    times = sorted(chance.sample(range(300_000), number))
    return pa.table(
        {
            "tbname": [f"t{chance.randrange(tables)}" for _ in times],
            "ts": pa.array([START + timedelta(milliseconds=t) for t in times], pa.timestamp("us", "UTC")),
            "v": [None if chance.random() < 0.1 else chance.uniform(-100, 100) for _ in times],
            "kind": [chance.choice(("a", "b", "c")) for _ in times],
        }
    )


def prices_of(seed: int) -> pa.Table:
    """Return prices from before the first row on."""
    chance = random.Random(seed)
    times = [START + timedelta(seconds=s) for s in range(-5, 310, 3)]
    return pa.table(
        {"ts": pa.array(times, pa.timestamp("us", "UTC")), "p": [chance.uniform(1, 2) for _ in times]}
    )


def in_micros(table: pa.Table) -> pa.Table:
    """Return a table with its times as integers, as DuckDB gets them."""
    return table.set_column(table.schema.get_field_index("ts"), "ts", table["ts"].cast(pa.int64()))


@pytest.fixture
def compiled(spark: SparkSession) -> SparkSession:
    """Return a session that compiles its queries, as users have it."""
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "true")
    session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    return session


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("calculation", CALCULATIONS)
def test_equals_duckdb(compiled: SparkSession, tmp_path: Path, calculation: str, trigger: str) -> None:
    wanted, grouped = CALCULATIONS[calculation], "PARTITION" in trigger
    source, prices = rows_of(600, 4, seed=1), prices_of(seed=2)
    with Lake(tmp_path, clock=ManualClock(START), spark=compiled, settings=Settings()) as lake:
        lake.sql("CREATE STABLE readings (ts TIMESTAMP, v DOUBLE, kind VARCHAR(8)) TAGS (site INT)")
        lake.sql("CREATE TABLE prices (ts TIMESTAMP, p DOUBLE)")
        lake.insert("prices", prices)
        lake.sql(f"CREATE STREAM s {trigger} INTO o ({wanted.columns}) AS {wanted.stream}")
        for part in range(0, 600, 200):
            lake.insert("readings", source.slice(part, 200))
            run(lake)
        columns = wanted.columns.replace(" COMPOSITE KEY", "")
        group = "tag_tbname" if grouped else "CAST(NULL AS STRING)"
        got = lake.sql(f"SELECT {group}, {columns} FROM o").fetchall()
    length, step, offset = (seconds * SECOND for seconds in TRIGGERS[trigger])
    rows = answer(
        wanted.duck,
        {"source": in_micros(source), "prices": in_micros(prices)},
        group="tbname" if grouped else "'all'",
        length=length,
        step=step,
        offset=offset,
    )
    expected = tidy([with_times(row, columns.split(", "), grouped) for row in rows])
    assert len(got) == len(expected)
    assert [pair for pair in zip(tidy(got), expected, strict=True) if not same_row(*pair)] == []


def with_times(row: tuple[Any, ...], columns: list[str], grouped: bool) -> tuple[Any, ...]:
    """Return DuckDB's row with its window's bounds as instants, and its group only where there are groups."""
    values = [
        EPOCH + timedelta(microseconds=value) if name in ("ws", "we") else value
        for name, value in zip(columns, row[1:], strict=True)
    ]
    return (row[0] if grouped else None, *values)
