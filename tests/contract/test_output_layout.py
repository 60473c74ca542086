"""Outputs that are partitioned, clustered, or lie outside the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from lakestream import Lake
from lakestream.errors import LakestreamError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OF_SITES = (
    "INTERVAL(10s) SLIDING(10s) FROM t PARTITION BY site STREAM_OPTIONS(EXACT | IGNORE_NODATA_TRIGGER) INTO"
)
CALCULATED = "AS SELECT _twstart AS at, sum(v) AS total FROM %%trows"
LAYOUTS = {
    "flat": "",
    "by_site": "PARTITIONED BY (Site)",
    "by_total": "PARTITIONED BY (total, site)",
    "clustered": "CLUSTER BY (site, at)",
    "outside": "LOCATION '{}/outside'",
}


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    with Lake(tmp_path / "lake", spark=spark) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT, site VARCHAR(10))")
        yield lake


def insert(lake: Lake, *rows: tuple[int, str | None, int]) -> None:
    lake.insert("t", [{"ts": f"2025-01-01 00:00:{at:02}", "site": site, "v": v} for at, site, v in rows])
    assert not lake.run().failed


def test_an_output_lies_as_the_statement_says(lake: Lake, tmp_path: Path, spark: SparkSession) -> None:
    for name, layout in LAYOUTS.items():
        lake.sql(f"CREATE STREAM {name} {OF_SITES} o_{name} {layout.format(tmp_path)} {CALCULATED}")
    insert(lake, (1, "a", 1), (2, "b'c/d", 2), (3, None, 4), (12, "a", 8), (13, "b'c/d", 16), (14, None, 32))
    insert(lake, (4, "a", 64), (25, "a", 128), (26, "b'c/d", 256), (27, None, 512))
    lake.sql("DELETE FROM t WHERE v = 8")
    lake.sql("UPDATE t SET v = 3 WHERE v = 2")
    assert not lake.run().failed

    expected = [(0, None, 4), (0, "a", 65), (0, "b'c/d", 3), (10, None, 32), (10, "b'c/d", 16)]
    for name in LAYOUTS:
        rows = lake.sql(f"SELECT second(at) AS s, site, total FROM o_{name} ORDER BY s, site").fetchall()
        assert rows == expected, name
        assert lake.verify(name).holds

    folder = tmp_path / "lake" / "main"
    assert DeltaTable(str(folder / "o_by_site")).metadata().partition_columns == ["site"]
    assert DeltaTable(str(folder / "o_by_total")).metadata().partition_columns == ["total", "site"]
    assert not (folder / "o_outside").exists()
    assert len(DeltaTable(str(tmp_path / "outside")).to_pyarrow_table()) == len(expected)
    path = folder / "o_clustered"
    detail = spark.newSession()
    detail.conf.set("spark.sql.runSQLOnFiles", "true")
    (found,) = detail.sql(f"DESCRIBE DETAIL delta.`{path}`").select("clusteringColumns").collect()
    assert found[0] == ["site", "at"]


@pytest.mark.parametrize(
    ("layout", "code"),
    [
        ("PARTITIONED BY (nosuch)", "COLUMN_NOT_FOUND"),
        ("CLUSTER BY (v)", "COLUMN_NOT_FOUND"),
        ("LOCATION '{}/lake/main/elsewhere'", "LOCATION_IN_LAKE"),
        ("LOCATION '{}/taken'", "LOCATION_TAKEN"),
        ("LOCATION '{}/there'", "TABLE_EXISTS"),
        ("CLUSTER BY (window)", "COLUMN_NOT_FOUND"),
    ],
)
def test_a_refused_layout_leaves_nothing(lake: Lake, tmp_path: Path, layout: str, code: str) -> None:
    lake.sql(f"CREATE STREAM first {OF_SITES} o_first LOCATION '{tmp_path}/taken' {CALCULATED}")
    DeltaTable.create(str(tmp_path / "there"), DeltaTable(str(tmp_path / "taken")).schema())
    with pytest.raises(LakestreamError) as refused:
        lake.sql(f"CREATE STREAM s {OF_SITES} o {layout.format(tmp_path)} {CALCULATED}")
    assert refused.value.code == code
    lake.sql(f"CREATE STREAM s {OF_SITES} o {CALCULATED}")


def test_a_table_that_is_there_lies_as_it_does(lake: Lake) -> None:
    lake.sql("CREATE TABLE o (at TIMESTAMP, total BIGINT, site VARCHAR(10))")
    with pytest.raises(LakestreamError, match="lies as it does") as refused:
        lake.sql(f"CREATE STREAM s {OF_SITES} o PARTITIONED BY (site) {CALCULATED}")
    assert refused.value.code == "OUTPUT_LAYOUT"
