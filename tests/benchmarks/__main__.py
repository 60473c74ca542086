"""Run benchmarks: each repetition of each system in a process of its own, systems interleaved.

Usage: ``python -m tests.benchmarks [--scenario NAME]… [--repeat N] [--scale F]``
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks.scenarios import SCENARIOS

UNITS = {"seconds": "s", "rows_per_second": "rows/s", "peak_mib": "MiB"}
RESULTS = Path("build/bench.json")


def main() -> int:
    """Run the chosen scenarios and print their medians; exit status 1 when a run failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("--scenario", action="append", choices=sorted(SCENARIOS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows, for a quick look")
    options = parser.parse_args()
    figures: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    failed = False
    for scenario in options.scenario or list(SCENARIOS):
        for _ in range(options.repeat):
            for system in SCENARIOS[scenario]:
                measured = _measure(scenario, system, options.scale)
                failed |= measured is None
                for metric, values in (measured or {}).items():
                    figures[scenario, system, metric] += values
    rows = [_summary(key, values) for key, values in figures.items()]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    _show(rows)
    return 1 if failed else 0


def _measure(scenario: str, system: str, scale: float) -> dict[str, list[float]] | None:
    """Run one repetition in a child process; None when it failed (its errors were shown)."""
    command = [sys.executable, "-m", "tests.benchmarks.child", scenario, system, str(scale)]
    child = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if child.returncode:
        sys.stderr.write(f"{scenario} by {system} failed with status {child.returncode}\n")
        return None
    measured: dict[str, list[float]] = json.loads(child.stdout.splitlines()[-1])
    sys.stderr.write(
        f"{scenario:24} {system:22} { {k: round(statistics.median(v), 3) for k, v in measured.items()} }\n"
    )
    return measured


def _summary(key: tuple[str, str, str], values: list[float]) -> dict[str, object]:
    scenario, system, metric = key
    return {
        "scenario": scenario,
        "system": system,
        "metric": metric,
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "unit": UNITS[metric],
    }


def _show(rows: list[dict[str, object]]) -> None:
    table = Table("scenario", "system", "metric", "median", "min", "max", "unit")
    for row in rows:
        figures = (f"{row[name]:,.3f}" for name in ("median", "min", "max"))
        table.add_row(
            str(row["scenario"]), str(row["system"]), str(row["metric"]), *figures, str(row["unit"])
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    sys.exit(main())
