"""What the wall clock triggers: a day is fed by the hour, on a clock that runs as fast as the feeding."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pyarrow.compute as pc

from jobs.demo.feed import DATABASE, Tick, run_streams
from jobs.demo.outputs import read_output
from lakestream.clock import ManualClock
from lakestream.lake import Lake
from lakestream.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

DAY = date(2013, 1, 15)
_OUTPUTS = {"bulletin": Path(DATABASE, "bulletin"), "mean": Path("root", "mean")}
_STEP = timedelta(hours=6)
_STATEMENTS = Path(__file__).parents[2] / "tables" / "clock"
_AIRPORTS = ("EWR", "JFK", "LGA")


@dataclass(frozen=True)
class Fired:
    """What fired at an instant of the clock."""

    at: datetime
    ticks: tuple[Tick, ...]


def run(folder: Path, weather: pa.Table, timezone: str) -> Iterator[Fired]:
    """Feed the day's records six hours at a time, and yield what the clock fires after each of them."""
    start = datetime(DAY.year, DAY.month, DAY.day, tzinfo=ZoneInfo(timezone)).astimezone(UTC)
    clock = ManualClock(start)
    with Lake(folder, clock=clock, settings=Settings(timezone=timezone)) as lake:
        lake.sql((_STATEMENTS / "readings.sql").read_text(encoding="utf-8"))
        lake.sql((_STATEMENTS / "series.sql").read_text(encoding="utf-8"), dialect="iotdb")
        for _ in range(4):
            _insert(lake, _between(weather, clock.now(), clock.now() + _STEP))
            clock.advance(_STEP)
            yield Fired(clock.now(), tuple(run_streams(lake)))


def read_outputs(folder: Path) -> dict[str, pa.Table]:
    """Return the rows that were written, by output."""
    return {name: read_output(folder / path) for name, path in _OUTPUTS.items()}


def _between(weather: pa.Table, start: datetime, end: datetime) -> pa.Table:
    within = pc.and_(pc.greater_equal(weather["ts"], start), pc.less(weather["ts"], end))
    return weather.filter(within).select(["tbname", "ts", "temp", "origin"])


def _insert(lake: Lake, rows: pa.Table) -> None:
    lake.insert(f"{DATABASE}.readings", rows)
    for origin in _AIRPORTS:
        points = rows.filter(pc.equal(rows["origin"], origin)).select(["ts", "temp"])
        lake.insert(f"root.nyc.{origin.lower()}", points)
