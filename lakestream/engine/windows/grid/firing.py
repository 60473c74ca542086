"""Windows of a grid that fire without a change: the clock, a delay, or a recalculation lets them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from lakestream.compute.windows.calculation import ROWS
from lakestream.engine.reading.relations import CHANGES, EVER, STATE
from lakestream.engine.streams.stream import EventRange
from lakestream.engine.streams.write import windows_in_range
from lakestream.engine.windows.family import Advance
from lakestream.engine.windows.grid.detecting import detected, fired_of
from lakestream.engine.windows.grid.events import GridEvents
from lakestream.engine.windows.grid.queries import GridQueries
from lakestream.storage.rows.views import view_of_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakestream.engine.reading.relations import Relations
    from lakestream.engine.windows.delays import OpenWindow
    from lakestream.engine.windows.family import TickInput
    from lakestream.engine.windows.grid.detecting import Detected
    from lakestream.storage.rows.views import View


_DELAYED, _BEGUN = "ls_delayed", "ls_begun"


class FirstWindow(NamedTuple):
    """The first window of a range: its number, its first instant, that of the window before it (µs)."""

    number: int
    low_us: int
    before_us: int


@dataclass(frozen=True)
class Firing:
    """One tick that takes no changes: which windows of its groups fire, over the source as it is."""

    given: TickInput

    @property
    def _queries(self) -> GridQueries:
        return GridQueries(self.given.stream)

    def of_clock(self, since: int, until: int) -> Advance:
        """Let the windows fire that end in ``(since, until]`` (µs)."""
        state = self.given.state_view(CHANGES)
        found = self._fired(state, self._queries.clock_sql(str(state), since, until))
        return replace(self._advance(found), events=self._closed(found, state))

    def of_delay(self, windows: Sequence[OpenWindow]) -> Advance:
        """Let open windows fire as far as they have come."""
        import pyarrow as pa

        gids, numbers = (pa.array([window[at] for window in windows], pa.int64()) for at in (0, 1))
        listed = pa.table({"gid": gids, "a": numbers, "b": numbers})
        state = self.given.state_view(CHANGES)
        # What MAX_DELAY has computed is as at a closing (TDengine).
        ranges = f"SELECT * FROM {view_of_rows(self.given.spark, listed, _DELAYED)}"
        return self._advance(self._fired(state, ranges), opens=False)

    def recompute(self, event_range: EventRange) -> Advance:
        """Let all windows of a range of event time fire that have fired."""
        given = self.given
        replaced = replace(event_range, without=given.stream.waiting_groups)
        if not len(given.state):
            return Advance(given.state, event_range=replaced)
        state = given.state_view(CHANGES)
        if self._queries.begins_again:
            state = self._begun_earlier(state, event_range)
        found = self._detected(self._queries.recalculated_sql(str(state), given.plan.upto, event_range))
        events = self._closed(found, state, recomputes=True)
        return replace(self._advance(found), event_range=replaced, events=events)

    def _fired(self, state: View, ranges: str) -> Detected:
        return self._detected(self._queries.fired_sql(str(state), self.given.plan.upto, ranges))

    def _detected(self, sql: str) -> Detected:
        return detected(self.given, self.given.transport.materialize(self.given.spark.sql(sql)))

    def _advance(self, found: Detected, *, opens: bool = True) -> Advance:
        """Let the windows of a detection result fire; the state stays."""
        fired = fired_of(self.given, found, settled=True, opens=opens)
        return Advance(self.given.state, windows=found.windows, fired=fired)

    def _closed(self, found: Detected, state: View, *, recomputes: bool = False) -> View | None:
        if self.given.rules is None:
            return None
        return GridEvents(self.given, found.view, state).of_closing(recomputes=recomputes)

    def _begun_earlier(self, state: View, event_range: EventRange) -> View:
        """Have the groups begin with what the source or the output has first of a range, if it was left out.

        Where the output has the window before it, they had begun: only that tells of what is left out there.
        """
        given = self.given
        begun = begun_sql(given.relations, given.plan.upto, str(state), event_range, self._begun_before)
        return view_of_rows(given.spark, given.spark.sql(begun).toArrow(), STATE)

    def _begun_before(self, first: FirstWindow) -> str:
        """Return SQL of the groups of which the output has the window before a range's first one."""
        import pyarrow as pa

        if not self.given.target.shape.provenance:
            return "SELECT 0L WHERE false"
        event_range = EventRange(from_us=first.before_us, to_us=first.low_us)
        there = windows_in_range(self.given.tables, self.given.target, event_range)
        groups = pa.table({"gid": pa.array(sorted({gid for gid, _, _ in there}), pa.int64())})
        return f"SELECT gid FROM {view_of_rows(self.given.spark, groups, _BEGUN)}"


def begun_sql(
    relations: Relations,
    version: int,
    state: str,
    event_range: EventRange,
    begun: Callable[[FirstWindow], str],
) -> str:
    """Register the rows of a range to be recalculated; return SQL of the state, begun as they say.

    ``state`` is SQL of the groups' state, ``begun`` gives that of the groups (gid BIGINT) that had begun
    before the range's first window: of what is left out in front of it no row tells.
    """
    queries = GridQueries(relations.stream)
    sql = queries.first_in_range_sql(event_range)
    low, early = EVER[0], f"SELECT _ls_gid AS gid, _ls_ts AS early FROM {ROWS}"
    if sql is not None:
        first = FirstWindow(*(column[0].as_py() for column in relations.spark.sql(sql).toArrow()))
        low = first.low_us
        early = f"{early} UNION ALL SELECT gid, {low - 1}L FROM ({begun(first)}) AS begun(gid)"
    relations.rows_at(version, [(low, EVER[1] if event_range.to_us is None else event_range.to_us)])
    return queries.begun_sql(state, early)
