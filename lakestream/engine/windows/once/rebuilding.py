"""Streams that admit rows made anew from the source as it is: for EXACT, in a recalculation, or replaced.

Under EXACT nothing is late, and what changes behind the watermark is corrected: rows newer than the watermark
are admitted as ever. When one at or behind it comes, changes or goes, the windows that it may be in and all
later ones are made anew, and take the place of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from lakestream.compute.windows.calculation import ROWS, WINDOWS
from lakestream.engine.base.instants import latest
from lakestream.engine.base.state import GroupState
from lakestream.engine.reading.relations import CHANGED, EVER
from lakestream.engine.reading.transport import SPARK
from lakestream.engine.streams.stream import EventRange
from lakestream.engine.windows.once.admission import (
    BUFFERED,
    CLASSIFIED,
    FLUSH,
    STALE,
    Admission,
    Classification,
    bounds_of,
    buffered_again_sql,
    classified_sql,
    newest_of,
    of_stream,
    origin_of_state,
    register_windows,
)
from lakestream.storage.delta import read_commits
from lakestream.storage.records.registry import TickPlan
from lakestream.storage.rows.views import view_of_sql
from lakestream.triggers.assign import Move

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from lakestream.engine.windows.family import Advance

REBUILD = "anew"
"""The kind of a tick that makes all windows anew from the source as it is."""


def rebuild_plan(uuid: str, tick: int, version: int) -> TickPlan:
    """Return the plan of a tick that was one of that kind, at a version of the source."""
    return TickPlan(uuid, tick, REBUILD, version, version, 0, transport=SPARK)


@dataclass(frozen=True)
class _Changes:
    """How many rows came, how many of them without a time, how many went; and their times (µs).

    ``oldest`` is of all of them, ``newest`` of those that came, ``newest_removed`` of those that went.
    """

    rows: int
    missing: int
    removed: int
    oldest: int | None
    newest: int | None
    newest_removed: int | None


@dataclass
class Rebuilding(Admission):
    """One tick's rows where all of the source count; ``everything``: all windows are made anew."""

    everything: bool = False

    def run(self) -> Advance:
        """Admit the changed rows; register ``ls_windows`` and ``ls_rows`` of the windows to be written."""
        self.given.relations.changes(self.stream.changed_columns)
        classified = classified_sql(self.stream, None, placed=self.stream.keeps_order)
        view_of_sql(self.given.spark, classified, CLASSIFIED)
        changes = self._changes()
        advance = self._admitted(changes, newest_of(self.given.state))
        errors = self._without_time(changes)
        return advance if self.given.output_committed else replace(advance, errors=errors)

    def _admitted(self, changes: _Changes, known: int | None) -> Advance:
        if not self._is_in_order(changes, known):
            return self._anew(changes, known)
        newest = latest(known, changes.newest)
        self._register_buffered()
        self._admit(self._move(known, newest))
        return self._advance(self._next(newest), changes.rows)

    def _changes(self) -> _Changes:
        row = self.given.spark.sql(
            f"SELECT count_if(came) AS rows, count_if(came AND ts IS NULL) AS missing, "
            f"count_if(NOT came) AS removed, min(ts) AS oldest, max(ts) FILTER (WHERE came) AS newest, "
            f"max(ts) FILTER (WHERE NOT came) AS newest_removed "
            f"FROM (SELECT _ls_sign > 0 AS came, {self.stream.time_us} AS ts FROM {CHANGED} "
            f"WHERE true{of_stream(self.stream)})"
        ).toArrow()
        return _Changes(**row.to_pylist()[0])

    def _without_time(self, changes: _Changes) -> pa.Table | None:
        if not changes.missing:
            return None
        self.given.relations.changes(self.stream.source.columns)
        versions = f"SELECT DISTINCT CAST(_commit_version AS BIGINT) AS v FROM {CHANGED}"
        return self._error_rows([(row["v"], None) for row in self.given.spark.sql(versions).collect()])

    def _is_in_order(self, changes: _Changes, known: int | None) -> bool:
        """Return whether all rows are new ones beyond the watermark: no window was written without them."""
        if self.everything or changes.removed or origin_of_state(self.given.state) == STALE:
            return False
        if self._rows_moved or (self.stream.keeps_order and not self.plan.appends_only):
            return False
        if changes.oldest is None or known is None:
            return True
        return (
            origin_of_state(self.given.state) != FLUSH
            and changes.oldest > known - self.stream.watermark_delay
        )

    def _admit(self, move: Move) -> None:
        steps = [(self.plan.upto, move.watermark)]
        self._register_admitted(Classification((), steps, move, self.plan.upto))
        self._mark(move)

    # --- from the source ---

    def _anew(self, changes: _Changes, known: int | None) -> Advance:
        """Make the windows anew that are over later than the first change, from the rows they may hold."""
        whole = (
            self.everything or known is None or origin_of_state(self.given.state) == STALE or self._rows_moved
        )
        newest = latest(known, changes.newest)
        if whole or (
            changes.newest_removed is not None and newest is not None and changes.newest_removed >= newest
        ):
            whole, newest = True, self._newest_there()
        watermark = 0 if newest is None else newest - self.stream.watermark_delay
        before = self._hold(None if whole else self._before(changes, watermark))
        self._admit(Move(before, watermark, ends=self.plan.kind == FLUSH))
        state = GroupState() if newest is None else self._next(newest)
        return self._advance(state, changes.rows, event_range=EventRange(overlap_us=before))

    def _hold(self, before: int | None) -> int | None:
        """Register what windows that are over after ``before`` (µs) may hold as if buffered since.

        Returns None where it takes all rows there are to find out.
        """
        lower = None if before is None else self._needed_from(before)
        if lower is None:
            before, lower = None, EVER[0]
        rows_at = (
            self.given.relations.placed_rows_at if self.stream.keeps_order else self.given.relations.rows_at
        )
        rows_at(self.plan.upto, [(lower, EVER[1])])
        view_of_sql(self.given.spark, buffered_again_sql(self.stream, ROWS, before), BUFFERED)
        view_of_sql(self.given.spark, f"{classified_sql(self.stream, None)} AND false", CLASSIFIED)
        return before

    @cached_property
    def _rows_moved(self) -> bool:
        """Whether rows of equal time, which count by their place, may have another order now."""
        if not self.stream.keeps_order:
            return False
        commits = read_commits(self.stream.source.info.path, self.plan.after, self.plan.upto)
        return any(commit.moves_rows for commit in commits)

    def _before(self, changes: _Changes, watermark: int) -> int:
        """Return the last instant (µs) by which the windows that are over are as they were."""
        known = newest_of(self.given.state)
        instants = [watermark, *([] if known is None else [known - self.stream.watermark_delay])]
        return min([*instants, *([] if changes.oldest is None else [changes.oldest])]) - 1

    def _needed_from(self, before: int) -> int | None:
        """Return the time (µs) of the first row that later windows may hold, None for any row."""
        assert self.stream.assigner is not None
        if self.stream.analytic is not None:
            return None  # functions look at all rows before
        sql = self.stream.assigner.needed_from(before)
        return (
            None
            if sql is None
            else int(self.given.spark.sql(f"SELECT {sql} AS at").toArrow()["at"][0].as_py())
        )

    def _newest_there(self) -> int | None:
        """Return the newest time in the source, of rows that FILTER leaves out too."""
        unfiltered = replace(self.given.relations, stream=replace(self.stream, condition=None))
        unfiltered.rows_at(self.plan.upto, [EVER])
        found: int | None = (
            self.given.spark.sql(f"SELECT max(_ls_ts) AS at FROM {ROWS}").toArrow()["at"][0].as_py()
        )
        return found


@dataclass
class RangeRebuilding(Rebuilding):
    """A recalculation: windows of ``event_range`` that are over, from the source as it is; the state stays.

    ``written`` gives group, first and last instant (µs) of the output's windows of a range of event time.
    """

    event_range: EventRange = field(default_factory=EventRange)
    written: Callable[[EventRange], Iterable[tuple[int, int, int]]] = field(default=lambda _: ())

    def run(self) -> Advance:
        """Register ``ls_windows`` and ``ls_rows`` of the windows to be written in the place of others."""
        newest, assigner = newest_of(self.given.state), self.stream.assigner
        assert newest is not None and assigner is not None  # noqa: PT018 - by the tick
        ends = origin_of_state(self.given.state) == FLUSH
        watermark = newest - self.stream.watermark_delay
        over = self.event_range = replace(self.event_range, over_us=None if ends else watermark)
        if assigner.includes_end and over.overlap_us is not None and not assigner.is_cut_by_rows:
            over = self.event_range = replace(over, overlap_us=over.overlap_us - 1)
        self.given.relations.changes(self.stream.changed_columns)
        move = Move(self._hold(over.overlap_us), watermark, ends=ends)
        self._admit(move)
        if assigner.is_cut_by_rows:
            over = self._whole(over, 1 if assigner.includes_end else 0)
        register_windows(self.given.spark, self.stream, move, self.plan.clock_us, over)
        return self._advance(self.given.state, 0, event_range=over)

    def _marked_sql(self, move: Move) -> str:
        """Return the SQL; of windows around rows only those of the range are made."""
        assert self.stream.assigner is not None
        sql, reach = super()._marked_sql(move), self.stream.assigner.reach
        if reach is None:
            return sql
        in_range = bounds_of(self.event_range, f"_ls_ts - {reach.length}L", f"_ls_ts + {reach.delay}L")
        fires = " AND ".join(["_ls_fires", *in_range])
        return f"SELECT * EXCEPT (_ls_fires), {fires} AS _ls_fires FROM ({sql})"

    def _whole(self, event_range: EventRange, end: int) -> EventRange:
        """Return the range with all that the windows that overlap it were or have become.

        ``end``: microseconds by which a window reaches past its last instant.
        """
        sql = f"SELECT DISTINCT _ls_gid, _ls_low, _ls_high FROM {WINDOWS}"
        are = {
            tuple(column)
            for column in zip(*self.given.spark.sql(sql).toArrow().to_pydict().values(), strict=True)
        }
        windows = {*are, *self.written(EventRange(over_us=event_range.over_us))}
        start = EVER[0] if event_range.overlap_us is None else event_range.overlap_us
        met = _met(windows, end, start, event_range.to_us)
        if not met:
            return EventRange(from_us=start, to_us=start)
        if len(met) <= _MAX_GROUPS:
            return EventRange(over_us=event_range.over_us, groups=tuple(met))
        [(_, low, high)] = _met({(0, low, high) for _, low, high in windows}, end, start, event_range.to_us)
        return EventRange(from_us=low, to_us=high, over_us=event_range.over_us)


_MAX_GROUPS = 300
"""Groups that a range lists one by one; beyond that it reaches to where no group has a window."""


def _met(
    windows: Iterable[tuple[int, int, int]], end: int, start: int, to_us: int | None
) -> list[tuple[int, int, int]]:
    """Return by group from where to where the windows reach that hang together with those of a range (µs)."""
    runs: list[tuple[int, int, int]] = []
    for gid, low, last in sorted(windows):
        high = max(last + end, low + 1)
        if runs and runs[-1][0] == gid and low < runs[-1][2]:
            runs[-1] = gid, runs[-1][1], max(runs[-1][2], high)
        else:
            runs.append((gid, low, high))
    met: dict[int, tuple[int, int]] = {}
    for gid, low, high in runs:
        if high > start and (to_us is None or low < to_us):
            met[gid] = met.get(gid, (low, high))[0], high
    return [(gid, low, high) for gid, (low, high) in met.items()]
