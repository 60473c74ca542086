"""VERIFY tells a wrong row from one whose other tables have changed since, and holds nobody up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from lakestream import Lake, Settings
from lakestream.observation.verify import Verification, Verifier

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


@pytest.mark.parametrize("options", ["", "STREAM_OPTIONS(EXACT)", "STREAM_OPTIONS(DELETE_RECALC)"])
def test_ticks_go_on_meanwhile_and_are_not_looked_at(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    compare = Verifier.run

    def run(verifier: Verifier, *bounds: int | None) -> Verification:
        with Lake(tmp_path / "lake", spark=spark, settings=Settings(lock_wait_seconds=0)) as other:
            other.sql("INSERT INTO nt VALUES ('2025-01-01 00:00:03', 9) ('2025-01-01 00:00:41', 1)")
            DeltaTable(str(tmp_path / "lake" / "main" / "nt")).delete("v = 2")
            other.run()
        return compare(verifier, *bounds)

    with Lake(tmp_path / "lake", spark=spark, settings=Settings()) as lake:
        lake.sql("CREATE TABLE nt (ts TIMESTAMP, v INT)")
        lake.sql(
            f"CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM nt {options} INTO o AS "
            "SELECT _twstart AS ws, max(v) AS v FROM %%trows"
        )
        lake.sql("INSERT INTO nt VALUES ('2025-01-01 00:00:02', 1) ('2025-01-01 00:00:12', 2)")
        lake.sql("INSERT INTO nt VALUES ('2025-01-01 00:00:21', 3)")
        lake.run()
        with monkeypatch.context() as patched:
            patched.setattr(Verifier, "run", run)
            before = lake.verify("s")
        after = lake.verify("s")
    assert (before.holds, before.equal_rows) == (True, 2)
    assert (after.holds, after.equal_rows > 2) == (True, True)
