"""What several runs start from: a large source, and a stream that has caught up with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks import data
from tests.benchmarks.data import SECOND_US, START_US
from tests.benchmarks.output import counted, require
from tests.benchmarks.scenarios.lakes import new_source, open_lake, run_all, stream, target_of
from tests.benchmarks.scenarios.windows import TUMBLING

if TYPE_CHECKING:
    from pathlib import Path


def make_large(folder: Path, scale: float) -> None:
    """Make the large source."""
    data.write_apart(data.write_large, path=str(new_source(folder)), scale=scale)


def make_caught_up(folder: Path, scale: float) -> None:
    """Have a stream catch up with the large source."""
    with open_lake(folder) as lake:
        lake.sql(stream(TUMBLING.clause(), options="STREAM_OPTIONS(FILL_HISTORY)"))
        run_all(lake)
    count = data.large_shape(scale)[0]
    seconds = count // data.LARGE_DEVICES
    windows = TUMBLING.closed(0, seconds - 1) * data.LARGE_DEVICES
    expected = (windows, windows * TUMBLING.length)
    require(
        counted(target_of(folder), START_US, START_US + seconds * SECOND_US),
        expected,
        "windows of the source",
    )
