"""What streams know between ticks, saved: whole, and from then on by change.

Groups and open windows are saved in tables of their own; both are of a tick.

A row is what was saved of a group as of a tick: of each group that of the newest tick counts, and so a state
is read as of any tick since the last whole one. A row of a group that went has no version; a row without a
group says which tick saved its changes. The transaction version of a commit is its tick. A table of an older
lakestream has no ticks in it: each of its commits is a whole state.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from deltalake import CommitProperties, Schema, Transaction, WriterProperties

from lakestream.errors import StorageError, StreamError
from lakestream.storage.places import files
from lakestream.storage.records.keyed import damage_named
from lakestream.storage.rows.reading import align, constant, plain
from lakestream.storage.tables.durable import committing
from lakestream.storage.tables.log import read_commits
from lakestream.storage.tables.mirror import rows_there
from lakestream.storage.tables.table import is_table
from lakestream.storage.writes.edits import create, retried
from lakestream.storage.writes.owed import owe
from lakestream.storage.writes.upkeep import put_own_together
from lakestream.storage.writes.writing import made_with_rows, replace_rows, write_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from deltalake import DeltaTable

    from lakestream.storage.places.layout import Layout
    from lakestream.storage.tables.table import Table, Tables

_APP = "lakestream:state"
_PROPERTIES = {
    "delta.enableChangeDataFeed": "false",
    "delta.checkpointInterval": "10",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}
_TICK, _VERSION = "_ls_tick", "version"
_MADE_ANEW = ("STATE_DAMAGED", "TABLE_NOT_FOUND")
"""What is found of a table that a state is then saved into whole, as a new one."""
_LOOKED_BACK = 20
_GROUP_ROWS = 131_072
"""Rows that delta-rs has in memory, as a row group, before they are written."""
_KEPT_UP_EVERY = 64
_FEW_CHANGES = 100
"""So many are saved as changes however few groups there are."""
_FEW_ROWS = 10_000
"""Rows that are kept beside those that count before the state is saved whole again."""


@dataclass(frozen=True)
class StateChanges:
    """What changed of a state since that of a tick: rows of groups, and the numbers of those that went.

    ``version`` is the source's, ``groups`` how many groups there are.
    """

    since: int
    version: int
    rows: pa.Table
    gone: pa.Array
    groups: int

    @property
    def count(self) -> int:
        """How many groups changed."""
        return int(self.rows.num_rows + len(self.gone))


class SavedStates:
    """The saved states of a lake's streams, by the stream's id, in tables of a folder of the lake's own."""

    def __init__(self, layout: Layout, tables: Tables, folder: str = "state") -> None:
        self._layout, self._tables, self._folder = layout, tables, folder

    @retried
    def write(self, uuid: str, tick: int, state: pa.Table) -> None:
        """Save a whole state as of a tick in one commit; those before stay readable for a while.

        A table that is damaged is put aside for a new one.
        """
        import pyarrow as pa

        rows = state.append_column(_TICK, constant(tick, state.num_rows))
        rows = rows.cast(pa.schema([field.with_nullable(True) for field in rows.schema]))
        path = self._path(uuid)
        is_unknown = files.is_uri(path) and self._tables.known(path) is None
        if is_unknown and made_with_rows(path, rows, _PROPERTIES, commit_properties=_of(tick)):
            owe(path, "opening", partial(self._tables.open, path))
            return
        table = self._opened(uuid, rows)
        with self._looked_at_anew(table), committing(table):
            replace_rows(
                table,
                rows,
                commit_properties=_of(tick),
                writer_properties=WriterProperties(max_row_group_size=_GROUP_ROWS),
            )
            table.last_transaction = (table.version, _APP), tick
            _keep_up(table)

    @retried
    def write_changes(self, uuid: str, tick: int, changes: StateChanges) -> bool:
        """Save what changed of a state in one commit, at the cost of that.

        Return false, with nothing written, where the state is to be saved whole: it is not the one that the
        changes came after that was saved last, or whole it costs no more by now.
        """
        path = self._path(uuid)
        if self._tables.known(path) is None and not is_table(path):
            return False
        try:
            table = self._to_write(path)
        except StorageError as error:
            if error.code not in _MADE_ANEW:
                raise
            return False
        with self._looked_at_anew(table), committing(table):
            if not _goes_on(table, tick, changes):
                return False
            rows = align(_change_rows(tick, changes), table.schema)
            write_rows(table, rows, commit_properties=_of(tick))
            table.last_transaction = (table.version, _APP), tick
            _keep_up(table)
        return True

    @contextmanager
    def _looked_at_anew(self, table: Table) -> Iterator[None]:
        """Open the table anew after a failure: what stood in the way is then seen."""
        try:
            yield
        except Exception:
            self._tables.forget(table.path)
            raise

    def read(self, uuid: str, upto: int | None = None) -> tuple[int, pa.Table] | None:
        """Return the newest state, of a tick not after ``upto``, with its tick; None when there is none.

        Raises StorageError STATE_DAMAGED for one that cannot be read.
        """
        path = self._path(uuid)
        if not is_table(path):
            self._tables.forget(path)  # one that was there, and is gone
            return None
        table = self._opened_whole(path)
        version, left = table.version, _LOOKED_BACK
        while version >= 0 and left:
            try:
                handle = table.at(version)
                with _damage_named(path):
                    found = _as_of(handle, upto)
                    if found is not None:
                        return found
                    version, left = _before_whole(table.path, version), left - 1
            except StreamError:
                break  # the log tells no more
            except StorageError as error:
                if error.code != "VERSION_NOT_FOUND":
                    raise
                break
        return None

    def oldest(self, uuid: str, since: int, upto: int) -> tuple[int, pa.Table] | None:
        """Return the oldest state there still is of a tick from ``since`` to ``upto``, with its tick."""
        newest = self.read(uuid, upto)
        if newest is None or newest[0] < since:
            return None
        for tick in range(since, newest[0], _LOOKED_BACK):
            found = self.read(uuid, tick)
            if found is not None and found[0] >= since:
                return found
        return newest

    def remove(self, uuid: str) -> None:
        """Remove what is saved of a stream's state."""
        path = self._path(uuid)
        self._tables.forget(path)
        if is_table(path):
            files.remove_folder(path, self._layout.system_path("dropped"))

    def _opened_whole(self, path: str) -> Table:
        with _damage_named(path):
            return self._tables.latest(path)

    def _to_write(self, path: str) -> Table:
        """Return a table as it is, in a store as it was seen last: its next commit has that condition."""
        known = self._tables.known(path) if files.is_uri(path) else None
        return self._opened_whole(path) if known is None else known

    def _path(self, uuid: str) -> str:
        return self._layout.system_path(f"{self._folder}/{uuid}")

    def _opened(self, uuid: str, rows: pa.Table) -> Table:
        path = self._path(uuid)
        if self._tables.known(path) is not None or is_table(path):
            try:
                return self._to_write(path)
            except StorageError as error:
                if error.code not in _MADE_ANEW:
                    raise
                self.remove(uuid)
        self._tables.forget(path)  # one that was there, and is gone
        create(path, Schema.from_arrow(rows.schema).fields, properties=_PROPERTIES)
        return self._tables.open(path)


@contextmanager
def _damage_named(path: str) -> Iterator[None]:
    """Raise StorageError STATE_DAMAGED for what cannot be read of a saved state."""
    try:
        with damage_named(path):
            yield
    except StorageError as error:
        if error.code != "REGISTRY_DAMAGED":
            raise
        raise StorageError("STATE_DAMAGED", error.message) from error


def _of(tick: int) -> CommitProperties:
    return CommitProperties(app_transactions=[Transaction(_APP, tick)])


def _goes_on(table: Table, tick: int, changes: StateChanges) -> bool:
    """Return whether changes come after what is saved, and cost less than the whole state."""
    if table.transaction_version(_APP) != changes.since or tick <= changes.since:
        return False
    if {*table.schema.names} != {*changes.rows.column_names, _VERSION, _TICK}:
        return False
    few = changes.count <= _FEW_CHANGES or 2 * changes.count < changes.groups
    return few and rows_there(table) + changes.count <= 2 * changes.groups + _FEW_ROWS


def _change_rows(tick: int, changes: StateChanges) -> pa.Table:
    import pyarrow as pa

    def column(value: int | None, rows: int) -> pa.Array:
        return pa.array([value] * rows, pa.int64())

    kept, gone = changes.rows.num_rows, len(changes.gone)
    said = pa.table({"gid": pa.nulls(1, pa.int64()), _VERSION: column(changes.version, 1)})
    went = pa.table({"gid": changes.gone, _VERSION: column(None, gone)})
    rows = changes.rows.append_column(_VERSION, column(changes.version, kept))
    rows = rows.cast(pa.schema([field.with_nullable(True) for field in rows.schema]))
    together = pa.concat_tables([rows, went, said], promote_options="default")
    return together.append_column(_TICK, column(tick, together.num_rows))


def _keep_up(table: Table) -> None:
    """Put the small files of changes together now and then, and drop what is old."""
    if table.version % _KEPT_UP_EVERY == 0:
        owe(table.path, "small files", partial(put_own_together, table))


def _as_of(handle: DeltaTable, upto: int | None) -> tuple[int, pa.Table] | None:
    """Return the newest state of a tick not after ``upto`` that a version has, None where it has none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    last = handle.transaction_version(_APP)
    if last is None:
        return None
    rows = plain(pa.table(handle.scan()))
    if _TICK not in rows.column_names or not rows.num_rows:
        whole = rows.select([name for name in rows.column_names if name != _TICK])
        return (last, whole) if upto is None or last <= upto else None
    first = pc.min(rows[_TICK]).as_py()
    if upto is not None:
        rows = rows.filter(pc.less_equal(rows[_TICK], upto))
    if not rows.num_rows:
        return None
    tick = pc.max(rows[_TICK]).as_py()
    return tick, rows.drop_columns([_TICK]) if tick == first else _merged(rows, tick)


def _merged(rows: pa.Table, tick: int) -> pa.Table:
    """Return of each group what was saved of it last, with the version of the source as of the tick."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    said = rows.filter(pc.and_(pc.is_null(rows["gid"]), pc.equal(rows[_TICK], tick)))
    version = said[_VERSION][0].as_py()
    groups = rows.filter(pc.is_valid(rows["gid"]))
    ticks = groups[_TICK].to_numpy()
    gids, of_row = np.unique(groups["gid"].to_numpy(), return_inverse=True)
    newest = np.zeros(len(gids), np.int64)
    np.maximum.at(newest, of_row, ticks)
    there = pc.and_(pa.array(ticks == newest[of_row]), pc.is_valid(groups[_VERSION]))
    kept = groups.filter(there).drop_columns([_TICK])
    at = kept.schema.get_field_index(_VERSION)
    return kept.set_column(at, _VERSION, pa.array([version] * kept.num_rows, pa.int64()))


def _before_whole(path: str, version: int) -> int:
    """Return the version before the last commit, up to a version, that saved a whole state.

    Raises StreamError CHANGES_LOST where the log does not tell.
    """
    while version > 0 and not read_commits(path, version - 1, version)[0].removes:
        version -= 1
    return version - 1
