"""What ticks were to do, or did: a Delta table of a row per tick, of which the last of each stream are kept.

What a round costs here follows from its own ticks: not from how many streams there are, nor from how many
ticks are kept of them.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from deltalake.exceptions import CommitFailedError

from lakestream.errors import LakestreamError
from lakestream.language.quoting import delta_text
from lakestream.storage.places import files
from lakestream.storage.records.keyed import damage_named, open_system, refreshed, rows_of, was_written
from lakestream.storage.records.tick import Progress, TickPlan
from lakestream.storage.rows.reading import align, plain
from lakestream.storage.tables.durable import committing
from lakestream.storage.tables.log import read_commits
from lakestream.storage.tables.mirror import count_files, rows_there
from lakestream.storage.tables.own import last_said, own
from lakestream.storage.tables.table import Table
from lakestream.storage.writes.checkpointing import behind_commit
from lakestream.storage.writes.edits import retried
from lakestream.storage.writes.mending import put_aside, whole_files
from lakestream.storage.writes.owed import owe
from lakestream.storage.writes.upkeep import FILE_BYTES, drop_old
from lakestream.storage.writes.writing import (
    all_rows,
    are_at_hand,
    put_together,
    replace_rows,
    write_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    import numpy as np
    import pyarrow as pa
    from deltalake import CommitProperties

    from lakestream.storage.records.keyed import KeyedTable, Row
    from lakestream.storage.records.saved import Form

_STREAMS = "streams"
_MAX_FILES = 64
_REFRESHED_EVERY = 16

_Tick = TypeVar("_Tick", TickPlan, Progress)


class TickLog(Generic[_Tick]):
    """A table of one row per tick, of which the last ticks of each stream are kept.

    ``kept_ticks`` says how many of each at least; asked when old ones go. Several threads may use one;
    ``writing`` is entered around each commit.
    """

    def __init__(
        self,
        path: str,
        form: Form[_Tick],
        streams: KeyedTable,
        kept_ticks: Callable[[], int],
        writing: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._path = path
        self._writing = writing
        self._guard = threading.RLock()
        self._own_commits = 0
        self._streams = streams
        self._kept_ticks = kept_ticks
        self._form: Form[_Tick] = form
        self._table: Table | None = None
        self._files = 0
        self._last: dict[str, _Tick] = {}
        self._read_at = -1

    def write(self, records: Sequence[_Tick]) -> None:
        """Append records in one commit; put the table's files together when there are many."""
        if not records:
            return
        with self._alone():
            self._load()
            self._append(self._writable(), records)

    def _writable(self) -> Table:
        self._table = self._table or open_system(self._path, self._form.columns)
        return self._table

    def _append(self, table: Table, records: Sequence[_Tick]) -> None:
        import pyarrow as pa

        with committing(table):
            if table.version % _REFRESHED_EVERY == 0:
                table.refresh()
            rows = pa.Table.from_pylist([self._form.row(record) for record in records], schema=table.schema)
            before = table.version
            retried(write_rows)(table, rows, commit_properties=self._said())
            self._last.update({record.uuid: record for record in records})
            self._files += 1
            self._count_own(before, table)
            if self._files > _MAX_FILES:
                owe(self._path, "small files", self._put_together)

    def clear(self) -> int:
        """Keep the last ticks of each stream only, and return how many records went."""
        with self._alone():
            self._load()
            if self._table is None:
                return 0
            with committing(self._table):
                return self._shorten(self._table)

    def last(self, uuid: str) -> _Tick | None:
        """Return the newest record of a stream."""
        with self._guard:
            self._load()
            return self._last.get(uuid)

    def newest(self) -> dict[str, _Tick]:
        """Return the newest record of every stream."""
        with self._guard:
            self._load()
            return dict(self._last)

    def of(self, uuid: str) -> list[_Tick]:
        """Return the records that are kept of a stream, in order of ticks."""
        with self._guard:
            return self._records(self._scanned(f"uuid = {delta_text(uuid)}"))

    def hold_streams(self) -> None:
        """Hold the streams against where they were when a tick was recorded last, or they were noted.

        Raises StorageError REGISTRY_REWOUND.
        """
        with self._guard:
            version = self._latest()
            if version < 0:
                return
            with damage_named(self._path):
                said = last_said(self._path, self._read_at if self._read_at < version else -1, version)
            if _STREAMS in said:
                self._streams.refuse_older(*said[_STREAMS])

    def note_streams(self) -> None:
        """Note where the streams are now, in a commit without a tick."""
        with self._alone():
            self._load()
            table = self._writable()
            with committing(table):
                nothing = table.schema.empty_table()
                retried(write_rows)(table, nothing, commit_properties=self._said())

    def _said(self) -> CommitProperties:
        """Return what a commit says of itself: where the streams were then."""
        return own(**{_STREAMS: self._streams.place()})

    def mark(self) -> int:
        """Return how many commits others have made, -1 for a table that was never written."""
        with self._guard:
            return self._latest() - self._own_commits

    def _latest(self) -> int:
        """Return the latest version, -1 for a table that was never written."""
        table = self._opened()
        if table is None:
            return -1
        version = refreshed(table)
        if version is None:  # it is gone: go on as who opens the lake now
            self._table, self._last, self._read_at, self._own_commits = None, {}, -1, 0
            return self._latest()
        return version

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads, and other writers, from what is read and then written."""
        with self._guard, self._writing():
            yield

    @property
    def seen(self) -> int:
        """The mark as far as this process has seen; nothing is asked for it."""
        return (-1 if self._table is None else self._table.version) - self._own_commits

    def _opened(self) -> Table | None:
        if self._table is None and was_written(self._path):
            with damage_named(self._path):
                self._table = Table.open(self._path)
        return self._table

    def _count_own(self, before: int, table: Table) -> None:
        """Count a commit of ours; what another daemon appended in between is read with the next look."""
        self._own_commits += 1
        if (self._read_at, table.version) == (before, before + 1):
            self._read_at = table.version

    def write_anew(self, aside: str) -> list[str]:
        """Write the table anew of its files that can be read, and return what was done.

        Records never change, so that those of commits that cannot be read count, too. What is there of the
        table is put into the folder ``aside``.
        """
        with self._alone():
            rows = _rows_of_files(self._path)
            done: list[str] = [put_aside(Path(self._path), Path(aside))]
            self._table, self._last, self._read_at = open_system(self._path, self._form.columns), {}, -1
            with committing(self._table):
                rows = align(rows, self._table.schema)
                write_rows(self._table, rows, commit_properties=self._said())
            return [*done, f"{self._path} was written anew of its files: {rows.num_rows:,} rows"]

    # --- reading ---

    def _load(self) -> None:
        """Read the newest records where another process has written: what it appended, or all there is."""
        if self._latest() == self._read_at or self._table is None:
            return
        table = self._table
        with damage_named(self._path):
            last_said(self._path, self._read_at, table.version)
        appended = self._appended(table)
        if appended is None:
            self._last = {record.uuid: record for record in self._records(self._scanned(None))}
            self._files = count_files(table)
        else:
            for record in self._records(appended):
                known = self._last.get(record.uuid)
                if known is None or known.tick <= record.tick:
                    self._last[record.uuid] = record
        self._read_at = table.version

    def _appended(self, table: Table) -> list[Row] | None:
        """Return the rows appended since the last look; None where the log does not tell of them alone."""
        if not 0 <= self._read_at <= table.version or table.version - self._read_at > _MAX_FILES:
            return None
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            commits = read_commits(self._path, self._read_at, table.version)
            if any(commit.removes or commit.schema_changed for commit in commits):
                return None
            names = [file.path for commit in commits if commit.data_change for file in commit.files]
            added = [pq.read_table(BytesIO(files.read_bytes(self._path, name))) for name in names]
        except (LakestreamError, OSError, pa.ArrowException):
            return None  # put together and cleared away since, or damaged: to read all of it tells
        self._files += len(names)
        return [row for rows in added for row in rows.to_pylist()]

    def _scanned(self, predicate: str | None) -> list[Row]:
        table = self._opened()
        if table is None:
            return []
        with damage_named(self._path):
            return rows_of(table.handle.scan(predicate=predicate))

    def _records(self, rows: Sequence[Row]) -> list[_Tick]:
        """Return the records of rows in order of ticks."""
        return sorted(map(self._form.record, rows), key=lambda record: record.tick)

    # --- kept small ---

    def _put_together(self) -> None:
        """Put many files together; those of old ticks go when as many came as may stay.

        Where another daemon writes meanwhile, nothing changes: there is a next time.
        """
        table = self._writable()
        with self._alone(), behind_commit(self._path), committing(table):
            before = table.version
            is_long = rows_there(table) > 2 * self._kept_ticks() * max(1, len(self._streams.rows()))
            is_next = is_long and are_at_hand(table)
            try:
                is_done = not is_next and put_together(table, FILE_BYTES, in_parts=True)
            except CommitFailedError:
                return
            if is_long and not is_done:
                self._shorten(table)
                return
            if is_done:
                self._count_own(before, table)
            self._drop_old(table)

    def _shorten(self, table: Table) -> int:
        """Put the last ticks of the streams in the place of all, in one commit; return how many go.

        Where another daemon appends meanwhile, nothing goes: there is a next time.
        """
        with damage_named(self._path):
            rows = plain(all_rows(table))
        kept = _last_ticks(rows, [*self._streams.rows()], self._kept_ticks())
        if len(kept) == rows.num_rows and self._files <= _MAX_FILES:
            return 0
        before = table.version
        try:
            kept_rows = align(rows.take(kept), table.schema)
            replace_rows(table, kept_rows, commit_properties=self._said())
        except CommitFailedError:
            return 0
        self._count_own(before, table)
        self._drop_old(table)
        return int(rows.num_rows) - len(kept)

    def _drop_old(self, table: Table) -> None:
        """Delete files that are put together by now, and count those that are left."""
        drop_old(table)
        table.refresh()
        self._files = count_files(table)


def _rows_of_files(path: str) -> pa.Table:
    """Return the rows of all files that are whole, those of one tick once: as they were written last."""
    import pyarrow as pa

    rows = pa.concat_tables(map(plain, whole_files(path)), promote_options="default")
    ticks = zip(rows["uuid"].to_pylist(), rows["tick"].to_pylist(), strict=True)
    return rows.take(sorted({tick: at for at, tick in enumerate(ticks)}.values()))


def _last_ticks(rows: pa.Table, uuids: Sequence[str], last: int) -> np.ndarray:
    """Return where the last ticks of some streams are among the rows of all."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    streams = pc.index_in(rows["uuid"], value_set=pa.array(uuids, pa.string()))
    of_row = pc.fill_null(streams, -1).to_numpy()
    order = np.lexsort((-rows["tick"].to_numpy(), of_row))
    first = np.searchsorted(of_row[order], of_row[order], "left")
    age = np.arange(len(order)) - first
    return np.sort(order[(age < last) & (of_row[order] >= 0)])
