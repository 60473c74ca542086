"""What a lake's statements and ticks work with: its parts, each made on first need."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING
from uuid import uuid4

from lakestream.clock import InterruptibleClock, SystemClock
from lakestream.engine.reading.apart import Apart
from lakestream.language.iotdb.paths import ROOT
from lakestream.notify.deliveries import Deliveries
from lakestream.notify.outbox import Outbox
from lakestream.observation.queries import Queries
from lakestream.settings import Settings
from lakestream.storage.names.catalog import Catalog
from lakestream.storage.places.claims import MIGRATING, claim_of_table, claimed, given_back, try_claim
from lakestream.storage.places.layout import Layout
from lakestream.storage.places.lock import booted_since, note_boot, writer_lock
from lakestream.storage.places.proof import prove_store
from lakestream.storage.records.definitions import Definitions
from lakestream.storage.records.registry import Registry
from lakestream.storage.sessions.shared import SharedSpark
from lakestream.storage.tables.durable import leave_to_the_kernel
from lakestream.storage.tables.looks import Seldom
from lakestream.storage.tables.table import Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from lakestream.clock import Clock
    from lakestream.engine.reading.small import SmallPath
    from lakestream.engine.rounds.engine import Engine
    from lakestream.engine.rounds.notifier import Notifier
    from lakestream.language import model
    from lakestream.observation.observe import Outlines
    from lakestream.statements.changes import RowChanges
    from lakestream.statements.edits import Editor
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.places.leases import Leases
    from lakestream.storage.records.registry import StreamRecord
    from lakestream.storage.sessions.jars import Watch
    from lakestream.timeseries.tree import TreeEngine


DEFAULT_DATABASE = "main"


class Workspace:
    """The parts of an open lake. ``database`` is the one that names without one mean.

    ``queries`` are the statements that run, those of a lake beside this one too, of which ``asker`` sees
    their own; None: all. ``apart`` is how a statement that holds the lock asks what takes long. ``given`` is
    the Spark session that the user gave, ``running`` the engine where there is one already, ``spark`` what
    all lakes beside this one have too, ``leases`` what this process holds of a lake that several daemons
    serve. Arguments and errors are those of :class:`lakestream.lake.Lake`.
    """

    def __init__(
        self,
        root: str,
        *,
        clock: Clock,
        spark: SparkSession | None,
        create: bool,
        settings: Settings | None,
        confirm: Callable[[str], bool] | None,
        watch: Watch | None,
        beside: Workspace | None = None,
    ) -> None:
        self._given_settings: Settings = settings or Settings()
        self.system_clock = SystemClock()
        own = SharedSpark(spark, watch, self.system_clock)
        self.spark: SharedSpark = own if beside is None else beside.spark
        self.spark.check()
        self._tag = None if beside is None else f"lakestream-{uuid4()}"
        self.clock = clock
        self.queries: Queries = Queries(self.system_clock) if beside is None else beside.queries
        self.asker: str | None = None
        self.lock_clock = InterruptibleClock()
        self.apart = Apart()
        self.database = DEFAULT_DATABASE
        self.given, self.confirm = self.spark.given, confirm
        self.layout = Layout(root)
        tables = Tables()
        self.catalog = Catalog(self.layout, clock, tables)
        self.registry = Registry(
            self.layout, tables, lambda: self.settings.history_ticks, partial(self.writing, "records")
        )
        self.outbox = Outbox(self.layout.system_path("outbox"))
        self.deliveries = Deliveries(self.layout.system_path("deliveries"))
        self.running: Engine | None = None
        self.leases: Leases | None = None
        self._own: SparkSession | None = None
        self._own_of: SparkSession | None = None
        self._sending: Notifier | None = None
        self._small: SmallPath | None = None
        self.asking, self._has_tree = Seldom(self.system_clock), False
        self._definitions = Definitions(self.layout)
        self._recover()
        if create and not self.layout.exists():
            self.layout.make_folders()
            if not self.layout.is_local:
                prove_store(self.layout.system_root, self.system_clock)
            self.catalog.databases.create(DEFAULT_DATABASE, if_not_exists=True)
            self.layout.initialise(self.settings.timezone)
            note_boot(self.layout)
        self.layout.check()

    def _recover(self) -> None:
        """Put aside what a power cut tore, before anything is read."""
        if booted_since(self.layout):
            from lakestream.statements.repair import recover

            recover(self)

    @cached_property
    def timezone(self) -> str:
        """The time zone that the lake was made with (the setting ``timezone`` then)."""
        return self.layout.timezone()

    @cached_property
    def settings(self) -> Settings:
        """The settings; read on first need."""
        settings = self._given_settings
        leave_to_the_kernel(self.layout.root, leave=settings.durability == "process")
        return settings if self.given is not None else settings.for_lake(self.layout.root)

    @property
    def shared(self) -> SparkSession:
        """The session that users have: frames that leave the lake are of it."""
        return self.spark.session(self.settings, self._schemes)

    def _schemes(self) -> set[str]:
        """Return the schemes of the URIs at which the lake and its tables lie."""
        lies = [self.layout.root, *self.catalog.paths().values()]
        return {scheme for scheme, separator, _ in (path.partition("://") for path in lies) if separator}

    @property
    def catalogs(self) -> SparkSession:
        """The session whose catalogs, and current schema, are meant by names of tables in them."""
        return self.given or self.shared

    @property
    def session(self) -> SparkSession:
        """The session of this lake's statements and ticks: no other one's views are in it."""
        from lakestream.storage.sessions.session import check_reach, fit_cluster, statement_session

        shared = self.shared
        if self._own is None or self._own_of is not shared:
            check_reach(shared, self.layout)
            self._own, self._own_of = statement_session(shared, self.layout.handed), shared
            if self._tag is not None:
                from lakestream.storage.sessions.jobs import mark_thread

                mark_thread(self._own, self._tag)
        fit_cluster(self._own)
        return self._own

    @property
    def small(self) -> SmallPath:
        """What is asked about few rows before Spark is; made on first need."""
        if self._small is None:
            from lakestream.engine.reading.small import SmallPath
            from lakestream.storage.small.session import SmallSession, large_room

            larger = SmallSession(large_room(self.settings.duckdb_memory))
            is_on = self.settings.small_path == "auto"
            self._small = SmallPath(
                lambda: self.session,
                is_on,
                larger,
                apart=self.apart,
                brings_functions=lambda: self.spark.brings_functions(self.settings),
            )
        return self._small

    def interrupt(self) -> None:
        """Have what another thread computes, or waits for, for a lake beside another one fail."""
        self.lock_clock.interrupt()
        if self._small is not None:
            self._small.interrupt()
        if self._own is not None and self._tag is not None:
            from lakestream.storage.sessions.jobs import cancel_jobs

            cancel_jobs(self._own, self._tag)

    @property
    def notifier(self) -> Notifier:
        """The notifications of the lake, begun on first need."""
        if self._sending is None:
            from lakestream.engine.rounds.notifier import Notifier

            self._sending = Notifier(
                self.layout, self.registry, self.outbox, self.deliveries, self.settings, self.system_clock
            )
        return self._sending

    @contextmanager
    def writing(
        self, purpose: str, records: Iterable[StreamRecord] = (), tables: Iterable[TableInfo] = ()
    ) -> Iterator[None]:
        """Keep other writers of the lake from writing meanwhile; ``purpose`` is what they are told.

        What ticks one of the streams, or changes one of the tables, is waited for first, and kept from it
        too. Raises BusyError STREAM_BUSY, TABLE_BUSY, LAKE_LOCKED.
        """
        wait = self.settings.lock_wait_seconds
        with (
            _claimed(self, purpose, _names(self, records, tables)),
            writer_lock(self.layout, wait_seconds=wait, clock=self.lock_clock, purpose=purpose),
        ):
            yield

    @contextmanager
    def changing(self, doing: str, tables: Sequence[TableInfo]) -> Iterator[None]:
        """Keep others from changing rows of tables meanwhile, and what ticks into them; the lake is free.

        ``doing`` is what others are told. Raises BusyError TABLE_BUSY, STREAM_BUSY.
        """
        writers = {one.uuid: one for info in tables for one in self.registry.writers(info.full_name)}
        with _claimed(self, doing, _names(self, writers.values(), tables)):
            yield

    @property
    def engine(self) -> Engine:
        """The engine of the lake's ticks, made on first need."""
        if self.running is None:
            from lakestream.engine.base.instants import to_micros
            from lakestream.engine.base.turns import Turns
            from lakestream.engine.rounds.engine import Engine
            from lakestream.engine.rounds.runtime import Services

            services = Services(
                self.catalog,
                self.registry,
                self.clock,
                self.settings,
                lambda: self.session,
                self.system_clock,
                epoch=to_micros(self.system_clock.now()),
                outbox=self.outbox,
                asked=self.small,
                turns=Turns(partial(try_claim, self.layout), partial(given_back, self.layout)),
                is_blocked=self.notifier.is_blocked,
                is_ours=lambda uuid: self.leases is None or self.leases.has(uuid),
                has_guests=lambda: self.spark.guests.were_in,
            )
            self.running = Engine(services)
        return self.running

    @cached_property
    def tree(self) -> TreeEngine:
        """The tree of time series."""
        return tree_of(self, self.catalog, lambda: self.session, self.apart)

    @cached_property
    def outlines(self) -> Outlines:
        """What triggers streams, as it is shown; kept, since it is asked for again and again."""
        from lakestream.observation.observe import Outlines

        return Outlines()

    def refuse_gone(self, error: Exception) -> None:
        """Raise SparkGoneError where an error says that Spark, or the session on its server, has ended."""
        from lakestream.storage.sessions.session import check_connection, check_error

        check_connection(error)
        check_error(error)

    def close(self) -> None:
        """Save the state of streams, stop sending events and give the session of statements back."""
        if self._sending is not None:
            self._sending.close()
            self._sending = None
        if self.running is not None:
            self.running.checkpoint()
            self.running = None
        if self._small is not None:
            self._small.close()
            self._small = None
        if self._own is not None:
            from lakestream.storage.sessions.session import end_session

            end_session(self._own)
            self._own = None

    def in_database(self, name: model.TableName) -> str:
        """Return the database that a name means."""
        return name.database or self.database

    def named(self, name: str) -> TableInfo:
        """Return the table of a name, ``t`` or ``db.t``.

        Raises StatementError TABLE_NOT_FOUND, StorageError LAKE_GONE.
        """
        self.layout.refuse_gone()
        database, _, table = name.rpartition(".")
        return self.catalog.table(database or self.database, table)

    def editor(self) -> Editor:
        """Return what edits tables, as of now."""
        from lakestream.engine.base.instants import to_micros
        from lakestream.statements.edits import Editor

        return Editor(self.catalog, self.timezone, to_micros(self.clock.now()))

    def changes(self) -> RowChanges:
        """Return what changes rows of tables, as of now."""
        from lakestream.engine.base.instants import to_micros
        from lakestream.statements.changes import RowChanges

        return RowChanges(
            self.catalog,
            self.timezone,
            to_micros(self.clock.now()),
            self.settings.small_bytes,
            lambda: self.session,
        )

    def runs_tree(self) -> bool:
        """Return whether the tree may have something due: a lake without definitions need not load it."""
        if "tree" in self.__dict__:
            return True
        if self.layout.is_local or self.asking.is_due():
            self._has_tree = not self._definitions.are_none()
        return self._has_tree

    def forget_tree(self) -> None:
        """Have the tree read again what another process ran before."""
        self.__dict__.pop("tree", None)

    def latest_version(self, table: str) -> int | None:
        """Return the latest version of a table (``database.name``), None where there is none of that name.

        That is told of what a stream reads to whoever may see the stream.
        """
        database, name = table.split(".", 1)
        info = self.catalog.find_table(database, name, anywhere=True)
        return self.catalog.handles.latest(info.path).version if info is not None else None


def tree_of(at: Workspace, catalog: Catalog, session: Callable[[], SparkSession], apart: Apart) -> TreeEngine:
    """Return the tree of time series of a lake for a thread, by what that works with."""
    from lakestream.timeseries.points import Guards
    from lakestream.timeseries.tree import TreeEngine

    own = {claim_of_table(ROOT): ROOT}
    return TreeEngine(
        catalog,
        at.clock,
        at.system_clock,
        at.settings,
        lambda: replace(at.small, spark=session),
        at.timezone,
        current=lambda: at.database,
        guards=Guards(lambda doing: _claimed(at, doing, own), lambda: at.writing("points"), apart),
    )


def _claimed(at: Workspace, doing: str, names: Mapping[str, str]) -> AbstractContextManager[None]:
    """Return what holds the claims of streams and tables, whose names are given by their ids."""
    wait, clock, now = at.settings.lock_wait_seconds, at.lock_clock, at.system_clock.now().timestamp()
    clock.forget()
    return claimed(at.layout, doing, names, wait_seconds=wait, clock=clock, now=now, told=at.spark.telling)


def _names(at: Workspace, records: Iterable[StreamRecord], tables: Iterable[TableInfo]) -> Mapping[str, str]:
    """Return what is to be claimed: not the streams that the round which goes on has here."""
    here = frozenset() if at.running is None else at.running.services.turns.here
    streams = {record.uuid: record.full_name for record in records if record.uuid not in here}
    return {**streams, **{claim_of_table(info.path): info.full_name for info in tables}}


@contextmanager
def migrating(at: Workspace, record: StreamRecord) -> Iterator[None]:
    """Keep others from ticking a stream and from changing the rows of its output; the lake is free.

    Raises BusyError STREAM_BUSY, TABLE_BUSY.
    """
    output = at.catalog.find_table(*record.output.split(".", 1))
    with _claimed(at, MIGRATING, _names(at, [record], filter(None, [output]))):
        yield
