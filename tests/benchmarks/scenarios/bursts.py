"""A burst of late rows, and the same rows as new ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.benchmarks import data
from tests.benchmarks.data import SECOND_US, START_US
from tests.benchmarks.output import counted, require
from tests.benchmarks.scenarios.catching_up import commit_rows
from tests.benchmarks.scenarios.lakes import open_lake, run_all, source_of, target_of
from tests.benchmarks.scenarios.model import processed
from tests.benchmarks.scenarios.windows import TUMBLING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.benchmarks.scenarios.model import Figures

WARM_BURSTS = 4
"""Bursts before the one that is measured."""

BURST_COMMITS, BURST_WINDOWS = 4, 10


@dataclass(frozen=True)
class _Burst:
    """Rows that fill ten windows of each of a hundred devices evenly."""

    path: Path
    size: int

    @property
    def rows(self) -> int:
        return self.size * BURST_COMMITS

    @property
    def span_us(self) -> int:
        """Event time of the rows that are measured."""
        return BURST_WINDOWS * TUMBLING.length * SECOND_US

    def write(self, start_us: int, commits: int, closed_us: int = 0) -> None:
        """Write rows from an instant on; with ``closed_us``, a row of every device then."""
        data.write_apart(
            data.write_burst,
            path=str(self.path),
            start_us=start_us,
            step_us=self.span_us // (self.rows // data.LARGE_DEVICES),
            first=0,
            sizes=[self.size] * commits,
            closed_us=closed_us,
        )

    def check(self, target: Path, start_us: int, rows_before: int) -> None:
        expected = (data.LARGE_DEVICES * BURST_WINDOWS, rows_before + self.rows)
        require(counted(target, start_us, start_us + self.span_us), expected, "windows and rows of the burst")


def _burst(folder: Path, scale: float) -> _Burst:
    return _Burst(source_of(folder), commit_rows(scale, data.LARGE_DEVICES))


def late_burst(folder: Path, scale: float) -> Figures:
    """The warm-up are bursts into the windows behind the oldest ones."""
    burst = _burst(folder, scale)
    with open_lake(folder) as lake:
        for number in range(WARM_BURSTS, -1, -1):
            burst.write(START_US + number * burst.span_us, BURST_COMMITS)
            figures = processed(burst.rows, lambda: run_all(lake))
    burst.check(target_of(folder), START_US, data.LARGE_DEVICES * burst.span_us // SECOND_US)
    return figures


def same_rows(folder: Path, scale: float) -> Figures:
    """The burst's rows behind the newest ones; a row of every device closes the last window."""
    burst = _burst(folder, scale)
    start_us = START_US + data.large_shape(scale)[0] // data.LARGE_DEVICES * SECOND_US
    with open_lake(folder) as lake:
        for number in range(WARM_BURSTS + 1):
            start_us += (burst.span_us + TUMBLING.length * SECOND_US) if number else 0
            burst.write(start_us, BURST_COMMITS, start_us + burst.span_us)
            figures = processed(burst.rows, lambda: run_all(lake))
    burst.check(target_of(folder), start_us, 0)
    return figures
