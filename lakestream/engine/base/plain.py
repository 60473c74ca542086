"""Values as JSON has them, for the command line and the HTTP API."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time

_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def plain(value: object) -> object:
    """Return the value as JSON has it.

    Times become ISO 8601 text, decimals text (exact), bytes hexadecimal text, and the floats JSON
    lacks the texts NaN, Infinity and -Infinity.
    """
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    return _scalar(value)


def _scalar(value: object) -> bool | int | float | str | None:
    if isinstance(value, float):
        return value if math.isfinite(value) else _NON_FINITE[str(value)]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    return value.hex() if isinstance(value, (bytes, bytearray)) else str(value)
