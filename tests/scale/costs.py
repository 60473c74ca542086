"""What the steps of a round cost by their size: processor seconds of this process, measured and fitted.

Windows on the small path, without Spark. A cost is the mean of some repetitions: now and then a table's
handle is opened anew, and files are put together.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from lakestream import Lake, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BEGIN_US = 1_735_689_600_000_000
SETTINGS = Settings(durability="process", sink_commits_per_second=0)
REPEATED = 12


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
    """A look by sources, a tick by its rows and by the groups known, a round by the streams that tick."""

    look: Cost
    rows: Cost
    groups: Cost
    round: Cost

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


def rows_of(second: float, rows: int, groups: int) -> pa.Table:
    """Return rows of some groups, a moment apart."""
    times = BEGIN_US + int(second * 1e6) + np.arange(rows) % 1000
    columns = {"g": np.arange(rows) % groups, "v": np.arange(rows, dtype=float)}
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), **columns})


class Fed:
    """A lake with a stream on each of some tables, and how far its time has come."""

    def __init__(self, folder: Path, streams: int) -> None:
        self.lake = Lake(folder, settings=SETTINGS)
        self._second = 0.0
        for number in range(streams):
            self.lake.sql(f"CREATE TABLE m{number} (ts TIMESTAMP, g BIGINT, v DOUBLE)")
            self.lake.sql(
                f"CREATE STREAM s{number} INTERVAL(10s) SLIDING(10s) FROM m{number} PARTITION BY g "
                f"INTO o{number} AS SELECT _twstart AS at, avg(v + {number}) AS v FROM %%trows"
            )

    def round(self, streams: Sequence[int], rows: int = 100, groups: int = 10) -> float:
        """Write a commit for some streams; return the processor seconds of the round that takes them."""
        self._second += 5
        for number in streams:
            path = f"{self.lake.root}/main/m{number}"
            write_deltalake(path, rows_of(self._second, rows, groups), mode="append")
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


def _mean(step: Callable[[], float]) -> float:
    return sum(step() for _ in range(REPEATED)) / REPEATED


def measured(say: Callable[[str], None] = lambda _: None) -> Costs:
    """Measure all costs at three sizes each, and fit them."""
    looks, rounds, rows, groups = {}, {}, {}, {}
    with tempfile.TemporaryDirectory(prefix="lakestream-scale-") as folder:
        for streams in (4, 16, 48):
            fed = Fed(Path(folder, f"streams{streams}"), streams)
            fed.round(range(streams))
            fed.round(range(streams))
            looks[streams] = _mean(fed.look)
            rounds[streams] = _mean(lambda fed=fed, n=streams: fed.round(range(n)))  # type: ignore[misc]
            fed.lake.close()
        for count in (100, 10_000, 100_000):
            fed = Fed(Path(folder, f"rows{count}"), 1)
            rows[count] = _mean(lambda fed=fed, n=count: fed.round([0], rows=n))  # type: ignore[misc]
            fed.lake.close()
        for count in (1_000, 20_000, 160_000):
            fed = Fed(Path(folder, f"groups{count}"), 1)
            fed.round([0], rows=count, groups=count)
            groups[count] = _mean(lambda fed=fed: fed.round([0]))  # type: ignore[misc]
            fed.lake.close()
    for name, found in {"look": looks, "round": rounds, "rows": rows, "groups": groups}.items():
        say(f"{name}: " + ", ".join(f"{size}: {seconds * 1e3:.1f} ms" for size, seconds in found.items()))
    lines = [fitted([*found], [*found.values()]) for found in (looks, rows, groups, rounds)]
    return Costs(*lines)


def taken(streams: int, ticking: Sequence[Sequence[int]]) -> float:
    """Return the processor seconds of rounds in which these streams tick, of a lake with some."""
    with tempfile.TemporaryDirectory(prefix="lakestream-scale-") as folder:
        fed = Fed(Path(folder), streams)
        fed.round(range(streams))
        fed.round(range(streams))
        seconds = sum(fed.round(one) for one in ticking)
        fed.lake.close()
        return seconds
