"""Placeholders beside aggregates: Spark takes no reference to the windows in a select that aggregates.

Such a select becomes two: an inner one that aggregates, and an outer one with the placeholders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.functions import aggregates, is_aggregate_call

if TYPE_CHECKING:
    from collections.abc import Mapping

INNER = "_ls_inner"


def hoist(query: exp.Query, alias: str) -> None:
    """Split every select of the query that aggregates and names the windows (``alias``) in its list."""
    for order in list(query.find_all(exp.Order)):
        _leave_out_constants(order, alias)
    for select in list(query.find_all(exp.Select)):
        if _names_windows(select, alias) and (select.args.get("group") or aggregates(select.selects)):
            _split(select, alias)


def _leave_out_constants(order: exp.Order, alias: str) -> None:
    """Take from the ORDER BY of a query what is the same for all rows of a window: Spark refuses it."""
    if not isinstance(order.parent, exp.Query):
        return
    kept = [item for item in order.expressions if not _is_constant(item, alias)]
    if kept:
        order.set("expressions", kept)
    else:
        order.pop()


def _is_constant(item: exp.Expr, alias: str) -> bool:
    columns = list(item.find_all(exp.Column))
    return bool(columns) and all(_of_windows(column, alias) for column in columns)


def _names_windows(select: exp.Select, alias: str) -> bool:
    order = select.args.get("order")
    parts = [*select.selects, *([order] if order else [])]
    return any(_of_windows(column, alias) for part in parts for column in part.find_all(exp.Column))


def _of_windows(column: exp.Expr, alias: str) -> bool:
    return isinstance(column, exp.Column) and column.table == alias


def _split(select: exp.Select, alias: str) -> None:
    """Move what is aggregated and grouped by inside, unless something else of the rows is selected."""
    order = select.args.get("order")
    wanted = [*select.selects, *([order] if order else [])]
    names: dict[exp.Expr, str] = {
        node: f"_ls_a{number}" for number, node in enumerate(dict.fromkeys(aggregates(wanted)))
    }
    group = select.args.get("group")
    for number, node in enumerate(group.expressions if group else []):
        if not any(_of_windows(column, alias) for column in node.find_all(exp.Column)):
            names.setdefault(node, f"_ls_b{number}")
    titled = [_titled(projection) for projection in select.selects]
    outer = [_substituted(node, names) for node in titled]
    ordered = _substituted(order, names) if order else None
    if any(_has_rows(node, alias) for node in outer):
        return
    inner = exp.Select(expressions=[exp.alias_(node.copy(), name) for node, name in names.items()])
    for part in ("from_", "joins", "laterals", "where", "group", "having", "windows"):
        if select.args.get(part):
            inner.set(part, select.args[part])
            select.set(part, None)
    select.set("expressions", outer)
    select.set("order", ordered)
    select.set("from_", exp.From(this=inner.subquery(INNER)))


def _titled(projection: exp.Expr) -> exp.Expr:
    """Keep the name that a projection has by itself, for what refers to it from outside."""
    if isinstance(projection, exp.Column):
        return exp.alias_(projection.copy(), projection.name, quoted=True)
    return projection


def _substituted(node: exp.Expr, names: Mapping[exp.Expr, str]) -> exp.Expr:
    def replace(part: exp.Expr) -> exp.Expr:
        return exp.column(names[part], table=INNER) if part in names else part

    return node.copy().transform(replace)


def _has_rows(node: exp.Expr, alias: str) -> bool:
    """Return whether something of single rows is left, which only Spark's own rules can judge."""
    return any(
        isinstance(part, exp.Star | exp.Query | exp.Window)
        or is_aggregate_call(part)
        or (isinstance(part, exp.Column) and part.table not in {alias, INNER})
        for part in node.walk()
    )
