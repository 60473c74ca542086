"""What is measured, by which systems: each entry runs once and returns figures by metric."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakestream.clock import SystemClock
from tests.benchmarks import data

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from deltalake import DeltaTable
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from lakestream import Lake

    Figures = dict[str, list[float]]
    Run = Callable[[Path, float], Figures]

CLOCK = SystemClock()
DEVICES = 1_000
CATCH_UP_ROWS, COMMITS = 5_000_000, 20
TUMBLING = "INTERVAL(10s) SLIDING(10s)"
HOPPING = "INTERVAL(60s) SLIDING(5s)"
SMALL_ROWS, SMALL_COMMITS, WARM_UP = 1_000, 30, 10


def _now() -> float:
    return CLOCK.monotonic()


def _peak_mib(spark: SparkSession | None = None) -> float:
    """Return the peak memory of this process, and of Spark's JVM where there is one."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if spark is None:
        return own
    pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return own + int(peak.split()[1]) / 1024


def _lake(folder: Path, window: str) -> Lake:
    from lakestream import Lake, Settings

    lake = Lake(folder / "lake", settings=Settings(master="local[2]", driver_memory="2g"))
    lake.sql("CREATE STABLE source (ts TIMESTAMP, v DOUBLE) TAGS (g INT)")
    lake.sql(
        f"CREATE STREAM s {window} FROM source PARTITION BY tbname INTO target "
        "AS SELECT _twstart AS start, avg(v) AS mean, max(v) AS top, count(*) AS n FROM %%trows"
    )
    return lake


def _commits(rows: int) -> list[tuple[int, int]]:
    size = rows // COMMITS
    return [(at * size, size) for at in range(COMMITS)]


# --- catching up ---------------------------------------------------------------------------------


def _caught_up(count: int, seconds: float, spark: SparkSession | None) -> Figures:
    return {"seconds": [seconds], "rows_per_second": [count / seconds], "peak_mib": [_peak_mib(spark)]}


def _catch_up_lakestream(window: str) -> Run:
    def run(folder: Path, scale: float) -> Figures:
        count = int(CATCH_UP_ROWS * scale)
        lake = _lake(folder, window)
        path = folder / "lake" / "main" / "source"
        warm = data.rows(0, DEVICES * 2, DEVICES)
        lake.insert("source", warm)
        lake.run()
        for first, size in _commits(count):
            data.write(path, data.rows(DEVICES * 2 + first, size, DEVICES))
        started = _now()
        lake.run()
        seconds = _now() - started
        figures = _caught_up(count, seconds, lake.spark)
        lake.close()
        return figures

    return run


def _spark() -> SparkSession:
    from lakestream import Settings
    from lakestream.storage.session import spark_session

    return spark_session(Settings(master="local[2]", driver_memory="2g"))


def _streaming_query(
    spark: SparkSession, folder: Path, window: tuple[str, str | None], trigger: dict[str, Any]
) -> StreamingQuery:
    from pyspark.sql import functions as f

    rows = spark.readStream.format("delta").load(str(folder / "source")).withWatermark("ts", "0 seconds")
    grouped = rows.groupBy(f.window("ts", *[part for part in window if part]), "tbname")
    figures = grouped.agg(f.avg("v").alias("mean"), f.max("v").alias("top"), f.count("*").alias("n"))
    return (
        figures.selectExpr("window.start AS start", "tbname", "mean", "top", "n")
        .writeStream.format("delta")
        .outputMode("append")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**trigger)
        .start(str(folder / "target"))
    )


def _catch_up_streaming(window: tuple[str, str | None]) -> Run:
    def run(folder: Path, scale: float) -> Figures:
        count = int(CATCH_UP_ROWS * scale)
        spark = _spark()
        data.write(folder / "source", data.rows(0, DEVICES * 2, DEVICES))
        _streaming_query(spark, folder, window, {"availableNow": True}).awaitTermination()
        for first, size in _commits(count):
            data.write(folder / "source", data.rows(DEVICES * 2 + first, size, DEVICES))
        started = _now()
        _streaming_query(spark, folder, window, {"availableNow": True}).awaitTermination()
        seconds = _now() - started
        return _caught_up(count, seconds, spark)

    return run


def _catch_up_duckdb(step: int, panes: int) -> Run:
    def run(folder: Path, scale: float) -> Figures:
        import duckdb

        count = int(CATCH_UP_ROWS * scale)
        for first, size in _commits(count):
            data.write(folder / "source", data.rows(first, size, DEVICES))
        source = str(folder / "source" / "*.parquet")
        started = _now()
        duckdb.execute(
            "CREATE TABLE target AS SELECT (epoch_us(ts) // ? - pane) * ? AS start, tbname, "
            "avg(v) AS mean, max(v) AS top, count(*) AS n "
            "FROM read_parquet(?), range(?) r(pane) GROUP BY ALL",
            [step, step, source, panes],
        )
        seconds = _now() - started
        return _caught_up(count, seconds, None)

    return run


# --- one small commit after another --------------------------------------------------------------


def _small_tick_lakestream(folder: Path, scale: float) -> Figures:
    del scale
    lake = _lake(folder, TUMBLING)
    path = folder / "lake" / "main" / "source"
    lake.insert("source", data.rows(0, 100_000, 100))
    lake.run()
    figures = []
    for number in range(SMALL_COMMITS + WARM_UP):
        data.write(path, data.rows(100_000 + number * SMALL_ROWS, SMALL_ROWS, 100))
        started = _now()
        lake.run()
        figures.append(_now() - started)
    peak = _peak_mib(lake.spark)
    lake.close()
    return {"seconds": figures[WARM_UP:], "peak_mib": [peak]}


def _small_tick_streaming(folder: Path, scale: float) -> Figures:
    """A running query: from the commit being visible to its windows' rows being visible."""
    del scale
    from deltalake import DeltaTable

    spark = _spark()
    data.write(folder / "source", data.rows(0, 100_000, 100))
    query = _streaming_query(spark, folder, ("10 seconds", None), {"processingTime": "0 seconds"})
    query.processAllAvailable()
    target = DeltaTable(str(folder / "target"))
    figures = []
    for number in range(SMALL_COMMITS + WARM_UP):
        before = _newest_start(target)
        data.write(folder / "source", data.rows(100_000 + number * SMALL_ROWS, SMALL_ROWS, 100))
        started = _now()
        while _newest_start(target) == before:
            CLOCK.sleep(0.005)
        figures.append(_now() - started)
    query.stop()
    return {"seconds": figures[WARM_UP:], "peak_mib": [_peak_mib(spark)]}


def _newest_start(target: DeltaTable) -> datetime | None:
    """Return the newest window in the output, from the statistics of its files."""
    import pyarrow as pa
    import pyarrow.compute as pc

    target.update_incremental()
    files = pa.table(target.get_add_actions(flatten=True))
    return pc.max(files["max.start"]).as_py() if "max.start" in files.column_names else None


# --- the command line ----------------------------------------------------------------------------


def _command(*arguments: str) -> float:
    started = _now()
    subprocess.run([sys.executable, "-m", "lakestream", *arguments], check=True, capture_output=True)
    return _now() - started


def _cli_help(folder: Path, scale: float) -> Figures:
    del folder, scale
    return {"seconds": [_command("--help") for _ in range(5)]}


def _cli_status(folder: Path, scale: float) -> Figures:
    streams = int(100 * scale)
    lake = _lake(folder, TUMBLING)
    for number in range(streams - 1):
        lake.sql(
            f"CREATE STREAM s{number} {TUMBLING} FROM source PARTITION BY tbname INTO target{number} "
            "AS SELECT _twstart AS start, avg(v) AS mean FROM %%trows"
        )
    lake.insert("source", data.rows(0, 3_000, 100))
    lake.run()
    lake.close()
    return {"seconds": [_command("--lake", str(folder / "lake"), "status") for _ in range(5)]}


SCENARIOS: dict[str, dict[str, Run]] = {
    "catchup_tumbling": {
        "lakestream": _catch_up_lakestream(TUMBLING),
        "structured_streaming": _catch_up_streaming(("10 seconds", None)),
        "duckdb": _catch_up_duckdb(10_000_000, 1),
    },
    "catchup_hopping": {
        "lakestream": _catch_up_lakestream(HOPPING),
        "structured_streaming": _catch_up_streaming(("60 seconds", "5 seconds")),
        "duckdb": _catch_up_duckdb(5_000_000, 12),
    },
    "small_tick": {"lakestream": _small_tick_lakestream, "structured_streaming": _small_tick_streaming},
    "cli_help": {"lakestream": _cli_help},
    "cli_status": {"lakestream": _cli_status},
}
