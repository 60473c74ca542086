"""The job of a good engineer in Spark: what is new, aggregated by window, and merged into the output.

The output holds what a merge needs: the sum beside the mean, and windows that are still open. It is Delta's
``MERGE INTO`` with the source's version as its transaction, so that nothing is added twice. Late rows are
merged as all others are.

``python -m tests.benchmarks.rivals.merge_job SOURCE FOLDER SECONDS`` keeps windows of a length current until
it is ended.
"""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.rivals.deltalog import Following, Log
from tests.benchmarks.streaming import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_APPLICATION = "merge_job"
_TRANSACTION = "spark.databricks.delta.write.txn"
_OUTPUT = "start TIMESTAMP, tbname STRING, mean DOUBLE, top DOUBLE, n BIGINT, total DOUBLE"


@dataclass
class Job(Following):
    """Keeps windows of a source, in seconds, in an output."""

    spark: SparkSession
    source: Path
    folder: Path
    seconds: int
    _next: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Go on where the output's log says that the last run ended."""
        self._log = Log(self.source)
        self.spark.conf.set("spark.databricks.delta.snapshotPartitions", 2)  # by default there are 50
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS delta.`{self.target}` ({_OUTPUT}) USING delta")
        self.spark.conf.set(f"{_TRANSACTION}AppId", _APPLICATION)
        self._next = self._taken() + 1

    def run(self) -> int:
        """Take the commits that are there and return which one is needed next."""
        files, following = self._log.added(self._next)
        if files:
            self.spark.conf.set(f"{_TRANSACTION}Version", following - 1)
            self._merge(self._windows(files))
        self._next = following
        return following

    def _taken(self) -> int:
        from deltalake import DeltaTable

        taken = DeltaTable(self.target).transaction_version(_APPLICATION)
        return -1 if taken is None else taken

    def _windows(self, files: list[str]) -> DataFrame:
        from pyspark.sql import functions as f

        window = f.window("ts", f"{self.seconds} seconds")["start"].alias("start")
        figures = (f.max("v").alias("top"), f.count("*").alias("n"), f.sum("v").alias("total"))
        return self.spark.read.parquet(*files).groupBy(window, "tbname").agg(*figures)

    def _merge(self, windows: DataFrame) -> None:
        """Add the windows to the output; those that touch few of its files read no others."""
        windows.persist().createOrReplaceTempView("new")
        [span] = self.spark.sql("SELECT unix_micros(min(start)), unix_micros(max(start)) FROM new").collect()
        self.spark.sql(
            f"MERGE INTO delta.`{self.target}` AS old USING new"
            f" ON old.start BETWEEN timestamp_micros({span[0]}) AND timestamp_micros({span[1]})"
            "  AND old.start = new.start AND old.tbname = new.tbname"
            " WHEN MATCHED THEN UPDATE SET mean = (old.total + new.total) / (old.n + new.n),"
            "  top = greatest(old.top, new.top), n = old.n + new.n, total = old.total + new.total"
            " WHEN NOT MATCHED THEN INSERT (start, tbname, mean, top, n, total)"
            "  VALUES (start, tbname, total / n, top, n, total)"
        )
        windows.unpersist()


def main(source: str, folder: str, seconds: str) -> None:
    """Keep the windows current until the program is ended."""
    # An exit by Python's own way, so that the session's folder is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    Job(session(), Path(source), Path(folder), int(seconds)).watch()


if __name__ == "__main__":
    main(*sys.argv[1:])
