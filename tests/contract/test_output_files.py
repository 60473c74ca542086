"""What a late row costs: of an output of several files, the one that holds its window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake
from lakestream.engine.reading import transport
from lakestream.storage.delta import read_commits
from lakestream.storage.writes.upkeep import FILE_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 400_000
START_US = 1_735_689_600_000_000


def feed(lake: Lake, seconds: np.ndarray) -> None:
    rows = {
        "ts": pa.array(START_US + seconds * 1_000_000, pa.timestamp("us", "UTC")),
        "v": np.random.default_rng(len(seconds)).random(len(seconds)),
    }
    write_deltalake(f"{lake.root}/main/m", pa.table(rows), mode="append")
    assert not lake.run().failed


@pytest.mark.parametrize("by_spark", [False, True])
def test_a_late_row_writes_one_small_file_anew(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, *, by_spark: bool
) -> None:
    """Whoever wrote the output, in whichever order the rows of the source came."""
    if by_spark:
        for most in ("MAX_ARROW_CELLS", "MAX_HANDED_CELLS"):
            monkeypatch.setattr(transport, most, 1_000)
    with Lake(tmp_path / "lake", spark=spark) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v DOUBLE)")
        lake.sql(
            "CREATE STREAM s INTERVAL(1s) SLIDING(1s) FROM m STREAM_OPTIONS(FILL_HISTORY) INTO o "
            "AS SELECT _twstart AS w, sum(v) AS n FROM %%trows"
        )
        feed(lake, np.random.default_rng(1).permutation(ROWS))
        output = f"{lake.root}/main/o"
        sizes = pa.table(DeltaTable(output).get_add_actions())["size_bytes"].to_pylist()
        assert sum(sizes) > 2 * FILE_BYTES
        assert max(sizes) < 2 * FILE_BYTES
        for second in (5, ROWS // 2):
            feed(lake, np.array([second]))
            version = DeltaTable(output).version()
            [commit] = read_commits(output, version - 1, version)
            assert len(commit.removed) == 1
            assert commit.add_bytes < 2 * FILE_BYTES
        assert DeltaTable(output).count() == ROWS - 1
