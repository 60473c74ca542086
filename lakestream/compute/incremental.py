"""Windows kept up to date by partial aggregates: one query from changed rows to results and next state.

Changed rows are aggregated once, by group and window (sliding windows by pane), merged with what the
open windows had, and closed by the mark that the groups have reached. No row of the source is read
again, and nothing costs more than the change and the open windows of the groups.

It fits rows that are only added, aggregates that can be combined, and windows of which each row meets
at least one. A row that falls into a window that has fired is told apart, for the tick to compute that
window again from the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.calculation import ALIAS
from lakestream.compute.evaluate import Way, distinct_aggregates, over_nothing
from lakestream.compute.panes import partials
from lakestream.triggers.grid import DailyGrid, FixedGrid, Grid, LocalGrid, MonthGrid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakestream.compute.calculation import Calculation
    from lakestream.compute.panes import Partial, PartialColumn

ROW_COUNT = "_ls_n"
"""The column that counts a window's rows."""

RESULT = "_ls_due"
"""True for the rows that are results: a window that fires now."""


@dataclass(frozen=True)
class Incremental:
    """How a stream's calculation is kept up to date; see :func:`incremental` for when it can be.

    ``groups`` are the names of the group columns, ``group_id`` SQL of the group's number over them,
    ``watermark`` and ``expiry`` microseconds (None: rows never expire), ``follows`` whether late rows
    make their windows fire again, ``limit`` the most windows without rows in a row,
    ``types`` the types of the partial aggregates.
    """

    calculation: Calculation
    grid: Grid
    groups: tuple[str, ...]
    group_id: str
    watermark: int
    expiry: int | None
    follows: bool
    only_with_rows: bool
    limit: int
    types: Mapping[str, str]

    @property
    def _parts(self) -> list[Partial]:
        parts = partials(distinct_aggregates(self.calculation))
        assert parts is not None  # by incremental()
        return parts

    @property
    def _columns(self) -> list[PartialColumn]:
        return [column for part in self._parts for column in part.columns]

    @property
    def state_columns(self) -> tuple[str, ...]:
        """The columns of an open window: group, window, its rows, its partial aggregates."""
        return ("gid", *self.groups, "k", ROW_COUNT, *(column.name for column in self._columns))

    @property
    def _listed(self) -> str:
        return "".join(f", {name}" for name in self.groups)

    # --- the query ---

    def sql(self, rows: str, state: str | None, selected: str, *, opened: bool, clock_us: int) -> str:
        """Return the SQL over changed rows and state.

        ``rows`` is SQL of the changed rows: the source's columns, the group columns, _ls_ts BIGINT µs.
        ``state`` names a view of the groups (gid, group columns, k NULL, first, newest BIGINT µs) and,
        where ``opened``, of the open windows (``state_columns``, first and newest NULL); None for no
        group yet. ``selected`` is the select list of the output over an evaluation's result.

        The result has a row per group with changes and window: _ls_gid, group columns, _ls_k; first,
        newest, closed, done (windows up to it had fired or never will), first_before, closed_before of
        the group; _ls_fresh (changed rows in it that are in no earlier window), ``_ls_due`` (a result),
        _ls_open (it goes on), _ls_late (it had fired and has changed), _ls_ignored (rows that only a
        reading commit by commit can judge); ``_ls_n`` and the partial aggregates; and ``selected``.
        """
        marked = self._marked(rows, state, opened=opened)
        marked = f"SELECT * FROM ({marked}) WHERE lowest IS NOT NULL AND k IS NOT NULL"
        return self._told(self._filled(self._judged(marked)), selected, clock_us)

    def _told(self, windows: str, selected: str, clock_us: int) -> str:
        """Return SQL of the results of windows, and what the tick is told about each."""
        results = ", ".join(
            f"{self._result(projection).sql('spark')} AS c{number}"
            for number, projection in enumerate(self.calculation.query.selects, 1)
        )
        passed = f"_ls_gid{self._listed}, _ls_k, _ls_low, _ls_high"
        told = ", ".join((*_TOLD, ROW_COUNT, *(column.name for column in self._columns)))
        return (
            f"SELECT {passed}, {told}, {selected} FROM "
            f"(SELECT {passed}, {told}, {results} FROM ({self._placeholders(windows, clock_us)}) {ALIAS})"
        )

    def opened_sql(self, rows: str, state: str) -> str:
        """Return the SQL of the open windows, computed anew from rows of the source.

        ``rows`` are as in :meth:`sql`, all those of the open windows; ``state`` is a view of the groups.
        """
        closed = self.grid.closed(f"(s.newest - {self.watermark}L)", "s.first")
        merged = "".join(
            f", CAST({column.merged} AS {self.types[column.name]}) AS {column.name}"
            for column in self._columns
        )
        groups = "".join(f", r.{name}" for name in self.groups)
        return (
            f"SELECT r.gid{groups}, r.k, sum(r.n) AS {ROW_COUNT}{merged} "
            f"FROM (SELECT *, {self.group_id} AS gid FROM ({self._fallen(rows)})) r "
            f"JOIN {state} s ON r.gid = s.gid WHERE r.k > {closed} GROUP BY r.gid{groups}, r.k"
        )

    # --- in two steps, for many rows: the merged windows are kept, groups are judged apart ---

    def merged_sql(self, rows: str, state: str | None, *, opened: bool) -> str:
        """Return the SQL of the windows with changes or open, merged; arguments as in :meth:`sql`."""
        return self._merged(rows, state, opened=opened)

    def groups_sql(self, merged: str) -> str:
        """Return the SQL of the groups with changes, from a view of :meth:`merged_sql`: a row each.

        Beside the instants and window numbers of :meth:`sql` it has rows (changed) and windows (there).
        """
        summed = (
            f"SELECT gid{self._listed}, min(low) AS lowest, max(high) AS highest, "
            f"max(first_known) AS first_before, max(newest_known) AS newest_before, "
            f"sum(own) AS rows, count(k) AS windows FROM {merged} GROUP BY gid{self._listed} "
            f"HAVING min(low) IS NOT NULL"
        )
        return self._judged(summed)

    def spread_sql(self, merged: str, groups: str, selected: str, *, gaps: bool, clock_us: int) -> str:
        """Return the SQL that :meth:`sql` is, from views of the merged windows and the judged groups.

        ``gaps``: windows without rows fire too, and there are some.
        """
        known = ", ".join(f"g.{name}" for name in _JUDGED)
        names = "".join(f", g.{name}" for name in self.groups)
        own = "".join(f", m.{column.name}" for column in self._columns)
        listed = f"g.gid{names}, {known}, m.{ROW_COUNT}, m.own, m.low{own}"
        broadcast = "/*+ BROADCAST(g) */"
        rows = (
            f"SELECT {broadcast} {listed}, m.k AS _ls_k, true AS has FROM {merged} m "
            f"JOIN {groups} g ON m.gid = g.gid WHERE m.k IS NOT NULL"
        )
        if gaps:
            empty = (
                f"SELECT gid{self._listed}, {', '.join(_JUDGED)}, explode(sequence(done + 1, closed)) AS k "
                f"FROM {groups} WHERE closed > done"
            )
            rows += (
                f" UNION ALL SELECT {listed}, g.k AS _ls_k, false AS has FROM ({empty}) g "
                f"LEFT JOIN {merged} m ON m.gid = g.gid AND m.k = g.k WHERE m.gid IS NULL"
            )
        return self._told(f"SELECT *, {self._ignored()} AS ignored FROM ({rows})", selected, clock_us)

    # --- relations ---

    def _fallen(self, rows: str) -> str:
        """Return SQL of the rows by group and window: each with partial aggregates, or those of a pane."""
        groups = "".join(f"{name}, " for name in self.groups)
        pane = self.grid.pane
        if pane is None:
            own = "".join(f", {column.of_row} AS {column.name}" for column in self._columns)
            return (
                f"SELECT {groups}{self.grid.begun('_ls_ts', '_ls_ts')} AS k{own}, 1L AS n, 1L AS own, "
                f"_ls_ts AS low, _ls_ts AS high FROM ({rows})"
            )
        over_rows = "".join(f", {column.over_rows} AS {column.name}" for column in self._columns)
        names = "".join(f", {column.name}" for column in self._columns)
        first, last = pane.first_window("_ls_pane"), pane.last_window("_ls_pane")
        return (
            f"SELECT {groups}k{names}, n, CASE WHEN k = {first} THEN n ELSE 0L END AS own, low, high FROM "
            f"(SELECT *, explode(sequence({first}, {last})) AS k FROM ("
            f"SELECT {groups}{pane.number('_ls_ts')} AS _ls_pane{over_rows}, count(1) AS n, "
            f"min(_ls_ts) AS low, max(_ls_ts) AS high FROM ({rows}) GROUP BY {groups}_ls_pane))"
        )

    def _merged(self, rows: str, state: str | None, *, opened: bool) -> str:
        names = [column.name for column in self._columns]
        groups = "".join(f"{name}, " for name in self.groups)
        changed = (
            f"SELECT {groups}k{''.join(f', {name}' for name in names)}, n, own, low, high, "
            f"CAST(NULL AS BIGINT) AS first, CAST(NULL AS BIGINT) AS newest FROM ({self._fallen(rows)})"
        )
        parts = [changed]
        if state is not None:
            kept = "".join(f", {name if opened else 'NULL'} AS {name}" for name in names)
            n = ROW_COUNT if opened else "NULL"
            parts.append(f"SELECT {groups}k{kept}, {n} AS n, 0L, NULL, NULL, first, newest FROM {state}")
        merged = "".join(f", {column.merged} AS {column.name}" for column in self._columns)
        return (
            f"SELECT {self.group_id} AS gid, * FROM ("
            f"SELECT {groups}k{merged}, sum(n) AS {ROW_COUNT}, "
            f"sum(own) AS own, min(low) AS low, max(high) AS high, max(first) AS first_known, "
            f"max(newest) AS newest_known FROM ({' UNION ALL '.join(parts)}) GROUP BY {groups}k)"
        )

    def _marked(self, rows: str, state: str | None, *, opened: bool) -> str:
        """One window specification for all: Spark then sorts once."""
        frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
        group = f"OVER (PARTITION BY gid ORDER BY k {frame})"
        return (
            f"SELECT *, min(low) {group} AS lowest, max(high) {group} AS highest, "
            f"max(first_known) {group} AS first_before, max(newest_known) {group} AS newest_before, "
            f"lag(k) OVER (PARTITION BY gid ORDER BY k) AS before "
            f"FROM ({self._merged(rows, state, opened=opened)})"
        )

    def _judged(self, groups: str) -> str:
        mark, mark_before = f"(newest - {self.watermark}L)", f"(newest_before - {self.watermark}L)"
        return (
            f"SELECT *, greatest(start, coalesce(closed_before, start)) AS done FROM ("
            f"SELECT *, {self.grid.closed(mark, 'first')} AS closed, "
            f"{self.grid.closed(mark_before, 'first_before')} AS closed_before, "
            f"{self.grid.ended('first', 'first')} AS start, "
            f"{self.grid.ended('first_before', 'first_before')} AS start_before FROM ("
            f"SELECT *, least(lowest, first_before) AS first, greatest(highest, newest_before) AS newest "
            f"FROM ({groups})))"
        )

    def _ignored(self) -> str:
        """Return SQL that is true where rows of a window may not count."""
        ignored = "false" if self.follows else f"coalesce(low <= newest_before - {self.watermark}L, false)"
        if self.expiry is None:
            return ignored
        return f"({ignored} OR coalesce(low < newest_before - {self.expiry}L, false))"

    def _filled(self, judged: str) -> str:
        """Every row, and before it the windows without rows that fire now."""
        judged = f"SELECT *, {self._ignored()} AS ignored FROM ({judged})"
        if self.only_with_rows:
            return f"SELECT *, k AS _ls_k, true AS has FROM ({judged})"
        low = "(greatest(coalesce(before, done), done) + 1)"
        high = f"least(k - 1, closed, {low} + {self.limit}L)"
        numbers = (
            f"CASE WHEN {low} <= {high} THEN concat(sequence({low}, {high}), array(k)) ELSE array(k) END"
        )
        return f"SELECT *, _ls_k = k AS has FROM (SELECT *, explode({numbers}) AS _ls_k FROM ({judged}))"

    def _placeholders(self, windows: str, clock_us: int) -> str:
        """Return SQL of the windows with their placeholders, and what the tick is told about each."""
        k = "_ls_k"
        times = self.grid.placeholders(k, "first")
        marks = "".join(f", timestamp_micros({sql}) AS {name}" for name, sql in times.items())
        if "_twstart" in times:
            marks += f", ({times['_twend']} - {times['_twstart']}) div 1000L AS _twduration"
        if "_tlocaltime" in self.calculation.used:
            marks += f", {clock_us * 1000}L AS _tlocaltime"
        # The cast makes the fields of structs nullable: Arrow takes no NULL for a struct with others.
        own = "".join(
            f", CAST(CASE WHEN has THEN {c.name} END AS {self.types[c.name]}) AS {c.name}"
            for c in self._columns
        )
        fires = f"_ls_k > done AND _ls_k <= closed AND {self.grid.exists(k)}"
        return (
            f"SELECT gid AS _ls_gid{self._listed}, _ls_k, {self.grid.low(k, 'first')} AS _ls_low, "
            f"{self.grid.high(k, 'first')} AS _ls_high, first AS _ls_first, newest AS _ls_newest, "
            f"closed AS _ls_closed, done AS _ls_done, start AS _ls_base, start_before AS _ls_base_before, "
            f"first_before AS _ls_first_before, closed_before AS _ls_closed_before, "
            f"CASE WHEN has THEN own ELSE 0L END AS _ls_fresh, {fires} AS {RESULT}, "
            f"has AND _ls_k > closed AS _ls_open, has AND low IS NOT NULL AND _ls_k <= done AS _ls_late, "
            f"has AND ignored AND low IS NOT NULL AS _ls_ignored, CASE WHEN has THEN {ROW_COUNT} ELSE 0L END "
            f"AS {ROW_COUNT}{own}{marks}, gid AS _tgrpid FROM ({windows})"
        )

    def _result(self, projection: exp.Expr) -> exp.Expr:
        """Return a result column over partial aggregates; where there is no row they are NULL."""
        found = distinct_aggregates(self.calculation)
        results = {node: part.result for node, part in zip(found, self._parts, strict=True)}
        counted = exp.column("_twrownum", table=ALIAS)

        def replace(node: exp.Expr) -> exp.Expr:
            if node in results:
                return exp.Var(this=results[node])
            return exp.Var(this=ROW_COUNT) if node == counted else node

        return projection.unalias().transform(replace)


_JUDGED = (
    "first",
    "newest",
    "closed",
    "done",
    "start",
    "start_before",
    "first_before",
    "newest_before",
    "closed_before",
)
_TOLD = (
    "_ls_first",
    "_ls_newest",
    "_ls_closed",
    "_ls_done",
    "_ls_base",
    "_ls_base_before",
    "_ls_first_before",
    "_ls_closed_before",
    "_ls_fresh",
    RESULT,
    "_ls_open",
    "_ls_late",
    "_ls_ignored",
)


def can_be_incremental(calculation: Calculation, grid: Grid, way: Way, *, only_with_rows: bool) -> bool:
    """Return whether windows can be kept by partial aggregates: by their shape and their aggregates."""
    if way is not Way.GROUPED or not _meets_every_row(grid):
        return False
    found = distinct_aggregates(calculation)
    known = only_with_rows or all(over_nothing(node) is not None for node in found)
    return known and partials(found) is not None


def _meets_every_row(grid: Grid) -> bool:
    """Return whether each row falls into one window, or into a run of panes."""
    if isinstance(grid, FixedGrid):
        return grid.length == grid.step or grid.pane is not None
    if isinstance(grid, LocalGrid | MonthGrid):
        return grid.length == grid.step
    return isinstance(grid, DailyGrid)
