"""Windows that are cut by rows: which ones fire in a tick, which ones go, and the next state.

A group goes on from its open window; where a change lies before that, it is cut anew from the last
window that the change cannot have touched, which the output knows. What then differs from the output,
or holds a changed row, fires again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from lakestream.engine.base.keyed import in_part
from lakestream.engine.base.state import CLOSED, EXPIRED
from lakestream.engine.reading.relations import EVER
from lakestream.engine.reading.transport import merge_spans
from lakestream.engine.windows.rows.comparing import Comparing
from lakestream.engine.windows.rows.extents import (
    one_of_each_start,
    overlap,
    overlaps,
    parted,
    start_of_open,
    widened,
)
from lakestream.engine.windows.rows.groups import CutGroup
from lakestream.engine.windows.rows.policy import counts_on
from lakestream.engine.windows.rows.queries import RowQueries
from lakestream.engine.windows.rows.shown import Shown
from lakestream.engine.windows.rows.tables import CutTables
from lakestream.storage.rows.views import view_of_rows
from lakestream.triggers.cut import NO_SEEDS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    import pyarrow as pa

    from lakestream.engine.streams.stream import EventRange, Stream
    from lakestream.engine.windows.family import TickInput
    from lakestream.engine.windows.rows.extents import Window
    from lakestream.engine.windows.rows.tables import CutResult
    from lakestream.storage.rows.views import View

CUTS = "ls_cuts"
_Instant: TypeAlias = "Callable[[CutGroup], int | None]"
"""An instant of each group (µs)."""


@dataclass(frozen=True)
class Cutting:
    """One tick's cut of a stream's rows, at the version that its plan goes up to.

    ``schema`` is that of a table with the group columns, which gives their types; ``share`` says which part
    of the groups is cut, of how many: as :func:`in_part` takes them.
    """

    given: TickInput
    schema: pa.Schema
    share: tuple[int, int] = (0, 1)

    @property
    def stream(self) -> Stream:
        """The stream whose rows are cut."""
        return self.given.stream

    @property
    def _queries(self) -> RowQueries:
        return RowQueries(self.stream)

    @property
    def _comparing(self) -> Comparing:
        return Comparing(self.stream, self.given.target.unique)

    @property
    def _shown(self) -> Shown:
        return Shown(
            self.given.tables, self.given.target, self.stream.emission.max_delay is not None, self.share
        )

    @property
    def _tables(self) -> CutTables:
        return CutTables(self.stream, self.schema, self.given.plan.upto)

    def run(self, sums: pa.Table, changes: View) -> CutResult:
        """Cut the groups with changes, which are summed up by group."""
        own = in_part(sums, *self.share)
        summed = _rows(own)
        known_groups = {row["gid"]: row for row in _rows(self.given.state.of(own["gid"]))}
        expired = with_expired(summed, known_groups)
        joined = self._joined(summed, known_groups)
        touched = [
            group for row in summed if (group := self._touched(row, known_groups.get(row["gid"]), joined))
        ]
        there = self._there([group for group in touched if group.late])
        there |= self._shown.opened([group for group in touched if group.changed and not group.late])
        touched = [self._back(group, there) if group.late else group for group in touched]
        rows, late = sum(row["n"] for row in summed), sum(row["late"] for row in summed)
        left = [row for row in expired if row["gid"] not in {group.gid for group in touched}]
        if not touched:
            return self._tables.result([], [], left=left, rows=rows, late=late)
        touched = self._registered(touched)
        windows = self._windows(touched)
        moved = self._moved(changes, [group.gid for group in touched if group.late])
        windows, there = self._narrowed(touched, windows, there, moved)
        fired, retracted = self._comparing.compared(touched, windows, there, moved)
        states = [(group, windows.get(group.gid, [])) for group in touched]
        events = [
            event
            for group in touched
            for event in self._comparing.events(
                group,
                windows.get(group.gid, ()),
                there.get(group.gid, ()),
                group.opened,
                moved.get(group.gid, []),
            )
        ]
        opening = _opening(self.stream, windows)
        return self._tables.result(
            *(fired, retracted if self._is_told else [], events),
            states=states,
            left=left,
            rows=rows,
            late=late,
            opening=opening,
        )

    def recompute(self, event_range: EventRange) -> CutResult:
        """Cut all groups again where windows overlap a range of event time; its rows go and come anew.

        Where windows are others now, the range goes on to the ends of those that go and come.

        Windows of a count are cut from the start of the range, of rows before its end (TDengine A7); under
        EXACT they are those of all rows. A window that is open belongs to the ticks and keeps its beginning:
        what it would reach back to stays.
        """
        assert self.stream.cut is not None and self.given.state.rows is not None  # noqa: PT018 - by recalculate
        start = EVER[0] if event_range.overlap_us is None else event_range.overlap_us
        end = EVER[1] if event_range.to_us is None else event_range.to_us
        counts = self.stream.cut.counts and not self.stream.exact
        known_groups = {row["gid"]: row for row in _rows(in_part(self.given.state.rows, *self.share))}
        groups = [self._named(row, start, late=not counts) for row in known_groups.values()]
        there = self._shown.before(groups)
        touched = [self._back(group, there) if group.late else group for group in groups]
        if not touched:
            return self._tables.result([], [])
        self.given.relations.rows_at(
            self.given.plan.upto, merge_spans([(min(g.from_us for g in touched), EVER[1])])
        )
        self._register(
            touched,
            lambda group: min(self._mark(group), end - 1) if counts else self._mark(group),
            lambda group: min(self._upto(group), end - 1) if counts else self._upto(group),
        )
        windows = self._windows(touched)
        fired, retracted, events = [], [], []
        for group in touched:
            resume = known_groups[group.gid]["resume"]
            found, back = parted(windows.get(group.gid, []), None if counts else resume)
            old = [window for window in there.get(group.gid, []) if not overlaps(window, back)]
            now = self._comparing.firing(group, found, old)
            within = (start, end) if counts else widened((start, end), now.symmetric_difference(old))
            fired += [(group, window) for window in sorted(now) if overlap(window, within)]
            old = [window for window in old if overlap(window, within)]
            retracted += [(group.gid, low) for low, _ in old]
            found = [row for row in found if overlap((row["low"], row["high"]), within)]
            events += self._comparing.events(
                group, found, old, frozenset(known_groups[group.gid]["opened"]), None
            )
        return self._tables.result(fired, retracted, events, opening=_opening(self.stream, windows))

    def opened(self, windows: Collection[tuple[int, int]]) -> CutResult:
        """Cut the windows (group, start) that are still open, as far as they have come."""
        import pyarrow as pa

        assert self.stream.cut is not None and self.given.state.rows is not None  # noqa: PT018 - by the tick
        starts: dict[int, int] = {}
        for gid, low in windows:
            starts[gid] = min(low, starts.get(gid, low))
        touched = [
            self._still_open(row, starts[row["gid"]])
            for row in _rows(self.given.state.of(pa.array(starts, pa.int64())))
        ]
        if not touched:
            return self._tables.result([], [])
        self._read(touched)
        # What is there counts, also what the watermark has not reached.
        self._register(touched, self._mark, lambda group: group.newest)
        found = self._windows(touched)
        fired = [
            (group, window)
            for group in touched
            for window in sorted(
                one_of_each_start(
                    (row["low"], row["high"])
                    for row in found.get(group.gid, ())
                    if (group.gid, row["low"]) in windows and not row["closed"] and self._comparing.shows(row)
                )
            )
        ]
        return self._tables.result(fired, [])

    def _still_open(self, row: dict[str, Any], from_us: int) -> CutGroup:
        """Return a group that is cut from its open windows on; what was counted stays counted."""
        group = replace(self._named(row, from_us, late=False), expired=row.get(EXPIRED, ()), begins=True)
        if not counts_on(self.stream):
            return group
        return replace(group, counted=row["counted"], starts=row["starts"], safe=row["safe"])

    # --- what changed ---

    def _named(self, row: dict[str, Any], from_us: int, *, late: bool) -> CutGroup:
        return CutGroup.of(row, self.stream.group_columns, from_us, late=late)

    def _joined(
        self, summed: list[dict[str, Any]], known_groups: dict[int, dict[str, Any]]
    ) -> dict[int, tuple[int | None, int | None]]:
        """Return from where on groups are cut because late rows before the open window are in it with it.

        That is by group; and where the last window ends that is closed with them: a late row in such a
        one has expired. By the watermark before the commit; a row of a counting window is in the open one.
        """
        assert self.stream.cut is not None  # by the tick
        found: dict[int, tuple[int | None, int | None]] = {}
        touched = []
        for row in summed:
            low, old = row["joining"], known_groups.get(row["gid"])
            if low is None or old is None or (old["resume"] is not None and low >= old["resume"]):
                continue
            if self.stream.cut.counts:
                found[row["gid"]] = low, old[CLOSED]
                continue
            group = replace(self._named(old, low, late=False), expired=old.get(EXPIRED, ()))
            touched.append(replace(group, newest=old["safe"] + self.stream.watermark_delay))
        if not touched:
            return found
        self._read(touched)
        self._register(touched, self._mark, self._mark)
        windows = self._windows(touched)
        for group in touched:
            old = known_groups[group.gid]
            resume = old["resume"]
            is_cut = resume is not None and resume <= old["safe"]
            start = start_of_open(windows.get(group.gid, []), resume if is_cut else None)
            ends = [row["high"] for row in windows.get(group.gid, []) if start is None or row["low"] < start]
            found[group.gid] = (
                start,
                max([*ends, *([] if old[CLOSED] is None else [old[CLOSED]])], default=None),
            )
        return found

    def _touched(
        self,
        row: dict[str, Any],
        old: dict[str, Any] | None,
        joined: dict[int, tuple[int | None, int | None]],
    ) -> CutGroup | None:
        """Return from where on a group is cut; None where its changes count for nothing."""
        names = tuple(row[name] for name in self.stream.group_columns)
        if old is None:
            if row["high"] is None:
                return None
            fresh = {**row, "first": row["low_kept"], "newest": row["high"]}
            return self._named(fresh, row["low_kept"], late=False)
        assert self.stream.cut is not None  # by the tick
        safe, resume, newest = old["safe"], old["resume"], old["newest"]
        goes_on_counting = counts_on(self.stream)
        late = row["low"] is not None and row["low"] <= (
            resume if resume is not None and not self.stream.cut.begins_apart else safe
        )
        lost = row["high_removed"] is not None and row["high_removed"] >= newest
        # What is open may begin beyond the watermark, and rows before it that are not late come in between.
        goes_on = safe + 1 if goes_on_counting or resume is None else min(resume, safe + 1)
        start, closed = joined.get(row["gid"], (None, old.get(CLOSED)))
        moves = late or lost or start is not None or closed != old.get(CLOSED)
        if not moves and (row["top"] is None or row["top"] < goes_on):
            return None
        highest = newest if row["high"] is None else max(newest, row["high"])
        begins = goes_on if start is None else min(start, goes_on)
        return CutGroup(
            row["gid"],
            names,
            old["first"] if row["low_kept"] is None else min(old["first"], row["low_kept"]),
            highest,
            old["counted"] if goes_on_counting else 0,
            old["starts"] if goes_on_counting else (),
            frozenset(old["opened"]),
            min(row["low"], begins) if late or (lost and row["low"] is not None) else begins,
            late=late or lost,
            lost_newest=lost and self.stream.exact,
            # What has closed is computed again from all rows there are, what is open goes on without them.
            expired=[at for at in old.get(EXPIRED, ()) if resume is not None and at > resume],
            closed=closed,
            known=newest,
            begins=begins == (resume if start is None else start),
            came=row["low_kept"],
            safe=safe,
            goes_on=safe + 1 if resume is None else resume,
            changed=start is not None or (row["top_removed"] is not None and row["top_removed"] >= goes_on),
        )

    @property
    def _is_told(self) -> bool:
        """Whether the output's rows say which window they are of."""
        return self.given.target.shape.provenance is not None

    def _there(self, late: list[CutGroup]) -> dict[int, list[Window]]:
        """Return the windows of late groups before the change: the output's, or those of the source then."""
        if self._is_told or not late:
            return self._shown.before(late)
        found = self._before([_anew(group, EVER[0], begins=False) for group in late])
        return {of.gid: sorted(self._comparing.firing(of, found.get(of.gid, []), ())) for of in late}

    # --- what stays ---

    def _narrowed(
        self,
        touched: list[CutGroup],
        windows: dict[int, list[dict[str, Any]]],
        there: dict[int, list[Window]],
        moved: dict[int, list[int]],
    ) -> tuple[dict[int, list[dict[str, Any]]], dict[int, list[Window]]]:
        """Return the windows of a cut and of the output without those that stay: that no change has touched.

        They may be others than those of the source as it is: of changes before this tick that were left out.
        """
        assert self.stream.cut is not None  # by the tick
        if self.stream.exact or not self.stream.cut.is_disjoint:
            return windows, there
        late = [(of, windows.get(of.gid, []), there.get(of.gid, [])) for of in touched if of.late]
        apart = [of[0] for of in late if self._comparing.differs_apart(*of, moved[of[0].gid])]
        was = self._before(apart) if apart else {}
        for group in apart:
            found, before = windows.get(group.gid, []), was.get(group.gid, [])
            windows[group.gid], there[group.gid] = self._comparing.narrowed(
                group, found, before, there.get(group.gid, []), moved[group.gid]
            )
        return windows, there

    def _before(self, groups: list[CutGroup]) -> dict[int, list[dict[str, Any]]]:
        """Return the windows of groups by the rows that were there before the tick."""
        having = [group for group in groups if group.known is not None]
        known = [replace(group, newest=group.known, lost_newest=False, came=None) for group in having]
        spans = merge_spans([span for group in known for span in group.spans])
        if not self.given.relations.rows_before(spans):
            return {}
        self._register(known, self._mark, self._upto)
        return self._windows(known)

    def _back(self, group: CutGroup, there: dict[int, list[Window]]) -> CutGroup:
        """Begin at the last window that ends before the change: nothing moves its start."""
        before = [low for low, high in there.get(group.gid, ()) if high <= group.from_us]
        return _anew(group, before[-1] if before else EVER[0], begins=bool(before))

    # --- cutting ---

    def _registered(self, touched: list[CutGroup]) -> list[CutGroup]:
        """Register the rows, and from where to where each group is cut."""
        self._read(touched)
        if any(group.lost_newest for group in touched):
            known = self._with_newest(touched)
            # The watermark has moved back behind where the cut was to begin: only the whole group tells more.
            touched = [
                _anew(group, EVER[0], begins=False)
                if group.lost_newest and self._mark(group) < group.from_us
                else group
                for group in known
            ]
            if touched != known:
                self._read(touched)
                touched = self._with_newest(touched)
        self._register(touched, self._mark, self._upto)
        return touched

    def _read(self, touched: list[CutGroup]) -> None:
        spans = merge_spans([span for group in touched for span in group.spans])
        self.given.relations.rows_at(self.given.plan.upto, spans)

    def _with_newest(self, touched: list[CutGroup]) -> list[CutGroup]:
        """Return the groups that lost their newest row with the one that is the newest now."""
        self._register(touched, lambda _group: EVER[1], lambda _group: EVER[1])
        rows = self._queries.cut_rows_sql(CUTS)
        found = _rows(
            self.given.spark.sql(
                f"SELECT _ls_gid AS gid, max(_ls_ts) AS newest FROM ({rows}) GROUP BY 1"
            ).toArrow()
        )
        newest = {row["gid"]: row["newest"] for row in found}
        return [
            replace(group, newest=newest.get(group.gid)) if group.lost_newest else group for group in touched
        ]

    def _mark(self, group: CutGroup) -> int:
        return group.watermark(self.stream.watermark_delay)

    def _upto(self, group: CutGroup) -> int:
        """Return the instant up to which rows of a group are cut (µs): its watermark, or its newest row."""
        if group.newest is None or not self.stream.emission.opens_ahead:
            return self._mark(group)
        return group.newest

    def _register(self, touched: list[CutGroup], watermark: _Instant, upto: _Instant) -> None:
        import pyarrow as pa

        integer = pa.int64()
        cuts = pa.table(
            {
                "gid": pa.array([group.gid for group in touched], integer),
                "from_us": pa.array([group.from_us for group in touched], integer),
                "mark": pa.array([watermark(group) for group in touched], integer),
                "known": pa.array([group.from_us if group.begins else None for group in touched], integer),
                "upto": pa.array([upto(group) for group in touched], integer),
                "counted": pa.array([group.counted for group in touched], integer),
                "starts": pa.array([list(group.starts) for group in touched], pa.list_(integer)),
                "safe": pa.array([group.safe for group in touched], integer),
                EXPIRED: pa.array([list(group.expired) for group in touched], pa.list_(integer)),
            }
        )
        view_of_rows(self.given.spark, cuts, CUTS)

    def _windows(self, touched: list[CutGroup]) -> dict[int, list[dict[str, Any]]]:
        assert self.stream.cut is not None
        seeded = counts_on(self.stream) and any(group.counted for group in touched)
        seeds = f"SELECT gid, counted, starts, safe FROM {CUTS} WHERE counted > 0" if seeded else NO_SEEDS
        sql = self.stream.cut.sql(self._queries.cut_rows_sql(CUTS), seeds)
        windows: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for row in _rows(self.given.spark.sql(sql).toArrow()):
            windows[row["gid"]].append(row)
        return windows

    # --- what is emitted ---

    def _moved(self, changes: View, gids: Iterable[int]) -> dict[int, list[int]]:
        """Return the instants of the changed rows of some groups, in order."""
        moved: dict[int, list[int]] = {gid: [] for gid in gids}
        if moved:
            for row in _rows(
                self.given.spark.sql(
                    f"SELECT DISTINCT gid, ts FROM {changes} LEFT SEMI JOIN {CUTS} USING (gid) ORDER BY ts"
                ).toArrow()
            ):
                if row["gid"] in moved:
                    moved[row["gid"]].append(row["ts"])
        return moved


def with_expired(
    summed: list[dict[str, Any]], known_groups: dict[int, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Note in groups with an open window which rows had expired when they came; return those groups."""
    found = [
        (old, row)
        for row in summed
        if row.get(EXPIRED) and (old := known_groups[row["gid"]])["resume"] is not None
    ]
    for old, row in found:
        old[EXPIRED] = sorted({*old.get(EXPIRED, ()), *row[EXPIRED]})
    return [old for old, _ in found]


def _anew(group: CutGroup, from_us: int, *, begins: bool) -> CutGroup:
    """Return a group that is cut from an instant on (µs), whether a window ``begins`` there or not."""
    return replace(group, from_us=from_us, begins=begins, counted=0, starts=())


def _opening(stream: Stream, windows: Mapping[int, Iterable[dict[str, Any]]]) -> set[tuple[int, int]]:
    """Return the windows of a cut (group, start) that are computed as they open, where they fire."""
    emission = stream.definition.options.emission
    if not emission.at_open:
        return set()
    listed = ((gid, row) for gid, found in windows.items() for row in found)
    return {(gid, row["low"]) for gid, row in listed if not (emission.at_close and row["closed"])}


def _rows(table: pa.Table | None) -> list[dict[str, Any]]:
    return [] if table is None else list(table.to_pylist())
