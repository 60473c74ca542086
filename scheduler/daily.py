"""Work that is done once a day."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NEVER = "never"


def daily_trigger(at: str, zone: str) -> CronTrigger:
    """Return the trigger of a time of day (HH:MM) in a time zone."""
    hour, minute = at.split(":")
    return CronTrigger(hour=int(hour), minute=int(minute), timezone=zone)


@contextmanager
def daily(at: str, zone: str, work: Callable[[], object]) -> Iterator[None]:
    """Do some work every day at a time (HH:MM; ``never``) in a zone, in a thread, until the context ends.

    A day that the process was not there for is passed over; work that takes longer than a day is not begun
    a second time. The end does not wait for work that is under way.
    """
    if at == NEVER:
        yield
        return
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.add_job(work, daily_trigger(at, zone), coalesce=True, max_instances=1, misfire_grace_time=None)
    scheduler.start()
    try:
        yield
    finally:
        scheduler.shutdown(wait=False)
