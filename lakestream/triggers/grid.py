"""Grids of event time: windows numbered by integers, as SQL texts.

A grid says, for a window number ``k`` of a group whose first row is at ``first``, which rows it
holds: ``[low(k), high(k))`` in microseconds; and for an instant ``x``, how many windows have ended
(``ended``: the largest k with ``high(k) <= x``) and begun (``begun``: the largest k with
``low(k) <= x``). Everything else about INTERVAL and SLIDING follows from these four.

Sources: TDengine, "INTERVAL … SLIDING" (windows counted from 1970-01-01 UTC) and "SLIDING" (the grid
of PERIOD on event time, restarting at midnight); days and longer in the lake's time zone, weeks from
Monday, and CALENDAR are lakestream's own rules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from math import gcd
from typing import TYPE_CHECKING

from lakestream.language.common.zones import zone_of
from lakestream.language.model import (
    MICROS,
    MONTHS,
    WEEKDAYS,
    CalendarTrigger,
    IntervalTrigger,
    SlidingTrigger,
)
from lakestream.triggers.sqltime import (
    DAY,
    floor_div,
    midnight,
    month_number,
    month_start,
    to_instant,
    to_local,
)

if TYPE_CHECKING:
    from lakestream.language.model import Duration, GridTrigger

MONDAY = 4 * DAY
"""Wall-clock microseconds of Monday, 1970-01-05: weeks are counted from a Monday."""


class Grid(ABC):
    """Numbered windows of a group, as SQL over ``x``, ``k`` and ``first`` (BIGINT columns)."""

    fires_at_last_instant = False
    """True when a window fires at its last instant already (SLIDING: mark >= T, T included)."""

    depends_on_first = False
    """True when numbers count from the first row of the group (SLIDING of a day or more)."""

    disjoint_spans = False
    """True for windows that only their bounds tell, of which no two of a group overlap."""

    rows_are_placed = False
    """True where the rows to evaluate come with the number of their window."""

    is_tumbling = False
    """True where each instant lies in one window: the one that has ``begun``."""

    pane: Pane | None = None
    """How windows divide into panes, where each row is to be aggregated once only."""

    @abstractmethod
    def low(self, k: str, first: str) -> str:
        """Return SQL for the first microsecond of window ``k``."""

    @abstractmethod
    def high(self, k: str, first: str) -> str:
        """Return SQL for the microsecond after the last one of window ``k``."""

    @abstractmethod
    def ended(self, x: str, first: str) -> str:
        """Return SQL for the largest k with ``high(k) <= x``."""

    @abstractmethod
    def begun(self, x: str, first: str) -> str:
        """Return SQL for the largest k with ``low(k) <= x``."""

    @abstractmethod
    def placeholders(self, k: str, first: str) -> dict[str, str]:
        """Return SQL (BIGINT microseconds) for each time placeholder of the trigger kind."""

    def exists(self, k: str) -> str:
        """Return SQL that is true for numbers that are windows (a grid may have gaps)."""
        del k
        return "true"

    def holding(self, x: str, first: str) -> str:
        """Return SQL for the numbers of the windows that hold x, one a row.

        Where the grid leaves gaps between windows, rows with ``ended >= begun`` must be left out before.
        """
        if self.is_tumbling:
            return self.begun(x, first)
        return f"explode(sequence({self.ended(x, first)} + 1, {self.begun(x, first)}))"

    def closed(self, watermark: str, first: str) -> str:
        """Return SQL for the last window that fires when the group's waterwatermark is ``watermark``."""
        return self.ended(f"{watermark} + 1" if self.fires_at_last_instant else watermark, first)


@dataclass(frozen=True)
class Pane:
    """Windows as runs of panes of ``width`` microseconds: window k is ``[k*step, k*step + count)``."""

    width: int
    step: int
    count: int
    offset: int

    def number(self, x: str) -> str:
        """Return SQL for the pane of instant ``x``."""
        return floor_div(f"{x} - {self.offset}L", self.width)

    def first_window(self, pane: str) -> str:
        """Return SQL for the first window that holds the pane."""
        return f"({floor_div(f'{pane} - {self.count}L', self.step)} + 1)"

    def last_window(self, pane: str) -> str:
        """Return SQL for the last window that holds the pane."""
        return f"({floor_div(pane, self.step)})"


class _IntervalGrid(Grid):
    """What the grids of INTERVAL and CALENDAR share: the placeholders."""

    def placeholders(self, k: str, first: str) -> dict[str, str]:
        """Return ``_twstart`` and ``_twend`` (exclusive end)."""
        return {"_twstart": self.low(k, first), "_twend": self.high(k, first)}


class _RepeatingGrid(_IntervalGrid):
    """Windows of one ``length``, one every ``step``, both in the unit of the grid."""

    length: int
    step: int

    @property
    def is_tumbling(self) -> bool:  # type: ignore[override]
        """Return whether each window begins where the one before ends."""
        return self.length == self.step


class _EvenGrid(_IntervalGrid):
    """``[begin + k*step, end + k*step)`` in microseconds since 1970 UTC, each given as SQL."""

    @property
    @abstractmethod
    def _begin(self) -> str: ...

    @property
    @abstractmethod
    def _end(self) -> str: ...

    @property
    @abstractmethod
    def _step(self) -> str: ...

    def low(self, k: str, first: str) -> str:
        """Return the start of window k."""
        del first
        return f"({self._begin} + {k} * {self._step})"

    def high(self, k: str, first: str) -> str:
        """Return the exclusive end of window k."""
        del first
        return f"({self._end} + {k} * {self._step})"

    def ended(self, x: str, first: str) -> str:
        """Return the last window that ended by x."""
        del first
        return f"({floor_div(f'{x} - {self._end}', self._step)})"

    def begun(self, x: str, first: str) -> str:
        """Return the last window that began by x."""
        del first
        return f"({floor_div(f'{x} - {self._begin}', self._step)})"


@dataclass(frozen=True)
class FixedGrid(_EvenGrid, _RepeatingGrid):
    """``[offset + k*step, … + length)`` counted from 1970 UTC, in microseconds."""

    length: int
    step: int
    offset: int

    @property
    def pane(self) -> Pane | None:  # type: ignore[override]
        """Panes of the greatest common divisor of length and step; None for one pane a window."""
        if self.length <= self.step:
            return None
        width = gcd(self.length, self.step)
        return Pane(width, self.step // width, self.length // width, self.offset)

    @property
    def _begin(self) -> str:
        return f"{self.offset}L"

    @property
    def _end(self) -> str:
        return f"{self.offset + self.length}L"

    @property
    def _step(self) -> str:
        return f"{self.step}L"


@dataclass(frozen=True)
class ColumnGrid(_EvenGrid):
    """Tumbling windows whose length and offset (µs) are columns: windows of several streams in one query."""

    length: str
    offset: str

    is_tumbling = True

    @property
    def _begin(self) -> str:
        return self.offset

    @property
    def _end(self) -> str:
        return f"({self.offset} + {self.length})"

    @property
    def _step(self) -> str:
        return self.length


class _SteppingGrid(Grid):
    """A grid whose instants come from wall-clock arithmetic: a first guess is off by one at most.

    The guess is wrong by one where clocks change between the instant and its window.
    """

    @abstractmethod
    def guess_ended(self, x: str, first: str) -> str:
        """Return SQL for ``ended`` by wall-clock arithmetic alone."""

    @abstractmethod
    def guess_begun(self, x: str, first: str) -> str:
        """Return SQL for ``begun`` by wall-clock arithmetic alone."""

    def ended(self, x: str, first: str) -> str:
        """Return the last window that ended by x."""
        return _settle(self.guess_ended(x, first), lambda k: f"{self.high(k, first)} <= {x}")

    def begun(self, x: str, first: str) -> str:
        """Return the last window that began by x."""
        return _settle(self.guess_begun(x, first), lambda k: f"{self.low(k, first)} <= {x}")


def _settle(guess: str, holds: _Condition) -> str:
    """Return SQL for the largest number near ``guess`` for which the condition holds."""
    # The lambda binds the guess to a name: written out, it would stand here a dozen times.
    settled = f"CASE WHEN {holds('(n + 1)')} THEN n + 1 WHEN {holds('n')} THEN n ELSE n - 1 END"
    return f"element_at(transform(array({guess}), n -> {settled}), 1)"


@dataclass(frozen=True)
class LocalGrid(_RepeatingGrid, _SteppingGrid):
    """Windows of wall-clock microseconds in a time zone: steps of days and weeks."""

    length: int
    step: int
    offset: int
    zone: str

    def low(self, k: str, first: str) -> str:
        """Return the instant of the wall-clock start of window k."""
        del first
        return to_instant(f"{self.offset}L + {k} * {self.step}L", self.zone)

    def high(self, k: str, first: str) -> str:
        """Return the instant of the wall-clock end of window k."""
        del first
        return to_instant(f"{self.offset + self.length}L + {k} * {self.step}L", self.zone)

    def guess_ended(self, x: str, first: str) -> str:
        """Return the last window whose wall-clock end has passed."""
        del first
        return f"({floor_div(f'{to_local(x, self.zone)} - {self.offset + self.length}L', self.step)})"

    def guess_begun(self, x: str, first: str) -> str:
        """Return the last window whose wall-clock start has passed."""
        del first
        return f"({floor_div(f'{to_local(x, self.zone)} - {self.offset}L', self.step)})"


@dataclass(frozen=True)
class MonthGrid(_RepeatingGrid, _SteppingGrid):
    """Windows of whole months in a time zone, shifted by ``shift`` months or ``offset`` microseconds."""

    length: int
    step: int
    shift: int
    offset: int
    zone: str

    def low(self, k: str, first: str) -> str:
        """Return the instant of the start of window k."""
        del first
        return to_instant(
            f"{month_start(f'({k} * {self.step}L + {self.shift}L)')} + {self.offset}L", self.zone
        )

    def high(self, k: str, first: str) -> str:
        """Return the instant of the end of window k."""
        del first
        end = month_start(f"({k} * {self.step}L + {self.shift + self.length}L)")
        return to_instant(f"{end} + {self.offset}L", self.zone)

    def _month(self, x: str) -> str:
        return f"({month_number(f'({to_local(x, self.zone)} - {self.offset}L)')} - {self.shift}L)"

    def guess_ended(self, x: str, first: str) -> str:
        """Return the last window whose last month has passed."""
        del first
        return f"({floor_div(f'{self._month(x)} - {self.length}L', self.step)})"

    def guess_begun(self, x: str, first: str) -> str:
        """Return the last window whose first month has begun."""
        del first
        return f"({floor_div(self._month(x), self.step)})"


class _SlidingGrid(Grid):
    """What the grids of SLIDING share: the rows of the instant T are those of ``(previous T, T]``."""

    fires_at_last_instant = True

    @abstractmethod
    def instant(self, k: str, first: str) -> str:
        """Return SQL for the k-th instant."""

    @abstractmethod
    def previous(self, k: str, first: str) -> str:
        """Return SQL for the instant before the k-th one."""

    @abstractmethod
    def following(self, k: str, first: str) -> str:
        """Return SQL for the instant after the k-th one."""

    def low(self, k: str, first: str) -> str:
        """Return the microsecond after the previous instant."""
        return f"({self.previous(k, first)} + 1)"

    def high(self, k: str, first: str) -> str:
        """Return the microsecond after the instant."""
        return f"({self.instant(k, first)} + 1)"

    def placeholders(self, k: str, first: str) -> dict[str, str]:
        """Return ``_tprev_ts``, ``_tcurrent_ts`` and ``_tnext_ts``."""
        return {
            "_tprev_ts": self.previous(k, first),
            "_tcurrent_ts": self.instant(k, first),
            "_tnext_ts": self.following(k, first),
        }


@dataclass(frozen=True)
class DailyGrid(_SlidingGrid):
    """Instants ``midnight + offset + j*step`` of each day of a time zone, restarting every midnight.

    Number k is ``day * slots + j``; the last numbers of a day are no instants where the day is over
    (the gap before midnight may be shorter). Steps are of elapsed time, also when clocks change.
    """

    step: int
    offset: int
    zone: str

    is_tumbling = True

    @property
    def slots(self) -> int:
        """Numbers set aside for a day; a day with a change of clocks has up to 26 hours."""
        return -(-26 * 3_600_000_000 // self.step)

    def _midnight(self, day: str) -> str:
        return to_instant(f"(({day}) * {DAY}L)", self.zone)

    def _at(self, day: str, slot: str) -> str:
        return f"({self._midnight(day)} + {self.offset}L + ({slot}) * {self.step}L)"

    def _last_slot(self, day: str) -> str:
        span = f"({self._midnight(f'{day} + 1')} - {self._midnight(day)} - 1)"
        return f"({span} div {self.step}L)"

    def _day(self, k: str) -> str:
        return f"({floor_div(k, self.slots)})"

    def _slot(self, k: str) -> str:
        return f"pmod({k}, {self.slots}L)"

    def exists(self, k: str) -> str:
        """Return SQL that is true while the day of number k is not over."""
        return f"{self._slot(k)} <= {self._last_slot(self._day(k))}"

    def instant(self, k: str, first: str) -> str:
        """Return the k-th instant."""
        del first
        return self._at(self._day(k), self._slot(k))

    def previous(self, k: str, first: str) -> str:
        """Return the instant one step before, or the last one of the day before."""
        del first
        day = self._day(k)
        before = f"{day} - 1"
        return (
            f"(CASE WHEN {self._slot(k)} > 0 THEN {self._at(day, f'{self._slot(k)} - 1')}"
            f" ELSE {self._at(before, self._last_slot(before))} END)"
        )

    def following(self, k: str, first: str) -> str:
        """Return the instant one step later, or the first one of the next day."""
        del first
        day, slot = self._day(k), self._slot(k)
        return (
            f"(CASE WHEN {slot} < {self._last_slot(day)} THEN {self._at(day, f'{slot} + 1')}"
            f" ELSE {self._at(f'{day} + 1', '0')} END)"
        )

    def _number(self, x: str) -> str:
        """Return the number of the last instant at or before x."""
        local = to_local(f"({x} - {self.offset}L)", self.zone)
        day = f"({floor_div(local, DAY)})"
        slot = f"(({x} - {self.offset}L - {self._midnight(day)}) div {self.step}L)"
        return f"({day} * {self.slots}L + {slot})"

    def ended(self, x: str, first: str) -> str:
        """Return the last instant before x."""
        del first
        return self._number(f"({x} - 1)")

    def begun(self, x: str, first: str) -> str:
        """Return the first instant at or after x: the one whose rows x belongs to."""
        del first
        after = f"({self._number(f'({x} - 1)')} + 1)"
        next_day = f"(({self._day(after)} + 1) * {self.slots}L)"
        return f"(CASE WHEN {self.exists(after)} THEN {after} ELSE {next_day} END)"


@dataclass(frozen=True)
class OriginGrid(_SlidingGrid, _SteppingGrid):
    """Instants ``step`` wall-clock microseconds apart, from midnight of the day of the group's first row.

    Steps of a day or more (TDengine: they count from the day's midnight and are never reset).
    """

    step: int
    offset: int
    zone: str
    depends_on_first = True

    def _local(self, k: str, first: str) -> str:
        return f"({midnight(first, self.zone)} + {self.offset}L + ({k}) * {self.step}L)"

    def instant(self, k: str, first: str) -> str:
        """Return the k-th instant after the group's first midnight."""
        return to_instant(self._local(k, first), self.zone)

    def previous(self, k: str, first: str) -> str:
        """Return the instant one step before."""
        return self.instant(f"{k} - 1", first)

    def following(self, k: str, first: str) -> str:
        """Return the instant one step later."""
        return self.instant(f"{k} + 1", first)

    def _guess(self, x: str, first: str) -> str:
        local, origin = to_local(f"({x})", self.zone), midnight(first, self.zone)
        return f"({floor_div(f'({local} - {origin} - {self.offset}L)', self.step)})"

    def guess_ended(self, x: str, first: str) -> str:
        """Return the last instant before x by wall-clock arithmetic."""
        return self._guess(f"{x} - 1", first)

    def guess_begun(self, x: str, first: str) -> str:
        """Return the first instant at or after x by wall-clock arithmetic."""
        return f"({self._guess(f'{x} - 1', first)} + 1)"


if TYPE_CHECKING:
    from collections.abc import Callable

    _Condition = Callable[[str], str]


def grid_of(trigger: GridTrigger, zone: str) -> Grid:
    """Return the grid of a trigger; ``zone`` is the lake's time zone (IANA name).

    INTERVAL with a step of days or longer follows the zone, with a shorter step it counts
    microseconds from 1970 UTC. Where it is ``local``, a step of whole hours follows the zone too, and a
    shorter one counts from midnight of 1970-01-01 there. CALENDAR follows the zone.
    """
    if isinstance(trigger, IntervalTrigger):
        return _interval_grid(trigger, zone)
    if isinstance(trigger, CalendarTrigger):
        return _calendar_grid(trigger, zone)
    return _sliding_grid(trigger, zone)


def _micros(offset: Duration) -> int:
    """Return an offset in microseconds; one in months shifts by months instead."""
    return 0 if offset.is_of_months else offset.micros


def _interval_grid(trigger: IntervalTrigger, zone: str) -> Grid:
    length, step = trigger.length, trigger.step
    shift, offset = trigger.offset.months, _micros(trigger.offset)
    if step.months:
        return MonthGrid(length.months, step.months, shift, offset, zone)
    if trigger.local:
        # Windows end on the steps: one that is longer begins between them.
        offset = (offset - length.micros) % step.micros
    if not step.is_calendar and not (trigger.local and step.micros % MICROS["h"] == 0):
        origin = _local_midnight(zone) if trigger.local else 0
        return FixedGrid(length.micros, step.micros, origin + offset)
    origin = offset + (MONDAY if "w" in (length.unit, step.unit) else 0)
    return _day_grid(length.micros, step.micros, origin, zone)


def _day_grid(length: int, step: int, origin: int, zone: str) -> Grid:
    """Return the grid of windows in wall-clock microseconds."""
    if zone == "UTC":
        return FixedGrid(length, step, origin)
    return LocalGrid(length, step, origin, zone)


def _calendar_grid(trigger: CalendarTrigger, zone: str) -> Grid:
    if not trigger.months:
        weekday = WEEKDAYS.index(trigger.weekday or WEEKDAYS[0])
        return _day_grid(MICROS["w"], MICROS["w"], MONDAY + weekday * DAY, zone)
    shift = MONTHS.index(trigger.month or MONTHS[0])
    return MonthGrid(trigger.months, trigger.months, shift, ((trigger.day or 1) - 1) * DAY, zone)


def _local_midnight(zone: str) -> int:
    """Return the instant of midnight of 1970-01-01 in a zone, in microseconds since 1970 UTC."""
    return int(datetime(1970, 1, 1, tzinfo=zone_of(zone)).timestamp()) * MICROS["s"]


def _sliding_grid(trigger: SlidingTrigger, zone: str) -> Grid:
    step, offset = trigger.step.micros, trigger.offset.micros
    return OriginGrid(step, offset, zone) if step >= DAY else DailyGrid(step, offset, zone)
