"""SQL of the windows of a time grid: which ones are open, fire, fire again or go, from groups and changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakestream.engine.base.state import gids_sql
from lakestream.triggers.detect import Detection, NetDetection

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import EventRange, Stream


_NO_RANGES = "filter(fires, r -> false)"
"""No ranges of windows, of the type that others are."""


@dataclass(frozen=True)
class GridQueries:
    """The queries of one stream."""

    stream: Stream

    @property
    def detection(self) -> Detection:
        """How the stream finds out which windows fire, commit by commit."""
        touches, options = self.stream.deletes or self.stream.follows_updates, self.stream.definition.options
        return Detection(
            self.stream.grid,
            self.stream.group_columns,
            self.stream.watermark_delay,
            self.stream.refires,
            touches,
            self.stream.expiry,
            # Where the clock closes windows, the watermark says nothing.
            "any" if options.emission.by_clock else "not closed" if options.late.expires_closed else "beyond",
        )

    @property
    def net_detection(self) -> NetDetection:
        """How an EXACT stream finds out which windows fire."""
        return NetDetection(self.stream.grid, self.stream.group_columns, self.stream.watermark_delay)

    @property
    def net_emission(self) -> NetDetection:
        """How an EXACT stream finds out which windows it computes, where it computes some as they open."""
        emission = self.stream.emission
        return replace(self.net_detection, opens=emission.at_open, closes=emission.at_close)

    @property
    def begins_again(self) -> bool:
        """Whether a recalculation may find that its groups begin earlier, with rows that were left out."""
        return not self.stream.follows_source and not self.stream.grid.depends_on_first

    def windows_sql(self, fired: str, clock_us: int, *, opens: bool = True, wide: bool = True) -> str:
        """Return SQL of the windows to compute with their placeholders, from a detection result.

        ``opens``: of windows that compute when they open, those that are not closed do so now. ``wide``:
        some of its ranges may have very many windows; where only those with rows count, they are known by
        the rows, which are registered.
        """
        k, first = "k", "first"
        groups = "".join(f", {name}" for name in self.stream.group_columns)
        times = self.stream.grid.placeholders(k, first)
        opening = self._opening() if opens else ""
        if opening:
            times["_twend"] = f"CASE WHEN {opening} THEN {times['_twstart']} ELSE {times['_twend']} END"
        watermarks = "".join(f", timestamp_micros({sql}) AS {name}" for name, sql in times.items())
        if "_twstart" in times:
            watermarks += f", ({times['_twend']} - {times['_twstart']}) div 1000L AS _twduration"
        if "_tlocaltime" in self.stream.calculation.used:
            # Only then: a literal that changes with every tick makes Spark compile its code anew.
            watermarks += f", {clock_us * 1000}L AS _tlocaltime"
        rows, grid = self.stream.counting_rows if wide else "", self.stream.grid
        return (
            f"SELECT gid AS _ls_gid, k AS _ls_k, c AS _ls_c{groups}, {grid.low(k, first)} AS _ls_low, "
            f"{grid.high(k, first)} AS _ls_high{watermarks}, gid AS _tgrpid "
            f"FROM ({self.detection.windows_sql(fired, newest=bool(opening), rows=rows)})"
        )

    def _opening(self) -> str:
        """Return SQL that is true for a window that opens, over its number, newest and first of its group."""
        options = self.stream.definition.options
        if not options.emission.at_open:
            return ""
        if not options.emission.at_close:
            return "true"
        return f"k > {self.stream.grid.closed(f'(newest - {self.stream.watermark_delay}L)', 'first')}"

    def open_sql(self, state: str) -> str:
        """Return SQL of the windows that are open: gid, k BIGINT, low BIGINT µs."""
        watermark, grid = f"(newest - {self.stream.watermark_delay}L)", self.stream.grid
        first = f"greatest({grid.closed(watermark, 'first')}, {grid.ended('first', 'first')}) + 1"
        upto = "newest" if self.stream.emission.opens_ahead else watermark
        return (
            f"SELECT gid, k, {grid.low('k', 'first')} AS low FROM ("
            f"SELECT gid, first, explode(sequence(a, b)) AS k FROM (SELECT gid, first, {first} AS a, "
            f"{grid.begun(upto, 'first')} AS b FROM {state} WHERE first IS NOT NULL) WHERE a <= b) "
            f"WHERE {grid.exists('k')}"
        )

    def fired_sql(self, state: str, version: int, ranges: str) -> str:
        """Return SQL of a detection result in which windows of the groups of a state fire.

        ``ranges`` is SQL of (gid, a BIGINT, b BIGINT): the first window and the last one.
        """
        known = f"SELECT s.*, r.a, r.b FROM ({ranges}) r JOIN {state} s ON s.gid = r.gid"
        return self._row_sql(version, known, fires=True)

    def _row_sql(self, version: int, known: str, *, fires: bool) -> str:
        """Return SQL of a detection result without rows that came: of groups with the windows a to b.

        They fire for the first time (``fires``), or again.
        """
        groups, grid = "".join(f", {name}" for name in self.stream.group_columns), self.stream.grid
        none, ranges = "CAST(array() AS ARRAY<STRUCT<a: BIGINT, b: BIGINT>>)", "array(struct(a, b))"
        fire, refired = (ranges, none) if fires else (none, ranges)
        return (
            f"SELECT gid{groups}, CAST({version} AS BIGINT) AS v, first, newest, {fire} AS fires, "
            f"{refired} AS refired, {none} AS retracted, first AS first_retracted, 0L AS rows, 0L AS late, "
            f"b - a + 1 AS windows, {grid.low('a', 'first')} AS low, {grid.high('b', 'first')} AS high "
            f"FROM ({known}) WHERE a <= b"
        )

    def clock_sql(self, state: str, from_us: int, to_us: int) -> str:
        """Return SQL of the ranges of windows that end in ``(from_us, to_us]``, for each group of a state."""
        grid = self.stream.grid
        return (
            f"SELECT gid, greatest({grid.ended(f'{from_us}L', 'first')}, {grid.ended('first', 'first')}) + 1 "
            f"AS a, {grid.ended(f'{to_us}L', 'first')} AS b FROM {state} WHERE first IS NOT NULL"
        )

    def recalculated_sql(self, state: str, version: int, event_range: EventRange) -> str:
        """Return SQL of a detection result with all windows of a range of event time that have fired."""
        grid = self.stream.grid
        lower = [f"{grid.ended('first', 'first')} + 1", *self._first_numbers(event_range, "first")]
        watermark, options = f"(newest - {self.stream.watermark_delay}L)", self.stream.definition.options
        upper = [grid.closed(watermark, "first")]
        if self.stream.emission.fires_early:
            upper = [grid.begun("newest" if options.emission.opens_ahead else watermark, "first")]
        if event_range.to_us is not None:
            upper.append(grid.begun(f"{event_range.to_us - 1}L", "first"))
        a = f"greatest({', '.join(lower)})" if len(lower) > 1 else lower[0]
        b = f"least({', '.join(upper)})" if len(upper) > 1 else upper[0]
        of = f" AND gid IN ({gids_sql(event_range.only)})" if event_range.only else ""
        known = f"SELECT *, {a} AS a, {b} AS b FROM {state} WHERE first IS NOT NULL{of}"
        return self._row_sql(version, known, fires=False)

    def _first_numbers(self, event_range: EventRange, first: str) -> list[str]:
        """Return SQL of the numbers that no window of a range goes below."""
        grid, numbers = self.stream.grid, []
        if event_range.overlap_us is not None:
            numbers.append(f"{grid.ended(f'{event_range.overlap_us}L', first)} + 1")
        if event_range.from_us is not None:
            numbers.append(f"{grid.begun(f'{event_range.from_us - 1}L', first)} + 1")
        return numbers

    def first_in_range_sql(self, event_range: EventRange) -> str | None:
        """Return SQL of a range's first window: number, first instant, and that of the window before it (µs).

        None for a range without a beginning. Not for grids that depend on the first row.
        """
        numbers = self._first_numbers(event_range, "0L")
        if not numbers:
            return None
        first = f"greatest({', '.join(numbers)})" if len(numbers) > 1 else numbers[0]
        low, before = self.stream.grid.low("k", "0L"), self.stream.grid.low("(k - 1)", "0L")
        return f"SELECT k, {low} AS low, {before} AS before FROM (SELECT {first} AS k)"

    def begun_sql(self, state: str, early: str) -> str:
        """Return SQL of the groups' state, begun with the earliest of ``early`` (gid, early BIGINT µs)."""
        names = "".join(f", s.{name}" for name in self.stream.group_columns)
        return (
            f"SELECT s.gid{names}, least(s.first, e.early) AS first, s.newest FROM {state} s LEFT JOIN "
            f"(SELECT gid, min(early) AS early FROM ({early}) GROUP BY gid) e ON s.gid = e.gid"
        )

    @property
    def late_columns(self) -> list[str]:
        """The columns of an incremental result by which windows that changed late are found."""
        of_groups = ("_ls_first", "_ls_base", "_ls_base_before", "_ls_closed_before")
        return ["_ls_gid", *self.stream.group_columns, *of_groups, "_ls_k", "_ls_late"]

    def late_sql(self, updated: str) -> str:
        """Return SQL of a detection result with the windows that changed late by an incremental one.

        Those before the first one that there was fire too, without rows unless only the others count.
        ``updated`` has ``late_columns``, and _ls_v, the source's version that the tick goes up to.
        """
        groups = "".join(f", any_value({name}) AS {name}" for name in self.stream.group_columns)
        last = "least(max(_ls_base_before), max(_ls_closed_before))"
        if self.stream.definition.options.ignore_nodata:
            last = "CAST(NULL AS BIGINT)"
        opened = f"struct(max(_ls_base) + 1 AS a, {last} AS b)"
        return (
            f"SELECT _ls_gid AS gid{groups}, max(_ls_v) AS v, max(_ls_first) AS first, "
            f"filter(array({opened}), r -> r.a <= r.b) AS fires, "
            f"collect_list(struct(_ls_k AS a, _ls_k AS b)) FILTER (WHERE _ls_late) AS refired "
            f"FROM {updated} GROUP BY _ls_gid"
        )

    def early_sql(self, fired: str, state: str, *, anew: bool = False, shown: str | None = None) -> str:
        """Return SQL of a detection result with what fires by other events than a window's closing.

        Those are changes of open windows, or openings; where the clock closes windows rows fire nothing.
        ``anew``: the old rows of open windows go, whether they have new ones or not. ``shown`` is SQL of
        (gid, lows ARRAY<BIGINT µs>): the open windows that the output has rows of, which come anew.
        """
        options, grid, first = self.stream.definition.options, self.stream.grid, "first"
        watermark = f"(newest - {self.stream.watermark_delay}L)"
        before = {"first": "first_before", "newest": "newest_before"}
        lows, joined = "CAST(NULL AS ARRAY<BIGINT>)", ""
        if shown is not None:
            lows, joined = "w.lows", f" LEFT JOIN ({shown}) w ON f.gid = w.gid"
        known = "".join(
            f", coalesce(lag(f.{name}) OVER (PARTITION BY f.gid ORDER BY f.v), s.{name}) AS {other}"
            for name, other in before.items()
        )
        more: list[str] = []
        retracted, first_retracted = "retracted", "first_retracted"
        last = "v = max(v) OVER (PARTITION BY gid)"
        begins = f"greatest({grid.closed(watermark, first)}, {grid.ended(first, first)}) + 1"
        if options.emission.at_once:
            more = [f"struct({begins} AS a, CASE WHEN {last} THEN {grid.begun('newest', first)} END AS b)"]
        elif options.emission.at_open:
            more = self._opening_ranges()
            if self.stream.deletes and not options.ignore_nodata:
                retracted = f"concat(retracted, {self.left_open_ranges()})"
        fires = "fires" if options.emission.at_close else _NO_RANGES
        if more:
            fires = f"concat({fires}, filter(array({', '.join(more)}), r -> r.a <= r.b))"
        if anew or shown is not None:
            first_retracted = "coalesce(known_first, first_retracted)"
            went = self._open_range("known_newest", "known_first")
            if shown is not None:
                numbers = self._numbers_sql("lows", first)
                still = f"filter({numbers}, r -> r.a >= {begins})"
                fires = f"concat({fires}, CASE WHEN {last} THEN {still} ELSE {_NO_RANGES} END)"
                went = self._numbers_sql("lows", "known_first")
            retracted = f"CASE WHEN {last} THEN concat(retracted, {went}) ELSE retracted END"
        ranges = "concat(fires, refired)"
        own = "first_before, newest_before, known_first, known_newest, lows, lowest, highest"
        return (
            f"SELECT * EXCEPT ({own}), "
            f"aggregate({ranges}, 0L, (n, r) -> n + r.b - r.a + 1) AS windows, "
            f"{grid.low('lowest', first)} AS low, {grid.high('highest', first)} AS high FROM ("
            f"SELECT *, array_min(transform({ranges}, r -> r.a)) AS lowest, "
            f"array_max(transform({ranges}, r -> r.b)) AS highest FROM ("
            f"SELECT * EXCEPT (fires, retracted, first_retracted, windows, low, high), {fires} AS fires, "
            f"{retracted} AS retracted, {first_retracted} AS first_retracted FROM ("
            f"SELECT f.*{known}, s.first AS known_first, s.newest AS known_newest, {lows} AS lows "
            f"FROM {fired} f LEFT JOIN {state} s ON f.gid = s.gid{joined})))"
        )

    def _opening_ranges(self) -> list[str]:
        """Return SQL of the ranges of windows that open, each (a, b), over groups now and ``_before``.

        Where windows without rows do not count, all that are open come anew: their rows come and go.
        """
        options, grid, first = self.stream.definition.options, self.stream.grid, "first"
        watermark, mark_before = (
            f"(newest{when} - {self.stream.watermark_delay}L)" for when in ("", "_before")
        )
        base = grid.ended(first, first)
        begun_before = f"coalesce({grid.begun(mark_before, 'first_before')}, {base})"
        lower = [base]
        if not options.ignore_nodata:
            lower.append(begun_before)
        if options.emission.at_close:
            lower.append(grid.closed(watermark, first))
        elif options.ignore_nodata:
            lower.append(f"coalesce({grid.closed(mark_before, 'first_before')}, {base})")
        earlier = f"least({grid.ended('first_before', 'first_before')}, {begun_before})"
        return [
            f"struct(greatest({', '.join(lower)}) + 1 AS a, {grid.begun(watermark, first)} AS b)",
            f"struct({base} + 1 AS a, CASE WHEN first_before IS NOT NULL THEN {earlier} END AS b)",
        ]

    def left_open_ranges(self) -> str:
        """Return SQL of the ranges of open windows that the watermark, or the group's first row, has left.

        It is over (first, newest) of groups as they are now, and with ``_before`` as they were.
        """
        grid, first = self.stream.grid, "first_before"
        watermark, mark_before = (
            f"(newest{when} - {self.stream.watermark_delay}L)" for when in ("", "_before")
        )
        lowest = f"greatest({grid.closed(mark_before, first)}, {grid.ended(first, first)})"
        begun = grid.begun(mark_before, first)
        behind = f"struct(greatest({lowest}, {grid.begun(watermark, 'first')}) + 1 AS a, {begun} AS b)"
        before = f"struct({lowest} + 1 AS a, least({begun}, {grid.ended('first', 'first')}) AS b)"
        # Of a group without rows both are the same.
        ranges = f"CASE WHEN first IS NULL THEN array({behind}) ELSE array({behind}, {before}) END"
        return f"filter({ranges}, r -> r.a <= r.b)"

    def _open_range(self, newest: str, first: str) -> str:
        """Return SQL of the range of a group's windows that have begun and are not closed yet."""
        watermark = f"({newest} - {self.stream.watermark_delay}L)"
        upto = newest if self.stream.emission.at_once else watermark
        grid = self.stream.grid
        a = f"greatest({grid.closed(watermark, first)}, {grid.ended(first, first)}) + 1"
        return f"filter(array(struct({a} AS a, {grid.begun(upto, first)} AS b)), r -> r.a <= r.b)"

    def _numbers_sql(self, lows: str, first: str) -> str:
        """Return SQL of the ranges of the windows that begin at instants of an array, which may be NULL."""
        k = self.stream.grid.begun("l", first)
        ranges = f"transform(coalesce({lows}, array()), l -> struct({k} AS a, {k} AS b))"
        return f"filter({ranges}, r -> r.a <= r.b)"
