"""SQL of the rows that are cut into windows, and of these with their placeholders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.compute.windows.calculation import ROWS
from lakestream.engine.windows.rows.policy import keeps_expired

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakestream.engine.streams.stream import Stream


@dataclass(frozen=True)
class RowQueries:
    """The queries of one stream."""

    stream: Stream

    def cut_rows_sql(self, cuts: str) -> str:
        """Return SQL of the registered rows to cut (_ls_gid, _ls_ts, _ls_x1, …).

        ``cuts`` is a view of (gid, from_us, upto, mark, known BIGINT µs): the rows from ``from_us`` to
        ``upto``, both included, where ``known`` is where the first window begins, if that is known; where
        the stream keeps them, also of the instants of expired rows, which do not cut.
        """
        # Of all functions that look into an array DuckDB has these with the same meaning.
        expired = "size(filter(f.expired, at -> at = r._ls_ts)) = 0"
        counting = f" AND {expired}" if keeps_expired(self.stream) else ""
        columns = "".join(f", r.{name}" for name in self._looked_at)
        same = "f.gid = r._ls_gid"
        return (
            f"SELECT r._ls_gid, r._ls_ts, f.mark AS _ls_mark, f.known AS _ls_known{columns} "
            f"{self._rows_to_cut(self._looked_at, cuts, same, 'upto')}{counting}"
        )

    def rows_in_runs_sql(self, cuts: str) -> str:
        """Return SQL of the registered rows to cut with all they have, each with its window's number.

        ``cuts`` has counted BIGINT, safe BIGINT µs and the group columns besides: see :meth:`Cut.runs_sql`.
        Rows find their group by these: that takes less than the number of each row's group.
        """
        assert self.stream.cut is not None
        groups = dict(zip(self.stream.group_columns, self.stream.groups, strict=True))
        same = " AND ".join(f"f.{name} <=> r.{name}" for name in groups) or "f.gid = r._ls_gid"
        others = f"r.* EXCEPT ({', '.join(['_ls_gid', *groups])})"
        known = "f.gid AS _ls_gid, f.counted AS _ls_counted, r._ls_ts > f.safe AS _ls_is_new"
        rows = self._rows_to_cut(groups | self._looked_at, cuts, same, "mark")
        return self.stream.cut.runs_sql(f"SELECT {others}, {known} {rows}")

    @property
    def _looked_at(self) -> dict[str, str]:
        """SQL over a row of what a cut looks at, by its names."""
        assert self.stream.cut is not None
        expressions = self.stream.cut.looked_up
        return {"_ls_x1": "true"} if self.stream.cut.counts and not expressions else expressions

    def _rows_to_cut(self, looked_up: Mapping[str, str], cuts: str, same: str, upto: str) -> str:
        listed = "".join(f", ({sql}) AS {name}" for name, sql in looked_up.items())
        return (
            f"FROM (SELECT *{listed} FROM {ROWS}) r JOIN {cuts} f ON {same} "
            f"WHERE r._ls_ts BETWEEN f.from_us AND f.{upto}"
        )

    def cut_windows_sql(self, fired: str, clock_us: int, more: str = "") -> str:
        """Return SQL of windows with their placeholders, from (gid, groups, k, c, low, high, opening).

        ``more`` are columns that are passed on.
        """
        groups = "".join(f", {name}" for name in self.stream.group_columns)
        local = (
            f", {clock_us * 1000}L AS _tlocaltime" if "_tlocaltime" in self.stream.calculation.used else ""
        )
        passed = f", {more}" if more else ""
        last = "CASE WHEN opening THEN low ELSE high - 1 END"
        return (
            f"SELECT gid AS _ls_gid, k AS _ls_k, c AS _ls_c{groups}, low AS _ls_low, high AS _ls_high, "
            f"timestamp_micros(low) AS _twstart, timestamp_micros({last}) AS _twend, "
            f"({last} - low) div 1000L AS _twduration{local}, gid AS _tgrpid{passed} FROM {fired}"
        )
