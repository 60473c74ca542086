"""A lake on a session of Spark Connect: what it computes, and whose server it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from tests.connect_server import CHECKOUT, connect_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FAMILIES = {
    "interval": "INTERVAL(10s) SLIDING(10s)",
    "sliding": "SLIDING(5s)",
    "session": "SESSION(ts, 5s)",
    "state": "STATE_WINDOW(k)",
    "event": "EVENT_WINDOW(START WITH k > 1 END WITH k < 1)",
    "count": "COUNT_WINDOW(2)",
}
FIRST = [(at * 1000, k) for at, k in ((0, 1), (3, 2), (4, 2), (11, 0), (25, 1), (26, 2), (41, 0))]
THEN = [(at * 1000, k) for at, k in ((2, 0), (55, 2), (61, 0), (90, 1))]


def history(root: Path, spark: SparkSession) -> list[str]:
    """Return what streams of all families give over two ticks and a recalculation, a line each."""
    lines = []
    with Lake(root, spark=spark) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, k INT)")
        streams = {f"{name}_{policy}": policy for name in FAMILIES for policy in ("plain", "exact")}
        for stream, policy in streams.items():
            options = "STREAM_OPTIONS(EXACT)" if policy == "exact" else ""
            family = FAMILIES[stream.partition("_")[0]]
            time = "_tcurrent_ts" if family.startswith("SLIDING") else "_twstart"
            lake.sql(
                f"CREATE STREAM {stream} {family} FROM t {options} INTO o_{stream} "
                f"AS SELECT {time} AS w, count(*) AS n, sum(k) AS total FROM %%trows"
            )
        for rows in (FIRST, THEN):
            lake.insert("t", spark.createDataFrame(rows, "ts LONG, k INT"))
            lines += [f"{tick.stream}: {tick.error}" for tick in lake.run().failed]
        lake.sql("RECALCULATE STREAM interval_plain FROM '1970-01-01'")
        lake.run()
        for stream in streams:
            result = lake.sql(f"SELECT CAST(w AS STRING) AS w, n, total FROM o_{stream} ORDER BY w")
            assert result.to_spark().count() == len(result.fetchall())
            lines.append(f"{stream} {result.fetchall()}")
        for stream in ("interval_plain", "session_plain", "sliding_exact", "count_exact"):
            lines.append(f"{stream} {lake.sql(f'VERIFY STREAM {stream}').fetchall()}")
        lines.append(str(lake.sql("SELECT k, k, count(*) FROM t GROUP BY k ORDER BY k").fetchall()))
        asked = "SELECT id, assert_true(id >= 0), timestamp_seconds(id) AS ts FROM range(20000) ORDER BY id"
        parts = lake.sql(asked, in_parts=True).to_reader().read_all()
        lines.append(f"{parts.schema.types} {parts.num_rows} {parts.slice(19_998).to_pylist()}")
        lines.append(str(lake.table("t").count() + lake.spark.table("main.t").count()))
    return lines


CLIENT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from tests.contract.test_connect import history

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
spark.range(3).createOrReplaceTempView("t")
print(*history(Path("lake"), spark), sep="\\n")
assert SparkSession.getActiveSession() is spark
assert [row.viewName for row in spark.sql("SHOW VIEWS").collect()] == ["t"]
assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Kathmandu"
"""

PINNED = """
import gc, sys
from pyspark.sql import SparkSession
from lakestream.storage.sessions.session import child_session

spark = child_session(SparkSession.builder.remote(sys.argv[1]).getOrCreate(), {})
for number in range(20):
    spark.range(3).createOrReplaceTempView("v")
    counted, whole = spark.sql("SELECT count(*) AS n FROM v"), spark.table("v")
    some, none = whole.where("id > 0"), spark.sql("SET x = 1")
    spark.range(7).createOrReplaceTempView("v")
    assert (counted.head().n, whole.count(), some.count()) == (3, 3, 2)
    del counted, whole, some, none
    gc.collect()
print(spark.sql("SHOW VIEWS").count())
"""

REFUSED = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as Remote
from lakestream import Lake, Settings
from lakestream.errors import LakestreamError

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()

def code(use):
    try:
        use()
    except LakestreamError as error:
        return error.code

by_spark = Settings(small_path="spark")
lake = Lake("lake", spark=spark, settings=by_spark)
with ThreadPoolExecutor() as pool:  # a thread that has no active session
    other = Lake("lake", settings=by_spark)
    pool.submit(lambda: other.sql("SELECT * FROM information_schema.ins_streams")).result()
marker = lake._at.layout.marker
lake._at.layout.marker = lambda: ("/nowhere/lake.json", marker()[1])
print(code(lambda: lake.sql("SELECT * FROM information_schema.ins_streams")))
lake._at.layout.marker = marker
lake.sql("SELECT * FROM information_schema.ins_streams")
lake._at._own.client.release_session()  # as a server does when nothing is asked of it for long
print(code(lambda: lake.sql("SELECT * FROM information_schema.ins_streams")))
Remote.version = vars(spark)["version"] = "3.5.4"
print(code(lambda: Lake("other", spark=spark).spark))
spark.stop()
print(code(lambda: Lake("third", spark=spark)), Path("third").exists(), code(lambda: Lake("lake").spark))
"""


BY_ENVIRONMENT = """
import os, sys
os.environ["SPARK_REMOTE"] = sys.argv[1]
from pathlib import Path
from lakestream import Lake, Settings
from lakestream.errors import LakestreamError

def code(use):
    try:
        use()
    except LakestreamError as error:
        return error.code

root = str(Path("named").absolute())
print(code(lambda: Lake(root, settings=Settings(connect_port=15002)).spark))
lake = Lake(root, settings=Settings(transport="spark"))
lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
query = "SELECT _twstart AS w, sum(v) AS total FROM %%trows"
lake.sql(f"CREATE STREAM s SESSION(ts, 5s) FROM t INTO o AS {query}")
lake.sql("INSERT INTO t VALUES (1000, 1) (2000, 2) (60000, 4)")
print(lake.run().failed, lake.verify("s").holds, lake.sql("SELECT total FROM o").fetchall())
beside = Lake(root, beside=lake, settings=Settings(small_path="spark"))
print(beside.sql("SELECT count(*) FROM t").fetchall(), code(beside.interrupt))
from pyspark import SparkContext
print(SparkContext._gateway)
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with connect_server() as found:
        yield found


def printed(script: str, address: str, folder: Path) -> list[str]:
    """Return the lines that a client, which is a process of its own, prints."""
    ran = subprocess.run(
        [sys.executable, "-c", script, address],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        timeout=400,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.long
def test_streams_are_what_they_are_on_a_session_of_the_process(
    spark: SparkSession, address: str, tmp_path: Path
) -> None:
    found = printed(CLIENT, address, tmp_path)
    assert found == history(tmp_path / "classic", spark)
    assert len(found) > len(FAMILIES)
    assert not [line for line in found if "differs" in line or "main." in line]


def test_frames_keep_what_they_were_made_of(address: str, tmp_path: Path) -> None:
    [views] = printed(PINNED, address, tmp_path)
    assert int(views) <= 6  # v, and those of one round


def test_what_cannot_be_computed_with_is_refused_by_name(address: str, tmp_path: Path) -> None:
    codes = ["LAKE_NOT_SHARED", "SPARK_STOPPED", "SPARK_TOO_OLD", "SPARK_STOPPED False SPARK_STOPPED"]
    assert printed(REFUSED, address, tmp_path) == codes


def test_the_server_that_the_environment_names_is_the_session(address: str, tmp_path: Path) -> None:
    found = printed(BY_ENVIRONMENT, address, tmp_path)
    assert found == ["SETTING_INVALID", "[] True [(3,)]", "[(3,)] None", "None"]
