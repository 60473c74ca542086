"""PERIOD and RESAMPLE as triggers of APScheduler.

What is due follows from the lake's own state; a trigger only says when it is worth a look. So it answers
with the first instant after now, however many have passed: a pause or a jump of the clock rings once.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.date import DateTrigger

from lakestream.engine.base.instants import from_micros, to_micros
from lakestream.triggers.period import Period

if TYPE_CHECKING:
    from lakestream.engine.rounds.wakeups import Alarm
    from lakestream.triggers.resample import Resample

_BEFORE = timedelta(microseconds=1)


class _InstantsTrigger(BaseTrigger):  # type: ignore[misc]
    """Fires at the instants of a definition."""

    def __init__(self, instants: Period | Resample) -> None:
        self.instants = instants

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """Return the first instant after now and the time fired last; at first one at now counts too."""
        moment = now - _BEFORE if previous_fire_time is None else max(now, previous_fire_time)
        return from_micros(self.instants.after(to_micros(moment)))

    def __str__(self) -> str:
        """Return the definition, as APScheduler lists its jobs."""
        return f"{type(self).__name__}[{self.instants}]"


class PeriodTrigger(_InstantsTrigger):
    """PERIOD of a stream."""


class ResampleTrigger(_InstantsTrigger):
    """RESAMPLE of a continuous query."""


def trigger_of(alarm: Alarm) -> BaseTrigger:
    """Return the trigger that rings when the clock makes something due."""
    if isinstance(alarm, datetime):
        return DateTrigger(alarm, timezone="UTC")
    return PeriodTrigger(alarm) if isinstance(alarm, Period) else ResampleTrigger(alarm)
