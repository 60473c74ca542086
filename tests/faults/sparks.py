"""Lakes whose process lives and whose Spark is killed again and again under load.

Usage: ``python -m tests.faults.sparks SEED CYCLES``. One process goes on with one Spark after another; this
one, which writes and checks, has none before VERIFY at the end of a lake.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from typing import TYPE_CHECKING

from lakestream.clock import SystemClock
from tests.faults.attach import child, jvm_of
from tests.faults.killer import CHECKED_EVERY, KINDS, Workload, await_current, await_ready, command
from tests.small import QUICK_START

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.killer import Tell

MAX_SECONDS = 4.0
"""Spark is killed between nothing and so many seconds after all was taken by it."""
STREAMS = 3
"""Streams of one lake, drawn of all kinds."""
CYCLES = 10
"""Kills of one lake."""


def kill(root: Path, cycles: int, seed: str, tell: Tell) -> int:
    """Kill a child's Spark ``cycles`` times while rows are written, and check now and then.

    Returns the commits. Raises AssertionError as soon as an output is not what it should be.
    """
    drawn, clock = random.Random(seed), SystemClock()
    load = Workload(drawn, root, kinds=drawn.sample(KINDS, STREAMS)).begin()
    arguments = (str(root), "spark", "--watch", "--own-spark")
    with (
        child("tests.faults.child", *arguments, JDK_JAVA_OPTIONS=QUICK_START) as process,
        load.opened() as lake,
    ):
        await_ready(process)
        load.write(lake)
        for cycle in range(1, cycles + 1):
            await_current(lake, process)  # by then there is a Spark
            deadline = clock.monotonic() + drawn.uniform(0, MAX_SECONDS)
            while clock.monotonic() < deadline:
                load.write(lake)
                clock.sleep(drawn.uniform(0, 0.3))
            os.kill(jvm_of(process.pid), signal.SIGKILL)
            load.write(lake)
            if cycle % CHECKED_EVERY == 0 or cycle == cycles:
                await_current(lake, process)
                load.check()
                tell(f"{', '.join(load.kinds)}: cycle {cycle}, {len(load.commits)} commits, all is well")
    load.verify()
    return len(load.commits)


def main() -> int:
    """Run the cycles; exit status 1 when an output was not what it should be, and its lake stays."""
    seed, cycles = sys.argv[1:]
    return command(kill, seed, int(cycles), CYCLES)


if __name__ == "__main__":
    sys.exit(main())
