"""FILL of the classic syntax: what windows without rows hold, however the input and the clock come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from lakestream.clock import ManualClock
from lakestream.errors import StatementError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    Row = tuple[str, int, int | None, int | None]

pytestmark = pytest.mark.spark

START = datetime(2025, 1, 1, 0, 0, 2, tzinfo=UTC)
LENGTH = 10
MODES = {
    "continuous": "TRIGGER CONTINUOUS_WINDOW_CLOSE RECALCULATE 10m",
    "force": "TRIGGER FORCE_WINDOW_CLOSE",
}


class World:
    """Two meters, one stream, and the rows that there are: (meter, second) to value."""

    def __init__(self, path: Path, spark: SparkSession) -> None:
        self.path, self.spark, self.clock = path, spark, ManualClock(START)
        self.there: dict[tuple[str, int], int | None] = {}
        self.reopen()
        self.lake.sql("CREATE STABLE m (ts TIMESTAMP, v INT) TAGS (loc INT)")

    def reopen(self) -> None:
        self.lake = Lake(self.path, spark=self.spark, clock=self.clock)

    def stream(self, mode: str, fill: str, options: str = "") -> None:
        self.lake.sql(
            f"CREATE STREAM s {MODES[mode]} {options} INTO o TAGS (name VARCHAR(8)) AS SELECT _wstart AS w, "
            f"count(*) AS n, last(v) + 1 AS v FROM m PARTITION BY tbname AS name INTERVAL({LENGTH}s) {fill}"
        )

    def write(self, rows: dict[tuple[str, int], int | None]) -> None:
        self.there |= rows
        listed = [
            {"tbname": name, "loc": 1, "ts": _at(second).isoformat(), "v": v}
            for (name, second), v in rows.items()
        ]
        self.lake.insert("m", listed)

    def run(self) -> None:
        assert not self.lake.run().failed

    def pass_seconds(self, seconds: int) -> None:
        self.clock.advance(timedelta(seconds=seconds))
        self.run()

    def rows(self) -> list[Row]:
        found = self.lake.sql("SELECT name, unix_timestamp(w), n, v FROM o ORDER BY 1, 2").fetchall()
        return [(name, at - int(_at(0).timestamp()), n, v) for name, at, n, v in found]

    def expected(self) -> list[Row]:
        """The windows of each meter from its first one to its newest row, each filled by the one before."""
        expected: list[Row] = []
        for name in sorted({name for name, _ in self.there}):
            seconds = sorted(second for other, second in self.there if other == name)
            last: tuple[int | None, int | None] = (None, None)
            for low in range(seconds[0] // LENGTH * LENGTH, seconds[-1] - LENGTH + 1, LENGTH):
                inside = [self.there[name, s] for s in seconds if low <= s < low + LENGTH]
                values = [v for v in inside if v is not None]
                if inside:
                    last = (len(inside), values[-1] + 1 if values else None)
                expected.append((name, low, *last))
        return expected


def _at(second: int) -> datetime:
    return datetime(2025, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> Iterator[World]:
    world = World(tmp_path / "lake", spark)
    yield world
    world.lake.close()


def test_the_values_before_are_those_of_the_batch_evaluation(world: World) -> None:
    random = Random(1)
    world.stream("continuous", "FILL(PREV)", "WATERMARK 5s")
    world.write({("a", 1): 1, ("b", 12): 2})
    for since in (20, 90, 150):
        fresh = random.sample(range(since, since + 60), 4)
        world.write({(random.choice("ab"), at): random.choice([3, 4, None]) for at in fresh})
        if random.random() < 0.5:
            world.run()
        late = {("b", random.randrange(12, since)): random.choice([5, None])}
        world.write({key: v for key, v in late.items() if key not in world.there})
        world.run()
        if random.random() < 0.5:
            world.lake.close()
            world.reopen()
    world.write({("a", 290): 0, ("b", 290): 0})
    world.run()
    assert world.lake.verify("s").holds
    world.pass_seconds(600)
    world.write({("a", 295): 0, ("b", 295): 0})
    world.run()
    assert world.rows() == world.expected()


def test_a_row_that_is_deleted_takes_the_values_after_it_along(world: World) -> None:
    world.stream("continuous", "FILL(PREV)")
    world.write({("a", 1): 1, ("a", 22): 2, ("a", 63): 3})
    world.run()
    assert [row[1:] for row in world.rows()] == [
        (0, 1, 2), (10, 1, 2), (20, 1, 3), (30, 1, 3), (40, 1, 3), (50, 1, 3)
    ]  # fmt: skip
    del world.there["a", 22]
    world.lake.sql("DELETE FROM m WHERE ts = '2025-01-01 00:00:22'")
    world.pass_seconds(600)
    assert world.rows() == world.expected()
    with pytest.raises(StatementError) as refused:
        world.lake.recalculate("s", "2025-01-01 00:00:00", "2025-01-01 00:00:20")
    assert refused.value.code == "FILL_RANGE"


@pytest.mark.parametrize(
    ("fill", "empty"), [("NULL", (None, None)), ("VALUE, 0, -1", (0, -1)), ("VALUE, NULL, 7", (None, 7))]
)
def test_constants_stand_for_what_aggregates(
    world: World, fill: str, empty: tuple[int | None, int | None]
) -> None:
    world.stream("continuous", f"FILL({fill})", "IGNORE EXPIRED 0")
    world.write({("a", 1): 1})
    world.run()
    world.write({("a", 35): None})
    world.run()
    world.write({("a", 41): 3})
    world.run()
    assert [row[1:] for row in world.rows()] == [(0, 1, 2), (10, *empty), (20, *empty), (30, 1, None)]
    assert world.lake.verify("s").holds
    assert f"FILL({fill})" in dict(world.lake.sql("EXPLAIN STREAM s").fetchall())["compute"]


def test_the_clock_closes_windows_without_rows_too(world: World) -> None:
    world.stream("force", "FILL(PREV)")
    world.write({("a", 3): 1, ("a", 4): 2})
    world.run()
    world.pass_seconds(10)
    world.write({("b", 13): 5, ("a", 4): 9})
    world.run()
    world.lake.close()
    world.reopen()
    world.pass_seconds(25)
    assert world.rows() == [
        ("a", 0, 2, 3),
        ("a", 10, 2, 3),
        ("a", 20, 2, 3),
        ("b", 10, 1, 6),
        ("b", 20, 1, 6),
    ]
    with pytest.raises(StatementError, match="FORCE_WINDOW_CLOSE"):
        world.lake.sql(
            f"CREATE OR REPLACE STREAM s {MODES['force']} INTO o AS SELECT _wstart AS w, count(*) AS n "
            "FROM m INTERVAL(10s) FILL(NULL)"
        )
