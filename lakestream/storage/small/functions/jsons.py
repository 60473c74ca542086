"""Values as JSON, written as Spark's to_json writes them."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

_ENCODER = json.JSONEncoder(ensure_ascii=False)
_SMALL_HEX = re.compile(r"(?<!\\)((?:\\\\)*)\\u00([0-9a-f]{2})")
_PLAIN_DIGITS = 15
"""Of fractions of so many digits, all versions of Java write the shortest text, which Python's is too."""
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00")
_EARLIEST = "1583"
"""Days of earlier years are not those of DuckDB's calendar."""


def json_text(text: str) -> str:
    """Return a text as a JSON string: hexadecimal digits of escapes are large, other letters stay."""
    shown = _ENCODER.encode(text)
    if "\\u00" not in shown:
        return shown
    return _SMALL_HEX.sub(lambda found: f"{found[1]}\\u00{found[2].upper()}", shown)


def json_values(texts: pa.ChunkedArray, kinds: pa.ChunkedArray) -> pa.Array:
    """Return values as JSON by their texts and DuckDB's kinds; raises ValueError for one on no list."""
    import pyarrow as pa

    pairs = zip(texts.to_pylist(), kinds.to_pylist(), strict=True)
    return pa.array(
        ["null" if text is None else _WRITERS.get(kind, str)(text) for text, kind in pairs], pa.string()
    )


def _fraction(text: str) -> str:
    value = float(text)
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    shown = repr(value)
    if value != 0 and not (1e-3 <= abs(value) < 1e7 and _digits(shown) <= _PLAIN_DIGITS):
        raise ValueError("a fraction that Java writes in another way")
    return shown


def _digits(shown: str) -> int:
    return len(shown.strip("-").replace(".", "").strip("0"))


def _instant(text: str) -> str:
    """Return an instant in UTC, cut to milliseconds."""
    parts = _INSTANT.fullmatch(text)
    if parts is None or parts[1] < _EARLIEST:
        raise ValueError("an instant of another calendar")
    return f'"{parts[1]}T{parts[2]}.{(parts[3] or "").ljust(3, "0")[:3]}Z"'


def _day(text: str) -> str:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        raise ValueError("a day beyond the years of four digits")
    return f'"{text}"'


_WRITERS: dict[str, Callable[[str], str]] = {
    "VARCHAR": json_text,
    "DOUBLE": _fraction,
    "TIMESTAMP WITH TIME ZONE": _instant,
    "DATE": _day,
}
