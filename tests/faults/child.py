"""Runs a lake's streams on the Spark of the process that started this one.

Usage: ``python -m tests.faults.child LAKE TRANSPORT [--watch] [--own-spark] [--stop-at=POINT]
[--kill-spark=FILE]``; prints a line when it is ready to tick. With a point, it is stopped there, as by
SIGSTOP, until somebody lets it go on. At the point that a file names its own Spark is killed, once.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakestream import Lake, Settings
from lakestream.engine.base import faults
from lakestream.scheduler.watch import watch
from lakestream.storage.sessions import shared
from tests.faults.attach import attached, jvm_of
from tests.small import INTERPRETED

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.errors import LakestreamError


class Quiet:
    """Hears nothing."""

    def started(self) -> None: ...

    def began(self) -> None: ...

    def ended(self) -> None: ...

    def ticked(self, report: TickReport) -> None: ...

    def failed(self, error: LakestreamError) -> None: ...

    def stopping(self) -> None: ...


@dataclass(frozen=True)
class _SparkKiller:
    """Kills this process's Spark at the point that a file names, and takes the name out of it."""

    named: Path

    def reached(self, point: str) -> None:
        if self.named.read_text() == point:
            os.kill(jvm_of(os.getpid()), signal.SIGKILL)
            self.named.write_text("")


def run(root: str, ready: Connection) -> None:
    """Run until killed, without Spark; say when it is ready to tick."""
    lake = Lake(root, settings=Settings(checkpoint_ticks=1), create=False)
    ready.send("ready")
    watch(lake, Quiet(), poll_seconds=0.01)


def main(root: str, transport: str, *flags: str) -> None:
    """Run to idle, or until a signal."""
    settings = Settings(transport=transport, checkpoint_ticks=1)
    if own := "--own-spark" in flags:
        settings = settings.but(master="local[1]", driver_memory="1g", spark_conf=INTERPRETED)
        shared.LIVED_SECONDS = 0.0  # the next one is started at once, however often it dies
    lake = Lake(root, spark=None if own else attached(), settings=settings, create=False)
    for point in (flag.removeprefix("--stop-at=") for flag in flags if flag.startswith("--stop-at=")):
        faults._set(point, 1, lambda: os.kill(os.getpid(), signal.SIGSTOP))
    for path in (flag.removeprefix("--kill-spark=") for flag in flags if flag.startswith("--kill-spark=")):
        faults._traps.append(_SparkKiller(Path(path)))  # type: ignore[arg-type]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if "--watch" in flags:
        watch(lake, Quiet(), poll_seconds=0.01)
    failed = lake.run().failed
    lake.close()
    sys.exit(failed[0].error if failed else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
