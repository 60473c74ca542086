"""FILL of IoTDB in Spark SQL: what stands in the place of a NULL among the rows of one result (IoTDB A3)."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from lakestream.language.iotdb.values import Fill
    from lakestream.language.model import Value

_NUMBERS = frozenset({"int", "bigint", "float", "double"})
_INT_MAX = 2**31


def filled(fill: Fill, column: str, kind: str, partition: str) -> str:
    """Return the expression of a filled column.

    ``kind`` is the column's Spark type; ``partition`` is ``PARTITION BY …`` or empty: rows are filled from
    rows of the same partition, in order of ``ts``.
    """
    if fill.method == "CONSTANT":
        return _constant(fill.value, column, kind)
    before = f"({partition} ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    if fill.method == "PREVIOUS":
        return _previous(fill, column, before)
    return _linear(column, kind, before, partition)


def _constant(value: Value, column: str, kind: str) -> str:
    """Fill by the type of the constant; a column that it does not fit stays as it is."""
    if isinstance(value, bool):
        literal, fits = str(value).lower(), {"boolean", "string"}
    elif isinstance(value, int):
        narrow = {"int"} if -_INT_MAX <= value < _INT_MAX else set()
        literal, fits = f"{value}L", {"bigint", "float", "double", "string"} | narrow
    elif isinstance(value, float | Decimal):
        literal, fits = f"{float(value)!r}D", {"float", "double", "string"}
    elif isinstance(value, str):
        literal, fits = exp.Literal.string(value).sql("spark"), {"string"}
    else:
        return column
    if kind not in fits:
        return column
    if kind == "string":
        literal = exp.Literal.string(value if isinstance(value, str) else str(value).lower()).sql("spark")
    return f"coalesce({column}, CAST({literal} AS {kind}))"


def _previous(fill: Fill, column: str, before: str) -> str:
    found = f"last_value({column}, true) OVER {before}"
    if fill.within is None:
        return f"coalesce({column}, {found})"
    at = f"last_value(IF({column} IS NULL, NULL, ts), true) OVER {before}"
    near = f"unix_micros(ts) - unix_micros({at}) <= {fill.within.micros}"
    return f"coalesce({column}, IF({near}, {found}, NULL))"


def _linear(column: str, kind: str, before: str, partition: str) -> str:
    """Fill on the straight line between the two neighbours, by time; ends, texts and truths stay."""
    if kind not in _NUMBERS:
        return column
    after = f"({partition} ORDER BY ts ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)"
    time = f"IF({column} IS NULL, NULL, unix_micros(ts))"
    v0, v1 = f"last_value({column}, true) OVER {before}", f"first_value({column}, true) OVER {after}"
    t0, t1 = f"last_value({time}, true) OVER {before}", f"first_value({time}, true) OVER {after}"
    line = (
        f"CAST({v0} AS DOUBLE) + (CAST({v1} AS DOUBLE) - CAST({v0} AS DOUBLE))"
        f" * (unix_micros(ts) - {t0}) / nullif({t1} - {t0}, 0)"
    )
    return f"coalesce({column}, CAST({line} AS {kind}))"
