"""Numbers, and hashes, which are some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.storage.small.dialect.durations import is_duration
from lakestream.storage.small.dialect.known import macro
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.functions.hashing import hash_of_truth
from lakestream.storage.small.kinds import DOUBLE, WHOLE, checked, kind_of

if TYPE_CHECKING:
    from lakestream.storage.small.dialect.known import Rewrites


def _remainder(node: exp.Expr) -> exp.Expr:
    return macro("ls_mod", node.this, node.expression)


def _quotient(node: exp.Expr) -> exp.Expr:
    numbers = (checked(one, "ls_number") for one in (node.this, node.expression))
    return macro("ls_div", *numbers)


def _whole_quotient(node: exp.Expr) -> exp.Expr:
    numbers = (checked(one, "ls_whole") for one in (node.this, node.expression))
    return macro("ls_int_div", *numbers)


def cycle(value: exp.Expr, length: exp.Expr) -> exp.Expr:
    """Return pmod(), which is quick where the text tells that both are whole, and the length above zero."""
    is_plain = kind_of(value) == WHOLE and _is_above_zero(length)
    return macro("ls_cycle" if is_plain else "ls_pmod", value, length)


def _is_above_zero(value: exp.Expr) -> bool:
    number = value.this if isinstance(value, exp.Cast) else value
    return isinstance(number, exp.Literal) and number.is_int and int(number.name) > 0


def _rounded(node: exp.Expr) -> exp.Expr:
    kind = kind_of(node.this)
    if kind == WHOLE:
        return exp.cast(node.this, "BIGINT")
    function = "floor" if isinstance(node, exp.Floor) else "ceil"
    if kind == DOUBLE:
        return exp.cast(macro(function, node.this), "BIGINT")
    return macro(f"ls_{function}", node.this)


def _to_digits(node: exp.Expr) -> exp.Expr:
    """Round away from zero at a half of what is written of a number, as Spark does."""
    if kind_of(node.this) == WHOLE:
        return node.this  # type: ignore[no-any-return]
    digits = node.args.get("decimals") or exp.Literal.number(0)
    cut = exp.DataType.build(f"DECIMAL(38, {digits.name})", dialect="duckdb")
    number = checked(node.this, "ls_double")
    text = exp.cast(exp.TryCast(this=exp.cast(number.copy(), "VARCHAR"), to=cut), "VARCHAR")
    return macro("ls_rounded", number, exp.cast(text, "DOUBLE"))


def _root(node: exp.Expr) -> exp.Expr:
    return macro("sqrt", exp.cast(checked(node.this, "ls_number"), "DOUBLE"))


_INT, _BIGINT = exp.DataType.build("INT"), exp.DataType.build("BIGINT")
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


def _whole(node: exp.Expr) -> exp.Expr:
    """Give a whole number that is written the type that Spark gives it, not the smallest one."""
    around = node.parent
    is_place = isinstance(around, (exp.Cast, exp.TryCast, *_PLACES)) or (around and is_duration(around))
    if node.is_string or not node.is_int or is_place:
        return node
    if isinstance(around, exp.Neg) and int(node.name) == 2**31:
        raise NotExactError("the least INT, whose digits alone are a BIGINT")
    return exp.cast(node.copy(), _INT if int(node.name) < 2**31 else _BIGINT)


_SEED = 42
"""What Spark begins a hash with."""


def spark_hash(values: list[exp.Expr]) -> exp.Expr:
    """Return Spark's hash of values, each of which goes on from the hash of those before it."""
    if len(values) > 1 and _tells_null(*values[:2]):
        return _hashed(_hash_of_known(values[1]), values[2:])
    return _hashed(exp.cast(exp.Literal.number(_SEED), "BIGINT"), values)


def _hashed(hashed: exp.Expr, values: list[exp.Expr]) -> exp.Expr:
    for value in values:
        hashed = macro("ls_hash", hashed, macro("ls_hashed", value))
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


REWRITES: Rewrites = {
    exp.Mod: _remainder,
    exp.Div: _quotient,
    exp.IntDiv: _whole_quotient,
    exp.Literal: _whole,
    **dict.fromkeys((exp.Floor, exp.Ceil), _rounded),
    exp.Round: _to_digits,
    exp.Sqrt: _root,
}
