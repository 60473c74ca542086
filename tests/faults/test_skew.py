"""Rows that lie unevenly over groups and windows: DuckDB over the source says what must have come out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.faults, pytest.mark.spark]

HOUR_S = 3600
BEGIN_US = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
EXPECTED = """
SELECT g, time_bucket(INTERVAL 1 minute, ts) AS w, count(*) AS n, sum(v) AS total
FROM source JOIN (SELECT g, max(time_bucket(INTERVAL 1 minute, ts)) AS open FROM source GROUP BY g) USING (g)
WHERE time_bucket(INTERVAL 1 minute, ts) < open GROUP BY ALL ORDER BY ALL
"""
FOUND = "SELECT g, w, n, total FROM output WHERE n > 0 ORDER BY ALL"


def rows(seconds: np.ndarray, groups: np.ndarray) -> pa.Table:
    """Return rows at seconds of an hour; their values are their numbers."""
    times = pa.array(BEGIN_US + seconds.astype(np.int64) * 1_000_000, pa.timestamp("us", "UTC"))
    return pa.table(
        {"ts": times, "v": pa.array(np.arange(len(seconds))), "g": pa.array(groups.astype(np.int32))}
    )


class Uneven:
    """A stream over a table that lies outside the lake."""

    def __init__(self, folder: Path, spark: SparkSession, transport: str) -> None:
        self.source, settings = str(folder / "source"), Settings(transport=transport)
        self.lake = Lake(folder / "lake", spark=spark, settings=settings)
        schema = rows(np.zeros(0), np.zeros(0)).schema
        DeltaTable.create(self.source, schema, configuration={"delta.enableChangeDataFeed": "true"})
        self.lake.sql(f"CREATE TABLE t LOCATION '{self.source}'")
        self.lake.sql(
            "CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM t PARTITION BY g INTO o AS "
            "SELECT _twstart AS w, count(*) AS n, sum(v) AS total FROM %%trows"
        )

    def take(self, *commits: pa.Table) -> None:
        """Write commits, then run to idle."""
        for commit in commits:
            write_deltalake(self.source, commit, mode="append")
        assert self.lake.run().failed == []

    def check(self) -> None:
        """Hold the output against the source."""
        judge = duckdb.connect(config={"threads": 2})
        judge.register("source", pa.table(DeltaTable(self.source).scan()))
        output = self.lake.sql("SELECT g, w, n, total FROM o").arrow
        judge.register("output", output)
        wanted, found = judge.sql(EXPECTED).fetchall(), judge.sql(FOUND).fetchall()
        assert len(found) == len(wanted)
        assert found == wanted
        self.lake.close()


@pytest.fixture(params=["arrow", "spark"])
def uneven(tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest) -> Uneven:
    return Uneven(tmp_path, spark, request.param)


@pytest.mark.long
def test_one_group_has_nearly_all_rows(uneven: Uneven) -> None:
    drawn = np.random.default_rng(1)
    seconds = np.sort(drawn.integers(0, HOUR_S, 200_000))
    groups = np.where(drawn.random(200_000) < 0.99, 0, drawn.integers(1, 2_000, 200_000))
    parts = np.array_split(np.arange(200_000), 3)
    uneven.take(*(rows(seconds[part], groups[part]) for part in parts))
    uneven.check()


@pytest.mark.long
def test_many_groups_have_a_row_in_each_of_two_windows(uneven: Uneven) -> None:
    groups = np.arange(20_000)
    uneven.take(rows(np.zeros(20_000), groups))
    uneven.take(rows(np.full(20_000, 60), groups))
    uneven.check()


def test_no_group_has_any_row(uneven: Uneven) -> None:
    uneven.take(rows(np.zeros(0), np.zeros(0)))
    uneven.check()


@pytest.mark.long
def test_a_burst_of_late_rows_over_many_groups(uneven: Uneven) -> None:
    drawn = np.random.default_rng(2)
    groups = np.tile(np.arange(500), HOUR_S // 30)
    uneven.take(rows(np.repeat(np.arange(0, HOUR_S, 30), 500), groups))
    uneven.take(rows(drawn.integers(0, HOUR_S - 60, 30_000), drawn.integers(0, 500, 30_000)))
    uneven.check()
