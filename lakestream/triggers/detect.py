"""Which windows fire: changed rows and group state in, firings and the next state out, set-wise.

The rules (TDengine A3, A4, A7), each commit taken as a set and judged against the commits before it:

* mark = newest event time of the group − WATERMARK;
* a group's first window is the earliest that ends after its first row;
* a window fires in the commit in which the watermark passes its end;
* a row that falls into a window that has fired already is late: by default that window of INTERVAL
  fires again in the commit that brought the row, a late row of SLIDING is ignored;
* a late row before the group's first window makes every window from its own on fire;
* a row older than the group's newest one by more than EXPIRED_TIME does nothing at all;
* in the classic syntax a late row opens the windows that it falls into and that have not closed.

Under EXACT (lakestream's own) first and newest are those of the source as it is, and so are the windows:
:class:`NetDetection` compares before and after, whatever changes lie between.

State is two instants a group (first, newest), so it is a function of the history and O(1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lakestream.triggers.grid import Grid

WIDE = 10_000
"""Windows of a range that are listed one by one though only those with rows count."""


def numbered_sql(columns: str, ranges: str, relation: str) -> str:
    """Return SQL of a relation's rows, once for each number (k) of the ranges that ``ranges`` lists."""
    ranged = f"SELECT {columns}, inline({ranges}) AS (a, b) FROM {relation}"
    return f"SELECT {columns}, explode(sequence(a, b)) AS k FROM ({ranged}) WHERE a <= b"


class _Firings:
    """What both detections share: the windows of a result."""

    grid: Grid
    groups: tuple[str, ...]

    def windows_sql(self, fired: str, *, newest: bool = False, rows: str = "") -> str:
        """Return the SQL that lists the windows to compute, once each, from a detection result.

        ``rows`` is a relation (_ls_gid BIGINT, _ls_ts BIGINT µs) where only windows with rows count: of a
        wide range those alone are listed. The result: gid, group columns, k BIGINT, c BIGINT (the commit
        that fired it last), first, refired (BOOLEAN: it had fired before); with ``newest`` that of the group.
        """
        names = "".join(f", {name}" for name in self.groups) + (", newest" if newest else "")
        numbered = f"SELECT gid{names}, v, first, refired, explode(sequence(a, b)) AS k FROM ranges"
        if rows:
            narrow, wide = f"{numbered} WHERE b - a < {WIDE}L", self._held(names, rows)
            numbered = f"{narrow} UNION ALL {wide}"
        return _WINDOWS.format(
            fired=fired,
            names=names,
            numbered=numbered,
            max_newest=", max(newest) AS newest" if newest else "",
            any_groups="".join(f", any_value({name}) AS {name}" for name in self.groups),
            exists=self.grid.exists("k"),
        )

    def _held(self, names: str, rows: str) -> str:
        """Return SQL of the windows of wide ranges that hold rows."""
        grid, at = self.grid, ("_ls_ts", "first")
        return (
            f"SELECT gid{names}, v, first, refired, k FROM ("
            f"SELECT f.*, {grid.holding(*at)} AS k FROM ranges f "
            f"JOIN (SELECT _ls_gid, _ls_ts FROM {rows}) r ON r._ls_gid = f.gid "
            f"WHERE b - a >= {WIDE}L AND _ls_ts >= {grid.low('a', 'first')} AND "
            f"_ls_ts < {grid.high('b', 'first')} AND {grid.ended(*at)} < {grid.begun(*at)}) "
            f"WHERE k BETWEEN a AND b"
        )

    def refired_sql(self, fired: str) -> str:
        """Return the SQL that lists the windows that had fired and fire again: gid, low BIGINT µs."""
        numbered = numbered_sql("gid, first", "refired", fired)
        return (
            f"SELECT DISTINCT gid, {self.grid.low('k', 'first')} AS low FROM ({numbered}) "
            f"WHERE {self.grid.exists('k')}"
        )

    def retracted_sql(self, fired: str) -> str:
        """Return the SQL that lists the windows that are no more: gid, low BIGINT µs, high.

        ``high`` is NULL but for a wide range, of which it is the start of the last window.
        """
        low, high = (self.grid.low(f"r.{end}", "first_retracted") for end in "ab")
        exists = self.grid.exists("r.a")
        return _RETRACTED.format(fired=fired, wide=WIDE, low=low, high=high, exists=exists)


@dataclass(frozen=True)
class Detection(_Firings):
    """How a stream detects firings, commit by commit. ``groups`` names its group columns (g1, g2, …).

    ``watermark_delay`` and ``expiry`` (None: rows never expire) are in microseconds; ``refires`` says whether
    a written row makes windows that have fired fire again, ``deletes`` whether a deleted one does,
    ``opens`` which rows open windows: those beyond the watermark, those in windows not closed, or any.
    """

    grid: Grid
    groups: tuple[str, ...]
    watermark_delay: int
    refires: bool
    deletes: bool = False
    expiry: int | None = None
    opens: Literal["beyond", "not closed", "any"] = "beyond"

    def sql(self, changes: str, state: str) -> str:
        """Return the SQL that turns changes and state into one row per group and commit.

        ``changes`` is a relation (gid BIGINT, group columns, ts BIGINT µs, v BIGINT commit, kept
        BOOLEAN: false for a row that went, which moves no watermark, touches BOOLEAN: it makes windows fire
        again, expires BOOLEAN: it may be too old to count); ``state`` one of (gid, group columns, first
        BIGINT µs, newest BIGINT µs).
        The result: gid, group columns, v, first, newest (after that commit), fires (array of
        ``struct<a, b>``, windows a to b inclusive), refired (the same for windows fired before), retracted
        (none here), first_retracted, rows, late (rows that fell into windows that had fired), windows (how
        many fire), low and high (µs, the span of all of them; NULL when none fires).
        """
        mark_before = f"(newest_before - {self.watermark_delay}L)"
        return _DETECT.format(
            changes=changes,
            state=state,
            groups="".join(f", {name}" for name in self.groups),
            any_groups="".join(f", any_value({name}) AS {name}" for name in self.groups),
            span_a=self._chunk(f"{self.grid.ended('ts', 'ts')} + 1"),
            span_b=self._chunk(self.grid.begun("ts", "ts")),
            at=self._instant(),
            expired=f"coalesce(expires AND at < newest_before - {self.expiry}L, false)"
            if self.expiry is not None
            else "false",
            ended_first=self.grid.ended("first", "first"),
            ended_first_before=self.grid.ended("first_before", "first_before"),
            closed=self.grid.closed(f"(newest - {self.watermark_delay}L)", "first"),
            closed_before=self.grid.closed(mark_before, "first_before"),
            mark_before=mark_before,
            opens=self._opens(mark_before),
            earlier="true" if self.refires else "false",
            low=self.grid.low("lowest", "first"),
            high=self.grid.high("highest", "first"),
        )

    def without_first_sql(self, fired: str, state: str, extremes: str) -> str:
        """Return the SQL of a detection result after groups lost their first rows (DELETE_RECALC).

        ``extremes`` has their first rows now, NULL for a group without rows: windows before them go.
        """
        return _WITHOUT_FIRST.format(
            fired=fired,
            state=state,
            extremes=extremes,
            groups="".join(f", d.{name}" for name in self.groups),
            ended=self.grid.ended("e.first", "e.first"),
            ended_before=self.grid.ended("s.first", "s.first"),
            closed=self.grid.closed(f"(d.newest - {self.watermark_delay}L)", "coalesce(s.first, d.first)"),
            low=self.grid.low("lowest", "first_retracted"),
            high=self.grid.high("highest", "first_retracted"),
            names="".join(f", {name}" for name in self.groups),
        )

    def _opens(self, mark_before: str) -> str:
        """Return SQL of the first instant of rows that open windows (NULL: none of them does)."""
        if self.refires or self.opens == "any":
            return "low_ts"
        opens = f"low_ts > {mark_before}"
        if self.opens == "not closed":
            opens = f"{self.grid.begun('low_ts', 'low_ts')} > {self.grid.closed(mark_before, 'low_ts')}"
        return f"CASE WHEN newest_before IS NULL OR {opens} THEN low_ts END"

    def _chunk(self, number: str) -> str:
        """Rows are chunked by the windows they fall into, where they may make those fire again."""
        if not (self.refires or self.deletes):
            return "0L"
        return number if self.refires else f"CASE WHEN touches THEN {number} ELSE 0L END"

    def _instant(self) -> str:
        """Single instants tell which rows are late, where those open nothing, and which have expired."""
        return "0L" if self.expiry is None and self.refires else "ts"


@dataclass(frozen=True)
class NetDetection(_Firings):
    """How an EXACT stream detects firings: the windows there are after the changes against before.

    ``opens``: windows are there from their start on; with ``closes`` those that close, or are open again,
    fire anew.
    """

    grid: Grid
    groups: tuple[str, ...]
    watermark_delay: int
    opens: bool = False
    closes: bool = True

    def sql(self, changes: str, state: str, extremes: str, touched: str | None = None) -> str:
        """Return the SQL that turns net changes into one row per group; the result is as in Detection.

        ``changes`` is a relation (gid, group columns, ts BIGINT µs, v BIGINT the last commit, kept
        BOOLEAN: written or gone), ``state`` (gid, group columns, first, newest), ``extremes`` (gid,
        first, newest) has what the source says of groups that lost rows at one of their ends, NULLs for
        a group without rows. A group without rows comes with first and newest NULL. ``touched`` (gid, group
        columns, a, b) has windows that fire again whatever rows came: their numbers, or instants in them
        where numbers count from a group's first row.
        """
        depends = self.grid.depends_on_first
        ended = self.grid.ended
        span = ("ts", "ts") if depends else (f"{ended('ts', 'ts')} + 1", self.grid.begun("ts", "ts"))
        number_a = f"{ended('s.a', 'first')} + 1" if depends else "s.a"
        number_b = self.grid.begun("s.b", "first") if depends else "s.b"
        groups = "".join(f", {name}" for name in self.groups)
        hits = f"SELECT gid{groups}, v, ts, kept, {span[0]} AS a, {span[1]} AS b FROM {changes}"
        if touched is not None:
            known = "CAST(NULL AS BIGINT) AS v, CAST(NULL AS BIGINT) AS ts, false AS kept"
            hits += f" UNION ALL SELECT gid{groups}, {known}, a, b FROM {touched}"
        origins = (self.grid.low("0", "first"), self.grid.low("0", "first_before"))
        moved = " <> ".join(origins) if depends else "false"
        mark, mark_before = (f"(newest{when} - {self.watermark_delay}L)" for when in ("", "_before"))

        def numbered(spans: str) -> str:
            return f"transform({spans}, s -> struct({number_a} AS a, {number_b} AS b))"

        last = self.grid.begun if self.opens else self.grid.closed
        return _NET.format(
            hits=hits,
            state=state,
            extremes=extremes,
            groups=groups,
            of_changes="".join(f", c.{name}" for name in self.groups),
            any_groups="".join(f", any_value({name}) AS {name}" for name in self.groups),
            open=f"{ended('first', 'first')} + 1",
            open_before=f"{ended('first_before', 'first_before')} + 1",
            last=last(mark, "first"),
            last_before=last(mark_before, "first_before"),
            closed=self.grid.closed(mark, "first"),
            closed_before=self.grid.closed(mark_before, "first_before"),
            hit=f"concat({numbered('spans')}, {_CROSSED})"
            if self.opens and self.closes
            else numbered("spans"),
            hit_by_rows=numbered("came"),
            moved=moved,
            low=self.grid.low("lowest", "first"),
            high=self.grid.high("highest", "first"),
        )


_DETECT = """
WITH chunk AS (
  SELECT gid{groups}, v, touches, expires, {span_a} AS span_a, {span_b} AS span_b, {at} AS at,
    min(ts) FILTER (WHERE kept) AS low_ts, max(ts) FILTER (WHERE kept) AS high_ts,
    count_if(kept) AS n
  FROM {changes} GROUP BY ALL
), history AS (
  SELECT gid{groups}, v, touches, expires, span_a, span_b, at, low_ts, high_ts, n FROM chunk
  UNION ALL
  SELECT gid{groups}, -1L, false, false, NULL, NULL, NULL, first, newest, 0L FROM {state}
), moved AS (
  SELECT *, max(high_ts) OVER before AS newest_before, max(high_ts) OVER upto AS newest
  FROM history
  WINDOW before AS (PARTITION BY gid ORDER BY v RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
    upto AS (PARTITION BY gid ORDER BY v RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
), opened AS (
  SELECT *, min({opens}) OVER before AS first_before, min({opens}) OVER upto AS first
  FROM moved WHERE NOT {expired}
  WINDOW before AS (PARTITION BY gid ORDER BY v RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
    upto AS (PARTITION BY gid ORDER BY v RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
), judged AS (
  SELECT *, {closed_before} AS closed_before FROM opened WHERE v >= 0
), judged_rows AS (
  SELECT *, coalesce(CASE WHEN touches THEN span_a <= span_b AND span_a <= closed_before
    ELSE high_ts <= {mark_before} END, false) AS is_late FROM judged
), commits AS (
  SELECT gid{any_groups}, v, any_value(first) AS first, any_value(newest) AS newest,
    any_value(first_before) AS first_before, any_value(closed_before) AS closed_before,
    CAST(sum(n) AS BIGINT) AS rows, CAST(coalesce(sum(n) FILTER (WHERE is_late), 0) AS BIGINT) AS late,
    collect_set(struct(span_a AS a, least(span_b, closed_before) AS b))
      FILTER (WHERE is_late AND touches) AS refired
  FROM judged_rows GROUP BY gid, v
), bounds AS (
  SELECT *, {ended_first} AS ended_first, {ended_first_before} AS ended_first_before, {closed} AS closed
  FROM commits WHERE first IS NOT NULL
), firings AS (
  SELECT gid{groups}, v, first, newest, rows, late, refired,
    filter(array(
      struct(greatest(ended_first, coalesce(closed_before, ended_first)) + 1 AS a, closed AS b),
      struct(ended_first + 1 AS a, CASE WHEN {earlier} THEN least(ended_first_before, closed_before) END AS b)
    ), r -> r.a <= r.b) AS fires
  FROM bounds
), spans AS (
  SELECT *,
    array_min(transform(concat(fires, refired), r -> r.a)) AS lowest,
    array_max(transform(concat(fires, refired), r -> r.b)) AS highest
  FROM firings
)
SELECT gid{groups}, v, first, newest, fires, refired,
  CAST(array() AS ARRAY<STRUCT<a: BIGINT, b: BIGINT>>) AS retracted, first AS first_retracted, rows, late,
  aggregate(concat(fires, refired), 0L, (n, r) -> n + r.b - r.a + 1) AS windows, {low} AS low, {high} AS high
FROM spans
"""

_WITHOUT_FIRST = """
WITH known AS (
  SELECT d.gid{groups}, d.v, CASE WHEN e.gid IS NULL THEN d.first ELSE e.first END AS first, d.newest,
    d.fires, d.refired, coalesce(s.first, d.first) AS first_retracted, d.rows, d.late,
    CASE WHEN e.gid IS NOT NULL THEN coalesce({ended}, {closed}) END AS start,
    {ended_before} AS start_before, {closed} AS closed
  FROM {fired} d LEFT JOIN {state} s ON d.gid = s.gid LEFT JOIN {extremes} e ON d.gid = e.gid
), cut AS (
  SELECT *,
    filter(transform(fires, r -> struct(greatest(r.a, coalesce(start + 1, r.a)) AS a, r.b AS b)),
      r -> r.a <= r.b) AS fires_left,
    filter(transform(refired, r -> struct(greatest(r.a, coalesce(start + 1, r.a)) AS a, r.b AS b)),
      r -> r.a <= r.b) AS refired_left,
    filter(array(struct(start_before + 1 AS a,
      CASE WHEN start IS NOT NULL THEN least(start, closed) END AS b)), r -> r.a <= r.b) AS retracted
  FROM known
), spans AS (
  SELECT *,
    array_min(transform(concat(fires_left, refired_left), r -> r.a)) AS lowest,
    array_max(transform(concat(fires_left, refired_left), r -> r.b)) AS highest
  FROM cut
)
SELECT gid{names}, v, first, newest, fires_left AS fires, refired_left AS refired, retracted, first_retracted,
  rows, late, aggregate(concat(fires_left, refired_left), 0L, (n, r) -> n + r.b - r.a + 1) AS windows,
  {low} AS low, {high} AS high
FROM spans
"""

_NET = """
WITH touched AS (
  SELECT gid{any_groups}, coalesce(max(v), 0L) AS v, min(ts) FILTER (WHERE kept) AS low_ts,
    max(ts) FILTER (WHERE kept) AS high_ts, count_if(kept) AS n,
    collect_set(struct(a, b)) AS spans, collect_set(struct(a, b)) FILTER (WHERE v IS NOT NULL) AS came
  FROM ({hits}) GROUP BY gid
), known AS (
  SELECT c.gid{of_changes}, c.v, c.n, c.spans, c.came, s.first AS first_before, s.newest AS newest_before,
    CASE WHEN e.gid IS NULL THEN least(s.first, c.low_ts) ELSE e.first END AS first,
    CASE WHEN e.gid IS NULL THEN greatest(s.newest, c.high_ts) ELSE e.newest END AS newest
  FROM touched c LEFT JOIN {state} s ON c.gid = s.gid LEFT JOIN {extremes} e ON c.gid = e.gid
), bounds AS (
  SELECT *, coalesce({open}, 1L) AS open, coalesce({last}, 0L) AS last, coalesce({closed}, 0L) AS closed,
    coalesce({open_before}, 1L) AS open_before, coalesce({last_before}, 0L) AS last_before,
    coalesce({closed_before}, 0L) AS closed_before,
    coalesce({moved}, false) AS moved
  FROM known
), numbered AS (
  SELECT *, last_before < open_before OR last < open OR moved AS apart,
    {hit} AS hit, {hit_by_rows} AS hit_by_rows
  FROM bounds
), ranges AS (
  SELECT *,
    filter(CASE WHEN apart THEN array(struct(open AS a, last AS b)) ELSE array(
      struct(open AS a, least(last, open_before - 1) AS b),
      struct(greatest(open, last_before + 1) AS a, last AS b)) END, r -> r.a <= r.b) AS fires,
    filter(CASE WHEN apart THEN array(struct(open_before AS a, last_before AS b)) ELSE array(
      struct(open_before AS a, least(last_before, open - 1) AS b),
      struct(greatest(open_before, last + 1) AS a, last_before AS b)) END, r -> r.a <= r.b) AS retracted,
    CASE WHEN apart THEN CAST(array() AS ARRAY<STRUCT<a: BIGINT, b: BIGINT>>) ELSE filter(transform(hit,
      s -> struct(greatest(s.a, open, open_before) AS a, least(s.b, last, last_before) AS b)),
      r -> r.a <= r.b) END AS refired,
    CASE WHEN apart THEN 0L ELSE CAST(size(filter(hit_by_rows,
      s -> greatest(s.a, open, open_before) <= least(s.b, closed, closed_before))) AS BIGINT) END AS late
  FROM numbered
), spans AS (
  SELECT *,
    array_min(transform(concat(fires, refired), r -> r.a)) AS lowest,
    array_max(transform(concat(fires, refired), r -> r.b)) AS highest
  FROM ranges
)
SELECT gid{groups}, v, first, newest, fires, refired, retracted, first_before AS first_retracted, n AS rows,
  late,
  aggregate(concat(fires, refired), 0L, (n, r) -> n + r.b - r.a + 1) AS windows, {low} AS low, {high} AS high
FROM spans
"""

_CROSSED = "array(struct(least(closed, closed_before) + 1 AS a, greatest(closed, closed_before) AS b))"
"""The windows that close, and those that had closed and are open again."""

_WINDOWS = """
WITH ranges AS (
  SELECT gid{names}, v, first, inline(concat(
    transform(fires, r -> struct(r.a AS a, r.b AS b, false AS refired)),
    transform(refired, r -> struct(r.a AS a, r.b AS b, true AS refired)))) AS (a, b, refired)
  FROM {fired}
)
SELECT gid{any_groups}, k, max(v) AS c, min(first) AS first, bool_or(refired) AS refired{max_newest}
FROM ({numbered}) WHERE {exists} GROUP BY gid, k
"""

_RETRACTED = """
SELECT gid, {low} AS low, CASE WHEN r.b > r.a THEN {high} END AS high FROM (
  SELECT gid, first_retracted, explode(flatten(transform(retracted, r -> CASE
    WHEN r.b - r.a >= {wide}L THEN array(r)
    ELSE transform(sequence(r.a, r.b), k -> struct(k AS a, k AS b)) END))) AS r FROM {fired}
) WHERE r.b > r.a OR {exists}
"""
