"""Windows that fire once over the rows that were admitted (eKuiper): late rows are left out for good.

Under EXACT they are admitted too, and correct the windows that they belong to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lakestream.engine.base.state import GroupState
from lakestream.engine.reading.relations import Relations
from lakestream.engine.reading.transport import SPARK
from lakestream.engine.windows.family import CLOCK, WHOLE, Batch, Due, Family, TickInput
from lakestream.engine.windows.once.admission import (
    FLUSH,
    STALE,
    due_of,
    origin_of_state,
    register_empty,
    stale_state,
    windows_of_rows_sql,
)
from lakestream.engine.windows.once.rebuilding import REBUILD, Rebuilding
from lakestream.engine.windows.once.steps import AdmitRows, RecomputeAdmitted
from lakestream.engine.windows.said import admission, named, versions_read
from lakestream.storage.records.registry import TickPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from lakestream.engine.streams.stream import EventRange
    from lakestream.engine.streams.target import Target
    from lakestream.engine.windows.family import Snapshot, Standing, Step
    from lakestream.storage.records.registry import WaitingGroup


@dataclass(frozen=True)
class FireOnce(Family):
    """Windows of one timeline; the state has the newest time, and the rows that later windows need."""

    reads_rows: ClassVar[bool] = False
    isolates: ClassVar[bool] = True
    flushes: ClassVar[bool] = True
    assigns_rows: ClassVar[bool] = True
    recalculates: ClassVar[bool] = False
    divides: ClassVar[bool] = False  # which rows a window holds, all of them tell
    judges_commits: ClassVar[bool] = True
    follows_history: ClassVar[bool] = False

    def step(self, target: Target, plan: TickPlan, event_range: EventRange | None) -> Step:  # noqa: ARG002
        """Return the stage that finds out what fires."""
        text = admission(self.stream)
        if event_range is not None:
            return RecomputeAdmitted(text, event_range, named(self.stream.source.info))
        return AdmitRows(text, self._taken(plan))

    def _taken(self, plan: TickPlan) -> str:
        """Say what a tick takes."""
        source = named(self.stream.source.info)
        if plan.kind == REBUILD:
            return f"all windows anew from {source} at version {plan.upto}"
        if plan.kind == FLUSH:
            return "what is open closes, as if no row were to come"
        if plan.kind == CLOCK:
            return "what time has closed, of the rows that were held"
        return f"{versions_read(self.stream, plan)}, and the rows that were held"

    def reads_changes(self, plan: TickPlan, event_range: EventRange | None) -> bool:  # noqa: ARG002
        """Return false: rows are read as they are admitted."""
        return False

    @property
    def leaves_out_late(self) -> bool:
        """Whether late rows count for nothing: under EXACT there are none."""
        return True

    @property
    def needs_rows(self) -> bool:
        """Whether rows are read besides: no, they come with the changes, or were buffered."""
        return False

    def writes(self, target: Target, plan: TickPlan, event_range: EventRange | None) -> str:  # noqa: ARG002
        """Say how results come into the output."""
        if event_range is not None or plan.kind == REBUILD:
            return WHOLE
        return "rewrite from the first window that changed" if self.stream.exact else "append"

    def saves_each_tick(self, standing: Standing) -> bool:
        """Return whether time passed with the ticks: by arrival."""
        return self.stream.late.by_arrival or super().saves_each_tick(standing)

    def due(self, standing: Standing, now_us: int) -> Due | None:
        """Return the tick of windows that time alone ends, of rows by arrival."""
        if not self.stream.late.by_arrival:
            return super().due(standing, now_us)
        due_us = due_of(standing.state)
        return Due(CLOCK) if due_us is not None and due_us <= now_us else None

    def next_due(self, standing: Standing, now_us: int) -> int | None:
        """Return the next instant at which time alone ends a window, of rows by arrival."""
        if self.stream.late.by_arrival:
            return due_of(standing.state)
        return super().next_due(standing, now_us)

    def is_stale(self, state: GroupState) -> bool:
        """Return whether all windows are to be made anew before all else."""
        return origin_of_state(state) == STALE

    def windows_sql(self, fired: str) -> str:
        """Return SQL of windows with their placeholders, from rows that are assigned to them."""
        return windows_of_rows_sql(self.stream, fired)

    def register_empty(self, spark: SparkSession, group_types: Sequence[str]) -> None:  # noqa: ARG002
        """Register what a tick that admits no row registers."""
        register_empty(spark, self.stream)

    def rebuild(self, snapshot: Snapshot) -> tuple[GroupState, list[WaitingGroup]]:
        """Return a state that asks for all windows to be made anew, else the one that ticks have left.

        A stream that is not EXACT goes on with the rows it holds: they are those of no version of the
        source. One by arrival that has another definition begins with the rows that come.
        """
        begins = snapshot.begins
        if begins and self.stream.late.by_arrival:
            return GroupState(), []
        if self.stream.exact or begins:
            return stale_state(), []
        return snapshot.known(), []

    def follows_from_source(self, late: int, only_added: Callable[[], bool]) -> bool:  # noqa: ARG002
        """Return whether it does: only where late rows are not left out."""
        return self.stream.exact

    @property
    def batch_needs_state(self) -> bool:
        """Whether FLUSH STREAM has closed what was open, which only the state tells."""
        return self.stream.exact

    def batch(self, snapshot: Snapshot) -> Batch:
        """Register the windows of all rows there are, as if they had been admitted in one tick."""
        kind = FLUSH if origin_of_state(snapshot.known()) == FLUSH else REBUILD
        version = snapshot.version
        plan = TickPlan(self.stream.uuid, 0, kind, version, version, 0, {}, transport=SPARK)
        relations = Relations.of(snapshot.spark, snapshot.tables, self.stream, plan, snapshot.history)
        given = TickInput(relations, snapshot.target, GroupState(), snapshot.max_windows)
        Rebuilding(given, everything=True).run()
        return Batch(None, retracts=False)
