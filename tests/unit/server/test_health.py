"""What a daemon says of its rounds."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from lakestream.clock import ManualClock
from lakestream.errors import BusyError
from lakestream.server.daemon import ended_by_signals
from lakestream.server.news.listener import Listener


@pytest.mark.parametrize("stuck_seconds", [60, 0])
def test_a_round_that_does_not_end_is_stuck(stuck_seconds: float) -> None:
    clock, said, begun = ManualClock(datetime(2025, 1, 1, tzinfo=UTC)), list[str](), list[float]()
    nobody, resting = cast("Any", None), list[str]()
    listener = Listener(
        *("x", said.append, clock, nobody, nobody, nobody, nobody),
        begun=lambda: [*begun],
        rests=lambda: bool(resting),
        stuck_seconds=stuck_seconds,
    )
    assert listener.health() == "ok"
    listener.began()
    clock.advance(timedelta(seconds=59))
    assert listener.health() == "ok"
    clock.advance(timedelta(seconds=2))
    assert listener.health() == ("stuck" if stuck_seconds else "ok")
    listener.failed(BusyError("LAKE_LOCKED", "process 7 writes"))
    listener.ended()
    assert (listener.health(), len(said)) == ("failing", 1)
    clock.advance(timedelta(seconds=10))
    assert listener.health() == "ok"
    resting.append("Spark has died several times")
    assert listener.health() == "failing"
    resting.clear()
    begun.append(clock.now().timestamp())
    clock.advance(timedelta(seconds=61))
    assert listener.health() == ("stuck" if stuck_seconds else "ok")


def test_nothing_waits_to_leave_a_tick_once_the_daemon_has_ended() -> None:
    said, nobody = list[str](), cast("Any", None)
    listener = Listener(
        *("x", said.append, ManualClock(datetime(2025, 1, 1, tzinfo=UTC)), *[nobody] * 4, list, bool)
    )
    before = set(threading.enumerate())
    listener.close()
    listener.stopping()
    assert set(threading.enumerate()) - before
    listener.close()
    assert not set(threading.enumerate()) - before
    assert said == ["stopping after the running tick"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_comes_while_it_starts_is_heard_whoever_keeps_the_exit(number: int) -> None:
    before = signal.getsignal(number)
    with ended_by_signals() as is_told:
        assert not is_told()
        with suppress(SystemExit):
            os.kill(os.getpid(), number)
        assert is_told()
    assert signal.getsignal(number) is before
