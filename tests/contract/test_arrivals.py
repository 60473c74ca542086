"""Rows with their place: the two ways of reading them agree, whatever wrote the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream.storage.delta import (
    POSITION,
    arrivals_arrow,
    arrivals_spark,
    placed_rows_arrow,
    placed_rows_spark,
)
from lakestream.storage.rows.changes import COMMIT_VERSION
from lakestream.storage.writes.edits import TABLE_PROPERTIES

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PLACE = [COMMIT_VERSION, POSITION]
EVER = (-62_135_596_800_000_000, 253_402_300_800_000_000)


def rows(*xs: int, ts: int = 0) -> pa.Table:
    time = pa.array([ts] * len(xs), pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({"ts": time, "x": pa.array(xs, pa.int32()), "k": pa.array([f"k{x % 3}" for x in xs])})


def in_order(found: pa.Table | DataFrame | None) -> list[int]:
    assert found is not None
    table: pa.Table = found if hasattr(found, "num_rows") else found.toArrow()
    assert table[POSITION].null_count == 0
    order = [(name, "ascending") for name in PLACE]
    values: list[int] = table.sort_by(order)["x"].to_pylist()
    return values


def made(path: Path, *commits: pa.Table, partitioned: bool = False) -> str:
    for commit in commits:
        by = ["k"] if partitioned else None
        write_deltalake(str(path), commit, mode="append", partition_by=by, configuration=TABLE_PROPERTIES)
    return str(path)


def both(spark: SparkSession, path: str, after: int, upto: int) -> list[int]:
    """Return the rows that commits wrote, in order, as both ways read them."""
    columns = ["ts", "x", "k"]
    by_arrow = in_order(arrivals_arrow(path, after, upto, columns))
    assert in_order(arrivals_spark(spark, path, after, upto, columns)) == by_arrow
    return by_arrow


def both_at(spark: SparkSession, path: str, version: int) -> list[int]:
    """Return the rows that there are at a version, in order, as both ways read them."""
    columns = ["x", "k"]
    by_arrow = in_order(placed_rows_arrow(path, version, columns, "ts", [EVER]))
    assert in_order(placed_rows_spark(spark, path, version, columns, "ts", EVER)) == by_arrow
    return by_arrow


def test_rows_come_as_they_were_appended(spark: SparkSession, tmp_path: Path) -> None:
    path = made(tmp_path / "t", rows(5, 1, 9), rows(3, 2))
    assert both(spark, path, -1, 1) == [5, 1, 9, 3, 2]
    assert both_at(spark, path, 1) == [5, 1, 9, 3, 2]


def test_rows_of_a_partition_come_as_they_were_appended(spark: SparkSession, tmp_path: Path) -> None:
    path = made(tmp_path / "t", rows(6, 0, 9, 3), partitioned=True)
    assert both(spark, path, -1, 0) == [6, 0, 9, 3]
    assert both_at(spark, path, 0) == [6, 0, 9, 3]


def test_files_of_a_commit_come_as_it_names_them(spark: SparkSession, tmp_path: Path) -> None:
    path = made(tmp_path / "t", rows(7))
    many = spark.createDataFrame(rows(*range(100, 140))).repartitionByRange(4, "x").sortWithinPartitions("x")
    many.write.format("delta").mode("append").save(path)
    assert both(spark, path, 0, 1) == [*range(100, 140)]
    assert both_at(spark, path, 1) == [7, *range(100, 140)]


def test_an_updated_row_is_written_and_keeps_its_place(spark: SparkSession, tmp_path: Path) -> None:
    path = made(tmp_path / "t", rows(5, 1, 9), rows(3, 2))
    DeltaTable(path).update(updates={"x": "x + 100"}, predicate="x = 1")
    assert both(spark, path, 1, 2) == [101]
    assert both_at(spark, path, 2) == [5, 101, 9, 3, 2]
    DeltaTable(path).delete("x = 5")
    assert both(spark, path, 2, 3) == []
    assert both_at(spark, path, 3) == [101, 9, 3, 2]


def test_compacted_files_stand_at_the_place_of_the_first(spark: SparkSession, tmp_path: Path) -> None:
    path = made(tmp_path / "t", rows(1), rows(2), rows(3))
    DeltaTable(path).optimize.compact()
    write_deltalake(path, rows(0), mode="append")
    assert both(spark, path, 2, 4) == [0]
    found = both_at(spark, path, 4)
    assert sorted(found[:3]) == [1, 2, 3]
    assert found[3] == 0


def test_files_from_before_the_log_come_first(spark: SparkSession, tmp_path: Path) -> None:
    path = made(tmp_path / "t", *(rows(x) for x in range(4)))
    DeltaTable(path).create_checkpoint()
    for version in range(3):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    assert both_at(spark, path, 3) == [0, 1, 2, 3]


def test_a_lost_file_is_told(spark: SparkSession, tmp_path: Path) -> None:
    from lakestream.errors import StreamError

    path = made(tmp_path / "t", rows(1))
    next((tmp_path / "t").glob("*.parquet")).unlink()
    for read in (
        lambda: arrivals_arrow(path, -1, 0, ["x"]),
        lambda: arrivals_spark(spark, path, -1, 0, ["x"]),
    ):
        with pytest.raises(StreamError) as lost:
            read()
        assert lost.value.code == "CHANGES_LOST"
