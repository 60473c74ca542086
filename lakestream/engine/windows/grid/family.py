"""Windows of a time grid: INTERVAL, SLIDING, and the instants of a sliding trigger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lakestream.engine.reading.relations import STATE
from lakestream.engine.reading.transport import ARROW
from lakestream.engine.windows.family import CLOCK, DELAY, Batch, Due, Family, Snapshot
from lakestream.engine.windows.grid.batch import GridBatch
from lakestream.engine.windows.grid.queries import GridQueries
from lakestream.engine.windows.grid.steps import (
    DetectWindows,
    FireByClock,
    FireDelayed,
    RecomputeGrid,
    UpdateWindows,
)
from lakestream.engine.windows.groups import groups_of
from lakestream.engine.windows.said import rule
from lakestream.language.model import WINDOW_CLOSE, IntervalTrigger
from lakestream.storage.rows.views import view_of_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.base.state import GroupState
    from lakestream.engine.streams.stream import EventRange, Stream
    from lakestream.engine.streams.target import Target
    from lakestream.engine.windows.delays import OpenWindow
    from lakestream.engine.windows.family import Standing, Step
    from lakestream.storage.records.registry import TickPlan, WaitingGroup


@dataclass(frozen=True)
class Grid(Family):
    """Windows that follow from time alone; the state has the first and the newest row of each group."""

    follows_tables: ClassVar[bool] = True

    def step(self, target: Target, plan: TickPlan, event_range: EventRange | None) -> Step:
        """Return the stage that finds out what fires."""
        text = rule(self.stream)
        if event_range is not None:
            return RecomputeGrid(text, event_range)
        if plan.kind == CLOCK:
            return FireByClock(text, plan.closed)
        if plan.kind == DELAY:
            return FireDelayed(text, plan.windows)
        return UpdateWindows(text) if by_update(self.stream, target, plan) else DetectWindows(text)

    def open_windows(self, spark: SparkSession, groups: pa.Table) -> list[OpenWindow]:
        """Return the windows that have begun and that the watermark has not closed, by their number."""
        state = view_of_rows(spark, groups, STATE)
        found = spark.sql(GridQueries(self.stream).open_sql(str(state))).toArrow()
        return [*zip(found["gid"].to_pylist(), found["k"].to_pylist(), strict=True)]

    def due(self, standing: Standing, now_us: int) -> Due | None:
        """Return the tick of windows that the clock has closed, else that of delays that are over."""
        closed = self._closed_by_clock(now_us)
        if closed is not None and closed > standing.closed_us:
            return Due(CLOCK, closed=(standing.closed_us, closed))
        return super().due(standing, now_us)

    def next_due(self, standing: Standing, now_us: int) -> int | None:
        """Return the end of the window that the clock closes next, or when a delay is over."""
        closed, trigger = self._closed_by_clock(now_us), self.stream.definition.trigger
        if closed is None or not isinstance(trigger, IntervalTrigger):
            return super().next_due(standing, now_us)
        return closed + trigger.length.micros

    def _closed_by_clock(self, now_us: int) -> int | None:
        """Return the last end of a window that the clock has passed (µs); None: it closes none."""
        trigger = self.stream.definition.trigger
        if not self.stream.emission.by_clock or not isinstance(trigger, IntervalTrigger):
            return None
        offset, length = trigger.offset.micros, trigger.length.micros
        return (now_us - offset) // length * length + offset

    def windows_sql(self, fired: str) -> str:
        """Return SQL of windows with their placeholders, from a detection result."""
        return GridQueries(self.stream).windows_sql(fired, 0)

    def rebuild(self, snapshot: Snapshot) -> tuple[GroupState, list[WaitingGroup]]:
        """Return the first and the newest row of each group, and the groups that lie far from the others."""
        return groups_of(self.stream, snapshot, far=True)

    @property
    def sums_up(self) -> bool:
        """Whether partial aggregates take whatever rows are only added."""
        return (
            _updates(self.stream) and self.stream.follows_source and not self.stream.definition.notification
        )

    def follows_from_source(self, late: int, only_added: Callable[[], bool]) -> bool:  # noqa: ARG002
        """Return whether it does; what a row was may count on, or go from windows that are open."""
        at_once = self.stream.emission.at_once
        return self.stream.exact or not (at_once or self.stream.counts_rewritten) or only_added()

    @property
    def batch_needs_state(self) -> bool:
        """Whether only the ticks tell which row is a group's first one: where deletes count."""
        return self.stream.deletes and not self.stream.exact

    def batch(self, snapshot: Snapshot) -> Batch:
        """Register the windows of all rows that the stream has taken."""
        return GridBatch(self.stream, snapshot, self.needs_rows).run()


def by_update(stream: Stream, target: Target, plan: TickPlan) -> bool:
    """Return whether a tick goes by partial aggregates: rows are only added, in an order that counts not.

    That is so where late rows make their windows fire again, and for a single commit.
    """
    if not (plan.appends_only and target.unique and _updates(stream) and _emits_by_update(stream, plan)):
        return False
    return stream.follows_source or plan.kind == "history" or plan.upto - plan.after == 1


def _updates(stream: Stream) -> bool:
    """Return whether partial aggregates know what the windows of a stream give."""
    emission = stream.definition.options.emission
    return stream.incremental is not None and not (emission.at_open or emission.by_clock)


def _emits_by_update(stream: Stream, plan: TickPlan) -> bool:
    """Return whether partial aggregates know all that has events: the windows that close, in a small tick."""
    notification = stream.definition.notification
    if notification is None or (plan.kind == "history" and not notification.history):
        return True
    small = plan.kind == "changes" and plan.transport == ARROW
    return small and notification.events == (WINDOW_CLOSE,) and not stream.emission.at_once
