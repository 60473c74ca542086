"""Recalculations, and failures of ticks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

RecalculationStatus = Literal["Waiting", "Running", "Done"]


@dataclass(frozen=True)
class Recalculation:
    """A recalculation of a stream's windows, asked for by a statement and done in parts.

    It covers the windows that overlap ``[start_us, end_us)`` of event time, None for no bound;
    ``resync`` takes the stream's place and state from the source's snapshot first. ``part`` counts the
    parts done.

    It begins once the stream has taken the source's version ``asked_at`` (None: at once). ``groups`` are
    those that it takes up again (None: it is for all and takes none up), ``place`` the source's version
    that the stream was put at for it (None: not yet, or it need not be). ``cuts`` are the instants (µs)
    between its parts (None: not cut yet), ``rows`` about how many rows it reads in all, ``versions`` the
    source's version that each part was computed at, ``rows_out`` how many rows its parts have written, as
    far as that is known (a part that a crash cut short). ``unknown`` is what else is saved of it.
    """

    id: str
    uuid: str
    start_us: int | None
    end_us: int | None
    resync: bool
    status: RecalculationStatus
    requested_us: int
    part: int = 0
    asked_at: int | None = None
    groups: tuple[int, ...] | None = None
    place: int | None = None
    cuts: tuple[int, ...] | None = None
    rows: int = 0
    versions: tuple[int, ...] = ()
    rows_out: int = 0
    unknown: dict[str, Any] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether it is not done yet."""
        return self.status != "Done"

    @property
    def parts(self) -> int | None:
        """How many parts there are; None before they are cut."""
        return None if self.cuts is None else len(self.cuts) + 1


@dataclass(frozen=True)
class Failure:
    """A failure of a stream: the tick that was to come, and the error. ``at_us`` is in µs since 1970 UTC."""

    id: str
    uuid: str
    at_us: int
    tick: int
    code: str
    message: str
