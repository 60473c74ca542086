"""The windows of an output's newest rows, and which of them fired again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake
from lakestream.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MINUTES = """
CREATE STREAM minutes INTERVAL(1m) SLIDING(1m) FROM t INTO per_minute
AS SELECT _twstart AS minute, count(*) AS n FROM %%trows
"""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake(tmp_path / "lake", settings=Settings()) as made:
        made.sql("CREATE TABLE t (ts TIMESTAMP, x INT)")
        yield made


def insert(lake: Lake, *times: str) -> None:
    lake.insert("t", [{"ts": f"2025-01-01 08:{time}", "x": 1} for time in times])
    lake.run()


def windows(lake: Lake) -> list[tuple[Any, ...] | None]:
    found = lake.newest_results("main.minutes", windows=True)
    assert found.column_names == ["minute", "n", "window"]
    return [
        None if one is None else (f"{one['start']:%M:%S}", f"{one['end']:%M:%S}", one["again"])
        for one in found["window"].to_pylist()
    ]


def test_a_window_that_a_late_row_has_fired_again_is_known(lake: Lake) -> None:
    lake.sql(MINUTES)
    insert(lake, "00:10", "01:10", "02:10")
    assert windows(lake) == [("01:00", "02:00", False), ("00:00", "01:00", False)]
    insert(lake, "00:20")
    assert windows(lake) == [("01:00", "02:00", False), ("00:00", "01:00", True)]
    assert "window" not in lake.newest_results("main.minutes").column_names


def test_a_table_that_does_not_say_its_windows_has_none(lake: Lake) -> None:
    lake.sql("CREATE TABLE per_minute (minute TIMESTAMP, n BIGINT)")
    lake.sql(MINUTES)
    insert(lake, "00:10", "01:10")
    assert windows(lake) == [None]


def test_the_newest_time_of_a_source_is_known(lake: Lake) -> None:
    lake.sql(MINUTES)
    assert lake.details("main.minutes").newest_us is None
    insert(lake, "00:10", "01:10")
    assert lake.details("main.minutes").newest_us == 1_735_718_470_000_000
