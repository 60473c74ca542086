"""Small system tables of rows by key, kept as Delta tables and read without pyarrow.

Rows are plain dicts; a table's columns are fixed, a column of JSON takes what varies. Each change is
one commit, made again on what is there then where somebody else's came in between. Rows are kept in memory
and read again only when the table's version has moved.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lakestream.errors import LakestreamError, StorageError
from lakestream.language.quoting import delta_name, delta_text
from lakestream.storage.columns.types import delta_field
from lakestream.storage.places import files
from lakestream.storage.tables.copies import Copies, Form
from lakestream.storage.tables.durable import committing
from lakestream.storage.tables.log import commit_digest
from lakestream.storage.tables.looks import once
from lakestream.storage.tables.mirror import count_files
from lakestream.storage.tables.own import last_said, own
from lakestream.storage.tables.table import Table, first_line, is_refusal, is_table, not_done
from lakestream.storage.writes.checkpointing import behind_commit
from lakestream.storage.writes.edits import create, retried
from lakestream.storage.writes.mending import put_aside
from lakestream.storage.writes.upkeep import drop_old
from lakestream.storage.writes.writing import put_together, write_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import arro3.core as arro

Row = dict[str, Any]
_Record = TypeVar("_Record")
_COMPACT_AFTER = 32
_put_back: Counter[str] = Counter()
"""How often this process has written a table anew, by its path: who has it open lets go of it."""
_SYSTEM_PROPERTIES = {
    "delta.enableChangeDataFeed": "false",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}


class Known(Generic[_Record]):
    """Records in order, made anew only when the rows that they are read from have changed."""

    def __init__(self, read: Callable[[Row], _Record], order: Callable[[_Record], Any]) -> None:
        self._read, self._order = read, order
        self._known: tuple[dict[str, Row] | None, list[_Record]] = (None, [])

    def of(self, rows: dict[str, Row]) -> list[_Record]:
        """Return the records of rows."""
        known = self._known
        if rows is not known[0]:
            known = self._known = rows, sorted(map(self._read, rows.values()), key=self._order)
        return known[1]


def key_of(database: str, name: str) -> str:
    """Return the key of a row that is of a name in a database."""
    return json.dumps([database, name])


@contextmanager
def damage_named(path: str) -> Iterator[None]:
    """Raise StorageError REGISTRY_DAMAGED for what cannot be read of a system table."""
    try:
        yield
    except LakestreamError as error:
        if error.code != "TABLE_UNREADABLE" or (error.__cause__ and is_refusal(error.__cause__)):
            raise
        raise damaged(path, error.message) from error
    except Exception as error:
        # delta-rs raises DeltaError, Arrow its own, and both a bare Exception for a file that is damaged.
        if is_refusal(error):
            raise not_done("IO_ERROR", f"{path} cannot be read", error) from error
        raise damaged(path, first_line(error)) from error


def refreshed(table: Table) -> int | None:
    """Return the latest version of a system table, None where it is gone; raises REGISTRY_DAMAGED."""
    try:
        with damage_named(table.path):
            return table.refresh()
    except StorageError as error:
        if error.code != "TABLE_NOT_FOUND":
            raise
        return None


def damaged(path: str, why: str) -> StorageError:
    """Return the error REGISTRY_DAMAGED of a system table."""
    return StorageError(
        "REGISTRY_DAMAGED",
        f"{path}, a table of lakestream's own, cannot be read: {why}",
        hint="`lakestream repair` says what can be done; a backup of the whole lake is the other way",
    )


def rewound(path: str, why: str) -> StorageError:
    """Return the error REGISTRY_REWOUND of a system table."""
    return StorageError(
        "REGISTRY_REWOUND",
        f"{path} was put back from an older copy, or is gone: {why}",
        hint="put the newer one back; or `lakestream repair` does, of the copies of its rows, or takes "
        "it as it is and has all streams computed anew",
    )


def rows_of(batches: arro.RecordBatchReader) -> list[Row]:
    """Return the rows of a reader as dicts, by arro3 alone."""
    table = batches.read_all()
    columns = [table.column(name).to_pylist() for name in table.column_names]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def was_written(path: str) -> bool:
    """Return whether a system table is there; it is asked with every look at an idle lake."""
    if files.is_uri(path):
        return once(path, lambda: is_table(path))
    return files.may_be_folder(path) and is_table(path)


def open_system(path: str, columns: Mapping[str, str]) -> Table:
    """Open a system table to write to it, making it on first use (columns: name to Spark SQL type).

    One that an older lakestream made gets the columns that it lacks: NULL in its rows.
    """
    if is_table(path):
        return _with_columns(Table.open(path), columns)
    try:
        return create(path, [delta_field(n, t) for n, t in columns.items()], properties=_SYSTEM_PROPERTIES)
    except StorageError as error:
        if error.code != "TABLE_EXISTS":
            raise
        return Table.open(path)


def _with_columns(table: Table, columns: Mapping[str, str]) -> Table:
    known = {field.name for field in table.fields}
    lacking = [delta_field(name, kind) for name, kind in columns.items() if name not in known]
    if lacking:
        with committing(table):
            table.handle.alter.add_columns(lacking)
        table.reopen()
    return table


class KeyedTable:
    """Rows by one text key, with all columns also where an older lakestream wrote them.

    Reading a table that was never written makes none. Several threads may use one; ``writing`` is entered
    around each commit. Copies of the rows are kept beside it, on a local disk: nothing else tells of them.
    """

    def __init__(
        self,
        path: str,
        columns: Mapping[str, str],
        key: str,
        writing: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self.path = path
        self._writing = writing
        self._copies = None if files.is_uri(path) else Copies(path)
        self._opened_as = _put_back[path]
        self._guard = threading.RLock()
        self._columns = dict(columns)
        self._lacking: Row = dict.fromkeys(columns)
        self._key = key
        self._table: Table | None = None
        self._is_writable = False
        self._rows: dict[str, Row] = {}
        self._version = -1
        self._place: tuple[int, str | None] = (-1, None)

    def mark(self) -> int:
        """Return the latest version, -1 for a table that was never written."""
        with self._guard:
            if self._opened_as != _put_back[self.path]:
                self._let_go()
            if self._table is None and not was_written(self.path):
                if self._copies is not None and self._copies.are_kept():
                    raise damaged(self.path, "it is gone")
                return -1
            if self._table is None:
                with damage_named(self.path):
                    self._table = Table.open(self.path)
            version = refreshed(self._table)
            if version is None:
                self._let_go()
                return self.mark()
            return version

    def _let_go(self) -> None:
        self._opened_as, self._table, self._is_writable = _put_back[self.path], None, False
        self._rows, self._version, self._place = {}, -1, (-1, None)

    @property
    def seen(self) -> int:
        """The version seen last, -1 for a table that was not there; nothing is asked for it."""
        return -1 if self._table is None else self._table.version

    def rows(self) -> dict[str, Row]:
        """Return all rows by key, as of the latest version."""
        with self._guard:
            version = self.mark()
            if self._table is None:
                return self._rows
            if version != self._version:
                is_older = version < self._version or self._version < 0
                if self._copies is not None and is_older and self._copies.version() > version:
                    raise rewound(self.path, f"there are copies of version {self._copies.version()}")
                with damage_named(self.path):
                    last_said(self.path, self._version, version)
                    found = rows_of(self._table.handle.scan())
                self._rows = {row[self._key]: {**self._lacking, **row} for row in found}
                self._version = version
            return self._rows

    def place(self) -> tuple[int, str | None]:
        """Return the version that is known here, with the digest of its commit; -1: it was never written."""
        with self._guard:
            if self._place[0] != self._version:
                self._place = self._version, commit_digest(self.path, self._version)
            return self._place

    def refuse_older(self, version: int, digest: str | None) -> None:
        """Raise StorageError REGISTRY_REWOUND where the table does not go on from a place that it was at."""
        with damage_named(self.path):
            is_there = self.mark() >= version
            found = commit_digest(self.path, version) if is_there and digest is not None else digest
        if not is_there or found not in (None, digest):
            raise rewound(self.path, f"it was noted at version {version}")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads, and other writers, from what is read and then written."""
        with self._guard, self._writing():
            yield

    def put(self, rows: Iterable[Row]) -> None:
        """Insert rows, each in the place of the old row of its key, in one commit."""
        new = {row[self._key]: row for row in rows}
        if new:
            self._put(new)

    @retried
    def insert(self, row: Row, alike: str, check: Callable[[Iterable[Row]], None]) -> None:
        """Insert a row that ``check`` finds nothing against among those there.

        ``alike`` is a predicate of the rows that it may not stand beside, and of itself: one that comes at
        the same moment makes this look again.
        """
        with self._alone():
            self._writable()  # what is checked is the version that is written on
            old = self.rows()
            check(old.values())
            self._commit([row], alike, {**old, row[self._key]: row})

    @retried
    def change(self, key: str, change: Callable[[Row | None], Row]) -> None:
        """Put a row that is made of the one that is there; None: there is none."""
        with self._alone():
            self._put_once({key: change(self.rows().get(key))})

    @retried
    def renew(self, rows: Sequence[Row], renewed: Callable[[Row, Row], Row | None]) -> None:
        """Put rows in the place of those that are there, in one commit: what is made of the old and the new.

        None: the old one stays. A key that is gone stays gone.
        """
        with self._alone():
            old = self.rows()
            pairs = [(old[row[self._key]], row) for row in rows if row[self._key] in old]
            new = {row[self._key]: row for row in (renewed(*pair) for pair in pairs) if row is not None}
            if new:
                self._put_once(new)

    @retried
    def remove(self, keys: Iterable[str]) -> None:
        """Remove the rows of these keys in one commit; keys that are not there are passed over."""
        keys = [*keys]
        if not keys:
            return
        with self._alone():
            old = self.rows()
            gone = [key for key in keys if key in old]
            if gone:
                left = {key: row for key, row in old.items() if key not in gone}
                self._commit([], self._among(gone), left)

    @retried
    def _put(self, new: dict[str, Row]) -> None:
        with self._alone():
            self._put_once(new)

    def _put_once(self, new: dict[str, Row]) -> None:
        old = self.rows()
        # What is written must match the predicate of what it replaces: new keys stand in it too.
        replaced = self._among(new) if any(key in old for key in new) else None
        self._commit(list(new.values()), replaced, {**old, **new})

    def _among(self, keys: Iterable[str]) -> str:
        return f"{delta_name(self._key)} IN ({', '.join(map(delta_text, keys))})"

    def _writable(self) -> Table:
        if self._table is None or not self._is_writable:
            self._table = open_system(self.path, self._columns)
            self._is_writable = True
        return self._table

    def _commit(self, rows: list[Row], replaced: str | None, then: dict[str, Row]) -> None:
        """Write rows in the place of others (a predicate); ``then`` is the whole if nobody else wrote."""
        table = self._writable()
        before = table.version
        _write(table, rows, replaced)
        gone = self._rows.keys() - then.keys()
        if table.version == before + 1:
            self._rows, self._version = then, table.version
        with behind_commit(self.path):
            if self._copies is not None:
                whole, changed = self.rows(), {row[self._key] for row in rows}
                self._copies.keep(Form(self._columns, self._key, self._version), whole, before, changed, gone)
            compact(table, _COMPACT_AFTER)


def _write(table: Table, rows: list[Row], replaced: str | None = None) -> None:
    """Write rows, in the place of those of a predicate."""
    import pyarrow as pa

    data = pa.Table.from_pylist(rows, schema=table.schema)
    with committing(table):
        write_rows(table, data, replace=replaced, commit_properties=own())


def compact(table: Table, files: int) -> None:
    """Put a system table's files into one when it has more than ``files``, and drop the old ones."""
    if count_files(table) <= files:
        return
    with committing(table):
        put_together(table)
    drop_old(table)


def put_back(path: str, aside: str) -> list[str]:
    """Write a system table anew of the copies of its rows, and return what was done.

    What is there of it is put into the folder ``aside``. Raises StorageError NOT_REPAIRABLE.
    """
    copies = Copies(path)
    form, rows = copies.form(), copies.rows()
    if form is None:
        raise StorageError(
            "NOT_REPAIRABLE",
            f"the copies in {copies.folder} cannot be read",
            hint="put it back from a backup",
        )
    done = [put_aside(Path(path), Path(aside))] if Path(path).exists() else []
    _write(open_system(path, form.columns), rows)
    copies.keep_all(replace(form, version=Table.open(path).version), {row[form.key]: row for row in rows})
    _put_back[path] += 1
    return [*done, f"{path} was written anew of the copies of its rows: {len(rows):,}"]


def is_behind_copies(path: str) -> bool:
    """Return whether there are copies of a later version of a system table's rows."""
    return Copies(path).version() > Table.open(path).version


def renew_copies(path: str) -> None:
    """Make the copies of a system table's rows anew, as the table has them."""
    copies = Copies(path)
    if (form := copies.form()) is None:
        shutil.rmtree(copies.folder, ignore_errors=True)  # the next change makes them
        return
    table = KeyedTable(path, form.columns, form.key)
    rows = table.rows()
    copies.keep_all(Form(form.columns, form.key, table.seen), rows)
