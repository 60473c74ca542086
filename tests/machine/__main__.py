"""Take many random steps: ``python -m tests.machine --actions 10000 --seed 7``; failures become scripts."""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path

from hypothesis import Phase, seed, settings

from lakestream.clock import SystemClock
from tests.machine.steps import Machine, run_machine
from tests.properties.profiles import number

STEPS = 40
"""Steps of one lake."""
BATCH = 3
"""Lakes of one seed."""
FOLDER = Path("build")


def main() -> int:
    """Run until the steps are taken; exit status 1 when an output was not what it had to be."""
    parser = argparse.ArgumentParser(prog="python -m tests.machine")
    parser.add_argument("--actions", type=int, default=1_000, help="how many steps (default: 1,000)")
    parser.add_argument("--seed", type=int, default=1, help="other seeds give other steps (default: 1)")
    parser.add_argument("--spark", action="store_true", help="also what computes anew, which asks for Spark")
    options = parser.parse_args()
    Machine.asks_spark = options.spark
    clock, failed, batch = SystemClock(), 0, options.seed
    begun = clock.monotonic()
    while Machine.taken < options.actions:
        before = Machine.taken
        good = _holds(batch)
        failed += not good
        sys.stdout.write(f"seed {batch}: {Machine.taken - before} steps {'hold' if good else 'FAILED'}\n")
        sys.stdout.flush()
        batch += 1
    seconds = clock.monotonic() - begun
    sys.stdout.write(
        f"{Machine.taken} steps, {failed} of {batch - options.seed} seeds failed, {seconds:.0f} s\n"
    )
    return 1 if failed else 0


def _holds(name: int) -> bool:
    how = settings(
        number(BATCH),
        stateful_step_count=STEPS,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
    )
    try:
        run_machine(how, seed(name)(type("Seeded", (Machine,), {})))
    except Exception:  # noqa: BLE001 - a mismatch, and anything that lakestream raises
        traceback.print_exc()
        FOLDER.mkdir(exist_ok=True)
        file = FOLDER / f"machine-{name}.py"
        file.write_text(Machine.failure, encoding="utf-8")
        sys.stdout.write(f"{Machine.failure}\nwritten to {file}\n")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
