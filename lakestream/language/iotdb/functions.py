"""The functions of the IoTDB dialect: which there are, and how many arguments they take."""

from __future__ import annotations

AGGREGATES: dict[str, tuple[int, int]] = {
    "count": (1, 1),
    "sum": (1, 1),
    "avg": (1, 1),
    "min_value": (1, 1),
    "max_value": (1, 1),
    "first_value": (1, 1),
    "last_value": (1, 1),
    "extreme": (1, 1),
    "min_time": (1, 1),
    "max_time": (1, 1),
    "max_by": (2, 2),
    "min_by": (2, 2),
    "mode": (1, 1),
    "stddev": (1, 1),
    "stddev_pop": (1, 1),
    "stddev_samp": (1, 1),
    "variance": (1, 1),
    "var_pop": (1, 1),
    "var_samp": (1, 1),
    "time_duration": (1, 1),
    "count_if": (2, 2),
    "count_time": (1, 1),
}
"""Aggregates by name: the least and the greatest number of arguments."""

NUMERIC = frozenset(
    {"sum", "avg", "extreme", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp"}
)
"""Aggregates over numbers only."""

ONE_TYPE = frozenset({"sum", "avg", "min_value", "max_value", "extreme"})
"""Aggregates whose group under LEVEL has one type."""

SCALARS = frozenset(
    {"abs", "sign", "ceil", "floor", "round", "exp", "ln", "log10", "sqrt", "sin", "cos", "tan"}
    | {"asin", "acos", "atan", "sinh", "cosh", "tanh", "degrees", "radians"}
)
"""Functions of one number."""
