"""Run benchmarks: every run in a process of its own, systems and scenarios interleaved, medians at the end.

Usage: ``python -m tests.benchmarks [--scenario NAME]… [--system NAME]… [--repeat N] [--scale F]``, and
``python -m tests.benchmarks --report [PAGE]`` for a table in Markdown of the figures measured last.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from rich.console import Console

from tests.benchmarks import report
from tests.benchmarks.repetition import Repetition
from tests.benchmarks.scenarios import SCENARIOS

RESULTS = Path("build/bench.json")


def main() -> int:
    """Run the chosen scenarios, or report on the last run; exit status 1 when a run failed."""
    options = _options()
    if options.report is not None:
        _report(options.report)
        return 0
    figures: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    failed = False
    for _ in range(options.repeat):
        with tempfile.TemporaryDirectory(prefix="lakestream-bench-") as root:
            repetition = Repetition(Path(root), options.scale)
            for scenario in options.scenario or list(SCENARIOS):
                for system in _chosen(scenario, options.system):
                    measured = repetition.run(scenario, system)
                    failed |= measured is None
                    for metric, values in (measured or {}).items():
                        figures[scenario, system, metric] += values
                    _say(scenario, system, measured)
        report.write(report.summary(figures), RESULTS)
    Console(width=140).print(report.terminal_table(report.summary(figures)))
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS), metavar="NAME")
    parser.add_argument("--system", action="append", metavar="NAME", help="only this one; may be repeated")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows, for a quick look")
    parser.add_argument(
        "--report",
        nargs="?",
        const="-",
        metavar="PAGE",
        help=f"run nothing; render {RESULTS} as Markdown, into the page's block of figures when one is given",
    )
    return parser.parse_args()


def _chosen(scenario: str, systems: list[str] | None) -> list[str]:
    return [name for name in SCENARIOS[scenario].systems if systems is None or name in systems]


def _report(page: str) -> None:
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    if page == "-":
        sys.stdout.write(report.markdown(rows))
    else:
        report.fill(Path(page), rows)


def _say(scenario: str, system: str, measured: dict[str, list[float]] | None) -> None:
    medians = {metric: round(statistics.median(values), 4) for metric, values in (measured or {}).items()}
    sys.stderr.write(f"{scenario:24} {system:22} {medians or 'failed'}\n")


if __name__ == "__main__":
    sys.exit(main())
