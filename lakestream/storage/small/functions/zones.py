"""Local times of zones as Spark's from_utc_timestamp() and to_utc_timestamp() have them, by Python's zones.

From 1973 on Python and Java have the same offsets for a zone, of whole minutes that change at whole minutes;
DuckDB's own table of zones is another one.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE_US = 60_000_000
_FIRST, _LAST = (
    (datetime(year, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1) for year in (1973, 2100)
)
"""Times (µs since 1970) in which the offsets are known to be those of Spark."""


def is_region(name: str) -> bool:
    """Return whether a name is a zone's of a region, which means the same everywhere; ``EST`` does not."""
    try:
        return "/" in name and ZoneInfo(name) is not None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


def local_times(micros: pa.ChunkedArray, zones: pa.ChunkedArray) -> pa.Array:
    """Return instants (µs since 1970 UTC) as the local times of a zone, the same in each row.

    Raises ValueError for times whose offset is not known to be Spark's.
    """
    return _moved(micros, zones, lambda minute, zone: (_EPOCH + minute).astimezone(zone), 1)


def instants(micros: pa.ChunkedArray, zones: pa.ChunkedArray) -> pa.Array:
    """Return local times of a zone as instants; one that exists twice is the earlier one.

    One that does not exist is as much later. Raises ValueError as :func:`local_times`.
    """
    return _moved(micros, zones, lambda minute, zone: (_EPOCH + minute).replace(tzinfo=zone), -1)


def _moved(
    micros: pa.ChunkedArray, zones: pa.ChunkedArray, at: Callable[[timedelta, ZoneInfo], datetime], sign: int
) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    missing = micros.is_null().to_numpy(zero_copy_only=False)
    if missing.all():
        return pa.nulls(len(micros), pa.int64())
    values = micros.fill_null(_FIRST).to_numpy()
    if values.min() < _FIRST or values.max() >= _LAST:
        raise ValueError("a local time of another age")
    zone = ZoneInfo(zones[0].as_py())
    minutes, places = np.unique(values // _MINUTE_US, return_inverse=True)
    offsets = [at(timedelta(minutes=minute), zone).utcoffset() for minute in minutes.tolist()]
    moved = np.array([offset // timedelta(microseconds=1) for offset in offsets if offset is not None])
    return pa.array(values + sign * moved[places], pa.int64(), mask=missing)
