"""The newest rows of a table, by the statistics of its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream.lake import Lake
from lakestream.observation.observe import newest_rows
from lakestream.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 1_000_000


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake with a table of five files of two rows each, not in the order of time."""
    made = Lake(tmp_path / "lake", settings=Settings())
    made.sql("CREATE TABLE t (ts TIMESTAMP, x INT)")
    for first in (4, 0, 8, 2, 6):
        made.insert("t", [{"ts": (first + n) * 1_000, "x": first + n} for n in range(2)])
    return made


def newest(lake: Lake, limit: int, most_bytes: int = MOST_BYTES) -> list[int] | None:
    info = lake._at.named("t")
    rows = newest_rows(lake._at.catalog.handles.latest(info.path), info, limit, most_bytes)
    return None if rows is None else rows["x"].to_pylist()


@pytest.mark.parametrize("limit", [1, 2, 3, 9, 10, 100])
def test_the_newest_rows_come_first(lake: Lake, limit: int) -> None:
    assert newest(lake, limit) == list(range(9, -1, -1))[:limit]


def test_rows_that_were_deleted_are_made_up_for(lake: Lake) -> None:
    lake.sql("DELETE FROM t WHERE x IN (7, 8, 9)")
    assert newest(lake, 2) == [6, 5]


def test_files_that_are_too_large_are_left_to_spark(lake: Lake) -> None:
    assert newest(lake, 1, most_bytes=10) is None


def test_an_empty_table_has_no_newest_rows(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "empty", settings=Settings())
    lake.sql("CREATE TABLE t (ts TIMESTAMP, x INT)")
    assert newest(lake, 5) == []
