"""What a stream reads when another process takes it up."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from lakestream.engine.windows.grid import updating
from lakestream.engine.windows.totals import spans_of

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECOND_US = 1_000_000


@pytest.mark.parametrize("trigger", ["INTERVAL(10s) SLIDING(10s)", "INTERVAL(20s) SLIDING(5s)"])
def test_only_the_rows_of_open_windows_are_read_again(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, trigger: str
) -> None:
    spans: list[tuple[int, int]] = []

    def told(*ends: pa.ChunkedArray) -> list[tuple[int, int]]:
        found = spans_of(*ends)
        spans.extend(found)
        return found

    monkeypatch.setattr(updating, "spans_of", told)
    with Lake(tmp_path / "lake", spark=spark) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        lake.sql(f"CREATE STREAM s {trigger} FROM m INTO o AS SELECT _twstart AS w, sum(v) AS n FROM %%trows")
        lake.insert("m", [{"ts": f"2025-01-01 00:{minute:02}:03", "v": 1} for minute in range(50)])
        lake.run()
    spans.clear()
    shutil.rmtree(tmp_path / "lake" / "_lakestream" / "opened")  # as earlier versions left a lake
    with Lake(tmp_path / "lake", spark=spark) as lake:
        lake.insert("m", [{"ts": "2025-01-01 01:00:00", "v": 1}])
        lake.run()
    assert spans
    assert all(high - low <= 20 * SECOND_US for low, high in spans)
