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

from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial, wraps
from threading import RLock
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from lakestream.clock import SystemClock
from lakestream.covered import redacted_text
from lakestream.engine.base.result import Result
from lakestream.errors import (
    LakestreamError,
    NotSupportedError,
)
from lakestream.forked import opening
from lakestream.language import model, parse_script, parse_statement
from lakestream.language.iotdb.paths import ROOT
from lakestream.statements.dispatch import Statements
from lakestream.statements.rounds import Rounds
from lakestream.statements.status import stream_statuses
from lakestream.statements.workspace import Workspace, migrating
from lakestream.storage.names.catalog import Reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from os import PathLike
    from types import TracebackType

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.clock import Clock
    from lakestream.engine.reading.frames import ArrowStream
    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.engine.rounds.wakeups import Alarm
    from lakestream.observation.inspection import Inspection
    from lakestream.observation.lineage import Lineage
    from lakestream.observation.observe import Details, Event, Outline, Run
    from lakestream.observation.queries import Queries
    from lakestream.observation.verify import Verification
    from lakestream.settings import Settings
    from lakestream.statements.maintenance import Maintained
    from lakestream.statements.migration import Migrated
    from lakestream.statements.repair import Repair
    from lakestream.statements.rounds import RunSummary
    from lakestream.statements.status import StreamStatus
    from lakestream.storage.places.leases import Leases
    from lakestream.storage.records.registry import Failure, Recalculation
    from lakestream.storage.sessions.jars import Watch
    from lakestream.storage.sessions.shared import SharedSpark


_P = ParamSpec("_P")
_R = TypeVar("_R")


def _one_at_a_time(method: Callable[Concatenate[Lake, _P], _R]) -> Callable[Concatenate[Lake, _P], _R]:
    """Have a method of a lake wait for what another thread does with the same one."""

    @wraps(method)
    def alone(self: Lake, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self._alone:
            return method(self, *args, **kwargs)

    return alone


class Lake(AbstractContextManager["Lake"]):
    """A lake at a path or URI; opens at once, starts Spark on first need, closes as a context manager.

    ``clock`` is the wall clock (the machine's by default); ``spark`` a session to use instead of one of
    its own; ``create`` makes the lake when there is none; ``confirm`` is asked before a table outside
    the lake is changed; ``watch`` shows that Spark's jars are being fetched; ``beside`` is a lake whose Spark
    this one has too, whichever of them starts it. Threads that share one do one thing at a time. Of a local
    lake processes change what there is, and the rows of a table, one at a time, by locks; in a store
    conditional writes do instead.

    ``alarms`` tells when the clock makes something due, by the id of the stream or continuous query, as
    the last round left it: another object whenever it may have changed. ``queries`` are the statements that
    run, of lakes beside this one too, and ``shared_spark`` is their Spark.

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
        beside: Lake | None = None,
    ) -> None:
        opening(self)
        self._at: Workspace = Workspace(
            str(root),
            clock=clock or SystemClock(),
            spark=spark,
            create=create,
            settings=settings,
            confirm=confirm,
            watch=watch,
            beside=None if beside is None else beside._at,  # noqa: SLF001 - of its kind
        )
        self.queries: Queries = self._at.queries
        self.shared_spark: SharedSpark = self._at.spark
        self._statements = Statements(self._at)
        self._rounds, self._alone = Rounds(self._at, self._statements.streams), RLock()

    @property
    def root(self) -> str:
        """The path or URI of the lake."""
        return self._at.layout.root

    def __repr__(self) -> str:
        """Return what opens it: its path or URI."""
        return f"Lake({self.root!r})"

    @property
    def timezone(self) -> str:
        """The time zone that the lake was made with (the setting ``timezone`` then)."""
        return self._at.timezone

    @property
    def settings(self) -> Settings:
        """The settings; read on first need."""
        return self._at.settings

    @property
    def clock(self) -> Clock:
        """The wall clock."""
        return self._at.clock

    @property
    def database(self) -> str:
        """The database that names without one mean; ``USE`` sets it.

        Setting it raises StatementError DATABASE_NOT_FOUND.
        """
        return self._at.database

    @database.setter
    def database(self, name: str) -> None:
        self._at.catalog.databases.require(name)
        self._at.database = name

    def restrict(self, databases: Sequence[str], asker: str | None = None) -> None:
        """Have statements reach these databases only (none: all), SHOW and KILL QUERY what ``asker`` sent."""
        self._at.catalog.reach = Reach(frozenset(one.lower() for one in databases) or None)
        self._at.asker = asker

    @property
    def alarms(self) -> Mapping[str, Alarm]:
        """When the clock makes something due, as the last round left it."""
        return self._rounds.alarms

    @property
    def spark(self) -> SparkSession:
        """The Spark session to work with beside statements; started on first need.

        The tables that the lake has now are there as ``database.table``, where Spark's catalog is not a
        metastore. Statements run in a session of their own.
        """
        from lakestream.storage.sessions.published import publish

        publish(self._at.shared, self._at.catalog.paths())
        return self._at.shared

    def another(self, confirm: Callable[[str], bool] | None = None, **settings: object) -> Lake:
        """Open the lake once more, for another thread, with a session of its own of the same Spark.

        What it computes can be interrupted; ``settings`` are those that it has otherwise.
        """
        own = self._at.settings.but(**settings)
        return Lake(self.root, settings=own, create=False, confirm=confirm, beside=self)

    def interrupt(self) -> None:
        """Have what is computed for this lake, one beside another, fail; called in another thread.

        Ticks that run side by side are of it. What begins afterwards is not stopped.
        """
        self._rounds.interrupt()
        self._at.interrupt()

    def close(self) -> None:
        """Let ticks that run end, save the state of streams, stop sending events.

        Spark goes on for other lakes here.
        """
        self._rounds.close()
        self._at.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the lake."""
        self.close()

    @_one_at_a_time
    def sql(
        self, text: str, dialect: str = "tdengine", *, limit: int | None = None, in_parts: bool = False
    ) -> Result:
        """Run the statements of a text and return the result of the last one, up to ``limit`` rows of it.

        ``in_parts``: what Spark computes comes while it is read, a row more at most. Raises StatementError
        with the place for what cannot be accepted; statements before it have been run.
        """
        result = Result(message="nothing to do")
        self._statements.selects.limit, self._statements.selects.in_parts = limit, in_parts
        for statement in parse_script(text, dialect=dialect):
            try:
                result = self._statements.run(statement)
            except LakestreamError as error:
                if error.place is not None and not error.place.text:
                    error.place = replace(error.place, text=redacted_text(text))
                raise
            except Exception as error:
                self._at.refuse_gone(error)
                raise
        return (result if limit is None or in_parts else result.first(limit)).within(lambda: self._at.shared)

    def inspect(self, statement: str) -> Inspection:
        """Look at the table that ``CREATE TABLE … LOCATION`` or ``USING TABLE`` would name; nothing is done.

        Raises what the statement would raise, but for a change feed that is off.
        """
        from lakestream.observation.inspection import inspect
        from lakestream.storage.tables.table import Table

        said = parse_statement(statement)
        if not isinstance(said, model.CreateTable) or not (said.location or said.catalog_name):
            raise NotSupportedError("to look at another statement than CREATE TABLE … LOCATION")
        info = self._statements.tables.would_name(said)
        table = Table.open(info.path)
        table.time = info.read_time
        unit = info.read_time.unit if info.read_time else None
        return inspect(table, info.time_column if said.time else None, unit)

    def table(self, name: str) -> DataFrame:
        """Return a table (``t`` or ``db.t``) at its latest version as a Spark DataFrame."""
        from lakestream.statements.query import table_frame

        return table_frame(
            self._at.shared, self._at.catalog, self._at.named(name), self._at.settings.small_bytes
        )

    @_one_at_a_time
    def insert(self, table: str, rows: ArrowStream | Iterable[Mapping[str, Any]]) -> int:
        """Insert rows (mappings by column, or a frame) by key in one commit; return its version.

        A frame is anything with an Arrow stream: of pandas, Polars, DuckDB, PyArrow, Spark. A row whose key
        is there already replaces the old one. A name that begins with ``root.`` is a device of the tree of
        time series: the rows are its points, each at its ``ts``. Times may be datetimes, dates, text (without
        a zone in the lake's) or milliseconds since 1970 UTC. Raises StatementError TABLE_NOT_FOUND,
        COLUMN_NOT_FOUND, DUPLICATE_COLUMN or BAD_VALUE; StorageError for a commit that cannot be made.
        """
        from lakestream.engine.reading.frames import rows_given
        from lakestream.storage.tables.table import refusals_named

        given = rows_given(rows)
        if table.startswith(f"{ROOT}."):
            return self._at.tree.insert(table, given)
        info = self._at.named(table)
        with refusals_named(), self._at.changing("INSERT", [info]):
            if isinstance(given, list):
                return self._at.editor().insert_dicts(info, given)
            return self._at.editor().insert_frame(info, given)

    @_one_at_a_time
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
        bounds = None if start is None else (start, end)
        return self._statements.recalculate(stream, bounds)

    def recalculations(self, stream: str) -> list[Recalculation]:
        """Return the recalculations of a stream in the order they were asked for, done ones too."""
        return self._at.registry.recalculations(self._statements.streams.named(stream).uuid)

    def streams(self) -> list[StreamStatus]:
        """Return the state of every stream; starts no Spark."""
        return stream_statuses(self._at)

    def runs(self, stream: str, limit: int = 200) -> list[Run]:
        """Return a stream's last ticks and failures, newest first; starts no Spark.

        At least the last 100 ticks are kept. Raises StatementError STREAM_NOT_FOUND.
        """
        from lakestream.observation.observe import runs

        return runs(self._at.registry, self._statements.streams.named(stream))[:limit]

    def failures(self, stream: str) -> list[Failure]:
        """Return a stream's last failures (up to 50), in order; starts no Spark."""
        return self._at.registry.failures(self._statements.streams.named(stream).uuid)

    def details(self, stream: str) -> Details:
        """Return what there is to know of a stream beside its status; starts no Spark."""
        from lakestream.observation.observe import details

        return details(self._at.catalog, self._statements.streams.named(stream))

    def newest_results(self, stream: str, limit: int = 500, *, windows: bool = False) -> pa.Table:
        """Return the newest rows of a stream's output, newest first; ``windows``: the window of each too.

        Starts Spark only where the statistics of the output's files do not tell which ones to read.
        """
        from lakestream.statements.query import newest_results

        return newest_results(self._at, self._statements.streams.named(stream), limit, windows=windows)

    def triggers(self, alarms: Mapping[str, Alarm]) -> dict[str, Outline]:
        """Return by stream what triggers it, and when the clock does so next; starts no Spark.

        ``alarms`` are those of the lake that runs the streams.
        """
        from lakestream.engine.base.instants import to_micros

        now_us = to_micros(self._at.clock.now())
        records, outline = self._at.registry.streams(), self._at.outlines.of
        return {f"{r.database}.{r.name}": outline(r, alarms.get(r.uuid), now_us) for r in records}

    def lineage(self, stream: str | None = None, *, columns: bool = False) -> Lineage:
        """Return what streams and continuous queries read and write; ``columns``: of what those are made."""
        from lakestream.observation.lineage import lineage

        at, around = self._at, self._statements.streams.named(stream) if stream else None
        queries = at.tree.queries.origins() if at.runs_tree() else {}
        return lineage(at.registry, at.catalog, queries, around, columns=columns)

    def events(self, stream: str | None = None, after: str | None = None, limit: int = 100) -> list[Event]:
        """Return events of a stream (None: of all), oldest first; starts no Spark.

        Those behind the id ``after``, else the newest. Raises StatementError STREAM_NOT_FOUND, BAD_VALUE.
        """
        from lakestream.observation.observe import events

        own = None if stream is None else self._statements.streams.named(stream).uuid
        names = {record.uuid: f"{record.database}.{record.name}" for record in self._at.registry.streams()}
        return events(self._at.outbox, self._at.deliveries, names, own, after, limit)

    def waiting_events(self) -> dict[str, int]:
        """Return by target how many events wait for it; starts no Spark."""
        from lakestream.observation.observe import waiting

        return waiting(self._at.outbox, self._at.deliveries)

    @_one_at_a_time
    def tick_once(
        self,
        on_tick: Callable[[TickReport], None] | None = None,
        ended: Callable[[], None] | None = None,
    ) -> list[TickReport]:
        """Run one round: what streams have new, continuous queries due and triggers to see; none: idle.

        ``on_tick`` hears of every tick as it ends. With ``ended`` what Spark computes is not waited for: it
        goes on beside, ``ended`` is called in another thread as a tick of it ends, and the next round returns
        it. Events are sent meanwhile, by threads of their own. Raises SparkGoneError when Spark has died.
        """
        return self._rounds.tick_once(on_tick, ended)

    def share(self, leases: Leases) -> None:
        """Have rounds run only what this daemon holds of a lake that several daemons serve."""
        self._at.leases = leases

    @_one_at_a_time
    def run(
        self,
        until: str = "idle",
        on_tick: Callable[[TickReport], None] | None = None,
        streams: Sequence[str] | None = None,
    ) -> RunSummary:
        """Process everything available; ``on_tick`` hears of every tick as it ends. ``until`` is ``"idle"``.

        With ``streams`` (names) these only, and no continuous query or trigger. Returns once the events are
        sent too, as far as their targets can be reached. Raises StatementError STREAM_NOT_FOUND.
        """
        return self._rounds.run(until, on_tick, streams)

    @_one_at_a_time
    def maintain(
        self, *, dry_run: bool = False, on_table: Callable[[Maintained], None] | None = None
    ) -> list[Maintained]:
        """Compact tables, delete what is older than their retention, old events and old ticks.

        Returns what was done to each table, with a dry run what would be; ``on_table`` hears of each. Safe
        beside running ticks. What a stream or a target has still to read stays, and is named.
        """
        from lakestream.statements.maintenance import Maintenance
        from lakestream.storage.records.definitions import Definitions

        if self._at.running is not None:
            self._at.running.checkpoint()
        maintenance = Maintenance(
            self._at.catalog,
            self._at.registry,
            Definitions(self._at.layout),
            self._at.outbox,
            self._at.deliveries,
            self._at.settings,
            self._at.clock,
            self._at.system_clock,
            lambda: self._at.session,
            partial(self._at.writing, "maintain"),
            partial(self._at.changing, "maintain"),
            dry_run,
        )
        done = []
        for table in maintenance.run():
            done.append(table)
            if on_table is not None:
                on_table(table)
        return done

    @property
    def repair(self) -> Repair:
        """The ways back from damage: ``repair.check()``, ``.repair(finding)`` and ``.back_up(to)``."""
        from lakestream.statements.repair import Repair

        return Repair(self._at, self._statements.streams, self.verify)

    @_one_at_a_time
    def migrate(self, *streams: str, dry_run: bool = False) -> list[Migrated]:
        """Write outputs that earlier versions made anew in the layout of new ones: of streams, or of all.

        Returns what became of each, with a dry run what would. The rows are the same, and their streams and
        those that read them go on. What stays as it is, is named with the reason.
        """
        from lakestream.statements.migration import Migration

        records = [self._statements.streams.named(name) for name in streams] or self._at.registry.streams()
        migration = Migration(
            self._at.catalog,
            self._at.registry,
            lambda: self._at.session,
            partial(migrating, self._at),
            partial(self._at.writing, "migrate"),
            dry_run,
        )
        return list(migration.run(records))

    @_one_at_a_time
    def verify(self, stream: str, start: str | None = None, end: str | None = None) -> Verification:
        """Compare a stream's output with the batch evaluation of its definition at its progress.

        ``start`` and ``end`` bound the windows by event time, half-open. Raises StreamError
        CALCULATION_FAILED where Spark cannot compute that evaluation.
        """
        return self._statements.verify(stream, start, end)

    def explain(self, stream: str) -> Result:
        """Return the stages of a stream's next tick, how bytes move, and how the calculation is evaluated."""
        return self._statements.explain(stream)


def workspace_of(lake: Lake) -> Workspace:
    """Return the parts of an open lake, for what stands on them."""
    return lake._at  # noqa: SLF001 - a part of this module


def statements_of(lake: Lake) -> Statements:
    """Return what runs the statements of an open lake, for what has them in other forms than texts."""
    return lake._statements  # noqa: SLF001 - a part of this module
