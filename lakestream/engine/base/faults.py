"""Crash points of the tick protocol: named places where a fault test stops the process, or pretends to.

``LAKESTREAM_CRASH_AT=C6b`` in the environment ends the process when it reaches the point, as kill -9 would;
``C6b:3`` does at the third time. :func:`crash_at` raises there instead, for tests in one process.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from lakestream.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CRASH_VARIABLE = "LAKESTREAM_CRASH_AT"
STATUS_KILLED = 137

TICK_POINTS = ("C1", "C2", "C3", "C4", "C6a", "C6b", "C7")
NOTIFY_POINTS = ("C5", "C8", "C9")
QUARANTINE_POINTS = ("Q1",)
MAINTENANCE_POINTS = ("M1",)
MIGRATION_POINTS = ("G1", "G2", "G3")
POINTS = TICK_POINTS + NOTIFY_POINTS + QUARANTINE_POINTS + MAINTENANCE_POINTS + MIGRATION_POINTS
"""Of every tick, and of those that emit events. After: C1 the source's version is known, C2 the plan, C3 the
computation, C4 the state checkpoint, C5 the events in the outbox, C6a just before and C6b just after the
output commit, C7 the progress record, C8 a message that was sent, before it is recorded as delivered, and
C9 after that. Q1 is after rows were put into a quarantine. M1 is after the upkeep of a table. Of a migrated
output, G1 is after both layouts are described, G2 after the rows, G3 after the new layout alone is
described."""


class SimulatedCrash(BaseException):
    """What a crash point raises in the process of a test."""


@dataclass
class _Trap:
    """Springs when its point is reached for the ``left``-th time from now."""

    point: str
    left: int
    spring: Callable[[], None]

    def reached(self, point: str) -> None:
        if point != self.point:
            return
        self.left -= 1
        if self.left == 0:
            self.spring()


def crash_point(point: str) -> None:
    """Pass a crash point; a trap that was set for it springs."""
    for trap in _traps:
        trap.reached(point)


@contextmanager
def crash_at(point: str, nth: int = 1) -> Iterator[None]:
    """Raise SimulatedCrash when the point is reached for the ``nth`` time within the block.

    Raises ConfigError SETTING_INVALID when there is no such point.
    """

    def spring() -> NoReturn:
        raise SimulatedCrash(point)

    trap = _set(point, nth, spring)
    try:
        yield
    finally:
        _traps.remove(trap)


def _set(point: str, nth: int, spring: Callable[[], None]) -> _Trap:
    if point not in POINTS or nth < 1:
        raise ConfigError(
            "SETTING_INVALID",
            f"there is no crash point {point}:{nth}",
            hint=f"the points are {', '.join(POINTS)}; {POINTS[0]}:3 is the third time there",
        )
    trap = _Trap(point, nth, spring)
    _traps.append(trap)
    return trap


def _die() -> NoReturn:
    os._exit(STATUS_KILLED)


def _set_by_environment() -> None:
    written = os.environ.get(CRASH_VARIABLE)
    if not written:
        return
    point, colon, nth = written.partition(":")
    nth = nth if colon else "1"
    _set(point, int(nth) if nth.isdecimal() else 0, _die)


_traps: list[_Trap] = []
_set_by_environment()
