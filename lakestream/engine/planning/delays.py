"""What the wall clock makes due: MAX_DELAY of windows that are still open, and windows that it closes.

All of it is decided by durable state and the clock: which windows are open, when each of them opened (both
are saved with the stream's state), and up to where the clock has closed them (its progress).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from lakestream.engine.base.state import DELAYS
from lakestream.engine.reading.relations import STATE
from lakestream.language.model import IntervalTrigger
from lakestream.storage.reading import arrow_frame

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.streams.stream import Stream

OpenWindow = tuple[int, int]
"""Group and number of a window."""


@dataclass
class Delays:
    """When each open window opened, by the wall clock (µs), and how often its delay has passed since."""

    delay_us: int
    _known: dict[int, dict[int, tuple[int, int]]] = field(default_factory=dict)
    _next: list[tuple[int, OpenWindow]] = field(default_factory=list)
    """A heap of when delays pass; what is not so any more is passed over."""

    @classmethod
    def restored(cls, delay_us: int, saved: pa.Table | None) -> Delays:
        """Return the delays of a saved state, None for none."""
        if saved is None or DELAYS not in saved.column_names:
            return cls(delay_us)
        delays, listed = cls(delay_us), zip(saved["gid"].to_pylist(), saved[DELAYS].to_pylist(), strict=True)
        for gid, one in ((gid, one) for gid, found in listed for one in found):
            delays._put((gid, one["k"]), one["opened"], one["fired"])
        return delays

    def saved(self, state: pa.Table) -> pa.Table:
        """Return a state as it is saved, with the delays of each group's windows."""
        import pyarrow as pa

        found = {
            gid: [{"k": k, "opened": opened, "fired": fired} for k, (opened, fired) in windows.items()]
            for gid, windows in self._known.items()
        }
        kind = pa.list_(pa.struct([(name, pa.int64()) for name in ("k", "opened", "fired")]))
        return state.append_column(
            DELAYS, pa.array([found.get(gid, []) for gid in state["gid"].to_pylist()], kind)
        )

    def follow(self, windows: Iterable[OpenWindow], now_us: int, gids: Iterable[int] | None = None) -> None:
        """Take the windows of some groups (None: of all) that are open now; new ones have opened now."""
        known = {gid: self._known.pop(gid, {}) for gid in (list(self._known) if gids is None else gids)}
        for gid, k in windows:
            if k in known.get(gid, ()):
                self._known.setdefault(gid, {})[k] = known[gid][k]
            else:
                self._put((gid, k), now_us, 0)

    def due(self, now_us: int) -> list[OpenWindow]:
        """Return the windows whose delay has passed once more."""
        first = self.next_due()
        if first is None or first > now_us:
            return []
        return [
            (gid, k)
            for gid, windows in self._known.items()
            for k, (opened, fired) in windows.items()
            if self._passes(opened, fired) <= now_us
        ]

    def next_due(self) -> int | None:
        """Return the first instant at which a delay has passed once more (µs), None for none."""
        while self._next:
            instant, (gid, k) = self._next[0]
            now = self._known.get(gid, {}).get(k)
            if now is not None and self._passes(*now) == instant:
                return instant
            heappop(self._next)
        return None

    def fire(self, windows: Iterable[OpenWindow], now_us: int) -> None:
        """Count the delays that have passed; a slow computation passes over those that it covers."""
        for gid, k in windows:
            opened, _ = self._known[gid][k]
            self._put((gid, k), opened, (now_us - opened) // self.delay_us)

    def _put(self, window: OpenWindow, opened: int, fired: int) -> None:
        gid, k = window
        self._known.setdefault(gid, {})[k] = opened, fired
        heappush(self._next, (self._passes(opened, fired), window))

    def _passes(self, opened: int, fired: int) -> int:
        """Return when the delay of a window passes once more (µs)."""
        return opened + (fired + 1) * self.delay_us


def open_windows(spark: SparkSession, stream: Stream, groups: pa.Table | None) -> list[OpenWindow]:
    """Return the windows that rows of groups have opened and none has closed, groups as in a state.

    They go by their number, those of a cut by their start.
    """
    if groups is None or not groups.num_rows:
        return []
    if stream.cut is not None:
        ahead = stream.definition.options.emission.opens_ahead
        return _opened(groups, "starts" if stream.cut.counts else "opened" if ahead else "resume")
    arrow_frame(spark, groups).coalesce(1).createOrReplaceTempView(STATE)
    found = spark.sql(stream.open_sql(STATE)).toArrow()
    return [*zip(found["gid"].to_pylist(), found["k"].to_pylist(), strict=True)]


def _opened(groups: pa.Table, column: str) -> list[OpenWindow]:
    """Return the open windows that a column of groups holds, one of each or a list."""
    rows = zip(groups["gid"].to_pylist(), groups[column].to_pylist(), strict=True)
    listed = ((gid, value if isinstance(value, list) else [value]) for gid, value in rows)
    return [(gid, low) for gid, lows in listed for low in lows if low is not None]


def closed_by_clock(stream: Stream, now_us: int) -> int | None:
    """Return the last end of a window that the clock has passed (µs); None where windows do not close so."""
    trigger = stream.definition.trigger
    if not stream.definition.options.emission.by_clock or not isinstance(trigger, IntervalTrigger):
        return None
    offset, length = trigger.offset.micros, trigger.length.micros
    return (now_us - offset) // length * length + offset


def next_close(stream: Stream, now_us: int) -> int | None:
    """Return the end of the window that the clock closes next (µs); None where windows do not close so."""
    closed, trigger = closed_by_clock(stream, now_us), stream.definition.trigger
    if closed is None or not isinstance(trigger, IntervalTrigger):
        return None
    return closed + trigger.length.micros
