"""Windows of CALENDAR lie where the reference says, whatever the clocks of a zone do at midnight."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from lakestream.triggers.grid import grid_of
from tests.properties.test_detection_equals_reference import as_written, micros, relation
from tests.reference.grid import Calendar, windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CALENDARS = (
    *(Calendar("WEEK", weekday=weekday) for weekday in (0, 4, 6)),
    *(Calendar("MONTH", day=day) for day in (1, 25, 28)),
    *(Calendar("QUARTER", month=month) for month in (1, 2, 12)),
    Calendar("YEAR"),
    Calendar("YEAR", month=4, day=6),
    Calendar("YEAR", month=11),
)
ZONES = {
    "UTC": (1965, 2026),
    "Europe/Berlin": (2023, 2026),
    "America/Sao_Paulo": (2014, 2019),  # midnight is skipped in October, and comes late in February
    "America/Havana": (2023, 2026),  # midnight comes twice in November
    "Pacific/Apia": (2011, 2012),  # 30 December 2011, a Friday, is skipped
}
"""Time zones, and the years in which their rows lie."""
MICROSECOND = timedelta(microseconds=1)
INSTANTS = 60


@pytest.mark.parametrize(("zone", "years"), ZONES.items(), ids=ZONES)
def test_windows_lie_where_the_reference_says(spark: SparkSession, zone: str, years: tuple[int, int]) -> None:
    chance = random.Random(zone)
    expected = {
        (number, micros(at)): bounds(calendar, at, zone)
        for number, calendar in enumerate(CALENDARS)
        for at in instants(chance, calendar, zone, years)
    }
    relation(spark, "calendar_instants", [*expected], "n INT, x BIGINT")
    found = spark.sql(" UNION ALL ".join(placed(n, calendar, zone) for n, calendar in enumerate(CALENDARS)))
    assert {(row.n, row.x): (row.low, row.high, row.before) for row in found.collect()} == expected


def instants(chance: random.Random, calendar: Calendar, zone: str, years: tuple[int, int]) -> set[datetime]:
    """Return random instants of the years, and the first and the last one of the windows that hold them."""
    first, last = (datetime(year, 1, 1, tzinfo=UTC) for year in years)
    drawn = {first + (last - first) * chance.random() for _ in range(INSTANTS // 3)}
    holding = [next(windows(calendar, at, ZoneInfo(zone))) for at in drawn]
    return drawn | {w.start for w in holding} | {w.end - MICROSECOND for w in holding}


def bounds(calendar: Calendar, at: datetime, zone: str) -> tuple[int, int, int]:
    """Return where the window that holds an instant begins and ends, and where the one before ended."""
    window = next(windows(calendar, at, ZoneInfo(zone)))
    return micros(window.start), micros(window.end), micros(window.start)


def placed(number: int, calendar: Calendar, zone: str) -> str:
    """Return SQL of where the product places the instants of a calendar."""
    grid = grid_of(as_written(calendar), zone)
    low, high = grid.low("k", "x"), grid.high("k", "x")
    return (
        f"SELECT n, x, {low} AS low, {high} AS high, {grid.high('e', 'x')} AS before FROM (SELECT *, "
        f"{grid.begun('x', 'x')} AS k, {grid.ended('x', 'x')} AS e FROM calendar_instants WHERE n = {number})"
    )
