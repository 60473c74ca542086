"""Streams that leave late rows out, recalculated and replaced: every kind of window, killed, verified."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings
from tests.tiers import every_other

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
BY_EVENT = "WITH (TIMESTAMP='ts')"
# What the windows sum up to that hold the late row at :05, after RECALCULATE FROM :00 TO :10.
WINDOWS = {
    "TUMBLINGWINDOW(ss, 10)": {62},
    "HOPPINGWINDOW(ss, 10, 5)": {62, 63},
    "SLIDINGWINDOW(ss, 3)": {53, 59},
    "SLIDINGWINDOW(ss, 3, 2)": {53, 59},
    "SESSIONWINDOW(ss, 60, 3)": {62},
    "COUNTWINDOW(2)": {59},
    "STATEWINDOW(v = 1, v = 9)": {62},
    "STATEWINDOW(v = 1)": {62},
}


def opened(path: Path, spark: SparkSession) -> Lake:
    return Lake(path, spark=spark, settings=Settings())


def write(lake: Lake, *events: tuple[int, int]) -> None:
    lake.insert("ev", [{"ts": BEGIN + timedelta(seconds=second), "v": v} for second, v in events])
    assert not lake.run().failed


def sums(lake: Lake) -> set[object]:
    assert lake.verify("s").holds
    return {row[0] for row in lake.sql("SELECT s FROM o").fetchall()}


@pytest.mark.parametrize(("window", "expected"), every_other(WINDOWS.items()))
def test_every_kind_of_window_is_made_anew_once_whatever_is_killed(
    window: str, expected: set[int], tmp_path: Path, spark: SparkSession
) -> None:
    query = f"SELECT count(*) AS c, sum(v) AS s FROM ev GROUP BY {window}"
    lake = opened(tmp_path, spark)
    lake.sql("CREATE TABLE ev (ts TIMESTAMP, v INT)", dialect="ekuiper")
    lake.sql(f"CREATE STREAM s {BY_EVENT} INTO o AS {query}", dialect="ekuiper")
    write(lake, (2, 1), (3, 2), (8, 9), (12, 1), (14, 3), (17, 9), (25, 1), (28, 4), (40, 9), (60, 1))
    write(lake, (5, 50))
    assert not sums(lake) & expected, window
    lake.sql("RECALCULATE STREAM s FROM '2025-01-01 00:00:00' TO '2025-01-01 00:00:10'")
    assert not lake.run().failed
    # Not closed: the next one goes on from what was committed.
    lake = opened(tmp_path, spark)
    assert {s for s in sums(lake) if isinstance(s, int) and s > 50} == expected, window
    tenfold = query.replace("sum(v)", "sum(v * 10)")
    lake.sql(f"CREATE OR REPLACE STREAM s {BY_EVENT} INTO o AS {tenfold}", dialect="ekuiper")
    lake.run()
    write(lake, (90, 1))
    lake = opened(tmp_path, spark)
    write(lake, (4, 100), (120, 1))
    found = sums(lake)
    assert all(isinstance(s, int) and s % 10 == 0 and s < 1000 for s in found), window
    assert found & {s * 10 for s in expected}, window
    lake.close()


def test_rows_of_before_the_stream_are_not_its_own(tmp_path: Path, spark: SparkSession) -> None:
    with opened(tmp_path, spark) as lake:
        lake.sql("CREATE TABLE ev (ts TIMESTAMP, v INT)", dialect="ekuiper")
        write(lake, (1, 1))
        query = "SELECT sum(v) AS s FROM ev GROUP BY TUMBLINGWINDOW(ss, 10)"
        lake.sql(f"CREATE STREAM s {BY_EVENT} INTO o AS {query}", dialect="ekuiper")
        write(lake, (2, 2), (30, 4))
        write(lake, (3, 8))
        lake.sql("RECALCULATE STREAM s FROM '2025-01-01'")
        assert not lake.run().failed
        assert sums(lake) == {10}
        tenfold = query.replace("sum(v)", "sum(v * 10)")
        lake.sql(f"CREATE OR REPLACE STREAM s {BY_EVENT} INTO o AS {tenfold}", dialect="ekuiper")
        assert not lake.run().failed
        assert sums(lake) == {100}
