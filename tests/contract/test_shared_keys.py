"""Rows of several windows with one key: that of the later window stays, whatever is written when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = datetime(2025, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["arrow", "spark"])
def lake(tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[Lake]:
    with Lake(tmp_path / "lake", spark=spark, settings=Settings(transport=request.param)) as opened:
        opened.sql("CREATE STABLE m (ts TIMESTAMP, v INT) TAGS (loc INT)")
        yield opened


def write(lake: Lake, table: str, *seconds: int) -> None:
    rows = [{"tbname": table, "loc": 1, "ts": START + timedelta(seconds=s), "v": s} for s in seconds]
    lake.insert("m", rows)
    lake.run()


def test_a_late_row_of_an_earlier_window_leaves_the_key_to_the_later_one(lake: Lake) -> None:
    lake.sql(
        "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM m INTO o "
        "AS SELECT date_trunc('minute', _twstart) AS at, count(*) AS n, _twstart AS ws FROM %%trows"
    )
    write(lake, "a", 1, 12, 23)
    write(lake, "a", 2, 3)
    rows = lake.sql("SELECT n, ws FROM o").fetchall()
    assert rows == [(1, START + timedelta(seconds=10))]
    assert lake.verify("s").holds
    write(lake, "a", 15, 16)
    assert lake.sql("SELECT n FROM o").fetchall() == [(3,)]
    assert lake.verify("s").holds


def test_of_groups_that_share_a_subtable_the_greater_one_stays_whichever_came_last(lake: Lake) -> None:
    lake.sql(
        "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM m PARTITION BY tbname INTO o "
        "OUTPUT_SUBTABLE('both') TAGS (name VARCHAR(9) AS tbname) "
        "AS SELECT _twstart AS ws, count(*) AS n FROM %%trows"
    )
    write(lake, "a", 1, 12)
    write(lake, "b", 1, 2, 12)
    found = lake.sql("SELECT name, n FROM o").fetchall()
    write(lake, "a", 2, 3)
    write(lake, "b", 3)
    assert lake.verify("s").holds
    assert [name for name, _ in lake.sql("SELECT name, n FROM o").fetchall()] == [name for name, _ in found]
