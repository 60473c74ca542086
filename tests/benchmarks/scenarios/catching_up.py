"""Catching up with rows that arrived while nothing ran."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
from deltalake import DeltaTable

from tests.benchmarks import data, streaming
from tests.benchmarks.data import SECOND_US, START_US
from tests.benchmarks.output import counted, require
from tests.benchmarks.scenarios.lakes import (
    new_runs,
    new_source,
    open_lake,
    run_all,
    source_of,
    stream,
    target_of,
)
from tests.benchmarks.scenarios.model import WARM_ROUNDS, processed
from tests.benchmarks.scenarios.windows import GAP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.benchmarks.process import Worker
    from tests.benchmarks.scenarios.model import Figures, Run
    from tests.benchmarks.scenarios.windows import Cut, Window

_PROJECTED = "ts, tbname, v * 2 AS twice"
_KEPT = "v > 0"
CATCH_UP_DEVICES, CATCH_UP_COMMITS, COMMIT_ROWS = 1_000, 20, 250_000


def commit_rows(scale: float, whole: int) -> int:
    """Return the rows of a large commit, a multiple of ``whole``."""
    return max(whole, round(COMMIT_ROWS * scale) // whole * whole)


@dataclass(frozen=True)
class CatchUp:
    """Rows that arrive while nothing runs, in rounds: those of the warm-up, then those that are measured."""

    source: Path
    size: int
    writer: Callable[..., None] = data.write_rows

    @property
    def rows(self) -> int:
        return self.size * CATCH_UP_COMMITS

    @property
    def runs(self) -> int:
        """Runs of each device in all."""
        return self.rows * (WARM_ROUNDS + 1) // CATCH_UP_DEVICES // data.RUN_ROWS

    @property
    def warm_seconds(self) -> int:
        """Seconds of event time in the warm-up."""
        return self.rows * WARM_ROUNDS // CATCH_UP_DEVICES

    @property
    def seconds(self) -> int:
        """Seconds of event time in all."""
        return self.warm_seconds + self.rows // CATCH_UP_DEVICES

    def measured(self, process: Callable[[], object]) -> Figures:
        """Write and process round after round and return the figures of the last one."""
        for number in range(WARM_ROUNDS):
            self.write(number)
            process()
        self.write(WARM_ROUNDS)
        return processed(self.rows, process)

    def measured_apart(self, worker: Worker, folder: Path, warm: int = WARM_ROUNDS) -> Figures:
        """Have a worker take the files of each round and return the figures of the last one."""
        for number in range(warm):
            worker.ask(self._linked(number, folder))
        order = self._linked(warm, folder)
        return processed(self.rows, lambda: worker.ask(order), worker.pid)

    def _linked(self, number: int, folder: Path) -> str:
        """Write a round and return the folders of its files, and for its windows."""
        before = set(self.source.glob("*.parquet"))
        self.write(number)
        files, windows = folder / f"files_{number}", folder / f"windows_{number}"
        files.mkdir()
        for file in set(self.source.glob("*.parquet")) - before:
            os.link(file, files / file.name)
        return f"{files} {windows}"

    def write(self, number: int) -> None:
        """Write the rows of a round."""
        self._write(self.rows * number, CATCH_UP_COMMITS)

    def _write(self, first: int, commits: int) -> None:
        data.write_apart(
            self.writer,
            path=str(self.source),
            first=first,
            sizes=[self.size] * commits,
            devices=CATCH_UP_DEVICES,
        )

    def check_runs(self, closed: int, target: Path) -> None:
        """Hold an output against the windows of runs that have closed."""
        found, rows = counted(target, START_US, data.run_us(self.runs))
        windows = closed * CATCH_UP_DEVICES
        require((found, rows), (windows, windows * data.RUN_ROWS), "windows in the output and their rows")

    def check(self, window: Window, target: Path, *, shows_open: bool = False) -> None:
        """Hold an output against the windows of a grid that have closed.

        ``shows_open``: it has those that have not, too, which are not counted.
        """
        windows = window.closed(0, self.seconds - 1) * CATCH_UP_DEVICES
        until = self.seconds - (window.length if shows_open else 0)
        found, _ = counted(target, START_US - window.length * SECOND_US, START_US + until * SECOND_US)
        require(found, windows, "windows in the output")


def rows_arriving(folder: Path, scale: float) -> CatchUp:
    """Return rows for windows of a time grid, of a new source."""
    return CatchUp(new_source(folder), commit_rows(scale, CATCH_UP_DEVICES))


def runs_arriving(folder: Path, scale: float) -> CatchUp:
    """Return rows for windows that rows cut, of a new source."""
    return CatchUp(new_runs(folder), commit_rows(scale, CATCH_UP_DEVICES * data.RUN_ROWS), data.write_runs)


def catch_up_lakestream(window: Window) -> Run:
    def run(folder: Path, scale: float) -> Figures:
        arriving = rows_arriving(folder, scale)
        with open_lake(folder) as lake:
            lake.sql(stream(window.clause()))
            figures = arriving.measured(lambda: run_all(lake))
        arriving.check(window, target_of(folder))
        return figures

    return run


def catch_up_cut(cut: Cut) -> Run:
    def run(folder: Path, scale: float) -> Figures:
        arriving = runs_arriving(folder, scale)
        with open_lake(folder) as lake:
            lake.sql(stream(cut.clause))
            figures = arriving.measured(lambda: run_all(lake))
        arriving.check_runs(cut.closed(arriving.runs), target_of(folder))
        return figures

    return run


def catch_up_sessions_streaming(folder: Path, scale: float) -> Figures:
    arriving = runs_arriving(folder, scale)
    spark = streaming.session()

    def process() -> None:
        what_is_there, gap = {"availableNow": True}, (f"{GAP_SECONDS} seconds",)
        query = streaming.start_query(spark, arriving.source, folder, gap, what_is_there, sessions=True)
        query.awaitTermination()

    figures = arriving.measured(process)
    arriving.check_runs(arriving.runs - 1, folder / "target")
    return figures


def catch_up_streaming(window: Window) -> Run:
    def run(folder: Path, scale: float) -> Figures:
        arriving = rows_arriving(folder, scale)
        spark = streaming.session()

        def process() -> None:
            what_is_there = {"availableNow": True}
            query = streaming.start_query(spark, arriving.source, folder, window.durations(), what_is_there)
            query.awaitTermination()

        figures = arriving.measured(process)
        arriving.check(window, folder / "target")
        return figures

    return run


def catch_up_projection(folder: Path, scale: float) -> Figures:
    """Measure a view of rows as they are, without aggregates."""
    arriving = rows_arriving(folder, scale)
    with open_lake(folder) as lake:
        lake.sql(f"CREATE MATERIALIZED VIEW target AS SELECT {_PROJECTED} FROM source WHERE {_KEPT}")
        figures = arriving.measured(lambda: run_all(lake))
    _check_projection(folder, target_of(folder))
    return figures


def catch_up_projection_streaming(folder: Path, scale: float) -> Figures:
    """Measure the query of Structured Streaming that does the same."""
    arriving, target = rows_arriving(folder, scale), folder / "target"
    spark = streaming.session()

    def process() -> None:
        rows = spark.readStream.format("delta").load(str(arriving.source)).where(_KEPT)
        found = rows.selectExpr(*_PROJECTED.split(", ")).writeStream.format("delta")
        options = {"checkpointLocation": str(folder / "checkpoint")}
        found.options(**options).trigger(availableNow=True).start(str(target)).awaitTermination()

    figures = arriving.measured(process)
    _check_projection(folder, target)
    return figures


def _check_projection(folder: Path, target: Path) -> None:
    source, written = (DeltaTable(table).file_uris() for table in (source_of(folder), target))
    expected = f"SELECT count(*), round(sum(v * 2)) FROM read_parquet({source}) WHERE {_KEPT}"
    found = f"SELECT count(*), round(sum(twice)) FROM read_parquet({written})"
    counted = [duckdb.connect().execute(sql).fetchall() for sql in (found, expected)]
    require(counted[0], counted[1], "rows of the projection and their sum")
