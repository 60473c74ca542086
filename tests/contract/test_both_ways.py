"""A stream writes the same table whichever way its bytes travel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from chispa import assert_df_equality

from lakestream import Lake, Settings
from lakestream.engine.reading import transport as ways
from lakestream.engine.windows.rows.in_order import InOrder
from tests.tiers import leaving

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

COMMITS = (
    [("t1", 1, 1.0), ("t1", 7, 2.0), ("t2", 3, 4.0)],
    [("t1", 12, 8.0), ("t2", 16, 16.0), ("t1", 13, None)],
    [("t1", 41, 32.0), ("t2", 22, 64.0)],
    [("t1", 4, 128.0), ("t2", 31, 256.0)],
)


def output(folder: Path, spark: SparkSession, transport: str) -> DataFrame:
    lake = Lake(folder / transport, spark=spark, settings=Settings(transport=transport))
    lake.sql("CREATE STABLE meters (ts TIMESTAMP, v DOUBLE) TAGS (loc VARCHAR(8))")
    lake.sql(
        "CREATE STREAM s INTERVAL(10s) SLIDING(5s) FROM meters PARTITION BY tbname INTO o AS "
        "SELECT _twstart AS ws, count(*) AS n, avg(v) AS mean, first(v) AS head, stddev(v) AS spread "
        "FROM %%trows"
    )
    for commit in COMMITS:
        lake.insert(
            "meters",
            [{"tbname": name, "loc": "A", "ts": f"2025-01-01 00:00:{s:02}", "v": v} for name, s, v in commit],
        )
        lake.run()
    assert lake.verify("s").holds
    lake.close()
    return lake.table("o")


def test_arrow_and_spark_write_the_same_rows(tmp_path: Path, spark: SparkSession) -> None:
    by_arrow, by_spark = (output(tmp_path, spark, transport) for transport in ("arrow", "spark"))
    assert_df_equality(by_arrow, by_spark, ignore_row_order=True, ignore_nullable=True)
    # t1 ends at :41 with windows from 23:59:55 to 00:00:30, t2 at :31 with those to 00:00:20.
    assert by_arrow.groupBy("tag_tbname").count().orderBy("tag_tbname").collect() == [("t1", 8), ("t2", 6)]


ROW_WINDOWS = {
    "session": "SESSION(ts, 4s) FROM meters PARTITION BY tbname",
    "state": "STATE_WINDOW(CAST(v AS INT)) FROM meters PARTITION BY tbname",
    "event": "EVENT_WINDOW(START WITH v > 1 END WITH v > 3) FROM meters PARTITION BY tbname",
    "counted": "COUNT_WINDOW(2) FROM meters PARTITION BY tbname",
    "joining": "SESSION(ts, 4s) FROM meters PARTITION BY tbname STREAM_OPTIONS(WATERMARK(3s))",
}


def row_windows(folder: Path, spark: SparkSession, name: str, transport: str) -> DataFrame:
    """Return the output of row windows over rows in order, then with rows of equal time and late ones."""
    lake = Lake(folder / transport, spark=spark, settings=Settings(transport=transport))
    lake.sql("CREATE STABLE meters (ts TIMESTAMP, v DOUBLE) TAGS (loc VARCHAR(8))")
    lake.sql(
        f"CREATE STREAM {name} {ROW_WINDOWS[name]} INTO o AS "
        "SELECT _twstart AS ws, count(*) AS n, sum(v) AS total FROM %%trows"
    )
    for commit in (*COMMITS[:3], [("t1", 50, 1.0), ("t2", 50, 1.0), ("t3", 50, 7.0)], COMMITS[3]):
        rows = [
            {"tbname": name, "loc": "A", "ts": f"2025-01-01 00:00:{s:02}", "v": v} for name, s, v in commit
        ]
        lake.insert("meters", rows)
        lake.run()
    lake.close()
    return lake.table("o")


@pytest.mark.parametrize("name", leaving(ROW_WINDOWS, lambda name: name != "counted"))
def test_row_windows_that_are_too_many_for_arrow_stay_in_spark(
    name: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[DataFrame] = []
    in_spark = InOrder._in_spark

    def noted(tick: InOrder, rows: DataFrame) -> object:
        seen.append(rows)
        return in_spark(tick, rows)

    monkeypatch.setattr(InOrder, "_in_spark", noted)
    expected = row_windows(tmp_path, spark, name, "arrow")
    assert (expected.count() > 1, seen) == (True, [])
    monkeypatch.setattr(ways, "MAX_HANDED_CELLS", 0)
    found = row_windows(tmp_path, spark, name, "spark")
    assert seen
    assert_df_equality(expected, found, ignore_row_order=True, ignore_nullable=True)


def test_rows_that_are_too_many_for_arrow_stay_in_spark(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = output(tmp_path / "few", spark, "spark")
    monkeypatch.setattr(ways, "MAX_HANDED_CELLS", 0)
    assert_df_equality(
        expected, output(tmp_path / "many", spark, "spark"), ignore_row_order=True, ignore_nullable=True
    )
