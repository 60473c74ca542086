"""Event times that are no timestamps in their table, read as some."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakestream.engine.instants import newest_time, oldest_time
from lakestream.errors import StatementError
from lakestream.storage.reading import read_arrow
from lakestream.storage.table import Table
from lakestream.storage.times import ReadTime, read_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

BERLIN = "Europe/Berlin"
DAY_US = 86_400_000_000
NAIVE = [
    datetime(2025, 3, 30, 1, 59, 59),  # noqa: DTZ001 - times without a zone are what this is about
    datetime(2025, 3, 30, 2, 30),  # noqa: DTZ001 - the clock passes over it
    datetime(2025, 3, 30, 3, 0),  # noqa: DTZ001
    datetime(2025, 10, 26, 2, 30),  # noqa: DTZ001 - the clock shows it twice
    datetime(1, 1, 1),  # noqa: DTZ001
    None,
]


def chunked(values: Sequence[object], kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, kind)])


def test_times_without_a_zone_are_those_of_the_lake() -> None:
    found = ReadTime("t", "timestamp_ntz", BERLIN).arrow(chunked(NAIVE[:4], pa.timestamp("us"))).to_pylist()
    hours = [(moment.day, moment.hour, moment.minute) for moment in found]
    assert hours == [(30, 0, 59), (30, 1, 30), (30, 1, 0), (26, 0, 30)]
    day = ReadTime("t", "date", BERLIN).arrow(chunked([date(2025, 7, 1), None], pa.date32())).to_pylist()
    assert day == [datetime(2025, 6, 30, 22, tzinfo=UTC), None]


def test_numbers_count_their_unit_and_are_null_beyond_what_fits() -> None:
    values = chunked([1, -1, 2**62, None], pa.int64())
    found = ReadTime("t", "bigint", unit="SECONDS").arrow(values).cast(pa.int64()).to_pylist()
    assert found == [1_000_000, -1_000_000, None, None]


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["UTC", BERLIN])
def test_spark_and_arrow_read_the_same(zone: str, spark: SparkSession) -> None:
    rows = pa.table(
        {
            "n": pa.array(NAIVE, pa.timestamp("us")),
            "d": pa.array([moment and moment.date() for moment in NAIVE], pa.date32()),
            "l": pa.array([1, -1, 2**62, -(2**62), 0, None], pa.int64()),
        }
    )
    times = [
        ReadTime("n", "timestamp_ntz", zone),
        ReadTime("d", "date", zone),
        *(ReadTime("l", "bigint", unit=unit) for unit in ("SECONDS", "MILLISECONDS")),
    ]
    frame = spark.createDataFrame(rows)
    for time in times:
        by_spark = frame.selectExpr(f"unix_micros({time.sql()}) AS t").toArrow()["t"].to_pylist()
        assert by_spark == time.arrow(rows[time.column]).cast(pa.int64()).to_pylist(), time


@pytest.mark.parametrize(
    ("kind", "unit", "match"),
    [
        ("string", None, "string"),
        ("bigint", None, "MILLISECONDS"),
        ("date", "SECONDS", "SECONDS"),
        ("double", "SECONDS", "double"),
    ],
)
def test_what_is_no_time_is_refused(kind: str, unit: str | None, match: str) -> None:
    with pytest.raises(StatementError, match=match) as caught:
        read_time("t", kind, "UTC", unit)
    assert caught.value.code == "TIME_COLUMN_TYPE"


@pytest.mark.parametrize("kind", ["date", "timestamp_ntz", "bigint"])
@pytest.mark.parametrize("partitioned", [False, True])
def test_a_range_is_read_from_its_files(tmp_path: Path, kind: str, *, partitioned: bool) -> None:
    days = [date(2025, 1, day) for day in range(1, 11)]
    arrow = {
        "date": pa.array(days, pa.date32()),
        "timestamp_ntz": pa.array([datetime(d.year, d.month, d.day) for d in days], pa.timestamp("us")),  # noqa: DTZ001
        "bigint": pa.array([day * 86_400 for day in range(20_089, 20_099)], pa.int64()),
    }[kind]
    path = str(tmp_path / "t")
    for row in range(10):
        rows = pa.table({"t": arrow.slice(row, 1), "v": [row]})
        write_deltalake(path, rows, mode="append", partition_by=["t"] if partitioned else None)
    table = Table.open(path)
    table.time = ReadTime("t", kind, unit="SECONDS" if kind == "bigint" else None)
    start = 20_089 * DAY_US
    found = read_arrow(table, lower=start + 2 * DAY_US, upper=start + 5 * DAY_US, time_column="t")
    assert sorted(found["v"].to_pylist()) == [2, 3, 4]
    assert found.schema.field("t").type == pa.timestamp("us", "UTC")
    assert read_arrow(table, columns=["v"], lower=start + 9 * DAY_US, time_column="t").to_pydict() == {
        "v": [9]
    }


def test_ends_that_are_no_times_are_not_the_ends_of_the_table(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for values in ([5, 2**62], [3, 4], [-(2**62), 7]):
        write_deltalake(path, pa.table({"t": pa.array(values, pa.int64())}), mode="append")
    table = Table.open(path)
    table.time = ReadTime("t", "bigint", unit="SECONDS")
    assert oldest_time(table, "t", _no_spark) == 3_000_000
    assert newest_time(table, "t", _no_spark) == 7_000_000


def _no_spark() -> SparkSession:
    raise AssertionError("delta-rs reads such a table")
