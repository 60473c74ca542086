"""A calculation that fails for some windows: which ones, and the rest without them.

Spark says of a query only that it failed. So the windows are halved until those at fault stand alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lakestream.compute.windows.calculation import ROWS, WINDOWS
from lakestream.compute.windows.evaluate import Way
from lakestream.engine.base.refused import spark_errors
from lakestream.storage.rows.reading import arrow_frame
from lakestream.storage.rows.views import view_of
from lakestream.storage.writes.keys import numbered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.streams.stream import Stream

MAX_JOBS = 64
"""Queries that are spent on finding the windows at fault; beyond that the tick fails as a whole."""

_ALL_ROWS, _ALL_WINDOWS = "ls_all_rows", "ls_all_windows"


@dataclass
class Isolation:
    """Finds the registered windows whose calculation fails; ``failure`` is what Spark said first.

    ``evaluate`` computes the registered windows of a stream.
    """

    spark: SparkSession
    stream: Stream
    evaluate: Callable[[Stream], object]
    failure: Exception
    jobs: int = 0
    failed: list[tuple[dict[str, Any], Exception]] = field(default_factory=list)

    @property
    def evaluated(self) -> Stream:
        """The stream, evaluated in a way that goes by the registered rows."""
        return replace(self.stream, way=Way.BY_ROW) if self.stream.way is Way.RANGED else self.stream

    def run(self) -> list[tuple[dict[str, Any], Exception]]:
        """Return the windows at fault, each with its failure, and register the others in place of all.

        Raises the first failure when there are too many of them to be found.
        """
        view_of(self.spark.table(ROWS), _ALL_ROWS)
        view_of(self.spark.table(WINDOWS), _ALL_WINDOWS)
        windows = self.spark.sql(f"SELECT _ls_gid, _ls_k, _ls_low, _ls_high FROM {WINDOWS}").toArrow()
        self._halve(windows, known=self.failure)
        failed = [window for window, _ in self.failed]
        self._register(_without(windows, failed))
        return self.failed

    def _halve(self, windows: pa.Table, known: Exception | None = None) -> None:
        failure = known or self._failure(windows)
        if failure is None:
            return
        if len(windows) == 1:
            self.failed.append((windows.to_pylist()[0], failure))
            return
        middle = len(windows) // 2
        self._halve(windows.slice(0, middle))
        self._halve(windows.slice(middle))

    def _failure(self, windows: pa.Table) -> Exception | None:
        self.jobs += 1
        if self.jobs > MAX_JOBS:
            raise self.failure
        self._register(windows)
        try:
            self.evaluate(self.evaluated)
        except spark_errors() as error:
            return error
        return None

    def _register(self, windows: pa.Table) -> None:
        """Register only these windows and their rows."""
        chosen = arrow_frame(self.spark, windows.select(["_ls_gid", "_ls_k"]))
        for view, whole in ((ROWS, _ALL_ROWS), (WINDOWS, _ALL_WINDOWS)):
            view_of(self.spark.table(whole).join(chosen, ["_ls_gid", "_ls_k"], "left_semi"), view)


def _without(windows: pa.Table, failed: Sequence[dict[str, Any]]) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    there, gone = numbered(windows, pa.Table.from_pylist([*failed], schema=windows.schema))
    return windows.filter(pa.array(~np.isin(there, gone)))
