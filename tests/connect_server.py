"""A server of Spark Connect in a process of its own, as tests of its clients need one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.small import FEW_TABLES, INTERPRETED, LONG_LIVED

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).resolve().parents[1]


@contextmanager
def connect_server() -> Iterator[str]:
    """Start a server, give its address, and end it."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.connect_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        cwd=CHECKOUT,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        address = server.stdout.readline().strip()
        assert address, "the server did not start"
        yield address
    finally:
        server.stdin.close()
        server.wait(60)


def _serve() -> None:
    from lakestream.server.process.connect import connect_conf
    from lakestream.settings import Settings
    from lakestream.storage.sessions.session import spark_session

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    conf = {**INTERPRETED, **{key: f"{value} {LONG_LIVED}" for key, value in FEW_TABLES.items()}}
    settings = Settings(master="local[2]", driver_memory="2g", connect_port=port, spark_conf=conf)
    spark = spark_session(settings.with_spark_conf(connect_conf(settings)))
    sys.stdout.write(f"sc://127.0.0.1:{port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    _serve()
