"""The rows of each window of a tick, as Spark SQL over the relations ``ls_rows`` and ``ls_windows``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.compute.windows.calculation import ALIAS, READ, ROWS, WINDOWS
from lakestream.language.quoting import quoted

if TYPE_CHECKING:
    from sqlglot import exp

    from lakestream.compute.windows.calculation import Calculation
    from lakestream.triggers.grid import Grid

TRIGGER_ROWS = "ls_trows"
"""The relation of the rows of each window, by ``_ls_gid`` and ``_ls_k``."""


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
        return (
            f"SELECT * EXCEPT (_ls_times), explode(sequence(1, CAST(_ls_times AS INT))) AS _ls_copy FROM ("
            f"SELECT * EXCEPT (_ls_sign, _ls_v), sum(_ls_sign) AS _ls_times FROM ({rows}) GROUP BY ALL "
            f"HAVING sum(_ls_sign) > 0)"
        )

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
