"""Windows that fire before they close: at once, while time passes, when they open, or by the clock alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings
from lakestream.clock import ManualClock
from lakestream.engine.base.faults import SimulatedCrash, crash_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Reading = tuple[str, int, int]
START = datetime(2025, 1, 1, tzinfo=UTC)


class World:
    """A lake with a super table ``m`` of readings (subtable, second, value), on a clock of its own."""

    def __init__(self, path: Path, spark: SparkSession, transport: str) -> None:
        self.path, self.spark = path, spark
        self.settings = Settings(transport=transport)
        self.clock = ManualClock(START)
        self.lake = self.opened()
        self.lake.sql("CREATE STABLE m (ts TIMESTAMP, v INT) TAGS (loc INT)")

    def opened(self) -> Lake:
        return Lake(self.path, spark=self.spark, settings=self.settings, clock=self.clock)

    def reopen(self) -> None:
        self.lake = self.opened()

    def write(self, *readings: Reading) -> None:
        self.lake.insert(
            "m", [{"tbname": g, "loc": 1, "ts": f"2025-01-01 00:00:{s:02}", "v": v} for g, s, v in readings]
        )
        self.lake.run()

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Return rows with times as seconds."""
        found = self.lake.sql(query).fetchall()
        return [
            tuple(
                int((value - START).total_seconds()) if isinstance(value, datetime) else value
                for value in row
            )
            for row in found
        ]


@pytest.fixture(params=["arrow", "spark"])
def world(tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[World]:
    world = World(tmp_path / "lake", spark, request.param)
    yield world
    world.lake.close()


def test_at_once_shows_open_windows_and_follows_late_rows(world: World) -> None:
    world.lake.sql(
        "CREATE STREAM s TRIGGER AT_ONCE IGNORE EXPIRED 0 INTO o TAGS (g VARCHAR(9)) AS "
        "SELECT _wstart AS ws, count(*) AS n, sum(v) AS total FROM m PARTITION BY tbname AS g "
        "INTERVAL(10s) SLIDING(5s)"
    )
    world.write(("a", 2, 1), ("b", 7, 2))
    world.write(("a", 3, 4), ("a", 16, 8))
    world.write(("b", 1, 16), ("a", 4, 32))
    assert world.rows("SELECT g, ws, n, total FROM o ORDER BY g, ws") == [
        ("a", -5, 3, 37),
        ("a", 0, 3, 37),
        ("a", 10, 1, 8),
        ("a", 15, 1, 8),
        ("b", -5, 1, 16),
        ("b", 0, 2, 18),
        ("b", 5, 1, 2),
    ]
    assert world.lake.verify("s").holds


def test_at_once_of_sessions_is_rewritten_when_late_rows_join_them(world: World) -> None:
    world.lake.sql(
        "CREATE STREAM s TRIGGER AT_ONCE IGNORE EXPIRED 0 INTO o AS "
        "SELECT _wstart AS ws, _wend AS we, count(*) AS n FROM m SESSION(ts, 5s)"
    )
    world.write(("a", 1, 1), ("a", 3, 1))
    assert world.rows("SELECT * FROM o") == [(1, 8, 2)]
    world.write(("a", 12, 1), ("a", 14, 1))
    world.write(("a", 20, 1))
    world.write(("a", 7, 1))
    assert world.rows("SELECT * FROM o ORDER BY ws") == [(1, 19, 5), (20, 25, 1)]
    assert world.lake.verify("s").holds


def test_ignore_update_0_follows_updates_though_late_rows_change_nothing(world: World) -> None:
    world.lake.sql(
        "CREATE STREAM s IGNORE UPDATE 0 INTO o AS SELECT _wstart AS ws, sum(v) AS total FROM m INTERVAL(10s)"
    )
    world.write(("a", 1, 1), ("a", 12, 2))
    world.write(("a", 3, 4))
    assert world.rows("SELECT * FROM o") == [(0, 1)]
    world.lake.sql("UPDATE m SET v = 10 WHERE v = 1")
    world.lake.run()
    assert world.rows("SELECT * FROM o") == [(0, 14)]


@pytest.mark.parametrize("events", ["WINDOW_OPEN", "WINDOW_OPEN | WINDOW_CLOSE"])
def test_windows_that_open_and_close(world: World, events: str) -> None:
    world.lake.sql(
        "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM m PARTITION BY tbname "
        f"STREAM_OPTIONS(EVENT_TYPE({events})) INTO o AS "
        "SELECT _twstart AS ws, _twend AS we FROM m WHERE ts = '2025-01-01 00:00:01'"
    )
    world.write(("a", 1, 1), ("b", 2, 1))
    assert world.rows("SELECT tag_tbname, ws, we FROM o ORDER BY 1, 2") == [("a", 0, 0), ("b", 0, 0)]
    world.write(("a", 3, 1), ("a", 15, 1))
    world.write(("b", 31, 1))
    closed = "CLOSE" in events
    ends = {ws: ws + 10 if closed else ws for ws in (0, 10, 20)}
    assert world.rows("SELECT tag_tbname, ws, we FROM o ORDER BY 1, 2") == [
        ("a", 0, ends[0]),
        ("a", 10, 10),
        ("b", 0, ends[0]),
        ("b", 10, ends[10]),
        ("b", 20, ends[20]),
        ("b", 30, 30),
    ]
    assert world.lake.verify("s").holds


def test_a_state_opens_once_it_has_lasted_for_true_for(world: World) -> None:
    world.lake.sql(
        "CREATE STREAM s STATE_WINDOW(v) TRUE_FOR(4s) FROM m PARTITION BY tbname "
        "STREAM_OPTIONS(EVENT_TYPE(WINDOW_OPEN)) INTO o AS SELECT _twstart AS ws, count(*) AS n FROM m"
    )
    world.write(("a", 1, 1), ("a", 3, 1))
    assert world.rows("SELECT * FROM o") == []
    world.write(("a", 5, 1))
    assert world.rows("SELECT ws, n FROM o") == [(1, 3)]
    world.write(("a", 9, 1), ("a", 10, 2), ("a", 11, 3))
    assert world.rows("SELECT ws, n FROM o") == [(1, 3)]


@pytest.mark.parametrize(
    ("trigger", "keyed"),
    [
        ("INTERVAL(20s) SLIDING(10s)", [(-10, 2), (0, 2)]),
        ("COUNT_WINDOW(3, 2)", [(1, 2)]),
        ("SESSION(ts, 8s)", [(1, 2)]),
    ],
)
def test_max_delay_survives_a_crash_between_plan_and_commit(
    world: World, trigger: str, keyed: list[tuple[int, int]]
) -> None:
    world.lake.sql(
        f"CREATE STREAM s {trigger} FROM m PARTITION BY tbname STREAM_OPTIONS(MAX_DELAY(5s)) "
        "INTO o AS SELECT _twstart AS ws, count(*) AS n FROM %%trows"
    )
    world.write(("a", 1, 1))
    world.write(("a", 6, 1))
    world.clock.advance(timedelta(seconds=6))
    with crash_at("C6a"), pytest.raises(SimulatedCrash):
        world.lake.run()
    world.reopen()
    world.lake.run()
    assert world.rows("SELECT ws, n FROM o ORDER BY ws") == keyed
    assert [status.status for status in world.lake.streams()] == ["Running"]


@pytest.mark.parametrize("trigger", ["INTERVAL(20s) SLIDING(20s)", "SESSION(ts, 8s)"])
def test_a_restart_does_not_lengthen_a_delay(world: World, trigger: str) -> None:
    world.lake.sql(
        f"CREATE STREAM s {trigger} FROM m PARTITION BY tbname STREAM_OPTIONS(MAX_DELAY(5s)) "
        "INTO o AS SELECT _twstart AS ws, count(*) AS n, CAST(_tlocaltime / 1000000 AS TIMESTAMP) AS at "
        "FROM %%trows"
    )
    world.write(("a", 1, 1))
    world.clock.advance(timedelta(seconds=3))
    world.write(("a", 2, 1))
    seen = []
    for _ in range(4):
        world.reopen()
        world.clock.advance(timedelta(seconds=3))
        world.lake.run()
        seen += world.rows("SELECT n, at FROM o")
    assert seen == [(2, 6), (2, 6), (2, 12), (2, 15)]


def test_the_clock_closes_windows_once(world: World) -> None:
    world.lake.sql(
        "CREATE STREAM s TRIGGER FORCE_WINDOW_CLOSE INTO o AS "
        "SELECT _wstart AS ws, sum(v) AS total FROM m INTERVAL(10s)"
    )
    world.write(("a", 3, 1), ("a", 12, 2), ("a", 35, 4))
    assert world.rows("SELECT * FROM o") == []
    world.clock.advance(timedelta(seconds=21))
    world.lake.run()
    assert world.rows("SELECT * FROM o ORDER BY ws") == [(0, 1), (10, 2)]
    world.write(("a", 4, 8))
    world.reopen()
    world.clock.advance(timedelta(seconds=20))
    world.lake.run()
    assert world.rows("SELECT * FROM o ORDER BY ws") == [(0, 1), (10, 2), (30, 4)]
