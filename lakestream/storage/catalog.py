"""Databases, tables, super tables and subtables of a lake; there is no metastore.

A table describes itself: its Delta property ``lakestream.table`` holds what Delta's schema does not
say (JSON), so a copied folder keeps it. External tables and the tag values of subtables are kept in
``_lakestream/tables`` and ``_lakestream/subtables``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from deltalake import QueryBuilder

from lakestream.errors import StatementError, StorageError, did_you_mean
from lakestream.language.quoting import delta_name, delta_text
from lakestream.storage import edits, files
from lakestream.storage.keyed import KeyedTable, rows_of
from lakestream.storage.layout import SYSTEM_FOLDER, absolute, segment_name
from lakestream.storage.table import Table, Tables
from lakestream.storage.times import kept_time, read_time
from lakestream.storage.types import delta_field, spark_type_of, type_within

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from deltalake import Field

    from lakestream.clock import Clock
    from lakestream.errors import LakestreamError
    from lakestream.storage.layout import Layout
    from lakestream.storage.metastore import CatalogTable, NewCatalogTable
    from lakestream.storage.times import ReadTime

PROPERTY = "lakestream.table"
TBNAME = "tbname"
Kind = Literal["table", "stable", "output"]
_DESCRIPTION_VERSION = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Column:
    """A column: its Spark SQL type, and whether it is a tag or the second part of a composite key."""

    name: str
    type: str
    comment: str | None = None
    is_tag: bool = False
    composite_key: bool = False


@dataclass(frozen=True)
class TableInfo:
    """A table of the lake.

    ``columns`` are in the table's order: time, measures, and for a super table ``tbname`` and its tags.
    ``time_column`` is the event time, ``key`` what INSERT upserts by; empty for none. ``hidden`` names
    the columns of an output that hold its windows' provenance; ``writer`` is the id of the stream that
    writes it.
    """

    database: str
    name: str
    path: str
    kind: Kind
    columns: tuple[Column, ...]
    time_column: str
    key: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    external: bool = False
    writer: str | None = None
    read_time: ReadTime | None = None
    """How the event time is read where it is something else than a timestamp; no statement writes there."""
    catalog_name: str | None = None
    """The name in a catalog of Spark's by which the table was found, in full."""

    def type_at(self, path: Sequence[str]) -> str | None:
        """Return the Spark SQL type of a column, or of a field in a struct; None where there is none."""
        kind = next((column.type for column in self.columns if column.name == path[0]), None)
        return None if kind is None else type_within(kind, path[1:])

    @property
    def tags(self) -> tuple[Column, ...]:
        """The tag columns, in order."""
        return tuple(column for column in self.columns if column.is_tag)

    def column(self, name: str) -> Column:
        """Return a column; StatementError COLUMN_NOT_FOUND with the closest names."""
        for column in self.columns:
            if column.name == name:
                return column
        known = [column.name for column in self.columns if column.name not in self.hidden]
        raise StatementError(
            "COLUMN_NOT_FOUND",
            f"{self.database}.{self.name} has no column {name}",
            hint=did_you_mean(name, known),
        )


@dataclass(frozen=True)
class SubtableInfo:
    """A subtable: a value of ``tbname`` in its super table, and the values of its tags by name.

    Tag values are as ``values.convert`` gives them: times in microseconds since 1970 UTC.
    """

    name: str
    stable: str
    tags: dict[str, Any]


@dataclass(frozen=True)
class External:
    """A Delta table outside the lake under a name here.

    ``said`` is as its schema has it, its event time the first timestamp column as it is; ``known`` is the
    table that the name stands for already.
    """

    said: TableInfo
    known: TableInfo | None = None


class Catalog:
    """The names of one lake. Databases and tables are found by the lake's folders."""

    def __init__(self, layout: Layout, clock: Clock, tables: Tables | None = None) -> None:
        self.layout = layout
        self.handles = tables or Tables()
        self._clock = clock
        self._described: dict[str, tuple[int, TableInfo]] = {}
        self._databases = KeyedTable(
            layout.system_path("databases"), {"name": "string", "created_us": "bigint"}, "name"
        )
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
        self._subtables = KeyedTable(
            layout.system_path("subtables"),
            {"id": "string", "database": "string", "name": "string", "stable": "string", "tags": "string"},
            "id",
        )

    # --- databases ------------------------------------------------------------------------------

    def databases(self) -> list[str]:
        """Return the names of the databases, sorted."""
        return sorted(self._databases.rows())

    def create_database(self, name: str, *, if_not_exists: bool = False) -> bool:
        """Make a database; False when it was there and ``if_not_exists``. Raises DATABASE_EXISTS."""
        self.layout.database_path(name)
        known = {database.lower(): database for database in self.databases()}
        if name.lower() in known:
            if if_not_exists and known[name.lower()] == name:
                return False
            raise StatementError("DATABASE_EXISTS", f"there is a database {known[name.lower()]}")
        if name.lower() == SYSTEM_FOLDER:
            raise StatementError("BAD_NAME", f"{name} is lakestream's own folder")
        micros = int((self._clock.now() - _EPOCH).total_seconds() * 1_000_000)
        self._databases.put([{"name": name, "created_us": micros}])
        return True

    def drop_database(self, name: str, *, if_exists: bool = False) -> bool:
        """Drop a database with all its tables; external ones only lose their names here."""
        if name not in self.databases():
            if if_exists:
                return False
            raise self._no_database(name)
        for table in self.table_names(name):
            self.drop_table(name, table)
        self._databases.remove([name])
        if name in map(segment_name, files.folders(self.layout.root)):
            files.remove_folder(self.layout.database_path(name), self._dropped)
        return True

    def require_database(self, name: str) -> None:
        """Raise StatementError DATABASE_NOT_FOUND when there is no such database."""
        if name not in self._databases.rows():
            raise self._no_database(name)

    def _no_database(self, name: str) -> StatementError:
        return StatementError(
            "DATABASE_NOT_FOUND", f"there is no database {name}", hint=did_you_mean(name, self.databases())
        )

    @property
    def _dropped(self) -> str:
        return self.layout.system_path("dropped")

    # --- tables ---------------------------------------------------------------------------------

    def table_names(self, database: str) -> list[str]:
        """Return the names of a database's tables, sorted, without opening any."""
        self.require_database(database)
        own = map(segment_name, files.folders(self.layout.database_path(database)))
        return sorted(
            {*own, *(row["name"] for row in self._external.rows().values() if row["database"] == database)}
        )

    def paths(self) -> dict[tuple[str, str], str]:
        """Return where every table lies, by database and name, without opening any."""
        external = {(row["database"], row["name"]): row["path"] for row in self._external.rows().values()}
        every = [(database, name) for database in self.databases() for name in self.table_names(database)]
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

    def find_table(self, database: str, name: str) -> TableInfo | None:
        """Return a table, or None when there is none of that name.

        In the database ``_lakestream``, which no statement reaches, are the results of streams that
        store none, by the streams' ids.
        """
        external = self._external.rows().get(_id(database, name))
        path = external["path"] if external else self._path(database, name)
        try:
            handle = self.handles.latest(path)
        except StorageError as error:
            if error.code != "TABLE_NOT_FOUND":
                raise
            self.handles.forget(path)
            return None
        known = self._described.get(path)
        if known is None or known[0] != handle.version:
            text = external["description"] if external else handle.properties.get(PROPERTY)
            info = _described(database, name, handle, text, external=bool(external))
            if external is not None:
                info = _with_kept_time(info, self.layout.timezone(), json.loads(external["description"]))
                self.handles.read_time(path, info.read_time)
            known = self._described[path] = (handle.version, info)
        return known[1]

    def _path(self, database: str, name: str) -> str:
        if database == SYSTEM_FOLDER:
            return self.layout.results_path(name)
        return self.layout.table_path(database, name)

    def table(self, database: str, name: str) -> TableInfo:
        """Return a table; TABLE_NOT_FOUND as ``not_found`` says it."""
        self.require_database(database)
        found = self.find_table(database, name)
        if found is None:
            raise self.not_found(database, name)
        return found

    def not_found(self, database: str, name: str) -> LakestreamError:
        """Return the error of a table that is not there: one outside the lake may be gone from its place."""
        external = self._external.rows().get(_id(database, name))
        if external is not None:
            return StorageError(
                "TABLE_NOT_FOUND",
                f"there is no Delta table at {external['path']}, where {database}.{name} was",
                hint=f"put it back, or DROP TABLE {database}.{name}",
            )
        return StatementError(
            "TABLE_NOT_FOUND",
            f"there is no table {database}.{name}",
            hint=did_you_mean(name, self.table_names(database)),
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
            self.require_database(database)
            existing = self._existing(database, name, if_not_exists=if_not_exists)
            if existing is not None:
                return existing
        _check_columns(columns)
        path = self._path(database, name) if location is None else self._outside(location)
        info = TableInfo(
            *(database, name, path, kind, tuple(columns), time_column, tuple(key), tuple(hidden)),
            external=location is not None,
            writer=writer,
        )
        properties = {PROPERTY: _description(info)}
        if cataloged is not None:
            with cataloged.made(columns, {**edits.TABLE_PROPERTIES, **properties}, partitioned_by) as known:
                return self._named_here(info, known)
        fields = [delta_field(column.name, column.type, column.comment) for column in columns]
        edits.create(path, fields, properties=properties, comment=comment, partitioned_by=partitioned_by)
        if info.external:
            self.register_external(info)
        self.handles.forget(path)
        self._described.pop(path, None)
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
            self._described.pop(info.path, None)
            self.handles.forget(info.path)
            files.remove_folder(info.path, self._dropped)

    def _existing(self, database: str, name: str, *, if_not_exists: bool) -> TableInfo | None:
        for known in self.table_names(database):
            if known.lower() == name.lower():
                if if_not_exists and known == name:
                    return self.table(database, name)
                raise StatementError("TABLE_EXISTS", f"there is a table {database}.{known}")
        if _id(database, name) in self._subtables.rows():
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
        self.require_database(database)
        existing = self._existing(database, name, if_not_exists=if_not_exists)
        if existing is not None:
            _same_place(existing, absolute(location))
        path = self._outside(location) if existing is None else existing.path
        said = _described(database, name, self.handles.latest(path), None, external=True)
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
        key = _id(info.database, info.name)
        if key in self._external.rows():
            return
        row = {"id": key, "database": info.database, "name": info.name, "path": info.path}
        self._external.put([{**row, "description": _description(info)}])
        self._described.pop(info.path, None)

    def drop_table(self, database: str, name: str, *, if_exists: bool = False) -> bool:
        """Drop a table with its data and subtables; an external one only loses its name here."""
        self.require_database(database)
        info = self.find_table(database, name)
        if info is None and _id(database, name) in self._external.rows():
            self._external.remove([_id(database, name)])  # its table is gone
            return True
        if info is None:
            if if_exists:
                return False
            self.table(database, name)
            return False
        gone = [key for key, row in self._subtables.rows().items() if _belongs(row, database, name)]
        self._subtables.remove(gone)
        self._described.pop(info.path, None)
        self.handles.forget(info.path)
        if info.external:
            self._external.remove([_id(database, name)])
        else:
            files.remove_folder(info.path, self._dropped)
        return True

    def add_column(self, database: str, name: str, column: Column) -> TableInfo:
        """Add a column or tag (NULL in old rows) and return the table. Raises DUPLICATE_COLUMN."""
        info = self.table(database, name)
        _check_columns([*info.columns, column])
        handle = self.handle(info)
        with handle.guard:
            # The description first: a tag that is not a column yet is passed over by readers.
            if not info.external:
                text = _description(replace(info, columns=(*info.columns, column)))
                handle.handle.alter.set_table_properties({PROPERTY: text}, raise_if_not_exists=False)
            handle.handle.alter.add_columns([delta_field(column.name, column.type, column.comment)])
        return self.table(database, name)

    def describe(self, info: TableInfo, following: TableInfo | None = None) -> None:
        """Write down what the columns of a table of the lake are for.

        ``following`` is what they are for once the table has its hidden columns.
        """
        text = _description(info)
        if following is not None:
            text = json.dumps({**json.loads(text), "following": json.loads(_description(following))})
        handle = self.handles.latest(info.path)
        with handle.guard:
            handle.handle.alter.set_table_properties({PROPERTY: text}, raise_if_not_exists=False)

    # --- subtables ------------------------------------------------------------------------------

    def create_subtables(
        self, database: str, subtables: Sequence[SubtableInfo], *, if_not_exists: bool = False
    ) -> list[SubtableInfo]:
        """Register subtables in one commit and return the new ones. Raises TABLE_EXISTS, TAG_NOT_FOUND."""
        known = self._subtables.rows()
        new = []
        for subtable in subtables:
            stable = self.table(database, subtable.stable)
            _check_tags(stable, subtable.tags)
            if _id(database, subtable.name) in known or self._own_table(database, subtable.name):
                if if_not_exists:
                    continue
                raise StatementError("TABLE_EXISTS", f"there is a table {database}.{subtable.name}")
            new.append(subtable)
        self._subtables.put(_subtable_row(database, subtable) for subtable in new)
        return new

    def _own_table(self, database: str, name: str) -> bool:
        return name.lower() in (known.lower() for known in self.table_names(database))

    def subtable(self, database: str, name: str) -> SubtableInfo | None:
        """Return a subtable: a registered one, else a value of ``tbname`` among a super table's rows."""
        row = self._subtables.rows().get(_id(database, name))
        if row is not None:
            return _subtable(row)
        for stable in self._super_tables(database):
            found = self._from_rows(stable, f"{delta_name(TBNAME)} = {delta_text(name)}")
            if found:
                return found[0]
        return None

    def subtables(self, database: str, stable: str) -> list[SubtableInfo]:
        """Return a super table's subtables by name, those included that only its rows name."""
        info = self.table(database, stable)
        found = {sub.name: sub for sub in self._from_rows(info, None)}
        rows = self._subtables.rows().values()
        registered = {row["name"]: _subtable(row) for row in rows if _belongs(row, database, stable)}
        return [sub for _, sub in sorted({**found, **registered}.items())]

    def set_tag(
        self, database: str, name: str, tags: Mapping[str, Any], literals: Mapping[str, str]
    ) -> SubtableInfo:
        """Change tags of a subtable, in its registration and in its rows (``literals``: SQL of each value).

        Raises StatementError TABLE_NOT_FOUND or TAG_NOT_FOUND.
        """
        old = self.subtable(database, name)
        if old is None:
            raise StatementError("TABLE_NOT_FOUND", f"there is no subtable {database}.{name}")
        stable = self.table(database, old.stable)
        _check_tags(stable, tags)
        new = replace(old, tags={**old.tags, **tags})
        edits.update_where(self.handle(stable), literals, f"{delta_name(TBNAME)} = {delta_text(name)}")
        self._subtables.put([_subtable_row(database, new)])
        return new

    def drop_subtable(self, database: str, name: str) -> bool:
        """Drop a subtable with its rows; False when there is none."""
        old = self.subtable(database, name)
        if old is None:
            return False
        stable = self.table(database, old.stable)
        edits.delete_where(self.handle(stable), f"{delta_name(TBNAME)} = {delta_text(name)}")
        self._subtables.remove([_id(database, name)])
        return True

    def _super_tables(self, database: str) -> list[TableInfo]:
        if database not in self._databases.rows():
            return []
        return [
            info for info in self.tables(database) if any(column.name == TBNAME for column in info.columns)
        ]

    def _from_rows(self, stable: TableInfo, where: str | None) -> list[SubtableInfo]:
        """Return the subtables that rows name, each with the tags of its newest row."""
        names = [column.name for column in stable.tags]
        time = delta_name(stable.time_column)
        newest = [f"last_value({delta_name(n)} ORDER BY {time}) AS {delta_name(n)}" for n in names]
        condition = f" AND {where}" if where else ""
        query = (
            f"SELECT {', '.join([TBNAME, *newest])} FROM rows WHERE {TBNAME} IS NOT NULL{condition}"  # noqa: S608
            f" GROUP BY {TBNAME} ORDER BY {TBNAME}"
        )
        table = self.handles.latest(stable.path)
        with table.guard:
            rows = rows_of(QueryBuilder().register("rows", table.handle).execute(query))
        return [SubtableInfo(row.pop(TBNAME), stable.name, _without_moments(row)) for row in rows]


def _same_place(known: TableInfo, path: str) -> None:
    """Raise TABLE_EXISTS where a table that is there is not the one at a path outside the lake."""
    if not known.external or absolute(known.path) != path:
        raise StatementError(
            "TABLE_EXISTS", f"there is a table {known.database}.{known.name}, which lies at {known.path}"
        )


def refuse_other_time(known: TableInfo, said: TableInfo) -> None:
    """Raise TABLE_EXISTS where a table that is there has another event time, or unit of it, than is said."""
    if (known.time_column, known.read_time) == (said.time_column, said.read_time):
        return
    raise StatementError(
        "TABLE_EXISTS",
        f"the event time of {known.database}.{known.name} is {_time_text(known)}, not {_time_text(said)}",
        hint="leave TIMESTAMP BY out, or drop it first: DROP TABLE leaves the table as it is",
    )


def _time_text(info: TableInfo) -> str:
    time, name = info.read_time, info.time_column or "none"
    if time is not None and time.expression:
        return f"{time.written} AS {name}"
    return f"{name}{f' in {time.unit.lower()}' if time is not None and time.unit else ''}"


def _id(database: str, name: str) -> str:
    return json.dumps([database, name])


def _belongs(row: Mapping[str, Any], database: str, stable: str) -> bool:
    return bool(row["database"] == database and row["stable"] == stable)


def _subtable(row: Mapping[str, Any]) -> SubtableInfo:
    tags = {name: _from_json(value) for name, value in json.loads(row["tags"]).items()}
    return SubtableInfo(row["name"], row["stable"], tags)


def _subtable_row(database: str, subtable: SubtableInfo) -> dict[str, Any]:
    return {
        "id": _id(database, subtable.name),
        "database": database,
        "name": subtable.name,
        "stable": subtable.stable,
        "tags": json.dumps(subtable.tags, default=_to_json),
    }


def _to_json(value: object) -> dict[str, str]:
    """Write a tag's value that JSON has no form for."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    return {"decimal" if isinstance(value, Decimal) else "date": str(value)}


def _from_json(value: object) -> object:
    """Read what ``_to_json`` wrote: tags are scalars, so an object is one of its forms."""
    if not isinstance(value, dict):
        return value
    [(kind, text)] = value.items()
    return _READERS[kind](text)


_READERS: dict[str, Callable[[str], object]] = {
    "bytes": bytes.fromhex,
    "decimal": Decimal,
    "date": date.fromisoformat,
}


def _without_moments(tags: dict[str, Any]) -> dict[str, Any]:
    """Give times as microseconds since 1970 UTC."""
    return {
        name: (value - _EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value
        for name, value in tags.items()
    }


def _check_tags(stable: TableInfo, tags: Mapping[str, Any]) -> None:
    known = [column.name for column in stable.tags]
    for name in tags:
        if name not in known:
            raise StatementError(
                "TAG_NOT_FOUND",
                f"{stable.database}.{stable.name} has no tag {name}",
                hint=did_you_mean(name, known),
            )


def _check_columns(columns: Sequence[Column]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise StatementError("DUPLICATE_COLUMN", f"the column {column.name} is there twice")
        if column.name.lower() in {"_change_type", "_commit_version", "_commit_timestamp"}:
            raise StatementError("BAD_NAME", f"{column.name} is a column of Delta's change feed")
        seen.add(column.name.lower())


def _description(info: TableInfo) -> str:
    """Return what the table's property says."""
    return json.dumps(
        {
            "version": _DESCRIPTION_VERSION,
            "kind": info.kind,
            "time": info.time_column,
            "key": info.key,
            "tags": [column.name for column in info.columns if column.is_tag],
            "composite": [column.name for column in info.columns if column.composite_key],
            "hidden": info.hidden,
            "writer": info.writer,
            **_kept_by(info.read_time),
            **({"catalog_name": info.catalog_name} if info.catalog_name else {}),
        }
    )


def _kept_by(time: ReadTime | None) -> dict[str, Any]:
    if time is None:
        return {}
    unit = {"unit": time.unit} if time.unit else {}
    return {**unit, "by": time.kept()} if time.parts else unit


def with_time_column(info: TableInfo, column: str, zone: str, unit: str | None) -> TableInfo:
    """Return a table whose event time is a column, empty for none; ``unit`` is what one of integers counts.

    Dates and times without a zone are in ``zone``. Raises StatementError COLUMN_NOT_FOUND, TIME_COLUMN_TYPE.
    """
    if not column:
        return info
    time = read_time(column, info.column(column).type, zone, unit)
    return replace(info, time_column=column) if time is None else with_read_time(info, time)


def with_read_time(info: TableInfo, time: ReadTime) -> TableInfo:
    """Return a table with an event time that is made of its columns, a timestamp to all who read it.

    It takes the place of the column that it alone is made of where that has its name, else it comes before
    all others. Raises StatementError DUPLICATE_COLUMN where another column has its name.
    """
    columns = info.columns
    if all(part.path == (time.column,) for part in time.parts):
        columns = tuple(
            replace(column, type="timestamp") if column.name == time.column else column for column in columns
        )
    else:
        _refuse_taken(info, time.column)
        columns = (Column(time.column, "timestamp"), *columns)
    return replace(info, columns=columns, time_column=time.column, read_time=time)


def _refuse_taken(info: TableInfo, name: str) -> None:
    taken = next((column.name for column in info.columns if column.name.lower() == name.lower()), None)
    if taken is not None:
        raise StatementError(
            "DUPLICATE_COLUMN",
            f"{info.database}.{info.name} has a column {taken} beside its event time of that name",
            hint="TIMESTAMP BY … AS another_name",
        )


def _with_kept_time(info: TableInfo, zone: str, kept: Mapping[str, Any]) -> TableInfo:
    """Return a table with the time it was attached by; without one where its owner changed what makes it."""
    try:
        if "by" not in kept:
            return with_time_column(info, info.time_column, zone, kept.get("unit"))
        time = kept_time(info.time_column, zone, kept.get("unit"), kept["by"])
        if all(info.type_at(part.path) == part.type for part in time.parts):
            return with_read_time(info, time)
    except StatementError:
        pass
    return replace(info, time_column="")


def _described(database: str, name: str, handle: Table, text: str | None, *, external: bool) -> TableInfo:
    """Read a table's description together with its schema, which has the last word on columns."""
    fields = handle.fields
    data = json.loads(text) if text else _default_description(fields)
    following = data.get("following")
    if following and {*following["hidden"]} <= {field.name for field in fields}:
        data = following
    if data["version"] > _DESCRIPTION_VERSION:
        raise StorageError("TABLE_TOO_NEW", f"{database}.{name} was made by a newer lakestream")
    columns = tuple(_column(field, data) for field in fields)
    return TableInfo(
        database=database,
        name=name,
        path=handle.path,
        kind=data["kind"],
        columns=columns,
        time_column=data["time"],
        key=tuple(data["key"]),
        hidden=tuple(data["hidden"]),
        external=external,
        writer=data["writer"],
        catalog_name=data.get("catalog_name"),
    )


def _default_description(fields: Sequence[Field]) -> dict[str, Any]:
    """Describe a table that lakestream did not make: its first timestamp is the event time."""
    times = [field.name for field in fields if spark_type_of(field) in {"timestamp", "timestamp_ntz"}]
    empty: dict[str, Any] = {"key": [], "tags": [], "composite": [], "hidden": [], "writer": None}
    return {"version": _DESCRIPTION_VERSION, "kind": "table", "time": times[0] if times else "", **empty}


def _column(field: Field, data: Mapping[str, Any]) -> Column:
    return Column(
        name=field.name,
        type=spark_type_of(field),
        comment=(field.metadata or {}).get("comment"),
        is_tag=field.name in data["tags"],
        composite_key=field.name in data["composite"],
    )
