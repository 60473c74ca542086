"""Windows around rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalake import DeltaTable

from tests.benchmarks import data
from tests.benchmarks.output import require
from tests.benchmarks.scenarios.lakes import new_source, open_lake, run_all, target_of
from tests.benchmarks.scenarios.model import processed, scaled

if TYPE_CHECKING:
    from pathlib import Path

    from tests.benchmarks.scenarios.model import Figures

AROUND_DEVICES, AROUND_ROWS, AROUND_SECONDS, AROUND_ROUNDS = 100, 1_000_000, 60, 3


def around_rows(folder: Path, scale: float) -> Figures:
    """Give every row of a commit a window that reaches back a minute; the last round is measured."""
    source, count = new_source(folder), scaled(AROUND_ROWS, scale, AROUND_DEVICES)
    figures: Figures = {}
    with open_lake(folder) as lake:
        lake.sql(
            "CREATE STREAM s WITH (TIMESTAMP='ts') INTO target AS "
            "SELECT tbname, window_end() AS until, avg(v) AS mean, max(v) AS top FROM source "
            f"GROUP BY tbname, SLIDINGWINDOW(ss, {AROUND_SECONDS}) OVER (PARTITION BY tbname)"
        )
        for number in range(AROUND_ROUNDS):
            data.write_apart(
                data.write_rows,
                path=str(source),
                first=number * count,
                sizes=[count],
                devices=AROUND_DEVICES,
            )
            figures = processed(count, lambda: run_all(lake))
    written = DeltaTable(target_of(folder)).count()
    require(written, count * AROUND_ROUNDS, "windows in the output")
    return figures
