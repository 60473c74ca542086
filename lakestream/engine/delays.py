"""What the wall clock makes due: MAX_DELAY of windows that are still open, and windows that it closes.

All of it is decided by durable state and the clock: which windows are open, when each of them opened (both
are saved with the stream's state), and up to where the clock has closed them (its progress).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakestream.engine.relations import STATE
from lakestream.engine.state import DELAYS
from lakestream.language.model import IntervalTrigger
from lakestream.storage.reading import arrow_frame

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.state import GroupState
    from lakestream.engine.stream import Stream

OpenWindow = tuple[int, int]
"""Group and number of a window."""


@dataclass
class Delays:
    """When each open window opened, by the wall clock (µs), and how often its delay has passed since."""

    delay_us: int
    _known: dict[OpenWindow, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def restored(cls, delay_us: int, saved: pa.Table | None) -> Delays:
        """Return the delays of a saved state, None for none."""
        if saved is None or DELAYS not in saved.column_names:
            return cls(delay_us)
        rows = zip(saved["gid"].to_pylist(), saved[DELAYS].to_pylist(), strict=True)
        known = {(gid, one["k"]): (one["opened"], one["fired"]) for gid, found in rows for one in found}
        return cls(delay_us, known)

    def saved(self, state: pa.Table) -> pa.Table:
        """Return a state as it is saved, with the delays of each group's windows."""
        import pyarrow as pa

        found: dict[int, list[dict[str, int]]] = {}
        for (gid, k), (opened, fired) in self._known.items():
            found.setdefault(gid, []).append({"k": k, "opened": opened, "fired": fired})
        kind = pa.list_(pa.struct([(name, pa.int64()) for name in ("k", "opened", "fired")]))
        return state.append_column(
            DELAYS, pa.array([found.get(gid, []) for gid in state["gid"].to_pylist()], kind)
        )

    def follow(self, windows: Iterable[OpenWindow], now_us: int) -> None:
        """Take the windows that are open now; those that were not known have opened now."""
        self._known = {window: self._known.get(window, (now_us, 0)) for window in windows}

    def due(self, now_us: int) -> list[OpenWindow]:
        """Return the windows whose delay has passed once more."""
        return [
            window
            for window, (opened, fired) in self._known.items()
            if (now_us - opened) // self.delay_us > fired
        ]

    def next_due(self) -> int | None:
        """Return the first instant at which a delay has passed once more (µs), None for none."""
        instants = (opened + (fired + 1) * self.delay_us for opened, fired in self._known.values())
        return min(instants, default=None)

    def fire(self, windows: Iterable[OpenWindow], now_us: int) -> None:
        """Count the delays that have passed; a slow computation passes over those that it covers."""
        for window in windows:
            opened, _ = self._known[window]
            self._known[window] = (opened, (now_us - opened) // self.delay_us)


def open_windows(spark: SparkSession, stream: Stream, state: GroupState) -> list[OpenWindow]:
    """Return the windows that rows have opened and none has closed; by number, for a cut by start."""
    if state.rows is None or not len(state):
        return []
    if stream.cut is not None:
        ahead = stream.definition.options.opens_ahead
        several = "starts" if stream.cut.counts else "opened" if ahead else None
        return [
            (row["gid"], low)
            for row in state.rows.to_pylist()
            for low in (row[several] if several else [row["resume"]])
            if low is not None
        ]
    arrow_frame(spark, state.rows).coalesce(1).createOrReplaceTempView(STATE)
    found = spark.sql(stream.open_sql(STATE)).toArrow()
    return [*zip(found["gid"].to_pylist(), found["k"].to_pylist(), strict=True)]


def closed_by_clock(stream: Stream, now_us: int) -> int | None:
    """Return the last end of a window that the clock has passed (µs); None where windows do not close so."""
    trigger = stream.definition.trigger
    if not stream.definition.options.by_clock or not isinstance(trigger, IntervalTrigger):
        return None
    offset, length = trigger.offset.micros, trigger.length.micros
    return (now_us - offset) // length * length + offset


def next_close(stream: Stream, now_us: int) -> int | None:
    """Return the end of the window that the clock closes next (µs); None where windows do not close so."""
    closed, trigger = closed_by_clock(stream, now_us), stream.definition.trigger
    if closed is None or not isinstance(trigger, IntervalTrigger):
        return None
    return closed + trigger.length.micros
