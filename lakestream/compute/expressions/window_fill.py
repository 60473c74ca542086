"""FILL of a window inside a query: windows without rows, and what stands in them (TDengine)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.functions import call
from lakestream.compute.expressions.levels import AFTER, SO_FAR, TIME_PSEUDO_COLUMNS, N, raw
from lakestream.errors import StatementError
from lakestream.language.expressions.parsing import TURNED, conjuncts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lakestream.compute.expressions.levels import Levels, Timeline
    from lakestream.errors import Place
    from lakestream.language.common.query_clauses import InnerWindow
    from lakestream.triggers.grid import Grid

MAX_FILLED = 10_000_000
"""Windows that FILL may give of a slice (TDengine: results of a query with FILL)."""

M = "_ls_m"
"""The column of a window's number where FILL has made windows without rows."""


def fills(window: InnerWindow | None) -> bool:
    """Return whether a window clause has a FILL that gives windows."""
    return window is not None and window.args.get("fill") not in (None, "NONE")


@dataclass(frozen=True)
class WindowFill:
    """The FILL of a select with the windows of an INTERVAL; ``where`` is what the select's rows are of."""

    levels: Levels
    window: InnerWindow
    grid: Grid
    where: exp.Expr | None
    place: Callable[[exp.Expr], Place]

    def filled(self, aggregated: exp.Select, numbers: Iterable[int]) -> exp.Select:
        """Return the windows with those between them, and over the range of the WHERE, that have no rows.

        ``numbers`` are the results that aggregate. Raises StatementError FILL_VALUE.
        """
        mode, names = self.window.args["fill"].removesuffix("_F"), [f"_ls_c{number}" for number in numbers]
        values = self._constants(names) if mode == "VALUE" else {}
        low, high = _range(self.where, self.levels.rows)
        forced = self.window.args["fill"].endswith("_F") and low and high and not self.levels.keys
        windows = self._forced(aggregated, low) if forced else aggregated
        keys = [exp.column(f"_ls_p{number}") for number, _ in enumerate(self.levels.keys)]
        over = partial(self.levels.over, keys=keys, order=[exp.column(N)])
        around: dict[str, exp.Expr] = {"_ls_lag": over(f"lag({N})"), "_ls_lead": over(f"lead({N})")}
        if mode in ("PREV", "NEXT", "LINEAR"):
            for name in names:
                point = f"CASE WHEN {name} IS NOT NULL THEN struct({N} AS n, {name} AS v) END"
                around[f"{name}_b"] = over(f"last_value({point}, true)", SO_FAR)
                around[f"{name}_a"] = over(f"first_value({point}, true)", AFTER)
        spaced = self.levels.level(windows, **around)
        ranged = self.levels.level(spaced, _ls_from=_bound(low, "greatest"), _ls_upto=_bound(high, "least"))
        first = f"CASE WHEN _ls_lag IS NULL THEN least({N}, {self._number('_ls_from')}) ELSE {N} END"
        last = f"coalesce(_ls_lead - 1, greatest({N}, {self._number('_ls_upto')}))"
        ends = self.levels.level(ranged, _ls_first=raw(first), _ls_last=raw(last))
        too_many = f"raise_error('FILL: more than {MAX_FILLED} windows')"
        few = f"CASE WHEN _ls_last - _ls_first > {MAX_FILLED} THEN {too_many} ELSE _ls_last END"
        every = self.levels.level(ends, _ls_m=raw(f"explode(sequence(_ls_first, {few}))"))
        here = f"{M} = {N}" + (" AND _ls_there" if forced else "")
        replaced = {name: self._fill(name, mode, here, values.get(name)) for name in names}
        kept = [exp.column(name) for name in (*(key.name for key in keys), M)]
        hidden = [item.alias for item in aggregated.selects if item.alias.startswith("_ls_o")]
        others = [exp.alias_(raw(f"CASE WHEN {here} THEN {name} END"), name) for name in hidden]
        listed = [*kept, *(exp.alias_(node, name) for name, node in replaced.items()), *others]
        return exp.Select(
            expressions=listed, from_=exp.From(this=every.subquery(self.levels.rows.alias, copy=False))
        )

    def _number(self, micros: str) -> str:
        """Return SQL of the last window that has begun by an instant; NULL (none) is left out by least()."""
        return self.grid.begun(micros, micros)

    def _constants(self, names: Sequence[str]) -> dict[str, exp.Expr]:
        values = self.window.args["values"]
        if len(values) != len(names):
            raise StatementError(
                "FILL_VALUE",
                f"FILL(VALUE, …) has {len(values)} constants for {len(names)} results that aggregate",
                hint="one for each of them, in their order",
                place=self.place(values[0]),
            )
        return dict(zip(names, values, strict=True))

    def _fill(self, name: str, mode: str, here: str, value: exp.Expr | None) -> exp.Expr:
        """Return what a result is in a window: its own there, else what the mode gives."""
        filled = "NULL"
        if value is not None:
            number = not isinstance(value, (exp.Boolean, exp.Null)) and not getattr(value, "is_string", False)
            text = value.sql("spark")
            # The type of a result stays what it is: a fraction is cut off where it counts (TDengine).
            cut = f"CASE WHEN {_counts(name)} THEN CAST({text} AS BIGINT)"
            filled = f"{cut} ELSE {text} END" if number and "." in text else text
        elif mode == "PREV":
            filled = f"CASE WHEN {M} >= {N} THEN {name}_b.v END"
        elif mode == "NEXT":
            filled = f"CASE WHEN {M} > {N} THEN {name}_a.v ELSE coalesce({name}, {name}_a.v) END"
        elif mode == "LINEAR":
            filled = self._line(name)
        return raw(f"CASE WHEN {here} THEN {name} ELSE {filled} END")

    def _line(self, name: str) -> str:
        """Return SQL of the straight line between the values around, cut off where the result counts."""
        begun = {number: self.grid.low(number, number) for number in (M, f"{name}_b.n", f"{name}_a.n")}
        at, before, after = begun.values()
        share = f"CAST({at} - {before} AS DOUBLE) / ({after} - {before})"
        one, other = f"CAST({name}_b.v AS DOUBLE)", f"CAST({name}_a.v AS DOUBLE)"
        value = f"({one} + ({other} - {one}) * {share})"
        cut = f"CASE WHEN {_counts(name)} THEN CAST(CAST({value} AS BIGINT) AS DOUBLE) ELSE {value} END"
        return f"CASE WHEN {M} > {N} AND {name}_b IS NOT NULL AND {name}_a IS NOT NULL THEN {cut} END"

    def _forced(self, aggregated: exp.Select, low: list[exp.Expr]) -> exp.Select:
        """Return the windows and, where none has rows, the first of the range (NULL_F, VALUE_F)."""
        bounds = exp.Select(expressions=[exp.alias_(_bound(low, "greatest"), "_ls_from")])
        names = [item.alias for item in aggregated.selects]
        first = [
            exp.alias_(raw(self._number("_ls_from")) if name == N else exp.null(), name) for name in names
        ]
        there = exp.alias_(exp.false(), "_ls_there")
        empty = exp.Select(
            expressions=[*first, there],
            from_=exp.From(this=bounds.subquery(self.levels.rows.alias, copy=False)),
        )
        windows = self.levels.level(aggregated, _ls_there=exp.true())
        both = exp.Union(this=windows, expression=empty, distinct=False)
        picked = [
            exp.alias_(raw(f"any_value({name}, true)") if name != N else exp.column(N), name)
            for name in names
        ]
        picked.append(exp.alias_(raw("bool_or(_ls_there)"), "_ls_there"))
        found = exp.Select(
            expressions=picked, from_=exp.From(this=both.subquery(self.levels.rows.alias, copy=False))
        )
        return found.group_by(exp.column(N), copy=False)


# --- the range of the WHERE ---


def _range(where: exp.Expr | None, rows: Timeline) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Return the first and the last microseconds that AND-ed conditions on the time allow, one by one."""
    low: list[exp.Expr] = []
    high: list[exp.Expr] = []
    for part in [*(conjuncts(where.this) if where is not None else []), *rows.span]:
        if isinstance(part, exp.Between) and _is_time(part.this, rows):
            ends = [part.args["low"], part.args["high"]]
            if all(_is_constant(end, rows) for end in ends):
                low.append(_instant(ends[0], 0))
                high.append(_instant(ends[1], 0))
            continue
        if not isinstance(part, (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ)):
            continue
        left, right = part.left, part.right
        kind: type[exp.Expr] = type(part)
        if not _is_time(left, rows):
            left, right, kind = right, left, TURNED[kind]
        if not _is_time(left, rows) or not _is_constant(right, rows):
            continue
        if kind is not exp.LT and kind is not exp.LTE:
            low.append(_instant(right, int(kind is exp.GT)))
        if kind is not exp.GT and kind is not exp.GTE:
            high.append(_instant(right, -int(kind is exp.LT)))
    return low, high


def _is_time(node: exp.Expr, rows: Timeline) -> bool:
    node = node.unnest()
    names = {rows.time.lower(), *TIME_PSEUDO_COLUMNS}
    return isinstance(node, exp.Column) and node.name.lower() in names and node.table in ("", rows.alias)


def _is_constant(node: exp.Expr, rows: Timeline) -> bool:
    if list(node.find_all(exp.Query)):
        return False
    return all(
        not column.table and (column.name.lower() in rows.known or column.name.startswith("%%"))
        for column in node.find_all(exp.Column)
    )


def _instant(node: exp.Expr, more: int) -> exp.Expr:
    micros = call("unix_micros", exp.cast(node.copy(), "timestamp"))
    return exp.Add(this=micros, expression=raw(f"{more}L")) if more else micros


def _bound(bounds: Sequence[exp.Expr], strictest: str) -> exp.Expr:
    """Return the one of several bounds that holds for all; NULL where there is none."""
    if not bounds:
        return exp.cast(exp.null(), "bigint")
    return call(strictest, *(bound.copy() for bound in bounds)) if len(bounds) > 1 else bounds[0].copy()


def _counts(name: str) -> str:
    """Return SQL of whether a result is an integer."""
    return f"typeof({name}) RLIKE '^(tinyint|smallint|int|bigint)$'"
