"""The scenarios by other engines of streams, which have an environment of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks import data
from tests.benchmarks.data import START_US
from tests.benchmarks.output import Files, require
from tests.benchmarks.process import Program, Worker
from tests.benchmarks.rivals import environment
from tests.benchmarks.scenarios.catching_up import rows_arriving, runs_arriving
from tests.benchmarks.scenarios.lakes import source_of
from tests.benchmarks.scenarios.model import WARM_ROUNDS
from tests.benchmarks.scenarios.ticks import Watcher
from tests.benchmarks.scenarios.windows import TUMBLING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.benchmarks.scenarios.model import Figures, Run

_FAR_US = START_US + 100 * 365 * 86_400 * data.SECOND_US


def flink_catch_up(mode: str) -> Run:
    """Measure Flink over tumbling windows: ``batch`` or ``streaming``."""

    def run(folder: Path, scale: float) -> Figures:
        arriving = rows_arriving(folder, scale)
        with Worker(_flink(mode, "tumbling"), folder / "flink.log") as worker:
            figures = arriving.measured_apart(worker, folder)
        _check(folder, arriving.rows // TUMBLING.length, arriving.rows)
        return figures

    return run


def flink_sessions(folder: Path, scale: float) -> Figures:
    """Measure Flink over sessions, which it has in streaming mode only."""
    arriving = runs_arriving(folder, scale)
    with Worker(_flink("streaming", "session"), folder / "flink.log") as worker:
        figures = arriving.measured_apart(worker, folder)
    _check(folder, arriving.rows // data.RUN_ROWS, arriving.rows)
    return figures


def pathway_catch_up(folder: Path, scale: float) -> Figures:
    """Measure Pathway over tumbling windows; it compiles nothing, so that one warm-up is enough."""
    arriving = rows_arriving(folder, scale)
    with Worker(_pathway("files"), folder / "pathway.log") as worker:
        figures = arriving.measured_apart(worker, folder, warm=1)
    _check(folder, arriving.rows // TUMBLING.length, arriving.rows, last=1)
    return figures


def _check(folder: Path, windows: int, rows: int, last: int = WARM_ROUNDS) -> None:
    """Hold the last round's output against all its windows: the end of the input closes the last ones."""
    found = Files(folder / f"windows_{last}").counted(START_US, _FAR_US)
    require(found, (windows, rows), "windows in the output and their rows")


def _pathway(mode: str, *folders: Path) -> list[str]:
    return [environment.RIVALS.python, "-m", "tests.benchmarks.rivals.pathway_job", mode, *map(str, folders)]


def _flink(mode: str, kind: str, *folders: Path) -> list[str]:
    jars = ",".join(map(str, environment.flink_jars()))
    module = [environment.RIVALS.python, "-m", "tests.benchmarks.rivals.flink"]
    return [*module, mode, kind, jars, *map(str, folders)]


FLINK = Watcher(
    lambda folder: Program(
        _flink("watch", "tumbling", source_of(folder), folder / "windows"), folder / "flink.log"
    ),
    lambda folder: Files(folder / "windows"),
)
PATHWAY = Watcher(
    lambda folder: Program(_pathway("watch", source_of(folder), folder / "windows"), folder / "pathway.log"),
    lambda folder: Files(folder / "windows"),
)
