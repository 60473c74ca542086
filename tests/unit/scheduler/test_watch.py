"""The watch: rounds until a signal, and what ends it."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lakestream.clock import SystemClock
from lakestream.errors import BusyError, LakestreamError, SparkGoneError, StreamError
from lakestream.scheduler.watch import QUIET_SECONDS, pause, watch

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_quiet_lake_is_looked_at_less_often() -> None:
    assert pause(0.02, 0.0) == pause(0.02, 0.2) == pytest.approx(0.005)
    assert pause(0.02, 0.5) == pytest.approx(0.01)
    assert pause(0.02, 1.0) == pause(0.02, QUIET_SECONDS - 1) == 0.02
    assert pause(0.02, QUIET_SECONDS) == pytest.approx(0.2)


class Rounds:
    """A lake of which only ``tick_once`` is asked: each call takes the next answer, then nothing is left."""

    def __init__(self, *answers: list[str] | Exception, at_end: Callable[[], None]) -> None:
        self.alarms: dict[str, Any] = {}
        self.answers = list(answers)
        self.at_end = at_end
        self.running = 0
        self.most_running = 0
        self.has_spark = True
        self.shared_spark = SimpleNamespace(goes_on=lambda: self.has_spark)

    def tick_once(self, on_tick: Callable[[Any], None], _ended: Callable[[], None]) -> list[Any]:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if not self.answers:
                self.at_end()
                return []
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            for report in answer:
                on_tick(report)
            return answer
        finally:
            self.running -= 1


def send(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


class Heard:
    """Notes what the watch tells."""

    def __init__(self) -> None:
        self.ticks: list[Any] = []
        self.errors: list[LakestreamError] = []
        self.others: list[str] = []
        self.rounds: list[str] = []

    def started(self) -> None:
        self.others.append("started")

    def began(self) -> None:
        self.rounds.append("began")

    def ended(self) -> None:
        self.rounds.append("ended")

    def ticked(self, report: Any) -> None:
        self.ticks.append(report)

    def failed(self, error: LakestreamError) -> None:
        self.errors.append(error)

    def stopping(self) -> None:
        self.others.append("stopping")


def run(lake: Rounds) -> Heard:
    heard = Heard()
    watch(lake, heard, poll_seconds=0.01)  # type: ignore[arg-type]
    return heard


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ticks_until_a_signal_and_leaves_the_handlers_as_they_were(number: int) -> None:
    before = signal.getsignal(number)
    heard = run(Rounds(["a", "b"], ["c"], at_end=send(number)))
    assert (heard.ticks, heard.errors) == (["a", "b", "c"], [])
    assert heard.others == ["started", "stopping"]
    assert signal.getsignal(number) is before


STRUCK = """
import faulthandler, os, signal, sys, threading
from types import SimpleNamespace
from lakestream.scheduler import watch

faulthandler.dump_traceback_later(60, exit=True)
signal.signal(signal.SIGTERM, lambda *_: None)  # whose turn comes again when the watch is over


class Struck:
    # Hears what the watch tells; a signal comes at a line of what the main thread runs then.

    def __init__(self, line):
        self.left, self.heard = line, []

    def started(self):
        sys.settrace(self.trace)
        sys._getframe(1).f_trace = self.trace

    def trace(self, frame, event, _):
        if frame.f_globals["__name__"] not in ("threading", watch.__name__):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGTERM)
        return self.trace

    def stopping(self):
        self.heard.append("stopping")

    began = ended = ticked = failed = lambda *_: None


def begins(line):
    looks = iter(range(40))

    def tick_once(*_):
        if next(looks, None) is None:  # the watch has fewer lines
            os.kill(os.getpid(), signal.SIGTERM)

    struck = Struck(line)
    lake = SimpleNamespace(alarms={}, tick_once=tick_once)
    watch.watch(lake, struck, poll_seconds=0.001)
    sys.settrace(None)
    assert struck.heard == ["stopping"]
    return struck.left <= 0


line = 1
while begins(line):
    line += 1
assert line > 10
print(line)
"""


def test_a_signal_at_any_line_of_the_main_thread_ends_the_watch() -> None:
    """What the handler does must not wait for a lock that the main thread has."""
    done = subprocess.run([sys.executable, "-c", STRUCK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


CAUGHT_ELSEWHERE = """
import faulthandler, os, signal, sys, threading
from types import SimpleNamespace
from lakestream.scheduler import watch

faulthandler.dump_traceback_later(30, exit=True)
number = getattr(signal, sys.argv[1])


class Heard:
    started = began = ended = ticked = failed = lambda *_: None

    def stopping(self):
        stopping.set()


def elsewhere():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    stopping.wait()


stopping = threading.Event()
signal.pthread_sigmask(signal.SIG_BLOCK, {number})
threading.Timer(0.2, elsewhere).start()
watch.watch(SimpleNamespace(alarms={}, tick_once=lambda *_: None), Heard(), poll_seconds=0.001)
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_that_another_thread_catches_ends_the_watch(name: str) -> None:
    """Threads of libraries catch some under load: they end no wait of the main thread."""
    command = [sys.executable, "-c", CAUGHT_ELSEWHERE, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_rounds_follow_each_other_and_never_overlap(caplog: pytest.LogCaptureFixture) -> None:
    idle = threading.Event()
    left = [3]

    def at_end() -> None:
        idle.wait(0.05)  # longer than a poll: due rounds are passed over
        left[0] -= 1
        if left[0] == 0:
            send(signal.SIGTERM)()

    lake = Rounds(["a"], at_end=at_end)
    with caplog.at_level(logging.DEBUG):
        run(lake)
    assert lake.most_running == 1
    # The main thread heeds the signal when it wakes: one more round may have begun by then.
    assert left[0] in {0, -1}
    assert "maximum number of running instances" not in caplog.text


def test_an_alarm_begins_a_round_long_before_the_next_poll() -> None:
    idle = [0]

    def at_end() -> None:
        idle[0] += 1
        if idle[0] == 2:
            send(signal.SIGTERM)()

    lake = Rounds(at_end=at_end)
    lake.alarms = {"s": SystemClock().now() + timedelta(seconds=0.05)}
    watch(lake, Heard(), poll_seconds=3_600)  # type: ignore[arg-type]
    assert idle == [2]


def test_an_error_that_passes_is_told_and_the_watch_goes_on() -> None:
    busy = BusyError("LAKE_LOCKED", "process 7 writes")
    heard = run(Rounds(busy, ["a"], at_end=send(signal.SIGTERM)))
    assert (heard.ticks, heard.errors) == (["a"], [busy])
    assert heard.rounds[:4] == ["began", "ended"] * 2


def test_a_spark_that_has_died_is_told_and_the_watch_goes_on_with_another() -> None:
    gone = SparkGoneError("SPARK_DIED", "process 9 has ended")
    heard = run(Rounds(gone, ["a"], at_end=send(signal.SIGTERM)))
    assert (heard.ticks, heard.errors) == (["a"], [gone])


def test_a_given_spark_that_has_died_ends_the_watch() -> None:
    lake = Rounds(SparkGoneError("SPARK_DIED", "process 9 has ended"), at_end=lambda: None)
    lake.has_spark = False
    with pytest.raises(SparkGoneError):
        run(lake)


@pytest.mark.parametrize("error", [StreamError("CHANGES_LOST", "gone"), ZeroDivisionError("x")])
def test_another_error_ends_it(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        run(Rounds(["a"], error, at_end=lambda: None))
    assert raised.value is error
