"""How ticks of row windows find out what fires: as stages that run, and that EXPLAIN prints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from lakestream.engine.base.keyed import parts_of
from lakestream.engine.reading.queries import changes_sql
from lakestream.engine.reading.relations import CHANGED, CHANGES, EVER, FIRED
from lakestream.engine.streams.stream import EventRange
from lakestream.engine.streams.write import groups_there, windows_from
from lakestream.engine.windows.events import EVENTS
from lakestream.engine.windows.family import Advance, Fired, Step
from lakestream.engine.windows.rows.cutting import Cutting
from lakestream.engine.windows.rows.in_order import InOrder, known_sums
from lakestream.engine.windows.rows.queries import RowQueries
from lakestream.engine.windows.rows.summing import summed
from lakestream.engine.windows.rows.tables import together
from lakestream.engine.windows.steps import DelayedStep, RecomputeStep
from lakestream.engine.windows.totals import least, total
from lakestream.engine.windows.waiting import check_windows
from lakestream.storage.delta import rows_between
from lakestream.storage.rows.reading import arrow_frame
from lakestream.storage.rows.views import view_of, view_of_sql

if TYPE_CHECKING:
    import pyarrow as pa

    from lakestream.engine.windows.family import TickInput
    from lakestream.engine.windows.rows.tables import CutResult
    from lakestream.storage.rows.views import View

PART_WINDOWS = 262_144
"""Windows that are cut at once, about: each is looked at by itself, and takes 0.6 kB meanwhile."""
_GROUP_WINDOWS = 4
"""How many windows a group counts as: what is known of it takes 3 kB."""


@dataclass(frozen=True)
class CutWindows(Step):
    """Find out from the changed rows which windows fire.

    ``is_in_order``: rows that come in order are cut and computed in one query.
    """

    rule: str
    is_in_order: bool
    title: ClassVar[str] = "detect windows"

    def __str__(self) -> str:
        return f"{self.rule}{'; rows in order are cut and computed in one query' if self.is_in_order else ''}"

    def advance(self, given: TickInput) -> Advance:
        """Cut windows by what rows there are."""
        if self.is_in_order:
            sums = known_sums(given.stream, given.state, given.relations.added)
            advance = None if sums is None else _in_order(given, sums)
            if advance is not None:
                return advance
        changes = view_of_sql(given.spark, changes_sql(given.stream, CHANGED), CHANGES)
        sums = summed(given, changes, given.touched_view(changes))
        advance = _in_order(given, sums) if self.is_in_order else None
        if advance is not None:
            return advance
        result = cut(given, sums, changes)
        check_windows(result.fired.num_rows, given.most_windows)
        return _advance(given, result)


def cut(given: TickInput, sums: pa.Table, changes: View) -> CutResult:
    """Cut the groups with changes, which are summed up by group, a part of them after the other."""
    lows = [low for name in ("low", "low_kept", "joining") if (low := least(sums[name])) is not None]
    shares = _shares(given, sums.num_rows, total(sums, "n"), min(lows, default=EVER[1]))
    return together(Cutting(given, sums.schema, share).run(sums, changes) for share in shares)


def _shares(given: TickInput, groups: int, rows: int, lower: int | None) -> list[tuple[int, int]]:
    """Return the parts in which groups are cut, by what came and what the output has from ``lower`` on."""
    places, since = given.target.shape.provenance, EVER[0] if lower is None else lower
    if places is not None:
        tables = [given.tables.open(info.path) for info in given.target.tables]
        rows += sum(rows_between(table, places.start_in_statistics, since, EVER[1]) for table in tables)
    parts = parts_of(rows + _GROUP_WINDOWS * groups, PART_WINDOWS)
    return [(part, parts) for part in range(parts)]


def _in_order(given: TickInput, changes: pa.Table) -> Advance | None:
    """Cut and compute the rows of summed up changes in one query, if that can be."""
    passed = InOrder(given).run(changes)
    if passed is None:
        return None
    check_windows(passed.windows, given.most_windows)
    advance = Advance(
        given.state.updated(passed.groups),
        total(changes, "n"),
        total(changes, "late"),
        windows=passed.windows,
    )
    if passed.due is None or given.output_committed:
        return advance
    return replace(advance, results=[passed.due])


def _advance(given: TickInput, result: CutResult) -> Advance:
    """Return what a cut gave."""
    windows = result.fired.num_rows
    advance = Advance(given.state.updated(result.groups), result.rows, result.late, windows=windows)
    if given.output_committed:
        return advance
    events, fired = None, None
    if given.rules is not None:
        events = view_of(arrow_frame(given.spark, result.events), EVENTS)
    if result.spans:
        view = view_of(arrow_frame(given.spark, result.fired), FIRED)
        sql = RowQueries(given.stream).cut_windows_sql(str(view), given.plan.clock_us)
        fired = Fired(result.spans, sql)
    retracted = [result.retracted] if result.retracted.num_rows else []
    return replace(advance, fired=fired, replaced=retracted, events=events)


@dataclass(frozen=True)
class CutDelayed(DelayedStep):
    """Fire row windows that are open, cut as far as rows have come."""

    def advance(self, given: TickInput) -> Advance:
        """Let the windows fire; nothing is emitted for them."""
        if given.output_committed or given.state.rows is None:
            return Advance(given.state)
        result = Cutting(given, given.state.rows.schema).opened({*self.windows})
        return replace(_advance(given, result), events=None)


@dataclass(frozen=True)
class RecomputeCut(RecomputeStep):
    """Cut the rows of a range again."""

    def advance(self, given: TickInput) -> Advance:
        """Let all windows of the range fire that have fired."""
        advance = Advance(given.state)
        if given.state.rows is not None and len(given.state):
            shares = _shares(given, len(given.state), 0, self.event_range.overlap_us)
            schema = given.state.rows.schema
            found = (Cutting(given, schema, share).recompute(self.event_range) for share in shares)
            advance = _advance(given, together(found))
        if given.output_committed or self.event_range != EventRange():
            return advance
        return replace(advance, replaced=[*advance.replaced, *_of_lost_groups(given)])


def _of_lost_groups(given: TickInput) -> list[pa.Table]:
    """Return the windows of groups that are no more: another table is in the place of the source (RESYNC)."""
    import pyarrow as pa

    if not given.target.shape.provenance:
        return []
    known = set() if given.state.rows is None else {*given.state.rows["gid"].to_pylist()}
    lost = groups_there(given.tables, given.target) - known - {*given.stream.waiting_groups}
    if not lost:
        return []
    windows = sorted(windows_from(given.tables, given.target, None, only=lost))
    gids, lows = ([window[place] for window in windows] for place in (0, 1))
    return [pa.table({"gid": pa.array(gids, pa.int64()), "low": pa.array(lows, pa.int64())})]
