"""Aggregates, and functions over the rows of a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.storage.small.dialect.known import macro
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.kinds import checked

if TYPE_CHECKING:
    from lakestream.storage.small.dialect.known import Rewrites


def _extreme(node: exp.Expr) -> exp.Expr:
    """Let max() and min() order structs as Spark does, where that differs in NULLs only.

    Those of DISTINCT values are those of all.
    """
    value = node.this
    if isinstance(value, exp.Distinct):
        value, *others = value.expressions
        if others:
            raise NotExactError("an extreme of several values")
    return type(node)(this=macro("ls_ordered", value))


def _by_order(node: exp.Expr) -> exp.Expr:
    """Return max_by() or min_by() as the last or first in an order in which NULL comes first."""
    by, there = _where_there(node.expression)
    if isinstance(by, exp.Struct):
        keys = [
            one.expression if isinstance(one, exp.PropertyEQ) else one.unalias() for one in by.expressions
        ]
    elif there is not None and isinstance(by, exp.Column):
        keys, there = (
            [by],
            exp.and_(there.copy(), exp.Not(this=exp.Is(this=by.copy(), expression=exp.Null()))),
        )
    else:
        raise NotExactError("an extreme by something that may be NULL")
    function = "last" if isinstance(node, exp.ArgMax) else "first"
    ordered = [exp.Ordered(this=key.copy(), desc=False, nulls_first=True) for key in keys]
    picked = macro(function, exp.Order(this=node.this, expressions=ordered))
    return picked if there is None else exp.Filter(this=picked, expression=exp.Where(this=there.copy()))


def _where_there(by: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """Return what a CASE of a single branch, or an IF, gives where it is not NULL, and its condition.

    Of another expression it alone.
    """
    if isinstance(by, exp.If) and isinstance(by.args["true"], exp.Null) and by.args.get("false") is not None:
        return by.args["false"], exp.Not(this=exp.Paren(this=by.this.copy()))
    if not isinstance(by, exp.Case) or by.this or by.args.get("default") or len(by.args["ifs"]) > 1:
        return by, None
    (branch,) = by.args["ifs"]
    return branch.args["true"], branch.this


def _mean(node: exp.Expr) -> exp.Expr:
    """Have a mean be one of numbers: that of decimals is a decimal to Spark, a double to DuckDB."""
    if not isinstance(node.this, exp.Distinct):
        node.set("this", checked(node.this, "ls_number"))
    return node


def _numbered(node: exp.Expr) -> exp.Expr:
    """Have rows numbered by an INT, with all that belongs to the call."""
    is_number = isinstance(node.this, (exp.RowNumber, exp.Rank, exp.DenseRank))
    return exp.cast(node.copy(), "INT") if is_number else _total(node)


def _collected(node: exp.Expr) -> exp.Expr:
    """Return collect_set() or collect_list() of what is not NULL, an empty list for nothing."""
    is_set = isinstance(node, exp.ArrayUniqueAgg)
    value = exp.Distinct(expressions=[node.this.copy()]) if is_set else node.this.copy()
    there = exp.Where(this=exp.Not(this=exp.Is(this=node.this.copy(), expression=exp.Null())))
    listed = exp.Filter(this=macro("list", value), expression=there)
    return exp.Coalesce(this=listed, expressions=[exp.Array()])


def _counted_if(node: exp.Expr) -> exp.Expr:
    return exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=node.this))


def _filtered(node: exp.Expr) -> exp.Expr:
    """Put a filter on the aggregate that another aggregate has become."""
    inner = node.this
    if isinstance(inner, exp.Coalesce):
        listed = _narrower(inner.this, node.expression)
        return exp.Coalesce(this=listed, expressions=inner.expressions)
    return _narrower(inner, node.expression) if isinstance(inner, exp.Filter) else _total(node)


def _narrower(filtered: exp.Expr, where: exp.Expr) -> exp.Expr:
    both = exp.and_(filtered.expression.this, where.this)
    return exp.Filter(this=filtered.this, expression=exp.Where(this=both))


def _total(node: exp.Expr) -> exp.Expr:
    """Check a sum with all that belongs to its call: Spark's is a BIGINT, that of DuckDB may be larger."""
    call = node
    while isinstance(call, (exp.Filter, exp.Window)):
        call = call.this
    if not isinstance(call, exp.Sum) or isinstance(node.parent, (exp.Filter, exp.Window)):
        return node
    return macro("ls_total", node.copy())


REWRITES: Rewrites = {
    **dict.fromkeys((exp.Max, exp.Min), _extreme),
    **dict.fromkeys((exp.ArgMax, exp.ArgMin), _by_order),
    exp.Avg: _mean,
    **dict.fromkeys((exp.ArrayUniqueAgg, exp.ArrayAgg), _collected),
    exp.CountIf: _counted_if,
    exp.Filter: _filtered,
    exp.Sum: _total,
    exp.Window: _numbered,
}
