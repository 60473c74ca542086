"""Work that is done once a day."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest
from apscheduler.schedulers.background import BackgroundScheduler

from lakestream.clock import SystemClock
from lakestream.scheduler.daily import daily, daily_trigger


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (datetime(2025, 1, 1, 1, 0, tzinfo=UTC), datetime(2025, 1, 1, 1, 30, tzinfo=UTC)),
        (datetime(2025, 1, 1, 1, 31, tzinfo=UTC), datetime(2025, 1, 2, 1, 30, tzinfo=UTC)),
        (datetime(2025, 7, 1, 1, 0, tzinfo=UTC), datetime(2025, 7, 2, 0, 30, tzinfo=UTC)),
    ],
)
def test_the_time_of_day_is_that_of_the_zone(now: datetime, expected: datetime) -> None:
    assert daily_trigger("03:30", "Europe/Helsinki").get_next_fire_time(None, now) == expected


def test_the_work_is_done_when_its_time_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    soon = BackgroundScheduler.add_job

    def at_once(scheduler: BackgroundScheduler, work: object, _trigger: object, **given: object) -> object:
        return soon(scheduler, work, "interval", hours=1, next_run_time=SystemClock().now(), **given)

    monkeypatch.setattr(BackgroundScheduler, "add_job", at_once)
    with daily("03:30", "UTC", done.set):
        assert done.wait(10)


def test_never_starts_nothing() -> None:
    before = threading.active_count()
    with daily("never", "UTC", lambda: None):
        assert threading.active_count() == before
