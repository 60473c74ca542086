"""The first and newest rows of groups that lost rows at one of their ends, asked of the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.compute.windows.calculation import ROWS
from lakestream.engine.reading.relations import EVER, EXTREMES, by_size
from lakestream.engine.reading.transport import merge_spans
from lakestream.engine.windows.totals import spans_of
from lakestream.storage.rows.views import view_of_rows, view_of_sql

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.reading.relations import Relations
    from lakestream.storage.rows.views import View


NO_EXTREMES = "SELECT 0L AS gid, 0L AS first, 0L AS newest WHERE false"
"""SQL of the ends where no group needs to be looked at."""

_SUSPECTS = "ls_suspects"
_NEAR_US = 3_600_000_000
"""How far from an end the next row is looked for before the whole table is."""


@dataclass
class Extremes:
    """Looks up what only the source knows: which rows stand at a group's ends now."""

    spark: SparkSession
    relations: Relations

    def none(self) -> View:
        """Register no ends: no group needs to be looked at."""
        return view_of_sql(self.spark, NO_EXTREMES, EXTREMES)

    def ends(self, changes: View, state: View, *, both: bool) -> View | None:
        """Register gid, first, newest (µs; NULL without rows) of the groups that need it; None for none.

        ``both`` ends are looked at, or the first one only.
        """
        suspects = self._suspects(changes, state, both=both) if self._may_shrink else None
        if suspects is None or suspects.num_rows == 0:
            return None
        looked_at = view_of_rows(self.spark, suspects, _SUSPECTS)
        found = self._ends(looked_at, self.relations, self._near(suspects, both=both))
        if found["first"].null_count or (both and found["newest"].null_count):
            found = self._ends(looked_at, by_size(self.relations, [EVER]), [EVER], reach=EVER[1] - EVER[0])
        return view_of_rows(self.spark, found, EXTREMES)

    @property
    def _may_shrink(self) -> bool:
        return not self.relations.plan.appends_only

    def _suspects(self, changes: View, state: View, *, both: bool) -> pa.Table:
        """Return the groups that lost a row at an end, with the outermost instants they have ever had."""
        newest = "OR ts >= newest" if both else ""
        seen = "max(c.ts) FILTER (WHERE c.kept) OVER (PARTITION BY c.gid ORDER BY c.v"
        classified = (
            f"SELECT c.gid, s.newest, c.ts, c.kept, c.expires, "
            # A group may have come and gone within the tick.
            f"coalesce(s.first, min(c.ts) FILTER (WHERE c.kept) OVER (PARTITION BY c.gid)) AS first, "
            f"greatest(s.newest, {seen} RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS newest_before "
            f"FROM {changes} c LEFT JOIN {state} s ON s.gid = c.gid"
        )
        return self.spark.sql(
            f"SELECT gid, least(any_value(first), min(ts) FILTER (WHERE {self._opens})) AS low, "
            f"greatest(any_value(newest), max(ts) FILTER (WHERE kept)) AS high "
            f"FROM ({classified}) GROUP BY gid "
            f"HAVING bool_or(NOT kept AND NOT {self._expired} AND (ts <= first {newest}))"
        ).toArrow()

    @property
    def _opens(self) -> str:
        """Return SQL that is true for a row that may become its group's first one."""
        stream = self.relations.stream
        counts = f"kept AND NOT coalesce({self._expired}, false)"
        if stream.refires:
            return counts
        return f"{counts} AND (newest IS NULL OR ts > newest - {stream.watermark_delay}L)"

    @property
    def _expired(self) -> str:
        """Return SQL that is true for a change that was too old to count when its commit came."""
        expiry = self.relations.stream.expiry
        return "false" if expiry is None else f"(expires AND ts < newest_before - {expiry}L)"

    def _near(self, suspects: pa.Table, *, both: bool) -> list[tuple[int, int]]:
        import pyarrow.compute as pc

        low, high = suspects["low"], suspects["high"]
        spans = spans_of(low, pc.add(low, _NEAR_US))
        if both:
            spans = merge_spans([*spans, *spans_of(pc.subtract(high, _NEAR_US), pc.add(high, 1))])
        return spans

    def _ends(
        self, suspects: View, relations: Relations, spans: list[tuple[int, int]], reach: int = _NEAR_US
    ) -> pa.Table:
        """Return the ends of each suspect among the rows within reach of where it ended."""
        relations.rows_at(relations.plan.upto, spans)
        # A row before the first one that did not open a window, late or expired, does not take its place.
        near = f"r._ls_ts >= s.low AND r._ls_ts < s.low + {reach}L"
        return self.spark.sql(
            f"SELECT s.gid, min(r._ls_ts) FILTER (WHERE {near}) AS first, "
            f"max(r._ls_ts) FILTER (WHERE r._ls_ts > s.high - {reach}L) AS newest "
            f"FROM {suspects} s LEFT JOIN {ROWS} r ON r._ls_gid = s.gid GROUP BY s.gid"
        ).toArrow()
