"""Many streams on one source, and many groups of which few change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalake import DeltaTable

from tests.benchmarks import data
from tests.benchmarks.output import require
from tests.benchmarks.process import Spent, spent
from tests.benchmarks.scenarios.lakes import new_source, open_lake, run_all, source_of, stream, target_of
from tests.benchmarks.scenarios.model import WARM_ROUNDS, repeated, scaled
from tests.benchmarks.scenarios.ticks import TICK_ROWS
from tests.benchmarks.scenarios.windows import TUMBLING, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.benchmarks.scenarios.model import Figures, Run

MANY, THOUSAND, MANY_ROUNDS = 100, 1_000, 5


def alike(number: int) -> str:
    """Return one of many streams that differ in their windows and filters."""
    length = 5 + number % 20
    options = f"STREAM_OPTIONS(PRE_FILTER(v > {number % 15 - 10}))"
    return stream(Window(length, length).clause(), name=f"s{number}", output=f"t{number}", options=options)


def apart(number: int) -> str:
    """Return one of many streams that differ in what they calculate."""
    return stream(TUMBLING.clause(), name=f"s{number}", output=f"t{number}", mean=f"avg(v) + {number}")


def many_streams(statement: Callable[[int], str], streams: int = MANY) -> Run:
    """Measure until many streams have all taken a thousand new rows of their source."""

    def run(folder: Path, scale: float) -> Figures:
        source = DeltaTable(new_source(folder))
        count = scaled(streams, scale, 2)
        with open_lake(folder) as lake:
            for number in range(count):
                lake.sql(statement(number))
            figures = many_rounds(source, scale, lambda: run_all(lake))
            lags = [status.lag for status in lake.streams()]
            require(lags, [0] * count, "commits that streams lag")
        return figures

    return run


def many_streams_apart(streams: int) -> Run:
    """Measure streams that calculate something different each, and count the windows of each one's output."""

    def run(folder: Path, scale: float) -> Figures:
        figures = many_streams(apart, streams)(folder, scale)
        outputs = (target_of(folder).with_name(f"t{n}") for n in range(scaled(streams, scale, 2)))
        check_windows(outputs, scale)
        return figures

    return run


def check_windows(outputs: Iterable[Path], scale: float) -> None:
    """Hold the outputs of streams or jobs against what their rounds brought."""
    newest = sum(many_shape(scale)) * TICK_ROWS // data.LARGE_DEVICES - 1
    windows = TUMBLING.closed(0, newest) * data.LARGE_DEVICES
    written = [DeltaTable(output).count() for output in outputs]
    require(written, [windows] * len(written), "windows that each closed")


def many_rounds(source: DeltaTable, scale: float, work: Callable[[], object]) -> Figures:
    """Bring a thousand rows and do the work, round after round; the first ones are the warm-up."""

    def one(number: int) -> Spent:
        data.append(source, data.rows(number * TICK_ROWS, TICK_ROWS, data.LARGE_DEVICES))
        return spent(work)

    warm, measured = many_shape(scale)
    return repeated([one(number) for number in range(warm + measured)][warm:])


def many_shape(scale: float) -> tuple[int, int]:
    """Return how many rounds are the warm-up, and how many are measured; queries are new in the first two."""
    return scaled(WARM_ROUNDS, scale, 2), scaled(MANY_ROUNDS, scale, 2)


TOUCHED_GROUPS, GROUP_TICKS = 100, 20


def known_groups(groups: int) -> Run:
    """Measure ticks that touch a hundred groups where many more are known."""

    def run(folder: Path, scale: float) -> Figures:
        new_source(folder)
        with open_lake(folder) as lake:
            lake.sql(stream(TUMBLING.clause()))
            figures, ticks = group_ticks(folder, groups, scale, lambda: run_all(lake))
        written = DeltaTable(target_of(folder)).count()
        require(written, ticks * TOUCHED_GROUPS, "windows that the ticks closed")
        return figures

    return run


def group_ticks(folder: Path, groups: int, scale: float, work: Callable[[], object]) -> tuple[Figures, int]:
    """Have groups known and then touch some, again and again; return the figures, and how many ticks."""
    count, path = scaled(groups, scale, TOUCHED_GROUPS), source_of(folder)
    warm = scaled(WARM_ROUNDS, scale, 1)
    ticks = warm + scaled(GROUP_TICKS, scale, 2)
    data.write_apart(data.write_rows, path=str(path), first=0, sizes=[count], devices=count)
    work()
    source, took = DeltaTable(path), []
    for number in range(1, ticks + 1):
        data.append(source, data.first_devices(number * TUMBLING.step, TOUCHED_GROUPS, count))
        took.append(spent(work))
    return repeated(took[warm:]), ticks
