"""Durations that are written, which are added to times."""

from __future__ import annotations

import re
from decimal import Decimal

from sqlglot import exp

_DURATION = "make_dt_interval"
"""Spark's function that a duration of a statement has become: of no days, hours and minutes, and seconds."""


def is_duration(node: exp.Expr) -> bool:
    """Return whether a node is a duration of a statement."""
    return isinstance(node, exp.Anonymous) and node.name.lower() == _DURATION


def is_shift(node: exp.Expr) -> bool:
    """Return whether a node is a duration that is added to something, or taken from it."""
    if length_us(node) is None:
        return False
    return isinstance(node.parent, exp.Add) or (
        isinstance(node.parent, exp.Sub) and node.arg_key == "expression"
    )


def length_us(node: exp.Expr) -> int | None:
    """Return the length of a written duration in microseconds; None for anything else, and for months."""
    if isinstance(node, exp.Interval):
        unit, number = node.args.get("unit"), node.this
        of_one = _LENGTHS.get(unit.name.upper().removesuffix("S")) if isinstance(unit, exp.Var) else None
        is_whole = isinstance(number, exp.Literal) and _WHOLE_TEXT.fullmatch(number.name)
        return int(number.name) * of_one if of_one and is_whole else None
    if is_duration(node):
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
