"""Event times that are no timestamps in their table, read as some."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql.pandas.types import from_arrow_schema

from lakestream.engine.base.instants import newest_time, oldest_time
from lakestream.errors import StatementError
from lakestream.storage.columns.times import (
    Part,
    ReadTime,
    check_kind,
    kept_time,
    read_time,
    timed_arrow,
    timed_spark,
)
from lakestream.storage.rows.reading import read_arrow
from lakestream.storage.tables.datafiles import data_files
from lakestream.storage.tables.table import Table, capabilities

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

BERLIN = "Europe/Berlin"
START = datetime(2025, 1, 1, tzinfo=UTC)
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
        ("string", None, "FORMAT"),
        ("timestamp", "SECONDS", "SECONDS"),
        ("struct<a:date>", None, r"\(expression\)"),
        ("bigint", None, "MILLISECONDS"),
        ("date", "SECONDS", "SECONDS"),
        ("double", "SECONDS", "double"),
    ],
)
def test_what_is_no_time_is_refused(kind: str, unit: str | None, match: str) -> None:
    with pytest.raises(StatementError, match=match) as caught:
        read_time("t", kind, "UTC", unit)
    with pytest.raises(StatementError, match=r"the field a\.b of type"):
        check_kind(kind, unit, "the field a.b")
    assert caught.value.code == "TIME_COLUMN_TYPE"


def field(kind: str, unit: str | None = None, zone: str = "UTC") -> ReadTime:
    """Return how the field ``x.in.at`` is read."""
    return ReadTime("ts", kind, zone, unit, (Part(("x", "in", "at"), kind),), written="x.in.at")


def nested(values: pa.Array) -> pa.Array:
    """Return values as a field of structs, of which the last is NULL, and the one before has a NULL in it."""
    inner = pa.StructArray.from_arrays([values], ["at"], mask=pa.array([False] * (len(values) - 1) + [True]))
    mask = pa.array([False] * (len(values) - 2) + [True, False])
    return pa.StructArray.from_arrays([inner], ["in"], mask=mask)


@pytest.mark.spark
def test_spark_and_arrow_read_the_same_of_fields(spark: SparkSession) -> None:
    instants = [START + timedelta(microseconds=one) for one in range(4)]
    cases = [
        (field("timestamp"), pa.array(instants, pa.timestamp("us", "UTC"))),
        (field("timestamp_ntz", zone=BERLIN), pa.array(NAIVE, pa.timestamp("us"))),
        (field("bigint", "SECONDS"), pa.array([1, 2**62, -5, 0, 0], pa.int64())),
    ]
    for time, values in cases:
        rows = pa.table({"x": nested(values)})
        frame = spark.createDataFrame(rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True))
        by_spark = timed_spark(time, frame, ["ts"]).selectExpr("unix_micros(ts) AS t").toArrow()["t"]
        by_arrow = timed_arrow(time, rows, ["ts"])["ts"].cast(pa.int64())
        assert by_spark.to_pylist() == by_arrow.to_pylist()
        assert by_arrow.to_pylist()[-2:] == [None, None]


def test_a_range_of_a_field_is_read_from_its_files(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for day in range(10):
        values = pa.array([START + timedelta(days=day)] * 3, pa.timestamp("us", "UTC"))
        rows = pa.table({"x": nested(values), "v": [day, -1, -2]})
        write_deltalake(path, rows, mode="append")
    table = Table.open(path)
    table.time = field("timestamp")
    low = int(START.timestamp()) * 1_000_000 + 2 * DAY_US
    assert data_files(table, 9, "ts", low, low + 3 * DAY_US).num_rows == 3
    found = read_arrow(table, columns=["v", "ts"], spans=[(low, low + 3 * DAY_US)], time_column="ts")
    assert found.column_names == ["v", "ts"]
    assert sorted(found["v"].to_pylist()) == [2, 3, 4]
    assert read_arrow(table, spans=[(low + 7 * DAY_US, None)], time_column="ts").column_names == [
        "ts",
        "x",
        "v",
    ]
    assert newest_time(table, "ts", _no_spark) == low + 7 * DAY_US
    assert capabilities(table).arrow_reads


def test_statistics_of_another_column_are_not_those_of_a_field(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    at = pa.array([START, START], pa.timestamp("us", "UTC"))
    other = pa.array([START - timedelta(days=9)] * 2, pa.timestamp("us", "UTC"))
    write_deltalake(path, pa.table({"x.in.at": other, "x": nested(at)}))
    table = Table.open(path)
    table.time = field("timestamp")
    assert table.statistic_of("ts") == ""
    assert data_files(table, 0, "ts", int(START.timestamp()) * 1_000_000, None).num_rows == 1


def test_no_statistics_tell_what_an_expression_gives(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"t": ["2025-01-01"], "v": [1]}))
    table = Table.open(path)
    time = ReadTime("t", "timestamp", parts=(Part(("t",), "string"),), expression="CAST(`t` AS TIMESTAMP)")
    table.time = time
    assert time.bounds("t", 0, 1) == []
    assert data_files(table, 0, "t", 2**60, None).num_rows == 1
    able = capabilities(table)
    assert (able.arrow_reads, able.arrow_changes, able.arrow_writes, able.reasons) == (False, False, True, ())
    assert kept_time("t", "UTC", None, json.loads(json.dumps(time.kept()))) == time


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
    found = read_arrow(table, spans=[(start + 2 * DAY_US, start + 5 * DAY_US)], time_column="t")
    assert sorted(found["v"].to_pylist()) == [2, 3, 4]
    assert found.schema.field("t").type == pa.timestamp("us", "UTC")
    assert read_arrow(
        table, columns=["v"], spans=[(start + 9 * DAY_US, None)], time_column="t"
    ).to_pydict() == {"v": [9]}


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
