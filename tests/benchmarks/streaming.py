"""Structured Streaming: the query that computes what lakestream's stream does.

``python -m tests.benchmarks.streaming SOURCE FOLDER [VERSION | URL]`` is a program that runs it until it is
ended, from the source's beginning or from a version on; the output is FOLDER/target. With a websocket's url
the windows that close are written and then sent there, by ``foreachBatch``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def session() -> SparkSession:
    """Return a session as Delta's documentation starts one, with two cores and as many shuffle partitions."""
    from pyspark.sql import SparkSession

    from lakestream.storage.sessions.jars import find_jars

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
    url: str | None = None,
) -> StreamingQuery:
    """Start the query: windows of a length and, if overlapping, a step; rows appear when a window closes.

    ``sessions``: the one length is the gap that ends a session. ``url``: who is told of the windows.
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
    writer = (
        figures.selectExpr("window.start AS start", "tbname", "mean", "top", "n")
        .writeStream.outputMode("append")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**trigger)
    )
    target = str(folder / "target")
    if url is None:
        return writer.format("delta").start(target)
    return writer.foreachBatch(_telling(target, url)).start()


def _telling(target: str, url: str) -> Callable[[DataFrame, int], None]:
    """Return what writes a batch and tells of its windows; a batch that comes again is written once."""
    from websockets.sync.client import connect

    connection = connect(url, compression=None)

    def tell(batch: DataFrame, number: int) -> None:
        kept = batch.persist()
        writer = kept.write.format("delta").mode("append")
        writer.option("txnAppId", "query").option("txnVersion", number).save(target)
        rows = kept.selectExpr("unix_millis(start) AS windowStart", "tbname", "mean", "top", "n").collect()
        if rows:
            events = [row.asDict() for row in rows]
            connection.send(json.dumps({"streams": [{"streamName": "query", "events": events}]}))
            connection.ping().wait()
        kept.unpersist()

    return tell


def main(source: str, folder: str, version: str | None = None) -> None:
    """Run the query of the small ticks: batches without a pause between them.

    ``version``: what the query starts with, or the url of whom it tells.
    """
    # An exit by Python's own way, so that the session's folder is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    url = version if version is not None and not version.isdigit() else None
    starting = int(version) if version is not None and url is None else None
    every = {"processingTime": "0 seconds"}
    query = start_query(session(), Path(source), Path(folder), ("10 seconds",), every, starting, url=url)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
