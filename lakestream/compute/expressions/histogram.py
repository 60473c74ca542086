"""HISTOGRAM: how many values fall into each of several ranges, a row with a JSON text for each (TDengine)."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.row_calls import (
    check_items,
    from_,
    inside_of,
    put_results,
    raw,
    read_call,
)
from lakestream.errors import LakestreamError
from lakestream.language.expressions.parsing import place_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.compute.expressions.row_calls import Call, Rows

_MOST = 1000


def rewrite_histogram(select: exp.Select, node: exp.Anonymous, keys: Sequence[exp.Expr], rows: Rows) -> None:
    """Rewrite a select with a call of HISTOGRAM; ``keys`` are what slices rows.

    Values are counted by the number of bounds below them; a range holds its upper bound. Raises
    StatementError WRONG_ARGUMENTS, FUNCTION_NOT_ALLOWED.
    """
    call = read_call(node, 0, rows)
    try:
        bounds, shares = _bounds(call), call.whole(3, 0, 1)
    except LakestreamError as error:
        raise error.at(place_in(rows.fragment, node)) from None
    keys = [*keys, *_of_windows(select, keys)]
    check_items(select, [node], keys, frozenset(), rows)
    names = [f"_ls_p{number}" for number, _ in enumerate(keys)]
    listed = [exp.alias_(key.copy(), name) for name, key in zip(names, keys, strict=True)]
    value = exp.alias_(exp.cast(call.arguments[0].copy(), "double"), call.x)
    inside = inside_of(select, [*listed, value], star=False).where(
        exp.Not(this=exp.Is(this=call.arguments[0].copy(), expression=exp.null())), copy=False
    )
    ordered = sorted(bounds)
    array = ", ".join(map(_double, ordered))
    number = f"size(filter(array({array}), b -> b < {call.x})) AS _ls_bin"
    grouped = _select([*names, number, "count(1) AS _ls_count"], inside, [*names, "_ls_bin"])
    counts = "map_from_entries(collect_list(struct(_ls_bin, _ls_count))) AS _ls_counts"
    within = f"coalesce(sum(_ls_count) FILTER (WHERE _ls_bin BETWEEN 1 AND {len(bounds) - 1}), 0L)"
    sliced = _select([*names, counts, f"{within} AS _ls_all"], grouped, names)
    sliced.having(raw("count(1) > 0"), copy=False)
    bins = ", ".join(_bin(bounds, ordered, number) for number in range(len(bounds) - 1))
    share = "IF(_ls_all = 0, 0D, coalesce(try_element_at(_ls_counts, b.bin), 0L) / CAST(_ls_all AS DOUBLE))"
    count = f"format_string('%f', {share})" if shares else "coalesce(try_element_at(_ls_counts, b.bin), 0L)"
    texts = f"transform(array({bins}), b -> concat(b.text, {count}, '}}')) AS _ls_texts"
    with_texts = _select([*names, texts], sliced)
    put_results(select, [call])
    select.set("from_", from_(_select([*names, f"explode(_ls_texts) AS _ls_r{call.number}"], with_texts)))
    select.set("group", None)


def _of_windows(select: exp.Select, keys: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Return what stands in a select of the windows that the rows know, once each."""
    found = (column for item in select.selects for column in item.find_all(exp.Column))
    return list(dict.fromkeys(node for node in found if node.name.startswith("_ls_") and node not in keys))


def _select(listed: Sequence[str], inside: exp.Select, by: Sequence[str] = ()) -> exp.Select:
    select = exp.Select(expressions=[raw(sql) for sql in listed], from_=from_(inside))
    return select.group_by(*(raw(name) for name in by), copy=False) if by else select


def _bin(bounds: Sequence[float], ordered: Sequence[float], number: int) -> str:
    """Return SQL of a range: the number of bounds below its values, and its text up to the count."""
    low, high = sorted(bounds[number : number + 2])
    text = f'{{"lower_bin":{low:g}, "upper_bin":{high:g}, "count":'
    literal = exp.Literal.string(text).sql("spark")
    return f"struct({ordered.index(high)} AS bin, {literal} AS text)"


def _double(value: float) -> str:
    if math.isinf(value):
        return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE)"
    return f"{value!r}D"


def _bounds(call: Call) -> list[float]:
    """Return the bounds of the ranges, in the order of the rows."""
    kind, described = call.arguments[1].name.lower(), call.arguments[2].name
    makers = {"user_input": _given, "linear_bin": _linear, "log_bin": _logarithmic}
    if kind not in makers:
        raise call.wrong(f"argument 2 is one of {', '.join(makers)}, as text")
    try:
        read = json.loads(described)
    except ValueError:
        raise call.wrong("argument 3 is JSON, as text") from None
    try:
        bounds = makers[kind](call, read)
    except OverflowError:
        raise call.wrong("argument 3 gives bounds that are too large") from None
    if not all(math.isfinite(bound) for bound in bounds[1:-1]):
        raise call.wrong("argument 3 gives bounds that are too large")
    return bounds


def _given(call: Call, described: object) -> list[float]:
    numbers = described if isinstance(described, list) else []
    rises = all(_is_number(one) for one in numbers) and sorted(set(numbers)) == numbers
    if not rises or not 2 <= len(numbers) <= _MOST + 1:
        raise call.wrong('argument 3 is an array of rising numbers, such as "[1, 3, 5]"')
    return [float(one) for one in numbers]


def _linear(call: Call, described: object) -> list[float]:
    start, width, count, infinite = _described(call, described, "width")
    if not width:
        raise call.wrong("the width in argument 3 is not 0")
    return _widened([start + width * number for number in range(count + 1)], infinite=infinite)


def _logarithmic(call: Call, described: object) -> list[float]:
    start, factor, count, infinite = _described(call, described, "factor")
    if not start or factor <= 0 or factor == 1:
        raise call.wrong("in argument 3 start is not 0, and factor is above 0 and not 1")
    return _widened([start * factor**number for number in range(count + 1)], infinite=infinite)


def _described(call: Call, described: object, step: str) -> tuple[float, float, int, bool]:
    """Return start, step, count and infinity of a description."""
    names = ("start", step, "count", "infinity")
    if isinstance(described, dict) and sorted(described) == sorted(names):
        start, by, count, infinite = (described[name] for name in names)
        whole = isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= _MOST
        if _is_number(start) and _is_number(by) and whole and isinstance(infinite, bool):
            return float(start), float(by), count, infinite
    raise call.wrong(f"argument 3 names {', '.join(names)}: numbers, at most {_MOST} ranges, true or false")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _widened(bounds: list[float], *, infinite: bool) -> list[float]:
    if not infinite:
        return bounds
    ends = [-math.inf, math.inf] if bounds[0] < bounds[-1] else [math.inf, -math.inf]
    return [ends[0], *bounds, ends[1]]
