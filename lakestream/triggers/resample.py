"""When a continuous query is due and what it reads then, as pure functions of its definition (IoTDB A2).

Due instants are ``boundary + i * every``, i >= 0. The execution due at E reads ``[E - start, E - end)``,
whenever it really runs. Months are counted from the boundary in the query's time zone, so that the 31st
becomes the last day of a shorter month and comes back; a local time that clocks skip is moved on by the
length of the gap, one that comes twice is the first of the two (ours).
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from lakestream.language.iotdb.values import Span, TimeoutPolicy

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_RETRY_MICROS = 20_000_000


@dataclass(frozen=True)
class Resample:
    """The timing of a continuous query. Instants are microseconds since 1970 UTC, ``zone`` is IANA's.

    Durations are of months, or of elapsed time, never of both.
    """

    every: Span
    start: Span
    end: Span
    boundary_us: int
    policy: TimeoutPolicy
    zone: str

    def instant(self, number: int) -> int:
        """Return due instant ``number``, counted from the boundary, which is 0."""
        return shifted(self.boundary_us, self.every, number, self.zone)

    def first(self, created_us: int) -> int:
        """Return the first due instant of a query: the earliest that is not before its creation."""
        return self.instant(self._number_from(created_us))

    def after(self, moment_us: int) -> int:
        """Return the first due instant after a moment (µs)."""
        return self.instant(self._number_from(moment_us + 1))

    def following(self, due_us: int, completed_us: int) -> int:
        """Return the instant that is planned when the execution of ``due_us`` has succeeded.

        BLOCKED leaves none out. DISCARD drops those strictly before the completion.
        """
        number = self._number_from(due_us) + 1
        if self.policy == "DISCARD":
            number = max(number, self._number_from(completed_us))
        return self.instant(number)

    def skipped(self, due_us: int, following_us: int) -> int:
        """Return how many instants lie between two of them, neither included."""
        return max(0, self._number_from(following_us) - self._number_from(due_us) - 1)

    def covering(self, start_us: int, end_us: int) -> tuple[int, int]:
        """Return the first due instant that reads of a range of event time, and the first one behind it."""
        return (
            self.after(shifted(start_us, self.end, 1, self.zone)),
            self.after(shifted(end_us, self.start, 1, self.zone) - 1),
        )

    def range_of(self, due_us: int) -> tuple[int, int]:
        """Return the half-open range of event time that the execution due at an instant reads."""
        bounds = [shifted(due_us, offset, -1, self.zone) for offset in (self.start, self.end)]
        return bounds[0], bounds[1]

    @property
    def retry_us(self) -> int:
        """How long after a failure the same instant is tried again."""
        return min(_RETRY_MICROS, self.every.micros or _RETRY_MICROS)

    def _number_from(self, moment_us: int) -> int:
        """Return the number of the first instant that is not before a moment."""
        if moment_us <= self.boundary_us:
            return 0
        number = max(0, self._about(moment_us))
        while self.instant(number) >= moment_us and number > 0:
            number -= 1
        while self.instant(number) < moment_us:
            number += 1
        return number

    def _about(self, moment_us: int) -> int:
        if not self.every.months:
            return (moment_us - self.boundary_us) // self.every.micros
        local, start = _local(moment_us, self._zone), _local(self.boundary_us, self._zone)
        return ((local.year - start.year) * 12 + local.month - start.month) // self.every.months

    @cached_property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.zone)


def shifted(moment_us: int, span: Span, times: int, zone: str) -> int:
    """Return a moment moved by a span as often as said: months follow the zone's calendar."""
    months = span.months * times
    if months:
        where = ZoneInfo(zone)
        moment_us = _micros(_months_later(_local(moment_us, where), months), where)
    return moment_us + span.micros * times


def _local(moment_us: int, zone: ZoneInfo) -> datetime:
    return (_EPOCH + moment_us * _MICROSECOND).astimezone(zone)


def _micros(local: datetime, zone: ZoneInfo) -> int:
    return (local.replace(tzinfo=zone, fold=0).astimezone(UTC) - _EPOCH) // _MICROSECOND


def _months_later(moment: datetime, months: int) -> datetime:
    years, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    last = calendar.monthrange(years, month + 1)[1]
    return moment.replace(year=years, month=month + 1, day=min(moment.day, last))
