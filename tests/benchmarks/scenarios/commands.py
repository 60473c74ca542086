"""The command line, each call as a process that begins with nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalake import DeltaTable

from tests.benchmarks import data
from tests.benchmarks.output import require
from tests.benchmarks.scenarios.lakes import called, new_source, stream, target_of
from tests.benchmarks.scenarios.model import repeated, scaled
from tests.benchmarks.scenarios.ticks import TICK_ROWS
from tests.benchmarks.scenarios.windows import TUMBLING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.benchmarks.process import Spent
    from tests.benchmarks.scenarios.model import Figures

CALLS, STREAMS = 5, 100


def cli_help(folder: Path, scale: float) -> Figures:
    """Measure what the command line says of itself."""
    return _calls(folder, scale, "--help")


def cli_run(folder: Path, scale: float) -> Figures:
    """Measure scheduled jobs: each call takes a thousand new rows in a process that begins with nothing."""
    source = DeltaTable(new_source(folder))
    called(folder, "sql", stream(TUMBLING.clause()))
    return scheduled_jobs(source, scale, lambda: called(folder, "run"), target_of(folder))


def scheduled_jobs(source: DeltaTable, scale: float, job: Callable[[], Spent], target: Path) -> Figures:
    """Bring a thousand rows and run the job, again and again; the first time is left out."""
    took = []
    for number in range(1 + scaled(CALLS, scale, 2)):
        data.append(source, data.rows(number * TICK_ROWS, TICK_ROWS, data.LARGE_DEVICES))
        took.append(job())
    newest = len(took) * TICK_ROWS // data.LARGE_DEVICES - 1
    windows = TUMBLING.closed(0, newest) * data.LARGE_DEVICES
    require(DeltaTable(target).count(), windows, "windows that the jobs closed")
    return repeated(took[1:])


def cli_status(folder: Path, scale: float) -> Figures:
    """Measure a look at many streams."""
    source = new_source(folder)
    names = [f"s{number}" for number in range(scaled(STREAMS, scale, 2))]
    streams = [stream(TUMBLING.clause(), name=name, output=f"{name}_output") for name in names]
    called(folder, "sql", ";\n".join(streams))
    data.append(DeltaTable(source), data.rows(0, 3_000, data.LARGE_DEVICES))
    called(folder, "run")
    return _calls(folder, scale, "status")


def _calls(folder: Path, scale: float, command: str) -> Figures:
    """Measure calls of a command; the first one, which fills the file cache, is left out."""
    called(folder, command)
    return repeated(called(folder, command) for _ in range(scaled(CALLS, scale, 2)))
