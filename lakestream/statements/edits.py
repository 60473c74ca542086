"""Statements on tables: making, filling and describing them. No Spark, no JVM."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Any

from lakestream.engine.base.names import TBNAME, Names, has_subtables
from lakestream.engine.base.result import Result
from lakestream.engine.reading.frames import fitted
from lakestream.errors import LakestreamError, NotSupportedError, Place, StatementError
from lakestream.language.iotdb.paths import ROOT
from lakestream.sorting import natural
from lakestream.statements.changes import refuse_read_time, table_of
from lakestream.storage.columns.types import shown_type, spark_type, spark_type_in
from lakestream.storage.delta import Written, insert_rows
from lakestream.storage.names.comments import OF_TABLE, set_comments
from lakestream.storage.names.registered import SubtableInfo
from lakestream.storage.names.subtables import Subtables
from lakestream.storage.names.table_info import Column
from lakestream.storage.writes.values import convert, rows_of_values, sql_literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.language import model
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import TableInfo


class Editor:
    """Runs the statements on tables of one lake; ``now_us`` is what NOW stands for."""

    def __init__(self, catalog: Catalog, zone: str, now_us: int) -> None:
        self.catalog = catalog
        self.subtables = Subtables(catalog)
        self.zone = zone
        self.now_us = now_us

    # --- making tables ---

    def create_table(self, statement: model.CreateTable, database: str) -> Result:
        """CREATE TABLE and CREATE STABLE: the first column is the event time, unless the table has no key."""
        columns = columns_of(statement)
        if not statement.keyed:
            return self._create_keyless(statement, database, columns)
        if columns[0].type != "timestamp":
            raise StatementError(
                "FIRST_COLUMN_NOT_TIME",
                f"the first column, {columns[0].name}, is a {columns[0].type}: it must be a TIMESTAMP",
                hint="the first column is the event time and part of the key",
            )
        key = [columns[0].name, *(column.name for column in columns if column.composite_key)]
        kind = "stable" if statement.tags else "table"
        if statement.tags:
            key.insert(0, TBNAME)
        self.catalog.create_table(
            database,
            statement.name.name,
            columns,
            kind="stable" if kind == "stable" else "table",
            time_column=columns[0].name,
            key=key,
            if_not_exists=statement.if_not_exists,
            comment=statement.comment,
        )
        return Result(message=f"created {kind} {database}.{statement.name.name}")

    def create_like(self, statement: model.CreateTableAs, database: str, schema: pa.Schema) -> Result:
        """Make the table of a query's columns, into which its rows go: each is one of its own.

        Raises StatementError COLUMN_NAME_MISSING, NotSupportedError for a type that no column is made of,
        and what making a table raises.
        """
        return self._create_keyless(statement, database, [Column(one.name, _made_of(one)) for one in schema])

    def _create_keyless(
        self, statement: model.CreateTable | model.CreateTableAs, database: str, columns: list[Column]
    ) -> Result:
        """Make a table in which every row is one of its own; its first timestamp, if any, is its time."""
        time = next((column.name for column in columns if column.type == "timestamp"), "")
        self.catalog.create_table(
            database,
            statement.name.name,
            columns,
            time_column=time,
            if_not_exists=statement.if_not_exists,
            comment=statement.comment,
        )
        return Result(message=f"created table {database}.{statement.name.name}")

    def create_subtables(self, statement: model.CreateSubtables, database: str) -> Result:
        """CREATE TABLE sub USING stable TAGS (…), one or several."""
        found = [self._subtable(spec, spec.name.database or database) for spec in statement.subtables]
        for where in dict.fromkeys(db for db, _ in found):
            subtables = [subtable for db, subtable in found if db == where]
            self.subtables.create(where, subtables, if_not_exists=statement.if_not_exists)
        return Result(message=f"created {len(found)} subtable{'s' if len(found) > 1 else ''}")

    def _subtable(self, spec: model.SubtableSpec, database: str) -> tuple[str, SubtableInfo]:
        stable = self.catalog.table(spec.stable.database or database, spec.stable.name)
        names = spec.tag_names or tuple(tag.name for tag in stable.tags)
        if len(names) != len(spec.tag_values):
            raise StatementError(
                "VALUE_COUNT",
                f"{stable.name} takes {len(names)} tag values, not {len(spec.tag_values)}",
                hint=f"tags: {', '.join(names)}",
            )
        given = {
            name: self._converted(value, stable.column(name))
            for name, value in zip(names, spec.tag_values, strict=True)
        }
        tags = {tag.name: given.get(tag.name) for tag in stable.tags}
        return database, SubtableInfo(spec.name.name, stable.name, tags)

    def _converted(self, value: model.Value, column: Column) -> Any:  # noqa: ANN401
        return convert(value, column, now_us=self.now_us, zone=self.zone)

    def add_column(self, statement: model.AddColumn, database: str) -> Result:
        """ALTER TABLE … ADD COLUMN | TAG."""
        column = _column(statement.column, is_tag=statement.is_tag)
        self.catalog.add_column(database, statement.table.name, column)
        return Result(message=f"added {column.name} to {database}.{statement.table.name}")

    def set_comment(
        self, statement: model.SetComment, database: str, spark: Callable[[], SparkSession]
    ) -> Result:
        """COMMENT ON TABLE or COLUMN; ``spark`` is for a table that delta-rs does not write."""
        info, subtable = table_of(self.catalog, statement.table, database)
        if subtable is not None:
            raise NotSupportedError(
                f"a comment on the subtable {subtable}", hint=f"comment its super table, {info.name}"
            )
        table, name = self.catalog.handle(info), f"{info.database}.{info.name}"
        if statement.column is not None:
            name = f"{name}.{statement.column}"
            if info.column(statement.column).name not in {field.name for field in table.fields}:
                raise NotSupportedError(f"a comment on {name}, which is made of other columns")
        set_comments(table, {statement.column or OF_TABLE: statement.text}, spark)
        return Result(message=f"commented {name}" if statement.text else f"took the comment of {name} away")

    def set_tag(self, statement: model.SetTag, database: str) -> Result:
        """ALTER TABLE sub SET TAG …."""
        stable, name = self.stable_of(database, statement.table.name)
        values: dict[str, Any] = {}
        literals: dict[str, str] = {}
        for tag, value in statement.tags:
            column = stable.column(tag)
            values[tag] = self._converted(value, column)
            literals[tag] = sql_literal(values[tag], column)
        self.subtables.set_tag(database, name, values, literals)
        return Result(message=f"changed tags of {database}.{name}")

    def stable_of(self, database: str, name: str) -> tuple[TableInfo, str]:
        """Return the super table of a subtable; StatementError TABLE_NOT_FOUND when it is none."""
        subtable = self.subtables.find(database, name)
        if subtable is None:
            full = f"{database}.{name}"
            raise StatementError("TABLE_NOT_FOUND", f"there is no subtable {full}", missing=full)
        return self.catalog.table(database, subtable.stable), subtable.name

    def drop_table(self, statement: model.DropTable, database: str) -> Result:
        """DROP TABLE, of a subtable too."""
        name = statement.name.name
        if self.catalog.find_table(database, name) is None and self.subtables.drop(database, name):
            return Result(message=f"dropped subtable {database}.{name}")
        dropped = self.catalog.drop_table(database, name, if_exists=statement.if_exists)
        return Result(message=f"dropped table {database}.{name}" if dropped else "there was no such table")

    # --- rows ---

    def insert(self, statement: model.Insert, database: str) -> Result:
        """INSERT INTO …: the rows of all targets of one table are one commit."""
        parts: dict[str, tuple[TableInfo, list[pa.Table]]] = {}
        for target in statement.targets:
            info, rows = self._target_rows(target, target.table.database or database)
            parts.setdefault(info.path, (info, []))[1].append(rows)
        count = 0
        for info, tables in parts.values():
            rows = _stacked(tables)
            self._insert(info, rows)
            count += rows.num_rows
        return Result.of_rows("inserted", count)

    def _target_rows(self, target: model.InsertTarget, database: str) -> tuple[TableInfo, pa.Table]:
        name = target.table.name
        info = self.catalog.find_table(database, name)
        constants: Mapping[str, Any] | None = None
        if info is None:
            subtable = self.subtables.find(database, name)
            if subtable is None:
                subtable = self._made_for(target, database)
            info = self.catalog.table(database, subtable.stable)
            constants = {TBNAME: subtable.name, **subtable.tags}
        self._refuse_unwritable(info)
        try:
            rows = rows_of_values(
                info, target.columns, target.rows, now_us=self.now_us, zone=self.zone, constants=constants
            )
        except LakestreamError as error:
            raise error.at(Place(target.table.line, target.table.column, len(name))) from None
        return info, self._with_tags(info, rows) if constants is None else rows

    def _made_for(self, target: model.InsertTarget, database: str) -> SubtableInfo:
        if target.using is None:
            Names(self.catalog, database).find(database, target.table.name)  # raises TABLE_NOT_FOUND
            raise AssertionError
        _, subtable = self._subtable(target.using, database)
        # Another process may have made it meanwhile, for a row of its own.
        self.subtables.create(database, [subtable], if_not_exists=True)
        return self.subtables.find(database, subtable.name) or subtable

    def _refuse_unwritable(self, info: TableInfo) -> None:
        refuse_read_time(info)
        if info.writer is not None and info.kind in ("output", "quarantine"):
            raise StatementError(
                "TABLE_IS_OUTPUT",
                f"{info.database}.{info.name} is written by a stream",
                hint="insert into another table, or drop the stream and write into a table of your own",
            )

    def _with_tags(self, info: TableInfo, rows: pa.Table) -> pa.Table:
        """Give rows of a super table the registered tags of their subtables where they have none."""
        import pyarrow as pa

        if info.kind != "stable" or TBNAME not in rows.column_names:
            return rows
        missing = [tag for tag in info.tags if tag.name not in rows.column_names]
        if not missing:
            return rows
        names = rows[TBNAME].to_pylist()
        known = {name: self.subtables.find(info.database, name) for name in set(names)}
        schema = self.catalog.handles.open(info.path).schema
        for tag in missing:
            values = [sub.tags.get(tag.name) if (sub := known[name]) else None for name in names]
            rows = rows.append_column(tag.name, pa.array(values, schema.field(tag.name).type))
        return rows

    def insert_arrow(self, info: TableInfo, rows: pa.Table) -> int:
        """Insert Arrow rows by key in one commit and return its version."""
        self._refuse_unwritable(info)
        return self._insert(info, self._with_tags(info, rows))

    def insert_frame(self, info: TableInfo, rows: pa.Table) -> int:
        """Insert the rows of a user's frame by key in one commit; columns that it lacks are NULL."""
        self._refuse_unwritable(info)
        schema = self.catalog.handles.latest(info.path).schema
        return self.insert_arrow(info, fitted(info, rows, schema, self.zone))

    def _insert(self, info: TableInfo, rows: pa.Table) -> int:
        # The triggers of the tree hear of all points that a row names, not of those alone that it changes.
        written = Written(rows, row_by_row=False) if info.database == ROOT else None
        return insert_rows(info, rows, tables=self.catalog.handles, written=written)

    def insert_dicts(self, info: TableInfo, rows: Sequence[Mapping[str, Any]]) -> int:
        """Insert rows given as mappings by key in one commit; columns that a row lacks are NULL."""
        columns = list(dict.fromkeys(name for row in rows for name in row))
        values = [tuple(_written(row.get(name)) for name in columns) for row in rows]
        converted = rows_of_values(info, columns, values, now_us=self.now_us, zone=self.zone)
        return self.insert_arrow(info, converted)

    # --- looking ---

    def describe(self, statement: model.Describe, database: str) -> Result:
        """DESCRIBE: column, type, note, comment, without provenance; a message of the table itself."""
        info, _ = table_of(self.catalog, statement.table, database)
        rows = [
            (column.name, shown_type(column.type), _note(column, info), column.comment or "")
            for column in info.columns
            if column.name not in info.hidden
        ]
        about = f"{info.database}.{info.name}: {info.comment}" if info.comment else ""
        said = "\n".join(filter(None, (about, _origin(info))))
        return Result(("field", "type", "note", "comment"), rows, message=said)

    def show_tables(self, statement: model.ShowTables, database: str) -> Result:
        """SHOW TABLES (ordinary ones, outputs and subtables) and SHOW STABLES."""
        self.catalog.databases.require(database)
        infos = self.catalog.tables(database)
        if statement.stables:
            return Result(("stable_name",), [(info.name,) for info in infos if has_subtables(info)])
        stables = {info.name for info in infos if has_subtables(info)}
        names = self.catalog.table_names(database)
        rows: list[tuple[str, str | None]] = [(name, None) for name in names if name not in stables]
        for info in infos:
            if has_subtables(info):
                rows += [(sub.name, info.name) for sub in self.subtables.of(database, info.name)]
        return Result(("table_name", "stable_name"), sorted(rows, key=lambda row: natural(row[0])))


_NAMED = re.compile(r"[^ ,;{}()\n\t=]+")
"""What Delta lets a column be called."""


def _made_of(field: pa.Field) -> str:
    """Return the type of the column that a query's column becomes."""
    if not _NAMED.fullmatch(field.name):
        said = f"the column {field.name} of the query has no name that a table's column may have"
        raise StatementError("COLUMN_NAME_MISSING", said, hint=f"{field.name} AS name")
    kind = spark_type_in(field.type)
    if kind is None:
        raise NotSupportedError(
            f"a column of the type {field.type}, which {field.name} is,",
            hint="CAST it to a type that CREATE TABLE has, or leave it out",
        )
    return kind


def columns_of(statement: model.CreateTable) -> list[Column]:
    """Return the columns of the table that a statement makes; of a super table with ``tbname`` and tags."""
    columns = [_column(definition) for definition in statement.columns]
    if not statement.tags:
        return columns
    return [*columns, Column(TBNAME, "string"), *(_column(tag, is_tag=True) for tag in statement.tags)]


def _written(value: Any) -> Any:  # noqa: ANN401 - any value of a row
    """Return a datetime or date as the text that a statement would hold."""
    return value.isoformat() if isinstance(value, date) else value


def _column(definition: model.ColumnDefinition, *, is_tag: bool = False) -> Column:
    return Column(
        definition.name,
        spark_type(definition.type_name),
        definition.comment,
        is_tag=is_tag,
        composite_key=definition.composite_key,
    )


def _origin(info: TableInfo) -> str:
    """Return what a table outside the lake is elsewhere; empty for one of the lake."""
    if not info.external:
        return ""
    known = f"{info.catalog_name}, at {info.path}" if info.catalog_name else f"the Delta table at {info.path}"
    return f"{info.database}.{info.name} is {known}"


def _note(column: Column, info: TableInfo) -> str:
    if column.is_tag:
        return "TAG"
    if column.name == info.time_column:
        by = info.read_time.written if info.read_time is not None else ""
        return f"EVENT TIME BY {by}" if by else "EVENT TIME"
    return "COMPOSITE KEY" if column.composite_key else ""


def _stacked(tables: Sequence[pa.Table]) -> pa.Table:
    import pyarrow as pa

    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="default")
