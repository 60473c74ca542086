"""Streams whose output the user has made anew: its rows do not say which window they are of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STREAM = (
    "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM t STREAM_OPTIONS(EXACT) {} "
    "INTO o (start, until, n) AS SELECT _twstart, _twend, count(*) FROM %%trows"
)


def insert(lake: Lake, *seconds: int) -> None:
    lake.insert("t", [{"ts": f"2025-01-01 00:00:{second:02}", "v": 1} for second in seconds])


def made_anew(lake: Lake, notify: str = "") -> None:
    """Let a stream write windows, and put a table of the user's in the place of its output."""
    lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
    lake.sql(STREAM.format(notify))
    insert(lake, 1, 12, 25)
    lake.run()
    lake.sql("DROP TABLE o")
    lake.sql("CREATE TABLE o (start TIMESTAMP, until TIMESTAMP, n BIGINT)")


@pytest.mark.parametrize("small_rows", [0, 1000])
def test_windows_are_replaced_by_their_key(tmp_path: Path, spark: SparkSession, small_rows: int) -> None:
    with Lake(
        tmp_path / "lake", spark=spark, settings=Settings(duckdb_memory=0, small_rows=small_rows)
    ) as lake:
        made_anew(lake)
        insert(lake, 36)
        assert not lake.run().failed
        insert(lake, 3)
        assert not lake.run().failed
        insert(lake, 7)
        assert not lake.run().failed
        found = lake.sql("SELECT second(start), n FROM o ORDER BY start").fetchall()
    assert found == [(0, 3), (20, 1)]


def test_what_needs_to_know_the_window_fails_by_name(tmp_path: Path, spark: SparkSession) -> None:
    with Lake(tmp_path / "lake", spark=spark, settings=Settings(notify_hosts=("localhost",))) as lake:
        made_anew(lake, "NOTIFY('ws://localhost:9/') ON (WINDOW_OPEN)")
        insert(lake, 36)
        lake.run()
        (status,) = lake.streams()
    assert status.status == "Failed"
    assert (status.last_error or "").startswith("OUTPUT_CHANGED: NOTIFY into main.o, whose rows do not say")
