"""A single window over all there is: a materialized view without windows of time.

Where its rows fall apart by keys, those of the keys that a change touches are computed again, and take the
place of those before; else all of them are. The first tick, and a recalculation, compute all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lakestream.compute.windows.calculation import WINDOWS
from lakestream.compute.windows.keyed.keys import Share
from lakestream.engine.base.state import GroupState
from lakestream.engine.reading.moved import MovedKeys
from lakestream.engine.reading.relations import EVER
from lakestream.engine.reading.touched import TouchedKeys
from lakestream.engine.streams.stream import EventRange
from lakestream.engine.windows.family import WHOLE, Advance, Batch, Family, Fired, Step
from lakestream.storage.rows.views import view_of_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from lakestream.engine.streams.target import Target
    from lakestream.engine.windows.family import Snapshot, TickInput
    from lakestream.storage.records.registry import TickPlan, WaitingGroup

_WINDOW = "SELECT 0L AS _ls_gid, 0L AS _ls_k, 0L AS _ls_c, 0L AS _ls_low, 1L AS _ls_high, 0L AS _tgrpid"


@dataclass(frozen=True)
class Whole(Family):
    """One window, without a state: its result follows from the tables at the versions of the plan."""

    reads_rows: ClassVar[bool] = False
    divides: ClassVar[bool] = False
    follows_tables: ClassVar[bool] = True
    is_whole: ClassVar[bool] = True

    def step(self, target: Target, plan: TickPlan, event_range: EventRange | None) -> Step:  # noqa: ARG002
        """Return the stage that has everything computed again, or what a change touches."""
        keys = self.stream.keys
        if keys is None or plan.kind != "changes" or event_range is not None:
            return ComputeWhole()
        return ComputeTouched(keys.said, is_kept=keys.kept is not None)

    def reads_changes(self, plan: TickPlan, event_range: EventRange | None) -> bool:  # noqa: ARG002
        """Return false: changes of no table come before those of others."""
        return False

    def writes(self, target: Target, plan: TickPlan, event_range: EventRange | None) -> str:  # noqa: ARG002
        """Say what gives way."""
        by_keys = self.stream.keys is not None and plan.kind == "changes" and event_range is None
        return "replace all rows of the keys" if by_keys else WHOLE

    def windows_sql(self, fired: str) -> str:  # noqa: ARG002
        """Return SQL of the window."""
        return _WINDOW

    def register_empty(self, spark: SparkSession, group_types: Sequence[str]) -> None:  # noqa: ARG002
        """Register the window."""
        view_of_sql(spark, _WINDOW, WINDOWS)

    def rebuild(self, snapshot: Snapshot) -> tuple[GroupState, list[WaitingGroup]]:  # noqa: ARG002
        """Return no groups: nothing is kept between ticks."""
        return GroupState(), []

    def follows_from_source(self, late: int, only_added: Callable[[], bool]) -> bool:  # noqa: ARG002
        """Return true: nothing else counts than what there is."""
        return True

    def batch(self, snapshot: Snapshot) -> Batch:  # noqa: ARG002
        """Return the window."""
        return Batch(_WINDOW)


@dataclass(frozen=True)
class ComputeWhole(Step):
    """Let the window fire, and all rows of the output give way to its result."""

    title: ClassVar[str] = "fire"

    def __str__(self) -> str:
        return "everything again, from the tables at their versions in the plan"

    def advance(self, given: TickInput) -> Advance:
        """Let the window fire."""
        if given.output_committed:
            return Advance(given.state)
        return Advance(given.state, windows=1, fired=Fired([EVER], _WINDOW), event_range=EventRange())


@dataclass(frozen=True)
class ComputeTouched(Step):
    """Let the rows of the keys give way that changes touch, to their results."""

    keys: str
    is_kept: bool = False
    title: ClassVar[str] = "fire"

    def __str__(self) -> str:
        how = ", by what is kept of them where one table has changed" if self.is_kept else ""
        return f"the keys ({self.keys}) of rows that changed rows are joined with, or were{how}"

    def advance(self, given: TickInput) -> Advance:
        """Find the keys; of rows that are only added, and give rows of their own, none has any before."""
        if given.output_committed:
            return Advance(given.state)
        keys = TouchedKeys(given.relations, given.target)
        added = keys.register_added()
        if added is not None:
            fired = Fired([EVER], _WINDOW, registered=frozenset({added.view}))
            return Advance(given.state, windows=1, fired=fired)
        kept = None if given.stream.keys is None else given.stream.keys.kept
        if kept is not None:
            moved = MovedKeys(given.relations, given.target, kept)
            gids = moved.find()
            if moved.needs_all:
                return ComputeWhole().advance(given)
            if gids is not None:
                there = frozenset(read.view for read in given.stream.calculation.reads)
                return _of_keys(given, gids, Fired([EVER], _WINDOW, share=Share.MOVED, registered=there))
        touched = keys.find()
        if touched is None:
            return ComputeWhole().advance(given)
        fired = Fired([EVER], _WINDOW, share=Share.TOUCHED, narrowed=keys.narrowed)
        return _of_keys(given, touched, fired)


def _of_keys(given: TickInput, gids: Sequence[int], fired: Fired) -> Advance:
    """Let the results of keys take the place of their rows; of no keys, nothing comes and goes."""
    if not gids:
        return Advance(given.state)
    only = EventRange(only=tuple(gids))
    return Advance(given.state, windows=len(gids), fired=fired, event_range=only)
