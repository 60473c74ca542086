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
from functools import cached_property
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.windows.calculation import ALIAS
from lakestream.compute.windows.evaluate import Way, distinct_aggregates, over_nothing
from lakestream.compute.windows.panes import partials

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakestream.compute.windows.calculation import Calculation
    from lakestream.compute.windows.panes import Partial, PartialColumn
    from lakestream.triggers.grid import Grid

ROW_COUNT = "_ls_n"
"""The column that counts a window's rows."""

RESULT = "_ls_due"
"""True for the rows that are results: a window that fires now."""


@dataclass(frozen=True)
class Fresh:
    """SQL of changed rows: the source's columns, the group columns, _ls_ts BIGINT µs.

    ``summed``: these are summed up by group and slot, as :meth:`Incremental.summed_sql` has them.
    """

    sql: str
    summed: bool = False


@dataclass(frozen=True)
class Incremental:
    """How a stream's calculation is kept up to date; see :func:`incremental` for when it can be.

    ``groups`` are the names of the group columns, ``group_id`` SQL of the group's number over them,
    ``watermark_delay`` and ``expiry`` microseconds (None: rows never expire), ``follows`` whether late rows
    make their windows fire again, ``at_once`` whether open windows fire with each change,
    ``types`` the types of the partial aggregates, ``apart`` the group columns that tell the groups of
    several streams apart, whose numbers may be equal.
    """

    calculation: Calculation
    grid: Grid
    groups: tuple[str, ...]
    group_id: str
    watermark_delay: int
    expiry: int | None
    follows: bool
    only_with_rows: bool
    at_once: bool
    types: Mapping[str, str]
    apart: tuple[str, ...] = ()

    @property
    def _by_group(self) -> str:
        return f"PARTITION BY {', '.join((*self.apart, 'gid'))}"

    @cached_property
    def _parts(self) -> list[Partial]:
        parts = partials(distinct_aggregates(self.calculation))
        assert parts is not None  # by incremental()
        return parts

    @cached_property
    def _columns(self) -> list[PartialColumn]:
        return [column for part in self._parts for column in part.columns]

    @property
    def kept_columns(self) -> dict[str, str]:
        """The columns of a result that go into the state, with their names there.

        A slot is what rows are aggregated by: a window or, where windows overlap, a pane.
        """
        names = (ROW_COUNT, *(column.name for column in self._columns))
        own = {_kept(name): name for name in names}
        return {"_ls_gid": "gid", **{name: name for name in self.groups}, "_ls_slot": "k", **own}

    @property
    def window_columns(self) -> tuple[str, ...]:
        """The columns of a result that are of a window, beside those of its group and the output's."""
        return ("_ls_gid", *self.groups, "_ls_k", "_ls_low", "_ls_high", *_FLAGS, *slot_columns(self))

    @property
    def overlap(self) -> int:
        """How many windows a row is in, at most."""
        pane = self.grid.pane
        return 1 if pane is None else -(-pane.count // pane.step)

    # --- the query ---

    def sql(self, rows: str, state: str, selected: str, *, clock_us: int, limit: int) -> str:
        """Return the SQL over changed rows and state.

        ``rows`` is SQL of the changed rows, as :class:`Fresh` has them.
        ``state`` names a view of the groups (gid, group columns, k NULL, first, newest BIGINT µs) and
        of the slots of open windows (gid, group columns, k the slot, _ls_n its rows, its partial
        aggregates; first and newest NULL), or of none. ``selected`` is the select
        list of the output over an evaluation's result, ``limit`` the most windows without rows in a row.

        The result has a row per slot and window of the groups with changes: _ls_gid, group columns,
        _ls_k; _ls_fresh (changed rows in it that are in no earlier window), ``_ls_due`` (a result),
        _ls_open (its slot is needed by open windows), _ls_late (it had fired and has changed),
        _ls_ignored (rows that only a reading commit by commit can judge); the slot and what the state
        keeps of it (``kept_columns``); ``selected``; and of the group _ls_first, _ls_newest, _ls_closed,
        _ls_done (windows up to it had fired or never will), _ls_first_before, _ls_closed_before, ….
        """
        slots = self._slots(Fresh(rows), state, self.groups)
        marked = self._marked(self._windows(f"SELECT {self.group_id} AS gid, * FROM ({slots})", self.groups))
        marked = f"SELECT * FROM ({marked}) WHERE lowest IS NOT NULL AND slot IS NOT NULL"
        columns = (*self.window_columns, *GROUP_COLUMNS.values())
        return self._evaluated(self._filled(self._judged(marked), limit), selected, columns, clock_us)

    def _evaluated(
        self, windows: str, selected: str, columns: Sequence[str], clock_us: int, carried: Sequence[str] = ()
    ) -> str:
        """Return SQL of the results of windows, with ``columns`` that say what becomes of each.

        ``carried`` are columns of the windows that ``selected`` needs.
        """
        listed = ", ".join(columns)
        return (
            f"SELECT {listed}, {selected} FROM (SELECT {', '.join([listed, *carried])}, {self._results} "
            f"FROM ({self._placeholders(windows, clock_us, carried)}) {ALIAS})"
        )

    def opened_sql(self, rows: str, state: str) -> str:
        """Return the SQL of the slots of open windows, computed anew from rows of the source.

        ``rows`` are as in :meth:`sql`, all those of the open windows; ``state`` is a view of the groups.
        """
        closed = self.grid.closed(f"(s.newest - {self.watermark_delay}L)", "s.first")
        listed = "".join(f"{name}, " for name in self.groups)
        own = "".join(f", {column.of_row} AS {column.name}" for column in self._columns)
        fallen = f"SELECT {listed}{self._slot('_ls_ts')} AS k{own} FROM ({rows})"
        merged = "".join(
            f", CAST({column.merge}(r.{column.name}) AS {self.types[column.name]}) AS {column.name}"
            for column in self._columns
        )
        groups = "".join(f", r.{name}" for name in self.groups)
        return (
            f"SELECT r.gid{groups}, r.k, count(1) AS {ROW_COUNT}{merged} "
            f"FROM (SELECT {self.group_id} AS gid, * FROM ({fallen})) r JOIN {state} s ON r.gid = s.gid "
            f"WHERE {self._is_open('r.k', closed)} GROUP BY r.gid{groups}, r.k"
        )

    # --- in steps, for many rows: groups are judged first, so that nothing is sorted by window ---

    def summed_sql(self, rows: str) -> str:
        """Return the SQL of changed rows summed up by group, with its number (gid), and slot."""
        by = "".join(f"{name}, " for name in self.groups)
        merged = "".join(f", {column.over_column} AS {column.name}" for column in self._columns)
        sums = (
            f"SELECT {by}k{merged}, count(1) AS n, min(low) AS low, max(high) AS high "
            f"FROM ({self._fallen(Fresh(rows), by)}) GROUP BY {by}k"
        )
        own = "".join(f"CAST({c.name} AS {self.types[c.name]}) AS {c.name}, " for c in self._columns)
        return f"SELECT {self.group_id} AS gid, {by}k, {own}CAST(n AS BIGINT) AS n, low, high FROM ({sums})"

    def groups_sql(self, rows: Fresh, state: str, held: Mapping[str, str]) -> str:
        """Return the SQL of the groups with changes, a row each; arguments as in :meth:`sql`.

        Beside the instants and window numbers of :meth:`sql` it has rows (changed), lowest and highest
        (their instants, BIGINT µs), in_order (no row for a window that had fired, or that may not
        count), opens (the instant from which on rows lie in windows that go on, BIGINT µs), and what
        else is asked of a group: ``held`` gives SQL over _ls_gid and the group columns by name.
        """
        keys = ("gid", *self.groups) if rows.summed else self.groups
        groups = "".join(f"{name}, " for name in keys)
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        summed = "min(_ls_ts) AS low, max(_ls_ts) AS high, count(1) AS own"
        if rows.summed:
            summed = "min(low) AS low, max(high) AS high, sum(n) AS own"
        changed = (
            f"SELECT {groups}{summed}, "
            f"CAST(NULL AS BIGINT) AS first, CAST(NULL AS BIGINT) AS newest FROM ({rows.sql}){by}"
        )
        known = f"SELECT {groups}NULL, NULL, 0L, first, newest FROM {state} WHERE k IS NULL"
        summed = (
            f"SELECT {groups}min(low) AS lowest, max(high) AS highest, max(first) AS first_before, "
            f"max(newest) AS newest_before, sum(own) AS rows FROM ({changed} UNION ALL {known}){by} "
            "HAVING min(low) IS NOT NULL"
        )
        judged = self._judged(summed if rows.summed else f"SELECT {self.group_id} AS gid, * FROM ({summed})")
        late = f"{self.grid.ended('lowest', 'first')} < done"
        more = "".join(f", {sql} AS {name}" for name, sql in held.items())
        return (
            f"SELECT * EXCEPT (_ls_gid), NOT ({late} OR {self._ignored('lowest')}) AS in_order, "
            f"{self.grid.low('(closed + 1)', 'first')} AS opens{more} "
            f"FROM (SELECT *, gid AS _ls_gid FROM ({judged}))"
        )

    def windows_sql(
        self,
        rows: Fresh,
        state: str,
        groups: str,
        selected: str,
        held: Sequence[str],
        clock_us: int,
    ) -> str:
        """Return the SQL of the windows with rows, with judged groups; other arguments as in :meth:`sql`.

        The result is as there without the columns of the group; ``selected`` is over an evaluation's
        result and what the groups hold.
        """
        slots = self._slots(rows, state, _BY_NUMBER)
        listed = ", ".join(f"g.{name}" for name in (*self.groups, *_JUDGED, *held))
        joined = (
            f"SELECT /*+ BROADCAST(g) */ m.*, {listed} FROM ({self._windows(slots, ())}) m "
            f"JOIN {groups} g ON m.gid = g.gid WHERE m.slot IS NOT NULL"
        )
        judged = f"SELECT *, {self._ignored()} AS ignored, k AS _ls_k, true AS has FROM ({joined})"
        return self._evaluated(judged, selected, self.window_columns, clock_us, held)

    def slots_sql(self, rows: Fresh, state: str, groups: str) -> str:
        """Return the SQL of what the state keeps of open windows, with judged groups."""
        columns = "".join(f", CAST(m.{c.name} AS {self.types[c.name]}) AS {c.name}" for c in self._columns)
        listed = "".join(f", g.{name}" for name in self.groups)
        return (
            f"SELECT /*+ BROADCAST(g) */ m.gid{listed}, m.k, m.{ROW_COUNT}{columns} "
            f"FROM ({self._slots(rows, state, _BY_NUMBER)}) m "
            f"JOIN {groups} g ON m.gid = g.gid "
            f"WHERE {self._is_open('m.k', 'g.closed')}"
        )

    def gaps_sql(self, groups: str, present: str, selected: str, held: Sequence[str], clock_us: int) -> str:
        """Return the SQL of the windows without rows that fire, as :meth:`windows_sql`.

        ``present`` is a view of the windows with rows (_ls_gid, _ls_k).
        """
        nothing = "".join(
            f", CAST(NULL AS {self.types[column.name]}) AS {name}"
            for column in self._columns
            for name in (column.name, _kept(column.name))
        )
        listed = ", ".join(("gid", *self.groups, *_JUDGED, *held))
        empty = (
            f"SELECT {listed}, explode(sequence(done + 1, closed)) AS _ls_k FROM {groups} WHERE closed > done"
        )
        gaps = (
            f"SELECT g.*, false AS has, false AS ignored, false AS there, 0L AS own, "
            f"CAST(NULL AS BIGINT) AS slot, CAST(NULL AS BIGINT) AS low, 0L AS {ROW_COUNT}, "
            f"0L AS {_kept(ROW_COUNT)}{nothing} FROM ({empty}) g "
            f"LEFT ANTI JOIN {present} p ON p._ls_gid = g.gid AND p._ls_k = g._ls_k"
        )
        return self._evaluated(gaps, selected, self.window_columns, clock_us, held)

    # --- relations ---

    def _slot(self, instant: str) -> str:
        pane = self.grid.pane
        return self.grid.begun(instant, instant) if pane is None else pane.number(instant)

    def _is_open(self, slot: str, closed: str) -> str:
        """Return SQL that is true for the slots that windows after ``closed`` need."""
        step = 1 if self.grid.pane is None else self.grid.pane.step
        return f"{slot} >= ({closed} + 1) * {step}L"

    def _fallen(self, rows: Fresh, groups: str) -> str:
        """Return SQL of changed rows with their slots; ``groups`` are select items that tell groups apart."""
        own = "".join(f", {column.of_row} AS {column.name}" for column in self._columns)
        fallen = f"{self._slot('_ls_ts')} AS k{own}, 1L AS n, 1L AS own, _ls_ts AS low, _ls_ts AS high"
        if rows.summed:
            names = (column.name for column in self._columns)
            fallen = ", ".join(["k", *names, "n", "n AS own", "low", "high"])
        return (
            f"SELECT {groups}{fallen}, CAST(NULL AS BIGINT) AS first, CAST(NULL AS BIGINT) AS newest "
            f"FROM ({rows.sql})"
        )

    def _slots(self, rows: Fresh, state: str, keys: Sequence[str]) -> str:
        """Return SQL of the changed rows and the state by group and slot (k; NULL for the group itself).

        ``keys`` say what tells groups apart: the group columns, or only their number, which is quicker.
        """
        names = [column.name for column in self._columns]
        listed = "".join(f"{name}, " for name in keys)
        groups = f"{self.group_id} AS gid, " if keys is _BY_NUMBER and not rows.summed else listed
        kept = "".join(f", {name}" for name in names)
        known = f"SELECT {listed}k{kept}, {ROW_COUNT} AS n, 0L, NULL, NULL, first, newest FROM {state}"
        merged = "".join(f", {column.merged} AS {column.name}" for column in self._columns)
        return (
            f"SELECT {listed}k{merged}, sum(n) AS {ROW_COUNT}, "
            f"sum(own) AS own, min(low) AS low, max(high) AS high, max(first) AS first_known, "
            f"max(newest) AS newest_known FROM ({self._fallen(rows, groups)} UNION ALL {known}) "
            f"GROUP BY {listed}k"
        )

    def _windows(self, slots: str, groups: Sequence[str]) -> str:
        """Return SQL of slots as windows: k (NULL: none ends there), slot, there (it has rows), ….

        Partial aggregates and rows are those of the window; what the state keeps are those of the slot.
        ``groups`` are columns of the slots that stay.
        """
        names = (ROW_COUNT, *(column.name for column in self._columns))
        kept = "".join(f", {name} AS {_kept(name)}" for name in names)
        pane = self.grid.pane
        if pane is None:
            return f"SELECT *, k AS slot, true AS there{kept} FROM ({slots})"
        last = pane.count - 1
        # Each slot is followed by the empty ones at which a window that holds it may end.
        behind = f"CASE WHEN k IS NULL THEN 0L ELSE least({last}L, next - 1 - k) END"
        followed = (
            f"SELECT *, k + _ls_behind AS slot FROM ("
            f"SELECT *, explode(sequence(0L, {behind})) AS _ls_behind FROM ("
            f"SELECT *, lead(k) OVER ({self._by_group} ORDER BY k) AS next FROM ({slots})))"
        )
        spans = [(ROW_COUNT, "sum", last), ("own", "sum", pane.step - 1)]
        spans += [("low", "min", last), ("high", "max", last)]
        spans += [(column.name, column.merge, last) for column in self._columns]
        framed = "".join(
            f", {merge}(CASE WHEN slot = k THEN {name} END) OVER ({self._by_group} ORDER BY slot "
            f"RANGE BETWEEN {before} PRECEDING AND CURRENT ROW) AS {name}"
            for name, merge, before in spans
        )
        ends = f"pmod(slot - {last}L, {pane.step}L) = 0"
        listed = "".join(f", {name}" for name in groups)
        windows = (
            f"SELECT gid{listed}, slot, slot <=> k AS there, first_known, newest_known, "
            f"{ends} AS ends{kept}{framed} FROM ({followed})"
        )
        return (
            f"SELECT * EXCEPT (ends, own), CASE WHEN ends THEN (slot - {last}L) div {pane.step}L END AS k, "
            f"CASE WHEN ends THEN coalesce(own, 0L) ELSE 0L END AS own FROM ({windows})"
        )

    def _marked(self, windows: str) -> str:
        """One window specification for all: Spark then sorts once."""
        frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
        group = f"OVER ({self._by_group} ORDER BY k {frame})"
        return (
            f"SELECT *, min(low) {group} AS lowest, max(high) {group} AS highest, "
            f"max(first_known) {group} AS first_before, max(newest_known) {group} AS newest_before, "
            f"lag(k) OVER ({self._by_group} ORDER BY k) AS before FROM ({windows})"
        )

    def _judged(self, groups: str) -> str:
        watermark, mark_before = (
            f"(newest - {self.watermark_delay}L)",
            f"(newest_before - {self.watermark_delay}L)",
        )
        return (
            f"SELECT *, greatest(start, coalesce(closed_before, start)) AS done FROM ("
            f"SELECT *, {self.grid.closed(watermark, 'first')} AS closed, "
            f"{self.grid.closed(mark_before, 'first_before')} AS closed_before, "
            f"{self.grid.ended('first', 'first')} AS start, "
            f"{self.grid.ended('first_before', 'first_before')} AS start_before FROM ("
            f"SELECT *, least(lowest, first_before) AS first, greatest(highest, newest_before) AS newest "
            f"FROM ({groups})))"
        )

    def _ignored(self, low: str = "low") -> str:
        """Return SQL that is true where rows of a window may not count, from its first changed one."""
        watermark = f"newest_before - {self.watermark_delay}L"
        ignored = "false" if self.follows else f"coalesce({low} <= {watermark}, false)"
        if self.expiry is None:
            return ignored
        return f"({ignored} OR coalesce({low} < newest_before - {self.expiry}L, false))"

    def _filled(self, judged: str, limit: int) -> str:
        """Every row, and before it the windows without rows that fire now."""
        judged = f"SELECT *, {self._ignored()} AS ignored FROM ({judged})"
        if self.only_with_rows:
            return f"SELECT *, k AS _ls_k, true AS has FROM ({judged})"
        low = "(greatest(coalesce(before, done), done) + 1)"
        high = f"least(k - 1, closed, {low} + {limit}L)"
        empty = f"CASE WHEN k IS NULL THEN 0L ELSE greatest({high} - {low} + 1, 0L) END"
        counted = f"SELECT *, {low} AS _ls_empty, {empty} AS _ls_empties FROM ({judged})"
        numbered = f"SELECT *, explode(sequence(0L, _ls_empties)) AS _ls_at FROM ({counted})"
        number = "CASE WHEN _ls_at < _ls_empties THEN _ls_empty + _ls_at ELSE k END"
        return (
            f"SELECT * EXCEPT (_ls_empty, _ls_empties, _ls_at), {number} AS _ls_k, "
            f"_ls_at = _ls_empties AS has FROM ({numbered})"
        )

    def _placeholders(self, windows: str, clock_us: int, carried: Sequence[str]) -> str:
        """Return SQL of the windows with their placeholders, and what becomes of each."""
        listed = "".join(f", {name}" for name in (*self.groups, *carried))
        k = "_ls_k"
        times = self.grid.placeholders(k, "first")
        marks = "".join(f", timestamp_micros({sql}) AS {name}" for name, sql in times.items())
        if "_twstart" in times:
            marks += f", ({times['_twend']} - {times['_twstart']}) div 1000L AS _twduration"
        if "_tlocaltime" in self.calculation.used:
            marks += f", {clock_us * 1000}L AS _tlocaltime"
        # The cast makes the fields of structs nullable: Arrow takes no NULL for a struct with others.
        own = "".join(
            f", CAST(CASE WHEN has THEN {name} END AS {self.types[c.name]}) AS {name}"
            for c in self._columns
            for name in (c.name, _kept(c.name))
        )
        counts = ", ".join(
            f"CASE WHEN has THEN {name} ELSE 0L END AS {name}" for name in (ROW_COUNT, _kept(ROW_COUNT))
        )
        group = ", ".join(f"{name} AS {column}" for name, column in GROUP_COLUMNS.items())
        fires = f"_ls_k > done AND _ls_k <= closed AND {self.grid.exists(k)}"
        if self.at_once:
            fires = f"({fires}) OR (_ls_k > closed AND has AND low IS NOT NULL AND {self.grid.exists(k)})"
        late = "has AND low IS NOT NULL AND _ls_k <= done"
        return (
            f"SELECT gid AS _ls_gid{listed}, _ls_k, {self.grid.low(k, 'first')} AS _ls_low, "
            f"{self.grid.high(k, 'first')} AS _ls_high, {group}, slot AS _ls_slot, "
            f"CASE WHEN has THEN own ELSE 0L END AS _ls_fresh, coalesce({fires}, false) AS {RESULT}, "
            f"coalesce(has AND there AND {self._is_open('slot', 'closed')}, false) AS _ls_open, "
            f"coalesce({late}, false) AS _ls_late, "
            f"has AND ignored AND low IS NOT NULL AS _ls_ignored, {counts}{own}{marks}, gid AS _tgrpid "
            f"FROM ({windows})"
        )

    @cached_property
    def _results(self) -> str:
        """SQL of the result columns over partial aggregates; where there is no row these are NULL."""
        found = distinct_aggregates(self.calculation)
        results = {node: part.result for node, part in zip(found, self._parts, strict=True)}
        counted = exp.column("_twrownum", table=ALIAS)

        def replace(node: exp.Expr) -> exp.Expr:
            if node in results:
                return exp.Var(this=results[node])
            return exp.Var(this=ROW_COUNT) if node == counted else node

        return ", ".join(
            f"{projection.unalias().transform(replace).sql('spark')} AS c{number}"
            for number, projection in enumerate(self.calculation.query.selects, 1)
        )


_BY_NUMBER = ("gid",)
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
GROUP_COLUMNS = {
    "first": "_ls_first",
    "newest": "_ls_newest",
    "closed": "_ls_closed",
    "done": "_ls_done",
    "start": "_ls_base",
    "start_before": "_ls_base_before",
    "first_before": "_ls_first_before",
    "closed_before": "_ls_closed_before",
}
"""What a judged group says of itself, and the names that a result has for it."""

_FLAGS = ("_ls_fresh", RESULT, "_ls_open", "_ls_late", "_ls_ignored")
"""Of a window: its changed rows, and whether it is a result, open, late or ignored."""


def _kept(name: str) -> str:
    return f"_ls_kept{name.removeprefix('_ls')}"


def can_be_incremental(calculation: Calculation, grid: Grid, way: Way, *, only_with_rows: bool) -> bool:
    """Return whether windows can be kept by partial aggregates: by their shape and their aggregates."""
    if way is not Way.GROUPED or not (grid.is_tumbling or grid.pane is not None):
        return False
    found = distinct_aggregates(calculation)
    known = only_with_rows or all(over_nothing(node) is not None for node in found)
    return known and partials(found) is not None


def slot_columns(incremental: Incremental) -> tuple[str, ...]:
    """Return the columns of a result that say what is in its slot."""
    kept = incremental.kept_columns
    return tuple(name for name in kept if name != "_ls_gid" and name not in incremental.groups)
