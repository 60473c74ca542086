"""Which windows fire: changed rows and group state in, firings and the next state out, set-wise.

The rules (TDengine A3, A4, A7), each commit taken as a set and judged against the commits before it:

* mark = newest event time of the group − WATERMARK;
* a group's first window is the earliest that ends after its first row;
* a window fires in the commit in which the mark passes its end;
* a row that falls into a window that has fired already is late: by default that window of INTERVAL
  fires again in the commit that brought the row, a late row of SLIDING is ignored;
* a late row before the group's first window makes every window from its own on fire.

State is two instants a group (first, newest), so it is a function of the history and O(1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakestream.triggers.grid import Grid

STATE_COMMIT = -1
"""The commit number under which the state before the tick takes part."""


@dataclass(frozen=True)
class Detection:
    """How a stream detects firings. ``groups`` are the names of its group columns (g1, g2, …).

    ``watermark`` is in microseconds; ``refires`` says whether a late row makes its windows fire again.
    """

    grid: Grid
    groups: tuple[str, ...]
    watermark: int
    refires: bool

    def sql(self, changes: str, state: str) -> str:
        """Return the SQL that turns changes and state into one row per group and commit.

        ``changes`` is a relation (gid BIGINT, group columns, ts BIGINT µs, v BIGINT commit, kept
        BOOLEAN: false for the old image of an update, which touches windows and moves no mark);
        ``state`` one of (gid, group columns, first BIGINT µs, newest BIGINT µs).
        The result: gid, group columns, v, first, newest (after that commit), fires (array of
        ``struct<a, b>``, windows a to b inclusive), again (the same for windows fired before), rows,
        late (rows that fell into windows that had fired), windows (how many fire), low and high (µs, the
        span of all of them; NULL when none fires).
        """
        return _DETECT.format(
            changes=changes,
            state=state,
            groups="".join(f", {name}" for name in self.groups),
            any_groups="".join(f", any_value({name}) AS {name}" for name in self.groups),
            span_a=self._chunk_first(),
            span_b=self._chunk_last(),
            ended_first=self.grid.ended("first", "first"),
            ended_first_before=self.grid.ended("first_before", "first_before"),
            closed=self.grid.closed(f"(newest - {self.watermark}L)", "first"),
            closed_before=self.grid.closed(f"(newest_before - {self.watermark}L)", "first_before"),
            is_late=self._is_late(),
            opens=self._opens(),
            refires=str(self.refires).lower(),
            low=self.grid.low("lowest", "first"),
            high=self.grid.high("highest", "first"),
        )

    def _chunk_first(self) -> str:
        """Rows are chunked by the windows they fall into, where late rows make those fire again.

        Otherwise only a watermark needs the single instants: a row may arrive before the group's
        first one and still not be late.
        """
        if self.refires:
            return f"{self.grid.ended('ts', 'ts')} + 1"
        return "ts" if self.watermark else "0L"

    def _chunk_last(self) -> str:
        return self.grid.begun("ts", "ts") if self.refires else "0L"

    def _is_late(self) -> str:
        if self.refires:
            return "span_a <= span_b AND span_a <= closed_before"
        return f"high_ts <= newest_before - {self.watermark}L"

    def _opens(self) -> str:
        """Return SQL for the earliest row that can be the group's first one: late ones only refire."""
        if self.refires:
            return "low_ts"
        return (
            f"CASE WHEN newest_before IS NULL OR low_ts > newest_before - {self.watermark}L THEN low_ts END"
        )

    def windows_sql(self, fired: str) -> str:
        """Return the SQL that lists the windows to compute, once each, from a detection result.

        The result: gid, group columns, k BIGINT, c BIGINT (the commit that fired it last), first,
        again (BOOLEAN: a late row made it fire after it had fired before).
        """
        return _WINDOWS.format(
            fired=fired,
            groups="".join(f", {name}" for name in self.groups),
            any_groups="".join(f", any_value({name}) AS {name}" for name in self.groups),
            exists=self.grid.exists("k"),
        )


_DETECT = """
WITH chunk AS (
  SELECT gid{groups}, v, {span_a} AS span_a, {span_b} AS span_b,
    min(ts) FILTER (WHERE kept) AS low_ts, max(ts) FILTER (WHERE kept) AS high_ts,
    count_if(kept) AS n
  FROM {changes} GROUP BY ALL
), history AS (
  SELECT gid{groups}, v, span_a, span_b, low_ts, high_ts, n FROM chunk
  UNION ALL
  SELECT gid{groups}, -1L, NULL, NULL, first, newest, 0L FROM {state}
), moved AS (
  SELECT *, max(high_ts) OVER before AS newest_before, max(high_ts) OVER upto AS newest
  FROM history
  WINDOW before AS (PARTITION BY gid ORDER BY v RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
    upto AS (PARTITION BY gid ORDER BY v RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
), opened AS (
  SELECT *, min({opens}) OVER before AS first_before, min({opens}) OVER upto AS first
  FROM moved
  WINDOW before AS (PARTITION BY gid ORDER BY v RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
    upto AS (PARTITION BY gid ORDER BY v RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
), judged AS (
  SELECT *, {closed_before} AS closed_before FROM opened WHERE v >= 0
), judged_rows AS (
  SELECT *, {is_late} AS is_late FROM judged
), commits AS (
  SELECT gid{any_groups}, v, any_value(first) AS first, any_value(newest) AS newest,
    any_value(first_before) AS first_before, any_value(closed_before) AS closed_before,
    CAST(sum(n) AS BIGINT) AS rows, CAST(coalesce(sum(n) FILTER (WHERE is_late), 0) AS BIGINT) AS late,
    collect_set(struct(span_a AS a, least(span_b, closed_before) AS b))
      FILTER (WHERE is_late AND {refires}) AS again
  FROM judged_rows GROUP BY gid, v
), bounds AS (
  SELECT *, {ended_first} AS ended_first, {ended_first_before} AS ended_first_before, {closed} AS closed
  FROM commits WHERE first IS NOT NULL
), firings AS (
  SELECT gid{groups}, v, first, newest, rows, late, again,
    filter(array(
      struct(greatest(ended_first, coalesce(closed_before, ended_first)) + 1 AS a, closed AS b),
      struct(ended_first + 1 AS a, least(ended_first_before, closed_before) AS b)
    ), r -> r.a <= r.b) AS fires
  FROM bounds
), spans AS (
  SELECT *,
    array_min(transform(concat(fires, again), r -> r.a)) AS lowest,
    array_max(transform(concat(fires, again), r -> r.b)) AS highest
  FROM firings
)
SELECT gid{groups}, v, first, newest, fires, again, rows, late,
  aggregate(concat(fires, again), 0L, (n, r) -> n + r.b - r.a + 1) AS windows, {low} AS low, {high} AS high
FROM spans
"""

_WINDOWS = """
SELECT gid{any_groups}, k, max(v) AS c, min(first) AS first, bool_or(again) AS again
FROM (
  SELECT gid{groups}, v, first, false AS again,
    explode(flatten(transform(fires, r -> sequence(r.a, r.b)))) AS k
  FROM {fired}
  UNION ALL
  SELECT gid{groups}, v, first, true AS again,
    explode(flatten(transform(again, r -> sequence(r.a, r.b)))) AS k
  FROM {fired}
) WHERE {exists} GROUP BY gid, k
"""
