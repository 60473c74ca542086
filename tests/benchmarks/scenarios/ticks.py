"""One small commit after another, and late rows one by one."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Protocol

from deltalake import DeltaTable

from tests.benchmarks import data
from tests.benchmarks.data import SECOND_US, START_US
from tests.benchmarks.output import Output, require
from tests.benchmarks.process import CLOCK, Program
from tests.benchmarks.scenarios.lakes import (
    called,
    new_runs,
    new_source,
    source_of,
    stream,
    target_of,
    watching,
)
from tests.benchmarks.scenarios.model import scaled
from tests.benchmarks.scenarios.windows import TUMBLING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from tests.benchmarks.scenarios.model import Figures, Run
    from tests.benchmarks.scenarios.windows import Cut

BASE_ROWS, TICK_ROWS = 100_000, 1_000
TICKS, WARM_TICKS = 30, 20
THOUSAND = 1_000
"""Ticks between the first ones and the last ones that are measured of a process."""
STREAMING_SHARE = 0.2
PAUSE_SECONDS = 0.3
"""Between two ticks: what a system still does after its rows are there is not part of the next one."""


class Seen(Protocol):
    """Where the windows of a system appear."""

    def skip(self) -> None:
        """Pass over what is there."""

    def wait_for(self, start_us: int, program: Program) -> None:
        """Wait until the window that starts then appears."""


class Shown(Seen, Protocol):
    """An output that can be counted."""

    def counted(self, first_us: int, until_us: int) -> tuple[int, int]:
        """Return how many windows start in the span, and how many rows they counted."""


@dataclass(frozen=True)
class Watcher:
    """A system that keeps an output current, as a program of its own."""

    program: Callable[[Path], Program]
    output: Callable[[Path], Shown]
    prepare: Callable[[Path], object] = lambda _: None
    """What is done before there are rows."""
    share: float = 1.0
    """Of the ticks: some systems take seconds for each."""


def ticks(
    program: Program,
    source: Path,
    seen: Seen,
    commits: Sequence[tuple[pa.Table, int]],
    warm: int = 0,
    pause: float = PAUSE_SECONDS,
) -> Figures:
    """Measure from a commit being visible to the rows of the window that it closes or changes."""
    table, seconds, before = DeltaTable(source), [], 0.0
    for number, (rows, start_us) in enumerate(commits):
        if number == warm:
            before = program.cpu_seconds()
        CLOCK.sleep(pause)
        seen.skip()
        data.append(table, rows)
        started = CLOCK.monotonic() - data.seconds_since_commit(table, source)
        seen.wait_for(start_us, program)
        seconds.append(CLOCK.monotonic() - started)
    measured = seconds[warm:]
    return {
        "seconds": measured,
        "cpu_seconds": [(program.cpu_seconds() - before) / len(measured)],
        "peak_mib": [program.peak_mib()],
    }


def last_closed(rows: int) -> int:
    """Return the start of the newest window that the first rows of a hundred devices close."""
    newest = rows // data.LARGE_DEVICES - 1
    return START_US + (newest // TUMBLING.length - 1) * TUMBLING.length * SECOND_US


def new_rows(rows_before: int, scale: float, more: int = 0) -> tuple[list[tuple[pa.Table, int]], int]:
    """Return commits of a window each, with the window that each of them closes; how many are warm-up.

    There are as many as are measured, and ``more``.
    """
    warm = scaled(WARM_TICKS, scale, 2)
    commits = []
    for number in range(warm + scaled(TICKS, scale, 3) + more):
        first = rows_before + number * TICK_ROWS
        rows = data.rows(first, TICK_ROWS, data.LARGE_DEVICES)
        commits.append((rows, last_closed(first + TICK_ROWS)))
    return commits, warm


def check_ticks(output: Shown, commits: Sequence[tuple[pa.Table, int]]) -> None:
    """Hold an output against what the ticks brought; the first window may have begun before the query."""
    closed = [start for _, start in commits][1:]
    expected = (len(closed) * data.LARGE_DEVICES, len(closed) * TICK_ROWS)
    require(output.counted(closed[0], closed[-1] + 1), expected, "windows and rows of the ticks")


def base(folder: Path, scale: float) -> int:
    """Write the rows that are there before the first tick and return their number."""
    count = scaled(BASE_ROWS // TICK_ROWS, scale, 3) * TICK_ROWS
    path = str(source_of(folder))
    data.write_apart(data.write_rows, path=path, first=0, sizes=[count], devices=data.LARGE_DEVICES)
    return count


def _begun(watcher: Watcher, folder: Path, scale: float) -> tuple[Path, int]:
    """Return a source with the rows that are there before the first tick, and their number."""
    source = new_source(folder)
    watcher.prepare(folder)
    return source, base(folder, scale)


@contextmanager
def _caught_up(watcher: Watcher, folder: Path, output: Shown, before: int) -> Iterator[Program]:
    """Give the running program of a system that has taken these rows."""
    with watcher.program(folder) as program:
        output.wait_for(last_closed(before), program)
        yield program


def small_tick(watcher: Watcher) -> Run:
    """Each commit brings a window of rows, which closes the one before."""

    def run(folder: Path, scale: float) -> Figures:
        source, before = _begun(watcher, folder, scale)
        commits, warm = new_rows(before, scale * watcher.share)
        output = watcher.output(folder)
        with _caught_up(watcher, folder, output, before) as program:
            figures = ticks(program, source, output, commits, warm)
        check_ticks(output, commits)
        return figures

    return run


def small_tick_thousandth(watcher: Watcher) -> Run:
    """Measure the last of a thousand ticks of a process; growth is how many times the first ones'."""

    def run(folder: Path, scale: float) -> Figures:
        source, before = _begun(watcher, folder, scale)
        commits, warm = new_rows(before, scale, more=scaled(THOUSAND, scale, 10))
        measured, output = scaled(TICKS, scale, 3), watcher.output(folder)
        with _caught_up(watcher, folder, output, before) as program:
            early = ticks(program, source, output, commits[: warm + measured], warm)
            ticks(program, source, output, commits[warm + measured : -measured], pause=0.0)
            late = ticks(program, source, output, commits[-measured:])
        check_ticks(output, commits)
        return late | {"growth": [median(late["seconds"]) / median(early["seconds"])]}

    return run


def small_tick_cut(cut: Cut) -> Run:
    """Each commit brings a run of every device, which closes a window of each."""

    def run(folder: Path, scale: float) -> Figures:
        source = new_runs(folder)
        called(folder, "sql", stream(cut.clause))
        before = scaled(BASE_ROWS // TICK_ROWS, scale, 3)
        path, devices = str(source), data.LARGE_DEVICES
        data.write_apart(data.write_runs, path=path, first=0, sizes=[before * TICK_ROWS], devices=devices)
        warm = scaled(WARM_TICKS, scale, 2)
        last = [before + n for n in range(warm + scaled(TICKS, scale, 3))]
        commits = [
            (data.runs(n * TICK_ROWS, TICK_ROWS, devices), data.run_us(cut.closed(n + 1) - 1)) for n in last
        ]
        output = Output(target_of(folder))
        with watching(folder) as program:
            output.wait_for(data.run_us(cut.closed(before) - 1), program)
            return ticks(program, source, output, commits, warm)

    return run


def streaming_query(folder: Path, *version: str) -> Program:
    """Run the streaming query as a program of its own, as it would be deployed."""
    module = [sys.executable, "-m", "tests.benchmarks.streaming"]
    return Program([*module, str(source_of(folder)), str(folder), *version], folder / "query.log")


def large_source_lakestream(folder: Path, scale: float) -> Figures:
    commits, warm = new_rows(data.large_shape(scale)[0], scale)
    with watching(folder) as program:
        figures = ticks(program, source_of(folder), Output(target_of(folder)), commits, warm)
    check_ticks(Output(target_of(folder)), commits)
    return figures


def large_source_streaming(folder: Path, scale: float) -> Figures:
    """The query starts with the newest commit: it does not have to take the ten million rows first."""
    commits, warm = new_rows(data.large_shape(scale)[0], scale * STREAMING_SHARE)
    newest = DeltaTable(source_of(folder)).version()
    with streaming_query(folder, str(newest)) as program:
        figures = ticks(program, source_of(folder), Output(folder / "target"), commits, warm)
    check_ticks(Output(folder / "target"), commits)
    return figures


def late_row(watcher: Watcher, *, caught_up: bool = False) -> Run:
    """Each tick brings a row of another device for its first window."""

    def run(folder: Path, scale: float) -> Figures:
        warm = scaled(WARM_TICKS, scale, 2)
        late = warm + scaled(TICKS, scale, 3)
        commits = [(data.burst(START_US, 0, number, 1), START_US) for number in range(late)]
        output = watcher.output(folder)
        with watcher.program(folder) as program:
            if not caught_up:
                output.wait_for(last_closed(data.large_shape(scale)[0]), program)
            figures = ticks(program, source_of(folder), output, commits, warm)
        windows = data.LARGE_DEVICES
        expected = (windows, windows * TUMBLING.length + late)
        require(output.counted(START_US, START_US + 1), expected, "the oldest windows and their rows")
        return figures

    return run


LAKESTREAM = Watcher(
    watching,
    lambda folder: Output(target_of(folder)),
    prepare=lambda folder: called(folder, "sql", stream(TUMBLING.clause())),
)
STREAMING = Watcher(streaming_query, lambda folder: Output(folder / "target"), share=STREAMING_SHARE)
