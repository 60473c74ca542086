"""Values that are collected as they come, of which a query shows the order: refused.

A row that is read elsewhere, or another time, would change them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.errors import StatementError
from lakestream.language.expressions.parsing import parse_query, place_in

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakestream.language.model import Fragment

_ARRAYS = (exp.ArrayAgg, exp.ArrayUniqueAgg)
_ORDERLESS = (
    exp.ArrayAll,
    exp.ArrayContains,
    exp.ArrayMax,
    exp.ArrayMin,
    exp.ArraySize,
    exp.ArraySort,
    exp.Exists,
    exp.Reduce,
)
"""What gives the same of an array's values in any order; of AGGREGATE only its author knows."""
_DECIDING = ("where", "having", "qualify")
"""The clauses that decide which rows there are."""
_ORDERLESS_CALLS = frozenset({"array_size", "arrays_overlap", "cardinality", "forall"})


def refuse_unsorted(fragment: Fragment) -> None:
    """Raise StatementError NON_DETERMINISTIC for values as they come, in an array or a text."""
    query = parse_query(fragment)
    texts = [node for node in query.find_all(exp.GroupConcat) if not isinstance(node.this, exp.Order)]
    arrays = [node for node in query.find_all(*_ARRAYS) if _shows_order(node, query, ())]
    if not arrays and not texts:
        return
    node, hint = (
        (arrays[0], "array_sort(…) around it")
        if arrays
        else (texts[0], "WITHIN GROUP (ORDER BY …) behind it")
    )
    raise StatementError(
        "NON_DETERMINISTIC",
        f"{node.sql('spark')} has no order, a stream must give the same each time",
        hint=hint,
        place=place_in(fragment, node),
    )


def _shows_order(node: exp.Expr, query: exp.Query, seen: Collection[str]) -> bool:
    """Return whether the results of a query depend on the order of an array that a node gives.

    ``seen`` are the names of the results that it has had in queries within this one.
    """
    while True:
        parent = node.parent
        if isinstance(parent, _ORDERLESS) or _is_orderless_call(parent):
            return False
        if isinstance(parent, (exp.Window, exp.WithinGroup)) and _has_order(parent):
            return False
        if parent is None or isinstance(parent, exp.Query):
            return _is_shown(node, parent or query, query, seen)
        node = parent


def _is_shown(item: exp.Expr, select: exp.Expr, query: exp.Query, seen: Collection[str]) -> bool:
    """Return whether a result of a select, with an array in no order, reaches those of the whole query."""
    if item.arg_key != "expressions":
        return item.arg_key in _DECIDING
    outer, name = select.find_ancestor(exp.Select), item.alias_or_name.lower()
    if outer is None:
        return True
    if name in seen:
        return False
    uses = [one for one in query.find_all(exp.Column) if one.name.lower() == name and one is not item]
    starred = any(one.is_star and one.find_ancestor(exp.Select) is outer for one in outer.selects)
    return starred or any(_shows_order(one, query, (*seen, name)) for one in uses)


def _is_orderless_call(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in _ORDERLESS_CALLS


def _has_order(node: exp.Expr) -> bool:
    return node.args.get("order") is not None or isinstance(node.args.get("expression"), exp.Order)
