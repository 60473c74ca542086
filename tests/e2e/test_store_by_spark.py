"""A lake in a store whose Spark reads and writes it: nothing is installed by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from re import fullmatch

import pytest
from httpx2 import get

from tests.store_server import BUCKET, store_server

pytestmark = [pytest.mark.long, pytest.mark.spark]

PROGRAM = """
import json, sys
from py4j.protocol import Py4JJavaError
from lakestream import Lake, Settings
from lakestream.errors import PrerequisiteError
from lakestream.storage.rows import handed

# Rows are handed to Spark as to a cluster: by files in the lake, however few they are.
handed.MOST_BYTES, handed.is_local = -1, lambda _: False
# The sizes have Spark read the source, and what it computes stays there and is written by it.
large = Settings(master="local[2]", driver_memory="1g", small_bytes=0, small_rows=0, small_path="spark")
with Lake(sys.argv[1], settings=large) as lake:
    try:
        lake.spark
    except PrerequisiteError as error:
        sys.exit(error.render())
    lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
    lake.sql(
        "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM m INTO o "
        "AS SELECT _twstart AS w, count(*) AS n, sum(v) AS total FROM %%trows"
    )
    rows = ", ".join(f"('2025-01-01 00:00:{second:02}', {second})" for second in range(50))
    lake.sql(f"INSERT INTO m VALUES {rows}")
    ticks = lake.run().ticks
    lake.sql("INSERT INTO m VALUES ('2025-01-01 00:00:03', 1000)")
    ticks += lake.run().ticks
    lake.sql("RECALCULATE STREAM s FROM '2025-01-01'")
    ticks += lake.run().ticks
    verified = dict(lake.sql("VERIFY STREAM s").fetchall())
    # A commit that another writer has made in the meantime is not written over.
    jvm, context = lake.spark._jvm, lake.spark.sparkContext
    log = jvm.lakestream.ConditionalLogStore(context._jsc.hadoopConfiguration())
    path = jvm.org.apache.hadoop.fs.Path(f"{sys.argv[1]}/main/o/_delta_log/00000000000000000001.json")
    taken = ""
    try:
        log.write(path, jvm.java.util.ArrayList(["{}"]).iterator(), False, context._jsc.hadoopConfiguration())
    except Py4JJavaError as error:
        taken = error.java_exception.getClass().getName()
    print(json.dumps({
        "kinds": [tick.kind for tick in ticks],
        "errors": [tick.error for tick in ticks if tick.error],
        "by": sorted({tick.transport for tick in ticks}),
        "rows": [row[1:] for row in lake.sql("SELECT w, n, total FROM o ORDER BY w").fetchall()],
        "equal": verified["equal rows"], "differing": verified["differing rows"], "taken": taken,
    }))
"""


def test_verify_large_ticks_and_recalculations_by_spark_in_a_store() -> None:
    with store_server() as store:
        environment = {**os.environ, **store.environment()}
        command = [sys.executable, "-c", PROGRAM, f"s3://{BUCKET}/lake"]
        ran = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=900, check=False
        )
        if "error[JARS_UNREACHABLE]" in ran.stderr:
            pytest.skip(ran.stderr.strip())
        assert ran.returncode == 0, ran.stderr
        found = json.loads(ran.stdout.splitlines()[-1])
        asked = store.asked()
        left = get(
            f"{store.url}/{BUCKET}", params={"list-type": 2, "prefix": "lake/_lakestream/handed/"}
        ).text
    assert found == {
        "kinds": ["changes", "changes", "recalculation"],
        "errors": [],
        "by": ["spark"],
        "rows": [[10, 1042], [10, 145], [10, 245], [10, 345]],
        "equal": "4",
        "differing": "0",
        "taken": "java.nio.file.FileAlreadyExistsException",
    }
    by_spark = [one for one in asked if one.agent.startswith("Hadoop")]
    assert any(one.method == "GET" for one in by_spark)
    assert any(one.method == "GET" and "/_lakestream/handed/" in one.path for one in by_spark)
    commits = [one for one in asked if one.method == "PUT" and fullmatch(r".*_delta_log/\d+\.json", one.path)]
    assert {one.condition for one in commits} == {"absent"}
    assert any(one in by_spark for one in commits)
    assert "<KeyCount>0</KeyCount>" in left
