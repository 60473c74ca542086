"""Rows that were expected held against those that are there, and what differs, line by line."""

from __future__ import annotations

import difflib
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from lakestream.engine.base.instants import from_micros, parse_instant
from lakestream.errors import LakestreamError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DIGITS = 10
"""Figures by which floating-point numbers are compared: sums depend on their order."""


def difference(
    columns: Sequence[str],
    expected: Sequence[Mapping[str, Any]],
    found: Sequence[Mapping[str, Any]],
    zone: str,
    *,
    in_order: bool = False,
) -> str | None:
    """Return how rows differ, or None: ``-`` is expected, ``+`` is there, ``?`` marks where they differ.

    Only the columns that are expected count. Times are instants, those without a zone in ``zone``; numbers
    count by value, floating-point ones by their first ten figures.
    """
    names = list(dict.fromkeys(name for row in expected for name in row)) or list(columns)
    shown = [[_cells(row, names, zone) for row in rows] for rows in (expected, found)]
    if not in_order:
        shown = [sorted(rows) for rows in shown]
    if shown[0] == shown[1]:
        return None
    widths = [
        max(len(name), *(len(row[place]) for rows in shown for row in rows), 0)
        for place, name in enumerate(names)
    ]
    lines = [[_line(row, widths) for row in rows] for rows in shown]
    head = f"  {_line(names, widths)}"
    return "\n".join([head, *(line.rstrip() for line in difflib.ndiff(lines[0], lines[1]))])


def _cells(row: Mapping[str, Any], names: Sequence[str], zone: str) -> list[str]:
    missing = [name for name in names if name not in row]
    return ["(no such column)" if name in missing else _text(row[name], zone) for name in names]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _text(value: Any, zone: str) -> str:  # noqa: ANN401 - any value of a row
    """Return a value as text: equal ones have one."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float, Decimal)):
        return _number(value)
    if isinstance(value, (datetime, str)):
        return _time(value, zone)
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, default=str)
    return str(value)


def _number(value: float | Decimal) -> str:
    if isinstance(value, int) or not math.isfinite(value):
        return str(value)
    if value == int(value):
        return str(int(value))
    return f"{float(value):.{_DIGITS}g}"


def _time(value: datetime | str, zone: str) -> str:
    """Return a time as it is written in ``zone``; a text that is none is itself."""
    if isinstance(value, str):
        if not value[:4].isdigit() or "-" not in value:
            return value
        try:
            return written_time(from_micros(parse_instant(value, zone)), zone)
        except LakestreamError:
            return value
    return written_time(value.replace(tzinfo=UTC) if value.tzinfo is None else value, zone)


def written_time(value: datetime, zone: str) -> str:
    """Return a time as a case has it: in a zone, without a fraction where it has none."""
    local = value.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    return local.isoformat(sep=" ", timespec="auto")


def plain_value(value: Any, zone: str) -> Any:  # noqa: ANN401 - any value of a row
    """Return a value as a case has it."""
    if isinstance(value, datetime):
        return written_time(value.replace(tzinfo=UTC) if value.tzinfo is None else value, zone)
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return [plain_value(one, zone) for one in value]
    return value


def different_events(expected: Sequence[Any], found: Sequence[Mapping[str, Any]], zone: str) -> str | None:
    """Return how events differ, in their order, by the fields that are expected of each."""
    wanted = [_event(one, one, zone) for one in expected]
    fields = [*expected, *[{}] * max(0, len(found) - len(expected))]
    shown = [_event(one, asked or one, zone) for one, asked in zip(found, fields, strict=False)]
    if wanted == shown:
        return None
    return "\n".join(line.rstrip() for line in difflib.ndiff(wanted, shown))


def _event(event: Mapping[str, Any], fields: Mapping[str, Any], zone: str) -> str:
    return ", ".join(f"{name} {_field(name, event.get(name), zone)}" for name in fields)


def _field(name: str, value: Any, zone: str) -> str:  # noqa: ANN401 - any value of an event
    """Return a field as text: times of events are milliseconds since 1970."""
    if name in {"windowStart", "windowEnd", "eventTime"} and isinstance(value, int):
        return written_time(from_micros(value * 1000), zone)
    return _text(value, zone).lower() if name == "triggerType" else _text(value, zone)
