"""A table without rows that takes the same rows as another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.storage.writes.edits import create

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestream.storage.tables.table import Table

_MAPPING = "delta.columnMapping.mode"


def create_alike(spark: SparkSession, table: Table, path: str) -> None:
    """Make an empty table with the columns of another one; names that take a mapping of columns have one.

    Raises StorageError TABLE_EXISTS, CREATE_FAILED.
    """
    mode = table.properties.get(_MAPPING, "none")
    if mode == "none":
        create(path, table.fields)
        return
    nothing = spark.read.format("delta").load(table.path).limit(0)
    nothing.write.format("delta").option(_MAPPING, mode).save(path)
