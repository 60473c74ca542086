"""Windows that are cut by rows: which ones fire in a tick, which ones go, and the next state.

A group goes on from its open window; where a change lies before that, it is cut anew from the last
window that the change cannot have touched, which the output knows. What then differs from the output,
or holds a changed row, fires again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from lakestream.engine.base.state import CLOSED, EXPIRED
from lakestream.engine.reading.relations import CHANGES, EVER, STATE
from lakestream.engine.reading.transport import merge_spans
from lakestream.engine.streams.write import read_windows
from lakestream.language.model import WINDOW_CLOSE, WINDOW_OPEN
from lakestream.notify.events import WINDOW_INVALIDATION
from lakestream.storage.reading import arrow_frame
from lakestream.triggers.cut import DETAILS, NO_SEEDS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.base.state import GroupState
    from lakestream.engine.reading.relations import Relations
    from lakestream.engine.streams.stream import Part, Stream
    from lakestream.engine.streams.target import Target
    from lakestream.storage.delta import Tables

CUTS = "ls_cuts"
_NEAR_US = 86_400_000_000
"""How far before a change a window is looked for before the whole output is."""

Window = tuple[int, int]
"""``[low, high)`` in microseconds."""

_Instant: TypeAlias = "Callable[[_Touched], int | None]"
"""An instant of each group (µs)."""


@dataclass(frozen=True)
class Found:
    """What a cut gave: windows that fire, (gid, low) of rows that go, and the groups' next state.

    ``fired`` has gid, group columns, k, c, low, high, opening; ``gone`` gid and low; ``spans`` cover the
    fired. ``events`` is what is told of: gid, group columns, low, high, kind, again, extra.
    """

    fired: pa.Table
    gone: pa.Table
    groups: pa.Table
    spans: list[Window]
    rows: int
    late: int
    events: pa.Table


@dataclass(frozen=True)
class _Event:
    """A window that opened, closed or went; ``again``: it may have been told of before."""

    group: _Touched
    low: int
    high: int
    kind: str
    again: bool = False
    extra: str | None = None


@dataclass(frozen=True)
class _Touched:
    """A group with changes: what it was, what changed, and from where on it is cut."""

    gid: int
    names: tuple[Any, ...]
    first: int
    newest: int | None
    counted: int
    starts: Sequence[int]
    opened: frozenset[int]
    from_us: int
    late: bool
    lost_newest: bool
    expired: Sequence[int] = ()
    """Instants of rows in the open window that had expired when they came: they do not cut it."""
    closed: int | None = None
    """Where the last window that has closed ends (µs), where the stream keeps that."""
    changed: bool = False
    """Whether rows of the open windows were rewritten or went, or earlier ones joined them."""


@dataclass
class Cutting:
    """One tick's cut of a stream's rows at ``version`` of its source."""

    spark: SparkSession
    tables: Tables
    relations: Relations
    stream: Stream
    target: Target
    state: GroupState
    version: int
    _schema: pa.Schema = field(init=False)
    """Of a table with the group columns, which gives their types."""

    def run(self, changes: pa.Table) -> Found:
        """Cut the groups with changes, which are summed up by group."""
        self._schema, summed = changes.schema, _rows(changes)
        known = {row["gid"]: row for row in _rows(self.state.of(changes["gid"]))}
        expired = self._with_expired(summed, known)
        joined = self._joined(summed, known)
        touched = [group for row in summed if (group := self._touched(row, known.get(row["gid"]), joined))]
        there = self._there([group for group in touched if group.late])
        there |= self._shown([group for group in touched if group.changed and not group.late])
        touched = [self._back(group, there) if group.late else group for group in touched]
        rows, late = sum(row["n"] for row in summed), sum(row["late"] for row in summed)
        left = [row for row in expired if row["gid"] not in {group.gid for group in touched}]
        if not touched:
            return Found(*self._tables([], [], [], left), [], rows, late, self._events([]))
        touched = self._registered(touched)
        windows = self._windows(touched)
        moved = self._moved([group.gid for group in touched if group.late])
        fired, gone = self._compared(touched, windows, there, moved)
        states = [(group, windows.get(group.gid, [])) for group in touched]
        spans = merge_spans(sorted({window for _, window in fired}))
        told = [
            event
            for group in touched
            for event in self._told(
                group,
                windows.get(group.gid, ()),
                there.get(group.gid, ()),
                group.opened,
                moved.get(group.gid, []),
            )
        ]
        return Found(*self._tables(fired, gone, states, left), spans, rows, late, self._events(told))

    def again(self, part: Part) -> Found:
        """Cut all groups again where windows overlap a part of event time; its rows go and come anew.

        Where windows are others now, the part goes on to the ends of those that go and come.

        Windows of a count are cut from the start of the part, of rows before its end (TDengine A7). A window
        that is open belongs to the ticks and keeps its beginning: what it would reach back to stays.
        """
        assert self.stream.cut is not None and self.state.rows is not None  # noqa: PT018 - by recalculate
        self._schema = self.state.rows.schema
        start = EVER[0] if part.overlap_us is None else part.overlap_us
        end = EVER[1] if part.to_us is None else part.to_us
        counts = self.stream.cut.counts
        known = {row["gid"]: row for row in _rows(self.state.rows)}
        groups = [self._known(row, start, late=not counts) for row in known.values()]
        there = self._there(groups)
        touched = [self._back(group, there) if group.late else group for group in groups]
        self.relations.rows_at(self.version, merge_spans([(min(g.from_us for g in touched), EVER[1])]))
        self._register(
            touched,
            lambda group: min(self._mark(group), end - 1) if counts else self._mark(group),
            lambda group: min(self._upto(group), end - 1) if counts else self._upto(group),
        )
        windows = self._windows(touched)
        fired, gone, told = [], [], []
        for group in touched:
            resume = known[group.gid]["resume"]
            found, back = _parted(windows.get(group.gid, []), None if counts else resume)
            old = [window for window in there.get(group.gid, []) if not _overlaps(window, back)]
            now = self._firing(group, found, old)
            within = (start, end) if counts else _widened((start, end), now.symmetric_difference(old))
            fired += [(group, window) for window in sorted(now) if _overlap(window, within)]
            old = [window for window in old if _overlap(window, within)]
            gone += [(group.gid, low) for low, _ in old]
            found = [row for row in found if _overlap((row["low"], row["high"]), within)]
            told += self._told(group, found, old, frozenset(known[group.gid]["opened"]), None)
        spans = merge_spans(sorted({window for _, window in fired}))
        return Found(*self._tables(fired, gone, []), spans, 0, 0, self._events(told))

    def opened(self, windows: Collection[tuple[int, int]]) -> Found:
        """Cut the windows (group, start) that are still open, as far as they have come."""
        import pyarrow as pa

        assert self.stream.cut is not None and self.state.rows is not None  # noqa: PT018 - by the tick
        self._schema = self.state.rows.schema
        starts: dict[int, int] = {}
        for gid, low in windows:
            starts[gid] = min(low, starts.get(gid, low))
        touched = [
            replace(self._known(row, starts[row["gid"]], late=False), expired=row.get(EXPIRED, ()))
            for row in _rows(self.state.of(pa.array(starts, pa.int64())))
        ]
        if not touched:
            return Found(*self._tables([], [], []), [], 0, 0, self._events([]))
        self._read(touched)
        # What is there counts, also what the mark has not reached.
        self._register(touched, self._mark, lambda group: group.newest)
        found = self._windows(touched)
        fired = [
            (group, window)
            for group in touched
            for window in sorted(
                _one_of_each_start(
                    (row["low"], row["high"])
                    for row in found.get(group.gid, ())
                    if (group.gid, row["low"]) in windows and not row["closed"] and self._shows(row)
                )
            )
        ]
        spans = merge_spans(sorted({window for _, window in fired}))
        return Found(*self._tables(fired, [], [], opens=False), spans, 0, 0, self._events([]))

    def _known(self, row: dict[str, Any], from_us: int, *, late: bool) -> _Touched:
        names = tuple(row[name] for name in self.stream.group_columns)
        return _Touched(
            row["gid"],
            names,
            row["first"],
            row["newest"],
            0,
            (),
            frozenset(),
            from_us,
            late=late,
            lost_newest=False,
        )

    # --- what changed ---

    def summed(self) -> pa.Table:
        """Return the changes by group; rows that have expired change nothing, and are listed apart."""
        expiry = self.stream.expiry
        expired = f"c.expires AND coalesce(c.ts < s.newest - {expiry}L, false)" if expiry else "false"
        names = "".join(f", any_value({name}) AS {name}" for name in self.stream.group_columns)
        safe, late = ("s.safe", "count_if(kept AND ts <= safe)") if len(self.state) else ("NULL", "0L")
        listed = f", collect_set(at) FILTER (WHERE came) AS {EXPIRED}" if self.stream.keeps_expired else ""
        joining, behind = "CAST(NULL AS BIGINT)", ""
        if self.stream.keeps_closed and len(self.state):
            # Rows of overlapping windows may be in one that has closed and in one that is open.
            behind = f", IF(s.{CLOSED} IS NULL, NULL, least(s.{CLOSED}, s.resume)) AS behind"
            joining = "min(ts) FILTER (WHERE kept AND ts <= safe AND coalesce(ts >= behind, true))"
        judged = (
            f"SELECT c.* EXCEPT (ts, kept), {safe} AS safe{behind}, IF({expired}, NULL, c.ts) AS ts, "
            f"c.kept AND NOT ({expired}) AS kept, c.ts AS at, c.kept AND ({expired}) AS came "
            f"FROM {CHANGES} c LEFT JOIN {STATE} s ON s.gid = c.gid"
        )
        return self.spark.sql(
            f"SELECT gid{names}, count_if(kept) AS n, {late} AS late, min(ts) FILTER (WHERE touches) AS low, "
            f"min(ts) FILTER (WHERE kept) AS low_kept, max(ts) FILTER (WHERE kept) AS high, "
            f"max(ts) FILTER (WHERE NOT kept AND touches) AS high_gone, max(ts) AS top, "
            f"max(ts) FILTER (WHERE NOT kept) AS top_gone, {joining} AS joining{listed} "
            f"FROM ({judged}) GROUP BY gid"
        ).toArrow()

    def _with_expired(
        self, summed: list[dict[str, Any]], known: dict[int, dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Note in groups with an open window which rows had expired when they came; return those groups."""
        found = [
            (old, row)
            for row in summed
            if row.get(EXPIRED) and (old := known[row["gid"]])["resume"] is not None
        ]
        for old, row in found:
            old[EXPIRED] = sorted({*old.get(EXPIRED, ()), *row[EXPIRED]})
        return [old for old, _ in found]

    def _joined(
        self, summed: list[dict[str, Any]], known: dict[int, dict[str, Any]]
    ) -> dict[int, tuple[int | None, int | None]]:
        """Return from where on groups are cut because late rows before the open window are in it with it.

        That is by group; and where the last window ends that is closed with them: a late row in such a
        one has expired. By the mark before the commit; a row of a counting window is in the open one.
        """
        assert self.stream.cut is not None  # by the tick
        found: dict[int, tuple[int | None, int | None]] = {}
        touched = []
        for row in summed:
            low, old = row["joining"], known.get(row["gid"])
            if low is None or old is None or (old["resume"] is not None and low >= old["resume"]):
                continue
            if self.stream.cut.counts:
                found[row["gid"]] = low, old[CLOSED]
                continue
            group = replace(self._known(old, low, late=False), expired=old.get(EXPIRED, ()))
            touched.append(replace(group, newest=old["safe"] + self.stream.watermark_delay))
        if not touched:
            return found
        self._read(touched)
        self._register(touched, self._mark, self._mark)
        windows = self._windows(touched)
        for group in touched:
            old = known[group.gid]
            resume = old["resume"]
            is_cut = resume is not None and resume <= old["safe"]
            start = _start_of_open(windows.get(group.gid, []), resume if is_cut else None)
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
    ) -> _Touched | None:
        """Return from where on a group is cut; None where its changes count for nothing."""
        names = tuple(row[name] for name in self.stream.group_columns)
        if old is None:
            if row["high"] is None:
                return None
            first, newest = row["low_kept"], row["high"]
            none: frozenset[int] = frozenset()
            return _Touched(
                row["gid"], names, first, newest, 0, (), none, first, late=False, lost_newest=False
            )
        assert self.stream.cut is not None  # by the tick
        safe, resume, newest = old["safe"], old["resume"], old["newest"]
        counts_on = self.stream.counts_on
        late = row["low"] is not None and row["low"] <= (
            resume if resume is not None and not self.stream.cut.counts else safe
        )
        lost = row["high_gone"] is not None and row["high_gone"] >= newest
        # What is open may begin beyond the mark, and rows before it that are not late come in between.
        goes_on = safe + 1 if counts_on or resume is None else min(resume, safe + 1)
        start, closed = joined.get(row["gid"], (None, old.get(CLOSED)))
        moves = late or lost or start is not None or closed != old.get(CLOSED)
        if not moves and (row["top"] is None or row["top"] < goes_on):
            return None
        highest = newest if row["high"] is None else max(newest, row["high"])
        begins = goes_on if start is None else min(start, goes_on)
        return _Touched(
            row["gid"],
            names,
            old["first"] if row["low_kept"] is None else min(old["first"], row["low_kept"]),
            highest,
            old["counted"] if counts_on else 0,
            old["starts"] if counts_on else (),
            frozenset(old["opened"]),
            min(row["low"], begins) if late or (lost and row["low"] is not None) else begins,
            late=late or lost,
            lost_newest=lost and self.stream.exact,
            # What is computed again is so from all rows there are.
            expired=() if late or lost else old.get(EXPIRED, ()),
            closed=closed,
            changed=start is not None or (row["top_gone"] is not None and row["top_gone"] >= goes_on),
        )

    # --- what the output has ---

    def _there(self, late: list[_Touched]) -> dict[int, list[Window]]:
        """Return the windows that the output has of late groups, in order, from before the change on."""
        if not late or not self.target.shape.provenance:
            return {}
        near = self._written(late, min(group.from_us for group in late) - _NEAR_US)
        if all(near.get(group.gid) and near[group.gid][0][1] <= group.from_us for group in late):
            return near
        return self._written(late, None)

    def _shown(self, changed: list[_Touched]) -> dict[int, list[Window]]:
        """Return the open windows of groups that the output has, where they are not all in it (MAX_DELAY)."""
        is_delayed = self.stream.definition.options.emission.max_delay is not None
        if not changed or not is_delayed or not self.target.shape.provenance:
            return {}
        return self._written(changed, min(group.from_us for group in changed))

    def _written(self, late: list[_Touched], lower: int | None) -> dict[int, list[Window]]:
        table = self.tables.open(self.target.info.path)
        places = self.target.shape.places
        found = read_windows(table, places, lower)
        wanted = {group.gid for group in late}
        windows: dict[int, set[Window]] = defaultdict(set)
        for gid, start, end in places.extents(found):
            if gid in wanted:
                windows[gid].add((start, end))
        return {gid: sorted(listed) for gid, listed in windows.items()}

    def _back(self, group: _Touched, there: dict[int, list[Window]]) -> _Touched:
        """Begin at the last window that ends before the change: nothing moves its start."""
        before = [low for low, high in there.get(group.gid, ()) if high <= group.from_us]
        return replace(group, from_us=before[-1] if before else EVER[0], counted=0, starts=())

    # --- cutting ---

    def _registered(self, touched: list[_Touched]) -> list[_Touched]:
        """Register the rows, and from where to where each group is cut."""
        self._read(touched)
        if any(group.lost_newest for group in touched):
            known = self._with_newest(touched)
            # The mark has moved back behind where the cut was to begin: only the whole group tells more.
            touched = [
                replace(group, from_us=EVER[0], counted=0, starts=())
                if group.lost_newest and self._mark(group) < group.from_us
                else group
                for group in known
            ]
            if touched != known:
                self._read(touched)
                touched = self._with_newest(touched)
        self._register(touched, self._mark, self._upto)
        return touched

    def _read(self, touched: list[_Touched]) -> None:
        spans = [
            (
                group.from_us,
                group.newest + 1 if group.newest is not None and not group.lost_newest else EVER[1],
            )
            for group in touched
        ]
        self.relations.rows_at(self.version, merge_spans(spans))

    def _with_newest(self, touched: list[_Touched]) -> list[_Touched]:
        """Return the groups that lost their newest row with the one that is the newest now."""
        self._register(touched, lambda _group: EVER[1], lambda _group: EVER[1])
        rows = self.stream.cut_rows_sql(CUTS)
        found = _rows(
            self.spark.sql(f"SELECT _ls_gid AS gid, max(_ls_ts) AS newest FROM ({rows}) GROUP BY 1").toArrow()
        )
        newest = {row["gid"]: row["newest"] for row in found}
        return [
            replace(group, newest=newest.get(group.gid)) if group.lost_newest else group for group in touched
        ]

    def _mark(self, group: _Touched) -> int:
        return EVER[0] if group.newest is None else group.newest - self.stream.watermark_delay

    def _upto(self, group: _Touched) -> int:
        """Return the instant up to which rows of a group are cut (µs): its mark, or its newest row."""
        if group.newest is None or not self.stream.definition.options.emission.opens_ahead:
            return self._mark(group)
        return group.newest

    def _register(self, touched: list[_Touched], mark: _Instant, upto: _Instant) -> None:
        import pyarrow as pa

        integer = pa.int64()
        cuts = pa.table(
            {
                "gid": pa.array([group.gid for group in touched], integer),
                "from_us": pa.array([group.from_us for group in touched], integer),
                "mark": pa.array([mark(group) for group in touched], integer),
                "upto": pa.array([upto(group) for group in touched], integer),
                "counted": pa.array([group.counted for group in touched], integer),
                "starts": pa.array([list(group.starts) for group in touched], pa.list_(integer)),
                EXPIRED: pa.array([list(group.expired) for group in touched], pa.list_(integer)),
            }
        )
        arrow_frame(self.spark, cuts).coalesce(1).createOrReplaceTempView(CUTS)

    def _windows(self, touched: list[_Touched]) -> dict[int, list[dict[str, Any]]]:
        assert self.stream.cut is not None
        seeded = self.stream.counts_on and any(group.counted for group in touched)
        seeds = f"SELECT gid, counted, starts FROM {CUTS} WHERE counted > 0" if seeded else NO_SEEDS
        sql = self.stream.cut.sql(self.stream.cut_rows_sql(CUTS), seeds)
        windows: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for row in _rows(self.spark.sql(sql).toArrow()):
            windows[row["gid"]].append(row)
        return windows

    # --- what fires ---

    def _compared(
        self,
        touched: list[_Touched],
        windows: dict[int, list[dict[str, Any]]],
        there: dict[int, list[Window]],
        moved: dict[int, list[int]],
    ) -> tuple[list[tuple[_Touched, Window]], list[tuple[int, int]]]:
        """Return the windows that fire, and (group, low) of those whose rows go."""
        fired: list[tuple[_Touched, Window]] = []
        gone: list[tuple[int, int]] = []
        for group in touched:
            found = windows.get(group.gid, [])
            before = {window for window in there.get(group.gid, ()) if window[0] >= group.from_us}
            now = self._firing(group, found, before)
            if group.late:
                same = {window for window in now & before if not _holds(moved[group.gid], window)}
                stay = self._opened_still(group, found) - {low for low, _ in now}
                gone += [(group.gid, low) for low, _ in before - same if low not in stay]
                now -= same
            elif self.stream.fires_open:
                gone += [(group.gid, low) for low in sorted(self._left(group, found, now, before))]
            fired += [(group, window) for window in sorted(now)]
        return fired, gone

    def _left(
        self, group: _Touched, found: list[dict[str, Any]], now: set[Window], shown: set[Window]
    ) -> set[int]:
        """Return the starts of windows that had been open whose rows in the output go, or come anew."""
        lows = {low for low, _ in now}
        if self.stream.definition.options.emission.at_once:
            return set(group.opened) - (lows if self.target.unique else set())
        return {low for low, _ in shown} | (group.opened - {row["low"] for row in found})

    def _opened_still(self, group: _Touched, found: list[dict[str, Any]]) -> set[int]:
        """Return the starts of windows whose opening was computed and that are there: it is not again."""
        if not self.stream.definition.options.emission.at_open:
            return set()
        return {row["low"] for row in found if row["counts"] and row["low"] in group.opened}

    def _firing(
        self, group: _Touched, found: Iterable[dict[str, Any]], shown: Collection[Window]
    ) -> set[Window]:
        """Return the windows that fire: those that close, those that are open, or those that open.

        ``shown`` are windows that the output has rows of: what is open of them fires again (MAX_DELAY).
        """
        emission = self.stream.definition.options.emission
        known = shown if emission.max_delay is not None else ()
        firing = (
            (row["low"], row["high"])
            for row in found
            if (
                row["counts"]
                and emission.at_close
                and (row["closed"] or (emission.at_once and self._shows(row)))
            )
            or (row["counts"] and emission.at_open and row["low"] not in group.opened)
            or (not row["closed"] and self._shows(row) and _overlaps((row["low"], row["high"]), known))
        )
        return _one_of_each_start(firing)

    def _shows(self, row: dict[str, Any]) -> bool:
        """Return whether a window that is open may be computed: in the classic syntax not without its end."""
        return bool(row["shows"] or not self.stream.definition.options.emission.opens_ahead)

    # --- what is told of ---

    def _told(
        self,
        group: _Touched,
        found: Iterable[dict[str, Any]],
        there: Iterable[Window],
        opened: frozenset[int],
        moved: list[int] | None,
    ) -> list[_Event]:
        """Return what happened to a group's windows, against what was told of: the open ones and those there.

        Windows go by their start: one that ends elsewhere now has not gone. One that is as it was and
        holds no changed row (``moved``; None: any may have changed) is not told of again.
        """
        if self.stream.definition.notification is None:
            return []
        counting = [row for row in found if row["counts"]]
        before = {low: high for low, high in there if low >= group.from_us and low not in opened}
        closed = {row["low"] for row in counting if row["closed"]}
        known = opened | {low for low in before if low in closed}
        left = opened - {row["low"] for row in counting} if moved is not None else frozenset()
        ends = [(low, high) for low, high in before.items() if low not in closed]
        ends += [(low, low + 1) for low in left if low >= group.from_us]
        told = [_Event(group, low, high, WINDOW_INVALIDATION, again=True) for low, high in sorted(ends)]
        opens_with, closes_with = DETAILS
        for row in counting:
            low, high = window = row["low"], row["high"]
            if low not in known:
                told.append(_Event(group, *window, WINDOW_OPEN, extra=row[opens_with]))
            same = moved is not None and before.get(low) == high and not _holds(moved, window)
            if row["closed"] and not same:
                told.append(_Event(group, *window, WINDOW_CLOSE, low in before, row[closes_with]))
        return told

    def _events(self, told: list[_Event]) -> pa.Table:
        import pyarrow as pa

        integer = pa.int64()
        columns: dict[str, Any] = {"gid": pa.array([event.group.gid for event in told], integer)}
        columns |= self._names([event.group for event in told])
        columns |= {
            "low": pa.array([event.low for event in told], integer),
            "high": pa.array([event.high for event in told], integer),
            "kind": pa.array([event.kind for event in told], pa.string()),
            "again": pa.array([event.again for event in told], pa.bool_()),
            "extra": pa.array([event.extra for event in told], pa.string()),
        }
        return pa.table(columns)

    def _moved(self, gids: Iterable[int]) -> dict[int, list[int]]:
        """Return the instants of the changed rows of some groups, in order."""
        moved: dict[int, list[int]] = {gid: [] for gid in gids}
        if moved:
            for row in _rows(self.spark.sql(f"SELECT DISTINCT gid, ts FROM {CHANGES} ORDER BY ts").toArrow()):
                if row["gid"] in moved:
                    moved[row["gid"]].append(row["ts"])
        return moved

    def _tables(
        self,
        fired: list[tuple[_Touched, Window]],
        gone: list[tuple[int, int]],
        states: list[tuple[_Touched, list[dict[str, Any]]]],
        left: Sequence[dict[str, Any]] = (),
        *,
        opens: bool = True,
    ) -> tuple[pa.Table, pa.Table, pa.Table]:
        """Return what fires, what goes, and the next state; ``left`` are rows of it that are known."""
        import pyarrow as pa

        integer, emission = pa.int64(), self.stream.definition.options.emission
        still_open = {
            (group.gid, row["low"]) for group, found in states for row in found if not row["closed"]
        }
        opening = [
            opens and emission.at_open and (not emission.at_close or (group.gid, low) in still_open)
            for group, (low, _) in fired
        ]
        columns: dict[str, Any] = {"gid": pa.array([group.gid for group, _ in fired], integer)}
        columns |= self._names([group for group, _ in fired])
        lows = pa.array([low for _, (low, _) in fired], integer)
        columns |= {"k": lows, "c": pa.array([self.version] * len(fired), integer), "low": lows}
        columns["high"] = pa.array([high for _, (_, high) in fired], integer)
        columns["opening"] = pa.array(opening, pa.bool_())
        went = {
            "gid": pa.array([gid for gid, _ in gone], integer),
            "low": pa.array([low for _, low in gone], integer),
        }
        next_states = self._states(states)
        if left:
            known = pa.Table.from_pylist(list(left), schema=next_states.schema)
            next_states = pa.concat_tables([next_states, known])
        return pa.table(columns), pa.table(went), next_states

    def _names(self, groups: list[_Touched]) -> dict[str, Any]:
        """Return the group columns with the types that Spark gives them."""
        import pyarrow as pa

        return {
            name: pa.array([group.names[at] for group in groups], self._schema.field(name).type)
            for at, name in enumerate(self.stream.group_columns)
        }

    def _states(self, states: list[tuple[_Touched, list[dict[str, Any]]]]) -> pa.Table:
        """Return the groups' next state; newest is NULL for a group without rows."""
        import pyarrow as pa

        integer = pa.int64()
        groups = [group for group, _ in states]
        opened = [sorted(row["low"] for row in found if not row["closed"]) for _, found in states]
        behind = [
            max((row["behind"] or 0 for row in found if not row["closed"]), default=0) for _, found in states
        ]
        counts = self.stream.cut is not None and self.stream.cut.counts
        columns: dict[str, Any] = {"gid": pa.array([group.gid for group in groups], integer)}
        columns |= self._names(groups)
        columns |= {
            "first": pa.array([group.first for group in groups], integer),
            "newest": pa.array([group.newest for group in groups], integer),
            "safe": pa.array([self._mark(group) for group in groups], integer),
            "resume": pa.array([lows[0] if lows else None for lows in opened], integer),
            "counted": pa.array(behind, integer),
            "starts": pa.array([lows if counts else [] for lows in opened], pa.list_(integer)),
            "opened": pa.array(
                [sorted(r["low"] for r in found if not r["closed"] and r["counts"]) for _, found in states],
                pa.list_(integer),
            ),
        }
        if self.stream.keeps_closed:
            ends = [
                [*(row["high"] for row in found if row["closed"]), *([group.closed] if group.closed else [])]
                for group, found in states
            ]
            columns[CLOSED] = pa.array([max(known, default=None) for known in ends], integer)
        if self.stream.keeps_expired:
            still = [
                [at for at in group.expired if lows and at > lows[0]]
                for group, lows in zip(groups, opened, strict=True)
            ]
            columns[EXPIRED] = pa.array(still, pa.list_(integer))
        return pa.table(columns)


def _rows(table: pa.Table | None) -> list[dict[str, Any]]:
    return [] if table is None else list(table.to_pylist())


def _one_of_each_start(windows: Iterable[Window]) -> set[Window]:
    """Return of windows that begin with rows of one time the last: it is the one that stands."""
    return set(dict(sorted(windows)).items())


def _overlaps(window: Window, others: Collection[Window]) -> bool:
    return any(_overlap(window, other) for other in others)


def _overlap(one: Window, other: Window) -> bool:
    return one[0] < other[1] and one[1] > other[0]


def _parted(found: list[dict[str, Any]], resume: int | None) -> tuple[list[dict[str, Any]], list[Window]]:
    """Return the windows, and apart from them the open ones that reach back behind where a tick goes on."""
    if resume is None:
        return found, []
    back = [row for row in found if not row["closed"] and row["low"] < resume]
    return [row for row in found if row not in back], [(row["low"], row["high"]) for row in back]


def _widened(part: Window, moved: Collection[Window]) -> Window:
    """Return a part of event time with the whole of the windows that go or come, where it is cut otherwise.

    What goes is then replaced in full, and nothing that stays holds rows of what comes.
    """
    while True:
        near = [window for window in moved if _overlap(window, part)]
        wider = min([part[0], *(low for low, _ in near)]), max([part[1], *(high for _, high in near)])
        if wider == part:
            return part
        part = wider


def _holds(instants: list[int], window: Window) -> bool:
    """Return whether one of the instants, which are in order, lies in the window."""
    at = bisect_left(instants, window[0])
    return at < len(instants) and instants[at] < window[1]


def _start_of_open(found: list[dict[str, Any]], resume: int | None) -> int | None:
    """Return the start of the window that holds where the open one began, or of the first open one."""
    if resume is None:
        return min((row["low"] for row in found if not row["closed"]), default=None)
    return max((row["low"] for row in found if row["low"] <= resume), default=None)
