"""Relations under names that SQL can say: a view is handed on by whoever makes it to whoever reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.storage.rows.reading import arrow_frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class View:
    """A relation of a session; as text it is its name, as queries say it."""

    name: str
    frame: DataFrame

    def __str__(self) -> str:
        return self.name

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return self.frame.columns


def view_of(frame: DataFrame, name: str) -> View:
    """Register a DataFrame under a name, in the place of what had it."""
    frame.createOrReplaceTempView(name)
    return View(name, frame)


def view_of_sql(spark: SparkSession, sql: str, name: str) -> View:
    """Register what a query gives; the views that it names are those of now."""
    return view_of(spark.sql(sql), name)


def view_of_rows(spark: SparkSession, rows: pa.Table, name: str) -> View:
    """Register Arrow rows, in one partition: no query over a few of them shuffles."""
    return view_of(arrow_frame(spark, rows).coalesce(1), name)


def give_back() -> None:
    """Give memory back that Arrow keeps for rows to come: many have gone."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
