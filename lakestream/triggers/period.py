"""PERIOD: instants of the wall clock, as a pure function of the definition and the creation.

The rules (TDengine A4; what is ours is said):

* below a day: a day's instants are counted from its local midnight plus the offset, in elapsed time, up
  to the first one of the next day; a day on which clocks change has more or fewer of them (ours);
* of a day and more without a calendar (25h): counted from the midnight of the creation day plus the
  offset, and never reset;
* of days: local midnights plus the offset, counted from the creation day;
* of weeks, months, quarters and years: natural ones, from Monday 1970-01-05 and January 1970, plus the
  offset, whose days are those of the calendar.

A midnight that clocks skip is the instant at which they skip it (ours).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from lakestream.language.model import MICROS

if TYPE_CHECKING:
    from lakestream.language.model import PeriodTrigger

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY, _FIRST_MONDAY = date(1970, 1, 1), date(1970, 1, 5)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Period:
    """The instants of a PERIOD trigger in a time zone; ``created_us`` is the creation (µs, UTC)."""

    trigger: PeriodTrigger
    zone: str
    created_us: int

    def last(self, moment_us: int) -> int:
        """Return the last instant at or before a moment (µs)."""
        number = self._unit_of(moment_us)
        start = self._start(number)
        return start + (moment_us - start) // self._step * self._step if self._step else start

    def previous(self, instant_us: int) -> int:
        """Return the instant before one of them (µs)."""
        return self.last(instant_us - 1)

    def following(self, instant_us: int) -> int:
        """Return the instant after one of them (µs)."""
        end = self._start(self._unit_of(instant_us) + 1)
        return min(instant_us + self._step, end) if self._step else end

    def after(self, moment_us: int) -> int:
        """Return the first instant after a moment (µs)."""
        return self.following(self.last(moment_us))

    def due(self, done_us: int, now_us: int) -> tuple[int, int] | None:
        """Return the instant that is due and how many before it were missed; None: all is done.

        ``done_us`` is the instant executed last, or the creation. Only the last of several instants that
        have passed is executed.
        """
        instant = self.last(now_us)
        if instant <= done_us:
            return None
        return instant, self.between(self.last(done_us), instant)

    def between(self, after_us: int, before_us: int) -> int:
        """Return how many instants lie between two of them, neither included."""
        first, last = self._unit_of(after_us), self._unit_of(before_us)
        if not self._step:
            return max(0, last - first - 1)
        counted = sum(self._instants_in(number) for number in range(first, last))
        return max(0, counted + self._place_in(last, before_us) - self._place_in(first, after_us) - 1)

    # --- units: stretches that begin with an instant, and have one every step where there is a step ---

    @property
    def _step(self) -> int:
        """Microseconds between the instants of a day; 0 where a unit has one instant."""
        period = self.trigger.period
        return 0 if period.is_calendar or period.micros >= MICROS["d"] else period.micros

    def _instants_in(self, number: int) -> int:
        return -(-(self._start(number + 1) - self._start(number)) // self._step)

    def _place_in(self, number: int, instant_us: int) -> int:
        return (instant_us - self._start(number)) // self._step

    def _start(self, number: int) -> int:
        """Return the first instant of a unit."""
        period, offset = self.trigger.period, self.trigger.offset.micros
        if period.is_calendar:
            return self._moved(self._first_day(number))
        if self._step:
            return self._midnight(_EPOCH_DAY + timedelta(days=number)) + offset
        return self._midnight(self._created) + offset + number * period.micros

    def _unit_of(self, moment_us: int) -> int:
        """Return the unit that a moment lies in: about, then exactly."""
        number = self._about(moment_us)
        while self._start(number) > moment_us:
            number -= 1
        while self._start(number + 1) <= moment_us:
            number += 1
        return number

    def _about(self, moment_us: int) -> int:
        period, local = self.trigger.period, self._local(moment_us)
        if period.months:
            return ((local.year - 1970) * 12 + local.month - 1) // period.months
        if period.unit in "dw":
            first = _FIRST_MONDAY if period.unit == "w" else self._created
            return (local - first).days // self._days
        if self._step:
            return (local - _EPOCH_DAY).days
        return (moment_us - self._start(0)) // period.micros

    def _first_day(self, number: int) -> date:
        """Return the day that a unit of days or longer begins with, before the offset."""
        period = self.trigger.period
        if period.months:
            years, months = divmod(number * period.months, 12)
            return date(1970 + years, months + 1, 1)
        first = _FIRST_MONDAY if period.unit == "w" else self._created
        return first + timedelta(days=number * self._days)

    def _moved(self, day: date) -> int:
        """Return the midnight of a day moved by the offset (µs): days are those of the calendar."""
        offset = self.trigger.offset
        if offset.unit == "d":
            return self._midnight(day + timedelta(days=offset.value))
        return self._midnight(day) + offset.micros

    @property
    def _days(self) -> int:
        return self.trigger.period.value * (7 if self.trigger.period.unit == "w" else 1)

    # --- the zone ---

    @cached_property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.zone)

    @cached_property
    def _created(self) -> date:
        return self._local(self.created_us)

    def _local(self, moment_us: int) -> date:
        return (_EPOCH + moment_us * _MICROSECOND).astimezone(self._zone).date()

    def _midnight(self, day: date) -> int:
        midnight = datetime(day.year, day.month, day.day, tzinfo=self._zone)
        return (midnight.astimezone(UTC) - _EPOCH) // _MICROSECOND
