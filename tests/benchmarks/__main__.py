"""Run benchmarks: every run in a process of its own, systems and scenarios interleaved, medians at the end.

Usage: ``python -m tests.benchmarks [--scenario NAME]… [--system NAME]… [--repeat N] [--scale F]``;
``python -m tests.benchmarks --short`` for what ``ratios.toml`` bounds; ``--growth`` for scenarios at several
sizes, and ``--plots`` for the page of plots of the growth measured last; and
``python -m tests.benchmarks --report [PAGE]`` for a table in Markdown of the figures measured last.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from tests.benchmarks import growth, ratios, report
from tests.benchmarks.repetition import Repetition
from tests.benchmarks.rivals import environment
from tests.benchmarks.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RESULTS, SHORT_RESULTS = Path("build/bench.json"), Path("build/bench-short.json")
GROWTH, PLOTS = Path("build/growth.json"), Path("docs/benchmarks")


class Measured:
    """The figures of runs so far, and whether one of them failed."""

    def __init__(self) -> None:
        self.failed = False
        self._apart: bool | None = None
        self._figures: dict[tuple[str, str, str], list[float]] = defaultdict(list)

    def repeat(self, scenarios: Iterable[str], systems: Sequence[str] | None, scale: float) -> None:
        """Run scenarios by systems, or by all that they have, once."""
        with tempfile.TemporaryDirectory(prefix="lakestream-bench-") as root:
            repetition = Repetition(Path(root), scale)
            for scenario in scenarios:
                for system in SCENARIOS[scenario].systems:
                    if (systems is None or system in systems) and self._is_there(scenario, system):
                        self._add(scenario, system, repetition.run(scenario, system))

    def rows(self) -> list[dict[str, object]]:
        """Return the medians."""
        return report.summary(self._figures)

    def _is_there(self, scenario: str, system: str) -> bool:
        """Return whether a system can run at all: those apart need an environment, which is made once."""
        if system not in environment.APART:
            return True
        if self._apart is None:
            self._apart = environment.RIVALS.make()
        if not self._apart:
            sys.stderr.write(f"{scenario:24} {system:22} not there\n")
        return self._apart

    def _add(self, scenario: str, system: str, measured: dict[str, list[float]] | None) -> None:
        self.failed |= measured is None
        for metric, values in (measured or {}).items():
            self._figures[scenario, system, metric] += values
        medians = {metric: round(statistics.median(values), 4) for metric, values in (measured or {}).items()}
        sys.stderr.write(f"{scenario:24} {system:22} {medians or 'failed'}\n")


def main() -> int:
    """Run the chosen scenarios, or report on the last run; exit status 1 when a run failed."""
    options = _options()
    if options.report is not None:
        _report(options.report)
        return 0
    if options.plots:
        return _plots()
    if options.growth:
        return _growth(options)
    return _short() if options.short else _long(options)


def _long(options: argparse.Namespace) -> int:
    measured = Measured()
    for _ in range(options.repeat):
        measured.repeat(options.scenario or list(SCENARIOS), options.system, options.scale)
        report.write(measured.rows(), RESULTS)
    Console(width=140).print(report.terminal_table(measured.rows()))
    return 1 if measured.failed else 0


def _short() -> int:
    """Hold lakestream's seconds against the bounds; exit status 1 when one does not hold."""
    measured, bounds = Measured(), ratios.read()
    for bounded in bounds:
        measured.repeat([bounded.scenario], bounded.systems, bounded.scale)
    report.write(measured.rows(), SHORT_RESULTS)
    compared = ratios.compared(bounds, measured.rows())
    for line, holds in compared:
        sys.stdout.write(f"{'ok    ' if holds else 'beyond'} {line}\n")
    return 0 if all(holds for _, holds in compared) else 1


def _growth(options: argparse.Namespace) -> int:
    """Measure axes at their sizes, once, by their systems or some of them."""
    found: list[dict[str, object]] = []
    failed = False
    for axis in growth.AXES:
        if options.scenario is not None and axis.scenario not in options.scenario:
            continue
        for share in axis.scales:
            measured = Measured()
            chosen = [one for one in axis.systems if options.system is None or one in options.system]
            measured.repeat([axis.scenario], chosen, share * options.scale)
            found += growth.points(measured.rows(), axis, share * options.scale)
            failed |= measured.failed
            report.write(found, GROWTH)
    return 1 if failed else 0


def _plots() -> int:
    """Write the plots of the growth measured last, and its numbers beside them."""
    if not environment.RIVALS.make():
        return 1
    numbers = PLOTS / GROWTH.name
    shutil.copy(GROWTH, numbers)
    command = [environment.RIVALS.python, "-m", "tests.benchmarks.plots", str(numbers), str(PLOTS)]
    subprocess.run(command, check=True)
    found = json.loads(numbers.read_text(encoding="utf-8"))
    report.fill(PLOTS / "growth.md", growth.markdown(found))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS), metavar="NAME")
    parser.add_argument("--system", action="append", metavar="NAME", help="only this one; may be repeated")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows, for a quick look")
    parser.add_argument("--short", action="store_true", help="hold the ratios of ratios.toml, in minutes")
    parser.add_argument("--growth", action="store_true", help=f"scenarios at several sizes, into {GROWTH}")
    parser.add_argument("--plots", action="store_true", help=f"run nothing; draw {GROWTH} into {PLOTS}")
    parser.add_argument(
        "--report",
        nargs="?",
        const="-",
        metavar="PAGE",
        help=f"run nothing; render {RESULTS} as Markdown, into the page's block of figures when one is given",
    )
    return parser.parse_args()


def _report(page: str) -> None:
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    if page == "-":
        sys.stdout.write(report.markdown(rows))
    else:
        report.fill(Path(page), report.markdown(rows))


if __name__ == "__main__":
    sys.exit(main())
