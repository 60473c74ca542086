"""The classes that Spark loads at every start, kept in a file of the JVM's: with it a start takes half.

``python -m lakestream.storage.sessions.archive FOLDER`` makes it beside the jars in FOLDER, by a session that
does a little of what ticks do and writes at its end what it has loaded (class data sharing). Where Java or
the jars are others than then, the JVM passes over the file by itself.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lakestream.storage.places.scratch import held_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

_NAME = "classes.jsa"
_TIMEOUT_SECONDS = 300
_QUERY = """
WITH numbered AS (
  SELECT g, v, unix_micros(ts) AS ts, xxhash64(g) AS gid, explode(sequence(1L, 2L)) AS k,
    row_number() OVER (PARTITION BY g ORDER BY ts) AS n,
    max(v) OVER before AS m
  FROM changed
  WINDOW before AS (
    PARTITION BY g ORDER BY unix_micros(ts) RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT n.g, k, min(n.ts), count(*), sum(n.v), avg(n.v) FILTER (WHERE n.v > 0), max_by(n.v, struct(n.ts, n.n)),
  filter(collect_set(struct(k AS a, m AS b)), r -> r.a <= 2) AS ranges
FROM numbered n LEFT JOIN known s ON n.g = s.g GROUP BY n.g, k
UNION ALL SELECT g, 0L, 0L, 0L, v, v, v, array() FROM known ORDER BY 1, 2
"""


def archive_beside(jars: Sequence[Path]) -> Path | None:
    """Return the archive in the folder of the jars; None where there is none."""
    archive = jars[0].parent / _NAME
    return archive if archive.is_file() else None


def make_archive(folder: Path) -> bool:
    """Make the archive beside the jars of a folder; return whether it is there: nothing depends on it."""
    command = [sys.executable, "-m", "lakestream.storage.sessions.archive", str(folder)]
    try:
        subprocess.run(command, capture_output=True, timeout=_TIMEOUT_SECONDS, check=True)  # noqa: S603 - ourselves
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _archive(folder: Path) -> None:
    from pyspark import SparkContext

    from lakestream.settings import Settings
    from lakestream.storage.sessions.session import spark_session

    with held_folder(folder) as scratch:
        written = scratch / _NAME
        options = {"spark.driver.extraJavaOptions": f'"-XX:ArchiveClassesAtExit={written}"'}
        spark = spark_session(Settings(master="local[2]", jars=folder, spark_conf=options))
        _work(spark, scratch / "table")
        process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - nothing public tells
        spark.stop()
        assert process is not None, "the session has just been started"
        process.stdin.close()
        process.wait(_TIMEOUT_SECONDS)
        written.replace(folder / _NAME)


def _work(spark: SparkSession, path: Path) -> None:
    """Do what ticks do: rows as Arrow in and out, a table with its feed, groups, joins, orders, a MERGE."""
    import pyarrow as pa

    times = pa.array([1, 2, 3, 4], pa.timestamp("us", "UTC"))
    rows = pa.table({"ts": times, "g": ["a", "b", "a", None], "v": [1.0, 2.0, None, 4.0]})
    spark.createDataFrame(rows).coalesce(1).createOrReplaceTempView("known")
    writer = spark.createDataFrame(rows).write.format("delta").option("delta.enableChangeDataFeed", "true")
    writer.save(str(path))
    spark.sql(
        f"MERGE INTO delta.`{path}` t USING known s ON t.ts = s.ts "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
    feed.load(str(path)).createOrReplaceTempView("changed")
    spark.sql(_QUERY).toArrow()


if __name__ == "__main__":
    _archive(Path(sys.argv[1]))
