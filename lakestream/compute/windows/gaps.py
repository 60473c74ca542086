"""FILL of a stream: what a window without rows has in the place of its aggregates (TDengine A11).

NULL and constants are part of the calculation itself. The values of the window before cannot be: there a
window with rows gives each aggregate as a struct, one without rows NULL, and the results of all windows
are then gone through in order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.functions import aggregates, call
from lakestream.compute.windows.calculation import ALIAS
from lakestream.errors import StatementError
from lakestream.language.common.source import place_of
from lakestream.language.expressions.parsing import parse_expression

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakestream.compute.windows.calculation import Calculation
    from lakestream.language.model import Fill, Fragment

ROW_COUNT = "_twrownum"


def filled(calculation: Calculation, fill: Fill) -> Calculation:
    """Return the calculation with what a window without rows has for each result that aggregates.

    Raises StatementError FILL_VALUE where there are more or fewer constants than such results.
    """
    numbers = tuple(_aggregating(calculation))
    constants = constants_of(calculation, fill)
    if fill.mode == "VALUE" and len(fill.values) != len(numbers):
        raise StatementError(
            "FILL_VALUE",
            f"FILL(VALUE, …) has {len(fill.values)} constants for {len(numbers)} results that aggregate",
            hint="one for each of them, in their order",
            place=place_of(fill.values[0]),
        )
    query = calculation.query.copy()
    carries = fill.mode == "PREV"
    for number in numbers:
        result = query.selects[number - 1].unalias()
        there = call("struct", exp.alias_(result.copy(), "v")) if carries else result.copy()
        has_rows = exp.GT(this=exp.column(ROW_COUNT, table=ALIAS), expression=exp.Literal.number(0))
        either = exp.Case().when(has_rows, there)
        if number in constants:
            either = either.else_(parse_expression(constants[number]))
        result.replace(either)
    used = calculation.used | {ROW_COUNT}
    return replace(calculation, query=query, used=used, carried=numbers if carries else ())


def without_constants(calculation: Calculation) -> Calculation:
    """Return a calculation with NULL in the place of constants: its results have their own types."""
    query = calculation.query.copy()
    for number in _aggregating(calculation):
        query.selects[number - 1].unalias().set("default", None)
    return replace(calculation, query=query)


def constants_of(calculation: Calculation, fill: Fill) -> dict[int, Fragment]:
    """Return the constants by the number (from 1) of the result that they stand in for."""
    return dict(zip(_aggregating(calculation), fill.values, strict=False))


_FLOATS = ("float", "double")
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


def fits_sql(constant: Fragment, kind: str) -> str:
    """Return SQL of whether a constant is a value of a Spark type, without loss."""
    node = parse_expression(constant)
    value = node.sql("spark")
    if isinstance(node, exp.Null):
        return "true"
    if isinstance(node, exp.Boolean):
        return str(kind == "boolean").lower()
    if isinstance(node, exp.Literal) and node.is_string:
        return str(kind == "string").lower()
    if kind in _FLOATS:
        return f"try_cast({value} AS {kind}) IS NOT NULL"
    if kind in _INTEGERS or kind.startswith("decimal"):
        return f"coalesce(try_cast({value} AS {kind}) = {value}, false)"
    return "false"


def _aggregating(calculation: Calculation) -> Iterator[int]:
    """Return the numbers of the results that aggregate, from 1."""
    for number, result in enumerate(calculation.query.selects, 1):
        if aggregates([result]):
            yield number


def carried(evaluated: str, numbers: tuple[int, ...], previous: str | None) -> str:
    """Return the SQL of an evaluation's result in which windows without rows have the values before them.

    ``previous`` names a view of what stands before the windows (_ls_gid, and c1, c2, … of the ``numbers``);
    None: nothing does.
    """
    before = "OVER (PARTITION BY _ls_gid ORDER BY _ls_k ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    listed = ", ".join(f"c{number}" for number in numbers)
    last = ", ".join(f"last_value(c{number}, true) {before} AS _ls_c{number}" for number in numbers)
    known = {number: f"p.c{number}" if previous else "NULL" for number in numbers}
    values = ", ".join(
        f"CASE WHEN e._ls_c{number} IS NULL THEN {known[number]} ELSE e._ls_c{number}.v END AS c{number}"
        for number in numbers
    )
    kept = ", ".join(f"_ls_c{number}" for number in numbers)
    join = f" LEFT JOIN {previous} p ON p._ls_gid = e._ls_gid" if previous else ""
    rows = f"SELECT * EXCEPT ({listed}), {last} FROM ({evaluated})"
    return f"SELECT e.* EXCEPT ({kept}), {values} FROM ({rows}) e{join}"
