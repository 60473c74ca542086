"""Faults by name, or the random killer for as long as you like.

Usage: ``python -m tests.faults [--fault NAME]…``,
``… --cycles N [--seed N] [--transport NAME] [--jvm | --store | --folder | --small]``,
``… --soak MINUTES [--seed N] [--small] [--resume FOLDER]`` or
``… --power [--scenario NAME]… [--count N] [--seed N]``;
without these the faults of ``named.toml``, each crash of the matrix among them, or some of them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from lakestream.clock import SystemClock
from tests.faults import named

BATCH = 20
"""Cycles of one lake and one JVM: the reference goes over the whole history at every check, and what killed
processes held in the JVM stays there."""


def main() -> int:
    """Run what was asked for; exit status 1 when an output was not what it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--fault", action="append", default=[], help="a name of named.toml; may be repeated")
    parser.add_argument("--cycles", type=int, help="how often the streams' process is killed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--transport", choices=["auto", "arrow", "spark"], default="auto")
    parser.add_argument("--jvm", action="store_true", help="kill the process's Spark alone")
    parser.add_argument("--store", action="store_true", help="two daemons share a lake in an object store")
    parser.add_argument("--folder", action="store_true", help="two daemons share a lake in a folder")
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="a daemon under random faults")
    parser.add_argument("--resume", metavar="FOLDER", help="go on with a soak that was cut off")
    parser.add_argument("--small", action="store_true", help="without Spark: many kills in little time")
    parser.add_argument(
        "--power", nargs=argparse.REMAINDER, help="every state that a power cut may leave; --help says more"
    )
    options = parser.parse_args()
    if options.power is not None:
        return _run("tests.faults.power", *options.power)
    if options.soak is not None:
        resume = ["--resume", options.resume] if options.resume else []
        small = ["--small"] * options.small
        return _run("tests.faults.soak", str(options.seed), str(options.soak), *small, *resume)
    if options.cycles is None:
        os.environ["FAULT_CELLS"] = "all"
        return named.run(options.fault)
    if options.store or options.folder:
        where = ["folder"] * options.folder
        return _kill(options.cycles, options.seed, *where, module="tests.faults.shared")
    if options.small or options.jvm:
        module = "tests.faults.forked" if options.small else "tests.faults.sparks"
        return _kill(options.cycles, options.seed, module=module, batch=options.cycles)
    return _kill(options.cycles, options.seed, options.transport)


def _run(module: str, *words: str) -> int:
    return subprocess.run([sys.executable, "-m", module, *words], check=False).returncode


def _kill(cycles: int, seed: int, *how: str, module: str = "tests.faults.batch", batch: int = BATCH) -> int:
    clock = SystemClock()
    begun = clock.monotonic()
    for number, done in enumerate(range(0, cycles, batch)):
        count = min(batch, cycles - done)
        status = _run(module, f"{seed}-{number}", str(count), *how)
        if status:
            return status
    seconds = clock.monotonic() - begun
    sys.stdout.write(f"{cycles} kills, nothing lost, nothing twice, in {seconds:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
