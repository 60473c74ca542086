"""A standalone Spark cluster of this machine: a master and workers, processes of the installed pyspark."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from lakestream.storage.sessions.cluster import workers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_HOST = "127.0.0.1"
_HEAP = {"SPARK_DAEMON_MEMORY": "256m"}
_START_SECONDS = 300


@dataclass
class Cluster:
    """A master and its workers, whose logs and scratch lie in ``folder``."""

    folder: Path
    port: int
    page: int
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def master(self) -> str:
        """The address that ``master`` of the settings takes."""
        return f"spark://{_HOST}:{self.port}"

    def start_master(self) -> None:
        """Start the master and wait for its page."""
        where = ("--host", _HOST, "--port", str(self.port), "--webui-port", str(self.page))
        self._start("master", "org.apache.spark.deploy.master.Master", *where)
        self._await(lambda: self._workers() is not None)

    def start_worker(self, name: str, *, cores: int = 1, memory: str = "1g") -> None:
        """Start a worker and wait until the master knows it."""
        known = self._workers() or 0
        size = ("--cores", str(cores), "--memory", memory, "--work-dir", str(self.folder / name))
        where = ("--host", _HOST, "--webui-port", "0")
        self._start(name, "org.apache.spark.deploy.worker.Worker", *size, *where, self.master)
        self._await(lambda: (self._workers() or 0) > known)

    def kill(self, name: str) -> None:
        """Kill a process as by ``kill -9``, a worker with its executors."""
        process = self.processes.pop(name)
        for child in [*_children(process.pid), process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, 9)
        process.wait()

    def stop(self) -> None:
        """End all processes."""
        for name in [*self.processes]:
            self.kill(name)

    def _start(self, name: str, main: str, *arguments: str) -> None:
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), main, *arguments]
        with (self.folder / f"{name}.log").open("ab") as log:
            # Without the hooks of a test process: the daemons take the machine's Java as it is.
            own = {key: value for key, value in os.environ.items() if key != "JDK_JAVA_OPTIONS"}
            self.processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, env={**own, **_HEAP, "SPARK_LOCAL_IP": _HOST}
            )

    def _workers(self) -> int | None:
        """Return how many workers are alive, by the master's page; None before there is one."""
        found = workers_of(self.master, {"spark.master.ui.port": str(self.page)})
        return None if found is None else len(found)

    def _await(self, there: Callable[[], bool]) -> None:
        waiting = Retrying(
            stop=stop_after_delay(_START_SECONDS),
            wait=wait_fixed(0.2),
            retry=retry_if_result(lambda found: not found),
        )
        waiting(there)


def _children(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that these have."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [*_children(int(child)), int(child)]
    return found


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((_HOST, 0))
        return int(found.getsockname()[1])


@contextmanager
def standalone(folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[Cluster]:
    """Start a cluster, give it, and end it."""
    cluster = Cluster(folder, _free_port(), _free_port())
    try:
        cluster.start_master()
        for number in range(1, workers + 1):
            cluster.start_worker(f"worker-{number}", cores=cores, memory=memory)
        yield cluster
    finally:
        cluster.stop()
