"""Values as JSON has them, for the command line and the HTTP API."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def plain(value: object) -> object:
    """Return the value as JSON has it.

    Times become ISO 8601 text, decimals text (exact), bytes hexadecimal text, and the floats JSON
    lacks the texts NaN, Infinity and -Infinity. A field of a dataclass that counts microseconds since 1970
    UTC (``created_us``, ``at_us``) is the instant (``created_at``, ``at``).
    """
    if is_dataclass(value):
        return dict(_field(f.name, getattr(value, f.name)) for f in fields(value))
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    return _scalar(value)


def _field(name: str, value: object) -> tuple[str, object]:
    instant = name.removesuffix("_us")
    if instant == name:
        return name, plain(value)
    return (
        instant if instant == "at" else f"{instant}_at",
        (_EPOCH + timedelta(microseconds=value)).isoformat() if isinstance(value, int) else None,
    )


def _scalar(value: object) -> bool | int | float | str | None:
    if isinstance(value, float):
        return value if math.isfinite(value) else _NON_FINITE[str(value)]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    return value.hex() if isinstance(value, (bytes, bytearray)) else str(value)
