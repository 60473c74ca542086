"""What simulations stand on: a clock that somebody else moves, and a count of what has happened."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

START = datetime(2025, 1, 1, tzinfo=UTC)


class Ground:
    """One run: its choices, its time in seconds since the start, and how many steps it has taken."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)
        random.seed(seed)  # of which libraries draw how long they wait
        self.seconds = 0.0
        self.steps = 0
        self.jumped = 0.0

    def chance(self, of_hundred: float) -> bool:
        """Return whether something happens that does so often."""
        return self.random.random() * 100 < of_hundred

    def pass_time(self, seconds: float) -> None:
        """Let time go by."""
        self.seconds += max(seconds, 0.0)

    # --- the clock of lakestream ---

    def now(self) -> datetime:
        """Return the wall-clock time, which somebody may set."""
        return START + timedelta(seconds=self.seconds + self.jumped)

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        return self.seconds

    def sleep(self, seconds: float) -> None:
        """Let time go by."""
        self.pass_time(seconds)


class Signal:
    """What a thread waits for, in the place of an Event: ``passing`` does what happens meanwhile."""

    def __init__(self, passing: Callable[[float], None]) -> None:
        self._passing = passing
        self._is_set = False

    def set(self) -> None:
        """Wake whoever waits."""
        self._is_set = True

    def clear(self) -> None:
        """Have the next one wait again."""
        self._is_set = False

    def is_set(self) -> bool:
        """Return whether it was set."""
        return self._is_set

    def wait(self, timeout: float) -> bool:
        """Let that much time go by, unless it is set."""
        if not self._is_set:
            self._passing(timeout)
        return self._is_set
