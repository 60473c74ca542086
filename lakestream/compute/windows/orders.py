"""Orders of a view that leave nothing open: which rows LIMIT takes, how windows count those that are alike.

SQL leaves open which of the rows come first that ORDER BY does not tell apart. A view that is computed again,
of all rows or of a key's, is to hold the same rows: its orders go on with all that its query shows of a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.windows.stars import leaves
from lakestream.language.expressions.parsing import own_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Shown = Callable[[exp.Select], Sequence[exp.Expr] | None]
    """The results of a select, with those that a star stands for; None where these are not known."""

_CUTS = ("limit", "offset", "fetch")
_OF_PLACES = (exp.RowNumber, exp.Lag, exp.Lead, exp.Ntile)
_OF_ENDS = (exp.First, exp.FirstValue, exp.Last, exp.LastValue, exp.NthValue)
_AROUND = (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)
_ALL = "UNBOUNDED"
_CONSTANT = (exp.Literal, exp.Null, exp.Boolean)


def complete_orders(query: exp.Query, shown: Shown) -> None:
    """Have each LIMIT of a query, and each window function to which it matters, go by a whole order."""
    for cut in [*query.find_all(exp.Query)]:
        if any(cut.args.get(name) is not None for name in _CUTS) and not isinstance(cut.parent, exp.Exists):
            _order_rows(cut, shown)
    for select in [*query.find_all(exp.Select)]:
        _order_windows(select, shown)
    for node in [*query.find_all(exp.GroupConcat, exp.ArgMax, exp.ArgMin)]:
        _order_values(node)


def _order_rows(query: exp.Query, shown: Shown) -> None:
    """Put rows that are alike in the order of their columns, from left to right."""
    first = next(leaves(query), None)
    items = shown(first) if first is not None else None
    if items is None or _is_whole(query):
        return
    given = {_told(item.this) for item in _ordered(query)}
    for place, item in enumerate(items, 1):
        number = exp.Literal.number(place)
        is_constant = query is first and isinstance(item.unalias(), _CONSTANT)
        names = {_told(number), _told(item.unalias()), item.alias_or_name.lower()}
        if not is_constant and not names & given:
            _append(query, number)


def _order_windows(select: exp.Select, shown: Shown) -> None:
    """Put rows that are alike in the order of what is shown of them."""
    windows = [node for node in own_nodes(select) if isinstance(node, exp.Window)]
    open_ones = [window for window in windows if _asks_for_order(window)]
    items = shown(select) if open_ones else None
    if items is None:
        return
    terms: list[exp.Expr] = [item.unalias() for item in items]
    for window in windows:
        terms += [*_function(window).iter_expressions(), *window.args.get("partition_by", ())]
        terms += [item.this for item in _ordered(window)]
        terms += [where.this for where in window.this.find_all(exp.Where)]
    told = {_told(term): term for term in reversed(terms) if _tells_rows_apart(term)}
    for window in open_ones:
        fixed = [*window.args.get("partition_by", ()), *(item.this for item in _ordered(window))]
        given = set(map(_told, fixed))
        for name, term in reversed(told.items()):
            if name not in given and not _is_whole(window):
                _append(window, term.copy())


def _order_values(node: exp.Expr) -> None:
    """Put the values that an aggregate takes of rows that are alike in the order of these values."""
    if isinstance(node.this, exp.Order):
        value, given = node.this.this, [item.this for item in node.this.expressions]
        if not isinstance(value, exp.Distinct) and _told(value) not in map(_told, given):
            node.this.append("expressions", exp.Ordered(this=value.copy(), nulls_first=True))
    elif isinstance(node.expression, exp.Struct):  # which is never NULL
        node.expression.append("expressions", node.this.copy())
    elif isinstance(node, (exp.ArgMax, exp.ArgMin)) and not node.args.get("count"):
        by = node.expression
        there = exp.Not(this=exp.Is(this=by.copy(), expression=exp.Null()))
        node.set("expression", exp.case().when(there, exp.Struct(expressions=[by.copy(), node.this.copy()])))


def _asks_for_order(window: exp.Window) -> bool:
    """Return whether a function gives other values when rows that are alike in its order change places.

    A frame by RANGE ends with such rows, so that its order must stay as it is.
    """
    function, spec = _function(window), window.args.get("spec")
    if window.args.get("alias") is not None or isinstance(window.this, exp.Identifier):
        return False  # of WINDOW: its order is that of other functions too
    if isinstance(function, _OF_PLACES):
        return True
    if spec is not None and spec.text("kind").upper() == "ROWS":
        is_all = spec.args.get("start") == spec.args.get("end") == _ALL
        return not is_all or isinstance(function, _OF_ENDS)
    return spec is None and isinstance(window.this, (exp.First, exp.FirstValue))


def _function(window: exp.Window) -> exp.Expr:
    function: exp.Expr = window.this
    while isinstance(function, _AROUND):
        function = function.this
    return function


def _tells_rows_apart(term: exp.Expr) -> bool:
    """Return whether an order may go on with what a select shows: a value of its rows, in no query within."""
    is_within = any(isinstance(node, (exp.Query, exp.Window, exp.Star)) for node in term.walk())
    return not is_within and term.find(exp.Column) is not None


def _told(term: exp.Expr) -> str:
    """Return what tells a term from others: of a column its name alone, whose table others may leave out."""
    return term.name.lower() if isinstance(term, exp.Column) and not term.table else term.sql("spark")


def _ordered(node: exp.Expr) -> Iterable[exp.Ordered]:
    order = node.args.get("order")
    return order.expressions if order is not None else ()


def _is_whole(node: exp.Expr) -> bool:
    """Return whether it is ORDER BY ALL."""
    return any(isinstance(item.this, exp.Var) for item in _ordered(node))


def _append(node: exp.Expr, term: exp.Expr) -> None:
    order = node.args.get("order") or exp.Order(expressions=[])
    order.append("expressions", exp.Ordered(this=term, nulls_first=True))
    node.set("order", order)
