"""Windows inside a query, in Spark's terms: rows numbered by window, aggregated, filled, cut to limits.

A select with a window becomes three: the rows with the number of their window, one row for each window with
what it aggregates, and the select itself over those. Every step is a plain relation, so that it may stand
wherever a query may, also where it is correlated with the windows of a stream.

Source of the rules: TDengine, "Window Partitioning Queries", "FILL Clause", "LIMIT" and "SLIMIT".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.functions import aggregates, call
from lakestream.compute.expressions.row_calls import hide
from lakestream.errors import NotSupportedError, StatementError
from lakestream.language.common.query_clauses import INNER_WINDOW, SLICE_LIMIT, SLICES
from lakestream.language.expressions.inner_windows import clause_of
from lakestream.language.expressions.parsing import conjuncts, given_name, place_in, text_of
from lakestream.language.model import IntervalTrigger
from lakestream.language.quoting import quoted
from lakestream.triggers.grid import grid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lakestream.errors import Place
    from lakestream.language.model import Fragment
    from lakestream.triggers.grid import Grid

    Frame = tuple[tuple[str, str | None], tuple[str, str | None]]
    """From where to where rows around one are taken: (how many, on which side)."""

TIME_PSEUDO_COLUMNS = frozenset({"_c0", "_rowts"})
MAX_FILLED = 10_000_000
"""Windows that FILL may give of a slice (TDengine: results of a query with FILL)."""

_N, _M, _LOW, _HIGH, _STATE, _ROW, _SLICE = (
    "_ls_n",
    "_ls_m",
    "_ls_low",
    "_ls_high",
    "_ls_state",
    "_ls_row",
    "_ls_slice",
)
_BOUNDS = ("_wstart", "_wend", "_wduration")
_FIRST, _LAST = ("UNBOUNDED", "PRECEDING"), ("UNBOUNDED", "FOLLOWING")
_HERE = ("CURRENT ROW", None)
_SO_FAR, _BEFORE = (_FIRST, _HERE), (_FIRST, ("1", "PRECEDING"))
_FROM_HERE, _AFTER = (_HERE, _LAST), (("1", "FOLLOWING"), _LAST)


@dataclass(frozen=True)
class Timeline:
    """The rows that a select reads: the alias they have, their time, and what orders those of equal time.

    ``known`` are the names that stand for constants of the evaluation (placeholders); ``span`` is the range
    of time that the rows are of, where they are those of a trigger: two conditions on the time.
    """

    alias: str
    time: str
    ties: tuple[str, ...]
    known: frozenset[str]
    zone: str
    span: tuple[exp.Expr, ...] = ()


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
        filled = self._filled(aggregated, list(results)) if self._fills else aggregated
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
        inside = [*self.keys, exp.column(_N)]
        if self.grid is None:
            first, last = (f"{name}({quoted(self.rows.time)})" for name in ("min", "max"))
        else:
            first, last = self._bounds(_N)
        bounds = {_LOW: first, _HIGH: last}
        placed = {
            name: _sql(text) if self.grid is not None else self._over(text, keys=inside, order=[])
            for name, text in bounds.items()
        }
        below = self._level(cut, **placed)
        if self.clause.least is not None:
            lasts = f"unix_micros({_HIGH}) - unix_micros({_LOW})"
            below = self._level(below).where(_sql(f"{lasts} >= {self.clause.least.micros}L"), copy=False)
        for name in ("where", "laterals"):
            self.select.set(name, None)
        self.select.set("from_", exp.From(this=below.subquery(self.rows.alias, copy=False)))
        order = self.select.args.get("order")
        for item in [*self.select.selects, *(order.expressions if order else [])]:
            # The calls among the results stay the nodes that they are.
            for column in list(item.find_all(exp.Column)):
                bound = self._with_bounds(column, exp.column(_LOW), exp.column(_HIGH))
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

    def _level(self, below: exp.Query, **columns: exp.Expr) -> exp.Select:
        """Return the rows of a relation with more columns."""
        listed = [exp.Star(), *(exp.alias_(node, name) for name, node in columns.items())]
        return exp.Select(
            expressions=listed, from_=exp.From(this=below.subquery(self.rows.alias, copy=False))
        )

    def _over(
        self,
        function: str,
        frame: Frame | None = None,
        *,
        keys: Sequence[exp.Expr] | None = None,
        order: Sequence[exp.Expr] | None = None,
    ) -> exp.Expr:
        """Return a function over the rows of a slice, by default in order of time."""
        keys = self.keys if keys is None else keys
        order = self._time_order if order is None else order
        window = exp.Window(this=_sql(function), partition_by=[key.copy() for key in keys])
        if order:
            window.set("order", exp.Order(expressions=[_ordered(node) for node in order]))
        if frame:
            (start, start_side), (end, end_side) = frame
            bounds = {"start": start, "start_side": start_side, "end": end, "end_side": end_side}
            window.set("spec", exp.WindowSpec(kind="ROWS", **bounds))
        return window

    @property
    def _time_order(self) -> list[exp.Expr]:
        return [exp.column(name, quoted=True) for name in (self.rows.time, *self.rows.ties)]

    @property
    def _micros(self) -> str:
        return f"unix_micros({quoted(self.rows.time)})"

    # --- rows to windows ---

    def _cut(self, rows: exp.Select) -> exp.Select:
        """Return the rows with the number of their window; those in none are gone."""
        if self.clause is None:
            return rows
        cut: dict[str, Callable[[exp.Select], exp.Select]] = {
            "INTERVAL": self._by_interval,
            "SESSION": self._by_session,
            "STATE_WINDOW": self._by_state,
            "EVENT_WINDOW": self._by_event,
            "COUNT_WINDOW": self._by_count,
        }
        return cut[self.clause.kind](rows)

    def _by_interval(self, rows: exp.Select) -> exp.Select:
        assert self.grid is not None  # by __init__
        numbered = self._level(rows, _ls_n=_sql(self.grid.holding(self._micros, self._micros)))
        if not self._bounds_inside:
            return numbered
        low, high = self._bounds(_N)
        return self._level(numbered, _ls_low=_sql(low), _ls_high=_sql(high))

    @property
    def _bounds_inside(self) -> bool:
        """Return whether what aggregates names the bounds of an INTERVAL too: it is then grouped by them."""
        order, having = self.select.args.get("order"), self.select.args.get("having")
        parts = [*self.select.selects, *(order.expressions if order else []), *([having] if having else [])]
        inside = [part for part in parts if aggregates([part]) or part is having]
        return self.grid is not None and any(
            column.name.lower() in _BOUNDS for part in inside for column in part.find_all(exp.Column)
        )

    def _by_session(self, rows: exp.Select) -> exp.Select:
        assert self.clause is not None  # by _cut
        column = self.window.expressions[0] if self.window is not None else None
        if column is not None and column.name.lower() not in {self.rows.time.lower(), *TIME_PSEUDO_COLUMNS}:
            raise StatementError(
                "SESSION_COLUMN",
                f"SESSION takes the event time {self.rows.time}, not {column.name}",
                place=self.place(column),
            )
        before = self._level(rows, _ls_before=self._over(f"lag({self._micros})"))
        within = f"{self._micros} - _ls_before <= {self.clause.gap.micros}L"
        begins = self._level(before, _ls_begins=_sql(f"CASE WHEN {within} THEN 0L ELSE 1L END"))
        return self._level(begins, _ls_n=self._over("sum(_ls_begins)", _SO_FAR))

    def _by_state(self, rows: exp.Select) -> exp.Select:
        """Give a row without a state to the window around it, to none between two states (EXTEND 0)."""
        assert self.window is not None  # by _cut
        stated = self._level(rows, _ls_v=self.window.expressions[0].copy())
        around = self._level(
            stated,
            _ls_last=self._over("last_value(_ls_v, true)", _SO_FAR),
            _ls_next=self._over("first_value(_ls_v, true)", _FROM_HERE),
        )
        same = "_ls_last IS NULL OR _ls_next IS NULL OR _ls_last = _ls_next"
        state = f"CASE WHEN {same} THEN coalesce(_ls_last, _ls_next) END"
        known = self._level(around, _ls_state=_sql(state))
        inside = self._level(known).where(_sql(f"{_STATE} IS NOT NULL"), copy=False)
        changes = self._level(inside, _ls_before=self._over(f"lag({_STATE})"))
        begins = self._level(changes, _ls_begins=_sql(f"CASE WHEN _ls_before = {_STATE} THEN 0L ELSE 1L END"))
        return self._level(begins, _ls_n=self._over("sum(_ls_begins)", _SO_FAR))

    def _by_event(self, rows: exp.Select) -> exp.Select:
        """Each row that ends a window leaves none open: from there on the next start is looked for."""
        assert self.window is not None  # by _cut
        conditions = {
            name: call("coalesce", self.window.args[arg].copy(), exp.false())
            for name, arg in (("_ls_starts", "this"), ("_ls_ends", "until"))
        }
        judged = self._level(rows, **conditions)
        parts = self._level(judged, _ls_n=self._over("count_if(_ls_ends)", _BEFORE))
        keys = [*self.keys, exp.column(_N)]
        opened = self._level(
            parts,
            _ls_open=self._over("bool_or(_ls_starts)", _SO_FAR, keys=keys),
            _ls_closed=self._over("bool_or(_ls_ends)", keys=keys, order=[]),
        )
        return self._level(opened).where(_sql("_ls_open AND _ls_closed"), copy=False)

    def _by_count(self, rows: exp.Select) -> exp.Select:
        """Windows of so many rows, one each so many; the last ones have what rows there are (TDengine)."""
        assert self.clause is not None  # by _cut
        assert self.window is not None
        size, step = self.clause.rows, self.clause.step
        columns = [node for node in self.window.expressions if isinstance(node, exp.Column)]
        if columns:
            counts = call("coalesce", *(call("if", _is_null(c), exp.null(), exp.true()) for c in columns))
            rows = self._level(rows).where(counts, copy=False)
        counted = self._level(rows, _ls_i=self._over("row_number()"))
        first = f"CASE WHEN _ls_i <= {size} THEN 0L ELSE (_ls_i - 1 - {size}) div {step}L + 1 END"
        return self._level(counted, _ls_n=_sql(f"explode(sequence({first}, (_ls_i - 1) div {step}L))"))

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
        if self.window is not None and self.grid is None:
            time = exp.column(self.rows.time, quoted=True)
            named |= {_LOW: exp.Min(this=time), _HIGH: exp.Max(this=time.copy())}
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
        state = [_STATE] if self.clause.kind == "STATE_WINDOW" else []
        return [_N, *state, *([_LOW, _HIGH] if self._bounds_inside else [])]

    def _having(self) -> list[exp.Expr]:
        having = self.select.args.get("having")
        conditions = [self._inside(having.this)] if having is not None else []
        if self.clause is not None and self.clause.least is not None:
            lasts = f"max({self._micros}) - min({self._micros})"
            conditions.append(_sql(f"{lasts} >= {self.clause.least.micros}L"))
        return conditions

    def _inside(self, node: exp.Expr) -> exp.Expr:
        """Return an expression of the select as one over the rows of a window."""
        time = exp.column(self.rows.time, quoted=True)
        if self.grid is not None:
            return self._with_bounds(node.copy(), exp.column(_LOW), exp.column(_HIGH))
        return self._with_bounds(node.copy(), exp.Min(this=time), exp.Max(this=time.copy()))

    def _outside(self, node: exp.Expr) -> exp.Expr:
        """Return an expression of the select as one over the rows of :meth:`_aggregated`."""
        bounds = (_LOW, _HIGH) if self.grid is None else self._bounds(_M if self._fills else _N)
        low, high = (_sql(bound) for bound in bounds)
        named = {key: f"_ls_p{number}" for number, key in enumerate(self.keys)}

        def replaced(part: exp.Expr) -> exp.Expr:
            return exp.column(named[part]) if part in named else part

        return self._with_bounds(node.copy().transform(replaced), low, high)

    def _bounds(self, number: str) -> tuple[str, str]:
        assert self.grid is not None  # by the callers
        low, high = self.grid.low(number, number), self.grid.high(number, number)
        return f"timestamp_micros({low})", f"timestamp_micros({high})"

    def _with_bounds(self, node: exp.Expr, low: exp.Expr, high: exp.Expr) -> exp.Expr:
        """Put the bounds of the window, and its state, where their names stand."""
        if self.window is None:
            return node
        lasts = exp.Sub(this=call("unix_micros", high.copy()), expression=call("unix_micros", low.copy()))
        duration = exp.IntDiv(this=exp.paren(lasts, copy=False), expression=exp.Literal.number("1000L"))
        meant = {"_wstart": low, "_wend": high, "_wduration": exp.paren(duration, copy=False)}
        state = self.window.expressions[0] if self.window.args["kind"] == "STATE_WINDOW" else None

        def replaced(part: exp.Expr) -> exp.Expr:
            if state is not None and part == state:
                return exp.column(_STATE)
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
        time = [_ordered(exp.column(f"_ls_p{number}")) for number, _ in enumerate(self.keys)]
        if self.window is not None:
            time.append(_ordered(exp.column(_M if self._fills else _N)))
        cuts = bool(self.select.args.get("limit") or self.select.args.get("offset"))
        wanted = by or (time if (self.ordered or cuts) and not self.select.args.get("distinct") else [])
        keys = [exp.column(f"_ls_p{number}") for number, _ in enumerate(self.keys)]
        if self.keys and (cuts or self.limit is not None):
            below = self._numbered(below, keys, self._by_results(by) or time)
        self.select.set("order", exp.Order(expressions=wanted) if wanted else None)
        self.select.set("from_", exp.From(this=below.subquery(self.rows.alias, copy=False)))

    def _ordered_by(self, item: exp.Ordered, name: str | None) -> exp.Ordered:
        found = item.copy()
        found.set("this", exp.column(name) if name is not None else self._outside(item.this))
        return found

    def _by_results(self, order: Sequence[exp.Ordered]) -> list[exp.Ordered]:
        """Return an ORDER BY in which results are named by what they are, not by alias or position."""
        selects = self.select.selects
        named = {item.alias_or_name.lower(): item.unalias() for item in selects}

        def meant(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Literal) and node.is_int and 1 <= int(node.name) <= len(selects):
                return selects[int(node.name) - 1].unalias().copy()
            if isinstance(node, exp.Column) and not node.table:
                return named.get(node.name.lower(), node).copy()
            return node.copy()

        found = []
        for item in order:
            copy = item.copy()
            copy.set("this", meant(item.this))
            found.append(copy)
        return found

    def _numbered(self, below: exp.Select, keys: Sequence[exp.Expr], order: Sequence[exp.Expr]) -> exp.Select:
        """Return the rows that LIMIT leaves of each slice, and SLIMIT of all slices."""
        row = self._over("row_number()", keys=keys, order=order)
        slices = {_SLICE: self._over("dense_rank()", keys=[], order=keys)} if self.limit is not None else {}
        numbered = self._level(below, **{_ROW: row}, **slices)
        kept = self._level(numbered)
        for name, first, most in self._ranges():
            if first:
                kept.where(_sql(f"{name} > {first}"), copy=False)
            if most is not None:
                kept.where(_sql(f"{name} <= {first + most}"), copy=False)
        for name in ("limit", "offset"):
            self.select.set(name, None)
        return kept

    def _ranges(self) -> Iterable[tuple[str, int, int | None]]:
        limit, offset = self.select.args.get("limit"), self.select.args.get("offset")
        yield (
            _ROW,
            self._whole(offset.expression) if offset else 0,
            self._whole(limit.expression) if limit else None,
        )
        if self.limit is not None:
            offset = self.limit.args.get("offset")
            yield _SLICE, self._whole(offset) if offset else 0, self._whole(self.limit.this)

    def _whole(self, node: exp.Expr) -> int:
        if isinstance(node, exp.Literal) and node.name.isdigit() and len(node.name) <= 18:
            return int(node.name)
        raise StatementError("SYNTAX", "a limit of slices is a whole number", place=self.place(node))

    def _limit_rows(self) -> None:
        """Keep so many rows of each slice, as they are."""
        order = self.select.args.get("order")
        by = self._by_results(order.expressions) if order else self._time_order
        below = self._numbered(self._read(), self.keys, by)
        hide(self.select, [_ROW, *([_SLICE] if self.limit else [])])
        _pop(self.select)
        for name in ("where", "laterals"):
            self.select.set(name, None)
        self.select.set("from_", exp.From(this=below.subquery(self.rows.alias, copy=False)))

    # --- FILL ---

    @property
    def _fills(self) -> bool:
        return self.window is not None and self.window.args.get("fill") not in (None, "NONE")

    def _filled(self, aggregated: exp.Select, numbers: Sequence[int]) -> exp.Select:
        """Return the windows with those between them, and over the range of the WHERE, that have no rows."""
        assert self.window is not None  # by _fills
        assert self.grid is not None  # FILL belongs to INTERVAL
        mode, names = self.window.args["fill"].removesuffix("_F"), [f"_ls_c{number}" for number in numbers]
        values = self._constants(names) if mode == "VALUE" else {}
        low, high = _range(self.select.args.get("where"), self.rows)
        forced = self.window.args["fill"].endswith("_F") and low and high and not self.keys
        windows = self._forced(aggregated, low) if forced else aggregated
        keys = [exp.column(f"_ls_p{number}") for number, _ in enumerate(self.keys)]
        over = partial(self._over, keys=keys, order=[exp.column(_N)])
        around: dict[str, exp.Expr] = {"_ls_lag": over(f"lag({_N})"), "_ls_lead": over(f"lead({_N})")}
        if mode in ("PREV", "NEXT", "LINEAR"):
            for name in names:
                point = f"CASE WHEN {name} IS NOT NULL THEN struct({_N} AS n, {name} AS v) END"
                around[f"{name}_b"] = over(f"last_value({point}, true)", _SO_FAR)
                around[f"{name}_a"] = over(f"first_value({point}, true)", _AFTER)
        spaced = self._level(windows, **around)
        ranged = self._level(spaced, _ls_from=_bound(low, "greatest"), _ls_upto=_bound(high, "least"))
        first = f"CASE WHEN _ls_lag IS NULL THEN least({_N}, {self._number('_ls_from')}) ELSE {_N} END"
        last = f"coalesce(_ls_lead - 1, greatest({_N}, {self._number('_ls_upto')}))"
        ends = self._level(ranged, _ls_first=_sql(first), _ls_last=_sql(last))
        too_many = f"raise_error('FILL: more than {MAX_FILLED} windows')"
        few = f"CASE WHEN _ls_last - _ls_first > {MAX_FILLED} THEN {too_many} ELSE _ls_last END"
        every = self._level(ends, _ls_m=_sql(f"explode(sequence(_ls_first, {few}))"))
        here = f"{_M} = {_N}" + (" AND _ls_there" if forced else "")
        replaced = {name: self._fill(name, mode, here, values.get(name)) for name in names}
        kept = [exp.column(name) for name in (*(key.name for key in keys), _M)]
        hidden = [item.alias for item in aggregated.selects if item.alias.startswith("_ls_o")]
        others = [exp.alias_(_sql(f"CASE WHEN {here} THEN {name} END"), name) for name in hidden]
        listed = [*kept, *(exp.alias_(node, name) for name, node in replaced.items()), *others]
        return exp.Select(
            expressions=listed, from_=exp.From(this=every.subquery(self.rows.alias, copy=False))
        )

    def _number(self, micros: str) -> str:
        """Return SQL of the last window that has begun by an instant; NULL (none) is left out by least()."""
        assert self.grid is not None  # by _filled
        return self.grid.begun(micros, micros)

    def _constants(self, names: Sequence[str]) -> dict[str, exp.Expr]:
        assert self.window is not None  # by _filled
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
            filled = f"CASE WHEN {_M} >= {_N} THEN {name}_b.v END"
        elif mode == "NEXT":
            filled = f"CASE WHEN {_M} > {_N} THEN {name}_a.v ELSE coalesce({name}, {name}_a.v) END"
        elif mode == "LINEAR":
            filled = self._line(name)
        return _sql(f"CASE WHEN {here} THEN {name} ELSE {filled} END")

    def _line(self, name: str) -> str:
        """Return SQL of the straight line between the values around, cut off where the result counts."""
        assert self.grid is not None  # by _filled
        begun = {number: self.grid.low(number, number) for number in (_M, f"{name}_b.n", f"{name}_a.n")}
        at, before, after = begun.values()
        share = f"CAST({at} - {before} AS DOUBLE) / ({after} - {before})"
        one, other = f"CAST({name}_b.v AS DOUBLE)", f"CAST({name}_a.v AS DOUBLE)"
        value = f"({one} + ({other} - {one}) * {share})"
        cut = f"CASE WHEN {_counts(name)} THEN CAST(CAST({value} AS BIGINT) AS DOUBLE) ELSE {value} END"
        return f"CASE WHEN {_M} > {_N} AND {name}_b IS NOT NULL AND {name}_a IS NOT NULL THEN {cut} END"

    def _forced(self, aggregated: exp.Select, low: list[exp.Expr]) -> exp.Select:
        """Return the windows and, where none has rows, the first of the range (NULL_F, VALUE_F)."""
        bounds = exp.Select(expressions=[exp.alias_(_bound(low, "greatest"), "_ls_from")])
        names = [item.alias for item in aggregated.selects]
        first = [
            exp.alias_(_sql(self._number("_ls_from")) if name == _N else exp.null(), name) for name in names
        ]
        there = exp.alias_(exp.false(), "_ls_there")
        empty = exp.Select(
            expressions=[*first, there], from_=exp.From(this=bounds.subquery(self.rows.alias, copy=False))
        )
        windows = self._level(aggregated, _ls_there=exp.true())
        both = exp.Union(this=windows, expression=empty, distinct=False)
        picked = [
            exp.alias_(_sql(f"any_value({name}, true)") if name != _N else exp.column(_N), name)
            for name in names
        ]
        picked.append(exp.alias_(_sql("bool_or(_ls_there)"), "_ls_there"))
        found = exp.Select(
            expressions=picked, from_=exp.From(this=both.subquery(self.rows.alias, copy=False))
        )
        return found.group_by(exp.column(_N), copy=False)

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
            left, right, kind = right, left, _TURNED[kind]
        if not _is_time(left, rows) or not _is_constant(right, rows):
            continue
        if kind is not exp.LT and kind is not exp.LTE:
            low.append(_instant(right, int(kind is exp.GT)))
        if kind is not exp.GT and kind is not exp.GTE:
            high.append(_instant(right, -int(kind is exp.LT)))
    return low, high


_TURNED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
}


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
    return exp.Add(this=micros, expression=_sql(f"{more}L")) if more else micros


def _bound(bounds: Sequence[exp.Expr], strictest: str) -> exp.Expr:
    """Return the one of several bounds that holds for all; NULL where there is none."""
    if not bounds:
        return exp.cast(exp.null(), "bigint")
    return call(strictest, *(bound.copy() for bound in bounds)) if len(bounds) > 1 else bounds[0].copy()


# --- pieces of trees ---


def _titled(item: exp.Expr) -> exp.Expr:
    """Return a result with the name that it has for what refers to it from outside."""
    return exp.alias_(item.unalias(), given_name(item) or text_of(item), quoted=True)


def _ordered(node: exp.Expr) -> exp.Ordered:
    return node.copy() if isinstance(node, exp.Ordered) else exp.Ordered(this=node.copy(), nulls_first=True)


def _counts(name: str) -> str:
    """Return SQL of whether a result is an integer."""
    return f"typeof({name}) RLIKE '^(tinyint|smallint|int|bigint)$'"


def _is_null(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=node.copy(), expression=exp.null())


def _sql(text: str) -> exp.Expr:
    """Return SQL that was made here as a node that is carried through a tree as it is."""
    return exp.Var(this=text)
