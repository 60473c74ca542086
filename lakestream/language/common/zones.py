"""Time zones by name: those of the IANA database, and offsets such as ``+08:00``."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")
_MAX_OFFSET = timedelta(hours=18)


def zone_of(name: str) -> tzinfo:
    """Return the time zone of a name: IANA, or an offset from UTC of at most 18 hours.

    Raises ValueError for a name that is none.
    """
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        hours, minutes = int(offset[2]), int(offset[3])
        moved = timedelta(hours=hours, minutes=minutes)
        if minutes > 59 or moved > _MAX_OFFSET:
            raise ValueError(name)
        return timezone(moved if offset[1] == "+" else -moved)
    if name == "Z":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, OSError) as error:
        raise ValueError(name) from error


def zone_name(name: str) -> str:
    """Return how Spark takes the name of a zone: offsets as ``+08:00``. Raises ValueError for none."""
    zone = zone_of(name)
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        return f"{offset[1]}{offset[2]}:{offset[3]}"
    return zone.key if isinstance(zone, ZoneInfo) else "UTC"
