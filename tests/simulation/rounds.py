"""The rounds of a watch, their alarms and what they look at, while the clock is set and rounds fail.

What must hold: after each instant that the clock goes over a round begins at once, looks find just the
streams that have something to do, what failed is tried again ever later, and what passes ends no watch.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from apscheduler.schedulers import base
from apscheduler.schedulers.base import BaseScheduler

from lakestream.engine.base.instants import to_micros
from lakestream.engine.rounds.failing import LONGEST_PAUSE_US, Retries
from lakestream.engine.rounds.wakeups import WaitCondition, WakeUpIndex
from lakestream.errors import BusyError
from lakestream.language.model import Duration, PeriodTrigger
from lakestream.scheduler import alarms, watch
from lakestream.triggers.period import Period
from tests.simulation.ground import Signal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.simulation.ground import Ground

_POLL_SECONDS = 5.0
_STREAMS, _SOURCES = 5, 3
_LENGTHS = (7, 60, 3_600)


class _Scheduler(BaseScheduler):  # type: ignore[misc]
    """APScheduler's own code, which looks at its jobs when it is told to."""

    def wakeup(self) -> None:
        """Take note: whoever waits looks again."""

    def shutdown(self, wait: bool = True) -> None:
        """End."""
        super().shutdown(wait)

    def look(self) -> float | None:
        """Ring what is due; return after how many seconds to look again."""
        seconds: float | None = self._process_jobs()
        return seconds


class _World:
    """A lake whose streams wait for tables and instants, in the place of a Lake and of who listens."""

    def __init__(self, ground: Ground, most: int) -> None:
        self.ground, self.most, self.jumped = ground, most, 0.0
        self.versions = {f"t{n}": 0 for n in range(_SOURCES)}
        self.tables = SimpleNamespace(latest=lambda path: SimpleNamespace(mark=self.versions[path]))
        self.periods = {
            f"s{n}": Period(_every(ground.random.choice(_LENGTHS)), "UTC", 0) for n in range(_STREAMS)
        }
        self.begun = to_micros(ground.now())
        self.done = {name: to_micros(ground.now()) for name in self.periods}
        self.alarms: Mapping[str, Any] = dict(self.periods)
        self.retries, self.paused = Retries(), 0
        self.scheduler: _Scheduler | None = None
        self.rounds: watch._Rounds | None = None
        self.steps = 0
        self.index = self._looked()

    # --- what happens while the rounds wait ---

    def passing(self, seconds: float) -> None:
        """Let time go by until an alarm rings or it is over; the clock may be set meanwhile."""
        assert self.rounds is not None
        assert self.scheduler is not None
        until = self.ground.seconds + seconds
        while self.ground.seconds < until and not self.rounds._wake.is_set():
            self.ground.steps += 1
            self._disturb()
            due = self.scheduler.look()
            left = until - self.ground.seconds
            self.ground.pass_time(left if due is None else min(left, max(due, 0.001)))
            self.scheduler.look()
        self._see_due()

    def _disturb(self) -> None:
        if self.ground.chance(2):
            self.ground.jumped += self.ground.random.choice((-7_200, -30, 30, 7_200))
        if self.ground.chance(20):
            self.versions[self.ground.random.choice([*self.versions])] += 1

    def _see_due(self) -> None:
        """Raise AssertionError where an instant went by for longer than a look takes, and nobody woke up."""
        assert self.rounds is not None
        now = to_micros(self.ground.now())
        late = {n: p.last(now) for n, p in self.periods.items() if self.begun < p.last(now) <= now - 2_000}
        woken = self.rounds._wake.is_set() or self.ground.jumped != self.jumped
        assert woken or not late, f"no round began at {late}"

    # --- the lake ---

    def tick_once(self, _on_tick: Any, _ended: Any) -> list[Any]:
        """Look, do what there is to do, and now and then fail."""
        self.ground.steps += 1
        self.steps += 1
        self.jumped = self.ground.jumped
        if self.steps >= self.most:
            assert self.rounds is not None
            self.rounds.stop()
        now = to_micros(self.ground.now())
        self.begun = max(self.begun, now)  # what the clock goes over once more was done
        look = self.index.look((0,), self.tables, now)  # type: ignore[arg-type]
        assert look.streams == self._wanted(now)
        if self.ground.chance(5):
            raise BusyError("LAKE_LOCKED", "another process writes")
        for name, period in self.periods.items():
            self.done[name] = max(period.last(now), min(self.done[name], now))
        self._retry(now)
        self.index = self._looked()
        return [SimpleNamespace(stream="s")] if self.ground.chance(30) else []

    def _looked(self) -> WakeUpIndex:
        waits: dict[str, WaitCondition | None] = {}
        for name, period in self.periods.items():
            sources = tuple(name for name in self.versions if self.ground.chance(40))
            due = period.following(self.done[name]) if self.ground.chance(80) else None
            waits[name] = None if self.ground.chance(5) else WaitCondition(sources, due)
        return WakeUpIndex((0,), dict(self.versions), waits)

    def _wanted(self, now: int) -> set[str]:
        """Return the streams that have something to do, one by one."""
        seen = self.index.sources
        return {
            name
            for name, one in self.index.waiting.items()
            if one is None
            or (one.due_us is not None and one.due_us <= now)
            or any(self.versions[name] != seen[name] for name in one.sources)
        }

    def _retry(self, now: int) -> None:
        """Let a stream fail again and again, or do well."""
        if self.ground.chance(30):
            due = self.retries.put("s0", now)
            pause = due - now
            assert self.paused <= pause <= LONGEST_PAUSE_US
            assert not self.retries.is_due("s0", due - 1)
            assert self.retries.is_due("s0", due)
            self.paused = pause
        elif self.ground.chance(20):
            self.retries.forget("s0")
            self.paused = 0
            assert self.retries.is_due("s0", now)

    # --- who listens ---

    def __getattr__(self, name: str) -> Any:
        if name in ("began", "ended", "ticked", "failed"):
            return lambda *_: None
        raise AttributeError(name)


def _every(seconds: int) -> PeriodTrigger:
    return PeriodTrigger(Duration(seconds, "s"), Duration(0, "s"))


def run(ground: Ground, steps: int) -> None:
    """Take steps: one is a round."""
    world = _World(ground, steps)

    wall = SimpleNamespace(now=lambda zone: ground.now().astimezone(zone))

    def scheduler(**given: Any) -> _Scheduler:
        world.scheduler = _Scheduler(**given)
        return world.scheduler

    with (
        patch.object(base, "datetime", wall),
        patch.object(alarms, "BackgroundScheduler", scheduler),
        patch.object(watch, "SystemClock", lambda: ground),
    ):
        rounds = watch._Rounds(world, world, _POLL_SECONDS, lambda: None)  # type: ignore[arg-type]
        world.rounds = rounds
        rounds._wake = Signal(world.passing)  # type: ignore[assignment]
        rounds.run()
    if rounds.failure is not None:
        raise rounds.failure
