"""An environment of their own for the rivals that lakestream does not depend on: Flink and Pathway.

It is made on first use under ``build/``, from a lock with hashes; where that fails they are not there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tests.apart import Apart

APART = ("flink", "flink_batch", "pathway")
"""The systems that run in it."""

_PARQUET = "org.apache.flink:flink-sql-parquet:2.3.0"
_PARQUET_SHA256 = "f30617f4a5a6d437750f155ff72178ab34439aec91df64d96621c260559ba5fd"


def flink_jars() -> list[Path]:
    """Return what Flink needs to read and write Parquet: its own jar, and Hadoop's of Spark."""
    return [_jar(), *sorted((_spark_home() / "jars").glob("hadoop-client-*.jar"))]


def _jar() -> Path:
    return RIVALS.folder / "flink-sql-parquet.jar"


def _fetch_jar() -> None:
    """Have Spark's launcher resolve the jar, as the set-up has it resolve Delta's; hold it to its hash."""
    with tempfile.TemporaryDirectory() as scratch:
        nothing = Path(scratch, "nothing.py")
        nothing.touch()
        subprocess.run(
            [
                str(_spark_home() / "bin" / "spark-submit"),
                *("--packages", _PARQUET, "--conf", f"spark.jars.ivy={scratch}/ivy"),
                *("--master", "local[1]", str(nothing)),
            ],
            env={"SPARK_LOCAL_IP": "127.0.0.1", **os.environ, "PYSPARK_PYTHON": sys.executable},
            check=True,
            capture_output=True,
        )
        [fetched] = Path(scratch, "ivy", "jars").glob("*flink-sql-parquet*.jar")
        if hashlib.sha256(fetched.read_bytes()).hexdigest() != _PARQUET_SHA256:
            raise ValueError(f"{_PARQUET} is not the file that it was")
        shutil.copy2(fetched, _jar())


def _spark_home() -> Path:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


RIVALS = Apart("rivals", Path(__file__).with_name("requirements.lock"), _PARQUET, _fetch_jar)
