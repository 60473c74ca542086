"""Windows inside a query, in Spark's terms: rows numbered by window, aggregated, filled, cut to limits.

A select with a window becomes three: the rows with the number of their window, one row for each window with
what it aggregates, and the select itself over those. Every step is a plain relation, so that it may stand
wherever a query may, also where it is correlated with the windows of a stream.

Source of the rules: TDengine, "Window Partitioning Queries", "FILL Clause", "LIMIT" and "SLIMIT".
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.functions import aggregates, call
from lakestream.compute.expressions.levels import HIGH, LOW, Levels, N, in_order, raw, states_of
from lakestream.compute.expressions.row_calls import hide
from lakestream.compute.expressions.slice_limits import SliceLimits
from lakestream.compute.expressions.window_cuts import WindowCut, window_bounds
from lakestream.compute.expressions.window_fill import M, WindowFill, fills
from lakestream.errors import NotSupportedError, StatementError
from lakestream.language.common.query_clauses import INNER_WINDOW, SLICE_LIMIT, SLICES
from lakestream.language.expressions.inner_windows import clause_of
from lakestream.language.expressions.parsing import given_name, place_in, text_of
from lakestream.language.model import IntervalTrigger
from lakestream.language.quoting import quoted
from lakestream.triggers.grid import grid_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakestream.compute.expressions.levels import Timeline
    from lakestream.errors import Place
    from lakestream.language.model import Fragment
    from lakestream.triggers.grid import Grid

_BOUNDS = ("_wstart", "_wend", "_wduration")
_HELD = "_ls_held"
"""How many rows a window has, where each of its rows knows that."""


def has_clauses(select: exp.Select) -> bool:
    """Return whether a select has slices or a window."""
    return any(select.args.get(name) for name in (SLICES, INNER_WINDOW))


def rewrite_clauses(fragment: Fragment, select: exp.Select, rows: Timeline, *, ordered: bool = False) -> None:
    """Rewrite a select with slices or a window in place; its columns keep their names and order.

    ``ordered``: without an ORDER BY the windows of a slice are given in order of time. Raises StatementError
    NOT_AGGREGATED for a column that is neither aggregated nor one of the slices, SESSION_COLUMN, FILL_VALUE.
    """
    slices, window = select.args.get(SLICES), select.args.get(INNER_WINDOW)
    limited = select.args.get(SLICE_LIMIT) or (
        slices and (select.args.get("limit") or select.args.get("offset"))
    )
    if window is None and not limited:
        if aggregates(select.selects):
            select.group_by(*(key.copy() for key in _keys(select, rows)), copy=False)
        _pop(select)
        return
    _Rewriter(fragment, select, rows, ordered=ordered).rewrite()


def cut_rows(fragment: Fragment, select: exp.Select, rows: Timeline) -> list[exp.Expr]:
    """Have a select read rows that know their window, and return what its slices and windows are cut by.

    For a select whose results are several rows of a window; the bounds of a window stand in its list as
    columns. Raises StatementError as :func:`rewrite_clauses`, NOT_SUPPORTED for FILL and limits of slices.
    """
    rewriter = _Rewriter(fragment, select, rows, ordered=False)
    keys = rewriter.cut_in_place() if has_clauses(select) else []
    _pop(select)
    return keys


def _pop(select: exp.Select) -> None:
    for name in (SLICES, INNER_WINDOW, SLICE_LIMIT):
        select.set(name, None)


def _keys(select: exp.Select, rows: Timeline) -> list[exp.Expr]:
    """Return what slices are cut by: positions and aliases stand for results, as in GROUP BY (TDengine)."""
    slices = select.args.get(SLICES)
    named = {item.alias.lower(): item.this for item in select.selects if isinstance(item, exp.Alias)}
    keys: list[exp.Expr] = []
    for key in slices.expressions if slices else []:
        if isinstance(key, exp.Literal) and key.is_int and 1 <= int(key.name) <= len(select.selects):
            keys.append(select.selects[int(key.name) - 1].unalias())
        elif isinstance(key, exp.Column) and not key.table and key.name.lower() != rows.time.lower():
            keys.append(named.get(key.name.lower(), key))
        else:
            keys.append(key)
    return [key.copy() for key in keys]


class _Rewriter:
    """One select with its window; ``keys`` are what its slices are cut by."""

    def __init__(self, fragment: Fragment, select: exp.Select, rows: Timeline, *, ordered: bool) -> None:
        self.fragment, self.select, self.rows = fragment, select, rows
        self.place = partial(place_in, fragment)
        self.window = select.args.get(INNER_WINDOW)
        self.clause = clause_of(self.window) if self.window is not None else None
        self.keys = _keys(select, rows)
        self.levels = Levels(rows, self.keys)
        self.grid: Grid | None = None
        self.ordered = ordered
        self.limit = select.args.get(SLICE_LIMIT)
        self.named = {item.alias.lower() for item in select.selects if isinstance(item, exp.Alias)}
        if self.clause is not None and self.clause.kind == "INTERVAL":
            clause = self.clause
            self.grid = grid_of(IntervalTrigger(clause.length, clause.offset, clause.every), rows.zone)

    # --- the whole ---

    def rewrite(self) -> None:
        if self.window is None and not aggregates(self.select.selects):
            self._limit_rows()
            return
        items = [_titled(item) for item in self.select.selects]
        results = {
            number: f"_ls_c{number}" for number, item in enumerate(items) if aggregates([item.unalias()])
        }
        order = self._order(items, results)
        aggregated = self._aggregated(self._cut(self._read()), results, items, order)
        filled = self._filled(aggregated, results) if self._fills else aggregated
        outer = [
            exp.alias_(exp.column(results[number]), item.alias, quoted=True)
            if number in results
            else self._outside(item)
            for number, item in enumerate(items)
        ]
        _pop(self.select)
        for name in ("where", "group", "having", "laterals"):
            self.select.set(name, None)
        self.select.set("expressions", outer)
        self._limited(filled, order)
        self._check_resolved()

    def cut_in_place(self) -> list[exp.Expr]:
        """Put the rows with their windows in the place of FROM and WHERE; return what tells windows apart."""
        cuts = [self.select.args.get(name) for name in ("limit", "offset", SLICE_LIMIT)]
        if self._fills or (self.keys and any(cuts)):
            what = "FILL" if self._fills else "LIMIT behind PARTITION BY"
            hint = "a query around it"
            raise NotSupportedError(f"{what} beside results of several rows", hint=hint, place=self._start)
        if self.clause is None:
            return self.keys
        cut = self._cut(self._read())
        inside = [*self.keys, exp.column(N)]
        if self.grid is None:
            first, last = (f"{name}({quoted(self.rows.time)})" for name in ("min", "max"))
        else:
            first, last = self._bounds(N)
        bounds = {} if self._reaches else {LOW: first, HIGH: last}
        placed = {
            name: raw(text) if self.grid is not None else self.levels.over(text, keys=inside, order=[])
            for name, text in bounds.items()
        }
        if self.clause.least is not None:
            placed[_HELD] = self.levels.over("count(*)", keys=inside, order=[])
        below = self.levels.level(cut, **placed)
        if self.clause.least is not None:
            lasts = f"unix_micros({HIGH}) - unix_micros({LOW})"
            below = self.levels.level(below).where(raw(self.clause.least.holds(lasts, _HELD)), copy=False)
        for name in ("where", "laterals"):
            self.select.set(name, None)
        self.select.set("from_", exp.From(this=below.subquery(self.rows.alias, copy=False)))
        order = self.select.args.get("order")
        for item in [*self.select.selects, *(order.expressions if order else [])]:
            # The calls among the results stay the nodes that they are.
            for column in list(item.find_all(exp.Column)):
                bound = self._with_bounds(column, exp.column(LOW), exp.column(HIGH))
                is_result = column is item and bound != column
                column.replace(exp.alias_(bound, column.name.lower(), quoted=True) if is_result else bound)
        return inside

    @property
    def _start(self) -> Place:
        return self.place(self.window if self.window is not None else self.select)

    def _read(self) -> exp.Select:
        """Return the rows that the select is over: those of its WHERE."""
        rows = exp.Select(expressions=[exp.Star()])
        for name in ("from_", "where", "laterals"):
            if self.select.args.get(name):
                rows.set(name, self.select.args[name])
        return rows

    # --- rows to windows ---

    def _cut(self, rows: exp.Select) -> exp.Select:
        """Return the rows with the number of their window; those in none are gone."""
        if self.clause is None:
            return rows
        assert self.window is not None
        cut = WindowCut(self.levels, self.window, self.clause, self.grid, self._bounds_inside, self.place)
        return cut.numbered(rows)

    @property
    def _bounds_inside(self) -> bool:
        """Return whether what aggregates names the bounds of an INTERVAL too: it is then grouped by them."""
        order, having = self.select.args.get("order"), self.select.args.get("having")
        parts = [*self.select.selects, *(order.expressions if order else []), *([having] if having else [])]
        inside = [part for part in parts if aggregates([part]) or part is having]
        return self.grid is not None and any(
            column.name.lower() in _BOUNDS for part in inside for column in part.find_all(exp.Column)
        )

    # --- windows to results ---

    def _aggregated(
        self,
        cut: exp.Select,
        results: dict[int, str],
        items: Sequence[exp.Expr],
        order: Sequence[tuple[exp.Ordered, str | None]],
    ) -> exp.Select:
        """Return one row for each window: its slice, its number and bounds, and what it aggregates."""
        named = {f"_ls_p{number}": key.copy() for number, key in enumerate(self.keys)}
        groups = [key.copy() for key in self.keys]
        for name in self._of_window:
            named[name] = exp.column(name)
            groups.append(exp.column(name))
        if self.window is not None and self.grid is None and not self._reaches:
            time = exp.column(self.rows.time, quoted=True)
            named |= {LOW: exp.Min(this=time), HIGH: exp.Max(this=time.copy())}
        for number, name in results.items():
            named[name] = self._inside(items[number].unalias())
        for node, hidden in order:
            if hidden is not None:
                named[hidden] = self._inside(node.this)
        below = exp.From(this=cut.subquery(self.rows.alias, copy=False))
        listed = [exp.alias_(node, name) for name, node in named.items()]
        found = exp.Select(expressions=listed, from_=below)
        if groups:
            found.group_by(*groups, copy=False)
        for condition in self._having():
            found.having(condition, copy=False)
        return found

    @property
    def _of_window(self) -> list[str]:
        """The columns of the rows that are one and the same in a window."""
        if self.clause is None:
            return []
        assert self.window is not None  # has a clause
        return [N, *states_of(self.window), *([LOW, HIGH] if self._bounds_inside or self._reaches else [])]

    @property
    def _reaches(self) -> bool:
        """Whether rows know the bounds of their window, which are others than those of its rows (EXTEND)."""
        return self.clause is not None and self.clause.rule.extend != 0

    def _having(self) -> list[exp.Expr]:
        having = self.select.args.get("having")
        conditions = [self._inside(having.this)] if having is not None else []
        if self.clause is not None and self.clause.least is not None:
            lasts = f"max({self.levels.micros}) - min({self.levels.micros})"
            if self._reaches:
                lasts = f"unix_micros({HIGH}) - unix_micros({LOW})"
            conditions.append(raw(self.clause.least.holds(lasts, "count(*)")))
        return conditions

    def _inside(self, node: exp.Expr) -> exp.Expr:
        """Return an expression of the select as one over the rows of a window."""
        time = exp.column(self.rows.time, quoted=True)
        if self.grid is not None or self._reaches:
            return self._with_bounds(node.copy(), exp.column(LOW), exp.column(HIGH))
        return self._with_bounds(node.copy(), exp.Min(this=time), exp.Max(this=time.copy()))

    def _outside(self, node: exp.Expr) -> exp.Expr:
        """Return an expression of the select as one over the rows of :meth:`_aggregated`."""
        bounds = (LOW, HIGH) if self.grid is None else self._bounds(M if self._fills else N)
        low, high = (raw(bound) for bound in bounds)
        named = {key: f"_ls_p{number}" for number, key in enumerate(self.keys)}

        def replaced(part: exp.Expr) -> exp.Expr:
            return exp.column(named[part]) if part in named else part

        return self._with_bounds(node.copy().transform(replaced), low, high)

    def _bounds(self, number: str) -> tuple[str, str]:
        assert self.grid is not None  # by the callers
        return window_bounds(self.grid, number)

    def _with_bounds(self, node: exp.Expr, low: exp.Expr, high: exp.Expr) -> exp.Expr:
        """Put the bounds of the window, and its state, where their names stand."""
        if self.window is None:
            return node
        lasts = exp.Sub(this=call("unix_micros", high.copy()), expression=call("unix_micros", low.copy()))
        duration = exp.IntDiv(this=exp.paren(lasts, copy=False), expression=exp.Literal.number("1000L"))
        meant = {"_wstart": low, "_wend": high, "_wduration": exp.paren(duration, copy=False)}
        states = {node: name for name, node in states_of(self.window).items()}

        def replaced(part: exp.Expr) -> exp.Expr:
            if part in states:
                return exp.column(states[part])
            is_bare = isinstance(part, exp.Column) and not part.table and part.name.lower() in meant
            return meant[part.name.lower()].copy() if is_bare else part

        return node.transform(replaced)

    # --- order and limits ---

    def _order(
        self, items: Sequence[exp.Expr], results: dict[int, str]
    ) -> list[tuple[exp.Ordered, str | None]]:
        """Return what the select is ordered by, with the name of the column that holds what aggregates."""
        order = self.select.args.get("order")
        same = {items[number].unalias(): name for number, name in results.items()}
        found: list[tuple[exp.Ordered, str | None]] = []
        for number, item in enumerate(order.expressions if order else []):
            aggregated = aggregates([item.this])
            name = f"_ls_o{number}" if aggregated and item.this not in same else None
            if aggregated and name is None:
                item.set("this", exp.column(same[item.this]))
            found.append((item, name))
        return found

    def _limited(self, below: exp.Select, order: Sequence[tuple[exp.Ordered, str | None]]) -> None:
        """Put the select over its windows, in order, and as many of each slice as it asks for."""
        by = [self._ordered_by(item, name) for item, name in order]
        time = [in_order(exp.column(f"_ls_p{number}")) for number, _ in enumerate(self.keys)]
        if self.window is not None:
            time.append(in_order(exp.column(M if self._fills else N)))
        cuts = bool(self.select.args.get("limit") or self.select.args.get("offset"))
        wanted = by or (time if (self.ordered or cuts) and not self.select.args.get("distinct") else [])
        keys = [exp.column(f"_ls_p{number}") for number, _ in enumerate(self.keys)]
        if self.keys and (cuts or self.limit is not None):
            limits = self._limits
            below = limits.kept(below, keys, limits.by_results(by) or time)
        self.select.set("order", exp.Order(expressions=wanted) if wanted else None)
        self.select.set("from_", exp.From(this=below.subquery(self.rows.alias, copy=False)))

    def _ordered_by(self, item: exp.Ordered, name: str | None) -> exp.Ordered:
        found = item.copy()
        found.set("this", exp.column(name) if name is not None else self._outside(item.this))
        return found

    @property
    def _limits(self) -> SliceLimits:
        return SliceLimits(self.levels, self.select, self.limit, self.place)

    def _limit_rows(self) -> None:
        """Keep so many rows of each slice, as they are."""
        order, limits = self.select.args.get("order"), self._limits
        by = limits.by_results(order.expressions) if order else self.levels.time_order
        below = limits.kept(self._read(), self.keys, by)
        hide(self.select, limits.hidden)
        _pop(self.select)
        for name in ("where", "laterals"):
            self.select.set(name, None)
        self.select.set("from_", exp.From(this=below.subquery(self.rows.alias, copy=False)))

    # --- FILL ---

    @property
    def _fills(self) -> bool:
        return fills(self.window)

    def _filled(self, aggregated: exp.Select, results: Iterable[int]) -> exp.Select:
        assert self.window is not None  # by _fills
        assert self.grid is not None  # FILL belongs to INTERVAL
        where = self.select.args.get("where")
        return WindowFill(self.levels, self.window, self.grid, where, self.place).filled(aggregated, results)

    # --- checks ---

    def _check_resolved(self) -> None:
        """Refuse a column of single rows beside the aggregates of a window."""
        known = {name.lower() for name in self.rows.known} | self.named
        order = self.select.args.get("order")
        for part in [*self.select.selects, *([order] if order else [])]:
            for column in part.find_all(exp.Column):
                name = column.name.lower()
                if name.startswith(("_ls_", "%%")) or (not column.table and name in known):
                    continue
                if column.find_ancestor(exp.Query) is not self.select:
                    continue
                raise StatementError(
                    "NOT_AGGREGATED",
                    f"{column.name} is neither in an aggregate nor in PARTITION BY",
                    hint=f"a window gives one row: last({column.name}), or PARTITION BY {column.name}",
                    place=self.place(column),
                )


def _titled(item: exp.Expr) -> exp.Expr:
    """Return a result with the name that it has for what refers to it from outside."""
    return exp.alias_(item.unalias(), given_name(item) or text_of(item), quoted=True)
