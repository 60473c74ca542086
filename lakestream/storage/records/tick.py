"""Ticks: what one will do, and what it did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakestream.storage.tables.log import commit_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakestream.storage.tables.table import Table


@dataclass(frozen=True)
class HistorySlice:
    """A part of the rows there were at creation: its number, and the instants (µs) between the parts."""

    number: int
    cuts: tuple[int, ...]


@dataclass(frozen=True)
class Instant:
    """The instants of PERIOD around one (µs), and how many were missed before it."""

    before_us: int
    after_us: int
    missed: int


@dataclass(frozen=True)
class TablePosition:
    """Where a table stood that a stream reads or writes: its Delta table id, and a version of it.

    ``commit`` is the digest of that commit, None where it is not known.
    """

    table_id: str
    version: int
    commit: str | None = None

    @classmethod
    def of(cls, table: Table) -> TablePosition:
        """Return where a table stands, by the version seen last."""
        return cls(table.table_id, table.version, commit_digest(table.path, table.version))


@dataclass(frozen=True)
class TickPlan:
    """What a tick will do, written before it does it.

    It reads the source's changes of ``(after, upto]`` at wall-clock time ``clock_us``, the other tables
    at ``table_versions`` (by path), and, for a part of a range cut by event time, ``[lower_us,
    upper_us)`` only.

    ``transport`` is how its bytes move, ``appends_only`` whether its changes only add rows, ``oldest_us`` the
    time of the oldest of these (None: not known). ``windows`` (group, window) are the open ones that are
    due, ``closed`` the instants (µs) between which the clock has closed windows, ``instant`` what surrounds
    the instant of PERIOD, ``slice`` the part of history. ``wider_tables``: a table beside the source has
    columns of wider types than the stream knew; ``large_tables``: which tables by path are too large for
    Arrow; ``spark_only``: bytes move by Spark whatever their size. ``commit`` is the digest of the source's
    commit ``upto``. ``followed`` are the tables beside the source, by path, whose changes the stream follows,
    where it reads them; ``followed_after`` their versions whose changes it takes from. ``unknown`` is what
    else is saved of it.
    """

    uuid: str
    tick: int
    kind: str
    after: int
    upto: int
    clock_us: int
    table_versions: dict[str, int] = field(default_factory=dict)
    lower_us: int | None = None
    upper_us: int | None = None
    transport: str = ""
    appends_only: bool = False
    oldest_us: int | None = None
    windows: tuple[tuple[int, int], ...] = ()
    closed: tuple[int, int] | None = None
    instant: Instant | None = None
    slice: HistorySlice | None = None
    wider_tables: bool = False
    large_tables: dict[str, bool] = field(default_factory=dict)
    spark_only: bool = False
    commit: str | None = None
    followed: dict[str, TablePosition] = field(default_factory=dict)
    followed_after: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Checked:
    """How many rows met an expectation, and how many did not."""

    passed: int = 0
    violated: int = 0

    def __add__(self, other: Checked) -> Checked:
        return Checked(self.passed + other.passed, self.violated + other.violated)


def checked_together(one: Mapping[str, Checked], other: Mapping[str, Checked]) -> dict[str, Checked]:
    """Return counts of expectations, by their names, added up."""
    none = Checked()
    return {name: one.get(name, none) + other.get(name, none) for name in {**one, **other}}


@dataclass(frozen=True)
class Totals:
    """Counts since the stream was created, in every progress record: nobody reads all ticks for them.

    ``checked`` are those of expectations, by their names.
    """

    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    missed: int = 0
    checked: Mapping[str, Checked] = field(default_factory=dict)


@dataclass(frozen=True)
class Corrected:
    """Up to which instant (µs) and version of the source changes have been corrected.

    ``newest_us`` is the newest time of a row until then, None where it is not known.
    """

    due_us: int
    version: int
    newest_us: int | None = None


WITHDRAWN = "withdrawn"


@dataclass(frozen=True)
class Progress:
    """What a tick did: a record beside the output's transaction, which is the truth.

    ``version`` is the source's version that the stream stands at after it, ``rows_*`` and ``late``
    count rows.

    ``kind`` is that of its plan, ``WITHDRAWN`` for one that came to nothing, None where there was no tick;
    ``lag`` the commits left then, ``windows`` how many it computed, both None there too. ``totals`` are the
    counts up to it (None: there were no ticks), ``output`` is where the output stood after it (None: not
    known). The output's limits hold the next tick up until ``held_until`` (seconds since 1970 UTC).
    ``closed_us`` is up to where the clock has closed windows, ``corrected`` up to where late changes were
    corrected, None for streams that do neither. ``next_slice`` is the part of history to come, None when it
    is taken. ``commit`` is the digest of the source's commit ``version``, None where it is not known.
    ``followed`` are the tables beside the source, by path, up to which their changes have been followed;
    ``beside`` those beside the output that ticks have written, where they stood after it. ``checked`` counts
    the rows that it held against expectations, by their names. ``unknown`` is what else is saved of it.
    """

    uuid: str
    tick: int
    version: int
    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    seconds: float = 0.0
    finished_us: int = 0
    kind: str | None = None
    lag: int | None = None
    windows: int | None = None
    held_until: float = 0.0
    totals: Totals | None = None
    output: TablePosition | None = None
    closed_us: int | None = None
    corrected: Corrected | None = None
    next_slice: HistorySlice | None = None
    commit: str | None = None
    followed: dict[str, TablePosition] = field(default_factory=dict)
    beside: dict[str, TablePosition] = field(default_factory=dict)
    checked: Mapping[str, Checked] = field(default_factory=dict)
    unknown: dict[str, Any] = field(default_factory=dict)

    @property
    def violated(self) -> int:
        """How many rows did not meet an expectation; one that did not meet several counts for each."""
        return sum(counts.violated for counts in self.checked.values())
