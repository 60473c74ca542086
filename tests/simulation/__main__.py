"""Take simulated steps: ``python -m tests.simulation --count 1000000 --seed 7``; a failure names its seed."""

from __future__ import annotations

import argparse
import logging
import sys
import traceback
from itertools import count
from typing import TYPE_CHECKING

from lakestream.clock import SystemClock
from tests.simulation import leases, outbox, rounds
from tests.simulation.ground import Ground

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS: dict[str, Callable[[Ground, int], None]] = {
    "leases": leases.run,
    "rounds": rounds.run,
    "outbox": outbox.run,
}
STEPS = 1_000
"""Steps of one simulation; those that bring all to an end come to them."""


def simulate(kind: str, number: str, steps: int = STEPS) -> Ground:
    """Run one simulation of a seed; raises what went wrong."""
    ground = Ground(f"{kind} {number}")
    KINDS[kind](ground, steps)
    return ground


def main() -> int:
    """Simulate until the steps are taken; exit status 1 at the first that fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--count", type=int, default=100_000, help="how many steps (default: 100,000)")
    parser.add_argument("--seed", type=int, default=1, help="other seeds give other steps (default: 1)")
    parser.add_argument("--kind", choices=KINDS, help="of one kind only")
    parser.add_argument("--run", help="one simulation again, by the seed that it was named with")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    kinds = [options.kind] if options.kind else [*KINDS]
    clock, taken, runs = SystemClock(), dict.fromkeys(kinds, 0), 0
    begun = clock.monotonic()
    numbers = [options.run] if options.run else (f"{options.seed}-{n}" for n in count())
    for number in numbers:
        for kind in kinds:
            try:
                taken[kind] += simulate(kind, number).steps
            except Exception:  # noqa: BLE001 - whatever went wrong, the seed is said
                traceback.print_exc()
                sys.stdout.write(f"FAILED: --kind {kind} --run {number}\n")
                return 1
            runs += 1
        if sum(taken.values()) >= options.count:
            break
    seconds = clock.monotonic() - begun
    said = ", ".join(f"{steps:,} of {kind}" for kind, steps in taken.items())
    total = sum(taken.values())
    sys.stdout.write(f"{total:,} steps ({said}) in {runs} simulations hold, {seconds:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
