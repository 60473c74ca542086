"""Maintenance of a lake: small files, old files, old events and old ticks, table by table.

Whatever it stops at is whole: it changes no row that a stream or a reader needs, and is done again the
next time. A table of users is kept from whoever changes it, and from what ticks into it; lakestream's own are
taken under the lake's lock, each by itself, so that ticks go on in between.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from lakestream.engine.base.faults import crash_point
from lakestream.engine.base.instants import to_micros
from lakestream.engine.base.state import GroupState
from lakestream.engine.creation.compile import definition_of
from lakestream.engine.rounds.notifier import sending_lock
from lakestream.errors import LakestreamError, StreamError
from lakestream.storage.delta import Rules, Table, Upkeep, is_table, keep_up, read_commits, retention
from lakestream.storage.places import files
from lakestream.storage.places.layout import SYSTEM_FOLDER
from lakestream.storage.records.audit import Audit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from lakestream.clock import Clock
    from lakestream.notify.deliveries import Deliveries
    from lakestream.notify.outbox import Outbox
    from lakestream.settings import Settings
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.definitions import Definitions
    from lakestream.storage.records.registry import Progress, Registry, StreamRecord, TickPlan

_LONGEST_COMMIT = timedelta(days=1)
"""How long before its commit a file may have been written, and so be taken for an old one."""

_GROUPED = ("state", "opened", "results")
"""System folders that hold a table for each stream."""


@dataclass(frozen=True)
class Maintained:
    """What maintenance did to a table, or with a dry run would do (``files_after`` is not known then).

    ``rows_deleted`` counts events of the outbox or ticks of the run history, ``files_deleted`` files that
    no version within the table's retention needs, ``bytes_freed`` their size. ``left_out`` says what was
    not done, and why; ``error`` what went wrong.
    """

    table: str
    files_before: int = 0
    files_after: int | None = None
    files_deleted: int = 0
    bytes_freed: int = 0
    rows_deleted: int = 0
    seconds: float = 0.0
    left_out: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class _Need:
    """A reader that has still to read what a table's commits after ``version`` did."""

    who: str
    version: int


@dataclass(frozen=True)
class Maintenance:
    """Maintains one lake; ``writing`` takes its lock, ``changing`` keeps others from changing tables.

    ``clock`` is the streams' wall clock.
    """

    catalog: Catalog
    registry: Registry
    definitions: Definitions
    outbox: Outbox
    deliveries: Deliveries
    settings: Settings
    clock: Clock
    system_clock: Clock
    spark: Callable[[], SparkSession]
    writing: Callable[[], AbstractContextManager[None]]
    changing: Callable[[Sequence[TableInfo]], AbstractContextManager[None]]
    dry_run: bool
    _needs: dict[str, list[_Need]] = field(default_factory=dict)

    def run(self) -> Iterator[Maintained]:
        """Yield what was done, table by table: those of the databases, then lakestream's own."""
        with self.writing():
            self._note_needs()
        for database in self.catalog.databases.names():
            for name in self.catalog.table_names(database):
                yield self._timed(f"{database}.{name}", partial(self._of_user, database, name))
        for name in self._system_tables():
            yield self._timed(f"{SYSTEM_FOLDER}/{name}", partial(self._of_system, name))

    def _timed(self, table: str, work: Callable[[], Maintained]) -> Maintained:
        """Do the work on a table; one that fails does not stop the others."""
        started = self.system_clock.monotonic()
        try:
            done = work()
        except LakestreamError as error:
            done = Maintained(table, error=str(error))
        return replace(done, table=table, seconds=self.system_clock.monotonic() - started)

    # --- tables of users ---

    def _of_user(self, database: str, name: str) -> Maintained:
        info = self.catalog.table(database, name)
        if info.external:
            return Maintained(name, left_out="it lies outside the lake: whoever owns it maintains it")
        with self.changing([info]):
            rewritten = any(record.output == info.full_name for record in self.registry.streams())
            return self._keep_up(self.catalog.handles.latest(info.path), rewritten=rewritten)

    def _keep_up(self, table: Table, *, rewritten: bool = False) -> Maintained:
        waits = self._who_waits(table)
        rules = Rules(self.settings.compact_files, waits is None, self.dry_run, rewritten, self.spark)
        done = _maintained(keep_up(table, rules))
        crash_point("M1")
        return replace(done, left_out=waits)

    def _who_waits(self, table: Table) -> str | None:
        """Return why nothing of a table may be deleted, None when all that is old was read by everyone."""
        for need in sorted(self._needs.get(table.path, []), key=lambda need: need.version):
            if need.version >= table.version:
                continue
            kept = retention(table) - _LONGEST_COMMIT
            if self._age(table, need.version + 1) >= kept:
                return f"no file is deleted: {need.who} has still to read version {need.version + 1}"
        return None

    def _age(self, table: Table, version: int) -> timedelta:
        try:
            commit = read_commits(table.path, version - 1, version)[0]
        except StreamError:
            return timedelta.max
        return self.system_clock.now() - datetime.fromtimestamp(commit.timestamp_ms / 1_000, UTC)

    # --- who reads what ---

    def _note_needs(self) -> None:
        last = self.registry.last_of_all()
        for record in self.registry.streams():
            plan, progress = last.get(record.uuid, (None, None))
            for path, version in self._needed(record, plan, progress).items():
                need = _Need(f"the stream {record.database}.{record.name}", version)
                self._needs.setdefault(path, []).append(need)
        triggers = [(f"the trigger {one.name}", one.versions) for one in self.definitions.triggers()]
        queries = [(f"the continuous query {one.name}", one.versions) for one in self.definitions.queries()]
        for who, versions in (*triggers, *queries):
            for path, version in versions.items():
                self._needs.setdefault(path, []).append(_Need(who, version))
        for stream_id, version in self._waiting().items():
            need = _Need(f"a target of the stream with the id {stream_id}", version - 1)
            self._needs.setdefault(self.outbox.path, []).append(need)

    def _needed(
        self, record: StreamRecord, plan: TickPlan | None, progress: Progress | None
    ) -> dict[str, int]:
        """Return the versions behind which a stream has still to read, by the tables' paths."""
        source = self.catalog.find_table(*record.source.split(".", 1))
        needed = {} if source is None else {source.path: self._place(record, progress)}
        if plan is not None and plan.tick > (progress.tick if progress else 0):
            for path, version in plan.table_versions.items():
                needed[path] = min(version, needed.get(path, version))
        return needed

    def _place(self, record: StreamRecord, progress: Progress | None) -> int:
        """Return the version of its source that a stream's saved state stands for."""
        if progress is None:
            return record.start_version
        saved = self.registry.states.read(record.uuid, progress.tick)
        if saved is None:
            return record.start_version
        return min(GroupState.loaded(saved[1])[0], progress.version)

    def _waiting(self) -> dict[str, int]:
        """Return the first commit of the outbox that is to be delivered to some target, by stream id."""
        found = {record.uuid: self._first_undelivered(record) for record in self.registry.streams()}
        return {uuid: version for uuid, version in found.items() if version is not None}

    def _first_undelivered(self, record: StreamRecord) -> int | None:
        notification = definition_of(record).notification
        if notification is None:
            return None
        delivered = min(self.deliveries.of(record.uuid, url).version for url in notification.urls)
        try:
            batches = self.outbox.since(delivered - 1)
        except StreamError:
            # The log does not tell any more; whether the events were delivered, neither.
            return delivered
        return next((batch.version for batch in batches if batch.stream_id == record.uuid), None)

    # --- lakestream's own tables ---

    def _system_tables(self) -> list[str]:
        root = self.catalog.layout.system_root
        names = [name for name in files.folders(root) if name not in _GROUPED]
        grouped = [f"{group}/{name}" for group in _GROUPED for name in files.folders(files.join(root, group))]
        return [name for name in [*names, *grouped] if is_table(files.join(root, name))]

    def _of_system(self, name: str) -> Maintained:
        with self.writing():
            return self._of_own(name)

    def _of_own(self, name: str) -> Maintained:
        table = Table.open(files.join(self.catalog.layout.system_root, name))
        if name == "outbox":
            return self._of_outbox(table)
        if name == "deliveries":
            return self._of_deliveries(table)
        if name == "audit":
            return self._of_audit(table)
        rows = self.registry.clear_history() if name == "progress" and not self.dry_run else 0
        return replace(self._keep_up(table), rows_deleted=rows)

    def _of_outbox(self, table: Table) -> Maintained:
        """Delete old events that all targets have; while some wait, the others of the stream stay too."""
        keep = timedelta(seconds=self.settings.event_retention_seconds)
        before_us, waiting = to_micros(self.clock.now() - keep), self._waiting()
        rows = self.outbox.remove(before_us, waiting, dry_run=self.dry_run)
        return replace(self._keep_up(table), rows_deleted=rows)

    def _of_audit(self, table: Table) -> Maintained:
        keep = timedelta(seconds=self.settings.audit_retention_seconds)
        audit = Audit(self.catalog.layout, self.system_clock)
        rows = audit.remove(to_micros(self.system_clock.now() - keep), dry_run=self.dry_run)
        return replace(self._keep_up(table), rows_deleted=rows)

    def _of_deliveries(self, table: Table) -> Maintained:
        lock = sending_lock(self.catalog.layout)
        if lock is None:
            return Maintained("", left_out="events are being sent: it is compacted as it is written")
        with lock:
            return self._keep_up(table)


def _maintained(done: Upkeep) -> Maintained:
    return Maintained("", done.files_before, done.files_after, done.deleted, done.bytes_freed)
