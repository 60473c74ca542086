"""Where windows and instants of event time lie (TDengine's INTERVAL and SLIDING, lakestream's CALENDAR).

A duration is a whole number and a unit: ``u`` µs, ``a`` ms, ``s``, ``m``, ``h`` are elapsed time;
``d``, ``w``, ``n`` (months) and ``y`` are counted on the calendar of a time zone. Times are aware
datetimes in UTC, which keeps Python from doing arithmetic on wall clocks by itself.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import count, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ELAPSED = {
    "u": timedelta(microseconds=1),
    "a": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
}
DAYS = {"d": 1, "w": 7}
MONTHS = {"n": 1, "y": 12}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
DAY_ONE = datetime(1970, 1, 1)  # noqa: DTZ001 - the wall clock of any zone
MONDAY_ONE = datetime(1970, 1, 5)  # noqa: DTZ001 - weeks are counted from a Monday


@dataclass(frozen=True)
class Span:
    """A duration as written: ``Span(10, "s")``."""

    value: int
    unit: str

    @classmethod
    def of(cls, text: str) -> Span:
        """Read ``10s``; raise ValueError for anything else."""
        found = re.fullmatch(r"(\d+)([uasmhdwny])", text)
        if found is None:
            raise ValueError(f"{text!r} is no duration")
        return cls(int(found[1]), found[2])

    @property
    def is_calendar(self) -> bool:
        """True for days and longer."""
        return self.unit in DAYS or self.unit in MONTHS

    @property
    def elapsed(self) -> timedelta:
        """The length of a span that is not counted on the calendar."""
        return self.value * ELAPSED[self.unit]

    def after(self, wall: datetime, times: int = 1) -> datetime:
        """Add the span that many times to a wall clock; a day beyond a month's end becomes its last."""
        if self.unit in MONTHS:
            months = wall.year * 12 + wall.month - 1 + times * self.value * MONTHS[self.unit]
            year, month = divmod(months, 12)
            return wall.replace(year=year, month=month + 1, day=min(wall.day, monthrange(year, month + 1)[1]))
        if self.unit in DAYS:
            return wall + timedelta(days=times * self.value * DAYS[self.unit])
        return wall + times * self.elapsed

    def __str__(self) -> str:
        return f"{self.value}{self.unit}"


NOTHING = Span(0, "s")


@dataclass(frozen=True)
class Interval:
    """``INTERVAL(length, offset) SLIDING(step)``: windows ``[start, start + length)``."""

    length: Span
    step: Span
    offset: Span = NOTHING


@dataclass(frozen=True)
class Calendar:
    """``CALENDAR(unit FROM …)``: from each local midnight that begins a unit to the next one.

    A week begins on a ``weekday`` (Monday is 0), all others on a ``day`` of a month: of each, or of
    ``month`` and every third or twelfth one from there.
    """

    unit: str
    weekday: int = 0
    month: int = 1
    day: int = 1

    def begins(self, day: date) -> bool:
        """Say whether a unit begins on that day."""
        if self.unit == "WEEK":
            return day.weekday() == self.weekday
        every = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}[self.unit]
        return day.day == self.day and (day.month - self.month) % every == 0


@dataclass(frozen=True)
class Sliding:
    """``SLIDING(step, offset)``: instants T, each with the range ``(the instant before, T]``."""

    step: Span
    offset: Span = NOTHING


@dataclass(frozen=True)
class Window:
    """A stretch of event time that fires when the group's mark reaches its end."""

    start: datetime
    end: datetime
    includes_end: bool = False

    def holds(self, ts: datetime) -> bool:
        """Say whether a row of that time is in the window."""
        return self.start < ts <= self.end if self.includes_end else self.start <= ts < self.end

    def overlaps(self, start: datetime, end: datetime | None) -> bool:
        """Say whether ``[start, end)`` has an instant, of whole microseconds, in the window."""
        first = self.start + MICROSECOND if self.includes_end else self.start
        after_last = self.end + MICROSECOND if self.includes_end else self.end
        return start < after_last and (end is None or first < end)


Trigger = Interval | Calendar | Sliding


def windows(trigger: Trigger, first: datetime, zone: tzinfo = UTC) -> Iterator[Window]:
    """Yield the windows of a group whose first row is at ``first``, in time order, without end.

    The first INTERVAL or CALENDAR window is the earliest that covers the first row (where a step longer than
    the interval leaves it uncovered: the next one); the first SLIDING instant is the first at or past it.
    """
    if isinstance(trigger, Interval):
        return interval_windows(trigger, first, zone)
    if isinstance(trigger, Calendar):
        return calendar_windows(trigger, first, zone)
    return sliding_windows(trigger, first, zone)


def interval_windows(trigger: Interval, first: datetime, zone: tzinfo) -> Iterator[Window]:
    """Yield the windows of INTERVAL, from the earliest that ends after the first row."""
    start = interval_start(trigger, zone)

    def window(number: int) -> Window:
        return Window(start(number), later(start(number), trigger.length, zone))

    number = last_at_or_before(start, first)
    while window(number - 1).end > first:
        number -= 1
    while window(number).end <= first:
        number += 1
    return (window(n) for n in count(number))


def interval_start(trigger: Interval, zone: tzinfo) -> Callable[[int], datetime]:
    """Return where window k starts: from 1970-01-01 UTC, or on the zone's calendar for long steps."""
    step, offset = trigger.step, trigger.offset
    if not step.is_calendar:
        return lambda k: later(EPOCH + k * step.elapsed, offset, zone)
    origin = MONDAY_ONE if step.unit == "w" else DAY_ONE
    return lambda k: instant(offset.after(step.after(origin, k)), zone)


def calendar_windows(trigger: Calendar, first: datetime, zone: tzinfo) -> Iterator[Window]:
    """Yield the windows of CALENDAR, from the one that holds the first row."""

    def midnight(day: date) -> datetime:
        return instant(datetime.combine(day, time()), zone)

    day = first.astimezone(zone).date() + timedelta(days=1)
    while not (trigger.begins(day) and midnight(day) <= first):
        day -= timedelta(days=1)
    days = (day + timedelta(days=n) for n in count())
    return (Window(*both) for both in pairwise(midnight(d) for d in days if trigger.begins(d)))


def sliding_windows(trigger: Sliding, first: datetime, zone: tzinfo) -> Iterator[Window]:
    """Yield the instants of SLIDING, each with its range, from the first at or past the first row."""
    midnight = first.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    restarts = not trigger.step.is_calendar and trigger.step.elapsed < timedelta(days=1)
    grid = daily_grid(trigger, first, midnight, zone) if restarts else running_grid(trigger, midnight, zone)
    pairs = pairwise(grid)
    return (Window(before, at, includes_end=True) for before, at in pairs if at >= first)


def daily_grid(trigger: Sliding, first: datetime, midnight: datetime, zone: tzinfo) -> Iterator[datetime]:
    """Yield midnight + offset + k*step, counted anew every local day, from before the first row on."""
    for day in count(-2):
        begin, end = (
            later(instant(midnight + timedelta(days=d), zone), trigger.offset, zone) for d in (day, day + 1)
        )
        steps_before = max((first - begin) // trigger.step.elapsed - 1, 0)
        at = begin + steps_before * trigger.step.elapsed
        while at < end:
            yield at
            at += trigger.step.elapsed


def running_grid(trigger: Sliding, midnight: datetime, zone: tzinfo) -> Iterator[datetime]:
    """Yield the midnight of the first row's day + offset + k*step, from two steps before on."""
    for k in count(-2):
        if trigger.step.is_calendar:
            yield instant(trigger.offset.after(trigger.step.after(midnight, k)), zone)
        else:
            yield later(instant(midnight, zone), trigger.offset, zone) + k * trigger.step.elapsed


def later(at: datetime, span: Span, zone: tzinfo) -> datetime:
    """Add a span to an instant: elapsed time as such, days and longer on the zone's wall clock."""
    if not span.is_calendar:
        return at + span.elapsed
    return instant(span.after(at.astimezone(zone).replace(tzinfo=None)), zone)


def instant(wall: datetime, zone: tzinfo) -> datetime:
    """Return when a wall clock of the zone shows that time: the first time; in a gap, as much later."""
    return wall.replace(tzinfo=zone).astimezone(UTC)


def last_at_or_before(at: Callable[[int], datetime], ts: datetime) -> int:
    """Return the greatest k with ``at(k) <= ts``, for an increasing function."""
    reach = 1
    while at(reach) <= ts:
        reach *= 2
    floor = -1
    while at(floor) > ts:
        floor *= 2
    return bisect_right(range(floor, reach), ts, key=at) + floor - 1
