"""Groups that fall idle, in a lake: when a silence is looked for, and what outlives a process. No Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake, Settings
from lakestream.clock import ManualClock
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from lakestream.storage.sessions import session

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
STREAM = """STREAM s SLIDING(1s) FROM m PARTITION BY tbname
    STREAM_OPTIONS(IDLE_TIMEOUT({}s) | EVENT_TYPE(IDLE | RESUME))
    INTO o AS SELECT CAST(_tidleend / 1000000 AS TIMESTAMP) AS at, _tidlestart AS since"""


class World:
    """A lake with such a stream, whose timeout is ten seconds."""

    def __init__(self, path: Path, commits: int = 100) -> None:
        self.path, self.clock = path, ManualClock(BEGIN)
        self.settings = Settings(max_commits_per_tick=commits)
        self.lake = self.opened()
        self.lake.sql("CREATE STABLE m (ts TIMESTAMP, v INT) TAGS (loc INT)")
        self.lake.sql(f"CREATE {STREAM.format(10)}")

    def opened(self) -> Lake:
        return Lake(self.path, clock=self.clock, settings=self.settings)

    def advance(self, seconds: int) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    def write(self, *groups: str) -> None:
        self.lake.insert("m", [{"ts": BEGIN.isoformat(), "v": 1, "tbname": one} for one in groups])

    def run(self) -> None:
        assert not self.lake.run(until="idle").failed

    @property
    def events(self) -> list[tuple[Any, ...]]:
        """The groups with the seconds from when to when, in order."""
        rows = self.lake.sql("SELECT tag_tbname, since, at FROM o").fetchall()
        seconds = [(name, _second(since // 10**9), _second(at.timestamp())) for name, since, at in rows]
        return sorted(seconds, key=lambda event: event[::-1])


def _second(instant: float) -> int:
    return int(instant - BEGIN.timestamp())


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_arguments: object) -> None:
        raise AssertionError("Spark is asked")

    monkeypatch.setattr(session, "spark_session", refused)


def test_a_silence_is_looked_for_when_all_there_is_has_been_taken(tmp_path: Path) -> None:
    world = World(tmp_path, commits=1)
    world.write("a", "b")
    world.run()
    world.advance(20)
    world.write("b")
    world.write("a")
    world.run()
    assert world.events == []
    world.lake.close()


def test_rows_of_other_groups_do_not_put_a_silence_off(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write("a", "b")
    world.run()
    world.advance(20)
    world.write("b")
    world.lake.tick_once()
    assert world.events == [("a", 0, 10)]
    world.lake.close()


@pytest.mark.parametrize("point", ["C2", "C4", "C7"])
def test_rows_come_when_the_tick_was_planned_that_was_killed(tmp_path: Path, point: str) -> None:
    world = World(tmp_path)
    for group in ("a", "b"):
        world.write(group)
        world.run()
        world.advance(1)
    world.advance(9)
    world.write("b", "a", "c")
    world.advance(1)
    with pytest.raises(SimulatedCrash), crash_at(point):
        world.run()
    world.advance(5)
    world.lake = world.opened()  # what has died saves nothing more
    world.run()
    world.advance(5)
    world.run()
    assert world.events == [("a", 12, 22), ("b", 12, 22), ("c", 12, 22)]
    world.lake.close()


def test_another_definition_begins_with_what_comes(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write("a", "b")
    world.run()
    world.lake.sql(f"CREATE OR REPLACE {STREAM.format(3)}")
    world.run()
    world.advance(5)
    world.write("b")
    world.run()
    world.advance(3)
    world.run()
    assert world.events == [("b", 5, 8)]
    with pytest.raises(Exception, match="does otherwise with late rows"):
        world.lake.sql(
            "CREATE OR REPLACE STREAM s SLIDING(1s) FROM m PARTITION BY tbname "
            "INTO o AS SELECT _tcurrent_ts AS at, count(*) AS since FROM %%trows"
        )
    world.lake.close()
