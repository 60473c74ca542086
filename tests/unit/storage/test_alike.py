"""An empty table takes the rows of the one that it was made after, whatever its columns are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream.storage.delta import create_alike
from lakestream.storage.tables.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("name", "mode"), [("a", "none"), ("avg(v), of it", "name")])
def test_it_takes_the_rows_of_the_other_one(
    tmp_path: Path, spark: SparkSession, name: str, mode: str
) -> None:
    rows = spark.createDataFrame([(1, 2.5)], f"n bigint, `{name}` double")
    there, made = str(tmp_path / "there"), str(tmp_path / "made")
    rows.write.format("delta").option("delta.columnMapping.mode", mode).save(there)
    create_alike(spark, Table.open(there), made)
    assert spark.read.format("delta").load(made).count() == 0
    rows.write.format("delta").mode("append").save(made)
    found = spark.read.format("delta").load(made)
    assert (found.columns, found.collect()) == (rows.columns, rows.collect())
