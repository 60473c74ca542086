"""A driver: does with a lake what it is told, a line each, and answers with a line of JSON.

Usage: ``python -m tests.cluster.child LAKE``; settings come from the environment. ``run`` runs all streams to
idle, ``advance SECONDS`` moves the clock, all else is a statement. An answer has the rows of a statement or
the errors of ticks, the peak memory in MiB of Python and of its JVM, and how many tasks Spark has run.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lakestream import Lake
from lakestream.clock import ManualClock

BEGAN = datetime(2025, 2, 1, tzinfo=UTC)
"""What the clock of a driver says at first: behind all event times."""


def main(root: str) -> None:
    """Answer until there is no more to do."""
    clock = ManualClock(BEGAN)
    with Lake(root, clock=clock) as lake:
        print("ready", flush=True)  # noqa: T201 - the parent reads it
        for line in sys.stdin:
            word, _, rest = line.strip().partition(" ")
            if word == "advance":
                clock.advance(timedelta(seconds=float(rest)))
                found: list[object] = []
            elif word == "run":
                found = [f"{tick.stream}: {tick.error}" for tick in lake.run().failed]
            else:
                found = [[str(value) for value in row] for row in lake.sql(line).fetchall()]
            said = {"found": found, "peak": peaks(), "tasks": tasks()}
            print(json.dumps(said), flush=True)  # noqa: T201 - as above


def peaks() -> list[int]:
    """Return the peak memory (MiB) of this process, and of its JVM where it has one."""
    from pyspark import SparkContext

    gateway = getattr(SparkContext._gateway, "proc", None)
    pids = ["self", *([str(gateway.pid)] if gateway else [])]
    return [_peak(Path(f"/proc/{pid}/status").read_text()) for pid in pids]


def tasks() -> int:
    """Return how many tasks the Spark of this process has run."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        return 0
    executors = context._jsc.sc().statusStore().executorList(False)
    return sum(executors.apply(at).totalTasks() for at in range(executors.size()))


def _peak(status: str) -> int:
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
