"""Every state that a power cut may leave: ``python -m tests.faults.power [--scenario NAME]… [--count N]``.

Each scenario is recorded and tried in a process of its own, some at a time, in memory where the machine has
a file system for that. A state's rows are held against those of the whole scenario, which DuckDB and VERIFY
have computed too.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from rich.console import Console
from rich.table import Table

from tests.faults.power.scenarios import SCENARIOS
from tests.faults.power.trying import Tried, say, try_all


def main() -> int:
    """Try the states of all scenarios or some; exit status 1 when a lake did not go on from one of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.power", description=__doc__)
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="may be repeated")
    parser.add_argument("--count", type=int, help="how many states of each scenario; all if not given")
    parser.add_argument("--seed", type=int, default=0, help="which states where not all are tried")
    parser.add_argument("--processes", type=int, default=2, help="scenarios at a time")
    options = parser.parse_args()
    say(f"seed {options.seed}")
    with ProcessPoolExecutor(
        options.processes, mp_context=get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        asked = [
            pool.submit(try_all, name, options.count, options.seed) for name in options.scenario or SCENARIOS
        ]
        return summed([one.result() for one in as_completed(asked)])


def summed(done: list[Tried]) -> int:
    """Say what came of each scenario, and what failed; return the exit status."""
    table = Table("scenario", "states", "distinct", "but for notes", "tried", "failed", "seconds")
    for one in sorted(done, key=lambda one: [*SCENARIOS].index(one.name)):
        figures = (one.states, one.distinct, one.lasting, one.tried, one.failed, round(one.seconds))
        table.add_row(one.name, *map(str, figures))
        for kind, places in one.failures.items():
            say(f"{one.name}: {len(places)} times {kind}", *places[:3])
    Console().print(table)
    return int(any(one.failures for one in done))


if __name__ == "__main__":
    sys.exit(main())
