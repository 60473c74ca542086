"""A lake that an earlier version made is opened, goes on, and verifies."""

from __future__ import annotations

import tarfile
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, ManualClock, Settings
from tests.old_lakes.make import HERE, NOW, TRIGGERS, rows_from

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ARCHIVES = sorted(path.name for path in HERE.glob("*.tar.gz"))


def test_there_is_a_lake_of_each_kind() -> None:
    assert "v0_1.tar.gz" in ARCHIVES


@pytest.mark.parametrize("archive", ARCHIVES)
def test_a_lake_of_an_earlier_version_goes_on(archive: str, tmp_path: Path, spark: SparkSession) -> None:
    with tarfile.open(HERE / archive) as packed:
        packed.extractall(tmp_path, filter="data")
    streams = [*TRIGGERS, "dropping"]
    clock = ManualClock(NOW + timedelta(minutes=1))
    with Lake(tmp_path / "lake", spark=spark, settings=Settings(), clock=clock) as lake:
        assert sorted(status.name for status in lake.streams()) == sorted(streams)
        before = {stream: rows_of(lake, stream) for stream in streams}
        lake.sql(rows_from(75, 135))
        lake.sql("INSERT INTO t VALUES ('2025-01-01 00:00:41', 0, 1, 0.5)")
        lake.run()
        assert {status.name: status.last_error for status in lake.streams() if status.last_error} == {}
        for stream in streams:
            assert rows_of(lake, stream) > before[stream], stream
            found = lake.verify(stream)
            assert (found.differing, found.left_out_rows) == ((), 0), stream
        [[count]] = lake.sql("SELECT count(v) FROM root.ln.d1", dialect="iotdb").fetchall()
        assert count == 2


def rows_of(lake: Lake, stream: str) -> int:
    [[count]] = lake.sql(f"SELECT count(*) FROM o_{stream}").fetchall()
    return int(count)
