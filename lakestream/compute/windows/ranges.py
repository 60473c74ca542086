"""Aggregates over a window around each row, in time that grows with the rows and not with the windows' size.

Time is divided into stretches as long as a window, so that a window is the end of one stretch and the
beginning of the next. Partial aggregates run once from the beginning of each stretch and once from its
end; a window combines one of each (van Herk 1992, Gil and Werman 1993, for extremes over images).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.functions import aggregates
from lakestream.compute.windows.calculation import ALIAS
from lakestream.compute.windows.panes import partials
from lakestream.triggers.assign import ORDER_OF_ROWS
from lakestream.triggers.sqltime import floor_div

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakestream.compute.windows.calculation import Calculation
    from lakestream.compute.windows.panes import Partial, PartialColumn
    from lakestream.triggers.assign import Reach

MARKED = "ls_marked"
"""The relation of the rows with what becomes of them (:mod:`lakestream.triggers.assign`)."""

_PLACEHOLDERS = {
    "_twstart": "timestamp_micros(_ls_low)",
    "_twend": "timestamp_micros(_ls_high)",
    "_twduration": "((_ls_high - _ls_low) div 1000L)",
    "_tgrpid": "_ls_gid",
}
_COUNT = exp.Count(this=exp.Literal.number(1))


@dataclass(frozen=True)
class Ranges:
    """A calculation over windows that reach from before a row to after it.

    ``groups`` are SQL of what the rows are grouped by before there are windows.
    """

    calculation: Calculation
    reach: Reach
    groups: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Return whether its aggregates can be combined, and each window is one group."""
        query = self.calculation.query
        if not self.calculation.used <= set(_PLACEHOLDERS) or partials(self._found) is None:
            return False
        if query.args.get("qualify"):
            return False
        keys = query.args["group"].expressions if query.args.get("group") else []
        if not aggregates(query.selects) or not all(_plain(key) in self._names for key in keys):
            return False
        where = query.args.get("where")
        if where and any(column.table == ALIAS for column in where.find_all(exp.Column)):
            return False
        return all(self._is_known(part) for part in (*query.selects, *self._conditions))

    def sql(self, columns: Sequence[str]) -> str:
        """Return the SQL of the result, as the method ``sql`` of an ``Evaluation`` gives it."""
        parts = partials(self._found)
        assert parts is not None  # by fits
        listed = [column for part in parts for column in part.columns]
        names = {node: f"({part.result})" for node, part in zip(self._found, parts, strict=True)}
        groups = "".join(f", {name}" for name in self.calculation.scope.groups)
        results = ", ".join(
            f"{self._resolved(item.unalias(), names)} AS {column}"
            for item, column in zip(self.calculation.query.selects, columns, strict=True)
        )
        where = " AND ".join(
            [f"{_number(parts)} > 0", *(f"({self._resolved(c, names)})" for c in self._conditions)]
        )
        return (
            f"SELECT _ls_gid, _ls_k{groups}, _ls_low, _ls_high, {results} "
            f"FROM ({self._combined(listed)}) WHERE {where}"
        )

    @property
    def _conditions(self) -> list[exp.Expr]:
        having = self.calculation.query.args.get("having")
        return [having.this] if having else []

    @property
    def _found(self) -> list[exp.Expr]:
        """The aggregates, each once; the last one counts the rows."""
        found = aggregates([*self.calculation.query.selects, *self._conditions])
        return [*dict.fromkeys(node for node in found if node != _COUNT), _COUNT]

    @property
    def _names(self) -> dict[str, str]:
        return dict(zip(map(_stripped, self.groups), self.calculation.scope.groups, strict=True))

    def _is_known(self, part: exp.Expr) -> bool:
        """Return whether it is made of aggregates, placeholders, constants and what rows are grouped by."""
        found = self._found
        for node in part.walk(prune=lambda n: n in found):
            if isinstance(node, exp.Query | exp.Window | exp.Star) and node not in found:
                return False
            if isinstance(node, exp.Column) and node.table != ALIAS and _plain(node) not in self._names:
                return False
        return True

    def _resolved(self, node: exp.Expr, names: Mapping[exp.Expr, str]) -> str:
        def resolve(part: exp.Expr) -> exp.Expr:
            if part in names:
                return exp.Var(this=names[part])
            if isinstance(part, exp.Column):
                known = _PLACEHOLDERS.get(part.name) if part.table == ALIAS else self._names[_plain(part)]
                return exp.Var(this=known)
            return part

        return str(node.transform(resolve).sql("spark"))

    def _combined(self, listed: Sequence[PartialColumn]) -> str:
        """Return SQL of the windows with their partial aggregates under their own names."""
        ends = self._at_rows(listed) if not self.reach.delay else self._at_ends(listed)
        windows = ["_ls_k", "_ls_low", "_ls_high", *self.calculation.scope.groups]
        carried = ["last", *windows, *(f"{column.name}_a" for column in listed)]
        starts = (
            f"SELECT _ls_gid, _ls_low AS at, 1 AS probe, {_nulls(listed)}, {', '.join(carried)} FROM ({ends})"
        )
        both = f"{self._rows(listed)}, {_none(carried)} FROM {MARKED}{self._where} UNION ALL {starts}"
        apart = f"{self._stretch('at')} < {self._stretch('last')}"
        merged = ", ".join(
            f"CASE WHEN {apart} THEN {_merged(column)} ELSE {column.name}_a END AS {column.name}"
            for column in listed
        )
        return (
            f"SELECT _ls_gid, {', '.join(windows)}, {merged} "
            f"FROM (SELECT *, {self._running(listed, 'at DESC, probe', '_b')} FROM ({both})) WHERE probe = 1"
        )

    def _at_rows(self, listed: Sequence[PartialColumn]) -> str:
        """Return SQL of windows that end with their row, with the aggregates from the stretch's beginning.

        Rows of one instant count as far as they were there when the window fired.
        """
        order = ORDER_OF_ROWS if self.reach.by_order else "_ls_ts, _ls_c NULLS LAST"
        frame = f"OVER (PARTITION BY _ls_gid, {self._stretch('_ls_ts')} ORDER BY {order})"
        condition = self.calculation.query.args.get("where")
        only = f" FILTER (WHERE {condition.this.sql('spark')})" if condition else ""
        running = ", ".join(
            f"{column.merge}({column.of_row}){only} {frame} AS {column.name}_a" for column in listed
        )
        rows = f"SELECT *, {running} FROM {MARKED}"
        kept = ", ".join(f"{column.name}_a" for column in listed)
        return f"SELECT _ls_gid, _ls_ts AS last, {self._window}, {kept} FROM ({rows}) WHERE _ls_fires"

    def _at_ends(self, listed: Sequence[PartialColumn]) -> str:
        """Return SQL of windows that end after their row, when all their rows are there."""
        windows = ["_ls_k", "_ls_low", "_ls_high", *self.calculation.scope.groups]
        ends = (
            f"SELECT _ls_gid, _ls_ts + {self.reach.delay - 1}L AS at, 1 AS probe, {_nulls(listed)}, "
            f"{self._window} FROM {MARKED} WHERE _ls_fires"
        )
        both = f"{self._rows(listed)}, {_none(windows)} FROM {MARKED}{self._where} UNION ALL {ends}"
        until = f"SELECT *, {self._running(listed, 'at, probe', '_a')} FROM ({both})"
        kept = ", ".join(f"{column.name}_a" for column in listed)
        return f"SELECT _ls_gid, at AS last, {', '.join(windows)}, {kept} FROM ({until}) WHERE probe = 1"

    @property
    def _window(self) -> str:
        """The columns of a window, over the row that triggers it; nobody asks for its number."""
        reach = self.reach
        own = f"_ls_ts AS _ls_k, _ls_ts - {reach.length}L AS _ls_low, _ls_ts + {reach.delay}L AS _ls_high"
        return ", ".join([own, *self.calculation.scope.groups])

    @property
    def _where(self) -> str:
        where = self.calculation.query.args.get("where")
        return f" {where.sql('spark')}" if where else ""

    def _rows(self, listed: Sequence[PartialColumn]) -> str:
        """Return the beginning of a SELECT of the rows, with what each is for the aggregates."""
        values = ", ".join(f"{column.of_row} AS {column.name}" for column in listed)
        return f"SELECT _ls_gid, _ls_ts AS at, 0 AS probe, {values}"

    def _running(self, listed: Sequence[PartialColumn], order: str, suffix: str) -> str:
        frame = (
            f"OVER (PARTITION BY _ls_gid, {self._stretch('at')} ORDER BY {order} "
            f"ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        )
        return ", ".join(f"{column.merged} {frame} AS {column.name}{suffix}" for column in listed)

    def _stretch(self, at: str) -> str:
        return floor_div(at, self.reach.span)


def _nulls(columns: Sequence[PartialColumn]) -> str:
    return _none([column.name for column in columns])


def _none(names: Sequence[str]) -> str:
    return ", ".join(f"NULL AS {name}" for name in names)


def _number(parts: Sequence[Partial]) -> str:
    """Return SQL of the number of rows, which the last aggregate counts."""
    return parts[-1].result


def _merged(column: PartialColumn) -> str:
    """Return SQL of a partial aggregate of two parts; NULL is that of no rows."""
    one, other = f"{column.name}_a", f"{column.name}_b"
    if column.merge == "sum":
        return f"coalesce({one} + {other}, {one}, {other})"
    return f"{'least' if column.merge == 'min' else 'greatest'}({one}, {other})"


def _plain(node: exp.Expr) -> str:
    return _stripped(node.sql("spark"))


def _stripped(sql: str) -> str:
    return sql.replace("`", "").lower()
