"""Streams that leave late rows out: what they hold survives a restart, and what fails does not stop them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, ManualClock, Settings
from lakestream.errors import LakestreamError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BEGIN = datetime(2025, 1, 1, tzinfo=UTC)


def at(second: float) -> datetime:
    return BEGIN + timedelta(seconds=second)


def event(second: float, name: str, size: int) -> dict[str, object]:
    return {"ts": at(second), "name": name, "size": size}


def opened(path: Path, spark: SparkSession, clock: ManualClock | None = None) -> Lake:
    return Lake(path, spark=spark, settings=Settings(), clock=clock)


def create(lake: Lake, select: str, options: str = "WITH (TIMESTAMP='ts')") -> None:
    lake.sql("CREATE TABLE IF NOT EXISTS ev (ts TIMESTAMP, name STRING, size INT)", dialect="ekuiper")
    lake.sql(f"CREATE STREAM s {options} INTO o AS {select}", dialect="ekuiper")


def rows(lake: Lake, query: str) -> list[tuple[object, ...]]:
    assert not lake.run().failed
    return list(lake.sql(query).fetchall())


def test_held_rows_survive_a_restart(tmp_path: Path, spark: SparkSession) -> None:
    with opened(tmp_path, spark) as lake:
        create(lake, "SELECT count(*) AS c, sum(size) AS s FROM ev GROUP BY SESSIONWINDOW(ss, 60, 5)")
        lake.insert("ev", [event(1, "a", 1), event(3, "a", 2)])
        assert rows(lake, "SELECT * FROM o") == []
    with opened(tmp_path, spark) as lake:
        lake.insert("ev", [event(2, "late", 4)])
        lake.insert("ev", [event(6, "a", 8), event(20, "a", 16)])
        assert rows(lake, "SELECT * FROM o") == [(3, 11)]
        assert rows(lake, "SELECT count(*) FROM s__errors") == [(1,)]


def test_arrivals_survive_a_kill(tmp_path: Path, spark: SparkSession) -> None:
    clock = ManualClock(BEGIN)
    lake = opened(tmp_path, spark, clock)
    create(lake, "SELECT count(*) AS c, window_end() AS we FROM ev GROUP BY TUMBLINGWINDOW(ss, 10)", "")
    clock.advance(timedelta(seconds=4))
    lake.insert("ev", [event(0, "a", 1)])
    lake.run()
    clock.advance(timedelta(seconds=8))
    # Not closed: nothing is saved on the way out.
    after = opened(tmp_path, spark, clock)
    assert rows(after, "SELECT * FROM o") == [(1, at(10))]
    clock.advance(timedelta(seconds=60))
    assert rows(after, "SELECT * FROM o") == [(1, at(10))]


def test_what_was_flushed_is_not_output_again(tmp_path: Path, spark: SparkSession) -> None:
    lake = opened(tmp_path, spark)
    create(lake, "SELECT count(*) AS c FROM ev GROUP BY TUMBLINGWINDOW(ss, 10)")
    lake.insert("ev", [event(1, "a", 1)])
    lake.sql("FLUSH STREAM s")
    after = opened(tmp_path, spark)
    after.insert("ev", [event(30, "a", 1)])
    assert rows(after, "SELECT * FROM o") == [(1,)]
    after.sql("FLUSH STREAM s")
    assert rows(after, "SELECT * FROM o") == [(1,), (1,)]


def test_a_window_that_fails_goes_to_the_errors(tmp_path: Path, spark: SparkSession) -> None:
    with opened(tmp_path, spark) as lake:
        value = "CASE WHEN name = 'bad' THEN CAST(raise_error('three is bad') AS INT) ELSE size END"
        create(lake, f"SELECT sum({value}) AS s FROM ev GROUP BY COUNTWINDOW(1)")
        names = ["a", "a", "bad", "a", "a"]
        lake.insert("ev", [event(second, name, second + 1) for second, name in enumerate(names)])
        assert rows(lake, "SELECT s FROM o ORDER BY s") == [(1,), (2,), (4,), (5,)]
        [(reason, time)] = rows(lake, "SELECT reason, event_time FROM s__errors")
        assert "three" in str(reason)
        assert time == at(2)
        lake.insert("ev", [event(9, "a", 6)])
        assert rows(lake, "SELECT max(s) FROM o") == [(6,)]


def test_a_replaced_row_is_a_further_event(tmp_path: Path, spark: SparkSession) -> None:
    with opened(tmp_path, spark) as lake:
        lake.sql("CREATE TABLE ev (ts TIMESTAMP, name STRING, size INT)")
        create(lake, "SELECT count(*) AS c, sum(size) AS s FROM ev GROUP BY COUNTWINDOW(2)")
        lake.insert("ev", [event(1, "a", 1)])
        lake.insert("ev", [event(1, "a", 2)])
        lake.sql("DELETE FROM ev WHERE name = 'a'")
        lake.insert("ev", [event(2, "b", 4)])
        assert rows(lake, "SELECT * FROM o") == [(2, 3)]


EXACT = "WITH (TIMESTAMP='ts', EXACT=true)"


def test_exact_corrects_what_a_flush_has_written(tmp_path: Path, spark: SparkSession) -> None:
    with opened(tmp_path, spark) as lake:
        create(lake, "SELECT count(*) AS c, sum(size) AS s FROM ev GROUP BY SESSIONWINDOW(ss, 60, 5)", EXACT)
        lake.insert("ev", [event(1, "a", 1), event(20, "a", 2)])
        lake.sql("FLUSH STREAM s")
        assert rows(lake, "SELECT * FROM o ORDER BY s") == [(1, 1), (1, 2)]
        assert lake.verify("s").holds
        lake.insert("ev", [event(22, "a", 4), event(3, "late", 8)])
        assert rows(lake, "SELECT * FROM o ORDER BY s") == [(2, 9)]
        assert lake.verify("s").holds


def test_exact_takes_everything_anew_after_a_resync(tmp_path: Path, spark: SparkSession) -> None:
    with opened(tmp_path, spark) as lake:
        create(lake, "SELECT count(*) AS c, window_end() AS e FROM ev GROUP BY TUMBLINGWINDOW(ss, 10)", EXACT)
        lake.insert("ev", [event(1, "a", 1), event(20, "a", 2)])
        assert rows(lake, "SELECT * FROM o") == [(1, at(10))]
        lake.sql("RECALCULATE STREAM s RESYNC")
        lake.insert("ev", [event(2, "late", 1), event(30, "a", 2)])
        assert rows(lake, "SELECT * FROM o ORDER BY e") == [(2, at(10)), (1, at(30))]
        assert lake.verify("s").holds


def test_exact_keeps_to_the_rows_that_came_after_the_stream(tmp_path: Path, spark: SparkSession) -> None:
    with opened(tmp_path, spark) as lake:
        lake.sql("CREATE TABLE ev (ts TIMESTAMP, name STRING, size INT)", dialect="ekuiper")
        lake.insert("ev", [event(1, "before", 1), event(5, "before", 1)])
        create(lake, "SELECT count(*) AS c, window_end() AS e FROM ev GROUP BY TUMBLINGWINDOW(ss, 10)", EXACT)
        lake.insert("ev", [event(2, "after", 1), event(30, "after", 2)])
        lake.sql("DELETE FROM ev WHERE name = 'before' AND size = 1 AND ts = '2025-01-01 00:00:05'")
        lake.insert("ev", [{"ts": None, "name": "no time", "size": 1}])
        assert rows(lake, "SELECT * FROM o") == [(1, at(10))]
        assert lake.verify("s").holds
        assert rows(lake, "SELECT count(*) FROM s__errors") == [(1,)]
        lake.sql("DELETE FROM ev WHERE name = 'after' AND size = 2")
        assert rows(lake, "SELECT * FROM o") == []
        assert lake.verify("s").holds


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("WITH (TIMESTAMP='name', EXACT=true)", "NOT_SUPPORTED"),
        ("WITH (TIME_CHARACTERISTIC='processing', EXACT=true)", "OPTION_WITHOUT_EFFECT"),
    ],
)
def test_exact_is_refused_where_time_is_not_the_tables(
    tmp_path: Path, spark: SparkSession, options: str, code: str
) -> None:
    with opened(tmp_path, spark) as lake, pytest.raises(LakestreamError) as refused:
        create(lake, "SELECT count(*) AS c FROM ev GROUP BY TUMBLINGWINDOW(ss, 10)", options)
    assert refused.value.code == code
