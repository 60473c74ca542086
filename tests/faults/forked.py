"""Lakes under the random killer without Spark: what is killed is forked, and begins within milliseconds.

Usage: ``python -m tests.faults.forked SEED CYCLES``. A server that has imported what a child needs forks it,
so that most of the time goes into ticks, and their ends. VERIFY, which needs Spark, is left to the others.
"""

from __future__ import annotations

import multiprocessing
import os
import pkgutil
import random
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from lakestream.clock import SystemClock
from tests.faults.child import run
from tests.faults.killer import CHECKED_EVERY, CURRENT_SECONDS, KINDS, Workload, command

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.process import BaseProcess

    from tests.faults.killer import Tell

MAX_SECONDS = 0.8
"""A child is killed after between nothing and so many seconds of the processor, which is about what it takes
to begin and to take all that there is: whatever else the machine does, kills come at any point of that."""
STREAMS = 2
"""Streams of one lake, drawn of all kinds."""

_PACKAGES = ("lakestream.engine", "lakestream.language", "lakestream.scheduler", "lakestream.storage.small")
"""Packages of which a child has every module from the start, as well as the libraries that they call."""
_LIBRARIES = ("tests.faults.child", "lakestream.statements.dispatch", "duckdb", "pandas")
CYCLES = 20
"""Kills of one lake."""


def kill(root: Path, cycles: int, seed: str, tell: Tell) -> int:
    """Kill a child ``cycles`` times while rows are written, and check now and then; return the commits.

    Raises AssertionError as soon as an output is not what it should be.
    """
    drawn = random.Random(seed)
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload([*_LIBRARIES, *_modules()])
    load = Workload(drawn, root, kinds=drawn.sample(KINDS, STREAMS)).begin()
    for cycle in range(1, cycles + 1):
        ready, said = forking.Pipe(duplex=False)
        process = forking.Process(target=run, args=(str(root), said))
        with load.opened() as lake:
            load.write(lake)
            process.start()
            try:
                assert ready.poll(CURRENT_SECONDS), "a child has not begun"
                _await_death(drawn, process, lambda: load.write(lake))
            finally:
                process.kill()
                process.join()
        if cycle % CHECKED_EVERY == 0 or cycle == cycles:
            load.check()
            tell(f"{', '.join(load.kinds)}: cycle {cycle}, {len(load.commits)} commits, all is well")
    return len(load.commits)


def _await_death(drawn: random.Random, process: BaseProcess, write: Callable[[], None]) -> None:
    """Wait until a child's time is over, and write up to twice meanwhile."""
    death = drawn.uniform(0, MAX_SECONDS)
    for moment in sorted(drawn.uniform(0, death) for _ in range(drawn.randint(0, 2))):
        _await_moment(process, moment)
        write()
    _await_moment(process, death)


def _await_moment(process: BaseProcess, seconds: float) -> None:
    """Wait until a child has taken so much of the processor; to be idle takes a little, too."""
    clock = SystemClock()
    while process.is_alive() and _processor_seconds(process) < seconds:
        clock.sleep(0.005)
    assert process.is_alive(), f"a child has ended by itself, with status {process.exitcode}"


def _processor_seconds(process: BaseProcess) -> float:
    written = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8")
    user, system = written.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _modules() -> list[str]:
    found = (pkgutil.walk_packages(import_module(name).__path__, f"{name}.") for name in _PACKAGES)
    return [module.name for modules in found for module in modules]


def main() -> int:
    """Run the cycles; exit status 1 when an output was not what it should be, and its lake stays."""
    seed, cycles = sys.argv[1:]
    return command(kill, seed, int(cycles), CYCLES)


if __name__ == "__main__":
    sys.exit(main())
