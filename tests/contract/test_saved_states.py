"""A stream's state is saved at the cost of the groups that ticks touch, and gone on from by any process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings
from lakestream.storage.delta import read_commits

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KINDS = ("INTERVAL(10s) SLIDING(10s)", "SESSION(ts, 5s)", "COUNT_WINDOW(2)")
GROUPS, TOUCHED = 5_000, 50


def feed(lake: Lake, second: int, groups: int) -> None:
    """Write a row of each of some groups, by whoever writes Delta."""
    rows = {
        "ts": pa.array([(1_735_689_600 + second) * 1_000_000] * groups, pa.timestamp("us", "UTC")),
        "v": pa.array(range(groups), pa.int32()),
        "g": pa.array(range(groups), pa.int32()),
    }
    write_deltalake(f"{lake.root}/main/m", pa.table(rows), mode="append")
    assert not lake.run().failed


def saved_bytes(lake: Lake, uuid: str) -> int:
    path = f"{lake.root}/_lakestream/state/{uuid}"
    version = DeltaTable(path).version()
    return read_commits(path, version - 1, version)[0].add_bytes


@pytest.mark.parametrize("kind", KINDS)
def test_a_tick_saves_the_groups_that_it_touches(tmp_path: Path, spark: SparkSession, kind: str) -> None:
    settings = Settings(checkpoint_ticks=1)
    with Lake(tmp_path / "lake", spark=spark, settings=settings) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT, g INT)")
        lake.sql(
            f"CREATE STREAM s {kind} FROM m PARTITION BY g INTO o "
            "AS SELECT _twstart AS w, sum(v) AS n FROM %%trows"
        )
        feed(lake, 0, GROUPS)
        [uuid] = [folder.name for folder in (tmp_path / "lake" / "_lakestream" / "state").iterdir()]
        whole = saved_bytes(lake, uuid)
        feed(lake, 20, TOUCHED)
        found = [saved_bytes(lake, uuid)]
    with Lake(tmp_path / "lake", spark=spark, settings=settings) as lake:
        for second in (3, 40):  # a late row, and one that another process goes on with
            feed(lake, second, TOUCHED)
            found.append(saved_bytes(lake, uuid))
        assert lake.verify("s").holds
    assert max(found) < whole / 5
