"""Databases and tables of a lake; there is no metastore.

A table describes itself (see :mod:`lakestream.storage.names.table_info`), so a copied folder keeps it.
External tables are kept in ``_lakestream/tables``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lakestream.errors import StatementError, StorageError, did_you_mean
from lakestream.sorting import natural
from lakestream.storage.columns.types import delta_field
from lakestream.storage.names.databases import Databases
from lakestream.storage.names.registered import RegisteredSubtables
from lakestream.storage.names.table_info import (
    PROPERTY,
    Column,
    External,
    TableInfo,
    check_columns,
    described,
    description,
    with_kept_time,
)
from lakestream.storage.places import files
from lakestream.storage.places.layout import SYSTEM_FOLDER, absolute, segment_name
from lakestream.storage.records.keyed import KeyedTable, key_of
from lakestream.storage.tables.durable import committing
from lakestream.storage.tables.table import Table, Tables, is_table
from lakestream.storage.writes import edits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.clock import Clock
    from lakestream.errors import LakestreamError
    from lakestream.storage.names.metastore import CatalogTable, NewCatalogTable
    from lakestream.storage.names.table_info import Kind
    from lakestream.storage.places.layout import Layout


@dataclass(frozen=True)
class Reach:
    """The databases that whoever asks may see, in small letters; None: all."""

    databases: frozenset[str] | None = None

    def __contains__(self, database: str) -> bool:
        """Return whether a database is one of them."""
        return self.databases is None or database.lower() in {*self.databases, SYSTEM_FOLDER}


class Catalog:
    """The names of one lake. Databases and tables are found by the lake's folders."""

    def __init__(self, layout: Layout, clock: Clock, tables: Tables | None = None) -> None:
        self.layout = layout
        self.handles = tables or Tables()
        self._seen: dict[str, tuple[int, TableInfo]] = {}
        self.databases = Databases(layout, clock)
        self.reach = Reach()
        self.registered = RegisteredSubtables(layout)
        self._external = KeyedTable(
            layout.system_path("tables"),
            {
                "id": "string",
                "database": "string",
                "name": "string",
                "path": "string",
                "description": "string",
            },
            "id",
        )

    # --- databases ------------------------------------------------------------------------------

    def drop_database(self, name: str, *, if_exists: bool = False) -> bool:
        """Drop a database with all its tables; external ones only lose their names here."""
        if name not in self.databases:
            if if_exists:
                return False
            raise self.databases.not_found(name)
        for table in self.table_names(name):
            self.drop_table(name, table)
        self.databases.forget(name)
        if name in map(segment_name, files.folders(self.layout.root)):
            files.remove_folder(self.layout.database_path(name), self._dropped)
        return True

    @property
    def _dropped(self) -> str:
        return self.layout.system_path("dropped")

    # --- tables ---------------------------------------------------------------------------------

    def table_names(self, database: str) -> list[str]:
        """Return the names of a database's tables, sorted, without opening any."""
        self.databases.require(database)
        own = map(segment_name, files.folders(self.layout.database_path(database)))
        others = (row["name"] for row in self._external.rows().values() if row["database"] == database)
        return sorted({*own, *others}, key=natural)

    def paths(self) -> dict[tuple[str, str], str]:
        """Return where every table lies, by database and name, without opening any."""
        external = {(row["database"], row["name"]): row["path"] for row in self._external.rows().values()}
        every = [
            (database, name) for database in self.databases.names() for name in self.table_names(database)
        ]
        return {key: external.get(key) or self._path(*key) for key in every}

    def tables(self, database: str) -> list[TableInfo]:
        """Return a database's tables, by name, without those that are gone or cannot be read."""
        found = (self._readable(database, name) for name in self.table_names(database))
        return [info for info in found if info is not None]

    def _readable(self, database: str, name: str) -> TableInfo | None:
        try:
            return self.find_table(database, name)
        except StorageError:
            return None

    def find_table(self, database: str, name: str, *, anywhere: bool = False) -> TableInfo | None:
        """Return a table, or None when there is none of that name.

        In the database ``_lakestream``, which no statement reaches, are the results of streams that
        store none, by the streams' ids. Raises StatementError FORBIDDEN for what whoever asks may not see,
        unless it is looked for ``anywhere``, as what a stream reads.
        """
        if not anywhere and database not in self.reach:
            raise StatementError("FORBIDDEN", f"the database {database} is out of reach for whoever asks")
        external = self._external.rows().get(key_of(database, name))
        path = external["path"] if external else self._path(database, name)
        try:
            handle = self.handles.latest(path)
        except StorageError as error:
            if error.code != "TABLE_NOT_FOUND":
                raise
            self.handles.forget(path)
            return None
        known = self._seen.get(path)
        if known is None or known[0] != handle.version:
            text = external["description"] if external else handle.properties.get(PROPERTY)
            info = described(database, name, handle, text, external=bool(external))
            if external is not None:
                info = with_kept_time(info, self.layout.timezone(), json.loads(external["description"]))
                self.handles.read_time(path, info.read_time)
            known = self._seen[path] = (handle.version, info)
        return known[1]

    def _path(self, database: str, name: str) -> str:
        if database == SYSTEM_FOLDER:
            return self.layout.results_path(name)
        return self.layout.table_path(database, name)

    def table(self, database: str, name: str) -> TableInfo:
        """Return a table; TABLE_NOT_FOUND as ``not_found`` says it."""
        self.databases.require(database)
        found = self.find_table(database, name)
        if found is None:
            raise self.not_found(database, name)
        return found

    def not_found(self, database: str, name: str) -> LakestreamError:
        """Return the error of a table that is not there: one outside the lake may be gone from its place."""
        external = self._external.rows().get(key_of(database, name))
        if external is not None:
            return StorageError(
                "TABLE_NOT_FOUND",
                f"there is no Delta table at {external['path']}, where {database}.{name} was",
                hint=f"put it back, or DROP TABLE {database}.{name}",
                missing=f"{database}.{name}",
            )
        return StatementError(
            "TABLE_NOT_FOUND",
            f"there is no table {database}.{name}",
            hint=did_you_mean(name, self.table_names(database)),
            missing=f"{database}.{name}",
        )

    def handle(self, info: TableInfo) -> Table:
        """Return the kept handle of a table, at the version seen last."""
        return self.handles.open(info.path)

    def clock(self) -> TableInfo:
        """Return the table that stands for the source of streams without one: it has no rows."""
        path = self.layout.system_path("clock")
        time = Column("ts", "timestamp")
        if not self._has_clock(path):
            edits.create(path, [delta_field(time.name, time.type, None)])
        return TableInfo("_lakestream", "clock", path, "table", (time,), time.name, (time.name,))

    def _has_clock(self, path: str) -> bool:
        try:
            self.handles.open(path)
        except StorageError:
            return False
        return True

    def create_table(  # noqa: PLR0913 (each is a clause of CREATE TABLE)
        self,
        database: str,
        name: str,
        columns: Sequence[Column],
        *,
        kind: Kind = "table",
        time_column: str,
        key: Sequence[str] = (),
        hidden: Sequence[str] = (),
        writer: str | None = None,
        if_not_exists: bool = False,
        comment: str | None = None,
        partitioned_by: Sequence[str] = (),
        location: str | None = None,
        cataloged: NewCatalogTable | None = None,
    ) -> TableInfo:
        """Make a table of the lake and return it; with ``if_not_exists`` the one that is there.

        A super table's columns are given whole, ``tbname`` and tags included. A ``location`` lies outside
        the lake, where no table is; one that is ``cataloged`` where its catalog puts it. Raises
        StatementError TABLE_EXISTS (names that differ in case only count as equal), DUPLICATE_COLUMN,
        BAD_NAME, LOCATION_IN_LAKE, LOCATION_TAKEN; StorageError TABLE_EXISTS, CREATE_FAILED; and what
        :meth:`NewCatalogTable.made` raises.
        """
        if database != SYSTEM_FOLDER:
            self.databases.require(database)
            existing = self._existing(database, name, if_not_exists=if_not_exists)
            if existing is not None:
                return existing
        check_columns(columns)
        path = self._path(database, name) if location is None else self._outside(location)
        info = TableInfo(
            *(database, name, path, kind, tuple(columns), time_column, tuple(key), tuple(hidden)),
            external=location is not None,
            writer=writer,
        )
        properties = {PROPERTY: description(info)}
        if cataloged is not None:
            said = {**edits.TABLE_PROPERTIES, **properties}
            with cataloged.made(columns, said, partitioned_by, comment) as known:
                return self._named_here(info, known)
        fields = [delta_field(column.name, column.type, column.comment) for column in columns]
        edits.create(path, fields, properties=properties, comment=comment, partitioned_by=partitioned_by)
        if info.external:
            self.register_external(info)
        self.handles.forget(path)
        self._seen.pop(path, None)
        return self.find_table(database, name) or info

    def _named_here(self, info: TableInfo, known: CatalogTable) -> TableInfo:
        """Give a table that a catalog has just made its name here, once it is found where it lies."""
        path = self._outside(known.location)
        self.handles.latest(path)
        info = replace(info, path=path, external=True, catalog_name=known.name)
        self.register_external(info)
        return self.find_table(info.database, info.name) or info

    def drop_results(self, name: str) -> None:
        """Drop what a stream without an output table computed, if there is any."""
        info = self.find_table(SYSTEM_FOLDER, name)
        if info is not None:
            self._seen.pop(info.path, None)
            self.handles.forget(info.path)
            files.remove_folder(info.path, self._dropped)

    def _existing(self, database: str, name: str, *, if_not_exists: bool) -> TableInfo | None:
        external = key_of(database, name) in self._external.rows()
        for known in self.table_names(database):
            if known == name and not external and not is_table(self._path(database, name)):
                continue  # a table's folder without its log
            if known.lower() == name.lower():
                if if_not_exists and known == name:
                    return self.table(database, name)
                raise StatementError("TABLE_EXISTS", f"there is a table {database}.{known}")
        if self.registered.find(database, name) is not None:
            raise StatementError("TABLE_EXISTS", f"there is a subtable {database}.{name}")
        return None

    def external(
        self,
        database: str,
        name: str,
        location: str,
        *,
        if_not_exists: bool = False,
    ) -> External:
        """Return what a Delta table outside the lake is under a name here; nothing is written.

        A relative location is one from the current folder. INSERT does not upsert. With ``if_not_exists``
        the name may be there for the same location. Raises StatementError TABLE_EXISTS, LOCATION_IN_LAKE,
        LOCATION_TAKEN; LakeError BAD_PATH; StorageError TABLE_NOT_FOUND, TABLE_UNREADABLE.
        """
        self.databases.require(database)
        existing = self._existing(database, name, if_not_exists=if_not_exists)
        if existing is not None:
            _same_place(existing, absolute(location))
        path = self._outside(location) if existing is None else existing.path
        said = described(database, name, self.handles.latest(path), None, external=True)
        return External(said, existing)

    def _outside(self, location: str) -> str:
        """Return a location in full; refuse one in the lake, and a second name for one.

        Streams tell by names what they read and write.
        """
        path = absolute(location)
        self.layout.refuse_inside(path)
        for row in self._external.rows().values():
            if absolute(row["path"]) == path:
                raise StatementError(
                    "LOCATION_TAKEN",
                    f"the table at {path} is there as {row['database']}.{row['name']}",
                    hint="use that name, or drop it first: DROP TABLE leaves the table as it is",
                )
        return path

    def register_external(self, info: TableInfo) -> None:
        """Keep the name of a table as :meth:`external` gave it; does nothing to one that is kept."""
        key = key_of(info.database, info.name)
        if key in self._external.rows():
            return
        row = {"id": key, "database": info.database, "name": info.name, "path": info.path}
        self._external.put([{**row, "description": description(info)}])
        self._seen.pop(info.path, None)

    def reattach(self, database: str, name: str, path: str) -> None:
        """Have a table be what lies at another path than it did, as ``found_again`` finds it.

        One of the lake is moved back to its place; a name of one outside leads there from now on. Raises
        OSError where the folder cannot be moved.
        """
        external = self._external.rows().get(key_of(database, name))
        old = external["path"] if external else self._path(database, name)
        if external:
            self._external.put([{**external, "path": path}])
        else:
            Path(path).rename(old)
        for place in (old, path):
            self.handles.forget(place)
            self._seen.pop(place, None)

    def drop_table(self, database: str, name: str, *, if_exists: bool = False) -> bool:
        """Drop a table with its data and subtables; an external one only loses its name here."""
        self.databases.require(database)
        info = self.find_table(database, name)
        if info is None and key_of(database, name) in self._external.rows():
            self._external.remove([key_of(database, name)])  # its table is gone
            return True
        if info is None:
            if if_exists:
                return False
            self.table(database, name)
            return False
        self.registered.remove_all(database, name)
        self._seen.pop(info.path, None)
        self.handles.forget(info.path)
        if info.external:
            self._external.remove([key_of(database, name)])
        else:
            files.remove_folder(info.path, self._dropped)
        return True

    def add_column(self, database: str, name: str, column: Column) -> TableInfo:
        """Add a column or tag (NULL in old rows) and return the table. Raises DUPLICATE_COLUMN."""
        info = self.table(database, name)
        check_columns([*info.columns, column])
        handle = self.handle(info)
        with committing(handle):
            # The description first: a tag that is not a column yet is passed over by readers.
            if not info.external:
                text = description(replace(info, columns=(*info.columns, column)))
                handle.handle.alter.set_table_properties({PROPERTY: text}, raise_if_not_exists=False)
            handle.handle.alter.add_columns([delta_field(column.name, column.type, column.comment)])
        return self.table(database, name)

    def describe(self, info: TableInfo, following: TableInfo | None = None) -> None:
        """Write down what the columns of a table of the lake are for.

        ``following`` is what they are for once the table has its hidden columns.
        """
        text = description(info)
        if following is not None:
            text = json.dumps({**json.loads(text), "following": json.loads(description(following))})
        handle = self.handles.latest(info.path)
        with committing(handle):
            handle.handle.alter.set_table_properties({PROPERTY: text}, raise_if_not_exists=False)


def _same_place(known: TableInfo, path: str) -> None:
    """Raise TABLE_EXISTS where a table that is there is not the one at a path outside the lake."""
    if not known.external or absolute(known.path) != path:
        raise StatementError(
            "TABLE_EXISTS", f"there is a table {known.database}.{known.name}, which lies at {known.path}"
        )
