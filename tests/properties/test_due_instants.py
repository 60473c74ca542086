"""Every due instant is executed once or counted as missed, whatever the clock and the process do.

The alarms and the rules that decide what is due are lakestream's; the durable state is a model of what the
engine records: the instant done last (PERIOD), the instant that comes next (continuous queries). The
instants there should be are listed one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestream.clock import ManualClock
from lakestream.engine.base.instants import from_micros, to_micros
from lakestream.errors import Place
from lakestream.language.iotdb.values import Span
from lakestream.language.model import PeriodTrigger
from lakestream.language.reading.durations import read_duration
from lakestream.scheduler.triggers import PeriodTrigger as PeriodAlarm
from lakestream.scheduler.triggers import ResampleTrigger
from lakestream.triggers.period import Period
from lakestream.triggers.resample import Resample
from tests.properties.profiles import number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakestream.language.iotdb.values import TimeoutPolicy

MICROS = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
ZONES = ["UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Asia/Kathmandu"]
"""With gaps and folds at midnight and elsewhere, of an hour and of half an hour, and without any."""

STARTS = [
    datetime(2025, month, day, 21, 30, tzinfo=UTC) for month, day in ((3, 29), (9, 6), (10, 4), (10, 25))
]
"""Just before clocks change somewhere."""

moves = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.integers(1, 4 * 3_600)),
        st.tuples(st.just("advance"), st.integers(1, 20 * 86_400)),
        st.tuples(st.just("set back"), st.integers(1, 2 * 86_400)),
        st.tuples(st.just("ring"), st.just(0)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("crash"), st.just(0)),
    ),
    max_size=25,
)


@st.composite
def periods(draw: st.DrawFn) -> Period:
    """Draw a PERIOD, its zone and its creation."""
    length = draw(st.sampled_from(["37m", "330m", "1h", "7h", "25h", "1d", "3d", "1w", "1n", "2n", "1y"]))
    offset = draw(st.sampled_from(["0s", "1s", "90m", "23h"]))
    here = Place(1, 1)
    trigger = PeriodTrigger(read_duration(length, here), read_duration(offset, here))
    return Period(trigger, draw(st.sampled_from(ZONES)), to_micros(draw(st.sampled_from(STARTS))))


@st.composite
def resamples(draw: st.DrawFn) -> Resample:
    """Draw the timing of a continuous query; its boundary may lie before or after its creation."""
    months = draw(st.sampled_from([0, 0, 0, 1, 2, 12]))
    every = Span(months, 0 if months else draw(st.integers(20 * 60, 3 * 86_400)) * MICROS["s"], "")
    boundary = to_micros(draw(st.sampled_from(STARTS))) + draw(st.integers(-(10**8), 10**6)) * MICROS["s"]
    policy: TimeoutPolicy = draw(st.sampled_from(["BLOCKED", "DISCARD"]))
    return Resample(every, every, Span(0, 0, ""), boundary, policy, draw(st.sampled_from(ZONES)))


@dataclass
class World:
    """A clock that can be set back too, and what was executed or counted."""

    clock: ManualClock
    executed: list[int] = field(default_factory=list)
    missed: int = 0
    latest_us: int = 0

    @property
    def now_us(self) -> int:
        now_us = to_micros(self.clock.now())
        self.latest_us = max(self.latest_us, now_us)
        return now_us

    def drive(self, moves: list[tuple[str, int]], run: Callable[[bool], None], alarm: Alarm) -> None:
        """Move the clock; run what is due whenever an alarm rings, and after a restart."""
        for kind, seconds in moves:
            if kind == "set back":
                self.clock = ManualClock(self.clock.now() - timedelta(seconds=seconds))
            elif kind == "advance":
                self.clock.advance(timedelta(seconds=seconds))
            elif kind == "restart":
                alarm.set(self.now_us)
            if kind in {"restart", "crash"} or alarm.rings(self.now_us):
                run(kind == "crash")
        run(False)


@dataclass
class Alarm:
    """The alarm of one definition: in memory only."""

    trigger: PeriodAlarm | ResampleTrigger
    next_us: int = 0

    def set(self, now_us: int) -> None:
        self.next_us = to_micros(self.trigger.get_next_fire_time(None, from_micros(now_us)))

    def rings(self, now_us: int) -> bool:
        if now_us < self.next_us:
            return False
        rung = from_micros(self.next_us)
        self.next_us = to_micros(self.trigger.get_next_fire_time(rung, from_micros(now_us)))
        return True


def listed(first: int, following: Callable[[int], int], upto_us: int) -> Iterator[int]:
    """List instants one by one."""
    while first <= upto_us:
        yield first
        first = following(first)


@number(200)
@given(period=periods(), moves=moves)
def test_each_instant_of_period_is_executed_once_or_counted(
    period: Period, moves: list[tuple[str, int]]
) -> None:
    world = World(ManualClock(from_micros(period.created_us)))
    done = period.created_us

    def run(crashes: bool) -> None:
        nonlocal done
        due = period.due(done, world.now_us)
        if due is None or crashes:  # what stops before the commit point leaves nothing behind
            return
        done, missed = due
        world.executed.append(done)
        world.missed += missed

    alarm = Alarm(PeriodAlarm(period))
    alarm.set(period.created_us)
    world.drive(moves, run, alarm)
    wanted = list(listed(period.after(period.created_us), period.following, world.latest_us))
    assert world.executed == sorted(set(world.executed))
    assert set(world.executed) <= set(wanted)
    assert len(world.executed) + world.missed == len([at for at in wanted if at <= done])
    assert period.due(done, world.now_us) is None


@number(200)
@given(timing=resamples(), created=st.sampled_from(STARTS), moves=moves)
def test_each_instant_of_a_query_is_executed_once_or_counted(
    timing: Resample, created: datetime, moves: list[tuple[str, int]]
) -> None:
    world = World(ManualClock(created))
    first = next_us = timing.first(to_micros(created))

    def run(crashes: bool) -> None:
        nonlocal next_us
        while next_us <= world.now_us and not crashes:
            world.executed.append(next_us)
            following = timing.following(next_us, world.now_us)
            world.missed += timing.skipped(next_us, following)
            next_us = following

    alarm = Alarm(ResampleTrigger(timing))
    alarm.set(to_micros(created))
    world.drive(moves, run, alarm)
    wanted = list(listed(first, timing.after, max(world.latest_us, next_us)))
    assert world.executed == sorted(set(world.executed))
    assert set(world.executed) <= set(wanted)
    assert len(world.executed) + world.missed == len([at for at in wanted if at < next_us])
    assert timing.policy == "DISCARD" or not world.missed


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("zone", ZONES)
def test_an_alarm_is_never_later_than_what_is_due(zone: str, start: datetime) -> None:
    here = Place(1, 1)
    trigger = PeriodTrigger(read_duration("37m", here), read_duration("0s", here))
    period = Period(trigger, zone, to_micros(start))
    moment = period.created_us
    for _ in range(80):
        rings = to_micros(PeriodAlarm(period).get_next_fire_time(None, from_micros(moment + 1)))
        assert period.due(moment, rings - 1) is None
        assert period.due(moment, rings) == (rings, 0)
        moment = rings
