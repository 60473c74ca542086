"""One lake under the random killer without Spark: what is killed is forked, and begins within milliseconds.

Usage: ``python -m tests.faults.forked SEED CYCLES``. A server that has imported what a child needs forks it,
so that most of the time goes into ticks, and their ends. VERIFY, which needs Spark, is left to the others.
"""

from __future__ import annotations

import multiprocessing
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lakestream.clock import SystemClock
from tests.faults.child import run
from tests.faults.killer import CHECKED_EVERY, Workload

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_SECONDS = 2.0
"""A child is killed between nothing and so many seconds after it was ready."""

_PRELOADED = (
    *("lakestream.engine.rounds.engine", "lakestream.engine.lanes.lanes", "lakestream.engine.reading.small"),
    *(
        "lakestream.scheduler.watch",
        "lakestream.statements.dispatch",
        "lakestream.settings",
        "tests.faults.child",
    ),
)


def kill(root: Path, cycles: int, seed: str, tell: Callable[[str], None]) -> int:
    """Kill a child ``cycles`` times while rows are written, and check now and then; return the commits.

    Raises AssertionError as soon as an output is not what it should be.
    """
    drawn = random.Random(seed)
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload([*_PRELOADED])
    load = Workload(drawn, root).begin()
    clock = SystemClock()
    for cycle in range(1, cycles + 1):
        ready, said = forking.Pipe(duplex=False)
        process = forking.Process(target=run, args=(str(root), said))
        with load.opened() as lake:
            process.start()
            load.write(lake)
            assert ready.poll(120), "a child has not begun"
            deadline = clock.monotonic() + drawn.uniform(0, MAX_SECONDS)
            while clock.monotonic() < deadline:
                load.write(lake)
                clock.sleep(drawn.uniform(0, 0.3))
            assert process.is_alive(), f"a child has ended by itself, with status {process.exitcode}"
            process.kill()
            process.join()
        if cycle % CHECKED_EVERY == 0 or cycle == cycles:
            load.check()
            tell(f"cycle {cycle}: {len(load.commits)} commits, all is well")
    return len(load.commits)


def main() -> int:
    """Run the cycles; exit status 1 when an output was not what it should be, and its lake stays."""
    seed, cycles = sys.argv[1:]

    def tell(text: str) -> None:
        sys.stdout.write(f"seed {seed}: {text}\n")
        sys.stdout.flush()

    folder = Path(tempfile.mkdtemp(prefix="lakestream-faults-"))
    try:
        kill(folder / "lake", int(cycles), seed, tell)
    except AssertionError as error:
        tell(f"{error}\nthe lake is in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
