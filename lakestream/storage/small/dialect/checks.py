"""What is on the list for some values only, and is refused for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp, parse_one

from lakestream.language.expressions.parsing import is_star_over_shared, only_in_order
from lakestream.storage.small.dialect.casts import is_decimal
from lakestream.storage.small.dialect.durations import is_shift
from lakestream.storage.small.dialect.known import FIELDS, FORM, KNOWN, MACROS, TAKEN, UNITS
from lakestream.storage.small.dialect.texts import NUMERIC_TEXT
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.functions.zones import is_region

if TYPE_CHECKING:
    from collections.abc import Callable


def check(node: exp.Expr) -> None:
    """Look at a node of a query in Spark's SQL; raises NotExactError for what is not on the list."""
    if is_shift(node):
        return
    if isinstance(node, exp.Anonymous):
        if node.name.lower() not in {*MACROS, "xxhash64", "pmod", "timestamp_millis"}:
            raise NotExactError(f"{node.name}() is not on the list")
        if node.name.lower() == "pmod":
            _of_two(node)
            _no_numeric_text(node)
        return
    if type(node) not in KNOWN:
        raise NotExactError(f"{type(node).__name__} is not on the list")
    if isinstance(node, exp.Func):
        _check_arguments(node)
    check = _CHECKS.get(type(node))
    if check is not None:
        check(node)


def _check_arguments(call: exp.Func) -> None:
    """Refuse arguments of a function that nothing here looks at."""
    taken = TAKEN.get(type(call), frozenset())
    for name, value in call.args.items():
        if isinstance(value, exp.Expr) and name not in ("this", "expression") and name not in taken:
            raise NotExactError(f"{type(call).__name__} with {name}")
    if isinstance(call, (exp.Max, exp.Min)) and call.expressions:
        raise NotExactError("an aggregate of several values")


def _of_two(node: exp.Expr) -> None:
    if len(node.expressions) != 2:
        raise NotExactError(f"{node.name}() of other than two values")


def _no_decimals(node: exp.Expr) -> None:
    """Refuse a literal with a point in it: Spark takes it for a decimal, whose quotients are rounded."""
    for literal in node.find_all(exp.Literal):
        if literal.is_number and not literal.is_int:
            raise NotExactError(f"{type(node).__name__} with a decimal")


def no_cast_to_decimals(node: exp.Expr) -> None:
    """Refuse a cast to a decimal, but of NULL; raises NotExactError."""
    if isinstance(node, exp.Cast) and is_decimal(node.to) and not isinstance(node.this, exp.Null):
        raise NotExactError(f"a cast to {node.to.sql('spark')}")


def _no_numeric_text(node: exp.Expr) -> None:
    """Refuse to compare a number that is written as a text: how it is read depends on the other side."""
    for value in node.args.values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, exp.Literal) and one.is_string and NUMERIC_TEXT.fullmatch(one.name):
                raise NotExactError("a number written as a text")


def _of_plain_values(node: exp.Expr) -> None:
    """Refuse to compare numbers written as texts, and lists and structs: their NULLs and names differ."""
    _no_numeric_text(node)
    if any(isinstance(side.unnest(), (exp.Array, exp.Struct, exp.Tuple)) for side in node.iter_expressions()):
        raise NotExactError("a comparison of lists or structs")


def _of_some_value(node: exp.Expr) -> None:
    """Refuse to compute with NULL as it stands: what comes of it has another type in each."""
    sides = node.this.expressions if isinstance(node.this, exp.Distinct) else node.iter_expressions()
    values = [side.unnest() for side in sides]
    if any(isinstance(one, exp.Null) for one in values) and all(map(_is_of_no_type, values)):
        raise NotExactError(f"{type(node).__name__} of NULL")


def _is_of_no_type(value: exp.Expr) -> bool:
    """Return whether a value is NULL, or a number with a point, beside which NULL is none."""
    return isinstance(value, exp.Null) or (value.is_number and not value.is_int)


def _of_a_mean(node: exp.Expr) -> None:
    _no_decimals(node)
    _of_some_value(node)


def _of_numbers(node: exp.Expr) -> None:
    _no_numeric_text(node)
    _of_some_value(node)


def _plain_numbers(node: exp.Expr) -> None:
    _no_decimals(node)
    _no_numeric_text(node)


def _one_value(node: exp.Expr) -> None:
    if isinstance(node.this, exp.Distinct) and len(node.this.expressions) > 1:
        raise NotExactError("DISTINCT of several values")
    if node.args.get("expressions"):
        raise NotExactError("an aggregate of several values")


def _counted_from_one(node: exp.Expr) -> None:
    """Refuse a part of a text that does not begin at a place, or end after a length, which are written."""
    for name in ("start", "length") if isinstance(node, exp.Substring) else ("expression",):
        value = node.args.get(name)
        if value is not None and not (
            isinstance(value, exp.Literal) and value.is_int and int(value.name) > 0
        ):
            raise NotExactError("a part of a text that is counted from elsewhere")


def _of_digits(node: exp.Expr) -> None:
    """Refuse to round to digits that are not written, or before the point."""
    _no_decimals(node)
    digits = node.args.get("decimals")
    if digits is not None and not (
        isinstance(digits, exp.Literal) and digits.is_int and int(digits.name) <= 18
    ):
        raise NotExactError("a number rounded to digits that are not written")


def _of_spaces(node: exp.Expr) -> None:
    """Refuse to take off others than spaces."""
    if node.expression:
        raise NotExactError("letters that are taken off")


def _of_written_texts(node: exp.Expr) -> None:
    for name in ("expression", "replacement"):
        text = node.args.get(name)
        is_written = text is None or (isinstance(text, exp.Literal) and text.is_string)
        if not is_written or (name == "expression" and not node.text(name)):
            raise NotExactError("a replacement by a text that is not written")


def _of_a_format(node: exp.Expr) -> None:
    form = node.args["format"]
    if not (isinstance(form, exp.Literal) and form.is_string and FORM.fullmatch(form.name)):
        raise NotExactError("a format that is not written, or has other fields")


def _plain_pattern(node: exp.Expr) -> None:
    pattern = node.expression
    if isinstance(pattern, exp.Null):
        return
    if not (isinstance(pattern, exp.Literal) and pattern.is_string) or "\\" in pattern.name:
        raise NotExactError("a pattern that is not written, or that escapes")


def _known_unit(node: exp.Expr) -> None:
    unit = node.args.get("unit")
    if unit is None or unit.name.upper() not in UNITS or node.args.get("zone") is not None:
        raise NotExactError(f"a time cut to {unit and unit.name}")


def _of_a_field(node: exp.Expr) -> None:
    if node.name.upper() not in FIELDS:
        raise NotExactError(f"the field {node.name} of a time")


def _of_a_region(node: exp.Expr) -> None:
    """Refuse zones that are not written, or whose name Java may have for another one."""
    zone = node.args["zone"]
    if not (zone.is_string and is_region(zone.name)):
        raise NotExactError("a zone that is no region's")


def _after_1970(node: exp.Expr) -> None:
    """Refuse months after another day than the one that grids of months count from."""
    if node.this != parse_one("DATE '1970-01-01'", dialect="spark"):
        raise NotExactError("months after a day")


def _of_json(node: exp.Expr) -> None:
    if not isinstance(node.parent, exp.JSONFormat):
        raise NotExactError("a map")


def _of_query(node: exp.Expr) -> None:
    """Refuse EXISTS of an array, which is another function of that name."""
    if not isinstance(node.this, exp.Query):
        raise NotExactError("exists() of an array")


def _among(node: exp.Expr) -> None:
    _no_numeric_text(node)
    _where_it_decides(node)


def _plain_case(node: exp.Expr) -> None:
    if node.this is not None:
        _no_numeric_text(node)


def _ending(node: exp.Expr) -> None:
    """Refuse what may have no end: Spark counts its steps."""
    if node.args.get("recursive"):
        raise NotExactError("WITH RECURSIVE")


_OF_AN_ORDER = (exp.Lag, exp.Lead, exp.RowNumber, exp.Rank, exp.DenseRank)


def of_one_order(node: exp.Expr) -> None:
    """Refuse a function of rows in no order, and what Spark refuses beside one: a frame, ranks less NULLs."""
    ignores = isinstance(node.this, exp.IgnoreNulls)
    call = node.this.this if ignores else node.this
    if not isinstance(call, _OF_AN_ORDER):
        return
    if not node.args.get("order"):
        raise NotExactError(f"{type(call).__name__} of rows in no order")
    if node.args.get("spec") or (ignores and not isinstance(call, (exp.Lag, exp.Lead))):
        raise NotExactError(f"{type(call).__name__} with a frame or without NULLs")


def _within_an_int(node: exp.Expr) -> None:
    """Refuse ends of a frame that are no numbers of rows, or more than Spark counts."""
    for name in ("start", "end"):
        rows = node.args.get(name)
        if isinstance(rows, exp.Literal) and rows.is_int and int(rows.name) >= 2**31:
            raise NotExactError("a frame of so many rows")


def _of_what_is_there(node: exp.Expr) -> None:
    """Refuse LATERAL VIEW OUTER, which has a row of nothing, and one that names no columns.

    What DuckDB makes of it has no such row, and columns named as the view is.
    """
    alias = node.args.get("alias")
    if node.args.get("outer") or alias is None or not alias.columns:
        raise NotExactError("LATERAL VIEW of rows that may be none, or of columns without names")


def _in_the_order_of_tables(node: exp.Expr) -> None:
    """Refuse a star over columns that tables share: Spark puts these first, DuckDB does not."""
    if isinstance(node, exp.Select) and is_star_over_shared(node):
        raise NotExactError("* over columns that tables share")


def _of_items(node: exp.Expr) -> None:
    """Refuse a function of items and their places, which DuckDB counts from 1."""
    if isinstance(node.expression, exp.Lambda) and len(node.expression.expressions) > 1:
        raise NotExactError("places of items")


def _by_columns(node: exp.Expr) -> None:
    """Refuse numbers of results beside a star, those of none, and ALL where others are named behind it."""
    if node.args.get("all"):
        _of_all(node.parent)
    places = [key for key in node.expressions if isinstance(key.unnest(), (exp.Literal, exp.Neg))]
    select = node.parent
    if places and isinstance(select, exp.Select) and (select.is_star or not all(map(_is_place, places))):
        raise NotExactError("groups by a number of no result")


def _of_all(select: exp.Expr | None) -> None:
    """Refuse GROUP BY ALL but where it is what is given: DuckDB adds what HAVING and ORDER BY name."""
    items = select.expressions if isinstance(select, exp.Select) else []
    named = select is not None and any(select.args.get(name) for name in ("having", "order", "qualify"))
    if named or not any(item.find(exp.Column) and not item.find(exp.AggFunc) for item in items):
        raise NotExactError("GROUP BY ALL beside other names")


def _ordered_by(node: exp.Expr) -> None:
    """Refuse an order by the number of no result, or by an aggregate of a query that has no other."""
    select = node.parent.parent if node.parent is not None else None
    if not isinstance(select, exp.Select):
        return
    if only_in_order(select, _is_aggregate):
        raise NotExactError("an order by an aggregate of rows that are not grouped")
    if isinstance(node.this, (exp.Literal, exp.Neg)):
        is_known = _is_place(node.this) and (select.is_star or int(node.this.name) <= len(select.expressions))
        if not is_known:
            raise NotExactError("an order by the number of no result")


def _is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc) and not node.find_ancestor(exp.Window)


def _where_it_decides(node: exp.Expr) -> None:
    """Refuse IN of a query but where it alone decides on a row: elsewhere Spark has no NULL of it."""
    if node.args.get("query") is None:
        return
    at: exp.Expr = node
    is_denied = False
    while isinstance(at.parent, (exp.Paren, exp.And, exp.Or, exp.Not)):
        is_or = isinstance(at.parent, exp.Or)
        if is_denied and (is_or or isinstance(at.parent, exp.Not)):
            raise NotExactError("NOT IN of a query among conditions")
        if isinstance(at.parent, exp.Not):
            if not isinstance(at.unnest(), exp.In):
                raise NotExactError("NOT of conditions with IN of a query")
            is_denied = True
        at = at.parent
    if not isinstance(at.parent, (exp.Where, exp.Having)):
        raise NotExactError("IN of a query as a value")


def _is_place(key: exp.Expr) -> bool:
    return isinstance(key, exp.Literal) and key.is_int and int(key.name) > 0


_CHECKS: dict[type[exp.Expr], Callable[[exp.Expr], None]] = {
    exp.Div: _no_decimals,
    exp.Mod: _plain_numbers,
    exp.IntDiv: _no_decimals,
    exp.Avg: _of_a_mean,
    exp.Sum: _of_some_value,
    exp.Floor: _no_decimals,
    exp.Round: _of_digits,
    exp.Trim: _of_spaces,
    exp.Replace: _of_written_texts,
    exp.TimeToStr: _of_a_format,
    exp.Ceil: _no_decimals,
    exp.Sqrt: _no_decimals,
    exp.Count: _one_value,
    exp.Case: _plain_case,
    exp.Exists: _of_query,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), _of_numbers),
    **dict.fromkeys((exp.Neg, exp.Abs), _of_some_value),
    exp.Substring: _counted_from_one,
    exp.Left: _counted_from_one,
    exp.Like: _plain_pattern,
    exp.TimestampTrunc: _known_unit,
    exp.Extract: _of_a_field,
    exp.AtTimeZone: _of_a_region,
    exp.FromTimeZone: _of_a_region,
    exp.AddMonths: _after_1970,
    exp.VarMap: _of_json,
    exp.With: _ending,
    exp.WindowSpec: _within_an_int,
    exp.Group: _by_columns,
    exp.Ordered: _ordered_by,
    exp.Select: _in_the_order_of_tables,
    exp.Lateral: _of_what_is_there,
    **dict.fromkeys((exp.Transform, exp.ArrayFilter), _of_items),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ), _of_plain_values),
    exp.In: _among,
    **dict.fromkeys((exp.Between, exp.Nullif, exp.NullSafeNEQ), _of_plain_values),
}
