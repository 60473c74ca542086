"""What the next round has to look at: a look costs the same for one stream and for a thousand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from lakestream.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from lakestream.storage.delta import Tables
    from lakestream.triggers.period import Period
    from lakestream.triggers.resample import Resample

    Alarm = Period | Resample | datetime
    """When the clock makes something due: at the instants of a definition, or at a moment (UTC)."""


@dataclass(frozen=True)
class WaitCondition:
    """A stream that waits for a commit to one of some tables, by path, and for an instant (µs; None: no)."""

    sources: tuple[str, ...]
    due_us: int | None


@dataclass(frozen=True)
class Look:
    """The streams that a round looks at (None: all), and the sources' marks as it saw them first."""

    streams: set[str] | None = None
    sources: dict[str, object] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is no stream to look at."""
        return self.streams is not None and not self.streams


@dataclass(frozen=True)
class Seen:
    """What a round goes by: the time (µs since 1970 UTC), the registry's marks, and what it looks at.

    The marks are from before anything was read of the registry: what others write meanwhile is for the next.
    """

    now_us: int
    marks: tuple[int, ...]
    look: Look


@dataclass(frozen=True)
class WakeUpIndex:
    """What each stream waits for while the registry stands as it does; None: it is looked at every time."""

    registry: tuple[int, ...]
    sources: Mapping[str, object]
    waiting: Mapping[str, WaitCondition | None]

    def look(self, marks: tuple[int, ...], tables: Tables, now_us: int) -> Look:
        """Look at each table once, and say which streams may have something to do.

        ``marks`` are the registry's.
        """
        if marks != self.registry:
            return Look()
        try:
            seen = {path: tables.latest(path).mark for path in self.sources}
        except (StorageError, OSError):
            return Look()  # a round finds out what that means for each stream
        return Look(self._busy | self._moved(seen) | self._due(now_us), seen)

    def busy_too(self, uuids: Collection[str]) -> WakeUpIndex:
        """Return it with some streams that are looked at every time."""
        return replace(self, waiting={**self.waiting, **dict.fromkeys(uuids)})

    @cached_property
    def _busy(self) -> set[str]:
        """Those that wait for nothing, or for a table that was not looked at: it may have moved since."""
        seen = self.sources.keys()
        return {uuid for uuid, one in self.waiting.items() if one is None or not seen >= {*one.sources}}

    @cached_property
    def _dues(self) -> dict[str, int]:
        found = ((uuid, one.due_us) for uuid, one in self.waiting.items() if one is not None)
        return {uuid: due_us for uuid, due_us in found if due_us is not None}

    @cached_property
    def _first_due(self) -> float:
        return min(self._dues.values(), default=float("inf"))

    def _due(self, now_us: int) -> set[str]:
        if now_us < self._first_due:
            return set()
        return {uuid for uuid, due_us in self._dues.items() if due_us <= now_us}

    def _moved(self, seen: Mapping[str, object]) -> set[str]:
        moved = {path for path, mark in seen.items() if mark != self.sources[path]}
        if not moved:
            return set()
        return {uuid for uuid, one in self.waiting.items() if one and not moved.isdisjoint(one.sources)}
