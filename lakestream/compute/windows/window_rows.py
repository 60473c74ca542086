"""The rows of each window of a tick, as Spark SQL over the relations ``ls_rows`` and ``ls_windows``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.windows.calculation import ALIAS, OF_GROUP, READ, ROWS, WINDOWS
from lakestream.language.quoting import quoted

if TYPE_CHECKING:
    from lakestream.compute.windows.calculation import Bound, Calculation, Read
    from lakestream.triggers.grid import Grid

TRIGGER_ROWS = "ls_trows"
"""The relation of the rows of each window, by ``_ls_gid`` and ``_ls_k``."""

_STARTS, _ENDS = frozenset({"_twstart", "_tprev_ts"}), frozenset({"_twend", "_tcurrent_ts"})
"""The placeholders that are the first or the last instant of a window, but for a microsecond."""

_OF_BOUNDS = _STARTS | _ENDS | {"_twduration"}
"""The placeholders that a window has by its bounds, and always."""


@dataclass(frozen=True)
class WindowRows:
    """Which rows lie in which window of a grid.

    ``by_commit``: a window holds only the rows of the commits up to the one that fired it last; ``retracts``:
    some rows cancel an equal one; ``joins``: rows of windows that are not evaluated are left out.
    """

    grid: Grid
    by_commit: bool
    retracts: bool
    joins: bool

    def sql(self) -> str:
        """Return SQL of the rows of each window, ``_ls_k`` its number, each row as often as it counts."""
        rows = self._by_window()
        if not self.retracts:
            return rows
        summed = f"SELECT * EXCEPT (_ls_sign, _ls_v), sum(_ls_sign) AS _ls_times FROM ({rows}) GROUP BY ALL"
        return f"SELECT * EXCEPT (_ls_times) FROM {each_sql(f'({summed})', '_ls_times')}"

    def _by_window(self) -> str:
        if self.grid.rows_are_placed:
            return f"SELECT * FROM {ROWS}"
        if self.grid.disjoint_spans and not self.by_commit:
            return self._in_order()
        if self.grid.depends_on_first:
            return (
                f"SELECT r.*, x._ls_k FROM {ROWS} r JOIN {WINDOWS} x ON r._ls_gid = x._ls_gid "
                f"AND r._ls_ts >= x._ls_low AND r._ls_ts < x._ls_high{self._commits()}"
            )
        numbered = self.numbered(ROWS, "_ls_ts")
        if not (self.joins or self.by_commit):
            return numbered
        on = f"r._ls_gid = x._ls_gid AND r._ls_k = x._ls_k{self._commits()}"
        return f"SELECT r.* FROM ({numbered}) r JOIN {WINDOWS} x ON {on}"

    def _in_order(self) -> str:
        """Return SQL of the rows with their windows, of which no two share more than an instant: by a sort.

        A join by group would hold every row against every window of its group. Rows of the instant at
        which one window ends and the next begins are in both.
        """
        latest = (
            "last_value(opened) IGNORE NULLS OVER (PARTITION BY _ls_gid ORDER BY at, is_row "
            "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        )
        rows = (
            f"SELECT _ls_gid, _ls_ts AS at, true AS is_row, struct(_ls_r.*) AS held, NULL AS opened "
            f"FROM {ROWS} _ls_r"
        )
        before = "lag(struct(_ls_k AS k, _ls_high AS high)) OVER (PARTITION BY _ls_gid ORDER BY _ls_low)"
        window = f"struct(_ls_k AS k, _ls_low AS low, _ls_high AS high, {before} AS before)"
        windows = f"SELECT _ls_gid, _ls_low, false, NULL, {window} FROM {WINDOWS}"
        found = f"SELECT at, is_row, held, {latest} AS opened FROM ({rows} UNION ALL {windows})"
        in_both = "at = opened.low AND at < opened.before.high"
        own = f"CASE WHEN {in_both} THEN array(opened.k, opened.before.k) ELSE array(opened.k) END"
        return f"SELECT held.*, explode({own}) AS _ls_k FROM ({found}) WHERE is_row AND at < opened.high"

    def _commits(self) -> str:
        return " AND r._ls_v <= x._ls_c" if self.by_commit else ""

    def numbered(self, relation: str, time: str) -> str:
        """Return SQL for the relation's rows once for every window they fall into, numbered k."""
        rows = f"SELECT r.*, {self.grid.holding(time, time)} AS _ls_k FROM {relation} r"
        if self.grid.is_tumbling:
            return rows
        return f"{rows} WHERE {self.grid.ended(time, time)} < {self.grid.begun(time, time)}"


@dataclass(frozen=True)
class BoundRead:
    """A read of a table of which each window needs a stretch of time that its own bounds tell.

    ``body`` is SQL of its rows. ``of_group`` is the group column that its ``tbname`` is equal to, ``alike``
    says that windows of one number are the same in all groups, ``used`` are the placeholders of the
    calculation. A row knows these of its window: each reference of a lateral join that no equality replaces
    costs Spark a join of all its values with all rows.
    """

    read: Read
    body: str
    of_group: str | None
    alike: bool
    used: tuple[str, ...]

    @property
    def name(self) -> str:
        """The relation of its rows, each as often as there are windows that it may be needed by."""
        return f"{self.read.view}_of_windows"

    @property
    def _known(self) -> tuple[str, ...]:
        return ("_ls_k", *self.used) if self.alike else ("_ls_gid", "_ls_k", *self.used)

    @property
    def of_window(self) -> str:
        """SQL of what one window may need of them, in a calculation."""
        columns = ", ".join(map(quoted, self.read.relation.columns))
        own = " AND ".join(f"{self.name}.{name} = {ALIAS}.{name}" for name in self._known)
        return f"SELECT {columns} FROM {self.name} WHERE {own}"

    def sql(self) -> str:
        """Return SQL of the rows with the windows: a join by stretches of time of the windows' mean length.

        A window has two of them in the mean, a row one, so that no row is held against all windows. The
        range is a microsecond wide, as the placeholders are; what the statement asks for, it asks itself.
        """
        time = f"unix_micros({quoted(self.read.relation.time_column)})"
        first, last = _instant(self.read.lower, -1), _instant(self.read.upper, 1)
        of = f", {self.of_group} AS _ls_of" if self.of_group and not self.alike else ""
        windows = (
            f"SELECT {'DISTINCT ' if self.alike else ''}{', '.join(self._known)}{of}, "
            f"{first} AS _ls_begin, {last} AS _ls_until FROM {WINDOWS}"
        )
        width = f"SELECT greatest(floor(avg(_ls_until - _ls_begin)), 1L) AS _ls_width FROM ({windows})"
        parts = "explode(sequence(_ls_begin div _ls_width, _ls_until div _ls_width)) AS _ls_part"
        known = ", ".join(f"x.{name}" for name in self._known)
        return (
            f"SELECT r.*, {known} "
            f"FROM (SELECT *, {time} AS _ls_at, {time} div _ls_width AS _ls_part "
            f"FROM ({self.body}), ({width})) r "
            f"JOIN (SELECT *, {parts} FROM ({windows}), ({width})) x "
            f"ON r._ls_part = x._ls_part AND r._ls_at >= x._ls_begin AND r._ls_at <= x._ls_until"
            f"{' AND r.tbname = x._ls_of' if of else ''}"
        )


def each_sql(relation: str, times: str) -> str:
    """Return SQL of a relation's rows, each as often as a column says (_ls_each: which one it is)."""
    numbers = f"explode(sequence(1L, CAST({times} AS BIGINT)))"
    return f"(SELECT *, {numbers} AS _ls_each FROM {relation} WHERE {times} > 0)"


def bound_reads(calculation: Calculation, grid: Grid) -> dict[str, BoundRead]:
    """Return the reads that windows may have by their bounds, by their views.

    Where windows of several groups differ, of other tables than the group's own each row would be needed by
    windows of all groups: they are read as they are. So are all where the calculation uses placeholders that
    the bounds of a window do not tell.
    """
    found: dict[str, BoundRead] = {}
    if grid.rows_are_placed or not calculation.used <= _OF_BOUNDS:
        return found
    used = tuple(sorted(calculation.used))
    alike, grouped = not grid.depends_on_first, bool(calculation.scope.groups)
    for node in calculation.query.find_all(exp.Subquery):
        read, of_group = node.meta.get(READ), node.meta.get(OF_GROUP)
        if not read or not _bounded(read) or not _is_met(node):
            continue
        body = node.this.sql("spark")
        if ALIAS not in body and (alike or of_group or not grouped):
            found[read.view] = BoundRead(read, body, of_group, alike, used)
    return found


def _bounded(read: Read) -> bool:
    """Return whether both ends of a read's time are a window's, up to a fixed distance."""
    known = _STARTS | _ENDS
    ends = (read.lower, read.upper)
    return read.relation.has_instants and all(end is not None and end.placeholder in known for end in ends)


def _is_met(read: exp.Subquery) -> bool:
    """Return whether a read stands where only rows that its select goes on with count: in FROM or JOIN."""
    part = read.parent
    return isinstance(part, exp.From) or (
        isinstance(part, exp.Join) and not part.side and part.kind != "ANTI"
    )


def _instant(bound: Bound | None, wider: int) -> str:
    """Return SQL of an end of a read, microseconds, in the windows' own terms."""
    assert bound is not None  # by _bounded
    edge = "_ls_low" if bound.placeholder in _STARTS else "_ls_high"
    return f"{edge} + {bound.offset + wider}L"


def beside_windows(calculation: Calculation, rows: WindowRows, passed: str) -> str:
    """Return SQL of a select over rows that know their windows, for all of these: grouped by them too.

    ``passed`` are the columns of the windows that stand before the results. In the select the results come
    first, so that GROUP BY may number them, and keep their names for it.
    """
    query = calculation.query
    group, having = query.args.get("group"), query.args.get("having")
    listed = ", ".join(projection.sql("spark") for projection in query.selects)
    sql = f"SELECT {listed}, {passed} {from_windows(query, rows, 'ls_fired')}"
    if group:
        own = [f"{ALIAS}.{name}" for name in sorted(calculation.used)]
        sql += f" {', '.join([group.sql('spark').strip(), passed, *own])}"
    if having:
        sql += f" {having.sql('spark').strip()}"
    names = passed.replace(f"{ALIAS}.", "")
    results = ", ".join(f"c{number}" for number, _ in enumerate(query.selects, 1))
    return f"SELECT {names}, {results} FROM ({sql}) AS r({results}, {names})"


def from_windows(query: exp.Query, rows: WindowRows, windows: str) -> str:
    """Return FROM and WHERE of a select over rows that know their windows, with these as its first table."""
    source, where = query.args["from_"].this, query.args.get("where")
    alias, read = quoted(source.alias), source.meta[READ]
    on = f"{alias}._ls_k = {ALIAS}._ls_k"
    if read:
        time, body = f"unix_micros({quoted(read.relation.time_column)})", source.this.sql("spark")
        relation = f"({rows.numbered(f'({body})', time)})"
    else:
        relation, on = TRIGGER_ROWS, f"{alias}._ls_gid = {ALIAS}._ls_gid AND {on}"
    joins = "".join(f" {join.sql('spark').strip()}" for join in query.args.get("joins") or [])
    filtered = f" {where.sql('spark').strip()}" if where else ""
    return f"FROM {windows} {ALIAS} JOIN {relation} {alias} ON {on}{joins}{filtered}"
