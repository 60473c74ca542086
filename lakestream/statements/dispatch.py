"""Which handler runs a statement, and whether it writes to the lake."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from lakestream.engine.base.names import Names
from lakestream.engine.base.result import Result
from lakestream.errors import LakestreamError, Place, too_deep
from lakestream.language import model
from lakestream.language.iotdb.values import TreeStatement
from lakestream.statements.select import SelectStatements
from lakestream.statements.status import show_created, show_streams
from lakestream.statements.streams import StreamStatements
from lakestream.statements.tables import TableStatements, touches
from lakestream.storage.tables.table import refusals_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lakestream.observation.verify import Verification
    from lakestream.statements.workspace import Workspace
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import Recalculation, StreamRecord
    from lakestream.storage.tables.table import Table

    _T = TypeVar("_T")

_MOMENT_SECONDS = 0.02

ASKING = (model.CreateStream, model.CreateTable, model.RecalculateStream)
"""Statements that change the lake by what Spark, or a whole table, says: they ask without the lock."""

FORGETTING = (model.DropTable, model.StopStream)
"""Statements after which streams are read from the lake again: their states are saved before the lock."""


class Statements:
    """Runs statements of all dialects on one lake.

    Those that change what there is in it are run one at a time, those that change rows one at a time of a
    table.
    """

    def __init__(self, at: Workspace) -> None:
        self._at = at
        self.streams = StreamStatements(at)
        self.selects = SelectStatements(at)
        self.tables = TableStatements(at, self.streams)

    def run(self, statement: model.Statement | TreeStatement) -> Result:
        """Run a statement. Raises LakestreamError for what cannot be accepted."""
        try:
            with refusals_named():
                self._at.layout.refuse_gone()
                return self._run(statement)
        except RecursionError:
            raise too_deep() from None
        except LakestreamError as error:
            if error.place is None and error.missing:
                error.place = _place_of(error.missing, statement, self._at.database)
            raise

    def _run(self, statement: model.Statement | TreeStatement) -> Result:
        if isinstance(statement, TreeStatement):
            return self._run_on_tree(statement)
        apart = self._reading.get(type(statement)) or self._apart.get(type(statement))
        if apart is not None:
            return apart(statement)
        tables = self._tables(statement)
        if (change := self._changing.get(type(statement))) is not None:
            with self._at.changing(type(statement).__name__.upper(), tables):
                return change(statement)
        if isinstance(statement, ASKING):
            return self._at.apart.run(lambda: self._written(statement, self._tables(statement)))
        if isinstance(statement, FORGETTING) and self._at.running is not None:
            self._at.running.checkpoint()
        return self._written(statement, tables)

    def _written(self, statement: model.Statement, tables: Sequence[TableInfo]) -> Result:
        with self._at.writing(type(statement).__name__, self._touched(statement, tables), tables):
            return self._writing[type(statement)](statement)

    def _tables(self, statement: model.Statement) -> list[TableInfo]:
        """Return the tables whose rows nobody else may change meanwhile, for subtables their super tables.

        A table that is not there is for the statement to miss. A stream's output is no subtable, whose name
        all super tables would be searched for.
        """
        at = self._at
        found = []
        if isinstance(statement, model.CreateStream):
            outputs = (at.catalog.find_table(at.in_database(n), n.name) for n in _named_tables(statement))
            return [info for info in outputs if info is not None]
        for name in _named_tables(statement):
            with suppress(LakestreamError):
                found.append(Names(at.catalog, at.database).find(at.in_database(name), name.name)[0])
        if isinstance(statement, model.DropDatabase):
            with suppress(LakestreamError):
                found += at.catalog.tables(statement.name)
        return found

    def _touched(self, statement: model.Statement, changed: Sequence[TableInfo]) -> list[StreamRecord]:
        """Return the streams that may not tick meanwhile: a statement changes them, or what they write."""
        at = self._at
        if isinstance(statement, model.DropDatabase):
            return [record for record in at.registry.streams() if touches(record, statement.name)]
        streams = {str(name.within(at.database)) for name in _named_streams(statement)}
        tables = {str(name.within(at.database)) for name in _named_tables(statement)}
        tables |= {info.full_name for info in changed}
        read = tables if isinstance(statement, model.DropTable) else set[str]()
        writers = {info.writer for info in changed}
        return [
            record
            for record in (at.registry.streams() if streams or tables else ())
            if record.full_name in streams
            or record.uuid in writers
            or tables & {*record.written}
            or read & {*record.sources}
        ]

    def _run_on_tree(self, statement: TreeStatement) -> Result:
        from lakestream.timeseries.tree import POINTS, changes_the_lake

        if isinstance(statement, POINTS) or not changes_the_lake(statement):
            return self._at.tree.run(statement)
        return self._at.apart.run(lambda: self._written_to_tree(statement))

    def _written_to_tree(self, statement: TreeStatement) -> Result:
        with self._at.writing(type(statement).__name__):
            return self._at.tree.run(statement)

    def recalculate(self, stream: str, bounds: tuple[str, str | None] | None) -> Recalculation:
        """Queue a recalculation; see :meth:`lakestream.lake.Lake.recalculate`."""

        def queued() -> Recalculation:
            with self._at.writing("recalculate"):
                return self.streams.request(self.streams.named(stream), bounds)

        return self._at.apart.run(queued)

    def verify(self, stream: str, start: str | None, end: str | None) -> Verification:
        """Verify a stream; see :meth:`lakestream.lake.Lake.verify`."""
        from lakestream.engine.base.instants import parse_instant
        from lakestream.engine.rounds.failing import as_failure
        from lakestream.observation.verify import Verifier

        record = self.streams.named(stream)
        zone = self._at.timezone
        bounds = [None if written is None else parse_instant(written, zone) for written in (start, end)]
        verifier = self._at.apart.run(
            lambda: self._between_ticks(
                record, partial(Verifier.of, self._at.engine, record, self.streams.loaded)
            )
        )
        # Not before: where there is no Spark, that has said so.
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            return verifier.run(*bounds)
        except (PySparkException, Py4JError) as error:
            raise as_failure(error) from error

    def _between_ticks(self, record: StreamRecord, look: Callable[[], _T]) -> _T:
        """Return what a look at a stream gives between two ticks of it; they go on afterwards.

        Of a tick that goes on the output may be there and its record not yet: that comes at once.
        """
        from lakestream.engine.rounds.soundness import is_recorded
        from lakestream.storage.places.claims import work_on

        _ = self._at.session  # started before there is anybody who waits
        while True:
            with self._at.writing("verify"):
                if (
                    is_recorded(self._at.engine.services, record)
                    or work_on(self._at.layout, record.uuid) is None
                ):
                    return look()
            self._at.system_clock.sleep(_MOMENT_SECONDS)

    def explain(self, stream: str) -> Result:
        """Return the stages of a stream's next tick."""
        from lakestream.observation.explain import explain_stream

        record = self.streams.named(stream)
        return Result(("stage", "what"), explain_stream(self._at.engine, record))

    def _verify_stream(self, statement: model.VerifyStream) -> Result:
        found = self.verify(str(statement.name.within(self._at.database)), statement.start, statement.end)
        columns = ("check", "value")
        rows = [*found.summary(), *((f"differs: {item.key}", str(item)) for item in found.differing)]
        return Result(columns, rows)

    def _explain_stream(self, statement: model.ExplainStream) -> Result:
        return self.explain(str(statement.name.within(self._at.database)))

    def _show_queries(self, _statement: model.ShowQueries) -> Result:
        """SHOW QUERIES, by TDengine's names as far as there is what they name."""
        now = self._at.system_clock.now()
        rows = [
            (
                query.id,
                query.user,
                query.address,
                query.since,
                None if query.waits else (now - query.since) // timedelta(microseconds=1),
                query.sql,
            )
            for query in self._at.queries.of(self._at.asker)
        ]
        return Result(("kill_id", "user", "end_point", "create_time", "exec_usec", "sql"), rows)

    def _kill_query(self, statement: model.KillQuery) -> Result:
        self._at.queries.kill(statement.id, self._at.asker)
        return Result(message=f"ended {statement.id}")

    def _describe_history(self, statement: model.DescribeHistory) -> Result:
        from lakestream.observation.inspection import HISTORY, history

        return Result(HISTORY, history(self._named(statement.table), statement.limit))

    def _show_properties(self, statement: model.ShowProperties) -> Result:
        from lakestream.observation.inspection import properties

        found = properties(self._named(statement.table))
        if statement.key is not None:
            missing = f"Table {statement.table.name} does not have property: {statement.key}"
            found = {statement.key: found.get(statement.key, missing)}
        return Result(("key", "value"), sorted(found.items()))

    def _named(self, name: model.TableName) -> Table:
        """Return the table in which the rows of a name lie, of a subtable those of its super table."""
        info, _ = Names(self._at.catalog, self._at.database).find(self._at.in_database(name), name.name)
        return self._at.catalog.handles.latest(info.path)

    @cached_property
    def _reading(self) -> Mapping[type, Callable[[Any], Result]]:
        tables = self.tables
        return {
            model.UseDatabase: tables.use,
            model.ShowDatabases: tables.show_databases,
            model.ShowTables: tables.show_tables,
            model.ShowSnodes: _show_snodes,
            model.ShowQueries: self._show_queries,
            model.KillQuery: self._kill_query,
            model.ShowStreams: partial(show_streams, self._at),
            model.ShowCreateStream: partial(show_created, self._at),
            model.Describe: tables.describe,
            model.DescribeHistory: self._describe_history,
            model.ShowProperties: self._show_properties,
            model.Query: self.selects.query,
            model.VerifyStream: self._verify_stream,
            model.ExplainStream: self._explain_stream,
            model.ExplainQuery: self.selects.explain,
        }

    @cached_property
    def _apart(self) -> Mapping[type, Callable[[Any], Result]]:
        """What takes long, and holds the claim of a stream or a table for a part of that."""
        return {
            model.FlushStream: self.streams.flush,
            model.RefreshView: self.streams.refresh,
            model.InsertQuery: self.selects.insert,
            model.CreateTableAs: self.selects.create_table,
            model.StartStream: self.streams.start,
        }

    @cached_property
    def _changing(self) -> Mapping[type, Callable[[Any], Result]]:
        """What changes rows of tables, or what is said of them, and holds the claims of these."""
        tables = self.tables
        return {
            model.Insert: tables.insert,
            model.Update: tables.update,
            model.Delete: tables.delete,
            model.SetComment: tables.set_comment,
        }

    @cached_property
    def _writing(self) -> Mapping[type, Callable[[Any], Result]]:
        tables, streams = self.tables, self.streams
        return {
            model.CreateDatabase: tables.create_database,
            model.DropDatabase: tables.drop_database,
            model.CreateTable: tables.create_table,
            model.CreateSubtables: tables.create_subtables,
            model.DropTable: tables.drop_table,
            model.AddColumn: tables.add_column,
            model.SetTag: tables.set_tag,
            model.CreateStream: streams.create,
            model.DropStream: streams.drop,
            model.StopStream: streams.stop,
            model.RecalculateStream: streams.recalculate,
        }


def _named_streams(statement: model.Statement) -> Iterator[model.TableName]:
    """Yield the streams that a statement changes, by name; a recalculation is only asked for."""
    if isinstance(statement, model.CreateStream):
        yield statement.definition.name
    elif isinstance(statement, model.DropStream):
        yield from statement.names
    elif isinstance(statement, model.StartStream | model.StopStream):
        yield statement.name


def _named_tables(statement: model.Statement) -> Iterator[model.TableName]:
    """Yield the tables that a statement changes, by name, or makes a stream write."""
    if isinstance(statement, model.CreateStream):
        yield from filter(None, [statement.definition.output])
    elif isinstance(statement, model.DropTable):
        yield statement.name
    elif isinstance(statement, model.Insert):
        yield from (target.table for target in statement.targets)
        yield from (target.using.stable for target in statement.targets if target.using is not None)
    elif isinstance(
        statement, model.AddColumn | model.SetComment | model.SetTag | model.Update | model.Delete
    ):
        yield statement.table


def _place_of(missing: str, statement: object, current: str) -> Place | None:
    """Return where a statement names what is not there; None where it is named by something else."""
    for name in _names_in(statement):
        if missing in (name.database, str(name.within(current))):
            return Place(name.line, name.column, len(missing if missing == name.database else str(name)))
    return None


def _names_in(part: object) -> Iterator[model.TableName]:
    """Yield the names of tables and streams in a statement, in its order."""
    if isinstance(part, model.TableName):
        yield part
    elif isinstance(part, tuple):
        for one in part:
            yield from _names_in(one)
    elif is_dataclass(part) and not isinstance(part, model.Fragment):
        for one in fields(part):
            yield from _names_in(getattr(part, one.name))


def _show_snodes(_statement: model.ShowSnodes) -> Result:
    """There are none to make: streams are evaluated by whoever runs the lake (TDengine's columns)."""
    return Result(("id", "endpoint", "create_time"), [])
