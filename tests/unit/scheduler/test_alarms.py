"""The alarm clock on a clock that is set by hand: it rings at instants, once for however many have passed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakestream.clock import ManualClock
from lakestream.errors import Place
from lakestream.language.iotdb.values import Span
from lakestream.language.model import PeriodTrigger
from lakestream.language.reading.durations import read_duration
from lakestream.scheduler.alarms import Alarms
from lakestream.triggers.period import Period
from lakestream.triggers.resample import Resample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakestream.engine.rounds.wakeups import Alarm

START = datetime(2025, 3, 1, 12, 0, 5, tzinfo=UTC)
HOUR = 3_600_000_000


def period(length: str) -> Period:
    here = Place(1, 1)
    return Period(PeriodTrigger(read_duration(length, here), read_duration("0s", here)), "UTC", 0)


def resample(every_us: int, boundary_us: int = 0) -> Resample:
    every, nothing = Span(0, every_us, ""), Span(0, 0, "")
    return Resample(every, every, nothing, boundary_us, "BLOCKED", "UTC")


class Bench:
    """An alarm clock, the clock that it goes by, and how often it has rung."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.rung = 0
        self.alarms = Alarms(self._ring)
        self.alarms.start()

    def _ring(self) -> None:
        self.rung += 1

    def after(self, step: timedelta) -> int:
        """Move the clock and return how often that rang."""
        before = self.rung
        self.clock.advance(step)
        self.alarms._scheduler._process_jobs()
        return self.rung - before

    @property
    def times(self) -> dict[str, str]:
        return {job.id: f"{job.next_run_time:%d %H:%M:%S}" for job in self.alarms.jobs}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """APScheduler takes no clock: its module's ``datetime`` becomes one that asks ours; nothing else runs."""

    class Now(datetime):
        @classmethod
        def now(cls, _zone: object = None) -> datetime:  # type: ignore[override]
            return made[0].clock.now()

    made: list[Bench] = []
    monkeypatch.setattr("apscheduler.schedulers.base.datetime", Now)
    background = "apscheduler.schedulers.background.BackgroundScheduler"
    monkeypatch.setattr(f"{background}._main_loop", lambda _: None)
    made.append(Bench())
    yield made[0]
    made[0].alarms.close()


def test_each_definition_rings_at_its_instants(bench: Bench) -> None:
    bench.alarms.set({"p": period("10s"), "q": resample(HOUR), "m": START + timedelta(seconds=7)})
    assert bench.times == {"p": "01 12:00:10", "m": "01 12:00:12", "q": "01 13:00:00"}
    assert bench.after(timedelta(seconds=4)) == 0
    assert bench.after(timedelta(seconds=1)) == 1
    assert bench.after(timedelta(seconds=2)) == 1
    assert bench.times == {"p": "01 12:00:20", "q": "01 13:00:00"}


def test_an_instant_that_is_now_rings(bench: Bench) -> None:
    bench.alarms.set({"p": period("5s"), "q": resample(5_000_000)})
    assert bench.times == {"p": "01 12:00:05", "q": "01 12:00:05"}
    assert bench.after(timedelta(0)) == 2


@pytest.mark.parametrize("alarm", [period("10a"), resample(1_000)])
def test_a_jump_over_many_instants_rings_once(bench: Bench, alarm: Alarm) -> None:
    bench.alarms.set({"a": alarm})
    bench.after(timedelta(seconds=1))
    assert bench.after(timedelta(days=3)) == 1
    assert bench.times["a"].startswith("04 12:00:06")


def test_what_changed_is_set_anew_and_nothing_else(bench: Bench) -> None:
    kept = period("10s")
    bench.alarms.set({"a": kept, "b": kept, "m": START + timedelta(seconds=1)})
    before = {job.id: job.trigger for job in bench.alarms.jobs}
    assert bench.after(timedelta(seconds=1)) == 1
    bench.alarms.set({"a": kept, "b": period("1m"), "n": START + timedelta(seconds=3)})
    assert bench.times == {"n": "01 12:00:08", "a": "01 12:00:10", "b": "01 12:01:00"}
    assert next(job.trigger for job in bench.alarms.jobs if job.id == "a") is before["a"]
    bench.alarms.set({})
    assert bench.after(timedelta(hours=1)) == 0


def test_a_clock_that_was_set_back_rings_no_instant_again(bench: Bench) -> None:
    bench.alarms.set({"p": period("10s")})
    assert bench.after(timedelta(seconds=5)) == 1
    bench.clock = ManualClock(START - timedelta(hours=1))
    assert bench.after(timedelta(minutes=30)) == 0
    assert bench.times == {"p": "01 12:00:20"}
