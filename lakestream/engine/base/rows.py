"""Rows that are here as Arrow, or in Spark: one face for both."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from lakestream.language.quoting import quoted
from lakestream.storage.rows.reading import arrow_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class Rows:
    """A relation that was computed, or can be: ``here`` are its rows as Arrow, None while in Spark."""

    def __init__(
        self, spark: SparkSession, here: pa.Table | None, make: Callable[[], DataFrame] | None = None
    ) -> None:
        self._spark = spark
        self._make = make
        self.here = here

    @classmethod
    def of(cls, frame: DataFrame) -> Rows:
        """Return the rows of a DataFrame."""
        return cls(frame.sparkSession, None, lambda: frame)

    @cached_property
    def frame(self) -> DataFrame:
        """The rows as a DataFrame; made of Arrow rows only when somebody asks for it."""
        if self._make is not None:
            return self._make()
        return arrow_frame(self._spark, self.here)

    def count(self) -> int:
        """Return how many rows there are; Spark computes them for it."""
        return int(self.frame.count() if self.here is None else self.here.num_rows)

    def select(self, names: Sequence[str]) -> Rows:
        """Return some columns."""
        if self.here is not None:
            return Rows(self._spark, self.here.select(list(names)))
        return Rows.of(self.frame.selectExpr(*map(quoted, names)))

    def to_arrow(self) -> pa.Table:
        """Return the rows as Arrow; Spark computes them for it."""
        return self.frame.toArrow() if self.here is None else self.here
