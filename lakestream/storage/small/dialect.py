"""Spark's SQL as DuckDB's: what means the same, by a list; all else is refused, for Spark to answer.

Spark stays what defines a result. A construct is on the list when DuckDB gives Spark's value for every value
of the types that it may meet; where that holds for some types or values only, a macro of
:mod:`lakestream.storage.small.macros` stands in its place, which raises an error for the others.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from lakestream.language.common.templates import put_in_place
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.functions.hashing import hash_of_truth
from lakestream.storage.small.functions.zones import is_region
from lakestream.storage.small.kinds import (
    CHECKS,
    DAY,
    DOUBLE,
    INSTANT,
    NULL,
    TRUTH,
    WHOLE,
    checked,
    kind_of,
    operands,
    refuse_growth,
    refuse_long_values,
)
from lakestream.storage.small.listed import in_parts
from lakestream.storage.small.macros import USES
from lakestream.storage.small.objects import joined, json_object
from lakestream.storage.small.ordering import order_windows, sort_once
from lakestream.storage.small.rewritten import DuckQuery, marked
from lakestream.storage.small.scopes import MOST_DIGITS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_STRUCTURE: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Alias,
        exp.Aliases,
        exp.Column,
        exp.CTE,
        exp.Distinct,
        exp.Except,
        exp.Exists,
        exp.Filter,
        exp.From,
        exp.Group,
        exp.Having,
        exp.Identifier,
        exp.Intersect,
        exp.Join,
        exp.Lateral,
        exp.Limit,
        exp.Offset,
        exp.Literal,
        exp.Order,
        exp.Ordered,
        exp.Paren,
        exp.PropertyEQ,
        exp.Select,
        exp.Star,
        exp.Subquery,
        exp.Table,
        exp.TableAlias,
        exp.Tuple,
        exp.Union,
        exp.Where,
        exp.Window,
        exp.WindowSpec,
        exp.With,
        exp.Lambda,
        exp.Boolean,
        exp.Null,
        exp.DataType,
        exp.DataTypeParam,
        exp.ColumnDef,
        exp.Dot,
        exp.Qualify,
        exp.IgnoreNulls,
        exp.Values,
    }
)
_OPERATORS: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Add,
        exp.And,
        exp.Between,
        exp.Case,
        exp.Coalesce,
        exp.Div,
        exp.EQ,
        exp.GT,
        exp.GTE,
        exp.If,
        exp.In,
        exp.IntDiv,
        exp.Is,
        exp.LT,
        exp.LTE,
        exp.Mod,
        exp.Mul,
        exp.NEQ,
        exp.Neg,
        exp.Not,
        exp.NullSafeEQ,
        exp.NullSafeNEQ,
        exp.Nullif,
        exp.Or,
        exp.Sub,
        exp.TryCast,
        exp.Cast,
        exp.Abs,
        exp.Greatest,
        exp.Least,
    }
)
_AGGREGATES: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.AnyValue,
        exp.ArgMax,
        exp.ArgMin,
        exp.Avg,
        exp.Count,
        exp.CountIf,
        exp.LogicalAnd,
        exp.LogicalOr,
        exp.Max,
        exp.Min,
        exp.Sum,
        exp.ArrayUniqueAgg,
        exp.ArrayAgg,
    }
)
_WINDOWED: frozenset[type[exp.Expr]] = frozenset(
    {exp.Lag, exp.Lead, exp.RowNumber, exp.LastValue, exp.FirstValue}
)
_NESTED: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.Array,
        exp.ArrayFilter,
        exp.ArrayMax,
        exp.ArrayMin,
        exp.ArraySort,
        exp.ArraySize,
        exp.Bracket,
        exp.Explode,
        exp.GenerateSeries,
        exp.Flatten,
        exp.Inline,
        exp.JSONFormat,
        exp.Reduce,
        exp.Struct,
        exp.VarMap,
        exp.Transform,
        exp.ArrayConcat,
        exp.Concat,
    }
)
_TEXTS: frozenset[type[exp.Expr]] = frozenset(
    {exp.Contains, exp.EndsWith, exp.Left, exp.Length, exp.Like, exp.MD5, exp.StartsWith, exp.Substring}
)
_NUMBERS: frozenset[type[exp.Expr]] = frozenset({exp.Ceil, exp.Floor, exp.Sqrt})
_PARTS: dict[type[exp.Expr], str] = {
    exp.Year: "year",
    exp.Month: "month",
    exp.Day: "day",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
}
_FIELDS = {name.upper(): part for part, name in _PARTS.items() if part is not exp.Second}
"""Fields that Spark extracts as whole numbers: seconds have a fraction there."""
_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
_TIMES: frozenset[type[exp.Expr]] = frozenset(
    {
        exp.AddMonths,
        exp.AtTimeZone,
        exp.Extract,
        exp.FromTimeZone,
        exp.TimestampTrunc,
        exp.TsOrDsToDate,
        exp.UnixDate,
        exp.UnixMicros,
        exp.UnixMillis,
        exp.Var,
        *_PARTS,
    }
)
_KNOWN = _STRUCTURE | _OPERATORS | _AGGREGATES | _WINDOWED | _NESTED | _TEXTS | _NUMBERS | _TIMES
_MACROS = {
    "timestamp_micros": "make_timestamptz",
    "array_repeat": "ls_repeat",
    "get": "ls_get",
}
"""Functions that sqlglot does not know, and what DuckDB has for them."""
_INTEGERS = (
    exp.DataType.Type.BIGINT,
    exp.DataType.Type.INT,
    exp.DataType.Type.SMALLINT,
    exp.DataType.Type.TINYINT,
)
_CASTS = {
    exp.DataType.Type.DOUBLE: "ls_number",
    exp.DataType.Type.BOOLEAN: "ls_truth",
    exp.DataType.Type.TIMESTAMPTZ: "ls_instant",
    exp.DataType.Type.TIMESTAMP: "ls_instant",
    exp.DataType.Type.DATE: "ls_time",
}
"""What makes sure that a value is one that may be cast to a type."""
_OWN = "_ls_"
"""What no column of a user's begins with."""
_ISO = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d{1,6})?Z?)?")
_INSTANT = re.compile(
    r"(158[3-9]|159\d|1[6-9]\d\d|[2-9]\d{3})-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|\+00(:00)?)"
)
"""An instant as texts have it that tell their zone, which is UTC."""
_EXACT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{0,5}[1-9])?")
"""An instant as Spark writes it."""
_DAY = re.compile(r"(158[3-9]|159\d|1[6-9]\d\d|[2-9]\d{3})-\d\d-\d\d")
"""A day of the calendar that both have."""
_ARRAY_SIZE = re.compile(r"\barray_size\b", re.IGNORECASE)
_NUMERIC_TEXT = re.compile(r"\s*+[+-]?(\d++\.?\d*+|\.\d++)([eE][+-]?\d++)?\s*")


def duckdb_sql(text: str, *, many: bool = False, decimals: bool = False) -> DuckQuery:
    """Return a query in Spark's SQL as DuckDB's; raises NotExactError for what may not mean the same.

    ``many`` rows are parted by their groups, which several threads can do; few are put in one order. Without
    ``decimals`` nothing but NULL is cast to one.
    """
    if _ARRAY_SIZE.search(text):
        raise NotExactError("array_size(), which is read as size() is, and is NULL of no list")
    try:
        query = parse_one(text, dialect="spark")
    except (SqlglotError, RecursionError) as error:
        raise NotExactError(f"not understood: {error}") from error
    for select in query.find_all(exp.Select):
        select.set("hint", None)  # says how Spark is to do it, not what
    _take_for_instants(query)
    for window in query.find_all(exp.Window):
        _of_one_order(window)  # which is sorted away
    sort_once(query)
    nodes = [*query.walk()]
    for node in nodes:
        _check(node)
        if not decimals:
            _no_cast_to_decimals(node)
    refuse_long_values(query)
    views = _mark_views(nodes)
    if not many:
        order_windows(nodes)
    rewritten = _rewritten(query)
    refuse_growth(rewritten, USES)
    return DuckQuery(rewritten.sql(dialect="duckdb", identify=True, copy=False), views)


def _take_for_instants(query: exp.Expr) -> None:
    """Take for an instant what is asked whether it is a number: where it is one, Spark is asked."""
    for case in [*query.find_all(exp.Case)]:
        [first, *others], default = case.args["ifs"], case.args.get("default")
        asks = isinstance(first.this, exp.RegexpLike) and isinstance(first.this.this, exp.Typeof)
        # A cast to TIMESTAMP makes sure of an instant.
        if asks and not others and isinstance(default, exp.Cast) and default.to.this in _INSTANTS:
            case.replace(default)


_INSTANTS = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ)


def _mark_views(nodes: Sequence[exp.Expr]) -> tuple[str, ...]:
    """Mark the names of views, which common table expressions are not, and return them."""
    own = {one.alias.lower() for one in nodes if isinstance(one, exp.CTE)}
    views = [one for one in nodes if isinstance(one, exp.Table) and one.name.lower() not in own]
    names = [table.name for table in views]
    for table in views:
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
        table.set("this", exp.to_identifier(marked(table.name), quoted=True))
    return tuple(dict.fromkeys(names))


def _check(node: exp.Expr) -> None:
    if _is_shift(node):
        return
    if isinstance(node, exp.Anonymous):
        if node.name.lower() not in {*_MACROS, "xxhash64", "pmod", "timestamp_millis"}:
            raise NotExactError(f"{node.name}() is not on the list")
        if node.name.lower() == "pmod":
            _no_numeric_text(node)
        return
    if type(node) not in _KNOWN:
        raise NotExactError(f"{type(node).__name__} is not on the list")
    if isinstance(node, exp.Func):
        _check_arguments(node)
    check = _CHECKS.get(type(node))
    if check is not None:
        check(node)


def _check_arguments(call: exp.Func) -> None:
    """Refuse arguments of a function that nothing here looks at."""
    taken = _TAKEN.get(type(call), frozenset())
    for name, value in call.args.items():
        if isinstance(value, exp.Expr) and name not in ("this", "expression") and name not in taken:
            raise NotExactError(f"{type(call).__name__} with {name}")
    if isinstance(call, (exp.Max, exp.Min)) and call.expressions:
        raise NotExactError("an aggregate of several values")


_TAKEN: dict[type[exp.Expr], frozenset[str]] = {
    exp.ArraySort: frozenset({"asc", "nulls_first"}),
    exp.Case: frozenset({"default"}),
    **dict.fromkeys((exp.Cast, exp.TryCast), frozenset({"to"})),
    exp.GenerateSeries: frozenset({"start", "end", "step"}),
    exp.If: frozenset({"true", "false"}),
    exp.JSONFormat: frozenset({"options"}),
    **dict.fromkeys((exp.Lag, exp.Lead), frozenset({"offset", "default"})),
    exp.Reduce: frozenset({"initial", "merge", "finish"}),
    exp.Substring: frozenset({"start", "length"}),
    exp.TimestampTrunc: frozenset({"unit", "zone"}),
    **dict.fromkeys((exp.AtTimeZone, exp.FromTimeZone), frozenset({"zone"})),
    exp.VarMap: frozenset({"keys", "values"}),
}
"""Arguments of functions beside their first ones."""


_DURATION = "make_dt_interval"
"""Spark's function that a duration of a statement has become: of no days, hours and minutes, and seconds."""


def _is_duration(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == _DURATION


def _is_shift(node: exp.Expr) -> bool:
    """Return whether a node is a duration that is added to something, or taken from it."""
    if _length_us(node) is None:
        return False
    return isinstance(node.parent, exp.Add) or (
        isinstance(node.parent, exp.Sub) and node.arg_key == "expression"
    )


def _length_us(node: exp.Expr) -> int | None:
    """Return the length of a written duration in microseconds; None for anything else, and for months."""
    if isinstance(node, exp.Interval):
        unit, number = node.args.get("unit"), node.this
        length_us = _LENGTHS.get(unit.name.upper().removesuffix("S")) if isinstance(unit, exp.Var) else None
        is_whole = isinstance(number, exp.Literal) and _WHOLE_TEXT.fullmatch(number.name)
        return int(number.name) * length_us if length_us and is_whole else None
    if _is_duration(node):
        *parts, seconds = node.expressions
        if isinstance(seconds, exp.Literal) and all(one == exp.Literal.number(0) for one in parts):
            return int(Decimal(seconds.name) * 1_000_000)
    return None


_LENGTHS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
"""Units of one length each: in UTC, days are, too."""
_WHOLE_TEXT = re.compile(r"[+-]?\d{1,9}")


def _no_decimals(node: exp.Expr) -> None:
    """Refuse a literal with a point in it: Spark takes it for a decimal, whose quotients are rounded."""
    for literal in node.find_all(exp.Literal):
        if literal.is_number and not literal.is_int:
            raise NotExactError(f"{type(node).__name__} with a decimal")


def _no_cast_to_decimals(node: exp.Expr) -> None:
    if isinstance(node, exp.Cast) and _is_decimal(node.to) and not isinstance(node.this, exp.Null):
        raise NotExactError(f"a cast to {node.to.sql('spark')}")


def _is_decimal(kind: exp.DataType) -> bool:
    return kind.this is exp.DataType.Type.DECIMAL


def _no_numeric_text(node: exp.Expr) -> None:
    """Refuse to compare a number that is written as a text: how it is read depends on the other side."""
    for value in node.args.values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, exp.Literal) and one.is_string and _NUMERIC_TEXT.fullmatch(one.name):
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


def _plain_pattern(node: exp.Expr) -> None:
    pattern = node.expression
    if isinstance(pattern, exp.Null):
        return
    if not (isinstance(pattern, exp.Literal) and pattern.is_string) or "\\" in pattern.name:
        raise NotExactError("a pattern that is not written, or that escapes")


def _known_unit(node: exp.Expr) -> None:
    unit = node.args.get("unit")
    if unit is None or unit.name.upper() not in _UNITS or node.args.get("zone") is not None:
        raise NotExactError(f"a time cut to {unit and unit.name}")


def _of_a_field(node: exp.Expr) -> None:
    if node.name.upper() not in _FIELDS:
        raise NotExactError(f"the field {node.name} of a time")


def _of_a_region(node: exp.Expr) -> None:
    """Refuse zones that are not written, or whose name Java may have for another one."""
    zone = node.args["zone"]
    if not (zone.is_string and is_region(zone.name)):
        raise NotExactError("a zone that is no region's")


def _of_a_part(node: exp.Expr) -> None:
    if type(node.parent) not in _PARTS:
        raise NotExactError("a cast to DATE")


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


def _of_one_order(node: exp.Expr) -> None:
    """Refuse a function of rows in no order."""
    call = node.this.this if isinstance(node.this, exp.IgnoreNulls) else node.this
    if isinstance(call, (exp.Lag, exp.Lead, exp.RowNumber)) and not node.args.get("order"):
        raise NotExactError(f"{type(call).__name__} of rows in no order")


def _within_an_int(node: exp.Expr) -> None:
    """Refuse ends of a frame that are no numbers of rows, or more than Spark counts."""
    for name in ("start", "end"):
        rows = node.args.get(name)
        if isinstance(rows, exp.Literal) and rows.is_int and int(rows.name) >= 2**31:
            raise NotExactError("a frame of so many rows")


def _of_what_is_there(node: exp.Expr) -> None:
    """Refuse LATERAL VIEW OUTER, which has a row of nothing: what DuckDB makes of it has none."""
    if node.args.get("outer"):
        raise NotExactError("LATERAL VIEW OUTER")


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
    if named or not any(item.find(exp.Column) for item in items):
        raise NotExactError("GROUP BY ALL beside other names")


def _ordered_by(node: exp.Expr) -> None:
    """Refuse an order by the number of no result."""
    select = node.parent.parent if node.parent is not None else None
    if isinstance(select, exp.Select) and isinstance(node.this, (exp.Literal, exp.Neg)):
        is_known = _is_place(node.this) and (select.is_star or int(node.this.name) <= len(select.expressions))
        if not is_known:
            raise NotExactError("an order by the number of no result")


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


def _is_read(text: exp.Expr) -> bool:
    """Return whether DuckDB would read a text as a number or a time, beside such."""
    return any(form.fullmatch(text.name) for form in (_NUMERIC_TEXT, _ISO))


_CHECKS: dict[type[exp.Expr], Callable[[exp.Expr], None]] = {
    exp.Div: _no_decimals,
    exp.Mod: _plain_numbers,
    exp.IntDiv: _no_decimals,
    exp.Avg: _of_a_mean,
    exp.Sum: _of_some_value,
    exp.Floor: _no_decimals,
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
    exp.TsOrDsToDate: _of_a_part,
    exp.AddMonths: _after_1970,
    exp.VarMap: _of_json,
    exp.With: _ending,
    exp.WindowSpec: _within_an_int,
    exp.Group: _by_columns,
    exp.Ordered: _ordered_by,
    exp.Lateral: _of_what_is_there,
    **dict.fromkeys((exp.Transform, exp.ArrayFilter), _of_items),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ), _of_plain_values),
    exp.In: _among,
    **dict.fromkeys((exp.Between, exp.Nullif, exp.NullSafeNEQ), _of_plain_values),
}


# --- rewriting ---


def _rewritten(query: exp.Expr) -> exp.Expr:
    """Rewrite a query from its leaves up, so that each rewriting finds its operands rewritten."""
    for node in reversed([*query.walk()]):
        rewrite = _REWRITES.get(type(node))
        if rewrite is None:
            continue
        new = rewrite(node)
        if new is not node and node.parent is not None:
            put_in_place(node, new)
    return query


def _named(select: exp.Expr) -> exp.Expr:
    """Have columns named as they are written, which Spark does, not as their table has them."""
    _qualify_conditions(select)
    for item in select.expressions:
        if isinstance(item, exp.Column) and not isinstance(item.this, exp.Star):
            put_in_place(item, exp.alias_(item.copy(), item.name, quoted=True))
    return in_parts(select)


def _qualify_conditions(select: exp.Expr) -> None:
    """Have WHERE mean columns of rows: DuckDB would take a name of a result too, Spark does not."""
    where, source = select.args.get("where"), select.args.get("from_")
    results = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
    if where is None or not results:
        return
    for column in where.find_all(exp.Column):
        if (
            column.table
            or column.name.lower() not in results
            or column.find_ancestor(exp.Select) is not select
        ):
            continue
        if source is None or select.args.get("joins") or select.args.get("laterals"):
            raise NotExactError("a name of a result in WHERE")
        if not source.this.alias:
            source.this.set("alias", exp.TableAlias(this=exp.to_identifier("ls_from")))
        column.set("table", exp.to_identifier(source.this.alias, quoted=True))


def _compared(node: exp.Expr) -> exp.Expr:
    """Have a text that is written be compared with texts, or with times where it is one in full."""
    texts = [one for one in (node.this, node.args.get("expression"), *node.expressions) if _is_text(one)]
    if texts:
        for name in ("this", "expression"):
            side = node.args.get(name)
            if isinstance(side, exp.Expr) and not _is_text(side):
                node.set(name, _text(side))
    elif isinstance(node, exp.In) and any(map(_is_written, node.expressions)):
        # To Spark what is among texts is a text, to DuckDB a time where these are some.
        node.set("this", checked(node.this, "ls_written"))
    return _of_one_kind(node) if isinstance(node, exp.In) and node.expressions else node


def _of_one_kind(node: exp.In) -> exp.Expr:
    """Have no text be among others: to Spark all of them are texts, to DuckDB numbers or times."""
    others = [one for one in node.expressions if not (one.is_string or isinstance(one, exp.Null))]
    if len(others) == len(node.expressions) and all(map(_is_number, others)):
        node.set("this", checked(node.this, "ls_no_text"))
    else:
        for one in others:
            put_in_place(one, _macro("ls_beside", one.copy(), node.this.copy()))
    return node


def _is_number(value: exp.Expr) -> bool:
    return value.is_number or kind_of(value) in (WHOLE, DOUBLE)


def _text(value: exp.Expr) -> exp.Expr:
    return checked(value, "ls_string")


def _is_written(value: exp.Expr) -> bool:
    return isinstance(value, exp.Literal) and value.is_string and not _EXACT.fullmatch(value.name)


def _is_text(value: object) -> bool:
    return isinstance(value, exp.Literal) and value.is_string and not _ISO.fullmatch(value.name)


def _conditioned(node: exp.Expr) -> exp.Expr:
    """Have a condition be a BOOLEAN: DuckDB takes others for one, Spark does not."""
    for name in ("this", "expression"):
        condition = node.args.get(name)
        if isinstance(condition, exp.Expr):
            node.set(name, checked(condition, "ls_truth"))
    return node


def _macro(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[*arguments])


def _is_plain_struct(kind: exp.DataType) -> bool:
    """Return whether a type is a struct, with fields of types on the list and such structs."""
    fields = [field.args.get("kind") for field in kind.expressions]
    return kind.this is exp.DataType.Type.STRUCT and all(
        isinstance(field, exp.DataType) and (_is_plain(field) or _is_plain_struct(field)) for field in fields
    )


def _is_plain(kind: exp.DataType) -> bool:
    return not kind.expressions and kind.this in (*_INTEGERS, *_CASTS, exp.DataType.Type.TEXT)


def _cast(node: exp.Expr) -> exp.Expr:
    value, kind = node.this, node.args["to"]
    is_whole = isinstance(value, exp.Literal) and not value.is_string and value.is_int
    is_empty = isinstance(value, exp.Null) or (isinstance(value, exp.Array) and not value.expressions)
    is_day = value.is_string and kind.this is exp.DataType.Type.DATE and _DAY.fullmatch(value.name)
    if is_whole or is_empty or is_day:
        return exp.Cast(this=value, to=kind)
    if _is_decimal(kind):
        return exp.Cast(this=_within(value, kind), to=kind)
    if kind.this is exp.DataType.Type.TEXT and not kind.expressions:
        return _macro("ls_text", value)
    if _is_plain_struct(kind):
        nothing = exp.Cast(this=exp.null(), to=kind.copy())
        return exp.Cast(this=_macro("ls_alike", value, nothing), to=kind)
    if not _is_plain(kind):
        raise NotExactError(f"a cast to {kind.sql('spark')}")
    if kind.this in _INTEGERS:
        return exp.Cast(this=_without_fraction(value), to=kind)
    macro = _CASTS[kind.this]
    is_written = kind.this in _INSTANTS and value.is_string and _INSTANT.fullmatch(value.name)
    value = exp.cast(value, "TIMESTAMPTZ") if is_written else checked(value, macro)
    if kind.this is exp.DataType.Type.DATE:
        value = _macro("ls_day", value)
    return value if len(CHECKS[macro]) == 1 else exp.Cast(this=value, to=kind)


def _within(value: exp.Expr, kind: exp.DataType) -> exp.Expr:
    """Return a decimal of the most digits, which is not larger than these: sums of DuckDB's may be."""
    digits = [int(one.name) for one in kind.expressions]
    if not digits or digits[0] < MOST_DIGITS:
        return value
    scale = digits[1] if len(digits) > 1 else 0
    return _macro("ls_within", value, exp.Literal.number(f"{'9' * (MOST_DIGITS - scale)}.{'9' * scale}"))


def _without_fraction(value: exp.Expr) -> exp.Expr:
    """Return what is cast to whole numbers without its fraction, by which DuckDB would round."""
    kind = kind_of(value)
    if kind == DOUBLE:
        return exp.Trunc(this=value)
    return value if kind in (WHOLE, TRUTH, NULL) else _macro("ls_integral", value)


def _anonymous(node: exp.Expr) -> exp.Expr:
    if _is_duration(node):
        return node  # what it is added to takes it along
    name = node.name.lower()
    if name == "xxhash64":
        return _hash(node.expressions)
    if name == "pmod":
        return _cycle(*node.expressions)
    if name == "timestamp_millis":
        return _macro("ls_of_millis", *(checked(one, "ls_whole") for one in node.expressions))
    return _macro(_MACROS[name], *node.expressions)


def _hash(values: list[exp.Expr]) -> exp.Expr:
    """Return Spark's hash of values, each of which goes on from the hash of those before it."""
    if len(values) > 1 and _tells_null(*values[:2]):
        return _hashed(_hash_of_known(values[1]), values[2:])
    return _hashed(exp.cast(exp.Literal.number(_SEED), "BIGINT"), values)


_SEED = 42
"""What Spark begins a hash with."""


def _hashed(hashed: exp.Expr, values: list[exp.Expr]) -> exp.Expr:
    for value in values:
        hashed = _macro("ls_hash", hashed, _macro("ls_hashed", value))
    return hashed


def _tells_null(condition: exp.Expr, value: exp.Expr) -> bool:
    """Return whether a rewritten condition says that a column is NULL."""
    told = condition.unnest()
    return (
        isinstance(value, exp.Column)
        and isinstance(told, exp.Is)
        and isinstance(told.expression, exp.Null)
        and told.this.unnest() == value
    )


def _hash_of_known(value: exp.Expr) -> exp.Expr:
    """Return the hash of whether a column is NULL and of its value: the first is no work for a row."""
    there, missing = (
        exp.cast(exp.Literal.number(hash_of_truth(_SEED, truth=truth)), "BIGINT") for truth in (False, True)
    )
    is_null = exp.Is(this=value.copy(), expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=is_null, true=missing)], default=_hashed(there, [value]))


def _cycle(value: exp.Expr, length: exp.Expr) -> exp.Expr:
    is_plain = kind_of(value) == WHOLE and _is_above_zero(length)
    return _macro("ls_cycle" if is_plain else "ls_pmod", value, length)


def _is_above_zero(value: exp.Expr) -> bool:
    number = value.this if isinstance(value, exp.Cast) else value
    return isinstance(number, exp.Literal) and number.is_int and int(number.name) > 0


def _remainder(node: exp.Expr) -> exp.Expr:
    return _macro("ls_mod", node.this, node.expression)


def _quotient(node: exp.Expr) -> exp.Expr:
    numbers = (checked(one, "ls_number") for one in (node.this, node.expression))
    return _macro("ls_div", *numbers)


def _whole_quotient(node: exp.Expr) -> exp.Expr:
    numbers = (checked(one, "ls_whole") for one in (node.this, node.expression))
    return _macro("ls_int_div", *numbers)


def _extreme(node: exp.Expr) -> exp.Expr:
    """Let max() and min() order structs as Spark does, where that differs in NULLs only."""
    return type(node)(this=_macro("ls_ordered", node.this))


def _by_order(node: exp.Expr) -> exp.Expr:
    """Return max_by() or min_by() as the last or first in an order in which NULL comes first."""
    by = node.expression
    if not isinstance(by, exp.Struct):
        raise NotExactError("an extreme by something that may be NULL")
    keys = [one.expression if isinstance(one, exp.PropertyEQ) else one.unalias() for one in by.expressions]
    function = "last" if isinstance(node, exp.ArgMax) else "first"
    ordered = [exp.Ordered(this=key.copy(), desc=False, nulls_first=True) for key in keys]
    return _macro(function, exp.Order(this=node.this, expressions=ordered))


def _instant(value: exp.Expr) -> exp.Expr:
    return checked(value, "ls_instant")


def _naive(value: exp.Expr) -> exp.Expr:
    return _macro("ls_naive", checked(value, "ls_time"))


def _micros(node: exp.Expr) -> exp.Expr:
    return _macro("epoch_us", _instant(node.this))


def _shifted(node: exp.Expr) -> exp.Expr:
    """Return an instant that a duration is added to or taken from: in UTC all days are of one length."""
    for duration, other in ((node.expression, node.this), (node.this, node.expression)):
        if _is_shift(duration) and (length_us := _length_us(duration)) is not None:
            micros = exp.cast(exp.Literal.number(length_us), "BIGINT")
            moved = type(node)(this=_micros(exp.UnixMicros(this=other.copy())), expression=micros)
            return _macro("make_timestamptz", moved)
    return _of_no_days(node) if isinstance(node, exp.Sub) else node


def _of_no_days(node: exp.Expr) -> exp.Expr:
    """Have no days be taken from days: Spark gives an interval, DuckDB a number."""
    sides = (node.this, node.expression)
    if all(kind_of(side) in (DAY, None) for side in sides):
        for side in sides:
            if kind_of(side) == DAY:
                raise NotExactError("days less days")
        if all(isinstance(side, exp.Column) for side in sides):
            node.set("this", _macro("ls_no_day", node.this))
    return node


def _millis(node: exp.Expr) -> exp.Expr:
    return _macro("ls_millis", _instant(node.this))


def _days(node: exp.Expr) -> exp.Expr:
    return exp.cast(_macro("ls_days", checked(node.this, "ls_date")), "INT")


def _month(node: exp.Expr) -> exp.Expr:
    return _macro("ls_month", checked(node.expression, "ls_whole"))


def _part(node: exp.Expr) -> exp.Expr:
    return exp.cast(_macro(_PARTS[type(node)], _naive(node.this)), "INT")


def _extracted(node: exp.Expr) -> exp.Expr:
    return _part(_FIELDS[node.name.upper()](this=node.expression.copy()))


def _day(node: exp.Expr) -> exp.Expr:
    day: exp.Expr = node.this
    return day


def _cut(node: exp.Expr) -> exp.Expr:
    unit = exp.Literal.string(node.args["unit"].name.lower())
    return _macro("ls_cut", unit, checked(node.this, "ls_time"))


def _in_zone(node: exp.Expr) -> exp.Expr:
    """Return from_utc_timestamp() or to_utc_timestamp(), whose results Spark has as instants, too."""
    macro = "ls_from_utc" if isinstance(node, exp.AtTimeZone) else "ls_to_utc"
    return _macro(macro, _instant(node.this), node.args["zone"])


def _rounded(node: exp.Expr) -> exp.Expr:
    kind = kind_of(node.this)
    if kind == WHOLE:
        return exp.cast(node.this, "BIGINT")
    function = "floor" if isinstance(node, exp.Floor) else "ceil"
    if kind == DOUBLE:
        return exp.cast(_macro(function, node.this), "BIGINT")
    return _macro(f"ls_{function}", node.this)


def _mean(node: exp.Expr) -> exp.Expr:
    """Have a mean be one of numbers: that of decimals is a decimal to Spark, a double to DuckDB."""
    if not isinstance(node.this, exp.Distinct):
        node.set("this", checked(node.this, "ls_number"))
    return node


def _root(node: exp.Expr) -> exp.Expr:
    return _macro("sqrt", exp.cast(checked(node.this, "ls_number"), "DOUBLE"))


def _of_text(node: exp.Expr) -> exp.Expr:
    """Have a function of a text take nothing else."""
    node.set("this", _text(node.this))
    return exp.cast(node.copy(), "INT") if isinstance(node, exp.Length) else node


def _size(node: exp.Expr) -> exp.Expr:
    """Return the number of items: -1 of no list, as Spark has it."""
    return exp.cast(exp.Coalesce(this=_macro("len", node.this), expressions=[exp.Literal.number(-1)]), "INT")


def _numbered(node: exp.Expr) -> exp.Expr:
    """Have rows numbered by an INT, with all that belongs to the call."""
    is_number = isinstance(node.this, exp.RowNumber)
    return exp.cast(node.copy(), "INT") if is_number else _total(node)


def _collected(node: exp.Expr) -> exp.Expr:
    """Return collect_set() or collect_list() of what is not NULL, an empty list for nothing."""
    is_set = isinstance(node, exp.ArrayUniqueAgg)
    value = exp.Distinct(expressions=[node.this.copy()]) if is_set else node.this.copy()
    there = exp.Where(this=exp.Not(this=exp.Is(this=node.this.copy(), expression=exp.Null())))
    listed = exp.Filter(this=_macro("list", value), expression=there)
    return exp.Coalesce(this=listed, expressions=[exp.Array()])


def _sorted(node: exp.Expr) -> exp.Expr:
    if node.expression:
        raise NotExactError("an order that is a function")
    if node.args.get("asc") is not None and node.args["asc"] != exp.true():
        raise NotExactError("a descending order")
    if _is_list_of_plain(node.this):
        return _macro("list_sort", node.this, exp.Literal.string("ASC"), exp.Literal.string("NULLS LAST"))
    return _macro("ls_sorted", node.this)


def _is_list_of_plain(node: exp.Expr) -> bool:
    """Return whether a rewritten expression lists values, without NULL, of a kind that the text tells."""
    listed = node.this.this if isinstance(node, exp.Coalesce) and isinstance(node.this, exp.Filter) else None
    return (
        isinstance(listed, exp.Anonymous)
        and listed.name == "list"
        and kind_of(*listed.expressions) is not None
    )


def _sequence(node: exp.Expr) -> exp.Expr:
    if node.args.get("step") is not None:
        raise NotExactError("a sequence by steps")
    return _macro("ls_sequence", node.args["start"], node.args["end"])


def _inlined(node: exp.Expr) -> exp.Expr:
    """Return structs as rows; their columns are named as the structs' fields, or DuckDB finds them not."""
    if not isinstance(node.this, exp.Inline):
        raise NotExactError("several names of one column")
    depth = exp.Kwarg(this=exp.var("max_depth"), expression=exp.Literal.number(2))
    return _macro("unnest", node.this.this, depth)


def _field(node: exp.Expr) -> exp.Expr:
    [key] = node.expressions
    if _is_first_made(node):
        return _macro("list_extract", node.this, key)
    if not (isinstance(key, exp.Literal) and key.is_string):
        raise NotExactError("brackets round something that is no name of a field")
    return _macro("struct_extract", node.this, key)


def _is_first_made(node: exp.Expr) -> bool:
    """Return whether element_at gives the first element that is made of those of an array, which has some."""
    made, [key] = node.this, node.expressions
    listed = made.this if isinstance(made, exp.Transform) else None
    number = key.this if isinstance(key, exp.Cast) else key
    is_first = node.args.get("offset") == 1 and number == exp.Literal.number(1)
    return is_first and isinstance(listed, exp.Array) and bool(listed.expressions)


def _whole_row(node: exp.Expr) -> exp.Expr:
    """Return struct(r.*) as DuckDB has it, by the row's own name, which no column of a user's has."""
    stars = [
        one for one in node.expressions if isinstance(one, exp.Column) and isinstance(one.this, exp.Star)
    ]
    if not stars:
        return node
    if len(node.expressions) > 1 or not stars[0].table.startswith(_OWN):
        raise NotExactError("a struct of all columns and others")
    return exp.column(stars[0].table)


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
    return _macro("ls_total", node.copy())


def _concatenated(node: exp.Expr) -> exp.Expr:
    values = [*node.expressions] if isinstance(node, exp.Concat) else [node.this, *node.expressions]
    first, *others = map(_piece, values)
    return joined(first, *others or [exp.Literal.string("")])


def _of_texts(node: exp.Expr) -> exp.Expr:
    """Have values be texts where one is written that DuckDB would read as a number or a time beside such.

    What chooses them is a BOOLEAN, but for what a CASE compares with one value.
    """
    is_part = isinstance(node, exp.If) and isinstance(node.parent, exp.Case)
    if isinstance(node, exp.If) and not (is_part and node.parent and node.parent.this is not None):
        node.set("this", checked(node.this, "ls_truth"))
    values = [] if is_part else [one for one in operands(node) if not isinstance(one, exp.Null)]
    texts = [one for one in values if isinstance(one, exp.Literal) and one.is_string]
    if any(map(_is_read, texts)):
        for value in values:
            new = checked(value, "ls_string")
            if new is not value:
                value.replace(new)
    return node


def _piece(value: exp.Expr) -> exp.Expr:
    """Return what is joined: lists, and texts as Spark writes them, which DuckDB does not of fractions."""
    if isinstance(value, exp.Array | exp.ArrayFilter | exp.Transform):
        return value
    return _macro("ls_text", value) if kind_of(value) in (INSTANT, DAY) else checked(value, "ls_part")


_INT, _BIGINT = exp.DataType.build("INT"), exp.DataType.build("BIGINT")


def _whole(node: exp.Expr) -> exp.Expr:
    """Give a whole number that is written the type that Spark gives it, not the smallest one."""
    around = node.parent
    is_place = isinstance(around, (exp.Cast, exp.TryCast, *_PLACES)) or (around and _is_duration(around))
    if node.is_string or not node.is_int or is_place:
        return node
    if isinstance(around, exp.Neg) and int(node.name) == 2**31:
        raise NotExactError("the least INT, whose digits alone are a BIGINT")
    return exp.cast(node.copy(), _INT if int(node.name) < 2**31 else _BIGINT)


_PLACES = (
    exp.In,
    exp.Limit,
    exp.Offset,
    exp.WindowSpec,
    exp.Lag,
    exp.Lead,
    exp.Kwarg,
    exp.Ordered,
    exp.Group,
    exp.DataTypeParam,
)
"""Where a number is a place, a count or one of those that are looked for, and none to compute with."""


_REWRITES: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.TryCast: _cast,
    exp.Cast: _cast,
    exp.Anonymous: _anonymous,
    exp.Mod: _remainder,
    exp.Div: _quotient,
    exp.IntDiv: _whole_quotient,
    exp.Literal: _whole,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.In), _compared),
    exp.Select: _named,
    **dict.fromkeys((exp.Where, exp.Having, exp.And, exp.Or, exp.Not), _conditioned),
    exp.Max: _extreme,
    exp.Min: _extreme,
    exp.ArgMax: _by_order,
    exp.ArgMin: _by_order,
    exp.AddMonths: _month,
    exp.UnixDate: _days,
    exp.UnixMicros: _micros,
    **dict.fromkeys((exp.Add, exp.Sub), _shifted),
    exp.UnixMillis: _millis,
    exp.TsOrDsToDate: _day,
    exp.TimestampTrunc: _cut,
    **dict.fromkeys((exp.AtTimeZone, exp.FromTimeZone), _in_zone),
    exp.Floor: _rounded,
    exp.Ceil: _rounded,
    exp.Sqrt: _root,
    exp.Avg: _mean,
    **dict.fromkeys(_PARTS, _part),
    exp.Extract: _extracted,
    **dict.fromkeys(_TEXTS, _of_text),
    exp.JSONFormat: json_object,
    exp.Bracket: _field,
    exp.Struct: _whole_row,
    **dict.fromkeys((exp.If, exp.Case, exp.Array, exp.Coalesce, exp.Greatest, exp.Least), _of_texts),
    exp.Concat: _concatenated,
    exp.ArrayConcat: _concatenated,
    exp.ArrayUniqueAgg: _collected,
    exp.ArrayAgg: _collected,
    exp.CountIf: _counted_if,
    exp.Filter: _filtered,
    exp.Sum: _total,
    exp.Window: _numbered,
    exp.ArraySize: _size,
    exp.ArraySort: _sorted,
    exp.Flatten: lambda node: _macro("ls_flattened", node.this),
    exp.GenerateSeries: _sequence,
    exp.Aliases: _inlined,
}
