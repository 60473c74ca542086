"""Statements on databases and tables, and what they mean for streams and the tree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakestream.engine.base.result import Result
from lakestream.errors import (
    ConfirmationNeededError,
    LakestreamError,
    NotSupportedError,
    StatementError,
)
from lakestream.language import model
from lakestream.language.iotdb.paths import ROOT
from lakestream.statements.workspace import DEFAULT_DATABASE
from lakestream.storage.names.subtables import Subtables
from lakestream.storage.records.registry import Accepted
from lakestream.storage.writes.feed import switch_feed_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.engine.reading.event_times import EventTimes
    from lakestream.statements.streams import StreamStatements
    from lakestream.statements.workspace import Workspace
    from lakestream.storage.names.metastore import CatalogTable
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import StreamRecord
    from lakestream.storage.tables.table import Table


@dataclass
class TableStatements:
    """Runs statements on databases and tables; ``streams`` are the other statements."""

    at: Workspace
    streams: StreamStatements

    def create_database(self, statement: model.CreateDatabase) -> Result:
        """CREATE DATABASE."""
        self.at.catalog.databases.create(statement.name, if_not_exists=statement.if_not_exists)
        return Result(message=f"created database {statement.name}")

    def drop_database(self, statement: model.DropDatabase) -> Result:
        """DROP DATABASE; with FORCE its streams go first."""
        self._refuse_tree("DROP DATABASE", statement.name)
        inside = [record for record in self.at.registry.streams() if touches(record, statement.name)]
        if inside and not statement.force:
            raise StatementError(
                "DATABASE_IN_USE",
                f"the stream {inside[0].database}.{inside[0].name} uses tables of {statement.name}",
                hint="drop its streams first, or DROP DATABASE … FORCE",
            )
        for record in inside:
            if record.database == statement.name:
                self.streams.remove(record)
        if inside:
            for table in self.at.catalog.table_names(statement.name):
                give_up(self.at, statement.name, table)
        self.at.catalog.drop_database(statement.name, if_exists=statement.if_exists)
        if self.at.database == statement.name:
            self.at.database = DEFAULT_DATABASE
        return Result(message=f"dropped database {statement.name}")

    def use(self, statement: model.UseDatabase) -> Result:
        """USE: names without a database mean this one."""
        self.at.catalog.databases.require(statement.name)
        self.at.database = statement.name
        return Result(message=f"using database {statement.name}")

    def show_databases(self, _statement: model.ShowDatabases) -> Result:
        """SHOW DATABASES, of those that whoever asks may see."""
        catalog = self.at.catalog
        return Result(("name",), [(name,) for name in catalog.databases.names() if name in catalog.reach])

    def create_table(self, statement: model.CreateTable) -> Result:
        """CREATE TABLE, of a new table or of one that is there already."""
        if statement.location or statement.catalog_name:
            return self._attach(statement)
        return self.at.editor().create_table(statement, self.at.in_database(statement.name))

    def create_subtables(self, statement: model.CreateSubtables) -> Result:
        """CREATE TABLE … USING, one or several."""
        return self.at.editor().create_subtables(statement, self.at.database)

    def drop_table(self, statement: model.DropTable) -> Result:
        """DROP TABLE, and of a subtable what streams made of it where they say so."""
        self._refuse_tree("DROP TABLE", self.at.in_database(statement.name), statement.name.name)
        stable = self._stable_of(statement)
        give_up(self.at, self.at.in_database(statement.name), statement.name.name)
        result = self.at.editor().drop_table(statement, self.at.in_database(statement.name))
        if stable is not None:
            self._mark_dropped(stable, statement.name.name)
        if self.at.running is not None:
            # An output that was dropped is made again by the next tick (TDengine A8).
            self.at.running.forget()
        return result

    def add_column(self, statement: model.AddColumn) -> Result:
        """ALTER TABLE … ADD COLUMN."""
        return self.at.editor().add_column(statement, self.at.in_database(statement.table))

    def set_comment(self, statement: model.SetComment) -> Result:
        """COMMENT ON …; outputs of the streams that read the table follow with their next tick."""
        database = self.at.in_database(statement.table)
        return self.at.editor().set_comment(statement, database, lambda: self.at.session)

    def set_tag(self, statement: model.SetTag) -> Result:
        """ALTER TABLE … SET TAG."""
        editor, database = self.at.editor(), self.at.in_database(statement.table)
        stable, _ = editor.stable_of(database, statement.table.name)
        self._refuse_grouping_tags(stable, [tag for tag, _ in statement.tags])
        return editor.set_tag(statement, database)

    def insert(self, statement: model.Insert) -> Result:
        """INSERT INTO … VALUES."""
        return self.at.editor().insert(statement, self.at.database)

    def update(self, statement: model.Update) -> Result:
        """UPDATE."""
        return self.at.changes().update(statement, self.at.database)

    def delete(self, statement: model.Delete) -> Result:
        """DELETE FROM."""
        return self.at.changes().delete(statement, self.at.database)

    def describe(self, statement: model.Describe) -> Result:
        """DESCRIBE."""
        return self.at.editor().describe(statement, self.at.database)

    def show_tables(self, statement: model.ShowTables) -> Result:
        """SHOW TABLES."""
        return self.at.editor().show_tables(statement, statement.database or self.at.database)

    def _find_in_catalog(self, name: model.CatalogName) -> CatalogTable:
        """Return what a user's session means by a table's name: catalogs and current schema are its own."""
        from lakestream.storage.names.metastore import find_catalog_table

        return self.at.apart.ask(("name", name), lambda: find_catalog_table(self.at.catalogs, name))

    def _attach(self, statement: model.CreateTable) -> Result:
        """Give a Delta table that is there a name; its change feed is switched on after asking.

        The name is kept last: a statement that is refused leaves nothing.
        """
        info = self.would_name(statement)
        self._require_feed(info)
        self.at.catalog.register_external(info)
        return Result(message=f"attached {info.path} as {info.database}.{info.name}")

    def would_name(self, statement: model.CreateTable) -> TableInfo:
        """Return the Delta table that a statement says, as what it would be under its name here."""
        location, catalog_name = statement.location, None
        if statement.catalog_name is not None:
            known = self._find_in_catalog(statement.catalog_name)
            location, catalog_name = model.Location(known.location, statement.catalog_name.place), known.name
        try:
            found = self.at.catalog.external(
                self.at.in_database(statement.name),
                statement.name.name,
                location.path if location else "",
                if_not_exists=statement.if_not_exists,
            )
        except LakestreamError as error:
            raise error.at(location.place if location else None) from None
        info = self._event_times().attached(found, statement.time)
        return replace(info, catalog_name=catalog_name)

    def _event_times(self) -> EventTimes:
        from lakestream.engine.reading.event_times import EventTimes

        at = self.at
        return EventTimes(at.catalog.handles, at.timezone, lambda: at.shared, at.apart)

    def _require_feed(self, info: TableInfo) -> None:
        table = self.at.catalog.handles.latest(info.path)
        if not table.has_change_feed:
            self.at.apart.ask(
                ("feed", info.path, table.table_id), lambda: _switch_feed_on(self.at, info, table)
            )

    def _stable_of(self, statement: model.DropTable) -> TableInfo | None:
        """Return the super table of a subtable that is to be dropped, None for another table."""
        database, name = self.at.in_database(statement.name), statement.name.name
        if self.at.catalog.find_table(database, name) is not None:
            return None
        known = Subtables(self.at.catalog).find(database, name)
        return self.at.catalog.table(database, known.stable) if known is not None else None

    def _mark_dropped(self, stable: TableInfo, subtable: str) -> None:
        """Have streams with DELETE_OUTPUT_TABLE take the output of a dropped subtable back."""
        from lakestream.engine.creation.compile import definition_of

        version = self.at.catalog.handles.latest(stable.path).version
        for record in self.at.registry.streams():
            own = record.source == f"{stable.database}.{stable.name}"
            if own and definition_of(record).options.delete_output:
                dropped = {**record.dropped, subtable: version}
                self.at.registry.update(record.uuid, dropped=dropped)

    def _refuse_grouping_tags(self, stable: TableInfo, tags: Sequence[str]) -> None:
        """TDengine: a tag that a stream groups by may not be changed."""
        from lakestream.engine.creation.compile import definition_of

        for record in self.at.registry.streams():
            if record.source != f"{stable.database}.{stable.name}":
                continue
            grouped = {key.name for key in definition_of(record).partition_by}
            for tag in tags:
                if tag in grouped:
                    raise StatementError(
                        "TAG_GROUPS_STREAM",
                        f"the stream {record.database}.{record.name} is grouped by the tag {tag}",
                        hint="drop the stream first",
                    )

    def _refuse_tree(self, what: str, database: str, table: str | None = None) -> None:
        """Refuse to drop what holds the tree of time series: its series would be left without tables.

        Raises NotSupportedError, or StatementError TABLE_MAPPED for a table that a database is mapped to.
        """
        tree = self.at.tree.tree
        if database == ROOT and tree.own_tables():
            raise NotSupportedError(f"{what} of the tree of time series", hint="DELETE FROM takes its rows")
        for path, mapping in tree.mappings().items():
            if mapping.table.database == database and table in (None, mapping.table.name):
                raise StatementError(
                    "TABLE_MAPPED",
                    f"the points of the tree's database {path} are the rows of {mapping.table}",
                    hint=f"first, in the dialect iotdb: DELETE DATABASE {path}",
                )


def touches(record: StreamRecord, database: str) -> bool:
    """Return whether a stream is of a database, or reads or writes a table of it."""
    tables = [*record.compiled.reads, record.output]
    return record.database == database or any(table.startswith(f"{database}.") for table in tables)


def give_up(at: Workspace, database: str, table: str) -> None:
    """Have the streams that write a table which is going to be dropped make it again, not miss it."""
    info = at.catalog.find_table(database, table)
    if info is None:
        return
    for record in at.registry.streams():
        writes = info.full_name in record.written or record.uuid == info.writer
        progress = at.registry.last(record.uuid)[1] if writes else None
        if progress is not None:
            at.registry.update(record.uuid, accepted=Accepted(progress.tick, None))


def _switch_feed_on(at: Workspace, info: TableInfo, table: Table) -> None:
    """Switch the change feed of a table of others on, after asking. Raises ConfirmationNeededError."""
    question = f"{info.path} has no change data feed; switch it on (delta.enableChangeDataFeed)?"
    if at.confirm is None or not at.confirm(question):
        raise ConfirmationNeededError(
            f"{info.path} has no change data feed, which streams need",
            hint="answer yes, run with --yes, or switch it on yourself",
        )
    switch_feed_on(table, lambda: at.shared)
