"""When groups fall idle and are heard of again: what a stream with IDLE_TIMEOUT tells, look by look.

A look is an instant of the wall clock at which all there is has been taken, and the groups of which rows have
come since the look before: they come at that instant. A group that is active falls idle where a look finds
nothing of it at or past its timeout; that happened when the timeout was over. The next row of an idle group
ends its silence. Groups of which no row has ever come are not known. Where the clock is set back, time stands
still for a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True)
class Look:
    """An instant, and the groups of which rows have come."""

    at: int
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Event:
    """What happened to a group: IDLE or RESUME, when it was heard of last, and when this happened."""

    group: str
    kind: str
    start: int
    end: int


def events(timeout: int, looks: Iterable[Look]) -> Iterator[Event]:
    """Yield the events of all groups, look by look."""
    heard: dict[str, int] = {}
    idle: set[str] = set()
    for look in looks:
        for group in sorted(look.groups):
            if group in idle:
                resumed = max(look.at, heard[group] + timeout)
                yield Event(group, "RESUME", heard[group], resumed)
                idle.remove(group)
                heard[group] = resumed
            else:
                heard[group] = max(look.at, heard.get(group, look.at))
        for group, last in sorted(heard.items()):
            if group not in idle and look.at >= last + timeout:
                yield Event(group, "IDLE", last, last + timeout)
                idle.add(group)
