"""Crash points of the tick protocol, as named places where a fault test stops the process."""

from __future__ import annotations

import os

CRASH_VARIABLE = "LAKESTREAM_CRASH_AT"
STATUS_KILLED = 137

POINTS = ("C1", "C2", "C3", "C4", "C6a", "C6b", "C7")
"""After: C1 the source's version is known, C2 the plan, C3 the computation, C4 the state checkpoint,
C6a just before and C6b just after the output commit, C7 the progress record."""


def reach(point: str) -> None:
    """End the process at once, as kill -9 would, when the environment names this point."""
    if os.environ.get(CRASH_VARIABLE) == point:
        os._exit(STATUS_KILLED)
