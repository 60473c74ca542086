from __future__ import annotations

import io
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from rich.console import Console

from jobs.demo import report
from jobs.demo.check import Comparison, Difference
from jobs.demo.feed import Feed, Tick, feed
from jobs.demo.sources import Arrival
from lakestream.clock import ManualClock
from lakestream.errors import StreamError


@dataclass
class RecordingLake:
    """Stands in for a lake: notes what is asked of it; every run is one tick of one second."""

    clock: ManualClock
    calls: list[str] = field(default_factory=list)
    failed: list[Any] = field(default_factory=list)

    def create_streams(self) -> None:
        self.calls.append("streams")

    def insert(self, table: str, rows: pa.Table) -> int:
        self.calls.append(f"{table} {rows.num_rows}")
        return 1

    def run(self, until: str) -> Any:
        self.calls.append(f"run until {until}")
        self.clock.advance(timedelta(seconds=1))
        tick = SimpleNamespace(stream="s", rows_in=3, rows_out=1, seconds=1.0)
        return SimpleNamespace(ticks=[tick], failed=self.failed)


def arrival(day: int, weather: int, flights: int) -> Arrival:
    rows = pa.table({"ts": pa.array([None] * max(weather, flights), pa.timestamp("us"))})
    when = date(2013, 2, day)
    return Arrival(when, when, rows.slice(0, weather), rows.slice(0, flights))


@pytest.fixture
def lake() -> RecordingLake:
    return RecordingLake(ManualClock(datetime(2025, 1, 1, tzinfo=UTC)))


def quiet() -> Console:
    return Console(file=io.StringIO(), width=200)


def test_history_streams_then_days_with_a_run_every_few(lake: RecordingLake) -> None:
    arrivals = [arrival(1, 2, 3), arrival(2, 1, 1), arrival(3, 1, 1), arrival(4, 0, 1)]
    fed = feed(cast("Any", lake), arrivals, 2, lake.clock, quiet(), lake.create_streams)
    assert lake.calls == [
        *("nyc.weather 2", "nyc.flights 3"),
        "streams",
        "run until idle",
        *("nyc.weather 1", "nyc.flights 1"),
        *("nyc.weather 1", "nyc.flights 1"),
        "run until idle",
        "nyc.flights 1",
        "run until idle",
    ]
    assert (fed.rows, fed.commits, fed.seconds, len(fed.ticks)) == (10, 7, 3.0, 3)


def test_a_stream_that_failed_ends_the_demo(lake: RecordingLake) -> None:
    lake.failed = [SimpleNamespace(stream="nyc.wind_6h_stream", error="no such column")]
    with pytest.raises(StreamError, match=r"nyc\.wind_6h_stream failed: no such column"):
        feed(cast("Any", lake), [arrival(1, 1, 1)], 1, lake.clock, quiet(), lake.create_streams)


def test_ticks_are_summed_up_per_stream_and_in_all() -> None:
    ticks = tuple(Tick(name, 10, 2, seconds) for name, seconds in (("a", 1.0), ("a", 3.0), ("b", 2.0)))
    console = quiet()
    report.print_ticks(Feed(30, 3, 6.0, ticks), console)
    lines = [line.split() for line in cast("io.StringIO", console.file).getvalue().splitlines()]
    assert ["a", "2", "20", "4", "2.000", "2.900"] in lines
    assert ["b", "1", "10", "2", "2.000", "2.000"] in lines
    assert ["all", "3", "30", "6", "2.000", "2.900"] in lines


@pytest.mark.parametrize("differing", [False, True])
def test_a_difference_is_printed_and_does_not_hold(differing: bool) -> None:
    differences = (Difference(("JFK", 1), ("JFK", 2)),) if differing else ()
    verified = SimpleNamespace(equal_rows=1, expected_rows=1, differing=[], holds=True)
    console = quiet()
    compared = {"o": Comparison(("origin", "n"), 1, differences)}
    assert report.print_checks(cast("Any", {"o": verified}), compared, console) is not differing
    text = cast("io.StringIO", console.file).getvalue()
    assert ("total: 1 of 2 rows equal" if differing else "total: 1 of 1 rows equal") in text
    assert ("Rows that differ" in text) is differing


def test_a_row_that_verify_finds_does_not_hold() -> None:
    verified = SimpleNamespace(equal_rows=0, expected_rows=1, differing=["JFK"], holds=False)
    compared = {"o": Comparison(("origin",), 1, ())}
    assert not report.print_checks(cast("Any", {"o": verified}), compared, quiet())
