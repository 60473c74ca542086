"""Structured Streaming: the query that computes what lakestream's stream does.

``python -m tests.benchmarks.streaming SOURCE FOLDER [VERSION]`` is a program that runs it until it is
ended, from the source's beginning or from a version on; the output is FOLDER/target.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def session() -> SparkSession:
    """Return a session as Delta's documentation starts one, with two cores and as many shuffle partitions."""
    from pyspark.sql import SparkSession

    from lakestream.storage.jars import find_jars

    configuration: dict[str, bool | float | int | str | None] = {
        "spark.driver.memory": "2g",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, find_jars(None))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    session = SparkSession.builder.master("local[2]").config(map=configuration).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def start_query(
    spark: SparkSession,
    source: Path,
    folder: Path,
    window: tuple[str, ...],
    trigger: dict[str, Any],
    version: int | None = None,
    *,
    sessions: bool = False,
) -> StreamingQuery:
    """Start the query: windows of a length and, if overlapping, a step; rows appear when a window closes.

    ``sessions``: the one length is the gap that ends a session.
    """
    from pyspark.sql import functions as f

    reader = spark.readStream.format("delta")
    if version is not None:
        reader = reader.option("startingVersion", version)
    rows = reader.load(str(source)).withWatermark("ts", "0 seconds")
    windows = f.session_window("ts", *window).alias("window") if sessions else f.window("ts", *window)
    figures = rows.groupBy(windows, "tbname").agg(
        f.avg("v").alias("mean"), f.max("v").alias("top"), f.count("*").alias("n")
    )
    return (
        figures.selectExpr("window.start AS start", "tbname", "mean", "top", "n")
        .writeStream.format("delta")
        .outputMode("append")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**trigger)
        .start(str(folder / "target"))
    )


def main(source: str, folder: str, version: str | None = None) -> None:
    """Run the query of the small ticks: batches without a pause between them."""
    # An exit by Python's own way, so that the session's folder is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    starting = None if version is None else int(version)
    every = {"processingTime": "0 seconds"}
    query = start_query(session(), Path(source), Path(folder), ("10 seconds",), every, starting)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
