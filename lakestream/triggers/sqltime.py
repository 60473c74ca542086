"""Event time as SQL over BIGINT microseconds since 1970 UTC: the arithmetic that the grids share.

Only integers made here and names of columns made by lakestream enter these texts, never input.
"""

from __future__ import annotations

DAY = 86_400_000_000
"""Microseconds of a day without a change of clocks."""


def floor_div(x: str, by: int | str) -> str:
    """Return SQL for ``floor(x / by)`` in exact integers (``div`` alone truncates towards zero)."""
    divisor = by if isinstance(by, str) else f"{by}L"
    return f"(({x}) - pmod(({x}), {divisor})) div {divisor}"


def to_local(x: str, zone: str) -> str:
    """Return SQL for the wall-clock microseconds in ``zone`` at instant ``x``."""
    if zone == "UTC":
        return f"({x})"
    return f"unix_micros(from_utc_timestamp(timestamp_micros({x}), '{zone}'))"


def to_instant(x: str, zone: str) -> str:
    """Return SQL for the instant of wall-clock microseconds ``x`` in ``zone``.

    A wall-clock time that does not exist (clocks go forward) is the instant as much later; one that
    exists twice is the earlier one.
    """
    if zone == "UTC":
        return f"({x})"
    return f"unix_micros(to_utc_timestamp(timestamp_micros({x}), '{zone}'))"


def month_number(x: str) -> str:
    """Return SQL for the months since January 1970 of wall-clock microseconds ``x``."""
    return f"(CAST(year(timestamp_micros({x})) AS BIGINT) * 12 + month(timestamp_micros({x})) - 23641)"


def month_start(n: str) -> str:
    """Return SQL for the wall-clock microseconds of the start of month number ``n``."""
    return f"(unix_date(add_months(DATE '1970-01-01', CAST({n} AS INT))) * {DAY}L)"


def midnight(x: str, zone: str) -> str:
    """Return SQL for the wall-clock microseconds of the midnight before instant ``x``."""
    local = to_local(x, zone)
    return f"({local} - pmod({local}, {DAY}L))"
