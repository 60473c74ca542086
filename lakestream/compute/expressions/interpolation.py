"""INTERP: values at instants of a range, the rows' own or made of those around (TDengine)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.functions import duration_micros
from lakestream.compute.expressions.row_calls import (
    TIME,
    UP_TO,
    Slice,
    check_items,
    first_of_each_time,
    from_,
    inside_of,
    order_columns,
    put_results,
    raw,
    read_call,
    refuse,
    ties_of,
    with_columns,
)
from lakestream.errors import LakestreamError, StatementError
from lakestream.language.common.dialect import DURATION_FUNCTION
from lakestream.language.common.interpolation import FILLS, INTERPOLATION
from lakestream.language.expressions.parsing import place_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.compute.expressions.row_calls import Call, Rows
    from lakestream.errors import Place

_OWN = frozenset({"_irowts", "_isfilled", "_irowts_origin"})
_AFTER = "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
_NEIGHBOURS = ("PREV", "NEXT", "NEAR")


@dataclass(frozen=True)
class _Range:
    """The instants of an INTERP clause, and how far from one its neighbours may be; SQL and microseconds."""

    first: exp.Expr
    last: exp.Expr
    step: int
    reach: int | None
    fill: str
    values: tuple[exp.Expr, ...]


def rewrite_interp(
    select: exp.Select, calls: Sequence[exp.Anonymous], keys: Sequence[exp.Expr], rows: Rows
) -> None:
    """Rewrite a select with calls of INTERP and its RANGE, EVERY and FILL; ``keys`` are what slices rows.

    The rows of a slice and the instants are put in order together, and each instant looks at the row before
    it and the one behind it. Raises StatementError WRONG_ARGUMENTS, FUNCTION_NOT_ALLOWED, FILL_VALUE,
    BAD_DURATION or SYNTAX.
    """
    assert rows.order is not None  # by check_calls
    found = [read_call(node, number, rows) for number, node in enumerate(calls)]
    asked = _range(select, found, rows)
    ignoring = [call for call in found if _ignores(call, rows)]
    check_items(select, calls, keys, _OWN, rows)
    names = tuple(f"_ls_p{number}" for number, _ in enumerate(keys))
    slices = Slice(names, ties_of(rows.order))
    columns = [
        *order_columns(rows.order),
        *(exp.alias_(key.copy(), name) for name, key in zip(names, keys, strict=True)),
        *(exp.alias_(call.arguments[0].copy(), call.x) for call in found),
    ]
    inside = inside_of(select, columns)
    if ignoring:
        there = " AND ".join(f"{call.x} IS NOT NULL" for call in ignoring)
        inside = exp.Select(expressions=[exp.Star()], from_=from_(inside)).where(raw(there), copy=False)
    instants = _instants(first_of_each_time(inside, slices), slices, found, asked)
    answered = _answered(_around(instants, names), found, asked)
    _put_own(select, asked, calls[0], rows)
    put_results(select, found)
    select.set(INTERPOLATION, None)
    select.set("from_", from_(answered))
    select.where(raw("_ls_wanted AND _ls_kept"), copy=False)


def _ignores(call: Call, rows: Rows) -> bool:
    try:
        return call.whole(1, 0, 1, 0) == 1
    except LakestreamError as error:
        raise error.at(place_in(rows.fragment, call.node)) from None


# --- the clause ---


def _range(select: exp.Select, calls: Sequence[Call], rows: Rows) -> _Range:
    place = partial(place_in, rows.fragment)
    clause = select.args.get(INTERPOLATION)
    if clause is None or not clause.expressions or not clause.args.get("fill"):
        raise StatementError(
            "SYNTAX",
            "interp() needs RANGE and FILL",
            hint="… FROM t RANGE(from, to) EVERY(10s) FILL(PREV)",
            place=place(calls[0].node),
        )
    if clause.args["fill"] not in FILLS:
        raise StatementError(
            "SYNTAX",
            f"there is no FILL({clause.args['fill']})",
            hint=f"one of {', '.join(FILLS)}",
            place=place(clause),
        )
    for column in clause.find_all(exp.Column):
        if column.name.lower() not in rows.known and not column.name.startswith("%%"):
            raise StatementError(
                "SYNTAX",
                f"RANGE and FILL take constants and placeholders, not the column {column.name}",
                place=place(column),
            )
    first, *rest = clause.expressions
    near = rest[-1] if rest and _is_duration(rest[-1]) else None
    ends = [first, *(rest[:-1] if near is not None else rest)]
    if len(ends) > 2 or (near is not None and len(ends) > 1):
        raise StatementError(
            "SYNTAX", "RANGE takes one instant or two, or one and a time around it", place=place(clause)
        )
    step = _step(clause, one=len(ends) == 1, place=place(clause))
    values = tuple(clause.args.get("values") or ())
    _check_values(clause.args["fill"], values, near is not None, len(calls), place(clause))
    reach = _micros(near, place(clause)) if near is not None else None
    return _Range(_instant(ends[0]), _instant(ends[-1]), step, reach, clause.args["fill"], values)


def _step(clause: exp.Expr, *, one: bool, place: Place) -> int:
    every = clause.args.get("every")
    if every is None:
        if not one:
            raise StatementError(
                "SYNTAX", "RANGE of two instants needs EVERY", hint="EVERY(10s)", place=place
            )
        return 1
    return _micros(every, place)


def _micros(node: exp.Expr, place: Place) -> int:
    try:
        micros = duration_micros(node)
    except LakestreamError as error:
        raise error.at(place) from None
    if micros <= 0:
        raise StatementError("BAD_DURATION", "EVERY and RANGE take times longer than nothing", place=place)
    return micros


def _check_values(fill: str, values: tuple[exp.Expr, ...], near: bool, count: int, place: Place) -> None:
    wanted = count if fill == "VALUE" or (near and fill in _NEIGHBOURS) else 0
    if near and fill not in _NEIGHBOURS:
        raise StatementError(
            "SYNTAX",
            f"RANGE with a time around an instant takes FILL(PREV), NEXT or NEAR, not {fill}",
            place=place,
        )
    if len(values) != wanted:
        raise StatementError(
            "FILL_VALUE", f"FILL({fill}) takes {wanted} constants here, not {len(values)}", place=place
        )


def _is_duration(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name == DURATION_FUNCTION


def _instant(node: exp.Expr) -> exp.Expr:
    """Return an instant in microseconds; a whole number counts milliseconds."""
    if isinstance(node, exp.Literal) and node.is_int:
        return raw(f"{int(node.name) * 1000}L")
    time = exp.cast(node.copy(), "timestamp") if node.is_string else node.copy()
    return exp.Anonymous(this="unix_micros", expressions=[time])


# --- rows and instants in one order ---


def _instants(inside: exp.Select, slices: Slice, calls: Sequence[Call], asked: _Range) -> exp.Select:
    """Return the rows of each slice that has any, and the instants, as (t, wanted, at: the row)."""
    names = list(slices.keys)
    row = ", ".join([TIME, *(call.x for call in calls)])
    listed = [*map(raw, names), exp.alias_(raw(f"collect_list(struct({row}))"), "_ls_points")]
    grouped = exp.Select(expressions=listed, from_=from_(inside))
    if names:
        grouped.group_by(*map(raw, names), copy=False)
    grouped.having(raw("count(1) > 0"), copy=False)
    ends = exp.Select(
        expressions=[exp.Star(), exp.alias_(asked.first, "_ls_first"), exp.alias_(asked.last, "_ls_last")],
        from_=from_(grouped),
    )
    rising = f"IF(_ls_first <= _ls_last, sequence(_ls_first, _ls_last, {asked.step}L), array())"
    instants = f"transform({rising}, i -> struct(i AS t, true AS wanted, get(_ls_points, -1) AS at))"
    points = f"transform(_ls_points, p -> struct(p.{TIME} AS t, false AS wanted, p AS at))"
    both = exp.Select(
        expressions=[*map(raw, names), exp.alias_(raw(f"concat({points}, {instants})"), "_ls_both")],
        from_=from_(ends),
    )
    return exp.Select(
        expressions=[*map(raw, names), exp.alias_(raw("explode(_ls_both)"), "_ls_one")], from_=from_(both)
    )


def _around(exploded: exp.Select, names: Sequence[str]) -> exp.Select:
    """Return instants and rows with the row up to each (``_ls_b``) and the one behind it (``_ls_a``)."""
    by = f"PARTITION BY {', '.join(names)} " if names else ""
    order = f"{by}ORDER BY _ls_one.t, _ls_one.wanted"
    before = f"last_value(_ls_one.at, true) OVER ({order} {UP_TO})"
    after = f"first_value(_ls_one.at, true) OVER ({order} {_AFTER})"
    return with_columns(
        exploded,
        [("_ls_b", before), ("_ls_a", after), ("_ls_at", "_ls_one.t"), ("_ls_wanted", "_ls_one.wanted")],
    )


def _answered(around: exp.Select, calls: Sequence[Call], asked: _Range) -> exp.Select:
    """Return what each call gives at an instant, and whether the instant is given at all."""
    before, after = f"_ls_b.{TIME}", f"_ls_a.{TIME}"
    nearer = f"IF(_ls_a IS NULL OR _ls_at - {before} <= {after} - _ls_at, _ls_b, _ls_a)"
    picked = {"PREV": "_ls_b", "NEXT": "_ls_a", "NEAR": f"IF(_ls_b IS NULL, _ls_a, {nearer})"}.get(asked.fill)
    exact = with_columns(
        around, [("_ls_exact", f"coalesce({before} = _ls_at, false)"), ("_ls_c", picked or "_ls_b")]
    )
    if asked.reach is not None:
        near = f"IF(abs(_ls_c.{TIME} - _ls_at) <= {asked.reach}, _ls_c, NULL)"
        exact = with_columns(exact, [("_ls_near", near)])
    chosen = "_ls_near" if asked.reach is not None else "_ls_c"
    kept = {
        "NONE": "false",
        "LINEAR": "_ls_b IS NOT NULL AND _ls_a IS NOT NULL",
        "VALUE": "true",
        "NULL": "true",
    }.get(asked.fill, "true" if asked.values else f"{chosen} IS NOT NULL")
    results = [(f"_ls_r{call.number}", _value(call, asked, chosen)) for call in calls]
    origin = f"timestamp_micros(IF(_ls_exact, _ls_at, {chosen}.{TIME}))"
    own = [("_ls_kept", f"(_ls_exact OR ({kept}))"), ("_ls_origin", origin)]
    return with_columns(exact, [*results, *own])


def _value(call: Call, asked: _Range, chosen: str) -> str:
    """Return SQL of the value at an instant: the row's own, or what FILL makes of it."""
    x, kind = call.x, call.kind
    typed = partial("CAST({} AS {})".format) if kind else lambda sql, _: sql
    constant = asked.values[call.number].sql("spark") if asked.values else "NULL"
    filled = {
        "NONE": "NULL",
        "NULL": "NULL",
        "VALUE": typed(constant, kind),
        "LINEAR": typed(_line(x), kind),
    }.get(asked.fill)
    if filled is None:
        filled = (
            f"IF({chosen} IS NULL, {typed(constant, kind)}, {chosen}.{x})"
            if asked.values
            else f"{chosen}.{x}"
        )
    return f"IF(_ls_exact, _ls_b.{x}, {filled})"


def _line(x: str) -> str:
    before, after = f"CAST(_ls_b.{x} AS DOUBLE)", f"CAST(_ls_a.{x} AS DOUBLE)"
    share = f"(_ls_at - _ls_b.{TIME}) / (_ls_a.{TIME} - _ls_b.{TIME})"
    return f"({before} + ({after} - {before}) * {share})"


def _put_own(select: exp.Select, asked: _Range, call: exp.Anonymous, rows: Rows) -> None:
    """Put what the pseudo-columns of INTERP are in their place."""
    meant = {
        "_irowts": "timestamp_micros(_ls_at)",
        "_isfilled": "(NOT _ls_exact)",
        "_irowts_origin": "_ls_origin",
    }
    order = select.args.get("order")
    for part in [*select.selects, *([order] if order else [])]:
        for node in list(part.find_all(exp.Column)):
            name = node.name.lower()
            if node.table or name not in meant:
                continue
            if name == "_irowts_origin" and asked.fill not in _NEIGHBOURS:
                refuse(rows.fragment, call, f"beside _irowts_origin with FILL({asked.fill})")
            sql = raw(meant[name])
            is_item = node.parent is select and node.arg_key == "expressions"
            node.replace(exp.alias_(sql, name, quoted=True) if is_item else sql)
