"""When delays of open windows are over: MAX_DELAY of processing time after each opened, and again.

All of it is decided by durable state and the clock: which windows are open, and when each of them opened.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, TypeAlias

from lakestream.engine.base.state import DELAYS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa


OpenWindow: TypeAlias = tuple[int, int]
"""Group and number of a window; of a row window, its start (µs)."""


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
