"""VERIFY tells a wrong row from one whose other tables have changed since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalake import DeltaTable

from lakestream import Lake, Settings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_a_missing_row_is_found_where_another_table_is_read(tmp_path: Path, spark: SparkSession) -> None:
    with Lake(tmp_path / "lake", spark=spark, settings=Settings()) as lake:
        lake.sql("CREATE TABLE nt (ts TIMESTAMP, v INT); CREATE TABLE ref (ts TIMESTAMP, p INT)")
        lake.sql("INSERT INTO ref VALUES ('2025-01-01 00:00:01', 5)")
        lake.sql(
            "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM nt INTO o AS SELECT _twstart AS ws, "
            "max(p) AS p FROM ref WHERE ts >= _twstart AND ts < _twend"
        )
        lake.sql("INSERT INTO nt VALUES ('2025-01-01 00:00:02', 1) ('2025-01-01 00:00:21', 1)")
        lake.run()
        assert lake.verify("s").holds
        DeltaTable(str(tmp_path / "lake" / "main" / "o")).delete("p = 5")
        found = lake.verify("s")
        assert (found.equal_rows, found.differing_rows, found.left_out_rows) == (1, 1, 0)
        lake.sql("INSERT INTO ref VALUES ('2025-01-01 00:00:11', 6)")
        changed = lake.verify("s")
        assert (changed.differing_rows, changed.left_out_rows) == (0, 2)
