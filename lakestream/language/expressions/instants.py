"""Constants beside times: whole numbers count milliseconds, texts without a zone are in the lake's."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from sqlglot import exp

from lakestream.language.common.dialect import COUNTED, DURATION_FUNCTION
from lakestream.language.common.templates import made
from lakestream.language.expressions.parsing import TURNED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lakestream.language.common.functions import Meaning

INSTANT = "instant"
"""What notes of a node that it is a time: a cast to TIMESTAMP."""
_COMPARISONS = (*TURNED, exp.Between, exp.In)
_OF_ONE = (exp.Max, exp.Min, exp.First, exp.Last)
"""Functions whose result is one of the values."""
_DATED = re.compile(r"\d{4}-\d")
_WALL = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")


def times_beside(nodes: Iterable[exp.Expr], is_time: Callable[[exp.Column], bool], meaning: Meaning) -> None:
    """Put times in the place of constants that are compared with one, and durations of those added to one.

    ``is_time`` tells the columns that are instants. What is no constant stays (TDengine).
    """

    def is_instant(node: exp.Expr) -> bool:
        node = node.unnest()
        if isinstance(node, exp.Add | exp.Sub):
            return is_instant(node.left) and (_is_count(node.right) or _is_duration(node.right))
        if isinstance(node, _OF_ONE):
            return is_instant(node.this)
        return INSTANT in node.meta or (isinstance(node, exp.Column) and is_time(node))

    for node in list(nodes):
        if isinstance(node, _COMPARISONS):
            sides = [side for side in node.iter_expressions() if not isinstance(side, exp.Query)]
            if any(map(is_instant, sides)):
                for side in sides:
                    _as_time(side, meaning)
        elif isinstance(node, exp.Add | exp.Sub) and _is_count(node.right) and is_instant(node.left):
            node.set("expression", _milliseconds(node.right))


def nanoseconds_beside(nodes: Iterable[exp.Expr], names: frozenset[str], meaning: Meaning) -> None:
    """Put nanoseconds in the place of written times that are compared with one of the ``names``, counted so.

    To Spark such a text is no number, and nothing would be before or after it.
    """
    for node in list(nodes):
        if not isinstance(node, _COMPARISONS):
            continue
        sides = [side for side in node.iter_expressions() if not isinstance(side, exp.Query)]
        inside = [side.unnest() for side in sides]
        if any(isinstance(node, exp.Column) and node.name.lower() in names for node in inside):
            for side in sides:
                if isinstance(side, exp.Literal) and side.is_string and _DATED.match(side.name):
                    side.replace(made("unix_micros(_1) * 1000L", {"_1": _of_wall(side, meaning)}))


def _as_time(node: exp.Expr, meaning: Meaning) -> None:
    """Put the time in a constant's place, one that a duration is added to among them."""
    if isinstance(node, exp.Add | exp.Sub) and _is_duration(node.right):
        _as_time(node.left, meaning)
    elif isinstance(node, exp.Literal) and node.is_string:
        # In UTC Spark reads it so by itself, but for IN: among texts a time is a text to it.
        if meaning.zone != "UTC" or isinstance(node.parent, exp.In):
            node.replace(_of_wall(node, meaning))
    elif _is_count(node) or (isinstance(node, exp.Neg) and _is_count(node.this)):
        node.replace(made("timestamp_millis(CAST(_1 AS BIGINT))", {"_1": node.copy()}))


def _of_wall(text: exp.Expr, meaning: Meaning) -> exp.Expr:
    if not _WALL.fullmatch(text.name):
        return meaning.instant(text.copy())
    try:
        wall = datetime.fromisoformat(text.name).replace(tzinfo=ZoneInfo(meaning.zone))
    except ValueError:  # there is no such day
        return meaning.instant(text.copy())
    seconds = int(wall.replace(microsecond=0).timestamp())
    micros = seconds * 1_000_000 + wall.microsecond
    return made(f"timestamp_micros({micros}L)", {})


def _is_count(node: exp.Expr) -> bool:
    node = node.unnest()
    return isinstance(node, exp.Literal) and node.is_int


def _is_duration(node: exp.Expr) -> bool:
    node = node.unnest()
    is_literal = isinstance(node, exp.Anonymous) and node.name == DURATION_FUNCTION
    return is_literal or isinstance(node, exp.Interval)


def _milliseconds(node: exp.Expr) -> exp.Expr:
    counted = exp.Literal.string(f"{node.unnest().name}a")
    duration = exp.Anonymous(this=DURATION_FUNCTION, expressions=[counted])
    duration.meta[COUNTED] = node.sql()
    return duration
