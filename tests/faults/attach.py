"""A process of its own on the Spark of another one: it can be killed without a JVM starting anew each time.

Everything of lakestream lives in the process that is killed: plans, commits by delta-rs, progress, the lock.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

CHECKOUT = Path(__file__).resolve().parents[2]
PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


def gateway_of(spark: SparkSession) -> dict[str, str]:
    """Return the environment by which :func:`attached` finds the JVM of this process."""
    parameters = spark.sparkContext._gateway.gateway_parameters  # type: ignore[union-attr]
    return {PORT: str(parameters.port), SECRET: str(parameters.auth_token)}


def attached() -> SparkSession:
    """Return a session of its own in the JVM that the environment names."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    jvm: Any = gateway.jvm
    running = jvm.org.apache.spark.SparkContext.getOrCreate()
    context = SparkContext(gateway=gateway, jsc=jvm.JavaSparkContext(running))
    session = jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get().newSession()
    return SparkSession(context, session)


def jvm_of(process: int) -> int:
    """Return the id of the JVM that a process has started and that runs."""
    found = subprocess.run(["pgrep", "-P", str(process), "java"], capture_output=True, text=True, check=True)
    return int(found.stdout.split()[0])


@contextmanager
def child(module: str, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run a module of the tests; it is killed at the end of the block unless it has ended."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()
