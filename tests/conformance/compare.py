"""Are these the expected rows? By position, timestamps as instants, numbers by value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

Rows = Sequence[Sequence[Any]]


def difference(
    got: Rows, expected: Rows, *, tolerance: float | None = None, any_order: bool = False
) -> str | None:
    """Return what differs, as text, or None when the rows are the expected ones."""
    if any_order:
        equal = same_multiset(got, expected, tolerance)
    else:
        equal = len(got) == len(expected) and all(
            same_row(g, e, tolerance) for g, e in zip(got, expected, strict=True)
        )
    if equal:
        return None
    return f"expected ({len(expected)} rows):\n{listed(expected)}\ngot ({len(got)} rows):\n{listed(got)}"


def same_multiset(got: Rows, expected: Rows, tolerance: float | None) -> bool:
    """Pair every expected row with a row of its own, in any order."""
    left = list(got)
    for row in expected:
        match = next((i for i, g in enumerate(left) if same_row(g, row, tolerance)), None)
        if match is None:
            return False
        del left[match]
    return not left


def same_row(got: Sequence[Any], expected: Sequence[Any], tolerance: float | None) -> bool:
    """Compare two rows by position."""
    return len(got) == len(expected) and all(
        same_value(g, e, tolerance) for g, e in zip(got, expected, strict=True)
    )


def same_value(got: Any, expected: Any, tolerance: float | None) -> bool:
    """Compare two values; a truth value equals only a truth value, null only null."""
    if got is None or expected is None or isinstance(got, bool) or isinstance(expected, bool):
        return got is expected
    if is_number(got) and is_number(expected):
        return same_number(got, expected, tolerance)
    if isinstance(got, (datetime, date)) or isinstance(expected, (datetime, date)):
        return as_instant(got) is not None and as_instant(got) == as_instant(expected)
    if isinstance(got, Sequence) and isinstance(expected, list) and not isinstance(got, str):
        return same_row(got, expected, tolerance)
    return bool(got == expected)


def is_number(value: Any) -> bool:
    """Say whether a value is compared as a number."""
    return isinstance(value, (int, float, Decimal))


def same_number(got: Any, expected: Any, tolerance: float | None) -> bool:
    """Compare by value: exactly, floats to a relative 1e-9, or within the tolerance the case names."""
    if tolerance is not None:
        return abs(float(got) - float(expected)) <= tolerance
    if isinstance(got, float) or isinstance(expected, float):
        return math.isclose(float(got), float(expected), rel_tol=1e-9, abs_tol=1e-12)
    return bool(got == expected)


def as_instant(value: Any) -> datetime | None:
    """Return a value as an instant: a time without a zone is UTC, a date its midnight."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return datetime(value.year, value.month, value.day, tzinfo=UTC) if isinstance(value, date) else None


def listed(rows: Rows) -> str:
    """Return rows one per line, times in short."""
    return "\n".join("  " + ", ".join(shown(value) for value in row) for row in rows) or "  (none)"


def shown(value: Any) -> str:
    """Return a value as the case files write it."""
    if isinstance(value, datetime):
        at = as_instant(value)
        assert at is not None
        return at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return "null" if value is None else str(value)


def different_events(got: Sequence[dict[str, Any]], expected: Sequence[dict[str, Any]]) -> str | None:
    """Return what differs, as text, or None: the events in order, of each the fields that are expected."""
    same = len(got) == len(expected) and all(same_fields(g, e) for g, e in zip(got, expected, strict=True))
    if same:
        return None
    lines = [f"expected ({len(expected)} events):", *map(str, expected), f"got ({len(got)}):", *map(str, got)]
    return "\n".join(lines)


def same_fields(got: Any, expected: Any, name: str = "") -> bool:
    """Compare a value of an event: of objects the fields that are expected, times as instants."""
    if isinstance(expected, dict):
        known = isinstance(got, dict)
        return known and all(
            field in got and same_fields(got[field], value, field) for field, value in expected.items()
        )
    if name == "triggerType":
        return str(got).lower() == str(expected).lower()
    if isinstance(expected, str) and isinstance(got, int):
        return as_instant(datetime.fromtimestamp(got / 1000, UTC)) == as_instant(expected)
    return same_value(got, expected, None)
