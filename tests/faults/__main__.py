"""Faults for as long as you like: the random killer, and the whole matrix of crashes.

Usage: ``python -m tests.faults [--cycles N] [--seed N] [--transport auto|arrow|spark] [--matrix]``
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakestream.clock import SystemClock

BATCH = 20
"""Cycles of one lake and one JVM: the reference goes over the whole history at every check, and what killed
processes held in the JVM stays there."""


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
        return int(pytest.main(["-m", "", str(Path(__file__).parent)]))
    return _kill(options.cycles, options.seed, options.transport)


def _kill(cycles: int, seed: int, transport: str) -> int:
    clock = SystemClock()
    begun = clock.monotonic()
    for number, done in enumerate(range(0, cycles, BATCH)):
        count = min(BATCH, cycles - done)
        command = [sys.executable, "-m", "tests.faults.batch", f"{seed}-{number}", str(count), transport]
        status = subprocess.run(command, check=False).returncode
        if status:
            return status
    seconds = clock.monotonic() - begun
    sys.stdout.write(f"{cycles} kills, nothing lost, nothing twice, in {seconds:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
