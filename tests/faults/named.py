"""The faults by name, and the tests that show what comes of each."""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

LISTED = Path(__file__).with_name("named.toml")
_LONGEST_SECONDS = 3_600
"""What a test may take before it is taken for one without end, also on a machine with other work."""
_HOW = ("-m", "", "-q", "-o", f"faulthandler_timeout={_LONGEST_SECONDS}")


@dataclass(frozen=True)
class Fault:
    """What can go wrong, what comes of it, and the tests (files, or tests of a file) that show it."""

    name: str
    what: str
    then: str
    tests: tuple[str, ...]

    def has(self, nodeid: str) -> bool:
        """Return whether a test that ran is one of this fault's."""
        return any(nodeid == test or nodeid.startswith((f"{test}::", f"{test}[")) for test in self.tests)


@dataclass(eq=False)  # pytest keeps its plugins in sets
class Outcomes:
    """Hears of each test that pytest runs how it ended, and how long it took."""

    of: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the worst of a test's parts, and what they took together."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration
        if report.when == "call" or report.outcome != "passed":
            self.of[report.nodeid] = report.outcome


def listed() -> list[Fault]:
    """Return all faults, in the order of the list."""
    found = tomllib.loads(LISTED.read_text(encoding="utf-8"))
    return [Fault(name, entry["what"], entry["then"], tuple(entry["tests"])) for name, entry in found.items()]


def run(names: Sequence[str]) -> int:
    """Run the tests of faults, or of all; print what came of each, and return the exit status.

    Raises ValueError for a name that is none.
    """
    faults = listed()
    if unknown := set(names) - {fault.name for fault in faults}:
        raise ValueError(f"there is no fault {', '.join(sorted(unknown))}")
    chosen = [fault for fault in faults if not names or fault.name in names]
    outcomes = Outcomes()
    tests = sorted({test for fault in chosen for test in fault.tests})
    status = int(pytest.main([*_HOW, *tests], plugins=[outcomes]))
    Console().print(_table(chosen, outcomes))
    return status


def _table(faults: Sequence[Fault], outcomes: Outcomes) -> Table:
    table = Table("fault", "what happens", "tests", "seconds", "survived")
    for fault in faults:
        ended = Counter(outcome for nodeid, outcome in outcomes.of.items() if fault.has(nodeid))
        survived = bool(ended["passed"]) and not ended["failed"]
        shown = ", ".join(f"{count} {outcome}" for outcome, count in sorted(ended.items()))
        seconds = sum(taken for nodeid, taken in outcomes.seconds.items() if fault.has(nodeid))
        table.add_row(
            fault.name, fault.what, shown or "none ran", f"{seconds:.0f}", "yes" if survived else "NO"
        )
    return table
