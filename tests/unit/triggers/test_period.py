"""The instants of PERIOD, held against a plain reading of the rules."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakestream.errors import Place
from lakestream.language.model import PeriodTrigger
from lakestream.language.reading.durations import read_duration
from lakestream.triggers.period import Period

NOON, BERLIN = "2025-05-01 12:00", "Europe/Berlin"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def period(length: str, offset: str = "0s", zone: str = "UTC", created: str = "2025-05-01 12:00") -> Period:
    here = Place(1, 1)
    trigger = PeriodTrigger(read_duration(length, here), read_duration(offset, here))
    return Period(trigger, zone, micros(datetime.fromisoformat(created).replace(tzinfo=ZoneInfo(zone))))


def listed(found: Period, start: str, count: int) -> list[str]:
    """List the instants after a local moment, in local time."""
    zone = ZoneInfo(found.zone)
    at = found.last(micros(datetime.fromisoformat(start).replace(tzinfo=zone)))
    instants = []
    for _ in range(count):
        at = found.following(at)
        local = (EPOCH + timedelta(microseconds=at)).astimezone(zone)
        instants.append(local.strftime("%m-%d %H:%M"))
    return instants


@pytest.mark.parametrize(
    ("found", "start", "instants"),
    [
        (
            period("330m", "1m"),
            "2025-05-01 12:00",
            ["05-01 16:31", "05-01 22:01", "05-02 00:01", "05-02 05:31"],
        ),
        (period("25h"), NOON, ["05-02 01:00", "05-03 02:00", "05-04 03:00"]),
        (period("1d", "1h"), NOON, ["05-02 01:00", "05-03 01:00"]),
        (period("2d"), NOON, ["05-03 00:00", "05-05 00:00"]),
        (period("1w"), NOON, ["05-05 00:00", "05-12 00:00"]),
        (period("1n", "2h"), NOON, ["06-01 02:00", "07-01 02:00"]),
        (period("1y"), NOON, ["01-01 00:00"]),
        (period("1q"), NOON, ["07-01 00:00", "10-01 00:00", "01-01 00:00"]),
        (period("1q", "15d"), NOON, ["07-16 00:00", "10-16 00:00"]),
        (period("1w", "1d"), NOON, ["05-06 00:00", "05-13 00:00"]),
        (period("1y", "31d"), NOON, ["02-01 00:00"]),
        # A day of the offset is one of the calendar, of 23 hours here.
        (period("1n", "30d", zone="Europe/Berlin"), "2025-03-05 12:00", ["03-31 00:00"]),
        # Clocks go forward at 02:00 on 30 March 2025, back at 03:00 on 26 October.
        (
            period("6h", zone="Europe/Berlin"),
            "2025-03-29 20:00",
            ["03-30 00:00", "03-30 07:00", "03-30 13:00"],
        ),
        (
            period("12h", zone="Europe/Berlin"),
            "2025-10-25 20:00",
            ["10-26 00:00", "10-26 11:00", "10-26 23:00"],
        ),
        (period("1d", zone=BERLIN), "2025-03-29 20:00", ["03-30 00:00", "03-31 00:00"]),
        # Midnight does not exist on 7 September 2025 in Santiago: clocks go from 00:00 to 01:00.
        (period("1d", zone="America/Santiago"), "2025-09-06 20:00", ["09-07 01:00", "09-08 00:00"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_documented_instants(found: Period, start: str, instants: list[str]) -> None:
    assert listed(found, start, len(instants)) == instants


def instants_of_days(length_us: int, offset_us: int, zone: ZoneInfo, first: date, days: int) -> list[int]:
    """List the instants of a period below a day the plain way."""
    starts = [
        micros(datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)) + offset_us
        for day in (first + timedelta(days=n) for n in range(days + 1))
    ]
    return [at for start, end in pairwise(starts) for at in range(start, end, length_us)]


@settings(max_examples=200, derandomize=True, database=None, deadline=None)
@given(
    minutes=st.integers(1, 1439),
    offset=st.integers(0, 1439),
    zone=st.sampled_from(
        ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/Santiago", "Australia/Lord_Howe"]
    ),
    day=st.dates(date(2024, 12, 1), date(2026, 1, 31)),
    data=st.data(),
)
def test_every_instant_follows_the_one_before(
    minutes: int, offset: int, zone: str, day: date, data: st.DataObject
) -> None:
    found = period(f"{minutes}m", f"{offset}m", zone)
    known = instants_of_days(minutes * 60_000_000, offset * 60_000_000, ZoneInfo(zone), day, 3)
    at = data.draw(st.integers(0, len(known) - 2))
    moment = data.draw(st.integers(known[at], known[at + 1] - 1))
    assert found.last(moment) == known[at]
    assert found.following(known[at]) == known[at + 1]
    assert found.previous(known[at + 1]) == known[at]
    assert found.between(known[0], known[at + 1]) == at


@pytest.mark.parametrize("length", ["25h", "1d", "3d", "1w", "2n", "1q", "1y"])
def test_long_periods_are_counted(length: str) -> None:
    found = period(length, zone="Europe/Berlin")
    first = at = found.last(micros(datetime(2025, 5, 2, tzinfo=UTC)))
    for number in range(10):
        following = found.following(at)
        assert found.previous(following) == at
        assert found.last(following - 1) == at
        assert found.between(first, following) == number
        at = following
