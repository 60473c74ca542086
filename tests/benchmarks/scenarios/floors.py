"""Catching up by one query of DuckDB or Polars over the same files: no stream, but the floor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalake import DeltaTable
from pyarrow import parquet

from tests.benchmarks import data
from tests.benchmarks.data import SECOND_US
from tests.benchmarks.output import require
from tests.benchmarks.rivals.floors import duckdb_cut, duckdb_grid, polars_cut
from tests.benchmarks.scenarios.catching_up import CATCH_UP_DEVICES, rows_arriving, runs_arriving
from tests.benchmarks.scenarios.model import WARM_ROUNDS, processed
from tests.benchmarks.scenarios.windows import GAP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.benchmarks.scenarios.catching_up import CatchUp
    from tests.benchmarks.scenarios.model import Figures, Run
    from tests.benchmarks.scenarios.windows import Cut, Window

    Query = Callable[[Sequence[str], Path], None]

CUTS = {"duckdb": duckdb_cut, "polars": polars_cut}


def catch_up(window: Window) -> Run:
    """Measure DuckDB over windows of a grid."""

    def query(files: Sequence[str], target: Path) -> None:
        duckdb_grid(window.length * SECOND_US, window.step * SECOND_US, files, target)

    def run(folder: Path, scale: float) -> Figures:
        arriving = rows_arriving(folder, scale)
        closed = window.closed(arriving.warm_seconds, arriving.seconds - 1)
        return _measured(arriving, query, folder, closed)

    return run


def catch_up_cut(kind: str, cut: Cut, of: Callable[[str, int, int, Sequence[str], Path], None]) -> Run:
    """Measure a query over windows that rows cut."""

    def query(files: Sequence[str], target: Path) -> None:
        of(kind, GAP_SECONDS * SECOND_US, data.RUN_ROWS, files, target)

    def run(folder: Path, scale: float) -> Figures:
        arriving = runs_arriving(folder, scale)
        closed = cut.closed(arriving.rows // CATCH_UP_DEVICES // data.RUN_ROWS)
        return _measured(arriving, query, folder, closed)

    return run


def _measured(arriving: CatchUp, query: Query, folder: Path, closed: int) -> Figures:
    """Measure the query over the files of the last round; windows of a device that these rows close."""
    for number in range(WARM_ROUNDS):
        arriving.write(number)
    warm = DeltaTable(arriving.source).file_uris()
    query(warm, folder / "warm.parquet")
    arriving.write(WARM_ROUNDS)
    measured = [file for file in DeltaTable(arriving.source).file_uris() if file not in warm]
    target = folder / "target.parquet"
    figures = processed(arriving.rows, lambda: query(measured, target))
    written = parquet.read_metadata(target).num_rows
    require(written, closed * CATCH_UP_DEVICES, "windows in the output")
    return figures
