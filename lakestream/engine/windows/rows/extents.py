"""Extents of row windows, ``[low, high)`` in microseconds: which ones overlap, hold an instant, or stand."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

Window: TypeAlias = tuple[int, int]
"""``[low, high)`` in microseconds."""


def one_of_each_start(windows: Iterable[Window]) -> set[Window]:
    """Return of windows that begin with rows of one time the last: it is the one that stands."""
    return set(dict(sorted(windows)).items())


def overlaps(window: Window, others: Collection[Window]) -> bool:
    """Return whether a window overlaps one of the others."""
    return any(overlap(window, other) for other in others)


def overlap(one: Window, other: Window) -> bool:
    """Return whether two windows overlap."""
    return one[0] < other[1] and one[1] > other[0]


def chained(windows: Iterable[Window]) -> list[list[Window]]:
    """Return windows in order, those together that overlap one after the other.

    >>> chained([(0, 3), (9, 12), (2, 5), (5, 6)])
    [[(0, 3), (2, 5)], [(5, 6)], [(9, 12)]]
    """
    chains: list[list[Window]] = []
    reached = 0
    for window in sorted(windows):
        if not chains or window[0] >= reached:
            chains.append([])
            reached = window[1]
        chains[-1].append(window)
        reached = max(reached, window[1])
    return chains


def parted(found: list[dict[str, Any]], resume: int | None) -> tuple[list[dict[str, Any]], list[Window]]:
    """Return the windows, and apart from them the open ones that reach back behind where a tick goes on."""
    if resume is None:
        return found, []
    back = [row for row in found if not row["closed"] and row["low"] < resume]
    return [row for row in found if row not in back], [(row["low"], row["high"]) for row in back]


def widened(span: Window, moved: Collection[Window]) -> Window:
    """Return a span of event time with the whole of the windows that go or come, where it is cut otherwise.

    What goes is then replaced in full, and nothing that stays holds rows of what comes.
    """
    while True:
        near = [window for window in moved if overlap(window, span)]
        wider = min([span[0], *(low for low, _ in near)]), max([span[1], *(high for _, high in near)])
        if wider == span:
            return span
        span = wider


def holds(instants: list[int], window: Window) -> bool:
    """Return whether one of the instants, which are in order, lies in the window."""
    at = bisect_left(instants, window[0])
    return at < len(instants) and instants[at] < window[1]


def start_of_open(found: list[dict[str, Any]], resume: int | None) -> int | None:
    """Return the start of the window that holds where the open one began, or of the first open one."""
    if resume is None:
        return min((row["low"] for row in found if not row["closed"]), default=None)
    return max((row["low"] for row in found if row["low"] <= resume), default=None)
