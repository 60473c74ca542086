"""BACKFILL: a continuous query computes what it would have, had it been there before. No Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake, ManualClock
from lakestream.engine.reading.small import SmallPath
from lakestream.errors import LakestreamError
from lakestream.timeseries.continuous import ContinuousQueries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
SUMS = "BEGIN SELECT sum(s), count(s) INTO root.o.d(total, n) FROM root.sg.d GROUP BY(10s) END"
TIMINGS = {
    "each once": "",
    "overlapping": "RESAMPLE RANGE 30s",
    "late": "RESAMPLE EVERY 10s BOUNDARY 3000 RANGE 40s, 20s",
    "left out": "RESAMPLE EVERY 10s RANGE 20s TIMEOUT POLICY DISCARD",
}


class World:
    """A lake whose points lie before its clock."""

    def __init__(self, root: Path) -> None:
        self.root, self.clock = root, ManualClock(BEGIN)
        self.lake = Lake(root, clock=self.clock)

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return self.lake.sql(text, dialect="iotdb").fetchall()

    def points(self, *seconds: int, value: int = 1) -> None:
        rows = ", ".join(f"({_millis(at)}, {value})" for at in seconds)
        self.sql(f"INSERT INTO root.sg.d(time, s) VALUES {rows}")

    def output(self) -> list[tuple[Any, ...]]:
        return self.sql("SELECT total, n FROM root.o.d WHERE n > 0")

    def advance(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    def reopen(self) -> None:
        self.lake.close()
        self.lake = Lake(self.root, clock=self.clock)


def _millis(seconds: float) -> int:
    return int((BEGIN.timestamp() + seconds) * 1000)


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], World]]:
    monkeypatch.setattr(SmallPath, "_of_spark", lambda *_: pytest.fail("Spark is asked"))
    worlds: list[World] = []

    def begin(name: str) -> World:
        worlds.append(World(tmp_path / name))
        return worlds[-1]

    yield begin
    for world in worlds:
        world.lake.close()


@pytest.mark.parametrize("timing", TIMINGS.values(), ids=TIMINGS)
def test_what_is_filled_is_what_the_query_would_have_written(
    begun: Callable[[str], World], timing: str
) -> None:
    there, later = begun("there"), begun("later")
    times = (1, 4, 12, 33, 34, 71, 99, 118)
    for world in (there, later):
        world.advance(1)
    there.sql(f"CREATE CQ c {timing} {SUMS}")
    there.points(*times)
    for _ in range(12):
        there.advance(10)
        there.lake.run()
    later.points(*times)
    later.advance(120)
    later.sql(f"CREATE CQ c {timing} {SUMS}")
    assert not later.output()
    later.sql(f"BACKFILL CQ c FROM {_millis(0)}")
    later.lake.run()
    for world in (there, later):
        world.advance(60)
        world.lake.run()
    assert later.output() == there.output() != []
    assert later.sql("SHOW CQS")[0][2:4] == there.sql("SHOW CQS")[0][2:4]


def test_a_range_is_filled_and_no_other(begun: Callable[[str], World]) -> None:
    world = begun("one")
    world.sql(f"CREATE CQ c {SUMS}")
    world.points(1, 11, 21, 31)
    world.advance(45)
    world.lake.run()
    before = world.output()
    world.points(2, 12, 22, 32, value=5)
    said = world.lake.sql(f"BACKFILL CQ c FROM {_millis(11)} TO {_millis(30)}", dialect="iotdb").message
    assert "2 executions are due, from 2025-01-01 00:00:20" in said
    world.lake.run()
    after = world.output()
    assert [row[1:] for row in after] == [(1.0, 1), (6.0, 2), (6.0, 2), (1.0, 1)]
    assert [row[0] for row in after] == [row[0] for row in before]
    world.advance(10)
    world.lake.run()
    assert world.output() == after


def test_a_backfill_goes_on_where_it_was_and_then_the_query(
    begun: Callable[[str], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = begun("one")
    world.points(*range(1, 100, 10))
    world.advance(95)
    world.sql(f"CREATE CQ c TIMEOUT POLICY DISCARD {SUMS}")
    world.sql(f"BACKFILL CONTINUOUS QUERY c FROM {_millis(0)}")
    real, executions = ContinuousQueries._write, list[int]()

    def writes(self: ContinuousQueries, *given: Any) -> int:
        executions.append(given[-1].tick)
        if len(executions) == 3:
            raise OSError("the disk is away")
        return real(self, *given)

    monkeypatch.setattr(ContinuousQueries, "_write", writes)
    world.lake.tick_once()
    assert world.sql("SHOW CQS")[0][2:4] == ("BACKFILLING", BEGIN + timedelta(seconds=20))
    world.reopen()
    world.lake.run()
    assert world.sql("SHOW CQS")[0][6]  # its last error
    world.advance(1_000)
    world.lake.run()
    assert [row[2] for row in world.output()] == [1] * 10
    micros = [int(BEGIN.timestamp() + at) * 1_000_000 for at in (10, 20, 30, 30, *range(40, 100, 10))]
    assert executions[: len(micros)] == micros
    assert world.sql("SHOW CQS")[0][2] == "ACTIVE"


def test_a_further_backfill_takes_the_place_of_one_that_is_under_way(begun: Callable[[str], World]) -> None:
    world = begun("one")
    world.points(*range(1, 100, 10))
    world.advance(95)
    world.sql(f"CREATE CQ c {SUMS}")
    world.sql(f"BACKFILL CQ c FROM {_millis(0)}")
    world.lake.tick_once()
    world.sql(f"BACKFILL CQ c FROM {_millis(70)}")
    world.lake.run()
    assert [row[0] for row in world.output()] == [BEGIN + timedelta(seconds=at) for at in (0, 70, 80)]
    assert world.sql("SHOW CQS")[0][2:4] == ("ACTIVE", BEGIN + timedelta(seconds=100))


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        (f"BACKFILL CQ d FROM {_millis(0)}", "CQ_NOT_FOUND"),
        (f"BACKFILL CQ c FROM {_millis(100)}", "CQ_INVALID"),
        (f"BACKFILL CQ c FROM {_millis(20)} TO {_millis(20)}", "CQ_INVALID"),
        (f"BACKFILL CQ c FROM {_millis(-2_000_000)}", "CQ_INVALID"),
        ("BACKFILL CQ c FROM 'soon'", "BAD_TIMESTAMP"),
        ("BACKFILL CQ c", "SYNTAX"),
        ("BACKFILL c FROM 1", "SYNTAX"),
    ],
)
def test_what_cannot_be_filled_is_refused(begun: Callable[[str], World], statement: str, code: str) -> None:
    world = begun("one")
    world.points(1)
    world.advance(50)
    world.sql(f"CREATE CQ c {SUMS}")
    before = world.sql("SHOW CQS")
    with pytest.raises(LakestreamError) as refused:
        world.sql(statement)
    assert refused.value.code == code
    assert refused.value.place is not None
    assert world.sql("SHOW CQS") == before
