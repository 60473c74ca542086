"""Recalculations: windows of a range of event time computed again, part by part, beside the live ticks.

A part is one commit to the output, in its own series of transaction ids, so that it happens once however
often it is begun. It is computed at the version of the source that the stream stands at, between two
live ticks: it can neither hold them up for longer than a part nor see more than they did.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from lakestream.engine.base.faults import crash_point
from lakestream.engine.base.instants import parse_instant
from lakestream.engine.planning.planner import table_size
from lakestream.engine.reading.transport import Size
from lakestream.engine.streams.stream import EventRange
from lakestream.engine.windows.families import family_of
from lakestream.engine.windows.waiting import WINDOWS_A_ROW, check_groups, windows_between
from lakestream.errors import StatementError
from lakestream.storage.delta import rows_between
from lakestream.storage.records.registry import Recalculation
from lakestream.triggers.kinds import counts_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from lakestream.engine.base.state import GroupState
    from lakestream.engine.planning.planner import Planner
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.ticks.tick import Tick, TickResult
    from lakestream.language.model import StreamDefinition
    from lakestream.storage.delta import Tables
    from lakestream.storage.records.registry import (
        RecalculationStatus,
        Registry,
        StreamRecord,
        TablePosition,
        TickPlan,
    )

MAX_PARTS = 10_000
_ROW_BYTES = 64
"""What a row is taken to need, to choose how the bytes of a part move."""


def request_recalculation(
    registry: Registry,
    record: StreamRecord,
    definition: StreamDefinition,
    bounds: tuple[str, str | None] | None,
    *,
    version: int,
    now_us: int,
    progress: Callable[[], int | None],
) -> Recalculation:
    """Queue a recalculation of the windows that overlap ``bounds`` (as written; None: RESYNC).

    It waits until the stream has taken ``version`` of its source: what was there when it was asked for
    counts. ``progress`` gives the newest event time that the stream has taken. Raises StatementError
    BAD_RANGE for a range that ends before it begins, COUNT_RANGE for windows of a count without an end or
    with one that the stream has not come to, FILL_RANGE for windows filled from earlier ones with one,
    BAD_VALUE for no instant.
    """
    start, end = bounds if bounds is not None else (None, None)
    fill = definition.options.fill
    if end is not None and fill is not None and fill.mode == "PREV":
        raise StatementError(
            "FILL_RANGE",
            f"TO {end}: with FILL(PREV), windows behind the range may hold values of it",
            hint=f"FROM {start} without TO, which goes up to the stream's progress",
        )
    if bounds is not None and end is None and counts_rows(definition.trigger):
        raise StatementError(
            "COUNT_RANGE",
            "a recalculation of COUNT_WINDOW needs both ends of its range",
            hint=f"FROM {start} TO …: rows are counted anew from the start",
        )
    zone = record.zone
    start_us = None if start is None else parse_instant(start, zone)
    end_us = None if end is None else parse_instant(end, zone)
    if start_us is not None and end_us is not None and end_us <= start_us:
        raise StatementError(
            "BAD_RANGE",
            f"FROM {start} TO {end}: the range ends before it begins",
            hint="the range is half-open, [FROM, TO), so TO is later than FROM",
        )
    if end_us is not None and counts_rows(definition.trigger):
        _refuse_beyond(end, end_us, progress())
    job = Recalculation(
        str(uuid4()),
        record.uuid,
        start_us,
        end_us,
        bounds is None,
        "Waiting",
        now_us,
        asked_at=version,
    )
    registry.put_recalculation(job)
    return job


def _refuse_beyond(end: str | None, end_us: int, newest_us: int | None) -> None:
    """Refuse to count rows anew that have not been counted yet (TDengine passes over such a request)."""
    if newest_us is None or end_us > newest_us + 1:
        raise StatementError(
            "COUNT_RANGE",
            f"TO {end}: a recalculation of COUNT_WINDOW ends within what the stream has taken",
            hint="run the stream first, or end the range at its newest row",
        )


def is_reached(job: Recalculation, position: int, latest: int) -> bool:
    """Return whether a stream at a version of its source has taken what was there at the request.

    ``latest`` is the source's version: one that was put back has none of those after it any more.
    """
    return position >= min(job.asked_at or 0, latest)


def app_of(job: Recalculation) -> str:
    """Return the transaction application id of a recalculation's commits."""
    return f"lakestream:{job.uuid}:recalc:{job.id}"


def range_of(job: Recalculation, number: int) -> EventRange:
    """Return the windows that a part of a recalculation covers; the cuts divide where they begin."""
    cuts = job.cuts or ()
    return EventRange(
        overlap_us=job.start_us if number == 0 else None,
        from_us=None if number == 0 else cuts[number - 1],
        to_us=cuts[number] if number < len(cuts) else job.end_us,
        only=job.groups or (),
    )


def whole_of(job: Recalculation) -> EventRange:
    """Return the windows that a recalculation covers which has not been divided yet."""
    return EventRange(overlap_us=job.start_us, to_us=job.end_us)


@dataclass
class PartRun:
    """One part of a recalculation of a stream at its place ``version`` with its ``state``.

    The tables that are ``followed`` are read where the stream stands.
    """

    registry: Registry
    tables: Tables
    job: Recalculation
    stream: Stream
    output_path: str
    planner: Planner
    version: int
    state: GroupState
    rows_a_part: int
    windows_a_part: int
    followed: Mapping[str, TablePosition]

    def run(
        self, run: Callable[[TickPlan, Callable[[Tick], TickResult]], TickResult]
    ) -> tuple[TickPlan, TickResult | None]:
        """Run the next part, or see that it is committed; raises StreamError as a tick does.

        ``run`` does something with the tick of a plan.
        """
        self._begin()
        part = self.job.part
        size = Size(self.job.rows // (self.job.parts or 1), 0)
        size = replace(size, bytes=size.rows * _ROW_BYTES)
        plan = self.planner.recalculation(self.version, part, size, self.followed)
        outcome = None
        if not self._is_committed(part + 1):
            event_range, app = range_of(self.job, part), app_of(self.job)
            outcome = run(plan, lambda tick: tick.recalculate(event_range, app))
        self._done(outcome.rows_out if outcome else 0)
        return plan, outcome

    def _begin(self) -> None:
        """Write down what the part will do: the cuts once, and the version that it is computed at."""
        crash_point("C1")
        job = self.job
        if job.cuts is None:
            rows, cuts = self._cut()
            job = replace(job, rows=rows, cuts=tuple(cuts), versions=())
        versions = job.versions[: job.part]
        if not self._is_committed(job.part + 1):
            versions = (*versions, self.version)
        else:
            versions = job.versions[: job.part + 1]
        self._put(replace(job, status="Running", versions=versions))
        crash_point("C2")

    def _done(self, rows: int) -> None:
        part = self.job.part + 1
        parts = self.job.parts or 1
        status: RecalculationStatus = "Done" if part >= parts else "Running"
        self._put(replace(self.job, part=part, status=status, rows_out=self.job.rows_out + rows))
        crash_point("C7")

    def _put(self, job: Recalculation) -> None:
        self.registry.put_recalculation(job)
        self.job = job

    def _is_committed(self, part: int) -> bool:
        table = self.tables.latest(self.output_path)
        return (table.transaction_version(app_of(self.job)) or 0) >= part

    def _cut(self) -> tuple[int, list[int]]:
        """Return the rows to read, and the instants that divide the range into parts of bounded size."""
        source = self.tables.open(self.stream.source.info.path)
        if not family_of(self.stream).divides:
            return table_size(source, self.version).rows, []
        low, high = self._range()
        if low is None or high is None or high <= low:
            return 0, []
        rows = rows_between(source, self.stream.source.info.time_column, low, high)
        if not self.stream.counting_rows:
            most = max(2 * self.windows_a_part, WINDOWS_A_ROW * rows)
            assert self.state.rows is not None  # by _range
            check_groups(self.stream, self.state.rows, self._windows_within(low, high), most)
        windows = len(self.state) * ((high - low) // self.stream.step_us + 1)
        parts = max(-(-rows // self.rows_a_part), -(-windows // self.windows_a_part), 1)
        parts = min(parts, MAX_PARTS)
        cuts = sorted({low + (high - low) * number // parts for number in range(1, parts)})
        return rows, cuts

    def _windows_within(self, low: int, high: int) -> pa.ChunkedArray:
        """Return about how many windows each group has within a range."""
        import pyarrow as pa
        import pyarrow.compute as pc

        assert self.state.rows is not None  # by _range
        first = pc.max_element_wise(self.state.rows["first"], pa.scalar(low))
        newest = pc.min_element_wise(self.state.rows["newest"], pa.scalar(high))
        return windows_between(first, newest, self.stream.step_us)

    def _range(self) -> tuple[int | None, int | None]:
        """Return the range as far as the stream has rows."""
        import pyarrow.compute as pc

        if not len(self.state):
            return None, None
        assert self.state.rows is not None
        first = pc.min(self.state.rows["first"]).as_py()
        newest = pc.max(self.state.rows["newest"]).as_py()
        if first is None:
            return None, None
        start, end = self.job.start_us, self.job.end_us
        low = first if start is None else max(first, start)
        return low, newest if end is None else min(newest, end)
