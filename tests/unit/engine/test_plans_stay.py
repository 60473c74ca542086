"""A tick asks what the ticks before it have asked: its queries are rewritten and planned no more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from lakestream.storage.small.rewritten import rewritten

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = 12


def rows(first: int, tick: int) -> str:
    """Return a row a second of two devices, which no other tick has."""
    times = [START + timedelta(seconds=first + n, microseconds=tick) for n in range(ROWS)]
    return ", ".join(
        f"('{time.isoformat(timespec='microseconds')}', {n % 6}, {n // 3}, 'd{device}', {device})"
        for device in range(2)
        for n, time in enumerate(times)
    )


@pytest.mark.parametrize(
    ("trigger", "late"),
    [
        ("INTERVAL(10s) SLIDING(10s)", True),
        ("SESSION(ts, 3s)", False),
        ("STATE_WINDOW(state)", True),
        ("COUNT_WINDOW(5)", False),
    ],
)
def test_ticks_ask_no_new_queries(tmp_path: Path, trigger: str, late: bool) -> None:
    with Lake(tmp_path / "lake") as lake:
        lake.sql("CREATE STABLE source (ts TIMESTAMP, v DOUBLE, state INT) TAGS (g INT)")
        lake.sql(
            f"CREATE STREAM s {trigger} FROM source PARTITION BY tbname INTO target "
            "AS SELECT _twstart AS start, avg(v) AS mean FROM %%trows"
        )
        asked = []
        for tick in range(6):
            first = 0 if late and tick > 2 else tick * ROWS
            lake.sql(f"INSERT INTO source (ts, v, state, tbname, g) VALUES {rows(first, tick)}")
            before = rewritten.cache_info().misses
            assert not lake.run().failed
            asked.append(rewritten.cache_info().misses - before)
        assert asked[-1] == 0, asked
