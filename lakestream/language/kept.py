"""What a query says that Spark SQL would be written without, or otherwise: mended, or refused by name.

Nothing that a statement says may be dropped: each of these is what sqlglot reads and its Spark SQL lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.errors import NotSupportedError, StatementError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.language.inner_windows import PlaceOf

_TABLE_ARGUMENTS = frozenset(
    {"this", "db", "catalog", "alias", "joins", "laterals", "pivots", "sample", "version"}
)
_FOREIGN_JOINS = ("ASOF", "GLOBAL", "ANY", "STRAIGHT")


def keep_meaning(tree: exp.Expr) -> exp.Expr:
    """Return a tree, changed in place, whose aggregates of sorted rows keep their meaning in Spark SQL."""
    for node in list(tree.find_all(exp.PercentileCont, exp.PercentileDisc)):
        # Within a group they are exact; sqlglot writes the approximation.
        name = "percentile_cont" if isinstance(node, exp.PercentileCont) else "percentile_disc"
        node.replace(exp.Anonymous(this=name, expressions=[node.this.copy()]).update_positions(node))
    for node in tree.find_all(exp.GroupConcat):
        if node.args.get("separator") is None:
            node.set("separator", exp.Literal.string(""))
    return tree


def refuse_dropped(tree: exp.Expr, place: PlaceOf) -> None:
    """Raise NotSupportedError for a clause that Spark SQL would be written without, with its place.

    StatementError WRONG_ARGUMENTS for max() and min() of several values, which are aggregates of one.
    """
    for node in tree.walk():
        rule = _RULES.get(type(node))
        what = rule(node) if rule is not None else ""
        if what:
            raise NotSupportedError(what, place=place(node))
        if isinstance(node, (exp.Max, exp.Min)) and node.expressions:
            hint = "greatest(…)" if isinstance(node, exp.Max) else "least(…)"
            raise StatementError(
                "WRONG_ARGUMENTS", f"{node.key}() takes 1 argument", hint=hint, place=place(node)
            )


def _select(node: exp.Expr) -> str:
    distinct = node.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        return "DISTINCT ON"
    return f"SELECT AS {node.args['kind']}" if node.args.get("kind") else ""


def _fetch(node: exp.Expr) -> str:
    options = node.args.get("limit_options")
    if options is None:
        return ""
    clauses = (("with_ties", "WITH TIES"), ("percent", "PERCENT"))
    return next((f"FETCH … {text}" for name, text in clauses if options.args.get(name)), "")


def _table(node: exp.Expr) -> str:
    if isinstance(node.this, exp.Func):
        return ""
    said = next((name for name, value in node.args.items() if value and name not in _TABLE_ARGUMENTS), None)
    return "" if said is None else f"{said.replace('_', ' ').upper()} of a table in a query"


def _join(node: exp.Expr) -> str:
    words = (node.args.get("method"), node.args.get("kind"))
    return next((f"{word} JOIN" for word in words if word in _FOREIGN_JOINS), "")


def _array(node: exp.Expr) -> str:
    return "ORDER BY within array_agg()" if isinstance(node.this, (exp.Order, exp.Limit)) else ""


def _arrow(node: exp.Expr) -> str:
    return "the operator ->" if isinstance(node.args["expression"], exp.Column) else ""


_RULES: dict[type[exp.Expr], Callable[[exp.Expr], str]] = {
    exp.Select: _select,
    exp.Fetch: _fetch,
    exp.Table: _table,
    exp.Join: _join,
    exp.ArrayAgg: _array,
    exp.JSONExtract: _arrow,
    exp.WindowSpec: lambda node: "EXCLUDE of a window's rows" if node.args.get("exclude") else "",
    exp.TableSample: lambda node: "REPEATABLE" if node.args.get("seed") else "",
    exp.Unnest: lambda node: "WITH ORDINALITY" if node.args.get("offset") else "",
}
