"""Trees as they were read, with TDengine's meaning of casts, durations and functions in Spark SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.errors import LakestreamError, Place
from lakestream.language.common.aggregates import OWN_AGGREGATES
from lakestream.language.common.dialect import DURATION_FUNCTION, NAME
from lakestream.language.common.functions import COUNTING, Meaning, is_number, meaning_of
from lakestream.language.common.templates import made, put_in_place
from lakestream.language.expressions.instants import INSTANT, times_beside
from lakestream.language.expressions.parsing import place_in
from lakestream.language.reading.durations import read_duration

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lakestream.language.model import Fragment


def in_spark(tree: exp.Expr, meaning: Meaning, fragment: Fragment, times: Collection[str] = ()) -> exp.Expr:
    """Return a fragment's tree, changed in place, in Spark SQL: its functions of one row, its durations.

    To be done once. ``times`` are the columns that are instants, in lower case: constants beside one are
    times too. Raises as :func:`functions_in_spark`.
    """
    tree = functions_in_spark(tree, meaning, fragment)
    if times and not fragment.spark:
        times_beside(tree.walk(), lambda column: column.name.lower() in times, meaning)
    return intervals_in_spark(tree)


def intervals_in_spark(tree: exp.Expr) -> exp.Expr:
    """Return a tree, changed in place, in which ``5m`` is that much time."""
    return tree.transform(_interval, copy=False)


def functions_in_spark(tree: exp.Expr, meaning: Meaning, fragment: Fragment) -> exp.Expr:
    """Return a fragment's tree, changed in place, with its functions of one row in Spark SQL.

    To be done once: what comes out is Spark's. Raises StatementError and NotSupportedError with the place:
    arguments that a function does not take, functions that are not built, the clock where there is none.
    """
    # From the leaves up: what is put in a node's place is made of arguments that are done.
    for node in reversed(list(tree.walk())):
        try:
            meant = _meant(node, meaning)
        except LakestreamError as error:
            raise error.at(place_in(fragment, node)) from None
        if meant is node:
            continue
        if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
            meant = exp.alias_(meant, _shown(node), quoted=True)
        if node is tree:
            tree = meant
        else:
            put_in_place(node, meant)
    return tree


def _shown(node: exp.Expr) -> str:
    """Return what a query calls a column that has no name."""
    return node.sql("spark").lower()


def _meant(node: exp.Expr, meaning: Meaning) -> exp.Expr:
    if isinstance(node, (exp.Cast, exp.TryCast)):
        return _cast(node, meaning)
    name = node.meta.get(NAME)
    if name is None or name in OWN_AGGREGATES:
        return node
    return meaning_of(name, _arguments(node), meaning)


_ORDER: Mapping[type[exp.Expr], tuple[str, ...]] = {
    exp.StrPosition: ("substr", "this"),
    exp.Substring: ("this", "start", "length"),
    exp.Trim: ("this", "expression"),
}
"""The arguments of calls with words in them, in the order that the table of functions has them."""


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    found = (node.args.get(key) for key in _ORDER.get(type(node), ()))
    return [argument for argument in found if isinstance(argument, exp.Expr)]


def _interval(node: exp.Expr) -> exp.Expr:
    """Return the interval of a duration; months and years are of the calendar."""
    if not isinstance(node, exp.Anonymous) or node.name != DURATION_FUNCTION:
        return node
    duration = read_duration(node.expressions[0].name, Place(1, 1))
    if duration.months:
        return made(f"make_ym_interval(0, {duration.months})", {})
    seconds = f"{duration.micros // 1_000_000}.{duration.micros % 1_000_000:06}"
    return made(f"make_dt_interval(0, 0, 0, {seconds})", {})


# --- casts ---------------------------------------------------------------------------------------

_TEXTS = (exp.DType.VARCHAR, exp.DType.NVARCHAR, exp.DType.CHAR, exp.DType.NCHAR, exp.DType.BINARY)
_WIDER = {"UTINYINT": "SMALLINT", "USMALLINT": "INT", "UINT": "BIGINT", "UBIGINT": "DECIMAL(20, 0)"}
"""Unsigned integers are kept as the next wider signed type."""

_MILLIS = "unix_millis(CAST(_1 AS TIMESTAMP))"
_WHOLE = "'^\\\\s*([+-]?[0-9]+)'"
_DECIMAL = "'^\\\\s*([+-]?(?:[0-9]+\\\\.?[0-9]*|\\\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)'"


def _cast(node: exp.Expr, meaning: Meaning) -> exp.Expr:
    """Return a cast of TDengine: times are milliseconds, texts are cut, a text that is no number is 0.

    Only casts of TDengine's; of others a number as a time alone counts milliseconds.
    """
    to = node.args["to"]
    own = NAME in node.meta
    if to.is_type("timestamp", "timestamptz", "timestampltz"):
        value = _whole_quotient(node.this)
        made_time = (meaning if own else Meaning()).instant(value)
        made_time.meta[INSTANT] = True
        return made_time
    if not own:
        return node
    if to.this in _TEXTS:
        return _as_text(node.this, to)
    if to.is_type("boolean"):
        return _as_boolean(node.this)
    if to.is_type(*exp.DataType.NUMERIC_TYPES):
        return _as_number(node.this, to)
    return node


def _as_text(value: exp.Expr, to: exp.DataType) -> exp.Expr:
    text = "CAST(_1 AS STRING)"
    if not is_number(value) and not isinstance(value, exp.Literal | exp.Null):
        text = f"CASE WHEN typeof(_1) = 'timestamp' THEN CAST({_MILLIS} AS STRING) ELSE {text} END"
    length = to.expressions[0].name if to.expressions else ""
    return made(f"left({text}, {length})" if length.isdigit() else text, {"_1": value})


def _as_number(value: exp.Expr, to: exp.DataType) -> exp.Expr:
    kind = _WIDER.get(to.this.value, to.sql("spark"))
    plain = f"CAST(_1 AS {kind})"
    if is_number(value) or isinstance(value, exp.Null):
        return made(plain, {"_1": value})
    form = _WHOLE if to.is_type(*exp.DataType.INTEGER_TYPES) else _DECIMAL
    begins = f"coalesce(CAST(regexp_extract(CAST(_1 AS STRING), {form}, 1) AS {kind}), CAST(0 AS {kind}))"
    return made(
        f"CASE WHEN typeof(_1) = 'timestamp' THEN CAST({_MILLIS} AS {kind}) "
        f"WHEN typeof(_1) = 'string' THEN CASE WHEN _1 IS NOT NULL THEN {begins} END ELSE {plain} END",
        {"_1": value},
    )


def _as_boolean(value: exp.Expr) -> exp.Expr:
    number = f"CAST(regexp_extract(CAST(_1 AS STRING), {_DECIMAL}, 1) AS DOUBLE) <> 0"
    text = f"coalesce(CAST(CAST(_1 AS STRING) AS BOOLEAN), {number}, false)"
    return made(
        f"CASE WHEN typeof(_1) = 'string' THEN CASE WHEN _1 IS NOT NULL THEN {text} END "
        "ELSE CAST(_1 AS BOOLEAN) END",
        {"_1": value},
    )


def _whole_quotient(node: exp.Expr) -> exp.Expr:
    """Return a placeholder's quotient as an integer: as a double today's nanoseconds are not exact."""
    quotient = node.unnest()
    if not isinstance(quotient, exp.Div) or not isinstance(quotient.left, exp.Column):
        return node
    divides = isinstance(quotient.right, exp.Literal) and quotient.right.is_int
    if quotient.left.name.lower() not in COUNTING or not divides:
        return node
    return exp.IntDiv(this=quotient.left.copy(), expression=quotient.right.copy())
