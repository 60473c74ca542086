"""A crash at every point of a tick loses nothing and doubles nothing, whatever the tick was doing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import pytest

from lakestream.engine.base.faults import TICK_POINTS
from tests.faults.meters import HOPPING, INSTANTS, STREAM, TUMBLING, Story
from tests.tiers import leaving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.faults, pytest.mark.spark]

TRIGGERS = {"tumbling": TUMBLING, "hopping": HOPPING, "sliding": INSTANTS}
MID_ROUND = {"C3", "C6a", "C6b"}
"""Where the neighbour is planned and has not ticked: the other points come before or behind all ticks."""


def append(story: Story) -> None:
    """Rows behind all others: new windows fire."""
    front = max(at for _, at in story.readings)
    story.write(("a", front + 4, front), ("b", front + 2, 1), ("a", front + 25, 2), ("b", front + 25, 3))


def rewrite(story: Story) -> None:
    """A late row and an update: closed windows are computed again."""
    late = next(at for at in range(2, 1_000) if ("a", at) not in story.readings)
    (name, at), value = next(iter(story.readings.items()))
    story.write(("a", late, late), (name, at, value + 1))


def recalculation(story: Story) -> None:
    """What a delete left in closed windows goes when they are recalculated."""
    at = sorted(at for name, at in story.readings if name == "a")[-2]
    story.write(("a", at + 1, at))
    story.run()
    story.delete("a", at + 1)
    story.run()
    with story.opened() as lake:
        lake.sql(f"RECALCULATE STREAM {STREAM} FROM '2025-01-01 00:00:00' TO '2025-01-02 00:00:00'")


CHANGES: dict[str, Callable[[Story], None]] = {
    "append": append,
    "rewrite": rewrite,
    "recalculation": recalculation,
}


def cells() -> list[tuple[str, str, str, str]]:
    """Return transport, trigger, change and point of every crash.

    By Spark a tick takes seconds: each change crashes at each point there with one of the triggers in
    turn, and with all of them where the environment has FAULT_CELLS=all. Recalculations save no state.
    """
    every = [
        (transport, trigger, change, point)
        for transport, trigger, change, point in product(("arrow", "spark"), TRIGGERS, CHANGES, TICK_POINTS)
        if (change, point) != ("recalculation", "C4")
    ]
    if os.environ.get("FAULT_CELLS") == "all":
        return every
    return [cell for cell in every if cell[0] == "arrow" or in_turn(cell)]


def in_turn(cell: tuple[str, str, str, str], turns: int = 3) -> bool:
    """Return whether a change crashes at a point with this trigger, when each has its turn."""
    every = [*TRIGGERS], [*CHANGES], [*TICK_POINTS]
    return sum(names.index(name) for names, name in zip(every, cell[1:], strict=True)) % turns == 0


def is_left(cell: tuple[str, str, str, str]) -> bool:
    """Return whether a crash is left to the long tests: by Spark, which is slow, half of those in turn."""
    return not in_turn(cell, turns=6 if cell[0] == "spark" else 3)


@dataclass
class Stories:
    """One history after another in one lake for each kind of cell; after a failure in a new one."""

    folder: Callable[[], Path]
    spark: SparkSession
    known: dict[tuple[str, str], Story]

    def take(self, transport: str, trigger: str) -> Story:
        """Return the history so far; it is forgotten unless it is put back."""
        story = self.known.pop((transport, trigger), None)
        if story is None:
            story = Story(self.folder() / "lake", self.spark, TRIGGERS[trigger], transport).begin()
            story.write(("a", 1, 1), ("b", 7, 2), ("a", 14, 3), ("b", 33, 4), ("a", 31, 5))
        return story

    def put_back(self, transport: str, trigger: str, story: Story) -> None:
        """Keep a history that turned out well."""
        self.known[transport, trigger] = story


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Stories:
    return Stories(lambda: tmp_path_factory.mktemp("crash"), spark, {})


@pytest.mark.parametrize(("transport", "trigger", "change", "point"), leaving(cells(), is_left))
def test_a_crash_loses_and_doubles_nothing(
    stories: Stories, transport: str, trigger: str, change: str, point: str
) -> None:
    story = stories.take(transport, trigger)
    CHANGES[change](story)
    if point in MID_ROUND:
        story.step()
    story.crash(point)
    story.run()
    story.check()
    stories.put_back(transport, trigger, story)


@pytest.mark.parametrize("transport", ["arrow", "spark"])
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_verify_holds_after_all_the_crashes(stories: Stories, transport: str, trigger: str) -> None:
    """Last in the file on purpose: the lakes are those of the crashes."""
    story = stories.take(transport, trigger)
    story.run()
    assert story.verify()
