"""Casts, of what is sure to be of a kind that may be cast."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.storage.small.dialect.known import PARTS, macro
from lakestream.storage.small.exact import NotExactError
from lakestream.storage.small.kinds import CHECKS, DOUBLE, NULL, TRUTH, WHOLE, checked, kind_of
from lakestream.storage.small.typed.scopes import MOST_DIGITS

if TYPE_CHECKING:
    from lakestream.storage.small.dialect.known import Rewrites

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
_INSTANT = re.compile(
    r"((?:158[3-9]|159\d|1[6-9]\d\d|[2-9]\d{3})-\d\d-\d\d)"
    r"(?:[ T]((?:[01]\d|2[0-3]):\d\d)(:\d\d(?:\.\d{1,6})?)?(Z|\+00|[+-](?:0\d|1[0-7]):[0-5]\d)?)?"
)
"""An instant: its day, hour and minute, second, and zone, which is UTC without one."""
_DAY = re.compile(r"(158[3-9]|159\d|1[6-9]\d\d|[2-9]\d{3})-\d\d-\d\d")
"""A day of the calendar that both have."""
INSTANTS = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ)


def is_decimal(kind: exp.DataType) -> bool:
    """Return whether a type is a decimal one."""
    return kind.this is exp.DataType.Type.DECIMAL


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
    if is_decimal(kind):
        return exp.Cast(this=_within(value, kind), to=kind)
    if kind.this is exp.DataType.Type.TEXT and not kind.expressions:
        return macro("ls_text", value)
    if _is_plain_struct(kind):
        nothing = exp.Cast(this=exp.null(), to=kind.copy())
        return exp.Cast(this=macro("ls_alike", value, nothing), to=kind)
    if not _is_plain(kind):
        raise NotExactError(f"a cast to {kind.sql('spark')}")
    if kind.this in _INTEGERS:
        return exp.Cast(this=_without_fraction(value), to=kind)
    check = _CASTS[kind.this]
    written = _INSTANT.fullmatch(value.name) if kind.this in INSTANTS and value.is_string else None
    value = exp.cast(_in_full(written), "TIMESTAMPTZ") if written else checked(value, check)
    if kind.this is exp.DataType.Type.DATE:
        value = macro("ls_day", value)
    return value if len(CHECKS[check]) == 1 else exp.Cast(this=value, to=kind)


def _to_date(node: exp.Expr) -> exp.Expr:
    """Return to_date() as a cast; what takes a part of the day takes that of the time."""
    day: exp.Expr = node.this
    return day if type(node.parent) in PARTS else _cast(exp.Cast(this=day, to=exp.DataType.build("DATE")))


def _within(value: exp.Expr, kind: exp.DataType) -> exp.Expr:
    """Return a decimal of the most digits, which is not larger than these: sums of DuckDB's may be."""
    digits = [int(one.name) for one in kind.expressions]
    if not digits or digits[0] < MOST_DIGITS:
        return value
    scale = digits[1] if len(digits) > 1 else 0
    return macro("ls_within", value, exp.Literal.number(f"{'9' * (MOST_DIGITS - scale)}.{'9' * scale}"))


def _without_fraction(value: exp.Expr) -> exp.Expr:
    """Return what is cast to whole numbers without its fraction, by which DuckDB would round."""
    kind = kind_of(value)
    if kind == DOUBLE:
        return exp.Trunc(this=value)
    return value if kind in (WHOLE, TRUTH, NULL) else macro("ls_integral", value)


def _in_full(written: re.Match[str]) -> exp.Expr:
    day, minute, second, zone = written.groups()
    return exp.Literal.string(f"{day} {minute or '00:00'}{second or ':00'}{zone or '+00'}")


REWRITES: Rewrites = {**dict.fromkeys((exp.Cast, exp.TryCast), _cast), exp.TsOrDsToDate: _to_date}
