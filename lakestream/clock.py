"""The wall clock, always passed in: this is the only module that reads the time or sleeps."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from lakestream.errors import BusyError


class Clock(Protocol):
    """What lakestream asks of a clock."""

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never run backwards, for durations and leases."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait that many seconds of this clock."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the machine's wall-clock time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the machine's monotonic seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""
        time.sleep(seconds)


class InterruptibleClock(SystemClock):
    """The machine's clock, whose sleep another thread can end with an error."""

    def __init__(self) -> None:
        self._interrupted = threading.Event()

    def interrupt(self) -> None:
        """Have the sleep that goes on, or the next one, raise BusyError INTERRUPTED."""
        self._interrupted.set()

    def forget(self) -> None:
        """Let what was interrupted before be over."""
        self._interrupted.clear()

    def sleep(self, seconds: float) -> None:
        """Block the calling thread; raises BusyError INTERRUPTED when another one says so."""
        if self._interrupted.wait(seconds):
            raise BusyError("INTERRUPTED", "the statement was interrupted")


class ManualClock:
    """A clock that only moves when told to; thread-safe.

    >>> clock = ManualClock(datetime(2025, 1, 1, tzinfo=UTC))
    >>> clock.advance(timedelta(seconds=90))
    >>> clock.now().isoformat()
    '2025-01-01T00:01:30+00:00'
    """

    def __init__(self, start: datetime) -> None:
        if start.tzinfo is None:
            raise ValueError("a clock needs an aware datetime")
        self._now = start.astimezone(UTC)
        self._elapsed = 0.0
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Return the time set last."""
        with self._lock:
            return self._now

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        with self._lock:
            return self._elapsed

    def sleep(self, seconds: float) -> None:
        """Advance the clock by that many seconds, at once."""
        self.advance(timedelta(seconds=seconds))

    def advance(self, by: timedelta) -> None:
        """Move the clock forward; a negative step raises ValueError."""
        if by < timedelta(0):
            raise ValueError("a manual clock only moves forward")
        with self._lock:
            self._now += by
            self._elapsed += by.total_seconds()
