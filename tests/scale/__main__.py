"""Measure what steps cost, hold the fit against other rounds, and simulate many streams and daemons.

Usage: ``python -m tests.scale [--costs FILE]``; a file of costs that is not there yet is written.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from tests.scale.costs import MEASURES, Cost, Costs, measured, taken
from tests.scale.simulation import Load, expected, simulated

LOADS = (
    Load(100, 1, 0.1),
    Load(100, 1, 0.3),
    Load(100, 1, 1.0),
    Load(1_000, 1, 0.01),
    Load(1_000, 1, 0.1),
    Load(10_000, 100, 0.01),
    Load(10_000, 100, 0.1),
    # 10 TB a day in rows of 100 bytes.
    Load(10_000, 100, 0.1, rows=1_160),
    Load(10_000, 100, 0.1, waits=1.5),
    Load(10_000, 100, 0.5),
)
"""What is simulated: the loads of docs/scale.md."""


def main() -> int:
    """Print the measured costs, the check and the simulated loads."""
    parser = argparse.ArgumentParser(prog="python -m tests.scale")
    parser.add_argument("--costs", type=Path, help="file of measured costs, made when it is not there")
    options = parser.parse_args()
    if options.costs is not None and options.costs.exists():
        costs = Costs.read(options.costs)
    else:
        costs = measured(_say)
        if options.costs is not None:
            options.costs.write_text(costs.written())
    for name in MEASURES:
        cost: Cost = getattr(costs, name)
        _say(f"{name}: {cost.fixed * 1e3:.2f} ms and {cost.each * 1e3:.5f} ms each")
    drawn = random.Random(3)
    ticking = [drawn.sample(range(30), drawn.randint(1, 12)) for _ in range(30)]
    _say(f"30 rounds of other sizes: {taken(30, ticking):.2f} s, by the fit {expected(costs, ticking):.2f} s")
    for load in LOADS:
        found = simulated(load, costs)
        _say(
            f"{load.streams} streams, {load.daemons} daemons, {load.commits_per_second} commits/s of "
            f"{load.rows} rows, {load.waits} s more a round: busy {found.busy:.0%}, half within "
            f"{found.percentile(0.5):.2f} s, 99 of 100 within {found.percentile(0.99):.2f} s, "
            f"{found.left} left"
        )
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
