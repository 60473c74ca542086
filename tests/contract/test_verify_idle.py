"""VERIFY of groups that fall idle: the recorded ticks are taken again, whichever way their rows went."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings
from lakestream.clock import ManualClock
from tests.spoilt import sides, spoilt

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

START = datetime(2025, 1, 1, tzinfo=UTC)


@pytest.mark.long
def test_silences_are_taken_again_and_each_defect_seen(spark: SparkSession, tmp_path: Path) -> None:
    clock, settings = ManualClock(START), Settings(transport="spark", notify_hosts=("localhost",))
    lake = Lake(tmp_path, spark=spark, clock=clock, settings=settings)
    idle = "STREAM_OPTIONS(IDLE_TIMEOUT(5s)"
    lake.sql("CREATE STABLE m (ts TIMESTAMP, v INT) TAGS (loc INT)")
    lake.sql(
        f"CREATE STREAM s COUNT_WINDOW(2) FROM m PARTITION BY tbname {idle} | EVENT_TYPE(IDLE | RESUME)) "
        "INTO o AS SELECT CAST(_tidleend / 1000000 AS TIMESTAMP) AS ws, count(*) AS n, avg(v) AS a "
        "FROM %%tbname"
    )
    lake.sql(
        f"CREATE STREAM told COUNT_WINDOW(2) FROM m {idle}) NOTIFY('ws://localhost:1/x') ON (IDLE | RESUME)"
    )
    for number, groups in enumerate((("a", "b"), (), ("b",), ("a",))):
        rows = [{"tbname": g, "loc": 1, "ts": START.isoformat(), "v": number} for g in groups]
        if rows:
            lake.insert("m", rows)
        lake.run()
        clock.advance(timedelta(seconds=6))
    lake.run()
    output = str(tmp_path / "main" / "o")
    found = pa.table(DeltaTable(output).to_pyarrow_table())
    sound, events = lake.verify("s"), lake.verify("told")
    assert (sound.holds, sound.equal_rows, sound.found_rows, found.num_rows) == (True, 6, 6, 6)
    assert (events.holds, events.equal_rows, events.expected_rows) == (True, 3, 3)
    write_deltalake(output, spoilt(found), mode="overwrite")
    seen = lake.verify("s")
    assert sides(seen) == {(False, True): 2, (True, False): 1, (True, True): 1}
    lake.close()
