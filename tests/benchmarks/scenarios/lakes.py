"""Lakes that lakestream keeps, and how it is run: in this process, as a command, as a program."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.benchmarks import process
from tests.benchmarks.output import require
from tests.benchmarks.process import Program, Spent

if TYPE_CHECKING:
    from pathlib import Path

    from lakestream import Lake


def source_of(folder: Path) -> Path:
    """Return the table that all systems read."""
    return folder / "lake" / "main" / "source"


def target_of(folder: Path) -> Path:
    """Return lakestream's output; the other systems write beside the lake."""
    return folder / "lake" / "main" / "target"


def open_lake(folder: Path) -> Lake:
    """Open the lake of a run."""
    from lakestream import Lake

    return Lake(folder / "lake")


def new_source(folder: Path) -> Path:
    """Make a lake with an empty source; needs no Spark."""
    with open_lake(folder) as lake:
        lake.sql("CREATE STABLE source (ts TIMESTAMP, v DOUBLE) TAGS (g INT)")
    return source_of(folder)


def new_runs(folder: Path) -> Path:
    """Make a lake with an empty source for rows in runs."""
    with open_lake(folder) as lake:
        lake.sql("CREATE STABLE source (ts TIMESTAMP, v DOUBLE, state INT, phase INT) TAGS (g INT)")
    return source_of(folder)


def stream(
    clause: str,
    *,
    name: str = "s",
    output: str = "target",
    options: str = "",
    notified: str = "",
    mean: str = "avg(v)",
) -> str:
    """Return the statement of the stream that all systems calculate the same as."""
    return (
        f"CREATE STREAM {name} {clause} FROM source PARTITION BY tbname {options} {notified} INTO {output} "
        f"AS SELECT _twstart AS start, {mean} AS mean, max(v) AS top, count(*) AS n FROM %%trows"
    )


def run_all(lake: Lake) -> None:
    """Run the streams until nothing is left to do."""
    require([tick.error for tick in lake.run().failed], [], "ticks that failed")


def command(folder: Path, *arguments: str) -> list[str]:
    """Return a command over the lake of a run."""
    return [sys.executable, "-m", "lakestream", "--lake", str(folder / "lake"), *arguments]


def called(folder: Path, *arguments: str) -> Spent:
    """Run the command line in a process of its own."""
    return process.called(command(folder, *arguments))


def watching(folder: Path) -> Program:
    """Return the program that keeps the streams current."""
    return Program(command(folder, "run", "--watch"), folder / "watch.log")


def spark_jobs(lake: Lake) -> int:
    """Return how many jobs Spark has run so far."""
    return int(lake.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())
