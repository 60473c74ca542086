"""What Spark refuses of a query's shape: which part of the text it is about, and a sentence of our own.

Each rule looks for the part in the tree of the query as it was written; where there is none, the place is the
whole. What no rule knows keeps Spark's sentence, without its codes and the names made here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.functions import is_aggregate_call
from lakestream.language.expressions.checks import PLACEHOLDERS
from lakestream.language.expressions.parsing import only_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Found = tuple[str, exp.Expr | None]
    Rule = Callable[[exp.Expr, Mapping[str, str]], Found]

_CODES = re.compile(r"^\[[A-Z0-9_.]+\] |;? ?SQLSTATE: \w+;?|\(line \d+, pos \d+\)|For more information.*$")
_OWN_NAMES = re.compile(r"`?_?ls_\w+`?\.?|`?spark_catalog`?\.")
_QUOTES = re.compile(r"[\s`\"']+")


def plain_sentence(text: str) -> str:
    """Return a sentence of Spark without its codes, and without names that lakestream made."""
    return _OWN_NAMES.sub("", _CODES.sub("", text)).strip().rstrip(" .;")


def misplaced(condition: str, parameters: Mapping[str, str], tree: exp.Expr) -> Found | None:
    """Return what is wrong and the part that it is about, for a condition of Spark; None for any other."""
    rule = _RULES.get(condition) or _RULES.get(condition.partition(".")[0])
    return None if rule is None else rule(tree, parameters)


def part_of(tree: exp.Expr, parameters: Mapping[str, str]) -> exp.Expr | None:
    """Return the part of a tree whose text Spark quotes, None where none is the same."""
    quoted = parameters.get("sqlExpr") or parameters.get("expression") or parameters.get("funcName") or ""
    wanted = _QUOTES.sub("", quoted).lower()
    return next((node for node in tree.walk() if wanted and _text(node) == wanted), None)


def _text(node: exp.Expr) -> str:
    if isinstance(node, (exp.Identifier, exp.From, exp.Where)):
        return ""
    try:
        return _QUOTES.sub("", node.sql("spark")).lower()
    except ValueError:  # a clause that Spark's SQL has not, or what holds one
        return ""


def _ungrouped(tree: exp.Expr, _parameters: Mapping[str, str]) -> Found:
    for select in tree.find_all(exp.Select):
        group = select.args.get("group")
        keys = set(group.expressions) if group else set()
        if not keys and not any(is_aggregate_call(node) for item in select.selects for node in item.walk()):
            continue
        for item in select.selects:
            for column in _of_rows(item, keys):
                return f"{column.name} is neither in an aggregate nor in GROUP BY", column
    return "what is selected is neither in an aggregate nor in GROUP BY", None


def _of_rows(item: exp.Expr, keys: set[exp.Expr]) -> Iterator[exp.Column]:
    """Yield the columns of an expression that stand for single rows."""

    def ends(node: exp.Expr) -> bool:
        return is_aggregate_call(node) or isinstance(node, (exp.Query, exp.Window)) or node in keys

    for node in item.walk(prune=ends):
        if isinstance(node, exp.Column) and not ends(node) and not _is_placeholder(node):
            yield node


def _is_placeholder(column: exp.Column) -> bool:
    return column.name.startswith("%%") or column.name.lower() in PLACEHOLDERS


def _nested(tree: exp.Expr, _parameters: Mapping[str, str]) -> Found:
    for node in tree.walk():
        above = node.parent
        while (
            is_aggregate_call(node) and above is not None and not isinstance(above, (exp.Query, exp.Window))
        ):
            if is_aggregate_call(above) and not isinstance(above, exp.Filter):
                return "an aggregate cannot stand within another one", node
            above = above.parent
    return "an aggregate cannot stand within another one", None


def _in_where(tree: exp.Expr, _parameters: Mapping[str, str]) -> Found:
    inside = (node for where in tree.find_all(exp.Where) for node in where.walk())
    node = next((node for node in inside if is_aggregate_call(node) or isinstance(node, exp.Window)), None)
    what = "a window function" if isinstance(node, exp.Window) else "an aggregate"
    return f"{what} cannot stand in WHERE", node


def _in_order(tree: exp.Expr, _parameters: Mapping[str, str]) -> Found:
    for select in tree.find_all(exp.Select):
        for node in only_in_order(select, is_aggregate_call):
            return "an aggregate cannot stand in ORDER BY of rows that are not grouped", node
    return "an aggregate, a window function or a function of several rows stands where none can", None


def _window_elsewhere(tree: exp.Expr, _parameters: Mapping[str, str]) -> Found:
    clauses = (exp.Where, exp.Having, exp.Group)
    windows = (window for clause in tree.find_all(*clauses) for window in clause.find_all(exp.Window))
    return "a window function cannot stand in WHERE, GROUP BY or HAVING", next(windows, None)


def _ambiguous(tree: exp.Expr, parameters: Mapping[str, str]) -> Found:
    name = _QUOTES.sub("", parameters.get("name", ""))
    wanted = name.lower().split(".")
    found = (c for c in tree.find_all(exp.Column) if [p.name.lower() for p in c.parts] == wanted)
    return f"{name} may be a column of several tables", next(found, None)


def _without_over(tree: exp.Expr, parameters: Mapping[str, str]) -> Found:
    name = _QUOTES.sub("", parameters.get("funcName", "")).partition("(")[0].lower()
    calls = (f for f in tree.find_all(exp.Func) if f.sql("spark").lower().startswith(f"{name}("))
    return f"{name}() is a window function, it needs OVER (…)", next(calls, None)


def _different_columns(tree: exp.Expr, _parameters: Mapping[str, str]) -> Found:
    for both in tree.find_all(exp.SetOperation):
        if len(both.left.selects) != len(both.right.selects):
            numbers = f"{len(both.left.selects)} and {len(both.right.selects)}"
            return f"the queries of {both.key.upper()} have {numbers} columns", both.right
    return "the queries of a set operation have different numbers of columns", None


def _no_condition(tree: exp.Expr, parameters: Mapping[str, str]) -> Found:
    kind = _QUOTES.sub("", parameters.get("type", "")).lower()
    where = (clause.this for clause in tree.find_all(exp.Where) if part_of(clause.this, parameters))
    return f"WHERE takes a condition, and this is of type {kind}", next(where, None)


def _position(clause: str, kind: type[exp.Expr]) -> Rule:
    def rule(tree: exp.Expr, parameters: Mapping[str, str]) -> Found:
        index = parameters.get("index", "")
        found = next(
            (n for c in tree.find_all(kind) for n in c.find_all(exp.Literal) if n.name == index), None
        )
        return f"{clause} {index}: there is no such result", found

    return rule


def _several_rows(tree: exp.Expr, _parameters: Mapping[str, str]) -> Found:
    inner = (
        query for query in tree.find_all(exp.Subquery) if not isinstance(query.parent, exp.From | exp.Join)
    )
    return "a query in the place of a value gives several rows", next(inner, None)


_RULES: dict[str, Rule] = {
    "MISSING_GROUP_BY": _ungrouped,
    "MISSING_AGGREGATION": _ungrouped,
    "NESTED_AGGREGATE_FUNCTION": _nested,
    "INVALID_WHERE_CONDITION": _in_where,
    "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE": _window_elsewhere,
    "AMBIGUOUS_REFERENCE": _ambiguous,
    "UNSUPPORTED_EXPR_FOR_OPERATOR": _in_order,
    "WINDOW_FUNCTION_WITHOUT_OVER_CLAUSE": _without_over,
    "NUM_COLUMNS_MISMATCH": _different_columns,
    "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN": _no_condition,
    "GROUP_BY_POS_OUT_OF_RANGE": _position("GROUP BY", exp.Group),
    "ORDER_BY_POS_OUT_OF_RANGE": _position("ORDER BY", exp.Order),
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": _several_rows,
}
