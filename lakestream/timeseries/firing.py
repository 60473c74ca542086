"""Firing triggers: BEFORE in lakestream's own write path, AFTER from the change feed (IoTDB A4).

An AFTER trigger sees the commits of whoever wrote, at least once: each as one tablet per device, or per row
of an INSERT … VALUES. How far it has come, and the state of a STATEFUL one, are recorded together after
every round. Which points a commit of lakestream itself names, it says; of others' commits the points are
those whose value has changed.
"""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass, field, replace
from sys import maxsize
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from lakestream.engine.base.instants import to_micros
from lakestream.engine.base.result import Result
from lakestream.engine.rounds.failing import as_failure
from lakestream.engine.rounds.runtime import TickReport
from lakestream.errors import LakestreamError, StatementError, did_you_mean
from lakestream.hooks import FailureStrategy, Tablet, TriggerContext
from lakestream.hooks.loading import load_class
from lakestream.language import parse_statement
from lakestream.language.common.source import place_of
from lakestream.language.iotdb.paths import Path, node_of
from lakestream.language.iotdb.values import CreateTrigger
from lakestream.language.model import TableName
from lakestream.storage.delta import align, changes_arrow, read_commits, written_of
from lakestream.storage.names.tree import DEVICE, TIME
from lakestream.storage.records.definitions import TriggerRecord
from lakestream.storage.tables.table import refusals_named
from lakestream.timeseries.points import AT, OF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from lakestream.clock import Clock
    from lakestream.hooks import Trigger
    from lakestream.language.iotdb.paths import Series
    from lakestream.language.iotdb.values import DropTrigger
    from lakestream.settings import Settings
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.names.tree import Tree
    from lakestream.storage.records.definitions import Definitions
    from lakestream.timeseries.mapped import Mapped, MappedTables
    from lakestream.timeseries.points import Block

T = TypeVar("T")

_log = logging.getLogger(__name__)
_RETRY_MICROS = 20_000_000
"""How long after a failure to read a table's commits they are read again."""

_MAPPED = "mapped tables"
_VERSION, _CHANGE = "_commit_version", "_change_type"


@dataclass(frozen=True)
class _Points:
    """Points that triggers see at once: those of a device in one write (AT, and a column each).

    ``types`` are those of the measurements; ``batch`` tells the write, or the row of one, from others.
    """

    batch: str
    device: Path
    types: dict[str, str]
    rows: pa.Table


@dataclass
class _Hook:
    """A trigger in this process."""

    record: TriggerRecord
    statement: CreateTrigger
    instance: Trigger

    @property
    def is_pessimistic(self) -> bool:
        """Whether a failed call stops what comes after it."""
        return self.instance.failure_strategy() is FailureStrategy.PESSIMISTIC


@dataclass
class _Pauses:
    """Which tables and triggers have failed, and are not tried again yet."""

    _until: dict[str, int] = field(default_factory=dict)

    def holds(self, what: str, clock: Clock) -> bool:
        return self._until.get(what, 0) > to_micros(clock.now())

    def hold(self, what: str, clock: Clock) -> None:
        self._until[what] = to_micros(clock.now()) + _RETRY_MICROS


@dataclass
class Triggers:
    """The triggers of one lake."""

    definitions: Definitions
    tree: Tree
    mapped: MappedTables
    clock: Clock
    settings: Settings
    _hooks: dict[str, _Hook] = field(default_factory=dict)
    _read: dict[str, CreateTrigger] = field(default_factory=dict)
    _pauses: _Pauses = field(default_factory=_Pauses)

    # --- statements ---

    def create(self, statement: CreateTrigger) -> Result:
        """CREATE TRIGGER: the class is loaded, checks its attributes, and begins.

        Raises StatementError TRIGGER_EXISTS, TRIGGER_CLASS, TRIGGER_URI, TRIGGER_NOT_ALLOWED,
        DATABASE_MAPPED (before inserts that lakestream does not make), or TRIGGER_REFUSED with what its
        ``validate`` or ``on_create`` raised.
        """
        place = place_of(statement.place)
        records = self.definitions.triggers()
        if any(record.name == statement.name for record in records):
            raise StatementError(
                "TRIGGER_EXISTS",
                f"a trigger of the same name {statement.name} has been created already",
                hint=f"DROP TRIGGER {statement.name} first",
                place=place,
            )
        order = max((record.order for record in records), default=0) + 1
        try:
            record = TriggerRecord(uuid4().hex, statement.name, statement.text, order, self._start(statement))
            instance = _instance(statement, self.settings)
            _called(lambda: instance.validate(dict(statement.attributes)))
            _called(lambda: instance.on_create(dict(statement.attributes), self._context(statement)))
        except LakestreamError as error:
            raise error.at(place) from None
        self.definitions.put_triggers([record])
        self._hooks[record.uuid] = _Hook(record, statement, instance)
        return Result(message=f"created trigger {statement.name}")

    def _start(self, statement: CreateTrigger) -> dict[str, int]:
        """Return the versions of the tables behind which a new trigger fires; none where it fires before."""
        if statement.event == "BEFORE_INSERT":
            self.tree.check_writable(statement.pattern)
            return {}
        mapped = [one.info for one in self.mapped.reached([statement.pattern])]
        return {info.path: self._version(info) for info in (*self.tree.tables(), *mapped)}

    def begin(self, mapped: Mapped, version: int) -> None:
        """Have AFTER triggers fire with what a table that is being mapped gets behind a version.

        Raises StatementError DATABASE_MAPPED where a trigger is to fire before inserts into it.
        """
        path, moved = mapped.info.path, []
        is_new = not self._is_mapped(TableName(mapped.info.database, mapped.info.name))
        for record in self.definitions.triggers():
            statement = self._statement(record)
            if statement.event == "BEFORE_INSERT" and statement.pattern.is_below(mapped.database):
                raise StatementError(
                    "DATABASE_MAPPED",
                    f"the trigger {record.name} fires before inserts, which a mapped database takes none of",
                    hint=f"DROP TRIGGER {record.name} first",
                )
            if statement.event == "AFTER_INSERT" and statement.pattern.reaches(mapped.database):
                start = version if is_new else record.versions.get(path, version)
                moved.append(replace(record, versions={**record.versions, path: start}))
        self.definitions.put_triggers(moved)

    def end(self, table: TableName) -> None:
        """Have no trigger wait for commits of a table that is mapped no more."""
        info = self.tree.catalog.find_table(table.database or "", table.name)
        if info is None or self._is_mapped(table):
            return
        self.definitions.put_triggers(
            replace(record, versions={path: v for path, v in record.versions.items() if path != info.path})
            for record in self.definitions.triggers()
        )

    def _is_mapped(self, table: TableName) -> bool:
        return table in [mapping.table for mapping in self.tree.mappings().values()]

    def drop(self, statement: DropTrigger) -> Result:
        """DROP TRIGGER. Raises StatementError TRIGGER_NOT_FOUND."""
        found = next((r for r in self.definitions.triggers() if r.name == statement.name), None)
        if found is None:
            known = [record.name for record in self.definitions.triggers()]
            raise StatementError(
                "TRIGGER_NOT_FOUND",
                f"trigger {statement.name} has not been created",
                hint=did_you_mean(statement.name, known),
                place=place_of(statement.place),
            )
        try:
            self._hook(found).instance.on_drop()
        except Exception:  # noqa: BLE001 - a trigger's own failure does not keep it here
            _log.exception("on_drop of trigger %s failed", found.name)
        self.definitions.remove_trigger(found.name)
        self._hooks.pop(found.uuid, None)
        return Result(message=f"dropped trigger {statement.name}")

    def show(self) -> Result:
        """SHOW TRIGGERS; Coverage is lakestream's own: whose inserts fire it."""
        columns = (
            "TriggerName",
            "Event",
            "Type",
            "State",
            "PathPattern",
            "ClassName",
            "NodeId",
            "Coverage",
        )
        rows = []
        for record in sorted(self.definitions.triggers(), key=lambda one: one.name):
            statement = self._statement(record)
            rows.append(
                (
                    record.name,
                    statement.event,
                    "STATEFUL" if statement.stateful else "STATELESS",
                    "ACTIVE",
                    str(statement.pattern),
                    statement.class_name,
                    "local" if statement.stateful else "ALL",
                    "all" if statement.event == "AFTER_INSERT" else "api",
                )
            )
        return Result(columns, rows)

    # --- instances ---

    def _context(self, statement: CreateTrigger) -> TriggerContext:
        root = self.tree.catalog.layout.root
        return TriggerContext(statement.name, statement.event, str(statement.pattern), root)

    def _hook(self, record: TriggerRecord) -> _Hook:
        """Return a trigger with its instance: after a restart a new one, a STATEFUL one restored."""
        known = self._hooks.get(record.uuid)
        if known is None:
            statement = self._statement(record)
            instance = _instance(statement, self.settings)
            _called(lambda: instance.on_create(dict(statement.attributes), self._context(statement)))
            if statement.stateful:
                state = bytes.fromhex(record.state) if record.state is not None else None
                _called(lambda: instance.restore(state))
            known = self._hooks[record.uuid] = _Hook(record, statement, instance)
        known.record = record
        return known

    def _statement(self, record: TriggerRecord) -> CreateTrigger:
        if record.uuid not in self._read:
            statement = parse_statement(record.sql, dialect="iotdb")
            assert isinstance(statement, CreateTrigger)
            self._read[record.uuid] = statement
        return self._read[record.uuid]

    def _records(self, event: str) -> list[TriggerRecord]:
        return [r for r in self.definitions.triggers() if self._statement(r).event == event]

    # --- BEFORE ---

    def watch(self, devices: Iterable[Path]) -> bool:
        """Return whether there is a trigger that may see what is written to one of some devices."""
        patterns = [self._statement(record).pattern for record in self.definitions.triggers()]
        return bool(patterns) and any(p.reaches(device) for device in devices for p in patterns)

    def before(self, blocks: Sequence[Block]) -> None:
        """Fire BEFORE triggers with points that are about to be written.

        Raises StatementError TRIGGER_FAILED where one that is PESSIMISTIC fails.
        """
        hooks = [self._hook(record) for record in self._records("BEFORE_INSERT")]
        if not hooks:
            return
        call = uuid4().hex
        try:
            for points in _points_of(blocks, call):
                for hook in hooks:
                    tablet = _tablet(hook, points, None)
                    if tablet is not None and not _fired(hook, tablet) and hook.is_pessimistic:
                        raise StatementError(
                            "TRIGGER_FAILED",
                            "Failed to complete the insertion because trigger error before the insertion: "
                            f"{hook.record.name} failed for {points.device}",
                        )
        finally:
            self._save([hook for hook in hooks if hook.statement.stateful])

    # --- AFTER ---

    def is_idle(self) -> bool:
        """Return whether there is no trigger that fires after commits."""
        return not self._records("AFTER_INSERT")

    def round(self) -> list[TickReport]:
        """Fire AFTER triggers with what was committed since they fired last; no report: nothing new."""
        records = self._records("AFTER_INSERT")
        if not records:
            return []
        reports = []
        moved: dict[str, _Hook] = {}
        for info, mapped in self._tables(records):
            if self._pauses.holds(info.path, self.clock):
                continue
            hooks, report = self._table_round(info, mapped, records)
            reports += [report] if report is not None else []
            moved.update({hook.record.uuid: hook for hook in hooks})
            records = [moved[r.uuid].record if r.uuid in moved else r for r in records]
        self._save(list(moved.values()))
        return reports

    def _tables(self, records: Sequence[TriggerRecord]) -> list[tuple[TableInfo, list[Mapped]]]:
        """Return the tables whose commits may fire triggers, each with the databases mapped to it."""
        found: dict[str, tuple[TableInfo, list[Mapped]]] = {
            info.path: (info, []) for info in self.tree.tables()
        }
        for mapped in self._mapped_to([self._statement(record).pattern for record in records]):
            found.setdefault(mapped.info.path, (mapped.info, []))[1].append(mapped)
        return list(found.values())

    def _mapped_to(self, patterns: Sequence[Path]) -> list[Mapped]:
        """Return the mapped databases of patterns; none for a while where the table of one is gone."""
        if self._pauses.holds(_MAPPED, self.clock):
            return []
        try:
            return self.mapped.reached(patterns)
        except BaseException as raised:  # noqa: BLE001 - as below
            _log.error("triggers on mapped tables: %s", as_failure(raised))
            self._pauses.hold(_MAPPED, self.clock)
            return []

    def _table_round(
        self, info: TableInfo, mapped: Sequence[Mapped], records: Sequence[TriggerRecord]
    ) -> tuple[list[_Hook], TickReport | None]:
        """Fire triggers with what a table got; a table that fails is tried again, the others go on."""
        after = version = fired = 0
        hooks: list[_Hook] = []
        try:
            version = self._version(info)
            hooks, error = self._ready([one for one in records if _place(one, info, mapped) < version])
            if not hooks and error is None:
                return [], None
            after = min((_place(hook.record, info, mapped) for hook in hooks), default=version)
            for commit, points in self._committed(info, mapped, max(after, 0), version):
                fired += self._after(hooks, info, commit, points)
            for hook in hooks:
                hook.record = replace(hook.record, versions={**hook.record.versions, info.path: version})
        except BaseException as raised:  # noqa: BLE001 - what is no defect of this table goes on
            failure = as_failure(raised)
            _log.error("triggers on %s.%s: %s", info.database, info.name, failure)
            error, hooks = str(failure), []
            self._pauses.hold(info.path, self.clock)
        return hooks, _report(info, after, version, fired, error)

    def _ready(self, records: Sequence[TriggerRecord]) -> tuple[list[_Hook], str | None]:
        """Return triggers with their instances, and why one has none, which waits for its next try."""
        hooks, error = [], None
        for record in records:
            if self._pauses.holds(record.uuid, self.clock):
                continue
            try:
                hooks.append(self._hook(record))
            except LakestreamError as failure:
                _log.error("trigger %s: %s", record.name, failure)
                error = f"trigger {record.name}: {failure}"
                self._pauses.hold(record.uuid, self.clock)
        return hooks, error

    def _after(self, hooks: Sequence[_Hook], info: TableInfo, commit: int, points: _Points) -> int:
        """Fire the triggers with one device's points of one commit; return how many calls that were."""
        fired = 0
        for hook in hooks:
            if hook.record.versions.get(info.path, -1) >= commit:
                continue
            own = _tablet(hook, points, commit)
            if own is None:
                continue
            fired += 1
            if not _fired(hook, own) and hook.is_pessimistic:
                break
        return fired

    def _committed(
        self, info: TableInfo, mapped: Sequence[Mapped], after: int, upto: int
    ) -> Iterator[tuple[int, _Points]]:
        """Yield what each commit wrote, in order: a device's points, or a row of them, at a time."""
        if not mapped:
            yield from self._own_points(info, after, upto)
        for one in mapped:
            yield from self._mapped_points(one, after, upto)

    def _own_points(self, info: TableInfo, after: int, upto: int) -> Iterator[tuple[int, _Points]]:
        by_device: dict[str, list[Series]] = {}
        for one in self.tree.series():
            if one.table == info.name:
                by_device.setdefault(one.device, []).append(one)
        table = self.tree.catalog.handles.open(info.path)
        commits = read_commits(table.path, after, upto)
        written = {commit.version: written_of(commit) for commit in commits}
        changed = {}
        if any(commit.data_change and written[commit.version] is None for commit in commits):
            changes = changes_arrow(table, after, upto, [column.name for column in info.columns])
            changed = _by_version(_new_points(changes))
        for version, own in written.items():
            if own is not None:
                rows, row_by_row = align(own.rows, table.schema), own.row_by_row
            elif version in changed:
                rows, row_by_row = changed[version], False
            else:
                continue
            batch = f"{info.name}/{version}"
            for text, batch_of_rows, found in _by_device(rows, by_device, batch, row_by_row):
                yield version, _points(by_device[text], batch_of_rows, found)

    def _mapped_points(self, mapped: Mapped, after: int, upto: int) -> Iterator[tuple[int, _Points]]:
        rows = _new_points(self.mapped.changes(mapped, after, upto))
        devices = {text: mapped.device_path(text) for text in sorted(set(rows[DEVICE].to_pylist()))}
        types = {node_of(column): kind for column, kind in mapped.measurements}
        names = [f"m{number}" for number in range(len(types))]
        for version, commit in _by_version(rows).items():
            batch = f"{mapped.info.name}/{version}"
            for text, _, own in _by_device(commit, devices, batch, row_by_row=False):
                device = devices[text]
                if device is not None:
                    points = own.select([TIME, *names]).rename_columns([AT, *types])
                    yield version, _Points(batch, device, types, points)

    def _version(self, info: TableInfo) -> int:
        return self.tree.catalog.handles.latest(info.path).version

    def _save(self, hooks: Sequence[_Hook]) -> None:
        """Record how far triggers have come, with their state."""
        for hook in hooks:
            if hook.statement.stateful:
                hook.record = replace(hook.record, state=_state_of(hook))
        self.definitions.renew_triggers(hook.record for hook in hooks)


def _place(record: TriggerRecord, info: TableInfo, mapped: Sequence[Mapped]) -> int:
    """Return up to which version of a table a trigger has fired: those of mapped tables it was told of."""
    return record.versions.get(info.path, maxsize if mapped else -1)


def _by_version(rows: pa.Table) -> dict[int, pa.Table]:
    """Return the rows of each commit, in order."""
    import pyarrow.compute as pc

    versions = sorted(pc.unique(rows[_VERSION]).to_pylist())
    return {version: rows.filter(pc.equal(rows[_VERSION], version)) for version in versions}


def _by_device(
    rows: pa.Table, devices: Iterable[str], batch: str, row_by_row: bool
) -> Iterator[tuple[str, str, pa.Table]]:
    """Yield the rows of each device of one commit, by time, with what tells them from others.

    Row by row each on its own, in the order they were written in.
    """
    import pyarrow.compute as pc

    if row_by_row:
        for place, device in enumerate(rows[DEVICE].to_pylist()):
            yield device, f"{batch}/{place}", rows.slice(place, 1)
        return
    for device in devices:
        own = rows.filter(pc.equal(rows[DEVICE], device))
        if own.num_rows:
            yield device, batch, own.sort_by(TIME)


def _points(series: Sequence[Series], batch: str, rows: pa.Table) -> _Points:
    """Return rows of a database's table as points of a device, which has these series."""
    types = {one.path.measurement: one.type for one in series}
    points = rows.select([TIME, *(one.column for one in series)]).rename_columns([AT, *types])
    return _Points(batch, series[0].path.device, types, points)


def _instance(statement: CreateTrigger, settings: Settings) -> Trigger:
    kind = load_class(statement.class_name, statement.uri, settings.trigger_modules, settings.trigger_lib_dir)
    return _called(kind)


def _called(call: Callable[[], T]) -> T:
    """Call what a trigger's class wrote; what it raises refuses the statement."""
    try:
        with refusals_named():
            return call()
    except Exception as error:
        raise StatementError(
            "TRIGGER_REFUSED", f"the trigger refuses: {type(error).__name__}: {error}"
        ) from error


def _fired(hook: _Hook, tablet: Tablet) -> bool:
    """Fire a trigger; False and an exception are both a failure, which is logged."""
    try:
        with refusals_named():
            fired = hook.instance.fire(tablet)
        if fired:
            return True
        _log.warning("trigger %s failed for %s", hook.record.name, tablet.device)
    except Exception:  # noqa: BLE001 - what a trigger raises is its failure
        _log.exception("trigger %s failed for %s", hook.record.name, tablet.device)
    return False


def _state_of(hook: _Hook) -> str | None:
    """Return the state of a trigger to be recorded; the one before where its class does not give it."""
    try:
        with refusals_named():
            state = hook.instance.snapshot()
    except Exception:  # noqa: BLE001 - as above
        _log.exception("the state of trigger %s is not recorded", hook.record.name)
        return hook.record.state
    return None if state is None else state.hex()


def _points_of(blocks: Sequence[Block], batch: str) -> Iterator[_Points]:
    """Yield the points of each device of blocks, row by row where a block is to be seen so."""
    import pyarrow.compute as pc

    for block in blocks:
        for name, device in block.devices.items():
            rows = block.rows.filter(pc.equal(block.rows[OF], name)).drop_columns([OF])
            if block.row_by_row:
                for place in range(rows.num_rows):
                    yield _Points(f"{batch}/{place}", device, block.types, rows.slice(place, 1))
            elif rows.num_rows:
                yield _Points(batch, device, block.types, rows)


def _tablet(hook: _Hook, points: _Points, commit: int | None) -> Tablet | None:
    """Return what a trigger sees of a device's points: its pattern's series; None when that is nothing."""
    import pyarrow.compute as pc

    pattern, device, rows = hook.statement.pattern, points.device, points.rows
    names = [
        name
        for name in points.types
        if pattern.matches(Path((*device.nodes, name))) and rows[name].null_count < rows.num_rows
    ]
    if not names:
        return None
    some = functools.reduce(pc.or_, [pc.is_valid(rows[name]) for name in names])
    return Tablet(
        id=f"{hook.record.uuid}/{device}/{points.batch}",
        device=str(device),
        event=hook.statement.event,
        commit_version=commit,
        measurements=tuple(names),
        types=tuple(points.types[name] for name in names),
        rows=rows.filter(some).select([AT, *names]).rename_columns([TIME, *names]),
    )


def _new_points(changes: pa.Table) -> pa.Table:
    """Return the inserted rows of a change feed: points that were there with that value before are NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_new = pc.is_in(changes[_CHANGE], pa.array(["insert", "update_postimage"]))
    is_old = pc.is_in(changes[_CHANGE], pa.array(["delete", "update_preimage"]))
    new, old = changes.filter(is_new).drop_columns([_CHANGE]), changes.filter(is_old).drop_columns([_CHANGE])
    if not old.num_rows:
        return new
    keys = [DEVICE, TIME, _VERSION]
    names = [name for name in new.column_names if name not in keys]
    joined = new.join(old, keys=keys, join_type="left outer", right_suffix="\0old")
    points = {
        name: pc.if_else(
            pc.fill_null(pc.equal(joined[name], joined[f"{name}\0old"]), False),
            pa.scalar(None, joined[name].type),
            joined[name],
        )
        for name in names
    }
    return pa.table({**{key: joined[key] for key in keys}, **points})


def _report(info: TableInfo, after: int, upto: int, fired: int, error: str | None) -> TickReport:
    return TickReport(
        stream=f"triggers on {info.database}.{info.name}",
        tick=upto,
        kind="triggers",
        after=after,
        upto=upto,
        commits=upto - after,
        rows_in=0,
        rows_out=fired,
        windows=0,
        late=0,
        seconds=0.0,
        transport="arrow",
        lag=0,
        error=error,
    )
