"""Tables with columns of every type that others write: an exact stream equals Spark's own GROUP BY."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
START = datetime(2025, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Kind:
    """A type of a column: two of its values, and what a user would compute of the column ``c``."""

    arrow: pa.DataType
    one: Any
    other: Any
    use: str = "max({0})"


CUSTOMER = pa.struct({"id": pa.int64(), "a name": pa.string(), "since": pa.timestamp("us", "UTC")})
KINDS = {
    "customer": Kind(
        CUSTOMER,
        {"id": 1, "a name": "o'b", "since": START},
        {"id": 2, "a name": None, "since": None},
        "max({0}.`a name`)",
    ),
    "tags": Kind(pa.list_(pa.string()), ["a", None], ["b"], "max({0}[0])"),
    "words": Kind(pa.map_(pa.string(), pa.int32()), [("k", 1)], [("l", 2)], "sum({0}['k'])"),
    "deep": Kind(
        pa.list_(pa.struct({"x": pa.map_(pa.string(), CUSTOMER)})),
        [{"x": [("k", {"id": 1})]}],
        [{"x": [("k", {"id": 2})]}],
        "max({0}[0].x['k'].id)",
    ),
    "day": Kind(pa.date32(), date(2024, 2, 29), date(1969, 12, 31)),
    "bytes": Kind(pa.binary(), b"\xff\x00'", b""),
    "price": Kind(pa.decimal128(38, 18), Decimal("1.000000000000000001"), Decimal(-2), "sum({0})"),
    "local": Kind(pa.timestamp("us"), datetime(2025, 3, 30, 2, 30), datetime(1900, 1, 1)),  # noqa: DTZ001
    "instant": Kind(
        pa.timestamp("us", "UTC"), START + timedelta(microseconds=1), datetime(1900, 1, 1, tzinfo=UTC)
    ),
    "flag": Kind(pa.bool_(), True, False),
    "small": Kind(pa.int8(), 127, -128, "sum({0})"),
    "real": Kind(pa.float32(), 0.1, -1e30),
    "number": Kind(pa.float64(), float("nan"), float("-inf")),
    "note": Kind(pa.string(), "o'b\\\"`", ""),
}
ROWS = [(1, 0, 1), (2, 1, 1), (3, None, 1), (4, 0, 2), (5, 1, 2), (12, 0, 1), (13, 1, 2), (14, None, 2)]
"""Seconds, which of the values (None: NULL), and a state, 1 or 2."""


def write(path: str, rows: list[tuple[int, int | None, int]]) -> None:
    """Append rows with a time, the columns of all types, and a state."""
    at, which, states = zip(*rows, strict=True)
    times = pa.array([START + timedelta(seconds=second) for second in at], pa.timestamp("us", "UTC"))
    data = {"at": times} | {
        name: pa.array([None if w is None else (kind.one, kind.other)[w] for w in which], kind.arrow)
        for name, kind in KINDS.items()
    }
    data["s"] = pa.array(states, pa.int32())
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(path, pa.table(data), mode="append", configuration=feed)


NESTED = ("customer", "tags", "words", "deep")


def computed(names: tuple[str, ...], last: str) -> str:
    """Return what is computed of columns, with ``last`` as the function that gives a last value."""
    used = (f"{KINDS[name].use.format(name)} AS u_{name}" for name in names)
    return ", ".join(["count(*) AS n", *used, *(f"{last.format(name)} AS l_{name}" for name in names)])


@dataclass(frozen=True)
class Case:
    """A stream, and Spark's own way to its rows: the window of a row, when it is done, and its groups."""

    trigger: str
    window: str = "ten"
    done: str = "ten + INTERVAL 10 SECONDS <= any_value(newest)"
    groups: str = ""
    keys: str = ""
    where: str = "true"
    of: tuple[str, ...] = NESTED


ENDED = "coalesce(count_if(s = 2) OVER (ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)"
TUMBLING = "INTERVAL(10s) SLIDING(10s)"
CASES = {
    "tumbling": Case(TUMBLING, of=tuple(KINDS)),
    "gaps": Case(
        "SESSION(at, 5s)",
        "gap",
        "max(at) + INTERVAL 5 SECONDS < any_value(newest)",
    ),
    "states": Case("STATE_WINDOW(s)", "run", "max(at) < any_value(newest)"),
    "counts": Case("COUNT_WINDOW(2)", "(place - 1) div 2", "count(*) = 2"),
    "events": Case("EVENT_WINDOW(START WITH s = 1 END WITH s = 2)", "ended", "bool_or(s = 2)", where="begun"),
    "fields": Case(
        TUMBLING,
        keys="customer.id AS id, tags[0] AS tag, words['k'] AS word, deep[0].x['k'].id AS deepest",
        groups="customer.id, tags[0], words['k'], deep[0].x['k'].id",
        of=(),
    ),
    "plain": Case(
        TUMBLING,
        keys="day, bytes, price, local, instant, flag, small, real, number, note",
        groups="day, bytes, price, local, instant, flag, small, real, number, note",
        of=(),
    ),
}


def expected(spark: SparkSession, path: str, case: Case) -> list[str]:
    """Return the rows of Spark's own GROUP BY over the table, for the windows that are done."""
    spark.read.format("delta").load(path).createOrReplaceTempView("theirs")
    turned = "s IS DISTINCT FROM lag(s) OVER (ORDER BY at)"
    parted = "coalesce(at - lag(at) OVER (ORDER BY at) > INTERVAL 5 SECONDS, false)"
    by = f"PARTITION BY {case.groups}" if case.groups else ""
    numbered = (
        "SELECT *, timestamp_seconds(unix_seconds(at) div 10 * 10) AS ten, "
        f"max(at) OVER ({by}) AS newest, row_number() OVER (ORDER BY at) AS place, "
        f"CAST({turned} AS INT) AS turns, CAST({parted} AS INT) AS breaks, {ENDED} AS ended FROM theirs"
    )
    placed = (
        "SELECT *, sum(turns) OVER (ORDER BY at) AS run, sum(breaks) OVER (ORDER BY at) AS gap, "
        f"bool_or(s = 1) OVER (PARTITION BY ended ORDER BY at) AS begun FROM ({numbered})"
    )
    start = "ten" if case.trigger == TUMBLING else "min(at)"
    keys = f", {case.groups}" if case.groups else ""
    found = spark.sql(
        f"SELECT {start} AS w, {computed(case.of, 'max_by({0}, at) FILTER (WHERE {0} IS NOT NULL)')}{keys} "
        f"FROM ({placed}) WHERE {case.where} GROUP BY {case.window}{keys} HAVING {case.done}"
    )
    return sorted(str(list(row.values())) for row in found.toArrow().to_pylist())


@pytest.mark.parametrize("small_rows", [1000, 0])
def test_a_stream_equals_sparks_own_group_by(small_rows: int, tmp_path: Path, spark: SparkSession) -> None:
    path = str(tmp_path / "elsewhere")
    write(path, ROWS)
    lake = Lake(tmp_path / "lake", spark=spark, settings=Settings(duckdb_memory=0, small_rows=small_rows))
    lake.sql(f"CREATE TABLE t LOCATION '{path}'")
    for name, case in CASES.items():
        groups = f"PARTITION BY {case.keys}" if case.keys else ""
        options = (
            "FILL_HISTORY|EXACT|IGNORE_NODATA_TRIGGER" if case.trigger == TUMBLING else "FILL_HISTORY|EXACT"
        )
        lake.sql(
            f"CREATE STREAM {name} {case.trigger} FROM t {groups} STREAM_OPTIONS({options}) "
            f"INTO {name}_o AS SELECT _twstart AS w, {computed(case.of, 'last({0})')} FROM %%trows"
        )
    _compare(lake, spark, path)
    write(path, [(second + 20, which, state) for second, which, state in ROWS])
    _compare(lake, spark, path)
    DeltaTable(path).delete("at = '2025-01-01T00:00:04Z'")
    DeltaTable(path).update({"small": "7"}, predicate="at = '2025-01-01T00:00:12Z'")
    _compare(lake, spark, path)
    assert lake.verify("tumbling").holds
    lake.close()


def _compare(lake: Lake, spark: SparkSession, path: str) -> None:
    lake.run()
    assert [(s.name, s.last_error) for s in lake.streams() if s.last_error] == []
    for name, case in CASES.items():
        names = ["w", "n", *(f"{way}_{kind}" for way in "ul" for kind in case.of)]
        keys = [key.split(" AS ")[-1] for key in case.keys.split(", ") if key]
        found = lake.sql(f"SELECT {', '.join(names + keys)} FROM {name}_o").to_arrow().to_pylist()
        rows = sorted(str(list(row.values())) for row in found)
        assert rows == expected(spark, path, case), name
