"""Expressions that Spark accepts for certain: of known kinds, put together as Spark's types ask.

DuckDB takes much that Spark refuses, a number for a condition among it. So what is to be found in order
without Spark is looked at here: by a list, kind by kind. What is not on it may be right too: Spark is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from lakestream.language.expressions.checks import CLOCK_PLACEHOLDERS, TIME_PLACEHOLDERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

WHOLE, DOUBLE, DECIMAL = "a whole number", "a double", "a decimal that is written"
FIXED, FLOAT, BYTES = "a decimal", "a float", "bytes"
TRUTH, TEXT, INSTANT, DAY, NULL = "a truth", "a text", "an instant", "a day", "no value"
DURATION = "a duration that is written"

NUMBERS = frozenset({WHOLE, DOUBLE, DECIMAL, FIXED, FLOAT})
_NUMBERS = frozenset({WHOLE, DOUBLE})
_SUMS = {WHOLE: WHOLE, DOUBLE: DOUBLE, FLOAT: DOUBLE, FIXED: FIXED}
"""The numbers that are added up, and what they come to."""
_COMPARABLE = (
    NUMBERS,
    *(frozenset({kind}) for kind in (TRUTH, TEXT, INSTANT, DAY, BYTES)),
)
_TYPES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), WHOLE),
    "double": DOUBLE,
    "float": FLOAT,
    "binary": BYTES,
    "boolean": TRUTH,
    "string": TEXT,
    "timestamp": INSTANT,
    "date": DAY,
}
_UNITS = frozenset({"DAY", "HOUR", "MINUTE", "SECOND"})
WINDOW = {
    **dict.fromkeys(TIME_PLACEHOLDERS, INSTANT),
    **dict.fromkeys(("_twduration", "_twrownum", "_tgrpid"), WHOLE),
    **dict.fromkeys(("_tlocaltime", *CLOCK_PLACEHOLDERS), WHOLE),
}
"""What every relation of windows has, where it has it, by kind."""


class NotPlainError(Exception):
    """Something that is not on the list."""


def said(node: exp.Expr) -> set[str]:
    """Return the names of what a part of a query says."""
    return {name for name, value in node.args.items() if value}


def kinds_of(types: Mapping[str, str]) -> dict[str, str]:
    """Return the kinds of columns by their names in small letters; those of other types are left out."""
    named = {
        name.lower(): FIXED if kind.startswith("decimal") else _TYPES.get(kind)
        for name, kind in types.items()
    }
    return {name: kind for name, kind in named.items() if kind is not None}


def kind_of(sql: str, columns: Mapping[str, str]) -> str | None:
    """Return the kind of an expression of Spark's SQL over columns of known kinds; None: Spark has to say."""
    try:
        return _kind(parse_one(sql, dialect="spark"), columns)
    except (NotPlainError, SqlglotError, RecursionError):
        return None


def is_plain(query: exp.Expr, columns: Mapping[str, str]) -> bool:
    """Return whether Spark accepts a query over one relation of these columns for certain, names but for."""
    allowed = {"kind", "expressions", "from_", "where", "group", "having"}
    if not isinstance(query, exp.Select) or said(query) - allowed:
        return False
    known = {**WINDOW, **columns}
    twice = twice_named(query, columns)
    if WINDOW.keys() & columns.keys() or (twice and (query.args.get("group") or query.args.get("having"))):
        return False
    clauses = [query.args[name].this for name in ("where", "having") if query.args.get(name)]
    group = query.args.get("group")
    keys = group.expressions if group else []
    given = [kind_of(item.sql("spark"), known) for item in (*query.selects, *keys)]
    met = all(kind_of(clause.sql("spark"), known) == TRUTH for clause in clauses)
    return (
        met
        and not {None, DECIMAL, DURATION, NULL} & {*given}
        and not any(isinstance(key, exp.Literal) for key in keys)
    )


def twice_named(query: exp.Select, columns: Mapping[str, str]) -> set[str]:
    """Return names that are a column's, and of a result that is more than that column.

    Such a name is the column's in results, and by the clause elsewhere.
    """
    results = [one for one in query.selects if isinstance(one, exp.Alias)]
    is_joined = bool(query.args.get("joins"))
    own = {one.alias.lower() for one in results if not is_joined and _is_column(one.this, one.alias)}
    return ({one.alias.lower() for one in results} - own) & columns.keys()


def _is_column(node: exp.Expr, name: str) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() == name.lower()


def _kind(node: exp.Expr, columns: Mapping[str, str]) -> str:
    """Return the kind of an expression; raises NotPlainError."""
    rule = _RULES.get(type(node))
    if rule is None:
        raise NotPlainError
    return rule(node, columns)


def _all(nodes: Sequence[object], columns: Mapping[str, str]) -> set[str]:
    return {_kind(node, columns) for node in nodes if isinstance(node, exp.Expr)}


def _checked(*, that: bool, gives: str) -> str:
    if not that:
        raise NotPlainError
    return gives


def _column(node: exp.Expr, columns: Mapping[str, str]) -> str:
    found = columns.get(node.name.lower())
    if found is None:
        raise NotPlainError
    return found


def _literal(node: exp.Expr, _columns: Mapping[str, str]) -> str:
    if node.is_string:
        return TEXT
    if node.is_int:
        return _checked(that=int(node.name) < 2**63, gives=WHOLE)
    return _checked(that="e" not in node.name.lower(), gives=DECIMAL)


def _same(node: exp.Expr, columns: Mapping[str, str]) -> str:
    return _kind(node.this, columns)


def _operands(node: exp.Expr) -> list[object]:
    names = ("this", "expression", "replacement", "low", "high")
    return [*(node.args.get(name) for name in names), *node.expressions]


def _compared(node: exp.Expr, columns: Mapping[str, str]) -> str:
    kinds = _all(_operands(node), columns)
    unlisted = isinstance(node, exp.In) and set(node.args) - {"this", "expressions"}
    return _checked(that=not unlisted and any(kinds <= family for family in _COMPARABLE), gives=TRUTH)


def _combined(node: exp.Expr, columns: Mapping[str, str]) -> str:
    return _checked(that=_all(_operands(node), columns) == {TRUTH}, gives=TRUTH)


def _is_null(node: exp.Expr, columns: Mapping[str, str]) -> str:
    _kind(node.this, columns)
    return _checked(that=isinstance(node.expression, exp.Null), gives=TRUTH)


def _duration(node: exp.Expr, _columns: Mapping[str, str]) -> str:
    unit = node.args.get("unit")
    is_plain = isinstance(node.this, exp.Literal) and isinstance(unit, exp.Var) and unit.name in _UNITS
    return _checked(that=is_plain and node.name.isdigit(), gives=DURATION)


def _shifted(node: exp.Expr, columns: Mapping[str, str]) -> str:
    """Return the kind of a sum or difference, of numbers or of an instant and a duration behind it."""
    if isinstance(node.expression, exp.Interval):
        _kind(node.expression, columns)
        return _checked(that=_kind(node.this, columns) == INSTANT, gives=INSTANT)
    return _computed(node, columns)


def _computed(node: exp.Expr, columns: Mapping[str, str]) -> str:
    kinds = _all(_operands(node), columns)
    if len(kinds) == 1 and not kinds <= _NUMBERS | {DECIMAL}:
        return _checked(that=kinds <= {FIXED, FLOAT}, gives=next(iter(kinds)))
    if FIXED in kinds:
        return _checked(that=kinds <= {FIXED, DECIMAL, WHOLE}, gives=FIXED)
    if DECIMAL in kinds and isinstance(node, exp.Neg):
        return DECIMAL
    if DECIMAL in kinds:
        return _checked(that=kinds == {DECIMAL, DOUBLE}, gives=DOUBLE)
    return _checked(that=kinds <= _NUMBERS, gives=DOUBLE if DOUBLE in kinds else WHOLE)


def _quotient(node: exp.Expr, columns: Mapping[str, str]) -> str:
    return _checked(that=_all(_operands(node), columns) <= {*_NUMBERS, FLOAT}, gives=DOUBLE)


def _whole_quotient(node: exp.Expr, columns: Mapping[str, str]) -> str:
    return _checked(that=_all(_operands(node), columns) == {WHOLE}, gives=WHOLE)


def _chosen(node: exp.Expr, columns: Mapping[str, str]) -> str:
    """Return the kind of the values, one of which is taken: they are all of one, or NULL."""
    if isinstance(node, exp.Case):
        if node.this is not None:
            raise NotPlainError
        branches = node.args["ifs"]
        values = [*(one.args["true"] for one in branches), node.args.get("default")]
    elif isinstance(node, exp.If):
        branches, values = [node], [node.args["true"], node.args.get("false")]
    else:
        branches, values = [], _operands(node)
    if branches and _all([one.this for one in branches], columns) != {TRUTH}:
        raise NotPlainError
    kinds = _all(values, columns) - {NULL}
    return _checked(that=len(kinds) == 1 and DECIMAL not in kinds, gives=next(iter(kinds), NULL))


def _cast(node: exp.Expr, columns: Mapping[str, str]) -> str:
    kind, given = _TYPES.get(node.args["to"].sql("spark").lower()), _kind(node.this, columns)
    if kind is None:
        raise NotPlainError
    numbers = kind in _NUMBERS and given in {*_SUMS, DECIMAL, TRUTH}
    told = kind == TEXT and given not in (DECIMAL, DURATION)
    is_written = given == TEXT and kind in (INSTANT, DAY) and isinstance(node.this, exp.Literal)
    return _checked(that=numbers or told or is_written or given in (kind, NULL), gives=kind)


def _of(gives: str, *takes: str) -> Callable[[exp.Expr, Mapping[str, str]], str]:
    """Return the rule of a function of one value that is of one of the kinds."""

    def rule(node: exp.Expr, columns: Mapping[str, str]) -> str:
        return _checked(that=_kind(node.this, columns) in takes, gives=gives)

    return rule


def _of_texts(gives: str) -> Callable[[exp.Expr, Mapping[str, str]], str]:
    def rule(node: exp.Expr, columns: Mapping[str, str]) -> str:
        return _checked(that=_all(_operands(node), columns) == {TEXT}, gives=gives)

    return rule


def _rounded(node: exp.Expr, columns: Mapping[str, str]) -> str:
    digits, kind = node.args.get("decimals"), _kind(node.this, columns)
    is_plain = digits is None or (isinstance(digits, exp.Literal) and digits.is_int)
    return _checked(that=is_plain and kind in _NUMBERS, gives=kind)


def _trimmed(node: exp.Expr, columns: Mapping[str, str]) -> str:
    return _checked(that=node.expression is None and _kind(node.this, columns) == TEXT, gives=TEXT)


def _formatted(node: exp.Expr, columns: Mapping[str, str]) -> str:
    of = node.this.this if isinstance(node.this, exp.TimeStrToTime) else node.this
    form = node.args["format"]
    is_plain = isinstance(form, exp.Literal) and form.is_string
    return _checked(that=is_plain and _kind(of, columns) in (INSTANT, DAY), gives=TEXT)


def _day(node: exp.Expr, columns: Mapping[str, str]) -> str:
    """Return the kind of to_date(); sqlglot puts one that is not safe within other functions."""
    kind = _kind(node.this, columns)
    if not node.args.get("safe"):
        return kind
    return _checked(that=not node.args.get("format") and kind in (INSTANT, DAY), gives=DAY)


def _called(node: exp.Expr, columns: Mapping[str, str]) -> str:
    """Return the kind of what a function gives that sqlglot does not know."""
    of_times = node.name.lower() in ("timestamp_micros", "timestamp_millis")
    return _checked(that=of_times and _all(node.expressions, columns) == {WHOLE}, gives=INSTANT)


def _part_of_text(node: exp.Expr, columns: Mapping[str, str]) -> str:
    places = [node.args.get(name) for name in ("start", "length", "expression")]
    return _checked(that=_kind(node.this, columns) == TEXT and _all(places, columns) <= {WHOLE}, gives=TEXT)


def _inner(node: exp.Expr, columns: Mapping[str, str]) -> str:
    """Return the kind of what an aggregate is of; there is no aggregate in another one."""
    inner = node.this
    if node.expressions or not isinstance(inner, exp.Expr) or inner.find(exp.AggFunc):
        raise NotPlainError
    return _kind(inner, columns)


def _count(node: exp.Expr, columns: Mapping[str, str]) -> str:
    inner = node.this
    if isinstance(inner, exp.Distinct):
        [inner, *others] = inner.expressions
        if others or inner.find(exp.AggFunc):
            raise NotPlainError
        _kind(inner, columns)
    elif not isinstance(inner, exp.Star):
        _inner(node, columns)
    return _checked(that=not node.expressions, gives=WHOLE)


def _sum(node: exp.Expr, columns: Mapping[str, str]) -> str:
    kind = _inner(node, columns)
    if isinstance(node, exp.Avg):
        return _checked(that=kind in {*_NUMBERS, FLOAT}, gives=DOUBLE)
    return _checked(that=kind in _SUMS, gives=_SUMS.get(kind, ""))


def _extreme(node: exp.Expr, columns: Mapping[str, str]) -> str:
    return _checked(that=(kind := _inner(node, columns)) not in (NULL, DECIMAL), gives=kind)


def _by_order(node: exp.Expr, columns: Mapping[str, str]) -> str:
    by = node.expression
    if not isinstance(by, exp.Struct) or by.find(exp.AggFunc):
        raise NotPlainError
    keys = [one.expression if isinstance(one, exp.PropertyEQ) else one.unalias() for one in by.expressions]
    return _checked(that=not _all(keys, columns) & {NULL, DECIMAL}, gives=_extreme(node, columns))


def _true_if(gives: str) -> Callable[[exp.Expr, Mapping[str, str]], str]:
    def rule(node: exp.Expr, columns: Mapping[str, str]) -> str:
        return _checked(that=_inner(node, columns) == TRUTH, gives=gives)

    return rule


def _filtered(node: exp.Expr, columns: Mapping[str, str]) -> str:
    where = node.expression.this
    right = (
        isinstance(node.this, exp.AggFunc) and not where.find(exp.AggFunc) and _kind(where, columns) == TRUTH
    )
    return _checked(that=right, gives=_kind(node.this, columns))


def _windowed(node: exp.Expr, columns: Mapping[str, str]) -> str:
    """Return the kind of a rank, or of an aggregate without a frame of its own, over rows in an order."""
    order, of = node.args.get("order"), node.this
    ordered = order.expressions if order is not None else ()
    keys = [*(node.args.get("partition_by") or ()), *(one.this for one in ordered)]
    if said(node) - {"this", "partition_by", "order", "over"} or _all(keys, columns) & {
        NULL,
        DECIMAL,
        DURATION,
    }:
        raise NotPlainError
    if isinstance(of, _RANKS):
        return _checked(that=order is not None and not of.expressions, gives=WHOLE)
    return _checked(that=isinstance(of, _OVER_ROWS), gives=_kind(of, columns))


_RANKS = (exp.RowNumber, exp.Rank, exp.DenseRank)
_OVER_ROWS = (exp.Count, exp.Sum, exp.Avg, exp.Max, exp.Min)


def _fixed(kind: str) -> Callable[[exp.Expr, Mapping[str, str]], str]:
    return lambda _node, _columns: kind


_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.Between, exp.In)
_RULES: dict[type[exp.Expr], Callable[[exp.Expr, Mapping[str, str]], str]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: _fixed(TRUTH),
    exp.Null: _fixed(NULL),
    **dict.fromkeys((exp.Alias, exp.Paren), _same),
    **dict.fromkeys(_COMPARISONS, _compared),
    **dict.fromkeys((exp.And, exp.Or, exp.Not), _combined),
    exp.Is: _is_null,
    exp.Interval: _duration,
    **dict.fromkeys((exp.Add, exp.Sub), _shifted),
    **dict.fromkeys((exp.Mul, exp.Mod, exp.Neg, exp.Abs), _computed),
    exp.Div: _quotient,
    exp.IntDiv: _whole_quotient,
    **dict.fromkeys((exp.If, exp.Case, exp.Coalesce, exp.Greatest, exp.Least, exp.Nullif), _chosen),
    **dict.fromkeys((exp.Cast, exp.TryCast), _cast),
    **dict.fromkeys((exp.Floor, exp.Ceil), _of(WHOLE, WHOLE, DOUBLE)),
    exp.Sqrt: _of(DOUBLE, WHOLE, DOUBLE),
    **dict.fromkeys((exp.Year, exp.Month, exp.Day), _of(WHOLE, INSTANT, DAY)),
    **dict.fromkeys((exp.Hour, exp.Minute, exp.Second), _of(WHOLE, INSTANT)),
    exp.TsOrDsToDate: _day,
    **dict.fromkeys((exp.UnixMicros, exp.UnixMillis), _of(WHOLE, INSTANT)),
    exp.UnixDate: _of(WHOLE, DAY),
    exp.Anonymous: _called,
    exp.TimestampTrunc: _of(INSTANT, INSTANT),
    exp.Length: _of(WHOLE, TEXT),
    exp.Round: _rounded,
    **dict.fromkeys((exp.Upper, exp.Lower), _of(TEXT, TEXT)),
    exp.Trim: _trimmed,
    exp.TimeToStr: _formatted,
    exp.MD5: _of(TEXT, TEXT),
    **dict.fromkeys((exp.Like, exp.StartsWith, exp.EndsWith, exp.Contains), _of_texts(TRUTH)),
    **dict.fromkeys((exp.Concat, exp.DPipe, exp.Replace), _of_texts(TEXT)),
    **dict.fromkeys((exp.Left, exp.Substring), _part_of_text),
    exp.Count: _count,
    **dict.fromkeys((exp.Sum, exp.Avg), _sum),
    **dict.fromkeys((exp.Max, exp.Min, exp.AnyValue), _extreme),
    **dict.fromkeys((exp.ArgMax, exp.ArgMin), _by_order),
    exp.CountIf: _true_if(WHOLE),
    **dict.fromkeys((exp.LogicalAnd, exp.LogicalOr), _true_if(TRUTH)),
    exp.Filter: _filtered,
    exp.Window: _windowed,
}
