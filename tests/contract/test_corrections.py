"""CONTINUOUS_WINDOW_CLOSE: windows are written when they close, late changes corrected now and then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from lakestream.clock import ManualClock
from lakestream.engine.base.faults import SimulatedCrash, crash_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = datetime(2025, 1, 1, 12, tzinfo=UTC)
STREAM = (
    "CREATE STREAM s TRIGGER CONTINUOUS_WINDOW_CLOSE RECALCULATE 10m INTO o AS "
    "SELECT _wstart AS w, count(*) AS n, sum(v) AS total FROM m PARTITION BY tbname INTERVAL(10s)"
)


class World:
    def __init__(self, path: Path, spark: SparkSession) -> None:
        self.path, self.spark, self.clock = path, spark, ManualClock(START)
        self.reopen()
        self.lake.sql("CREATE STABLE m (ts TIMESTAMP, v INT) TAGS (loc INT)")
        self.lake.sql(STREAM)

    def reopen(self) -> None:
        self.lake = Lake(self.path, spark=self.spark, clock=self.clock)

    def write(self, *readings: tuple[str, int, int]) -> None:
        rows = [{"tbname": g, "loc": 1, "ts": f"2025-01-01 00:00:{s:02}", "v": v} for g, s, v in readings]
        self.lake.insert("m", rows)
        self.lake.run()

    def pass_minutes(self, minutes: int) -> None:
        self.clock.advance(timedelta(minutes=minutes))
        self.lake.run()

    def rows(self) -> list[tuple[object, ...]]:
        found = self.lake.sql("SELECT tbname, second(w), n, total FROM o ORDER BY 1, 2").fetchall()
        return [(str(name)[-1:], *rest) for name, *rest in found]

    def totals(self) -> list[object]:
        return [row[-1] for row in self.rows()]


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> Iterator[World]:
    world = World(tmp_path / "lake", spark)
    yield world
    world.lake.close()


def test_changes_wait_for_the_next_instant(world: World) -> None:
    world.write(("a", 1, 1), ("a", 11, 2), ("a", 21, 4))
    world.write(("a", 2, 8))  # late
    world.lake.sql("UPDATE m SET v = 16 WHERE ts = '2025-01-01 00:00:11'")
    world.lake.run()
    assert world.totals() == [1, 2]
    world.pass_minutes(9)
    assert world.totals() == [1, 2]
    world.pass_minutes(1)
    assert world.totals() == [9, 16]
    assert world.lake.verify("s").holds
    world.lake.sql("DELETE FROM m WHERE ts = '2025-01-01 00:00:11'")
    world.lake.run()
    assert world.totals() == [9, 16]
    world.pass_minutes(10)
    assert world.totals() == [9]
    assert world.lake.verify("s").holds


def test_rows_in_order_are_recalculated_by_nothing(world: World) -> None:
    world.write(("a", 1, 1), ("a", 11, 2))
    world.pass_minutes(10)
    before = len(world.lake.recalculations("s"))
    world.write(("a", 21, 4), ("a", 31, 4))
    world.write(("a", 41, 4))
    world.pass_minutes(10)
    assert world.totals() == [1, 2, 4, 4]
    assert len(world.lake.recalculations("s")) == before


def test_a_late_change_is_corrected_by_the_process_that_follows(world: World) -> None:
    world.write(("a", 1, 1), ("a", 11, 2), ("b", 5, 1), ("b", 15, 1))
    world.pass_minutes(10)
    world.write(("a", 2, 8), ("b", 6, 8))
    world.reopen()
    world.pass_minutes(35)
    assert world.totals() == [9, 9]
    assert world.lake.verify("s").holds


@pytest.mark.faults
@pytest.mark.parametrize("point", ["C2", "C7"])
def test_a_crash_while_correcting_changes_nothing(world: World, point: str) -> None:
    world.write(("a", 1, 1), ("a", 11, 2))
    world.write(("a", 2, 8))
    world.clock.advance(timedelta(minutes=10))
    with pytest.raises(SimulatedCrash), crash_at(point):
        world.lake.run()
    world.reopen()
    world.lake.run()
    assert world.totals() == [9]
    assert world.lake.verify("s").holds
