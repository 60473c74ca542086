"""The functions of the IoTDB dialect: which there are, what they take and what they give (IoTDB A3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Takes = Literal["numbers", "texts", "truth", "any"]

SAME = "SAME"
"""The type of a result that is that of the first argument."""


@dataclass(frozen=True)
class Function:
    """What a function takes and gives.

    ``least`` to ``most`` arguments, and attributes (``'k'='2'``): those that it needs, and those that it may
    have besides (``target*`` stands for all names that begin so). ``gives`` is an IoTDB type, SAME, or empty
    for that of the attribute ``type``. ``over_rows``: it looks at other rows than its own.
    """

    least: int
    most: int
    takes: Takes
    gives: str
    needs: tuple[str, ...] = ()
    may_have: tuple[str, ...] = ()
    over_rows: bool = False

    def knows(self, attribute: str) -> bool:
        """Tell whether an attribute is one of the function's."""
        return any(
            attribute == known or (known.endswith("*") and attribute.startswith(known[:-1]))
            for known in (*self.needs, *self.may_have)
        )


_OF_NUMBERS = Function(1, 1, "numbers", "DOUBLE")
_OF_TEXT = Function(1, 1, "texts", "TEXT")

AGGREGATES: dict[str, Function] = {
    "count": Function(1, 1, "any", "INT64"),
    "sum": _OF_NUMBERS,
    "avg": _OF_NUMBERS,
    "min_value": Function(1, 1, "any", SAME),
    "max_value": Function(1, 1, "any", SAME),
    "first_value": Function(1, 1, "any", SAME),
    "last_value": Function(1, 1, "any", SAME),
    "extreme": Function(1, 1, "numbers", SAME),
    "min_time": Function(1, 1, "any", "INT64"),
    "max_time": Function(1, 1, "any", "INT64"),
    "max_by": Function(2, 2, "any", SAME),
    "min_by": Function(2, 2, "any", SAME),
    "mode": Function(1, 1, "any", SAME),
    "stddev": _OF_NUMBERS,
    "stddev_pop": _OF_NUMBERS,
    "stddev_samp": _OF_NUMBERS,
    "variance": _OF_NUMBERS,
    "var_pop": _OF_NUMBERS,
    "var_samp": _OF_NUMBERS,
    "time_duration": Function(1, 1, "any", "INT64"),
    "count_if": Function(2, 2, "truth", "INT64", may_have=("ignoreNull",)),
    "count_time": Function(1, 1, "any", "INT64"),
}
"""Aggregates by name."""

ONE_TYPE = frozenset({"sum", "avg", "min_value", "max_value", "extreme"})
"""Aggregates whose group under LEVEL has one type."""

_SMOOTH = frozenset(
    {"sign", "ceil", "floor", "exp", "ln", "log10", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan"}
    | {"sinh", "cosh", "tanh", "degrees", "radians"}
)

SCALARS: dict[str, Function] = {
    **dict.fromkeys(_SMOOTH, _OF_NUMBERS),
    "abs": Function(1, 1, "numbers", SAME),
    "round": Function(1, 2, "numbers", "DOUBLE"),
    "on_off": Function(1, 1, "numbers", "BOOLEAN", needs=("threshold",)),
    "in_range": Function(1, 1, "numbers", "BOOLEAN", needs=("lower", "upper")),
    "string_contains": Function(1, 1, "texts", "BOOLEAN", needs=("s",)),
    "string_matches": Function(1, 1, "texts", "BOOLEAN", needs=("regex",)),
    "length": Function(1, 1, "texts", "INT32"),
    "locate": Function(1, 1, "texts", "INT32", needs=("target",), may_have=("reverse",)),
    "startswith": Function(1, 1, "texts", "BOOLEAN", needs=("target",)),
    "endswith": Function(1, 1, "texts", "BOOLEAN", needs=("target",)),
    "concat": Function(1, 100, "texts", "TEXT", may_have=("target*", "series_behind")),
    "substring": Function(2, 3, "texts", "TEXT"),
    "replace": Function(3, 3, "texts", "TEXT"),
    "upper": _OF_TEXT,
    "lower": _OF_TEXT,
    "trim": _OF_TEXT,
    "strcmp": Function(2, 2, "texts", "INT32"),
    "cast": Function(1, 1, "any", "", needs=("type",)),
    "const": Function(1, 1, "any", "", needs=("value", "type")),
    "pi": Function(1, 1, "any", "DOUBLE"),
    "e": Function(1, 1, "any", "DOUBLE"),
    "diff": Function(1, 1, "numbers", "DOUBLE", may_have=("ignoreNull",), over_rows=True),
    "difference": Function(1, 1, "numbers", SAME, over_rows=True),
    "non_negative_difference": Function(1, 1, "numbers", SAME, over_rows=True),
    "derivative": Function(1, 1, "numbers", "DOUBLE", over_rows=True),
    "non_negative_derivative": Function(1, 1, "numbers", "DOUBLE", over_rows=True),
    "time_difference": Function(1, 1, "any", "INT64", over_rows=True),
    "top_k": Function(1, 1, "any", SAME, needs=("k",), over_rows=True),
    "bottom_k": Function(1, 1, "any", SAME, needs=("k",), over_rows=True),
    "change_points": Function(1, 1, "any", SAME, over_rows=True),
}
"""Functions of single points, and those that look at the points of a series around them."""

CAST_TYPES = ("INT32", "INT64", "FLOAT", "DOUBLE", "BOOLEAN", "TEXT")
"""What CAST and CONST make."""
