"""The scenarios by jobs that good engineers would write instead."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from tests.benchmarks import process, streaming
from tests.benchmarks.data import SECOND_US
from tests.benchmarks.output import Output, require
from tests.benchmarks.process import Program
from tests.benchmarks.rivals import merge_job
from tests.benchmarks.rivals.duckdb_job import Grid, Job, Sessions
from tests.benchmarks.scenarios.catching_up import rows_arriving, runs_arriving
from tests.benchmarks.scenarios.commands import scheduled_jobs
from tests.benchmarks.scenarios.lakes import new_source, source_of
from tests.benchmarks.scenarios.many import TOUCHED_GROUPS, check_windows, group_ticks, many_rounds
from tests.benchmarks.scenarios.model import scaled
from tests.benchmarks.scenarios.ticks import STREAMING_SHARE, Watcher
from tests.benchmarks.scenarios.windows import GAP_SECONDS, TUMBLING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.benchmarks.scenarios.model import Figures, Run
    from tests.benchmarks.scenarios.windows import Window


def catch_up(window: Window) -> Run:
    """Measure the DuckDB job over windows of a grid."""

    def run(folder: Path, scale: float) -> Figures:
        arriving = rows_arriving(folder, scale)
        job = Job(arriving.source, _beside(folder), _grid(window))
        figures = arriving.measured(job.run)
        arriving.check(window, job.target)
        return figures

    return run


def catch_up_sessions(folder: Path, scale: float) -> Figures:
    """Measure the DuckDB job over sessions."""
    arriving = runs_arriving(folder, scale)
    job = Job(arriving.source, _beside(folder), Sessions(GAP_SECONDS * SECOND_US))
    figures = arriving.measured(job.run)
    arriving.check_runs(arriving.runs - 1, job.target)
    return figures


def catch_up_by_merge(folder: Path, scale: float) -> Figures:
    """Measure the Spark job over tumbling windows."""
    arriving = rows_arriving(folder, scale)
    job = merge_job.Job(streaming.session(), arriving.source, _beside(folder), TUMBLING.length)
    figures = arriving.measured(job.run)
    arriving.check(TUMBLING, job.target, shows_open=True)
    return figures


def scheduled(folder: Path, scale: float) -> Figures:
    """Measure the DuckDB job as a process that begins with nothing."""
    source = DeltaTable(new_source(folder))
    target = _beside(folder) / "target"
    return scheduled_jobs(source, scale, lambda: process.called(_duckdb(folder)), target)


def many_streams(count: int) -> Run:
    """Measure as many DuckDB jobs in one process, which differ in what they calculate."""

    def run(folder: Path, scale: float) -> Figures:
        source, number = new_source(folder), scaled(count, scale, 2)
        jobs = [Job(source, folder / f"job_{n}", _grid(TUMBLING), plus=n) for n in range(number)]
        figures = many_rounds(DeltaTable(source), scale, lambda: [job.run() for job in jobs])
        check_windows([job.target for job in jobs], scale)
        return figures

    return run


def known_groups(groups: int) -> Run:
    """Measure the DuckDB job in ticks that touch a hundred groups; its watermark closes those of all."""

    def run(folder: Path, scale: float) -> Figures:
        job = Job(new_source(folder), _beside(folder), _grid(TUMBLING))
        figures, ticks = group_ticks(folder, groups, scale, job.run)
        others = scaled(groups, scale, TOUCHED_GROUPS) - TOUCHED_GROUPS
        written = DeltaTable(job.target).count()
        require(written, others + ticks * TOUCHED_GROUPS, "windows that the ticks closed")
        return figures

    return run


def _beside(folder: Path) -> Path:
    return folder / "job"


def _grid(window: Window) -> Grid:
    return Grid(window.length * SECOND_US, window.step * SECOND_US)


def _command(folder: Path, job: str, *arguments: object) -> list[str]:
    module = [sys.executable, "-m", f"tests.benchmarks.rivals.{job}"]
    return [*module, str(source_of(folder)), str(_beside(folder)), *map(str, arguments)]


def _duckdb(folder: Path, *options: str) -> list[str]:
    return _command(folder, "duckdb_job", TUMBLING.length, TUMBLING.step, *options)


class _Filled(Output):
    """An output that shows windows while they fill: a commit's rows are there with the window behind."""

    def wait_for(self, start_us: int, program: Program, seconds: float = 600.0) -> None:
        """Wait for the window that fills when this one closes."""
        super().wait_for(start_us + TUMBLING.length * SECOND_US, program, seconds)


DUCKDB_JOB = Watcher(
    lambda folder: Program(_duckdb(folder, "--watch"), folder / "job.log"),
    lambda folder: Output(_beside(folder) / "target"),
)
MERGE_JOB = Watcher(
    lambda folder: Program(_command(folder, "merge_job", TUMBLING.length), folder / "job.log"),
    lambda folder: _Filled(_beside(folder) / "target"),
    share=STREAMING_SHARE,
)
MERGE_JOB_LATE = replace(MERGE_JOB, output=DUCKDB_JOB.output)
