"""The outbox: events that ticks made, in the order of their commits, until they are sent.

One Delta table of the lake, appended to by the tick that makes the events: a commit holds the events of
one tick, its transaction id says of which. They are sent once the tick's output is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakestream.errors import StatementError, StorageError, StreamError
from lakestream.language.quoting import delta_text
from lakestream.storage.columns.types import delta_field
from lakestream.storage.delta import (
    CommitTag,
    Table,
    changes_arrow,
    commit,
    create,
    delete_where,
    is_table,
    read_commits,
    read_spark,
    timestamp_literal,
)
from lakestream.storage.places.files import is_uri
from lakestream.storage.records.keyed import damage_named, damaged, refreshed
from lakestream.storage.rows.reading import align, plain
from lakestream.storage.sessions.session import frame_of
from lakestream.storage.tables.copies import Batch as Copied
from lakestream.storage.tables.copies import Batches
from lakestream.storage.writes.mending import put_aside, whole_files
from lakestream.storage.writes.writing import write_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {
    "stream": "string",
    "stream_id": "string",
    "tick": "string",
    "seq": "bigint",
    "event_id": "string",
    "trigger_id": "string",
    "event_type": "string",
    "group_id": "string",
    "window_start": "timestamp",
    "window_end": "timestamp",
    "event_time": "timestamp",
    "event": "string",
}
"""``event`` is the JSON that is sent, ``tick`` the commit of the stream that it belongs to."""

_PROPERTIES = {"delta.enableChangeDataFeed": "true", "delta.logRetentionDuration": "interval 30 days"}
_SUFFIX = ":outbox"
_LOOKED_BACK = 50
"""Commits of the log that are read at a time on the way back."""


@dataclass(frozen=True)
class Batch:
    """The events of one commit: its version in the outbox, whose they are (application and number)."""

    version: int
    app: str
    number: int
    events: int = field(default=0, compare=False)

    @property
    def stream_id(self) -> str:
        """The id of the stream."""
        return self.app.split(":")[1]


def _old(before_us: int, waiting: Collection[str]) -> str:
    old = f"event_time < {timestamp_literal(before_us)}"
    kept = ", ".join(map(delta_text, sorted(waiting)))
    return f"{old} AND stream_id NOT IN ({kept})" if waiting else old


@dataclass(frozen=True)
class Sent:
    """An event as it lies in the outbox: the commit's version, and its row by column."""

    version: int
    row: dict[str, Any]

    @property
    def position(self) -> tuple[int, int]:
        """What orders events: the commit, and the event's number in it."""
        return self.version, self.row["seq"]

    @property
    def id(self) -> str:
        """The position as text."""
        return f"{self.version}-{self.row['seq']}"

    @property
    def at_us(self) -> int:
        """When the event was made, in microseconds since 1970 UTC."""
        return int(self.row["event_time"].timestamp() * 1_000_000)


class Outbox:
    """The outbox of a lake; made with the first event."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._table: Table | None = None
        self._unsent = None if is_uri(path) else Batches(path)

    def put(self, events: pa.Table, app: str, number: int, epoch: int) -> None:
        """Append the events of a commit of a stream's output, once however often it is asked for.

        On a local disk they are kept beside the table, too, until :meth:`forget_sent`.
        Raises StorageError REGISTRY_DAMAGED.
        """
        with damage_named(self.path):
            table = self._latest() or self._made()
            commit(table, events, CommitTag(app + _SUFFIX, number, {"epoch": epoch, "tick": number}))
        if self._unsent is not None:
            batch = Copied(table.version, app, number, epoch, _as_numbers(events).to_pylist())
            self._unsent.add(batch, app.split(":")[1])

    def forget_sent(self, until: Mapping[str, int]) -> None:
        """Keep the events of streams (by id) beside the table no longer, of each before a version of it."""
        if self._unsent is not None:
            self._unsent.forget(until)

    def write_anew(self, aside: str) -> tuple[list[str], dict[int, int]]:
        """Make the table anew: what can be read of its events, then those that have not been sent, in order.

        What is there of it is put into the folder ``aside``. Return what was done, and the versions of the
        events that have not been sent: those that they had, and have now. :meth:`was_written_anew` ends it.
        """
        import pyarrow as pa

        assert self._unsent is not None  # repairs are of local disks
        kept = self._unsent.use()
        waiting = {row["event_id"] for batch in kept for row in batch.rows}
        sent = [plain(table) for table in whole_files(self.path)]
        done = [put_aside(Path(self.path), Path(aside))] if Path(self.path).exists() else []
        self._table = None
        table = self._made()
        if sent:
            found = _once(pa.concat_tables(sent, promote_options="default"), waiting)
            write_rows(table, align(found, table.schema))
        moved: dict[int, int] = {}
        for batch in kept:
            rows = pa.Table.from_pylist(batch.rows, schema=_as_numbers(table.schema.empty_table()).schema)
            self.put(_as_times(rows), batch.app, batch.number, batch.epoch)
            moved[batch.version] = table.version
        events = sum(len(batch.rows) for batch in kept)
        return [*done, f"{self.path} was made anew with {events:,} events that have not been sent"], moved

    def let_go(self) -> None:
        """Open the table anew when it is needed next."""
        self._table = None

    def has(self, app: str, number: int) -> bool:
        """Return whether the events of a commit of a stream's output are there, or those of a later one."""
        table = self._opened()
        if table is None:
            return False
        table.refresh()
        return (table.transaction_version(app + _SUFFIX) or 0) >= number

    @property
    def version(self) -> int:
        """The version of the table that was seen last, -1 while there is none."""
        return -1 if self._table is None else self._table.version

    @property
    def table(self) -> Table | None:
        """The table, None while this process has not opened it: asking costs nothing."""
        return self._table

    def since(self, version: int) -> list[Batch]:
        """Return what was put behind a version of the table (-1: all there is), in order."""
        with damage_named(self.path):
            table = self._latest()
            latest = -1 if table is None else table.version
            return self._batches(version, latest) if latest > version else []

    def _batches(self, after: int, upto: int) -> list[Batch]:
        return [
            Batch(info.version, app.removesuffix(_SUFFIX), number, info.add_rows or 0)
            for info in read_commits(self.path, after, upto)
            for app, number in info.transactions
            if app.endswith(_SUFFIX)
        ]

    def events(self, batch: Batch) -> pa.Table:
        """Return the events of a batch in their order."""
        table = self._opened()
        assert table is not None  # it has a batch
        with table.guard:
            table.refresh()
            found = changes_arrow(table, batch.version - 1, batch.version, list(COLUMNS))
        return found.select(list(COLUMNS)).sort_by("seq")

    def remove(self, before_us: int, waiting: Collection[str], *, dry_run: bool = False) -> int:
        """Delete events from before an instant (µs since 1970 UTC), and return their number.

        Those of streams that are ``waiting`` (by id) stay: some have yet to be delivered to a target. With
        ``dry_run`` they are only counted.
        """
        table = self._opened()
        if table is None:
            return 0
        if not dry_run:
            return delete_where(table, _old(before_us, waiting))
        table.refresh()
        old = table.handle.scan(columns=["event_id"], predicate=_old(before_us, waiting))
        return int(old.read_all().num_rows)

    def was_written_anew(self) -> None:
        """Say that whoever goes by versions of the table knows those that it has now."""
        if self._unsent is not None:
            self._unsent.used()

    def was_cleared(self) -> bool:
        """Return whether events have been deleted, or may have been: before where the log begins."""
        table = self._opened()
        if table is None:
            return False
        try:
            commits = read_commits(self.path, 0, table.refresh())
        except StreamError:
            return True
        return any(commit.operation == "DELETE" for commit in commits)

    def read(self, stream_id: str | None, after: str | None, limit: int) -> list[Sent]:
        """Return the first events behind the id ``after`` (None: the newest ones), oldest first.

        Raises StatementError BAD_VALUE for what is no event's id.
        """
        if after is None:
            return self._newest(stream_id, limit)
        position = _position(after)
        found: list[Sent] = []
        for batch in self.since(position[0] - 1):
            found += [event for event in self._of(batch, stream_id) if event.position > position]
            if len(found) >= limit:
                break
        return found[:limit]

    def _newest(self, stream_id: str | None, limit: int) -> list[Sent]:
        found: list[Sent] = []
        for batch in self._backwards():
            found = [*self._of(batch, stream_id), *found]
            if len(found) >= limit:
                break
        return found[-limit:]

    def _backwards(self) -> Iterator[Batch]:
        """Give the batches from the last one on, as far as the log goes back."""
        table = self._opened()
        upto = table.refresh() if table is not None else 0
        while upto > 0:
            after = max(0, upto - _LOOKED_BACK)
            try:
                yield from reversed(self._batches(after, upto))
            except StreamError:
                return  # the commits before were cleared from the log
            upto = after

    def _of(self, batch: Batch, stream_id: str | None) -> list[Sent]:
        if stream_id not in (None, batch.stream_id):
            return []
        return [Sent(batch.version, row) for row in self.events(batch).to_pylist()]

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return every event that is kept, for SQL; ``stream_name`` is the name of the stream."""
        table = self._opened()
        if table is None:
            found = frame_of(spark, [], ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()))
        else:
            found = read_spark(spark, table, table.refresh())
        return found.withColumnRenamed("stream", "stream_name")

    def _opened(self) -> Table | None:
        if self._table is None:
            noted = -1 if self._unsent is None else self._unsent.noted()
            with damage_named(self.path):
                table = Table.open(self.path) if is_table(self.path) else None
            if table is None and noted >= 0:
                raise damaged(self.path, "it is gone")
            if table is not None and noted > table.version:
                raise damaged(self.path, f"it was put back from before version {noted}, which had events")
            self._table = table
        return self._table

    def _latest(self) -> Table | None:
        """Return the table at its newest version, None where there is none; refuse one that was set back."""
        table = self._opened()
        if table is None:
            return None
        before, version = table.version, refreshed(table)
        if version is None or version < before:
            self._table = None
        return self._opened()

    def _made(self) -> Table:
        try:
            self._table = create(
                self.path, [delta_field(name, kind) for name, kind in COLUMNS.items()], properties=_PROPERTIES
            )
        except StorageError as error:
            if error.code != "TABLE_EXISTS":
                raise
            self._table = Table.open(self.path)
        return self._table


def _times(schema: pa.Schema) -> list[str]:
    return [name for name, kind in COLUMNS.items() if kind == "timestamp" and name in schema.names]


def _as_numbers(events: pa.Table) -> pa.Table:
    """Return events with their instants in microseconds since 1970 UTC, as JSON can have them."""
    import pyarrow as pa

    for name in _times(events.schema):
        at = events.schema.get_field_index(name)
        instants = events[name].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        events = events.set_column(at, name, instants)
    return events


def _as_times(events: pa.Table) -> pa.Table:
    import pyarrow as pa

    for name in _times(events.schema):
        at = events.schema.get_field_index(name)
        events = events.set_column(at, name, events[name].cast(pa.timestamp("us", "UTC")))
    return events


def _once(events: pa.Table, but: Collection[str]) -> pa.Table:
    """Return events once each, by their ids, without some."""
    import pyarrow as pa

    ids = events["event_id"].to_pylist()
    places = {event: at for at, event in enumerate(ids) if event not in but}
    return events.take(pa.array(sorted(places.values()), pa.int64()))


def _position(event_id: str) -> tuple[int, int]:
    """Return the version and the number in it that an event's id names."""
    version, _, seq = event_id.partition("-")
    if not (version.isdecimal() and seq.isdecimal()):
        raise StatementError("BAD_VALUE", f"{event_id!r} is no event's id", hint="one such as 12-0")
    return int(version), int(seq)
