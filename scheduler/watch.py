"""Keep the streams of a lake current until told to stop."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol

from lakestream.clock import SystemClock
from lakestream.errors import BusyError, SparkGoneError, StorageError
from lakestream.scheduler.alarms import Alarms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.errors import LakestreamError
    from lakestream.lake import Lake

PASSING = (BusyError, StorageError)
"""Errors that may be gone at the next round: they are reported and the watch goes on."""


QUIET_SECONDS = 10.0
"""After so long without a tick, looks are ``QUIET_FACTOR`` times as far apart: idling costs little else."""
QUIET_FACTOR = 10
SOON_SECONDS = 1.0
"""So soon after a tick another commit is likely: looks are closer, by the share that has passed of it."""
SOON_LEAST = 0.25
_HEARING_SECONDS = 0.5
"""How long the main thread waits at a time: a signal that another thread caught, or that came just before a
wait, ends none, and Python hears of it behind the wait only."""


class Listener(Protocol):
    """Who is told what happens; all but ``started`` and ``stopping`` are called from another thread."""

    def started(self) -> None:
        """Hear that the first round is about to begin; from now on a signal stops the watch."""

    def began(self) -> None:
        """Hear that a round begins."""

    def ended(self) -> None:
        """Hear that it has ended, whatever it did."""

    def ticked(self, report: TickReport) -> None:
        """Hear what a tick did."""

    def failed(self, error: LakestreamError) -> None:
        """Hear of an error that may be gone at the next round (see :data:`PASSING`), or of Spark's death."""

    def stopping(self) -> None:
        """Hear that a signal came; the running tick is finished first."""


def watch(lake: Lake, listener: Listener, *, poll_seconds: float) -> None:
    """Run rounds over all streams until SIGTERM or SIGINT.

    One begins when the clock makes something due, and every ``poll_seconds`` for what was committed
    meanwhile (see :func:`pause`). It ticks until nothing is left to do; what Spark computes goes on beside.
    Rounds never overlap; an alarm during one, or the end of a tick beside, is followed by another. What is
    due is decided by the lake's own state: alarms that ring late, twice or not at all (the clock was set)
    change when a round begins, not what it does. A signal lets the running ticks finish; a second SIGINT ends
    the process at once. Has to be called in the main thread.

    Where a Spark that lakestream has started has died, that is said, and what it was to do begins anew with
    another one. Raises what a round raised, except that and the errors in :data:`PASSING`.
    """
    ends: SimpleQueue[int | None] = SimpleQueue()
    rounds = _Rounds(lake, listener, poll_seconds, lambda: ends.put(None))
    with _signals_put_into(ends):
        listener.started()
        rounds.start()
        try:
            number = _first(ends)
        finally:
            rounds.stop()
        if number is not None:
            listener.stopping()
        while rounds.is_alive():
            rounds.join(_HEARING_SECONDS)
    if rounds.failure is not None:
        raise rounds.failure


def _first(ends: SimpleQueue[int | None]) -> int | None:
    while True:
        with suppress(Empty):
            return ends.get(timeout=_HEARING_SECONDS)


def pause(poll_seconds: float, quiet_seconds: float) -> float:
    """Return the seconds until the next look at a lake without a tick for ``quiet_seconds``."""
    if quiet_seconds >= QUIET_SECONDS:
        return poll_seconds * QUIET_FACTOR
    return poll_seconds * min(1.0, max(SOON_LEAST, quiet_seconds / SOON_SECONDS))


class _Rounds(threading.Thread):
    """The thread of the rounds, and what it has to tell the thread that waits for it."""

    def __init__(
        self, lake: Lake, listener: Listener, poll_seconds: float, failed: Callable[[], None]
    ) -> None:
        super().__init__(name="rounds")
        self.failure: BaseException | None = None
        self._failed = failed
        self._stopped = threading.Event()
        self._wake = threading.Event()
        self._lake = lake
        self._listener = listener
        self._poll_seconds = poll_seconds
        self._meter = SystemClock()
        self._busy_at = self._meter.monotonic()

    def stop(self) -> None:
        """Have the rounds end after the running tick."""
        self._stopped.set()
        self._wake.set()

    def run(self) -> None:
        """Run rounds until told to stop."""
        alarms = Alarms(self._wake.set)
        alarms.start()
        try:
            while self._goes_on():
                if self._tick_once():
                    self._busy_at = self._meter.monotonic()
                    continue
                alarms.set(self._lake.alarms)
                self._wake.wait(pause(self._poll_seconds, self._meter.monotonic() - self._busy_at))
        except BaseException as error:  # noqa: BLE001 (handed to the waiting thread, which raises it)
            self.failure = error
            self._failed()
        finally:
            alarms.close()

    def _goes_on(self) -> bool:
        """Return whether another round is to begin; who wakes it from now on means the one after it."""
        self._wake.clear()
        return not self._stopped.is_set()

    def _tick_once(self) -> bool:
        self._listener.began()
        try:
            return bool(self._lake.tick_once(self._listener.ticked, self._wake.set))
        except PASSING as error:
            self._listener.failed(error)
            return False
        except SparkGoneError as error:
            if not self._lake.shared_spark.goes_on():
                raise
            self._listener.failed(error)
            return False
        finally:
            self._listener.ended()


@contextmanager
def _signals_put_into(ends: SimpleQueue[int | None]) -> Iterator[None]:
    """Let SIGTERM and SIGINT be heard by who waits; the handlers that were there come back afterwards.

    A handler runs amid what the main thread does: of all that waits for a lock, it may have that very lock.
    """
    heard = False

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal heard
        if heard and number == signal.SIGINT:
            # Ticks survive a kill; a Python exception would still wait for the running one.
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        heard = True
        ends.put(number)  # which may be called amid a call of itself

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
