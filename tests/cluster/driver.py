"""A driver in a process of its own, which can be told what to do, and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

CHECKOUT = Path(__file__).resolve().parents[2]


class Driver:
    """The process; ``settings`` are environment variables of lakestream."""

    def __init__(self, root: Path, settings: Mapping[str, str]) -> None:
        self.peak: list[int] = []
        self.tasks = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.child", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT), "SPARK_LOCAL_IP": "127.0.0.1", **settings},
            start_new_session=True,
        )
        self._read()

    def tell(self, line: str) -> None:
        """Say what is to be done, without waiting for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def answer(self) -> list[Any]:
        """Wait for the answer."""
        said = json.loads(self._read())
        self.peak, self.tasks = said["peak"], said["tasks"]
        found: list[Any] = said["found"]
        return found

    def ask(self, line: str) -> list[Any]:
        """Have something done, and return what it gave."""
        self.tell(line)
        return self.answer()

    def kill(self) -> None:
        """End it, and its Spark, as by ``kill -9``."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Let it end by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(120)

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the driver has ended; what it said stands above")
        return line
