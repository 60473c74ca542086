"""A backlog of which one tick would fire too many windows is taken in several; one commit is not divided."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake, Settings
from lakestream.engine.base.faults import TICK_POINTS, SimulatedCrash, crash_at
from tests.tiers import leaving

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = datetime(2025, 1, 1, tzinfo=UTC)
CALCULATION = "SELECT _twstart AS w, count(*) AS n, sum(v) AS total FROM %%trows"
MOST = 8
COMMITS = 24
TRIGGERS = {
    "tumbling": "INTERVAL(1m) SLIDING(1m) FROM t{}",
    "exact": "INTERVAL(1m) SLIDING(1m) FROM t{} STREAM_OPTIONS(EXACT)",
    "at once": "INTERVAL(1m) SLIDING(1m) FROM t{} STREAM_OPTIONS(IGNORE_DISORDER)",
    "sessions": "SESSION(ts, 10s) FROM t{}",
    "counts": "COUNT_WINDOW(2) FROM t{}",
    "states": "STATE_WINDOW(v) FROM t{}",
}


def rows_of(minute: datetime, value: int) -> list[dict[str, Any]]:
    """Return two rows a group, within half a minute."""
    seconds = {"a": (0, 20), "b": (1, 21)}
    return [
        {"ts": minute + timedelta(seconds=second), "v": value, "g": g} for g in "ab" for second in seconds[g]
    ]


class Backlog:
    """A stream, and commits of two rows a minute in each of two groups."""

    def __init__(self, root: Path, spark: SparkSession, transport: str, clause: str) -> None:
        self.root, self.spark, self.transport = root, spark, transport
        self.minutes = 0
        with self.opened() as lake:
            lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT, g VARCHAR(4))")
            lake.sql(f"CREATE STREAM s {clause} INTO o AS {CALCULATION}")
            lake.sql(f"CREATE STREAM all_at_once {clause} INTO whole AS {CALCULATION}")

    def opened(self, most: int = MOST) -> Lake:
        settings = Settings(transport=self.transport, max_windows_per_tick=most)
        return Lake(self.root, spark=self.spark, settings=settings)

    def write(self, lake: Lake, at: datetime | None = None) -> None:
        minute = START + timedelta(minutes=self.minutes) if at is None else at
        self.minutes += at is None
        lake.insert("t", rows_of(minute, self.minutes))

    def rows(self, lake: Lake, table: str) -> list[Any]:
        return sorted(lake.sql(f"SELECT * FROM {table}").fetchall(), key=repr)


@pytest.mark.parametrize("transport", leaving(["arrow", "spark"], lambda one: one == "spark"))
@pytest.mark.parametrize("by", ["", " PARTITION BY g"], ids=["one group", "groups"])
@pytest.mark.parametrize("kind", leaving(TRIGGERS, lambda kind: kind in ("at once", "states")))
def test_a_backlog_is_taken_in_several_ticks(
    tmp_path: Path, spark: SparkSession, kind: str, by: str, transport: str
) -> None:
    backlog = Backlog(tmp_path / "lake", spark, transport, TRIGGERS[kind].format(by))
    with backlog.opened() as lake:
        for _ in range(COMMITS):
            backlog.write(lake)
        summary = lake.run(streams=["s"])
        assert summary.failed == []
        assert max(tick.windows for tick in summary.ticks) <= MOST
        assert {one.name: (one.status, one.waiting_groups) for one in lake.streams()}["s"] == ("Running", ())
        assert lake.verify("s").holds
    with backlog.opened(most=10_000) as lake:
        assert lake.run().failed == []
        assert backlog.rows(lake, "o") == backlog.rows(lake, "whole") != []


@pytest.mark.parametrize("by", ["", " PARTITION BY g"], ids=["one group", "groups"])
@pytest.mark.parametrize("kind", leaving(TRIGGERS, lambda kind: kind not in ("tumbling", "counts")))
def test_a_history_is_taken_in_several_ticks(tmp_path: Path, spark: SparkSession, kind: str, by: str) -> None:
    clause = TRIGGERS[kind].format(by)
    options = "STREAM_OPTIONS(FILL_HISTORY"
    clause = (
        clause.replace("STREAM_OPTIONS(", f"{options} | ") if "STREAM" in clause else f"{clause} {options})"
    )
    with Lake(tmp_path / "lake", spark=spark, settings=Settings(max_windows_per_tick=MOST)) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT, g VARCHAR(4))")
        minutes = [START + timedelta(minutes=minute) for minute in range(60)]
        lake.insert("t", [row for minute in minutes for row in rows_of(minute, minute.minute)])
        lake.sql(f"CREATE STREAM s {clause} INTO o AS {CALCULATION}")
        summary = lake.run()
        assert summary.failed == []
        assert max(tick.windows for tick in summary.ticks) <= MOST
        (status,) = lake.streams()
        assert (status.status, status.waiting_groups) == ("Running", ())
        assert lake.verify("s").holds
        assert lake.sql("SELECT count(*) FROM o").fetchall()[0][0] >= 59


def test_one_commit_that_makes_too_many_stops_the_stream_behind_the_others(
    tmp_path: Path, spark: SparkSession
) -> None:
    backlog = Backlog(tmp_path / "lake", spark, "auto", "INTERVAL(1m) SLIDING(1m) FROM t")
    with backlog.opened() as lake:
        for _ in range(12):
            backlog.write(lake)
        backlog.write(lake, START + timedelta(days=2))
        (failed,) = lake.run(streams=["s"]).failed
        assert "windows would fire" in str(failed.error)
        (said,) = [one.last_error for one in lake.streams() if one.name == "s"]
        assert (said or "").startswith("TOO_MANY_WINDOWS")
        assert len(backlog.rows(lake, "o")) == 11


@pytest.mark.parametrize("point", leaving(sorted({*TICK_POINTS} - {"C4"}), lambda point: point != "C2"))
def test_a_crash_on_the_way_loses_and_doubles_nothing(
    tmp_path: Path, spark: SparkSession, point: str
) -> None:
    clause = TRIGGERS["tumbling"].format(" PARTITION BY g")
    backlog = Backlog(tmp_path / "lake", spark, "auto", clause)
    with backlog.opened() as lake:
        for _ in range(COMMITS):
            backlog.write(lake)
    for _ in range(3):
        lake = backlog.opened()
        with pytest.raises(SimulatedCrash), crash_at(point):
            lake.run(streams=["s"])
    with backlog.opened() as lake:
        assert lake.run(streams=["s"]).failed == []
        assert len(backlog.rows(lake, "o")) == 2 * (COMMITS - 1)
        assert lake.verify("s").holds
