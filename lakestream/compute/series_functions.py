"""IoTDB's functions in Spark SQL (IoTDB A3); a NULL is a time without a point."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _timed(x: str, order: str) -> str:
    """Return what puts the points of ``x`` in order: nothing where there is none."""
    return f"IF({x} IS NULL, NULL, {order})"


def _ranked(arguments: Sequence[str], earlier: str) -> str:
    """Return what max_by and min_by look at: of equal values the earlier one counts."""
    value, by = arguments
    return f"IF({by} IS NULL, NULL, struct({by} AS v, {earlier} AS t, {value} AS x))"


def _runs(arguments: Sequence[str], order: str) -> str:
    """Count the runs of at least so many points in a row for which a condition holds."""
    condition, keep = arguments
    return (
        f"aggregate(array_sort(collect_list(IF(({condition}) IS NULL, NULL, struct({order} AS o, "
        f"({condition}) AS p)))), named_struct('run', 0L, 'n', 0L), (s, e) -> IF(e.p, named_struct("
        f"'run', s.run + 1L, 'n', s.n + IF(s.run + 1L = {keep}, 1L, 0L)), named_struct('run', 0L, "
        "'n', s.n)), s -> s.n)"
    )


AGGREGATES: dict[str, Callable[[Sequence[str], str], str]] = {
    "count": lambda a, _: f"count({a[0]})",
    "sum": lambda a, _: f"sum(CAST({a[0]} AS DOUBLE))",
    "avg": lambda a, _: f"avg(CAST({a[0]} AS DOUBLE))",
    "min_value": lambda a, _: f"min({a[0]})",
    "max_value": lambda a, _: f"max({a[0]})",
    "first_value": lambda a, order: f"min_by({a[0]}, {_timed(a[0], order)})",
    "last_value": lambda a, order: f"max_by({a[0]}, {_timed(a[0], order)})",
    "extreme": lambda a, _: (
        f"max_by({a[0]}, {_timed(a[0], f'struct(abs(CAST({a[0]} AS DOUBLE)) AS a, {a[0]} AS v)')})"
    ),
    "min_time": lambda a, _: f"unix_millis(min({_timed(a[0], 'ts')}))",
    "max_time": lambda a, _: f"unix_millis(max({_timed(a[0], 'ts')}))",
    "max_by": lambda a, _: f"max_by({a[0]}, {_ranked(a, '- unix_micros(ts)')})",
    "min_by": lambda a, _: f"min_by({a[0]}, {_ranked(a, 'unix_micros(ts)')})",
    "mode": lambda a, _: f"mode({a[0]}, true)",
    "stddev": lambda a, _: f"stddev_samp(CAST({a[0]} AS DOUBLE))",
    "stddev_pop": lambda a, _: f"stddev_pop(CAST({a[0]} AS DOUBLE))",
    "stddev_samp": lambda a, _: f"stddev_samp(CAST({a[0]} AS DOUBLE))",
    "variance": lambda a, _: f"var_samp(CAST({a[0]} AS DOUBLE))",
    "var_pop": lambda a, _: f"var_pop(CAST({a[0]} AS DOUBLE))",
    "var_samp": lambda a, _: f"var_samp(CAST({a[0]} AS DOUBLE))",
    "time_duration": lambda a, _: (
        f"unix_millis(max({_timed(a[0], 'ts')})) - unix_millis(min({_timed(a[0], 'ts')}))"
    ),
    "count_if": _runs,
    "count_time": lambda a, _: f"count(DISTINCT {_timed(a[0], 'ts')})",
}
"""Each aggregate from its arguments and from what orders the points (the time, and more where pooled)."""


def scalar(name: str, arguments: Sequence[str]) -> str:
    """Return the call of a function of numbers."""
    doubles = ", ".join([f"CAST({arguments[0]} AS DOUBLE)", *arguments[1:]])
    return f"{name}({doubles})"
