"""When continuous queries are due, held against a plain reading of the rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakestream.language.iotdb.literals import span_of
from lakestream.triggers.resample import Resample

if TYPE_CHECKING:
    from lakestream.language.iotdb.values import Span, TimeoutPolicy

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu")


def span(text: str) -> Span:
    found = span_of(text)
    assert found is not None
    return found


def micros(text: str, zone: str = "UTC") -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)) - EPOCH) // timedelta(microseconds=1)


def local(instant_us: int, zone: str) -> str:
    moment = (EPOCH + timedelta(microseconds=instant_us)).astimezone(ZoneInfo(zone))
    return moment.strftime("%Y-%m-%d %H:%M")


def resample(
    every: str,
    boundary: int = 0,
    start: str | None = None,
    end: str = "0s",
    policy: TimeoutPolicy = "BLOCKED",
    zone: str = "UTC",
) -> Resample:
    return Resample(span(every), span(start or every), span(end), boundary, policy, zone)


@pytest.mark.parametrize(
    ("every", "boundary", "now", "first"),
    [
        ("30s", 0, 100, 120),
        ("30s", 110, 100, 110),
        ("30s", 0, 120, 120),
        ("30s", 7, 100, 127),
        ("1m", -7, 0, 53),
    ],
)
def test_the_first_instant_is_the_earliest_not_before_the_creation(
    every: str, boundary: int, now: int, first: int
) -> None:
    assert resample(every, boundary * SECOND).first(now * SECOND) == first * SECOND


def test_a_range_follows_from_the_due_instant_alone() -> None:
    assert resample("20s", start="40s", end="20s").range_of(100 * SECOND) == (60 * SECOND, 80 * SECOND)


def test_months_are_counted_from_the_boundary() -> None:
    monthly = resample("1mo", micros("2024-01-31 09:00", "Europe/Berlin"), zone="Europe/Berlin")
    assert [local(monthly.instant(i), "Europe/Berlin") for i in range(5)] == [
        "2024-01-31 09:00",
        "2024-02-29 09:00",
        "2024-03-31 09:00",
        "2024-04-30 09:00",
        "2024-05-31 09:00",
    ]
    assert local(monthly.range_of(monthly.instant(1))[0], "Europe/Berlin") == "2024-01-29 09:00"


def test_a_local_time_that_clocks_skip_is_moved_on_by_the_gap() -> None:
    yearly = resample("1y", micros("2023-03-31 02:30", "Europe/Berlin"), zone="Europe/Berlin")
    assert local(yearly.instant(1), "Europe/Berlin") == "2024-03-31 03:30"


@pytest.mark.parametrize(
    ("policy", "completed", "following", "skipped"),
    [
        ("BLOCKED", 70, 40, 0),
        ("DISCARD", 70, 80, 2),
        ("DISCARD", 35, 40, 0),
        ("DISCARD", 40, 40, 0),
        ("DISCARD", 41, 60, 1),
    ],
)
def test_what_follows_an_execution(
    policy: TimeoutPolicy, completed: int, following: int, skipped: int
) -> None:
    timing = resample("20s", policy=policy)
    found = timing.following(20 * SECOND, completed * SECOND)
    assert (found, timing.skipped(20 * SECOND, found)) == (following * SECOND, skipped)


@pytest.mark.parametrize(("every", "retry"), [("10s", 10), ("20s", 20), ("1h", 20), ("1mo", 20)])
def test_a_failure_is_tried_again_soon(every: str, retry: int) -> None:
    assert resample(every).retry_us == retry * SECOND


# --- every due instant is executed exactly once -----------------------------------------------------

FIXED = st.sampled_from(["1s", "7s", "20s", "1m30s", "1h", "1d", "1w"])
CALENDAR = st.sampled_from(["1mo", "2mo", "5mo", "1y"])
MOMENTS = st.integers(micros("2023-01-01 00:00"), micros("2026-12-31 00:00"))


@st.composite
def histories(draw: st.DrawFn) -> tuple[Resample, int, list[int]]:
    """Draw a definition, its creation, and the moments at which an engine looks at the clock.

    Between two looks the engine may have been down, or slow: only what is kept between them matters.
    """
    every = draw(st.one_of(FIXED, CALENDAR))
    boundary, created = draw(MOMENTS), draw(MOMENTS)
    timing = resample(every, boundary, zone=draw(st.sampled_from(ZONES)))
    unit = timing.every.micros or 30 * 86_400 * SECOND
    steps = draw(st.lists(st.integers(0, 4 * unit), min_size=1, max_size=8))
    looks, at = [], max(created, boundary - unit)
    for step in steps:
        at += step
        looks.append(at)
    return timing, created, looks


def expected(timing: Resample, created: int, until: int) -> list[int]:
    """List the instants that are due from the creation up to a moment, by going through all of them."""
    found, number = [], 0
    if not timing.every.months:
        number = max(0, (created - timing.boundary_us) // timing.every.micros - 1)
    while (instant := timing.instant(number)) <= until:
        if instant >= created:
            found.append(instant)
        number += 1
    return found


@settings(max_examples=300, deadline=None)
@given(histories())
def test_blocked_executes_each_due_instant_exactly_once(history: tuple[Resample, int, list[int]]) -> None:
    timing, created, looks = history
    kept, executed = timing.first(created), []
    for now in looks:
        # All that an engine knows after a restart is the instant that was recorded last.
        while kept <= now:
            executed.append(kept)
            kept = timing.following(kept, now)
    assert executed == expected(timing, created, looks[-1])


@settings(max_examples=300, deadline=None)
@given(histories(), st.data())
def test_discard_drops_only_what_fell_due_before_a_completion(
    history: tuple[Resample, int, list[int]], data: st.DataObject
) -> None:
    timing, created, looks = history
    timing = Resample(timing.every, timing.start, timing.end, timing.boundary_us, "DISCARD", timing.zone)
    kept, executed, dropped, count = timing.first(created), [], [], 0
    for now in looks:
        while kept <= now:
            completed = now + data.draw(st.integers(0, 3 * (timing.every.micros or SECOND)))
            executed.append(kept)
            following = timing.following(kept, completed)
            count += timing.skipped(kept, following)
            missed = [at for at in expected(timing, created, following - 1) if at > kept]
            assert all(at < completed for at in missed)
            dropped += missed
            kept = following
    assert sorted([*executed, *dropped]) == expected(timing, created, kept - 1)
    assert count == len(dropped)
