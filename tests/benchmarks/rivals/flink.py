"""Flink SQL over the Parquet files of the source, in the rivals' environment.

``python -m tests.benchmarks.rivals.flink watch KIND JARS SOURCE TARGET`` takes files as they come, until it
is ended. ``… streaming`` and ``… batch KIND JARS`` read lines ``SOURCE TARGET`` from standard input,
calculate the windows of a folder's files, and say ``done`` for each. KIND is ``tumbling`` or ``session``;
JARS are separated by commas.

The watermark of a running stream is the newest time. Files that are there are read in the order of their
names, which is not that of their rows, so the watermark of a bounded stream waits for them.
"""

from __future__ import annotations

import sys
from typing import Any

_WINDOWS = {
    "tumbling": "TUMBLE(TABLE source, DESCRIPTOR(t), INTERVAL '10' SECONDS)",
    "session": "SESSION(TABLE source PARTITION BY tbname, DESCRIPTOR(t), INTERVAL '30' SECONDS)",
}
_WATCHING = {
    "execution.checkpointing.interval": "10 ms",
    "execution.checkpointing.min-pause": "0 ms",
    "pipeline.auto-watermark-interval": "1 ms",
    "parallelism.default": "1",
}
_BOUNDED = {"parallelism.default": "2"}


def environment(mode: str, jars: str) -> Any:
    """Return a table environment of this process."""
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    files = ";".join(f"file://{jar}" for jar in jars.split(","))
    configuration = Configuration()
    settings = {"pipeline.jars": files, "pipeline.classpaths": files, "table.local-time-zone": "UTC"}
    for name, value in (settings | (_WATCHING if mode == "watch" else _BOUNDED)).items():
        configuration.set_string(name, value)
    builder = EnvironmentSettings.new_instance().with_configuration(configuration)
    builder = builder.in_batch_mode() if mode == "batch" else builder.in_streaming_mode()
    return TableEnvironment.create(builder.build())


def insert(tables: Any, mode: str, kind: str, source: str, target: str) -> Any:
    """Start the query that writes the windows of a folder's files into another folder."""
    parquet = "'connector' = 'filesystem', 'format' = 'parquet', 'parquet.utc-timezone' = 'true'"
    watch = mode == "watch"
    late = "" if watch else " - INTERVAL '1' DAY"
    look = ", 'source.monitor-interval' = '10 ms'" if watch else ""
    tables.execute_sql("DROP TABLE IF EXISTS source")
    tables.execute_sql("DROP TABLE IF EXISTS target")
    tables.execute_sql(
        "CREATE TABLE source (ts TIMESTAMP_LTZ(6), v DOUBLE, tbname STRING,"
        f" t AS CAST(ts AS TIMESTAMP_LTZ(3)), WATERMARK FOR t AS t{late})"
        f" WITH ({parquet}, 'path' = 'file://{source}', 'source.path.regex-pattern' = '.*\\.parquet'{look})"
    )
    tables.execute_sql(
        "CREATE TABLE target (`start` TIMESTAMP(6), tbname STRING, mean DOUBLE, top DOUBLE, n BIGINT)"
        f" WITH ({parquet}, 'path' = 'file://{target}', 'parquet.write.int64.timestamp' = 'true',"
        " 'parquet.timestamp.time.unit' = 'micros')"
    )
    return tables.execute_sql(
        "INSERT INTO target SELECT window_start, tbname, avg(v), max(v), count(*)"
        f" FROM TABLE({_WINDOWS[kind]}) GROUP BY window_start, window_end, tbname"
    )


def main(mode: str, kind: str, jars: str, *folders: str) -> None:
    """Run as the module says."""
    tables = environment(mode, jars)
    if mode == "watch":
        insert(tables, mode, kind, *folders).wait()
    for line in sys.stdin if mode != "watch" else ():
        insert(tables, mode, kind, *line.split()).wait()
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
