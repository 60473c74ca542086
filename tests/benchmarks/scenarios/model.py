"""What a scenario is, and the figures that a run of it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.benchmarks.process import Spent, spent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    Figures = dict[str, list[float]]
    Run = Callable[[Path, float], Figures]

WARM_ROUNDS = 5
"""Catch-ups of the measured size before the one that is measured: compilers are done by then."""


@dataclass(frozen=True)
class Scenario:
    """Systems that do the same work; ``start`` names the preparation that their folder is a copy of."""

    systems: Mapping[str, Run]
    start: str | None = None


@dataclass(frozen=True)
class Preparation:
    """A folder that several runs start from, made from that of another preparation or from nothing."""

    make: Callable[[Path, float], None]
    start: str | None = None


def scaled(count: int, scale: float, least: int) -> int:
    return max(least, round(count * scale))


def processed(count: int, work: Callable[[], object], pid: int | None = None) -> Figures:
    """Have the work of so many rows done by this process, or by another, and return its figures."""
    took = spent(work, pid)
    return {
        "seconds": [took.seconds],
        "rows_per_second": [count / took.seconds],
        "cpu_seconds": [took.cpu_seconds],
        "peak_mib": [took.peak_mib],
    }


def repeated(rounds: Iterable[Spent]) -> Figures:
    """Return the figures of rounds of the same work: processor seconds are the mean of one."""
    took = list(rounds)
    return {
        "seconds": [one.seconds for one in took],
        "cpu_seconds": [sum(one.cpu_seconds for one in took) / len(took)],
        "peak_mib": [max(one.peak_mib for one in took)],
    }
