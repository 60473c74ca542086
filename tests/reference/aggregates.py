"""Aggregates over a window's rows in time order, with SQL's and TDengine's meaning of NULL."""

from __future__ import annotations

from math import fsum
from statistics import pstdev
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.reference.fold import Figures, Row


def total(values: list[Any]) -> Any:
    """Add up: exact for integers, correctly rounded for floats; None without values."""
    if not values:
        return None
    return fsum(values) if any(isinstance(v, float) for v in values) else sum(values)


def mean(values: list[Any]) -> float | None:
    """Return the average; None without values."""
    return fsum(values) / len(values) if values else None


AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "count distinct": lambda values: len(set(values)),
    "sum": total,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
    "avg": mean,
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
    "spread": lambda values: max(values) - min(values) if values else None,
    "hyperloglog": lambda values: len(set(values)),
    "stddev": lambda values: pstdev(values) if values else None,
}


def figures(*columns: tuple[str, str]) -> Callable[[list[Row]], Figures]:
    """Return a calculation: ``figures(("count", "*"), ("sum", "v"))``. NULLs are left out, but by ``*``."""

    def calculate(rows: list[Row]) -> Figures:
        return tuple(AGGREGATES[name](values_of(rows, column)) for name, column in columns)

    return calculate


def values_of(rows: list[Row], column: str) -> list[Any]:
    """Return a column's values that are not NULL, or one per row for ``*``."""
    return list(rows) if column == "*" else [r[column] for r in rows if r[column] is not None]
