"""What the steps of a round cost by their size: processor seconds of this process, measured and fitted.

Windows on the small path, without Spark. A cost is the mean of some repetitions: now and then a table's
handle is opened anew, and files are put together.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from lakestream import Lake, Settings
from lakestream.clock import SystemClock
from lakestream.storage.places.leases import Leases, Member

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BEGIN_US = 1_735_689_600_000_000
SETTINGS = Settings(durability="process", sink_commits_per_second=0)
REPEATED = 12
LEASED = 1_000


@dataclass(frozen=True)
class Cost:
    """Seconds of a step: ``fixed`` of them, and ``each`` more for one more of what it depends on."""

    fixed: float
    each: float

    def of(self, size: float) -> float:
        """Return the seconds for a size."""
        return self.fixed + self.each * size


@dataclass(frozen=True)
class Costs:
    """What steps cost: see :data:`MEASURES`."""

    look: Cost
    round: Cost
    rows: Cost
    groups: Cost
    windows: Cost
    commits: Cost
    files: Cost
    outputs: Cost
    daemons: Cost

    @classmethod
    def read(cls, path: Path) -> Costs:
        """Read what :meth:`written` gave."""
        return cls(**{name: Cost(**cost) for name, cost in json.loads(path.read_text()).items()})

    def written(self) -> str:
        """Return them as JSON."""
        return json.dumps(asdict(self), indent=2) + "\n"


def fitted(sizes: Sequence[float], seconds: Sequence[float]) -> Cost:
    """Return the line through measured costs; of the relative errors, so that small sizes count as well."""
    found = np.array(seconds)
    lines = np.column_stack([np.ones(len(found)), sizes]) / found[:, None]
    fixed, each = np.linalg.lstsq(lines, np.ones(len(found)), rcond=None)[0]
    return Cost(max(0.0, float(fixed)), max(0.0, float(each)))


def rows_of(second: float, rows: int, groups: int, apart: int = 0) -> pa.Table:
    """Return rows of some groups, a moment apart, or so many seconds."""
    numbers = np.arange(rows)
    times = BEGIN_US + int(second * 1e6) + (numbers * apart * 1_000_000 if apart else numbers % 1000)
    columns = {"g": np.arange(rows) % groups, "v": np.arange(rows, dtype=float)}
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), **columns})


class Fed:
    """A lake with a stream on each of some tables, and how far its time has come."""

    def __init__(self, folder: Path, streams: int = 1, settings: Settings = SETTINGS) -> None:
        self.lake = Lake(folder, settings=settings)
        self._second = 0.0
        for number in range(streams):
            self.lake.sql(f"CREATE TABLE m{number} (ts TIMESTAMP, g BIGINT, v DOUBLE)")
            self.lake.sql(
                f"CREATE STREAM s{number} INTERVAL(10s) SLIDING(10s) FROM m{number} PARTITION BY g "
                f"INTO o{number} AS SELECT _twstart AS at, avg(v + {number}) AS v FROM %%trows"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.lake.close()

    def write(self, number: int, rows: int = 100, groups: int = 10, apart: int = 0) -> None:
        """Commit rows to a table."""
        path = f"{self.lake.root}/main/m{number}"
        write_deltalake(path, rows_of(self._second, rows, groups, apart), mode="append")

    def round(
        self,
        streams: Sequence[int] = (0,),
        rows: int = 100,
        groups: int = 10,
        *,
        apart: int = 0,
        commits: int = 1,
    ) -> float:
        """Write commits for some streams; return the processor seconds of the round that takes them."""
        for _ in range(commits):
            self._second += max(5, apart * rows)
            for number in streams:
                self.write(number, rows, groups, apart)
        begun = time.process_time()
        reports = self.lake.tick_once()
        seconds = time.process_time() - begun
        if len(reports) != len(streams) or any(report.error for report in reports):
            raise RuntimeError(f"{len(reports)} ticks of {len(streams)}: {reports}")
        return seconds

    def look(self) -> float:
        """Return the processor seconds of a look that finds nothing new, of some of them."""
        begun = time.process_time()
        for _ in range(20):
            if self.lake.tick_once():
                raise RuntimeError("a look found something new")
        return (time.process_time() - begun) / 20


def _mean(step: Callable[[], float], repeated: int = REPEATED) -> float:
    return sum(step() for _ in range(repeated)) / repeated


def _of_streams(folder: Path, streams: int, step: Callable[[Fed], float]) -> float:
    with Fed(folder, streams) as fed:
        fed.round(range(streams))
        fed.round(range(streams))
        return _mean(lambda: step(fed))


def _look(folder: Path, streams: int) -> float:
    return _of_streams(folder, streams, Fed.look)


def _round(folder: Path, streams: int) -> float:
    return _of_streams(folder, streams, lambda fed: fed.round(range(streams)))


def _rows(folder: Path, rows: int) -> float:
    with Fed(folder) as fed:
        return _mean(lambda: fed.round(rows=rows))


def _groups(folder: Path, groups: int) -> float:
    with Fed(folder) as fed:
        fed.round(rows=groups, groups=groups)
        return _mean(fed.round)


def _windows(folder: Path, windows: int) -> float:
    """A row in each window of one group."""
    with Fed(folder) as fed:
        return _mean(lambda: fed.round(rows=windows, groups=1, apart=10))


def _commits(folder: Path, commits: int) -> float:
    with Fed(folder) as fed:
        fed.round()
        return _mean(lambda: fed.round(commits=commits), 3)


def _files(folder: Path, files: int) -> float:
    """The source has a file of each commit."""
    with Fed(folder) as fed:
        fed.round(commits=files)
        return _mean(fed.round)


def _outputs(folder: Path, files: int) -> float:
    """The output has a file of each tick, as nothing puts them together."""
    with Fed(folder, settings=replace(SETTINGS, compact_commits=0)) as fed:
        for _ in range(files):
            fed.round()
        return _mean(fed.round)


def _daemons(folder: Path, daemons: int) -> float:
    """A renewal of the leases on :data:`LEASED` streams."""
    folder.mkdir()
    wanted = {f"{number:032x}" for number in range(LEASED)}
    all_of_them = [
        Leases(str(folder), Member(number, "h", "u", "s"), lambda: wanted, SystemClock())
        for number in range(daemons)
    ]
    # Of many the last ones, when all have their part.
    for leases in all_of_them:
        leases.renew()
    begun = time.process_time()
    for leases in all_of_them[-REPEATED:]:
        leases.renew()
    return (time.process_time() - begun) / len(all_of_them[-REPEATED:])


MEASURES: dict[str, tuple[Callable[[Path, int], float], Sequence[int]]] = {
    "look": (_look, (4, 16, 48)),
    "round": (_round, (4, 16, 48)),
    "rows": (_rows, (100, 10_000, 100_000)),
    "groups": (_groups, (1_000, 20_000, 160_000)),
    "windows": (_windows, (10, 1_000, 20_000)),
    "commits": (_commits, (1, 30, 300)),
    "files": (_files, (10, 100, 1_000)),
    "outputs": (_outputs, (10, 100, 400)),
    "daemons": (_daemons, (1, 10, 100)),
}
"""How a step is measured in a folder that is not there yet, and at which sizes: a look by sources, a round by
the streams that tick; a tick of one stream by its rows, groups known, windows closed, commits behind, files
of the source and of the output; a renewal of the leases by daemons."""


def measured(say: Callable[[str], None] = lambda _: None) -> Costs:
    """Measure all costs at three sizes each, and fit them."""
    costs = {}
    with tempfile.TemporaryDirectory(prefix="lakestream-scale-") as folder:
        for name, (measure, sizes) in MEASURES.items():
            found = {size: measure(Path(folder, f"{name}{size}"), size) for size in sizes}
            say(f"{name}: " + ", ".join(f"{size}: {seconds * 1e3:.1f} ms" for size, seconds in found.items()))
            costs[name] = fitted([*found], [*found.values()])
    return Costs(**costs)


def taken(streams: int, ticking: Sequence[Sequence[int]]) -> float:
    """Return the processor seconds of rounds in which these streams tick, of a lake with some."""
    scratch = tempfile.TemporaryDirectory(prefix="lakestream-scale-")
    with scratch as folder, Fed(Path(folder), streams) as fed:
        fed.round(range(streams))
        fed.round(range(streams))
        return sum(fed.round(one) for one in ticking)
