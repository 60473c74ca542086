"""A stream as registered, and what may be changed of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from lakestream.storage.places.layout import SYSTEM_FOLDER

if TYPE_CHECKING:
    from lakestream.storage.records.tick import TablePosition

Status = Literal["Running", "Retrying", "Stopped", "Failed"]

ERRORS_SUFFIX = "__errors"
"""What the name of the table of rows that a stream leaves out ends in."""


@dataclass(frozen=True)
class Compiled:
    """What a registered stream is compiled with, as its creation found it.

    ``way`` is how it sums windows up, ``exact`` whether late rows count, ``partial_types`` the types of what
    it sums windows up from, by name (None: nothing), ``result_types`` and ``group_types`` those of its
    columns. ``reads`` are the tables that it reads (``database.name``), ``read_versions`` their versions
    at that time, ``columns`` those that they had where a ``*`` stands for them. ``tells_folders``: beside its
    rows a view says of what texts their folders are.
    """

    way: str
    exact: bool
    partial_types: dict[str, str] | None = None
    result_types: tuple[str, ...] = ()
    group_types: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    read_versions: dict[str, int] = field(default_factory=dict)
    tells_folders: bool = False
    columns: dict[str, tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Resynced:
    """That a stream was resynchronised: it takes rows from ``floor_us`` on (µs; None: all), however old."""

    floor_us: int | None


@dataclass(frozen=True)
class Begun:
    """Where a stream that leaves late rows out has begun with another definition.

    That is after a ``tick``, at the source's ``version``, with the output at version ``output`` and so many
    ``parts`` done of recalculations, by their ids.
    """

    tick: int
    version: int
    output: int
    parts: dict[str, int]


@dataclass(frozen=True)
class Accepted:
    """Where a statement has taken the output as it is, whoever wrote it: after a tick, at a version.

    ``output`` is None where DROP TABLE took it away.
    """

    tick: int
    output: TablePosition | None


@dataclass(frozen=True)
class WaitingGroup:
    """A group that waits: its number, its values as ``key = value``, the windows that would have fired."""

    gid: int
    name: str
    windows: int

    def __str__(self) -> str:
        return f"{self.name}: {self.windows:,} windows"


@dataclass(frozen=True)
class StreamRecord:
    """A stream as registered. Times are microseconds since 1970 UTC.

    ``start_version`` is the source's version that the stream starts after, ``source_id`` the source's
    Delta table id, ``source`` its name and ``output`` that of the output (``database.name``), ``zone`` the
    time zone of its windows, ``compiled`` what it is compiled with. ``current`` is the database that names
    without one stand in (None: its own).

    ``shared_output``: the output is a table that was there before; then ``output_version`` is the version
    that the stream was created at. ``output_name`` is the name in full of an output that was made in a
    catalog of Spark's.

    ``until_us``: rows of before that at creation are not the stream's (None: there are none to leave out).
    ``resynced``: it takes rows by their time since then. ``skipped`` are the ranges ``(after, upto]`` of the
    source's versions that it was told to pass over. ``is_replaced``: another definition is to be begun with;
    ``begun`` where the last one was. ``waiting_groups`` are not taken for now.

    ``dropped`` are the subtables whose output is to be taken back, with the source's version by which that
    is so. ``retry_us`` is when a stream that failed is, or was, tried again. ``migrated`` are the columns
    that its output was given by a migration. ``accepted`` is where its output was taken as it is. ``form`` is
    the version of the definition's form, ``unknown`` what else is saved of it, which a newer lakestream may
    know.
    """

    uuid: str
    database: str
    name: str
    sql: str
    status: Status
    created_us: int
    start_version: int
    source_id: str
    output: str
    source: str
    zone: str
    compiled: Compiled
    last_error: str | None = None
    current: str | None = None
    shared_output: bool = False
    output_version: int | None = None
    output_name: str | None = None
    until_us: int | None = None
    resynced: Resynced | None = None
    skipped: tuple[tuple[int, int], ...] = ()
    is_replaced: bool = False
    begun: Begun | None = None
    waiting_groups: tuple[WaitingGroup, ...] = ()
    dropped: dict[str, int] = field(default_factory=dict)
    retry_us: int | None = None
    migrated: tuple[str, ...] | None = None
    accepted: Accepted | None = None
    form: int | None = None
    unknown: dict[str, Any] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """The stream's name with its database."""
        return f"{self.database}.{self.name}"

    @property
    def errors_table(self) -> str:
        """The name of the table of the rows that it leaves out, which need not be there."""
        return f"{self.full_name}{ERRORS_SUFFIX}"

    @property
    def written(self) -> tuple[str, str]:
        """The tables that it may write, by name: its output, and that of the rows it leaves out."""
        return self.output, self.errors_table

    @property
    def sources(self) -> tuple[str, ...]:
        """The tables that it reads (``database.name``), the one that triggers it first."""
        names = dict.fromkeys([self.source, *self.compiled.reads])
        return tuple(name for name in names if not name.startswith(f"{SYSTEM_FOLDER}."))

    @property
    def table(self) -> str | None:
        """The table that it writes (``database.name``), None for one that only notifies."""
        return None if self.output.startswith(f"{SYSTEM_FOLDER}.") else self.output

    @property
    def floor_us(self) -> int | None:
        """From when on a stream that was resynchronised takes rows, None for all and for other streams."""
        return None if self.resynced is None else self.resynced.floor_us


class StreamChanges(TypedDict, total=False):
    """What may be changed of a registered stream, as :class:`StreamRecord` says it."""

    sql: str
    status: Status
    start_version: int
    source_id: str
    compiled: Compiled
    last_error: str | None
    current: str | None
    output_version: int | None
    until_us: int | None
    resynced: Resynced | None
    skipped: tuple[tuple[int, int], ...]
    is_replaced: bool
    begun: Begun | None
    waiting_groups: tuple[WaitingGroup, ...]
    dropped: dict[str, int]
    retry_us: int | None
    migrated: tuple[str, ...] | None
    accepted: Accepted | None
