"""A lake: its tables and streams, by statements and by Python.

>>> from lakestream import Lake
>>> with Lake("/tmp/weather-lake") as lake:  # doctest: +SKIP
...     lake.sql("CREATE TABLE readings (ts TIMESTAMP, celsius DOUBLE)")
...     lake.sql("CREATE STREAM hourly INTERVAL(1h) SLIDING(1h) FROM readings INTO hourly_mean "
...              "AS SELECT _twstart AS hour, avg(celsius) AS mean FROM %%trows")
...     lake.run()
...     lake.sql("SELECT * FROM hourly_mean").show()
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from lakestream.clock import SystemClock
from lakestream.engine.base.result import Result
from lakestream.errors import (
    ConfirmationNeededError,
    LakestreamError,
    NotSupportedError,
    Place,
    StatementError,
    StorageError,
    StreamError,
    did_you_mean,
)
from lakestream.language import model, parse_script, parse_statement
from lakestream.language.expressions.targets import redacted_text
from lakestream.language.iotdb.paths import ROOT
from lakestream.language.iotdb.values import TreeStatement
from lakestream.notify.deliveries import Deliveries
from lakestream.notify.outbox import Outbox
from lakestream.storage.catalog import Catalog
from lakestream.storage.feed import switch_feed_on
from lakestream.storage.layout import Layout
from lakestream.storage.leases import TREE
from lakestream.storage.lock import writer_lock
from lakestream.storage.registry import Registry
from lakestream.storage.table import Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from os import PathLike
    from types import TracebackType

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.clock import Clock
    from lakestream.engine.reading.event_times import EventTimes
    from lakestream.engine.reading.frames import ArrowStream
    from lakestream.engine.rounds.agenda import Alarm
    from lakestream.engine.rounds.engine import Engine, TickReport
    from lakestream.engine.rounds.notifier import Notifier
    from lakestream.settings import Settings
    from lakestream.statements.edits import Editor
    from lakestream.statements.inspection import Inspection
    from lakestream.statements.maintenance import Maintained
    from lakestream.statements.migration import Migrated
    from lakestream.statements.observe import Event, Lineage, Outline, Outlines, Run
    from lakestream.statements.verify import Verification
    from lakestream.storage.catalog import TableInfo
    from lakestream.storage.jars import Watch
    from lakestream.storage.leases import Leases
    from lakestream.storage.metastore import CatalogTable
    from lakestream.storage.registry import Failure, Progress, Recalculation, StreamRecord
    from lakestream.timeseries.tree import TreeEngine

DEFAULT_DATABASE = "main"

_MOST_BYTES = 64 * 1024**2
"""Size of the files that a look at the newest rows reads without Spark."""


@dataclass(frozen=True)
class StreamStatus:
    """A stream as ``SHOW STREAMS`` lists it.

    ``lag`` counts commits of its source still to take. ``tick`` and ``version`` (of the source) are
    those of its last tick, None before the first one; the counts are of all ticks since the stream was
    created. ``recalculating`` says how many parts of its recalculations are done, None when there is
    none under way. ``held_back`` says what keeps a stream that has something to do from doing it: the
    limit of its output's commits or bytes a second, events that wait for their target, or a source that
    cannot be read, of which ``lag`` tells nothing.
    ``lag_seconds`` is the age of the oldest commit still to take, None when the log no longer tells it.
    ``retry_us`` is when a stream that is Retrying is tried next. ``sources`` are the tables that it reads,
    the triggering one first; ``output`` is None for one that only notifies. ``waiting_groups`` names the
    groups that wait, each with how many windows of it would have fired at once. Times are microseconds since
    1970 UTC.
    """

    database: str
    name: str
    status: str
    tick: int | None
    version: int | None
    lag: int
    rows_in: int
    rows_out: int
    late: int
    recalculating: str | None
    held_back: str | None
    last_error: str | None
    sql: str
    created_us: int
    lag_seconds: float | None = 0.0
    last_tick_us: int | None = None
    last_tick_seconds: float | None = None
    sources: tuple[str, ...] = ()
    output: str | None = None
    retry_us: int | None = None
    waiting_groups: tuple[str, ...] = ()


@dataclass
class RunSummary:
    """The ticks of a run, in order."""

    ticks: list[TickReport] = field(default_factory=list)

    @property
    def failed(self) -> list[TickReport]:
        """The ticks that ended in an error."""
        return [tick for tick in self.ticks if tick.error]


class Lake:
    """A lake at a path or URI; opens at once, starts Spark on first need, closes as a context manager.

    ``clock`` is the wall clock (the machine's by default); ``spark`` a session to use instead of one of
    its own; ``create`` makes the lake when there is none; ``confirm`` is asked before a table outside
    the lake is changed; ``watch`` shows that Spark's jars are being fetched. One process at a time writes
    to a local lake: statements and rounds of ticks wait for one another across processes, by a lock. In an
    object store conditional writes do instead.

    ``alarms`` tells when the clock makes something due, by the id of the stream or continuous query, as
    the last round left it: another object whenever it may have changed.

    Raises LakeError LAKE_NOT_FOUND, LAKE_NOT_WRITABLE or LAKE_TOO_NEW; of a session that is given
    SparkGoneError SPARK_STOPPED.
    """

    def __init__(
        self,
        root: str | PathLike[str],
        *,
        clock: Clock | None = None,
        spark: SparkSession | None = None,
        create: bool = True,
        settings: Settings | None = None,
        confirm: Callable[[str], bool] | None = None,
        watch: Watch | None = None,
    ) -> None:
        if spark is not None:
            from lakestream.storage.session import check_given

            check_given(spark)
        self.clock: Clock = clock or SystemClock()
        self.database = DEFAULT_DATABASE
        self.alarms: Mapping[str, Alarm] = {}
        self._given_settings = settings
        self._given = spark
        self._spark: SparkSession | None = None
        self._own: SparkSession | None = None
        self._confirm = confirm
        self._watch = watch
        self._limit: int | None = None
        self._meter = SystemClock()
        self._layout = Layout(str(root))
        tables = Tables()
        self._catalog = Catalog(self._layout, self.clock, tables)
        self._registry = Registry(self._layout, tables, lambda: self.settings.history_ticks)
        self._engine_: Engine | None = None
        self._outbox = Outbox(self._layout.system_path("outbox"))
        self._deliveries = Deliveries(self._layout.system_path("deliveries"))
        self._notifier_: Notifier | None = None
        self._leases: Leases | None = None
        self._part: frozenset[str] | None = None
        if create and not self._layout.exists():
            self._layout.initialise(self.settings.timezone)
            self._catalog.create_database(DEFAULT_DATABASE, if_not_exists=True)
        self._layout.check()

    # --- opening and closing ---

    @property
    def root(self) -> str:
        """The path or URI of the lake."""
        return self._layout.root

    @cached_property
    def timezone(self) -> str:
        """The time zone that the lake was made with (the setting ``timezone`` then)."""
        return self._layout.timezone()

    @cached_property
    def settings(self) -> Settings:
        """The settings; read on first need."""
        settings = self._given_settings
        if settings is None:
            from lakestream.settings import Settings

            settings = Settings()
        return settings if self._given is not None else settings.for_lake(self.root)

    @property
    def spark(self) -> SparkSession:
        """The Spark session to work with beside statements; started on first need.

        The tables that the lake has now are there as ``database.table``, where Spark's catalog is not a
        metastore. Statements run in a session of their own.
        """
        from lakestream.storage.published import publish

        publish(self._shared, self._catalog.paths())
        return self._shared

    @property
    def _shared(self) -> SparkSession:
        """The session that users have: frames that leave the lake are of it."""
        self._check_spark()
        if self._spark is None:
            from lakestream.storage.jars import say_so
            from lakestream.storage.session import adopt_session, spark_session

            if self._given is not None:
                self._spark = adopt_session(self._given)
            else:
                self._spark = spark_session(self.settings, self._watch or say_so)
        return self._spark

    @property
    def _catalogs(self) -> SparkSession:
        """The session whose catalogs, and current schema, are meant by names of tables in them."""
        return self._given or self._shared

    @property
    def _session(self) -> SparkSession:
        """The session of this lake's statements and ticks: no other one's views are in it."""
        shared = self._shared
        if self._own is None:
            from lakestream.storage.session import check_reach, statement_session

            check_reach(shared, self._layout)
            self._own = statement_session(shared)
        return self._own

    def another(self, confirm: Callable[[str], bool] | None = None) -> Lake:
        """Open the lake once more, with a Spark session of its own, for another thread."""
        return Lake(self.root, settings=self.settings, create=False, spark=self._shared, confirm=confirm)

    def _check_spark(self) -> None:
        """Raise SparkGoneError when Spark has ended since it was started or given."""
        spark = self._given or self._spark
        if spark is not None:
            from lakestream.storage.session import check_given

            check_given(spark)

    @property
    def _notifier(self) -> Notifier:
        if self._notifier_ is None:
            from lakestream.engine.rounds.notifier import Notifier

            self._notifier_ = Notifier(
                self._layout, self._registry, self._outbox, self._deliveries, self.settings, self._meter
            )
        return self._notifier_

    def close(self) -> None:
        """Save the state of streams and stop sending events; Spark goes on for other lakes here."""
        if self._notifier_ is not None:
            self._notifier_.close()
            self._notifier_ = None
        if self._engine_ is not None:
            with self._writing("close"):
                self._engine_.checkpoint()
            self._engine_ = None
        if self._own is not None:
            from lakestream.storage.session import end_session

            end_session(self._own)
            self._own = None

    def __enter__(self) -> Self:
        """Return the lake."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the lake."""
        self.close()

    def _writing(self, purpose: str) -> Any:  # noqa: ANN401 - a context manager
        wait = self.settings.lock_wait_seconds
        return writer_lock(self._layout, wait_seconds=wait, clock=self._meter, purpose=purpose)

    @property
    def _engine(self) -> Engine:
        if self._engine_ is None:
            from lakestream.engine.base.instants import to_micros
            from lakestream.engine.rounds.engine import Engine

            self._engine_ = Engine(
                self._catalog,
                self._registry,
                self.clock,
                self.settings,
                lambda: self._session,
                self._meter,
                epoch=to_micros(self._meter.now()),
                outbox=self._outbox,
                is_held=self._notifier.is_held,
                is_ours=lambda uuid: self._leases is None or self._leases.has(uuid),
            )
        return self._engine_

    # --- statements ---

    def sql(self, text: str, dialect: str = "tdengine", *, limit: int | None = None) -> Result:
        """Run the statements of a text and return the result of the last one, up to ``limit`` rows of it.

        Raises StatementError with the place for what cannot be accepted; statements before it have
        been run.
        """
        result = Result(message="nothing to do")
        self._limit = limit
        for statement in parse_script(text, dialect=dialect):
            try:
                result = self._run_statement(statement)
            except LakestreamError as error:
                if error.place is not None and not error.place.text:
                    error.place = replace(error.place, text=redacted_text(text))
                raise
            except Exception as error:
                self._refuse_gone(error)
                raise
        shown = result if limit is None else result.first(limit)
        return shown.within(lambda: self._shared)

    def _refuse_gone(self, error: Exception) -> None:
        """Raise SparkGoneError where an error says that the session has ended on its server."""
        if self._given is not None:
            from lakestream.storage.session import check_error

            check_error(error)

    def _run_statement(self, statement: model.Statement | TreeStatement) -> Result:
        if isinstance(statement, TreeStatement):
            return self._run_on_tree(statement)
        reading = self._READING.get(type(statement))
        if reading is not None:
            return reading(self, statement)
        with self._writing(type(statement).__name__):
            return self._WRITING[type(statement)](self, statement)

    @cached_property
    def _tree(self) -> TreeEngine:
        from lakestream.timeseries.tree import TreeEngine

        catalog, zone = self._catalog, self.timezone
        return TreeEngine(
            catalog,
            self.clock,
            self._meter,
            self.settings,
            lambda: self._session,
            zone,
            current=lambda: self.database,
        )

    def _refuse_tree(self, what: str, database: str, table: str | None = None) -> None:
        """Refuse to drop what holds the tree of time series: its series would be left without tables.

        Raises NotSupportedError, or StatementError TABLE_MAPPED for a table that a database is mapped to.
        """
        tree = self._tree.tree
        if database == ROOT and tree.own_tables():
            raise NotSupportedError(f"{what} of the tree of time series", hint="DELETE FROM takes its rows")
        for path, mapping in tree.mappings().items():
            if mapping.table.database == database and table in (None, mapping.table.name):
                raise StatementError(
                    "TABLE_MAPPED",
                    f"the points of the tree's database {path} are the rows of {mapping.table}",
                    hint=f"first, in the dialect iotdb: DELETE DATABASE {path}",
                )

    def _run_on_tree(self, statement: TreeStatement) -> Result:
        from lakestream.timeseries.tree import changes_the_lake

        if not changes_the_lake(statement):
            return self._tree.run(statement)
        with self._writing(type(statement).__name__):
            return self._tree.run(statement)

    def _editor(self) -> Editor:
        from lakestream.engine.base.instants import to_micros
        from lakestream.statements.edits import Editor

        return Editor(self._catalog, self.timezone, to_micros(self.clock.now()))

    def _in(self, name: model.TableName) -> str:
        return name.database or self.database

    # --- databases and tables ---

    def _create_database(self, statement: model.CreateDatabase) -> Result:
        self._catalog.create_database(statement.name, if_not_exists=statement.if_not_exists)
        return Result(message=f"created database {statement.name}")

    def _drop_database(self, statement: model.DropDatabase) -> Result:
        self._refuse_tree("DROP DATABASE", statement.name)
        inside = [record for record in self._registry.streams() if _touches(record, statement.name)]
        if inside and not statement.force:
            raise StatementError(
                "DATABASE_IN_USE",
                f"the stream {inside[0].database}.{inside[0].name} uses tables of {statement.name}",
                hint="drop its streams first, or DROP DATABASE … FORCE",
            )
        for record in inside:
            if record.database == statement.name:
                self._remove_stream(record)
        self._catalog.drop_database(statement.name, if_exists=statement.if_exists)
        if self.database == statement.name:
            self.database = DEFAULT_DATABASE
        return Result(message=f"dropped database {statement.name}")

    def _use(self, statement: model.UseDatabase) -> Result:
        self._catalog.require_database(statement.name)
        self.database = statement.name
        return Result(message=f"using database {statement.name}")

    def _show_databases(self, _statement: model.ShowDatabases) -> Result:
        return Result(("name",), [(name,) for name in self._catalog.databases()])

    def inspect(self, statement: str) -> Inspection:
        """Look at the table that ``CREATE TABLE … LOCATION`` or ``USING TABLE`` would name; nothing is done.

        Raises what the statement would raise, but for a change feed that is off.
        """
        from lakestream.statements.inspection import inspect
        from lakestream.storage.table import Table

        said = parse_statement(statement)
        if not isinstance(said, model.CreateTable) or not (said.location or said.catalog_name):
            raise NotSupportedError("to look at another statement than CREATE TABLE … LOCATION")
        info = self._would_name(said)
        table = Table.open(info.path)
        table.time = info.read_time
        unit = info.read_time.unit if info.read_time else None
        return inspect(table, info.time_column if said.time else None, unit)

    def _create_table(self, statement: model.CreateTable) -> Result:
        if statement.location or statement.catalog_name:
            return self._attach(statement)
        return self._editor().create_table(statement, self._in(statement.name))

    def _find_in_catalog(self, name: model.CatalogName) -> CatalogTable:
        """Return what a user's session means by a table's name: catalogs and current schema are its own."""
        from lakestream.storage.metastore import find_catalog_table

        return find_catalog_table(self._catalogs, name)

    def _attach(self, statement: model.CreateTable) -> Result:
        """Give a Delta table that is there a name; its change feed is switched on after asking.

        The name is kept last: a statement that is refused leaves nothing.
        """
        info = self._would_name(statement)
        self._require_feed(info)
        self._catalog.register_external(info)
        return Result(message=f"attached {info.path} as {info.database}.{info.name}")

    def _would_name(self, statement: model.CreateTable) -> TableInfo:
        """Return the Delta table that a statement says, as what it would be under its name here."""
        location, catalog_name = statement.location, None
        if statement.catalog_name is not None:
            known = self._find_in_catalog(statement.catalog_name)
            location, catalog_name = model.Location(known.location, statement.catalog_name.place), known.name
        try:
            found = self._catalog.external(
                self._in(statement.name),
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

        return EventTimes(self._catalog.handles, self.timezone, lambda: self._shared)

    def _require_feed(self, info: TableInfo) -> None:
        table = self._catalog.handles.latest(info.path)
        if table.has_change_feed:
            return
        question = f"{info.path} has no change data feed; switch it on (delta.enableChangeDataFeed)?"
        if self._confirm is None or not self._confirm(question):
            raise ConfirmationNeededError(
                f"{info.path} has no change data feed, which streams need",
                hint="answer yes, run with --yes, or switch it on yourself",
            )
        switch_feed_on(table, lambda: self._shared)

    def _create_subtables(self, statement: model.CreateSubtables) -> Result:
        return self._editor().create_subtables(statement, self.database)

    def _drop_table(self, statement: model.DropTable) -> Result:
        self._refuse_tree("DROP TABLE", self._in(statement.name), statement.name.name)
        stable = self._stable_of(statement)
        result = self._editor().drop_table(statement, self._in(statement.name))
        if stable is not None:
            self._mark_dropped(stable, statement.name.name)
        if self._engine_ is not None:
            # An output that was dropped is made again by the next tick (TDengine A8).
            self._engine_.checkpoint()
            self._engine_.forget()
        return result

    def _stable_of(self, statement: model.DropTable) -> TableInfo | None:
        """Return the super table of a subtable that is to be dropped, None for another table."""
        database, name = self._in(statement.name), statement.name.name
        if self._catalog.find_table(database, name) is not None:
            return None
        known = self._catalog.subtable(database, name)
        return self._catalog.table(database, known.stable) if known is not None else None

    def _mark_dropped(self, stable: TableInfo, subtable: str) -> None:
        """Have streams with DELETE_OUTPUT_TABLE take the output of a dropped subtable back."""
        from lakestream.engine.rounds.engine import definition_of

        version = self._catalog.handles.latest(stable.path).version
        for record in self._registry.streams():
            own = record.extra["source"] == f"{stable.database}.{stable.name}"
            if own and definition_of(record).options.delete_output:
                dropped = {**record.extra.get("dropped", {}), subtable: version}
                self._registry.update(record.uuid, extra={**record.extra, "dropped": dropped})

    def _add_column(self, statement: model.AddColumn) -> Result:
        return self._editor().add_column(statement, self._in(statement.table))

    def _set_tag(self, statement: model.SetTag) -> Result:
        editor, database = self._editor(), self._in(statement.table)
        stable, _ = editor.stable_of(database, statement.table.name)
        self._refuse_grouping_tags(stable, [tag for tag, _ in statement.tags])
        return editor.set_tag(statement, database)

    def _refuse_grouping_tags(self, stable: TableInfo, tags: Sequence[str]) -> None:
        """TDengine: a tag that a stream groups by may not be changed."""
        from lakestream.engine.rounds.engine import definition_of

        for record in self._registry.streams():
            if record.extra["source"] != f"{stable.database}.{stable.name}":
                continue
            grouped = {key.name for key in definition_of(record).partition_by}
            for tag in tags:
                if tag in grouped:
                    raise StatementError(
                        "TAG_GROUPS_STREAM",
                        f"the stream {record.database}.{record.name} is grouped by the tag {tag}",
                        hint="drop the stream first",
                    )

    def _insert(self, statement: model.Insert) -> Result:
        return self._editor().insert(statement, self.database)

    def _insert_query(self, statement: model.InsertQuery) -> Result:
        info = self._catalog.table(self._in(statement.table), statement.table.name)
        rows = self._computed(self._query_frame(statement.query), statement.query)
        names = list(statement.columns) or [
            column.name for column in info.columns if column.name not in info.hidden
        ]
        if len(names) != rows.num_columns:
            raise StatementError(
                "VALUE_COUNT", f"{len(names)} columns are filled, and the query gives {rows.num_columns}"
            )
        self._editor().insert_arrow(info, rows.rename_columns(names))
        return Result(message=f"inserted {rows.num_rows} row{'s' if rows.num_rows != 1 else ''}")

    def _update(self, statement: model.Update) -> Result:
        return self._editor().update(statement, self.database)

    def _delete(self, statement: model.Delete) -> Result:
        return self._editor().delete(statement, self.database)

    def _describe(self, statement: model.Describe) -> Result:
        return self._editor().describe(statement, self.database)

    def _show_tables(self, statement: model.ShowTables) -> Result:
        return self._editor().show_tables(statement, statement.database or self.database)

    def _query(self, statement: model.Query) -> Result:
        frame = self._query_frame(statement.query)
        # One row more tells whether there are more.
        few = frame if self._limit is None else frame.limit(self._limit + 1)
        return Result(arrow=self._computed(few, statement.query))

    def _computed(self, frame: DataFrame, fragment: model.Fragment) -> pa.Table:
        from lakestream.statements.query import computed

        return computed(frame, fragment)

    def _query_frame(self, fragment: model.Fragment) -> DataFrame:
        from lakestream.engine.base.instants import to_micros
        from lakestream.statements.query import Reader

        return Reader(
            self._session,
            self._catalog,
            self.database,
            self.settings.small_bytes,
            self.timezone,
            to_micros(self.clock.now()),
            self._system_frame,
        ).frame(fragment)

    def _system_frame(self, spark: SparkSession, name: str) -> DataFrame:
        """Return a table of information_schema; the outbox may be large and stays where it is."""
        from lakestream.statements.information import EVENTS, Known, information
        from lakestream.storage.session import frame_of

        if name.lower() == EVENTS:
            return self._outbox.frame(spark)
        return frame_of(spark, information(Known(self._registry, self._deliveries, self._lags), name))

    def _lags(self) -> dict[str, int]:
        """Return how many commits of its source each stream has still to take."""
        ids = {(record.database, record.name): record.uuid for record in self._registry.streams()}
        return {ids[status.database, status.name]: status.lag for status in self.streams()}

    def table(self, name: str) -> DataFrame:
        """Return a table (``t`` or ``db.t``) at its latest version as a Spark DataFrame."""
        from lakestream.statements.query import table_frame

        return table_frame(self._shared, self._catalog, self._named(name), self.settings.small_bytes)

    def insert(self, table: str, rows: ArrowStream | Iterable[Mapping[str, Any]]) -> int:
        """Insert rows (mappings by column, or a frame) by key in one commit; return its version.

        A frame is anything with an Arrow stream: of pandas, Polars, DuckDB, PyArrow, Spark. A row whose key
        is there already replaces the old one. A name that begins with ``root.`` is a device of the tree of
        time series: the rows are its points, each at its ``ts``. Times may be datetimes, dates, text (without
        a zone in the lake's) or milliseconds since 1970 UTC. Raises StatementError TABLE_NOT_FOUND,
        COLUMN_NOT_FOUND, DUPLICATE_COLUMN or BAD_VALUE.
        """
        from lakestream.engine.reading.frames import rows_given

        given = rows_given(rows)
        with self._writing("insert"):
            if table.startswith(f"{ROOT}."):
                return self._tree.insert(table, given)
            info = self._named(table)
            editor = self._editor()
            if isinstance(given, list):
                return editor.insert_dicts(info, given)
            return editor.insert_frame(info, given)

    def _named(self, name: str) -> TableInfo:
        database, _, table = name.rpartition(".")
        return self._catalog.table(database or self.database, table)

    # --- streams ---

    def _create_stream(self, statement: model.CreateStream) -> Result:
        from lakestream.engine.base.instants import to_micros
        from lakestream.engine.creation.create import create_stream
        from lakestream.engine.rounds.notifier import check_targets

        definition = statement.definition
        database = definition.name.database or self.database
        self._catalog.require_database(database)
        known = self._registry.find(database, definition.name.name)
        if known is not None:
            if statement.or_replace:
                return self._replace_stream(known, definition)
            if statement.if_not_exists:
                return Result(message=f"there is a stream {database}.{definition.name.name}")
            raise StatementError(
                "STREAM_ALREADY_EXISTS",
                f"the stream {database}.{definition.name.name} exists already",
                hint="IF NOT EXISTS keeps it, CREATE OR REPLACE STREAM gives it another definition",
                place=_place(definition.name),
            )
        definition = definition.within(self.database)
        check_targets(definition.notification, self.settings.notify_hosts)
        try:
            record = create_stream(
                self._session,
                self._catalog,
                self._registry,
                definition,
                self.timezone,
                to_micros(self.clock.now()),
                current=self.database,
                exact_by_default=self.settings.exact,
                catalogs=self._catalogs,
            )
        except LakestreamError as error:
            raise error.at(_place(definition.source)) from None
        self._notifier.begin(record, definition.notification)
        does = f"writing {record.output}" if definition.stores else "which notifies"
        return Result(message=f"created stream {record.database}.{record.name}, {does}")

    def _record(self, name: model.TableName, *, if_exists: bool = False) -> StreamRecord | None:
        database = self._in(name)
        record = self._registry.find(database, name.name)
        if record is None and not if_exists:
            known = [other.name for other in self._registry.streams(database)]
            raise StatementError(
                "STREAM_NOT_FOUND",
                f"there is no stream {database}.{name.name}",
                hint=did_you_mean(name.name, known),
                place=_place(name),
            )
        return record

    def _replace_stream(self, record: StreamRecord, definition: model.StreamDefinition) -> Result:
        """Give a stream another definition, and have its windows computed anew."""
        from lakestream.engine.creation.create import replace_stream
        from lakestream.engine.rounds.engine import definition_of
        from lakestream.engine.rounds.notifier import check_targets
        from lakestream.language.expressions.differences import LAYOUT, differences

        definition = definition.within(self.database)
        check_targets(definition.notification, self.settings.notify_hosts)
        changed = differences(definition_of(record), definition)
        name = f"{record.database}.{record.name}"
        if not changed:
            return Result(message=f"{name} says the same already: nothing is computed anew")
        for clause in ("FROM", "INTO", LAYOUT):
            if clause in {changed_clause for changed_clause, _, _ in changed}:
                raise NotSupportedError(
                    f"CREATE OR REPLACE STREAM with another {clause}",
                    hint=f"DROP STREAM {name}, then CREATE STREAM",
                    place=_place(definition.name),
                )
        both = (definition.options, definition_of(record).options)
        refused = {
            "of a stream with FORCE_WINDOW_CLOSE: each of its windows fires once": any(
                options.by_clock for options in both
            ),
            "by a stream that does otherwise with late rows (eKuiper's leave them out)": len(
                {options.drops_late for options in both}
            )
            > 1,
        }
        for what, is_so in refused.items():
            if is_so:
                raise NotSupportedError(
                    f"CREATE OR REPLACE {what}",
                    hint=f"DROP STREAM {name}, then CREATE STREAM",
                    place=_place(definition.name),
                )
        if self._engine_ is not None:
            self._engine_.forget(record.uuid)
        exact = self.settings.exact
        replace_stream(
            self._session,
            self._catalog,
            self._registry,
            record,
            definition,
            current=self.database,
            exact_by_default=exact,
        )
        self._notifier.begin(record, definition.notification)
        self._request(self._registry.stream(record.database, record.name), None)
        by_arrival = definition.options.by_arrival
        told = [
            ("recomputed", "", "none: it goes on from now" if by_arrival else "all windows, by the next run")
        ]
        return Result(("clause", "before", "after"), [*changed, *told])

    def _drop_stream(self, statement: model.DropStream) -> Result:
        record = self._record(statement.name, if_exists=statement.if_exists)
        if record is not None:
            self._remove_stream(record)
        return Result(message=f"dropped stream {statement.name}" if record else "there was no such stream")

    def _remove_stream(self, record: StreamRecord) -> None:
        self._registry.remove(record.uuid)
        self._catalog.drop_results(record.uuid)
        self._notifier.end(record.uuid)
        if self._engine_ is not None:
            self._engine_.forget(record.uuid)

    def _start_stream(self, statement: model.StartStream) -> Result:
        record = self._record(statement.name, if_exists=statement.if_exists)
        if record is not None:
            if statement.ignore_untreated:
                self._engine.skip(record)
            record = self._registry.update(record.uuid, status="Running", last_error=None)
            self._take_up(record)
        return Result(message=f"started stream {statement.name}" if record else "there was no such stream")

    def _take_up(self, record: StreamRecord) -> None:
        """Have the groups of a stream that wait taken up again, as far as they need not wait any more."""
        from lakestream.engine.base.instants import to_micros
        from lakestream.engine.rounds.engine import compile_record
        from lakestream.engine.windows.waiting import taking_up, waiting_groups

        gids = [group.gid for group in waiting_groups(record)]
        if gids and compile_record(record, self._catalog).forgets_what_went:
            version = self._latest_version(record.extra["source"]) or 0
            self._registry.put_recalculation(taking_up(record, gids, version, to_micros(self._meter.now())))

    def _stop_stream(self, statement: model.StopStream) -> Result:
        record = self._record(statement.name, if_exists=statement.if_exists)
        if record is not None:
            self._registry.update(record.uuid, status="Stopped")
            if self._engine_ is not None:
                self._engine_.checkpoint()
                self._engine_.forget(record.uuid)
        return Result(message=f"stopped stream {statement.name}" if record else "there was no such stream")

    def _flush_stream(self, statement: model.FlushStream) -> Result:
        record = self._record(statement.name)
        assert record is not None
        reports = self._engine.flush(record)
        rows = sum(report.rows_out for report in reports)
        return Result(message=f"flushed {record.database}.{record.name}: {rows} rows written")

    def _recalculate_stream(self, statement: model.RecalculateStream) -> Result:
        record = self._record(statement.name)
        assert record is not None
        bounds = None if statement.start is None else (statement.start, statement.end)
        self._request(record, bounds)
        waits = "" if record.status == "Running" or bounds is None else ", once the stream is started"
        return Result(message=f"queued: the next run recalculates {record.database}.{record.name}{waits}")

    def recalculate(
        self, stream: str, start: str | None = None, end: str | None = None, *, resync: bool = False
    ) -> Recalculation:
        """Queue a recalculation of the windows that overlap ``[start, end)`` of event time, and return it.

        Without ``end`` it goes up to the stream's progress. ``resync`` takes everything from the source as
        it is, for a stream that lost changes. It is done by :meth:`run`, part by part. Raises
        StatementError STREAM_NOT_FOUND, BAD_VALUE or BAD_RANGE; ValueError for neither or both.
        """
        if (start is None) != resync or (resync and end is not None):
            raise ValueError("recalculate() takes a start, or resync=True")
        with self._writing("recalculate"):
            return self._request(self._stream_named(stream), None if start is None else (start, end))

    def _request(self, record: StreamRecord, bounds: tuple[str, str | None] | None) -> Recalculation:
        from lakestream.engine.base.instants import to_micros
        from lakestream.engine.creation.create import require_provenance
        from lakestream.engine.recalculation.recalculate import request_recalculation
        from lakestream.engine.rounds.engine import definition_of

        definition = definition_of(record)
        if bounds is None:
            self._refuse_unfit(record)
        if definition.options.by_arrival and bounds is not None:
            raise NotSupportedError(
                "RECALCULATE of a stream in processing time: its rows have no event time to go by"
            )
        if definition.options.drops_late and bounds is not None:
            _, target, _ = self._engine.next_plan(record)
            require_provenance("RECALCULATE STREAM", target.info, target.shape)
        by_clock = definition.options.by_clock or isinstance(definition.trigger, model.PeriodTrigger)
        if by_clock and (bounds is not None or definition.options.by_clock):
            kind = "PERIOD" if isinstance(definition.trigger, model.PeriodTrigger) else "FORCE_WINDOW_CLOSE"
            raise NotSupportedError(
                f"RECALCULATE of a stream with {kind}: what it has written belongs to its time"
            )
        return request_recalculation(
            self._registry,
            record,
            definition,
            bounds,
            # A resynchronisation takes the source as it is when it is its turn.
            version=(self._latest_version(record.extra["source"]) or 0) if bounds else 0,
            now_us=to_micros(self._meter.now()),
            progress=lambda: self._engine.newest_of(record),
        )

    def _refuse_unfit(self, record: StreamRecord) -> None:
        """Refuse to begin anew with a source that the stream cannot be computed from, by its named state."""
        from lakestream.engine.creation.create import refuse_unfit
        from lakestream.engine.planning.checks import named_state
        from lakestream.engine.rounds.engine import compile_record

        try:
            refuse_unfit(self._session, self._catalog, record, compile_record(record, self._catalog))
        except LakestreamError as error:
            raise named_state(record, error) from error

    def recalculations(self, stream: str) -> list[Recalculation]:
        """Return the recalculations of a stream in the order they were asked for, done ones too."""
        return self._registry.recalculations(self._stream_named(stream).uuid)

    def _show_snodes(self, _statement: model.ShowSnodes) -> Result:
        """There are none to make: streams are evaluated by whoever runs the lake (TDengine's columns)."""
        return Result(("id", "endpoint", "create_time"), [])

    def _show_streams(self, statement: model.ShowStreams) -> Result:
        columns = (
            "database",
            "name",
            "status",
            "tick",
            "version",
            "lag",
            "rows_in",
            "rows_out",
            "last_error",
            "sql",
        )
        rows = [
            (*(getattr(status, column) for column in columns), "; ".join(status.waiting_groups) or None)
            for status in self.streams()
            if statement.database in {None, status.database}
        ]
        return Result((*columns, "waiting_groups"), rows)

    def streams(self) -> list[StreamStatus]:
        """Return the state of every stream; starts no Spark."""
        last = self._registry.last_of_all()
        seen: dict[str, tuple[int | None, str | None]] = {}
        jobs = [job for job in self._registry.recalculations() if job.is_open]
        held = [delivery for delivery in self._deliveries.all() if delivery.holds]
        found = []
        for record in self._registry.streams():
            source = record.extra["source"]
            if source not in seen:
                seen[source] = self._seen(source)
            version, unreadable = seen[source]
            progress = last.get(record.uuid, (None, None))[1]
            own = [job for job in jobs if job.uuid == record.uuid]
            waits = [d.target for d in held if d.stream_id == record.uuid]
            status = _status(record, progress, version, own, waits, self._meter.now())
            lag_seconds = self._lag_seconds(record, progress, status.lag)
            held_back = unreadable or status.held_back
            found.append(replace(status, lag_seconds=lag_seconds, held_back=held_back))
        return found

    def _lag_seconds(self, record: StreamRecord, progress: Progress | None, lag: int) -> float | None:
        """Return the age of the oldest commit that a stream has still to take."""
        if not lag:
            return 0.0
        from lakestream.storage.delta import read_commits

        done = record.start_version if progress is None else progress.version
        info = self._catalog.find_table(*record.extra["source"].split(".", 1))
        try:
            commit = read_commits(info.path, done, done + 1)[0] if info is not None else None
        except StreamError:
            return None  # the log was cleared; the stream will say so
        if commit is None or not commit.timestamp_ms:
            return None
        return max(0.0, self.clock.now().timestamp() - commit.timestamp_ms / 1_000)

    def _seen(self, source: str) -> tuple[int | None, str | None]:
        """Return the latest version of a source, or why it cannot be read."""
        try:
            return self._latest_version(source), None
        except StorageError as error:
            return None, str(error)

    def _latest_version(self, table: str) -> int | None:
        database, name = table.split(".", 1)
        info = self._catalog.find_table(database, name)
        return self._catalog.handles.latest(info.path).version if info is not None else None

    # --- looking from outside ---

    def runs(self, stream: str, limit: int = 200) -> list[Run]:
        """Return a stream's last ticks and failures, newest first; starts no Spark.

        At least the last 100 ticks are kept. Raises StatementError STREAM_NOT_FOUND.
        """
        from lakestream.statements.observe import runs

        return runs(self._registry, self._stream_named(stream))[:limit]

    def failures(self, stream: str) -> list[Failure]:
        """Return a stream's last failures (up to 50), in order; starts no Spark."""
        return self._registry.failures(self._stream_named(stream).uuid)

    def errors_table(self, stream: str) -> str | None:
        """Return the name of the table of rows that a stream left out, None when there is none."""
        from lakestream.engine.streams.target import ERRORS_SUFFIX

        record = self._stream_named(stream)
        name = f"{record.name}{ERRORS_SUFFIX}"
        there = self._catalog.find_table(record.database, name)
        return f"{record.database}.{name}" if there is not None and there.kind == "output" else None

    def newest_results(self, stream: str, limit: int = 500) -> pa.Table:
        """Return the newest rows of a stream's output by its time, newest first.

        Starts Spark only where the statistics of the output's files do not tell which ones to read.
        """
        from lakestream.statements.observe import newest_rows
        from lakestream.statements.query import table_frame

        record = self._stream_named(stream)
        database, name = record.output.split(".", 1)
        info = self._catalog.find_table(database, name)
        if info is None:
            raise StatementError("TABLE_NOT_FOUND", f"the output {record.output} of {stream} is gone")
        table = self._catalog.handles.latest(info.path)
        rows = newest_rows(table, info, limit, _MOST_BYTES)
        if rows is not None:
            return rows
        frame = table_frame(self._session, self._catalog, info, self.settings.small_bytes)
        if info.time_column:
            frame = frame.orderBy(frame[info.time_column].desc())
        return frame.limit(limit).toArrow()

    def triggers(self, alarms: Mapping[str, Alarm]) -> dict[str, Outline]:
        """Return by stream what triggers it, and when the clock does so next; starts no Spark.

        ``alarms`` are those of the lake that runs the streams.
        """
        from lakestream.engine.base.instants import to_micros

        now_us = to_micros(self.clock.now())
        records = self._registry.streams()
        return {f"{r.database}.{r.name}": self._outlines.of(r, alarms.get(r.uuid), now_us) for r in records}

    @cached_property
    def _outlines(self) -> Outlines:
        from lakestream.statements.observe import Outlines

        return Outlines()

    def lineage(self) -> Lineage:
        """Return the tables that streams read and write; starts no Spark."""
        from lakestream.statements.observe import lineage

        return lineage(self._registry, self._catalog)

    def events(self, stream: str | None = None, after: str | None = None, limit: int = 100) -> list[Event]:
        """Return events of a stream (None: of all), oldest first; starts no Spark.

        Those behind the id ``after``, else the newest. Raises StatementError STREAM_NOT_FOUND, BAD_VALUE.
        """
        from lakestream.statements.observe import events

        own = None if stream is None else self._stream_named(stream).uuid
        names = {record.uuid: f"{record.database}.{record.name}" for record in self._registry.streams()}
        return events(self._outbox, self._deliveries, names, own, after, limit)

    def waiting_events(self) -> dict[str, int]:
        """Return by target how many events wait for it; starts no Spark."""
        from lakestream.statements.observe import waiting

        return waiting(self._outbox, self._deliveries)

    # --- ticks ---

    def tick_once(self) -> list[TickReport]:
        """Run one round: what streams have new, continuous queries due and triggers to see; none: idle.

        Events are sent meanwhile, by threads of their own. Raises SparkGoneError when Spark has ended.
        """
        self._check_spark()
        self._take_part()
        if self._is_idle():
            return []
        return self._ticked(lambda: [*self._engine.round(), *(self._tree.round() if self._has_tree else [])])

    def share(self, leases: Leases) -> None:
        """Have rounds run only what this daemon holds of a lake that several daemons serve."""
        self._leases = leases

    def _take_part(self) -> None:
        """Follow the leases: what another daemon ran before is read from the lake."""
        part = None if self._leases is None else self._leases.use()
        if part is None or part == self._part:
            return
        self._part = part
        self._engine.take(part)
        # Events are sent by the daemon that runs their stream, from where the one before has stopped.
        self._notifier.close()
        self._notifier.only = part
        self.__dict__.pop("_tree", None)

    @property
    def _has_tree(self) -> bool:
        """Whether continuous queries and triggers are this process's to run."""
        return self._part is None or TREE in self._part

    def _tick_streams(self) -> list[TickReport]:
        return self._ticked(self._engine.round)

    def _ticked(self, work: Callable[[], list[TickReport]]) -> list[TickReport]:
        with self._writing("ticks"):
            self._notifier.follow(self._engine, at_once=False)
            reports = work()
            if reports:
                self._notifier.follow(self._engine, at_once=True)
                self._engine.compact()
        self.alarms = {**self._engine.alarms, **(self._tree.queries.alarms if self._has_tree else {})}
        return reports

    def _is_idle(self) -> bool:
        """Return whether a round would do nothing: to find that out it need not keep others from writing."""
        tree_is_idle = not self._has_tree or self._tree.is_idle()
        return self._notifier.is_waiting() and self._engine.is_idle() and tree_is_idle

    def run(
        self,
        until: str = "idle",
        on_tick: Callable[[TickReport], None] | None = None,
        streams: Sequence[str] | None = None,
    ) -> RunSummary:
        """Process everything available; ``on_tick`` hears of every tick. ``until`` is ``"idle"``.

        With ``streams`` (names) these only, and no continuous query or trigger. Returns once the events are
        sent too, as far as their targets can be reached. Raises StatementError STREAM_NOT_FOUND.
        """
        if until != "idle":
            raise ValueError('run() goes on until "idle"')
        if streams is None:
            return self._run_until_idle(on_tick, self.tick_once)
        self._engine.restrict(frozenset(self._stream_named(name).uuid for name in streams))
        try:
            return self._run_until_idle(on_tick, self._tick_streams)
        finally:
            self._engine.restrict(None)

    def _run_until_idle(
        self, on_tick: Callable[[TickReport], None] | None, tick: Callable[[], list[TickReport]]
    ) -> RunSummary:
        summary = RunSummary()
        while True:
            reports = tick()
            for report in reports:
                summary.ticks.append(report)
                if on_tick is not None:
                    on_tick(report)
            wait = self._engine.held_back()
            if not reports and not wait:
                held = self._held()
                self._notifier.drain()
                if not held - self._held():
                    return summary
                continue
            if not reports:
                self._meter.sleep(wait)

    def _held(self) -> set[str]:
        """Return the streams that wait until their events have been sent."""
        return {record.uuid for record in self._registry.streams() if self._notifier.is_held(record.uuid)}

    # --- maintenance ---

    def maintain(
        self, *, dry_run: bool = False, on_table: Callable[[Maintained], None] | None = None
    ) -> list[Maintained]:
        """Compact tables, delete what is older than their retention, old events and old ticks.

        Returns what was done to each table, with a dry run what would be; ``on_table`` hears of each. Safe
        beside running ticks. What a stream or a target has still to read stays, and is named.
        """
        from lakestream.statements.maintenance import Maintenance
        from lakestream.storage.definitions import Definitions

        if self._engine_ is not None:
            with self._writing("maintain"):
                self._engine_.checkpoint()
        maintenance = Maintenance(
            self._catalog,
            self._registry,
            Definitions(self._layout),
            self._outbox,
            self._deliveries,
            self.settings,
            self.clock,
            self._meter,
            lambda: self._session,
            lambda: self._writing("maintain"),
            dry_run,
        )
        done = []
        for table in maintenance.run():
            done.append(table)
            if on_table is not None:
                on_table(table)
        return done

    def migrate(self, *streams: str, dry_run: bool = False) -> list[Migrated]:
        """Write outputs that earlier versions made anew in the layout of new ones: of streams, or of all.

        Returns what became of each, with a dry run what would. The rows are the same, and their streams and
        those that read them go on. What stays as it is, is named with the reason.
        """
        from lakestream.statements.migration import Migration

        records = [self._stream_named(name) for name in streams] or self._registry.streams()
        migration = Migration(
            self._catalog, self._registry, lambda: self._session, lambda: self._writing("migrate"), dry_run
        )
        return list(migration.run(records))

    # --- looking at streams ---

    def verify(self, stream: str, start: str | None = None, end: str | None = None) -> Verification:
        """Compare a stream's output with the batch evaluation of its definition at its progress.

        ``start`` and ``end`` bound the windows by event time, half-open. Raises StreamError
        CALCULATION_FAILED where Spark cannot compute that evaluation.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from lakestream.engine.base.instants import parse_instant
        from lakestream.engine.rounds.engine import as_failure
        from lakestream.statements.verify import Verifier

        record = self._stream_named(stream)
        zone = self.timezone
        bounds = [None if written is None else parse_instant(written, zone) for written in (start, end)]
        with self._writing("verify"):  # between two ticks; they go on while it compares
            verifier = Verifier.of(self._engine, record)
        try:
            return verifier.run(*bounds)
        except (PySparkException, Py4JError) as error:
            raise as_failure(error) from error

    def explain(self, stream: str) -> Result:
        """Return the stages of a stream's next tick, how bytes move, and how the calculation is evaluated."""
        from lakestream.statements.explain import explain_stream

        record = self._stream_named(stream)
        return Result(("stage", "what"), explain_stream(self._engine, record))

    def _stream_named(self, name: str) -> StreamRecord:
        database, _, stream = name.rpartition(".")
        record = self._record(model.TableName(database or None, stream))
        assert record is not None
        return record

    def _verify_stream(self, statement: model.VerifyStream) -> Result:
        found = self.verify(str(statement.name.within(self.database)), statement.start, statement.end)
        columns = ("check", "value")
        rows = [*found.summary(), *((f"differs: {item.key}", str(item)) for item in found.differing)]
        return Result(columns, rows)

    def _explain_stream(self, statement: model.ExplainStream) -> Result:
        return self.explain(str(statement.name.within(self.database)))

    _READING: ClassVar[dict[type, Callable[[Lake, Any], Result]]] = {
        model.UseDatabase: _use,
        model.ShowDatabases: _show_databases,
        model.ShowTables: _show_tables,
        model.ShowSnodes: _show_snodes,
        model.ShowStreams: _show_streams,
        model.Describe: _describe,
        model.Query: _query,
        model.VerifyStream: _verify_stream,
        model.ExplainStream: _explain_stream,
    }
    _WRITING: ClassVar[dict[type, Callable[[Lake, Any], Result]]] = {
        model.CreateDatabase: _create_database,
        model.DropDatabase: _drop_database,
        model.CreateTable: _create_table,
        model.CreateSubtables: _create_subtables,
        model.DropTable: _drop_table,
        model.AddColumn: _add_column,
        model.SetTag: _set_tag,
        model.Insert: _insert,
        model.InsertQuery: _insert_query,
        model.Update: _update,
        model.Delete: _delete,
        model.CreateStream: _create_stream,
        model.DropStream: _drop_stream,
        model.StartStream: _start_stream,
        model.StopStream: _stop_stream,
        model.FlushStream: _flush_stream,
        model.RecalculateStream: _recalculate_stream,
    }


def _status(
    record: StreamRecord,
    progress: Progress | None,
    latest: int | None,
    jobs: Sequence[Recalculation],
    targets: Sequence[str],
    now: datetime,
) -> StreamStatus:
    from lakestream.engine.windows.waiting import waiting_groups

    done = record.start_version if progress is None else progress.version
    totals = progress.extra if progress else {}
    return StreamStatus(
        database=record.database,
        name=record.name,
        status=record.status,
        tick=progress.tick if progress else None,
        version=progress.version if progress else None,
        lag=max(0, latest - done) if latest is not None else 0,
        rows_in=totals.get("total_in", 0),
        rows_out=totals.get("total_out", 0),
        late=totals.get("total_late", 0),
        recalculating=_parts_done(jobs),
        held_back=_held_back(totals, now, targets),
        last_error=record.last_error,
        sql=redacted_text(record.sql),
        created_us=record.created_us,
        last_tick_us=progress.finished_us if progress else None,
        last_tick_seconds=progress.seconds if progress else None,
        sources=record.sources,
        output=record.table,
        retry_us=record.extra.get("retry_us") if record.status == "Retrying" else None,
        waiting_groups=tuple(map(str, waiting_groups(record))),
    )


def _held_back(totals: Mapping[str, Any], now: datetime, targets: Sequence[str]) -> str | None:
    """Return what keeps a stream back; ``targets`` are those that it waits for."""
    if targets:
        return f"events that {', '.join(targets)} cannot be told of"
    return "the output's rate limit" if totals.get("held_until", 0) > now.timestamp() else None


def _parts_done(jobs: Sequence[Recalculation]) -> str | None:
    if not jobs:
        return None
    done, parts = sum(job.part for job in jobs), sum(job.parts or 1 for job in jobs)
    return f"{done} of {parts} parts"


def _touches(record: StreamRecord, database: str) -> bool:
    tables = [*record.extra.get("reads", []), record.output]
    return record.database == database or any(table.startswith(f"{database}.") for table in tables)


def _place(name: model.TableName) -> Place:
    return Place(name.line, name.column, len(name.name))
