"""Faults for as long as you like: the random killer, and the whole matrix of crashes.

Usage: ``python -m tests.faults [--cycles N] [--seed N] [--transport auto|arrow|spark] [--matrix]``
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from lakestream import Settings
from lakestream.clock import SystemClock
from lakestream.storage.session import spark_session
from tests.faults import killer


def main() -> int:
    """Run what was asked for; exit status 1 when an output was not what it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--cycles", type=int, default=50, help="how often the streams' process is killed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--transport", choices=["auto", "arrow", "spark"], default="auto")
    parser.add_argument("--matrix", action="store_true", help="all crashes, also those that make test skips")
    options = parser.parse_args()
    if options.matrix:
        os.environ["FAULT_CELLS"] = "all"
        return int(pytest.main([str(Path(__file__).parent)]))
    return _kill(options.cycles, options.seed, options.transport)


def _kill(cycles: int, seed: int, transport: str) -> int:
    folder = Path(tempfile.mkdtemp(prefix="lakestream-faults-"))
    clock = SystemClock()
    begun = clock.monotonic()
    spark = spark_session(Settings(master="local[2]", driver_memory="1g"))
    try:
        written = killer.run(folder, spark, cycles=cycles, seed=seed, transport=transport, tell=_tell)
    except AssertionError as error:
        _tell(f"seed {seed}: {error}\nthe lake is in {folder}")
        return 1
    shutil.rmtree(folder)
    seconds = clock.monotonic() - begun
    _tell(f"{cycles} kills, {written} commits, nothing lost, nothing twice, in {seconds:.0f} s")
    return 0


def _tell(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
