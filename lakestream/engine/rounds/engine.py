"""The engine of one lake: rounds of ticks over all its streams, and going on where they stopped.

A round plans every stream that has something new, writes the plans, runs them one after the other, and
records what they did. The commit to an output table is the commit point of a tick: whatever is lost
before it is done again by the same plan, whatever comes after it follows from it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING
from uuid import uuid4

from lakestream.compute.windows.evaluate import Way
from lakestream.engine.base.faults import reach
from lakestream.engine.base.instants import from_micros, to_micros
from lakestream.engine.base.refused import spark_message
from lakestream.engine.base.state import GroupState
from lakestream.engine.creation.create import open_target
from lakestream.engine.planning.analysis import refuse_other_results
from lakestream.engine.planning.checks import (
    OutputMark,
    check_output,
    check_source,
    check_tables,
    named_state,
)
from lakestream.engine.planning.corrections import Corrected, correct, last_due, next_due
from lakestream.engine.planning.delays import Delays, closed_by_clock, next_close, open_windows
from lakestream.engine.planning.planner import WIDER_TABLES, Limits, Planner, Position
from lakestream.engine.reading.relations import history_of, skipped_of
from lakestream.engine.recalculation.recalculate import PartRun, is_reached
from lakestream.engine.recalculation.resync import Resync, groups_at
from lakestream.engine.rounds.agenda import Agenda, Look, Waiting
from lakestream.engine.rounds.retries import Retries, may_pass
from lakestream.engine.streams.stream import Stream, compile_stream
from lakestream.engine.streams.write import delete_output
from lakestream.engine.ticks.sharing import Member, Sharing, of_one_shape, shape_of
from lakestream.engine.ticks.tick import Tick, output_app
from lakestream.engine.windows.admission import FLUSH, STALE, due_of, mark_of_state
from lakestream.engine.windows.readmission import ANEW, anew
from lakestream.engine.windows.waiting import (
    TooManyWindowsError,
    far_groups,
    is_taking_up,
    let_go_on,
    let_wait,
    taking_up,
    waiting_groups,
)
from lakestream.errors import LakestreamError, SparkGoneError, StatementError, StorageError, StreamError
from lakestream.language import parse_statement
from lakestream.language.model import CreateStream
from lakestream.storage.delta import compact, read_commits
from lakestream.storage.registry import Failure, Progress
from lakestream.storage.session import check_error, check_spark_lives

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.clock import Clock
    from lakestream.engine.rounds.agenda import Alarm
    from lakestream.engine.streams.target import Target
    from lakestream.engine.ticks.tick import Outcome
    from lakestream.language.model import StreamDefinition
    from lakestream.notify.outbox import Outbox
    from lakestream.settings import Settings
    from lakestream.storage.catalog import Catalog
    from lakestream.storage.delta import Table
    from lakestream.storage.registry import Recalculation, Registry, StreamRecord, TickPlan
    from lakestream.triggers.period import Period


_log = logging.getLogger(__name__)
_ENDING_SECONDS = 2.0
"""How long Spark's JVM may take to end after its connection was lost."""


@dataclass(frozen=True)
class TickReport:
    """What a tick of a stream did; ``seconds`` is wall time, ``lag`` the source's commits still to take."""

    stream: str
    tick: int
    kind: str
    after: int
    upto: int
    commits: int
    rows_in: int
    rows_out: int
    windows: int
    late: int
    seconds: float
    transport: str
    lag: int
    error: str | None = None


@dataclass
class _Running:
    """A stream under the engine's care: compiled, with its state and place.

    ``mark`` is where its output stood after its last tick, None when that is not known; ``waiting`` what
    it waits for, None when the next round has to look at it.
    """

    record: StreamRecord
    stream: Stream
    target: Target
    position: Position
    state: GroupState
    pending: TickPlan | None = None
    mark: OutputMark | None = None
    totals: dict[str, int] = field(default_factory=dict)
    saved_tick: int = 0
    saved_at: float = 0.0
    not_before: float = 0.0
    delays: Delays | None = None
    closed_us: int = 0
    corrected: Corrected | None = None
    waiting: Waiting | None = None

    @cached_property
    def period(self) -> Period | None:
        """The instants at which the clock triggers it; None where rows do."""
        return self.stream.period(self.record.created_us) if self.stream.is_periodic else None

    @cached_property
    def shape(self) -> Hashable:
        """What is equal for streams whose ticks may share a query."""
        return shape_of(self.stream, self.target)

    def member(self, plan: TickPlan) -> Member:
        """Return a tick of it as one that may share its query with others."""
        history = history_of(self.record, self.stream.definition)
        return Member(self.stream, self.target, plan, self.state, history, self.shape)

    @property
    def alarm(self) -> Alarm | None:
        """When the clock makes something due, None for never."""
        due_us = self.waiting.due_us if self.waiting is not None else None
        return self.period or (None if due_us is None else from_micros(due_us))


@dataclass(frozen=True)
class _Done:
    """A tick that was run: its outcome, or what it failed of (None: it did not), and how long it took."""

    running: _Running
    plan: TickPlan
    outcome: Outcome | None
    seconds: float
    error: str | None = None


def definition_of(record: StreamRecord) -> StreamDefinition:
    """Read a registered stream's definition again from its statement."""
    statement = parse_statement(record.sql)
    if not isinstance(statement, CreateStream):
        raise TypeError(f"the registry holds no CREATE STREAM for {record.name}")
    definition = statement.definition
    named = replace(definition, name=definition.name.within(record.database))
    return named.within(record.extra.get("current", record.database))


def compile_record(record: StreamRecord, catalog: Catalog) -> Stream:
    """Compile a registered stream, but for groups that wait; StatementError when its tables have gone."""
    stream = compile_stream(
        record.uuid,
        definition_of(record),
        catalog,
        record.extra["zone"],
        exact=record.extra["exact"],
        way=Way(record.extra["way"]),
        partial_types=record.extra["partials"],
        floor_us=record.extra.get("floor_us"),
    )
    return replace(stream, waiting_groups=tuple(group.gid for group in waiting_groups(record)))


@dataclass
class Engine:
    """Runs the ticks of one lake's streams in this process, one at a time.

    ``spark`` is called on first need; ``meter`` gives real seconds for durations and rate limits;
    ``is_held`` tells which streams wait because their events cannot be sent, ``is_ours`` which ones are
    still this process's to run where daemons share them.
    """

    catalog: Catalog
    registry: Registry
    clock: Clock
    settings: Settings
    spark: Callable[[], SparkSession]
    meter: Clock
    epoch: int
    outbox: Outbox
    is_held: Callable[[str], bool] = field(default=lambda _: False)
    is_ours: Callable[[str], bool] = field(default=lambda _: True)
    _running: dict[str, _Running] = field(default_factory=dict)
    _dropping: list[StreamRecord] = field(default_factory=list)
    alarms: Mapping[str, Alarm] = field(default_factory=dict)
    """When the clock makes something due, by the stream's id: as of the last round."""
    _agenda: Agenda | None = None
    _retries: Retries = field(default_factory=Retries)
    _only: frozenset[str] | None = None

    def restrict(self, uuids: frozenset[str] | None) -> None:
        """Have rounds take these streams only, by id; None: all."""
        self._only, self._agenda = uuids, None

    def take(self, uuids: frozenset[str]) -> None:
        """Have rounds take what is this daemon's part now; what it did not have is read from the lake."""
        had = frozenset() if self._only is None else self._only
        for uuid in had - uuids:
            if uuid in self._running:
                self._save(self._running[uuid])
        for uuid in had ^ uuids:
            self.forget(uuid)
        # Commits of the daemon that ran a stream before are of an earlier turn than ours.
        self.epoch = to_micros(self.meter.now())
        self.restrict(uuids)

    def _streams(self) -> list[StreamRecord]:
        """Return the streams that rounds take."""
        return [r for r in self.registry.streams() if self._only is None or r.uuid in self._only]

    def round(self) -> list[TickReport]:
        """Run one tick of every stream that has something new, then a part of each recalculation.

        Nothing to do gives no report. Only streams that may have something to do are looked at.
        """
        now_us = to_micros(self.clock.now())
        look = self._look(now_us)
        if look.is_empty:
            return []
        planned = self._plan(look)
        try:
            reports = self._tick_all(planned)
        except Exception:
            # What of it has landed, the lake knows; what is in memory may not.
            self.forget()
            raise
        self._wait(look, {running.record.uuid for running, _ in planned}, now_us)
        return reports

    def is_idle(self) -> bool:
        """Return whether a round would find nothing to do; needs no lock."""
        return self._look(to_micros(self.clock.now())).is_empty

    def _look(self, now_us: int) -> Look:
        if self._agenda is None:
            return Look()
        return self._agenda.look(self.registry, self.catalog.handles, now_us)

    def _tick_all(self, planned: Sequence[tuple[_Running, TickPlan]]) -> list[TickReport]:
        new = [plan for running, plan in planned if running.pending is None]
        if new:
            reach("C1")
            self.registry.write_plans(new)
            reach("C2")
        reports = self._run_all(planned)
        self._delete_outputs()
        self._correct()
        return [*reports, *self._recalculate()]

    def _wait(self, look: Look, ticked: set[str], now_us: int) -> None:
        """Note what the streams that were looked at wait for now; those that ticked may have more to do."""
        for uuid, running in self._running.items():
            if look.streams is None or uuid in look.streams:
                running.waiting = None if uuid in ticked else self._waiting(running, now_us)
        retried = {uuid: due_us for uuid, due_us in self._retries.due.items() if uuid not in self._running}
        alarms = ((uuid, running.alarm) for uuid, running in self._running.items())
        self.alarms = {
            **{uuid: alarm for uuid, alarm in alarms if alarm is not None},
            **{uuid: from_micros(due_us) for uuid, due_us in retried.items()},
        }
        busy = self._dropping or any(job.is_open for job in self.registry.recalculations())
        waiting = {
            **{uuid: running.waiting for uuid, running in self._running.items()},
            **{uuid: Waiting("", due_us) for uuid, due_us in retried.items()},
        }
        self._agenda = None if busy else Agenda(self.registry.marks(), look.sources, waiting)

    def _waiting(self, running: _Running, now_us: int) -> Waiting | None:
        """Return what a stream waits for; None where that is its output's limit, or events to be sent."""
        if running.pending is not None or self.meter.monotonic() < running.not_before:
            return None
        if self.is_held(running.record.uuid):
            return None
        # What is written between two instants of PERIOD is for the second one to take.
        source = None if running.period is not None else running.stream.source.info.path
        return Waiting(source, _due_us(running, now_us))

    def _delete_outputs(self) -> None:
        """Take the output of dropped subtables back, once the stream has taken all that was in them."""
        for record in self._dropping:
            dropped: dict[str, int] = record.extra["dropped"]
            running = self._running.get(record.uuid)
            if running is None or running.position.version is None:
                continue
            done = {name for name, version in dropped.items() if version <= running.position.version}
            if not done:
                continue
            table = self.catalog.handles.open(running.target.info.path)
            delete_output(table, running.target, running.stream, running.state, done)
            left = {name: version for name, version in dropped.items() if name not in done}
            self.registry.update(record.uuid, extra={**record.extra, "dropped": left})

    def skip(self, record: StreamRecord) -> None:
        """Put a stream behind all commits of its source; what they wrote is not the stream's.

        Raises StatementError UNTREATED_NOT_IGNORED for a stream that is EXACT or takes history yet.
        """
        running = self._load(record, *self.registry.last(record.uuid))
        if running.pending is not None:
            self._run(running, running.pending)
        position = running.position
        if running.stream.exact or position.version is None:
            why = "follows every change" if running.stream.exact else "is still taking its history"
            raise StatementError("UNTREATED_NOT_IGNORED", f"{record.database}.{record.name} {why}")
        latest = self.catalog.handles.latest(running.stream.source.info.path).version
        if latest == position.version:
            return
        # First what is passed over, then the place behind it: a crash between the two is mended by
        # saying it again.
        known = [(after, upto) for after, upto in skipped_of(record) if after != position.version]
        extra = {**record.extra, "skipped": [*known, (position.version, latest)]}
        self.registry.update(record.uuid, extra=extra)
        mark = OutputMark.of(self._output(running))
        finished = to_micros(self.meter.now())
        passed = Progress(
            record.uuid,
            position.tick + 1,
            latest,
            finished_us=finished,
            extra={**running.totals, **mark.written(), **_corrected_extra(running)},
        )
        by_tick = running.stream.cut is not None or running.stream.assigner is not None
        by_tick = by_tick or running.delays is not None
        if by_tick and len(running.state):
            self._write_state(running, passed.tick, latest)
        self.registry.write_progress([passed])
        self.forget(record.uuid)

    def has_happened(self, app: str, number: int) -> bool | None:
        """Return whether a commit to an output and its record are done; None: they never will be."""
        uuid, job = app.split(":")[1], app.rpartition(":")[2]
        if all(record.uuid != uuid for record in self.registry.streams()):
            return None
        if app == output_app(uuid):
            progress = self.registry.last(uuid)[1]
            return progress is not None and progress.tick >= number
        found = next((one for one in self.registry.recalculations(uuid) if one.id == job), None)
        return None if found is None else found.part >= number

    def flush(self, record: StreamRecord) -> list[TickReport]:
        """Take all there is of a stream's source, then close what is open, as if no row were ever to come.

        Raises StatementError FLUSH_WITHOUT_EFFECT for a stream whose windows do not wait for a mark alone,
        StreamError when the stream fails meanwhile.
        """
        self._resynchronise()
        record = self.registry.stream(record.database, record.name)
        reports: list[TickReport] = []
        while True:
            running = self._load(record, *self.registry.last(record.uuid))
            if running.stream.assigner is None:
                raise StatementError(
                    "FLUSH_WITHOUT_EFFECT",
                    f"{record.database}.{record.name} follows its source; FLUSH STREAM is for windows that "
                    "leave late rows out",
                )
            plan = running.pending or self._next(running, Look())
            is_last = plan is None
            if plan is None:
                plan = self._planner(running).by_clock(running.position, FLUSH, {})
            assert plan is not None  # such a stream takes no history
            if running.pending is None:
                self.registry.write_plans([plan])
            reports.append(self._run(running, plan))
            if reports[-1].error is not None:
                raise StreamError("CALCULATION_FAILED", reports[-1].error)
            if is_last:
                self._save(running)
                return reports

    def held_back(self) -> float:
        """Return the seconds until the rate limit of some waiting output allows its next commit."""
        now = self.meter.monotonic()
        waits = [running.not_before - now for running in self._running.values() if running.not_before > now]
        return min(waits, default=0.0)

    def forget(self, uuid: str | None = None) -> None:
        """Drop what is kept in memory of a stream (or of all): it is read again on its next tick."""
        self._agenda = None
        if uuid is None:
            self._running.clear()
        else:
            self._running.pop(uuid, None)

    def next_plan(self, record: StreamRecord) -> tuple[Stream, Target, TickPlan | None]:
        """Return what the next tick of a stream would do, without doing it."""
        running = self._load(record, *self.registry.last(record.uuid))
        return running.stream, running.target, running.pending or self._next(running, Look())

    def next_instant(self, record: StreamRecord) -> int | None:
        """Return the instant of PERIOD that comes next (µs since 1970 UTC), None for other streams."""
        period = self._load(record, *self.registry.last(record.uuid)).period
        return None if period is None else period.following(to_micros(self.clock.now()))

    def compact(self) -> None:
        """Put the small files of a table that ticks write together, once it has grown by enough commits.

        One table at a time, the one that has grown most, so that no tick waits for long.
        """
        outputs = [running.target.info for running in self._running.values()]
        tables = [self.catalog.handles.known(info.path) for info in outputs if not info.external]
        grown = max(filter(None, [*tables, self.outbox.table]), key=lambda table: table.grown, default=None)
        if grown is not None and grown.grown >= self.settings.compact_commits > 0:
            compact(grown)

    def checkpoint(self) -> None:
        """Save the state of every stream that ticked since its last checkpoint."""
        for running in self._running.values():
            self._save(running)

    def state_of(self, record: StreamRecord) -> Callable[[], GroupState]:
        """Return what finds the state of a stream where it stands now, as it follows from the whole history.

        Where that is not known, after a resynchronisation or FLUSH STREAM, it is the one it goes on with.
        """
        running = self._load(record, *self.registry.last(record.uuid))
        state = running.state
        if "floor_us" in record.extra or running.stream.assigner is not None:
            return lambda: state
        plans = self._planner(running).replay(running.position, None)
        return lambda: self._replayed(running, plans, GroupState())

    def planner_of(self, record: StreamRecord, stream: Stream) -> Planner:
        """Return what plans the ticks of a stream."""
        now = to_micros(self.clock.now())
        return Planner(record, stream, self.catalog.handles, self._limits(), now, self.spark)

    def newest_of(self, record: StreamRecord) -> int | None:
        """Return the newest event time that a stream has taken in any group, in microseconds; None: none."""
        import pyarrow.compute as pc

        state = self._load(record, *self.registry.last(record.uuid)).state
        newest: int | None = pc.max(state.rows["newest"]).as_py() if state.rows is not None else None
        return newest

    # --- planning ---

    def _plan(self, look: Look) -> list[tuple[_Running, TickPlan]]:
        """Plan the running streams of a look; registry and sources are read once however many there are."""
        self._resynchronise()
        planned = []
        last = self.registry.last_of_all()
        known = self.registry.streams()
        self._retries.keep({r.uuid for r in known if r.status in ("Running", "Retrying")})
        records = self._streams()
        self._dropping = [record for record in records if record.extra.get("dropped")]
        for record in records:
            if not self._is_active(record):
                self._running.pop(record.uuid, None)
                continue
            if look.streams is not None and record.uuid not in look.streams:
                continue
            try:
                running = self._load(record, *last.get(record.uuid, (None, None)))
                if running.pending is None and self.is_held(record.uuid):
                    continue
                plan = running.pending or self._next(running, look)
            except Exception as error:  # noqa: BLE001 - a stream that fails must not stop its neighbours
                self._fail(record, as_failure(error))
                continue
            if plan is not None:
                if WIDER_TABLES in plan.extra:
                    running.stream = compile_record(record, self.catalog)
                planned.append((running, plan))
            else:
                self._recover(running)
        return planned

    def _is_active(self, record: StreamRecord) -> bool:
        """Return whether a stream runs, or has failed and is to be tried again now."""
        if record.status != "Retrying":
            return record.status == "Running"
        return self._retries.is_due(record.uuid, to_micros(self.clock.now()))

    def _recover(self, running: _Running) -> None:
        """Let a stream that was tried again run as others do."""
        if running.record.status == "Retrying":
            running.record = self.registry.update(running.record.uuid, status="Running", last_error=None)

    def _next(self, running: _Running, look: Look) -> TickPlan | None:
        """Plan the next tick; sources that were seen in this look are not looked at again."""
        if self.meter.monotonic() < running.not_before:
            return None
        path = running.stream.source.info.path
        tables = self.catalog.handles
        source = tables.open(path) if path in look.sources else tables.latest(path)
        look.sources.setdefault(path, source.mark)
        if running.period is not None:
            return self._period(running, running.period, source)
        planner = self._planner(running)
        if _is_stale(running.stream, running.state):
            return planner.by_clock(running.position, ANEW, {})
        return planner.following(running.position, source) or self._by_clock(running)

    def _period(self, running: _Running, period: Period, source: Table) -> TickPlan | None:
        """Plan the instant of PERIOD that is due; those before it that were missed are counted."""
        planner = self._planner(running)
        planner.check(running.position, source)
        due = period.due(running.closed_us, planner.clock_us)
        if due is None:
            return None
        instant, missed = due
        what = {
            "closed": [running.closed_us, instant],
            "neighbours": [period.previous(instant), period.following(instant)],
            "missed": missed,
        }
        return planner.period(running.position, source, instant, what)

    def _by_clock(self, running: _Running) -> TickPlan | None:
        """Plan what is due because time has passed, None for nothing."""
        planner = self._planner(running)
        if running.stream.definition.options.by_arrival:
            due_us = due_of(running.state)
            is_due = due_us is not None and due_us <= planner.clock_us
            return planner.by_clock(running.position, "clock", {}) if is_due else None
        closed = closed_by_clock(running.stream, planner.clock_us)
        if closed is not None and closed > running.closed_us:
            return planner.by_clock(running.position, "clock", {"closed": [running.closed_us, closed]})
        due = running.delays.due(planner.clock_us) if running.delays else []
        return planner.by_clock(running.position, "delay", {"windows": due}) if due else None

    def _planner(self, running: _Running) -> Planner:
        return self.planner_of(running.record, running.stream)

    def _limits(self) -> Limits:
        settings = self.settings
        return Limits(
            settings.max_commits_per_tick,
            settings.max_rows_per_tick,
            settings.max_bytes_per_tick,
            settings.small_rows,
            settings.small_bytes,
            settings.transport,
        )

    # --- recalculation ---

    def _resynchronise(self) -> None:
        """Give streams that were asked to resynchronise the place and state of the source as it is.

        Groups that are to be taken up again get the state of the stream's place.
        """
        for job in self.registry.recalculations():
            record = self._record_of(job) if job.is_open and "place" not in job.extra else None
            if record is None or not (job.resync or is_taking_up(job)):
                continue
            try:
                if is_taking_up(job):
                    self._take_up(record, job)
                    continue
                stream = replace(compile_record(record, self.catalog), waiting_groups=())
                most = self.settings.max_windows_per_tick
                resync = Resync(self.spark(), self.catalog, self.registry, record, stream, most)
                version = resync.run(to_micros(self.meter.now()))
            except Exception as error:  # noqa: BLE001 - a stream that fails must not stop its neighbours
                self._fail(record, as_failure(error))
                continue
            self._running.pop(record.uuid, None)
            # What PERIOD has written depends on when it did, and windows that leave late rows out fire
            # once: only place and state are taken anew.
            status = "Done" if stream.is_periodic or stream.assigner is not None else job.status
            self.registry.put_recalculation(
                replace(job, status=status, extra={**job.extra, "place": version})
            )
            self._supersede(job)

    def _take_up(self, record: StreamRecord, job: Recalculation) -> None:
        """Let groups wait no longer, as far as they need not; the job computes their windows then."""
        if not self._is_active(record):
            return
        running = self._load(record, *self.registry.last(record.uuid))
        position = running.position
        if running.pending is not None or position.version is None:
            return
        source = self.catalog.handles.latest(running.stream.source.info.path)
        if not is_reached(job, position.version, source.version):
            return
        history = history_of(record, running.stream.definition)
        stream = replace(running.stream, waiting_groups=())
        given = (self.spark(), self.catalog.handles, stream, history, position.version)
        found = groups_at(*given, only=job.extra["groups"])
        most = self.settings.max_windows_per_tick
        far = {group.gid for group in far_groups(self.spark(), stream, found, most)}
        taken = [gid for gid in job.extra["groups"] if gid not in far]
        # First their state, which counts for nothing while they wait: a crash is mended by doing it again.
        new = GroupState(found.drop_columns(["rows"])).only(taken)
        if new.rows is not None:
            running.state = running.state.updated(new.rows)
            self._write_state(running, position.tick, position.version)
        reach("C4")
        let_go_on(self.registry, record, taken)
        self.forget(record.uuid)
        extra = {**job.extra, "groups": taken, "place": position.version}
        self.registry.put_recalculation(replace(job, status=job.status if taken else "Done", extra=extra))

    def _supersede(self, job: Recalculation) -> None:
        """Let be what was asked for before a resynchronisation, which computes all windows anew."""
        for other in self.registry.recalculations(job.uuid):
            if other.is_open and other.id != job.id and other.requested_us <= job.requested_us:
                self.registry.put_recalculation(replace(other, status="Done"))

    def _correct(self) -> None:
        """Queue the recalculation of what changed late, for the streams that it is due for."""
        correcting = [running for running in self._running.values() if running.corrected is not None]
        if not correcting:
            return
        now_us = to_micros(self.clock.now())
        busy = {job.uuid for job in self.registry.recalculations() if job.is_open}
        for running in correcting:
            due = last_due(running.stream, running.record.created_us, now_us)
            version = running.position.version
            assert due is not None and running.corrected is not None  # noqa: PT018 - by correcting
            if running.record.uuid in busy or version is None or running.pending is not None:
                continue
            if due <= running.corrected.due_us:
                continue
            source = self.catalog.handles.open(running.stream.source.info.path)
            try:
                running.corrected, job = correct(
                    self.spark(), running.stream, source, running.corrected, due, version
                )
            except LakestreamError as error:
                self._fail(running.record, error)
                continue
            if job is not None:
                self.registry.put_recalculation(job)

    def _recalculate(self) -> list[TickReport]:
        """Run one part of the oldest open recalculation of every running stream."""
        reports, busy = [], set()
        for job in self.registry.recalculations():
            record = self._record_of(job) if job.is_open and job.uuid not in busy else None
            if record is None or not self._is_active(record) or self.is_held(record.uuid):
                continue
            busy.add(job.uuid)
            report = self._run_part(record, job)
            if report is not None:
                reports.append(report)
        return reports

    def _record_of(self, job: Recalculation) -> StreamRecord | None:
        return next((record for record in self._streams() if record.uuid == job.uuid), None)

    def _run_part(self, record: StreamRecord, job: Recalculation) -> TickReport | None:
        started = self.meter.monotonic()
        try:
            running = self._load(record, *self.registry.last(record.uuid))
            version = running.position.version
            if running.pending is not None or version is None or is_taking_up(job):
                return None
            source = self.catalog.handles.open(running.stream.source.info.path)
            if not is_reached(job, version, source.version):
                return None
            self._output(running)
            try:
                plan, outcome = self._part(running, job, version).run(
                    lambda plan: self._tick(running, plan, running.state, landed=False)
                )
            except TooManyWindowsError as error:
                if not self._let_wait(running, error):
                    raise
                return self._run_part(running.record, job)
        except Exception as error:  # noqa: BLE001 - a stream that fails must not stop its neighbours
            self._fail(record, as_failure(error))
            return None
        return self._report(running, plan, outcome, self.meter.monotonic() - started, None)

    def _part(self, running: _Running, job: Recalculation, version: int) -> PartRun:
        groups = job.extra.get("groups")
        return PartRun(
            self.registry,
            self.catalog.handles,
            job,
            running.stream,
            running.target.info.path,
            self._planner(running),
            version,
            running.state if groups is None else running.state.only(groups),
            self.settings.recalculation_rows,
            max(1, self.settings.max_windows_per_tick // 2),
        )

    # --- loading and recovery ---

    def _load(self, record: StreamRecord, plan: TickPlan | None, progress: Progress | None) -> _Running:
        """Return the stream as it is in memory, or read its place and state from the lake."""
        known = self._running.get(record.uuid)
        if (
            known is not None
            and known.record == record
            and known.position.tick == (progress.tick if progress else 0)
        ):
            return known
        stream = compile_record(record, self.catalog)
        target = open_target(stream, record, self.catalog, self.spark)
        position = _position(record, stream, progress)
        pending = plan if plan is not None and plan.tick > position.tick else None
        taken = pending.upto if pending is not None else position.version
        check_source(record, taken, self.catalog.handles.latest(stream.source.info.path))
        done = plan.table_versions if plan is not None and pending is None else {}
        if check_tables(stream, self.catalog.handles, done):
            refuse_other_results(self.spark(), record, stream)
        totals = {name: progress.extra.get(name, 0) for name in TOTALS} if progress else {}
        mark = OutputMark.read(progress.extra) if progress else None
        running = _Running(record, stream, target, position, GroupState(), pending, mark, totals)
        delay = stream.definition.options.max_delay
        saved = self.registry.read_state(record.uuid, position.tick) if position.tick else None
        if delay is not None:
            running.delays = Delays.restored(delay.micros, saved[1] if saved else None)
        running.state = self._restored(running, saved, plan)
        running.saved_tick, running.saved_at = position.tick, self.meter.monotonic()
        known_us = progress.extra.get("closed_us") if progress else None
        running.closed_us = record.created_us if known_us is None else known_us
        if stream.definition.options.recalculate_every is not None:
            version = record.start_version if position.version is None else position.version
            extra = progress.extra if progress else {}
            running.corrected = Corrected.read(extra, record.created_us, version)
        if plan is not None:
            self._restore_delays(running, plan)
        self._running[record.uuid] = running
        return running

    def _restore_delays(self, running: _Running, last: TickPlan) -> None:
        """Follow the last tick, which the saved delays may lack: saying it again changes nothing."""
        if running.delays is not None:
            rows = running.state.rows
            running.delays.follow(open_windows(self.spark(), running.stream, rows), last.clock_us)
        if running.pending is None:
            self._take_clock(running, last)

    def _follow_touched(self, running: _Running, delays: Delays, now_us: int) -> None:
        """Follow the windows of the groups that the last tick has touched; those that wait have none."""
        gids = running.state.touched
        touched = [] if gids is None else gids.to_pylist()
        opened = open_windows(self.spark(), running.stream, running.state.of(gids) if touched else None)
        delays.follow(opened, now_us, [*touched, *running.stream.waiting_groups])

    def _restored(
        self, running: _Running, saved: tuple[int, pa.Table] | None, last: TickPlan | None
    ) -> GroupState:
        """Take the last checkpoint of the state, and follow what the source did since.

        State is a function of the history, so one range does for however many ticks there were; where it
        is one of the clock too, it was saved with every tick, and ``last`` is the only one that it may lack.
        """
        position = running.position
        if position.tick == 0:
            return GroupState()
        keeps = {
            "keeps_expired": running.stream.keeps_expired,
            "keeps_closed": running.stream.keeps_closed,
        }
        loaded = GroupState.loaded(saved[1], **keeps) if saved else None
        version, state = loaded or (None, GroupState())
        state = state.without(running.stream.waiting_groups)
        plans = self._planner(running).replay(position, version)
        if saved is not None and saved[0] < position.tick and _is_stale(running.stream, state):
            plans.insert(0, anew(running.record.uuid, 0, version or 0))
        if last is not None and last.tick == position.tick and (saved is None or saved[0] < last.tick):
            if running.stream.definition.options.by_arrival:
                plans = [last]
            elif last.kind == FLUSH:
                plans.append(last)
        return self._replayed(running, plans, state)

    def _replayed(self, running: _Running, plans: Sequence[TickPlan], state: GroupState) -> GroupState:
        for plan in plans:
            state = self._tick(running, plan, state, landed=True).run().state
        return state

    # --- running ---

    def _tick(self, running: _Running, plan: TickPlan, state: GroupState, *, landed: bool) -> Tick:
        return Tick(
            spark=self.spark(),
            tables=self.catalog.handles,
            stream=running.stream,
            target=running.target,
            plan=plan,
            state=state,
            history=history_of(running.record, running.stream.definition),
            max_windows=self.settings.max_windows_per_tick,
            epoch=self.epoch,
            landed=landed,
            outbox=self.outbox,
        )

    def _run_all(self, planned: Sequence[tuple[_Running, TickPlan]]) -> list[TickReport]:
        """Run the ticks of a round: streams of one shape together, then the others one by one."""
        reports: list[TickReport] = []
        together: set[str] = set()
        new = [(running, plan) for running, plan in planned if running.pending is None]
        members = [running.member(plan) for running, plan in new] if len(new) > 1 else []
        for group in of_one_shape(members):
            updated = self._updated(group)
            ticks = [(running, plan) for running, plan in planned if plan.uuid in updated]
            done = [self._ticked(running, plan, updated[plan.uuid]) for running, plan in ticks]
            reports += self._record(done)
            together |= {*updated}
        return reports + [self._run(running, plan) for running, plan in planned if plan.uuid not in together]

    def _updated(self, members: list[Member]) -> dict[str, pa.Table]:
        """Return what one query gave for streams of one shape; nothing where it fails: each is then run."""
        sharing = Sharing(self.spark(), self.catalog.handles, self.settings.max_windows_per_tick)
        try:
            return sharing.run(members)
        except Exception:  # noqa: BLE001 - whose fault it is shows when each runs by itself
            _log.warning("a query that %d streams share failed", len(members), exc_info=True)
            return {}

    def _run(self, running: _Running, plan: TickPlan) -> TickReport:
        """Run and record a tick."""
        return self._record([self._ticked(running, plan)])[0]

    def _ticked(self, running: _Running, plan: TickPlan, updated: pa.Table | None = None) -> _Done:
        """Run a tick up to the commit of its output; ``updated`` is what its update query gave, if known."""
        started, landed = self.meter.monotonic(), True
        try:
            output = self._output(running)
            landed = self._has_landed(running, plan, output)
            tick = self._tick(running, plan, running.state, landed=landed)
            tick.updated = updated
            outcome = tick.run()
        except Exception as error:  # noqa: BLE001 - a stream that fails must not stop its neighbours
            failure = as_failure(error)
            if isinstance(failure, TooManyWindowsError) and not landed:
                if self._let_wait(running, failure):
                    return self._ticked(running, plan)
                self._withdraw(running, plan)
            self._fail(running.record, failure)
            return _Done(running, plan, None, self.meter.monotonic() - started, failure.message)
        if outcome.shrunk:
            now_us = to_micros(self.meter.now())
            self.registry.put_recalculation(taking_up(running.record, outcome.shrunk, plan.upto, now_us))
        return _Done(running, plan, outcome, self.meter.monotonic() - started)

    def _let_wait(self, running: _Running, failure: TooManyWindowsError) -> bool:
        """Have the groups wait of which too many windows would fire; return whether the others can go on."""
        if not failure.groups or not self.is_ours(running.record.uuid):
            return False
        record = let_wait(self.registry, running.record, failure.groups)
        if record is None:
            return False
        self._note(record, failure)
        running.record, gids = record, [group.gid for group in waiting_groups(record)]
        running.stream = replace(running.stream, waiting_groups=tuple(gids))
        running.state = running.state.without(gids)
        return True

    def _withdraw(self, running: _Running, plan: TickPlan) -> None:
        """Let a tick be over that has written nothing: what it was to take is planned anew, as it is then.

        So a row that is deleted leads back. Where policies judge commit by commit, it does not.
        """
        if plan.kind != "changes" or not running.stream.forgets_what_went:
            return
        _, progress = self.registry.last(plan.uuid)
        extra = {**(progress.extra if progress else {}), "kind": "withdrawn"}
        now_us = to_micros(self.meter.now())
        self.registry.write_progress(
            [Progress(plan.uuid, plan.tick, plan.after, finished_us=now_us, extra=extra)]
        )

    def _record(self, done: Sequence[_Done]) -> list[TickReport]:
        """Record ticks that were run, in one commit."""
        progress = [(one, one.outcome, self._progress(one, one.outcome)) for one in done if one.outcome]
        self.registry.write_progress([record for *_, record in progress])
        if progress:
            reach("C7")
        for one, outcome, record in progress:
            self._advance(one.running, one.plan, outcome, record)
        return [self._report(one.running, one.plan, one.outcome, one.seconds, one.error) for one in done]

    def _output(self, running: _Running) -> Table:
        """Return the output at its latest version, made again when it was dropped by another process.

        Raises StreamError OUTPUT_REWOUND when rows of it were taken back.
        """
        try:
            table = self.catalog.handles.latest(running.target.info.path)
        except StorageError as error:
            if error.code != "TABLE_NOT_FOUND":
                raise
            running.target = open_target(running.stream, running.record, self.catalog, self.spark)
            table = self.catalog.handles.latest(running.target.info.path)
        check_output(running.mark, table)
        return table

    def _has_landed(self, running: _Running, plan: TickPlan, output: Table) -> bool:
        """Return whether an earlier run of this plan committed its output (only asked after a crash)."""
        if running.pending is None:
            return False
        return (output.transaction_version(output_app(running.record.uuid)) or 0) >= plan.tick

    def _progress(self, done: _Done, outcome: Outcome) -> Progress:
        """Return the record of a tick whose output is there."""
        running, plan = done.running, done.plan
        mark = OutputMark.of(self.catalog.handles.open(running.target.info.path))
        pause = self._pause_after(running, outcome) - done.seconds
        return Progress(
            uuid=plan.uuid,
            tick=plan.tick,
            version=plan.upto,
            rows_in=outcome.rows_in,
            rows_out=outcome.rows_out,
            late=outcome.late,
            seconds=done.seconds,
            finished_us=to_micros(self.meter.now()),
            extra={
                "kind": plan.kind,
                "lag": self._lag(running, plan),
                "windows": outcome.windows,
                "held_until": self.meter.now().timestamp() + max(0.0, pause),
                **_added(running.totals, outcome),
                **mark.written(),
                **_history_extra(plan),
                **_closed_extra(running, plan),
                **_corrected_extra(running),
            },
        )

    def _advance(self, running: _Running, plan: TickPlan, outcome: Outcome, progress: Progress) -> None:
        """Let the stream stand after a tick that is recorded."""
        self._recover(running)
        self._retries.forget(plan.uuid)
        running.pending, running.mark = None, OutputMark.read(progress.extra)
        running.state = outcome.state
        running.totals = {name: progress.extra[name] for name in TOTALS}
        running.position = _position(running.record, running.stream, progress)
        held = progress.extra["held_until"] - self.meter.now().timestamp()
        running.not_before = self.meter.monotonic() + max(0.0, held)
        self._take_clock(running, plan)
        self._save_when_due(running)

    def _take_clock(self, running: _Running, plan: TickPlan) -> None:
        """Follow what the tick opened or closed, and what of the clock it has done."""
        if "closed" in plan.extra:
            running.closed_us = plan.extra["closed"][1]
        if running.delays is None:
            return
        if plan.kind == "delay":
            running.delays.fire(((gid, k) for gid, k in plan.extra["windows"]), plan.clock_us)
        else:
            self._follow_touched(running, running.delays, plan.clock_us)

    def _pause_after(self, running: _Running, outcome: Outcome) -> float:
        """Return the seconds that the sink's limits put between this output commit and the next one."""
        version, settings = outcome.output_version, self.settings
        if version is None:
            return 0.0
        pause = 1 / settings.sink_commits_per_second if settings.sink_commits_per_second else 0.0
        if settings.sink_bytes_per_second:
            commit = read_commits(running.target.info.path, version - 1, version)[0]
            pause = max(pause, commit.add_bytes / settings.sink_bytes_per_second)
        return pause

    def _save_when_due(self, running: _Running) -> None:
        ticks = running.position.tick - running.saved_tick
        age = self.meter.monotonic() - running.saved_at
        # Its state follows from the ticks and when they were, not from a range.
        stream = running.stream
        by_tick = stream.cut is not None or stream.definition.options.by_arrival or running.delays is not None
        if by_tick or ticks >= self.settings.checkpoint_ticks or age >= self.settings.checkpoint_seconds:
            self._save(running)

    def _save(self, running: _Running) -> None:
        position = running.position
        if position.tick == running.saved_tick or position.version is None or not len(running.state):
            return
        self._write_state(running, position.tick, position.version)
        reach("C4")
        running.saved_tick, running.saved_at = running.position.tick, self.meter.monotonic()

    def _write_state(self, running: _Running, tick: int, version: int) -> None:
        state = running.state.saved(version)
        self.registry.write_state(
            running.record.uuid, tick, running.delays.saved(state) if running.delays is not None else state
        )

    def _fail(self, record: StreamRecord, error: LakestreamError) -> None:
        """Give the stream its named state, or try it again later; its neighbours go on."""
        self._running.pop(record.uuid, None)
        if not self.is_ours(record.uuid):
            return
        named = named_state(record, error)
        self._note(record, named)
        # In an object store another process may just have run the stream: what it did is read then.
        rival = named.code == "FENCED" and not self.catalog.layout.is_local
        if not (may_pass(named) or rival):
            self.registry.update(record.uuid, status="Failed", last_error=str(named))
            return
        retry_us = self._retries.put(record.uuid, to_micros(self.clock.now()))
        extra = {**record.extra, "retry_us": retry_us}
        self.registry.update(record.uuid, status="Retrying", last_error=str(named), extra=extra)

    def _note(self, record: StreamRecord, error: LakestreamError) -> None:
        """Add a failure to what is remembered of the stream's ticks."""
        progress = self.registry.last(record.uuid)[1]
        tick = progress.tick + 1 if progress else 1
        now_us = to_micros(self.meter.now())
        self.registry.put_failure(Failure(uuid4().hex, record.uuid, now_us, tick, error.code, error.message))

    def _report(
        self, running: _Running, plan: TickPlan, outcome: Outcome | None, seconds: float, error: str | None
    ) -> TickReport:
        return TickReport(
            stream=f"{running.record.database}.{running.record.name}",
            tick=plan.tick,
            kind=plan.kind,
            after=plan.after,
            upto=plan.upto,
            commits=plan.upto - plan.after if plan.kind == "changes" else 0,
            rows_in=outcome.rows_in if outcome else 0,
            rows_out=outcome.rows_out if outcome else 0,
            windows=outcome.windows if outcome else 0,
            late=outcome.late if outcome else 0,
            seconds=seconds,
            transport=str(plan.extra.get("transport", "")),
            lag=self._lag(running, plan),
            error=error,
        )

    def _lag(self, running: _Running, plan: TickPlan) -> int:
        """Return how many commits of the source there are behind a tick, as far as was seen."""
        return max(0, self.catalog.handles.open(running.stream.source.info.path).version - plan.upto)


def _is_stale(stream: Stream, state: GroupState) -> bool:
    """Return whether all windows of a stream that admits rows are to be made anew before all else."""
    return stream.assigner is not None and mark_of_state(state) == STALE


def _due_us(running: _Running, now_us: int) -> int | None:
    """Return the next instant at which time alone makes a stream tick (µs), None for none."""
    if running.period is not None:
        return running.period.after(now_us)
    options = running.stream.definition.options
    if options.by_arrival:
        return due_of(running.state)
    if options.by_clock:
        return next_close(running.stream, now_us)
    if options.recalculate_every is not None:
        return next_due(running.stream, running.record.created_us, now_us)
    return running.delays.next_due() if running.delays is not None else None


TOTALS = ("total_in", "total_out", "total_late", "total_missed")
"""Counts since the stream was created, in every progress record: nobody reads all ticks for them."""


def _added(totals: dict[str, int], outcome: Outcome) -> dict[str, int]:
    counted = (outcome.rows_in, outcome.rows_out, outcome.late, outcome.missed)
    return {name: totals.get(name, 0) + count for name, count in zip(TOTALS, counted, strict=True)}


def _position(record: StreamRecord, stream: Stream, progress: Progress | None) -> Position:
    wants_history = stream.definition.options.wants_history
    if progress is None:
        return Position(0, None if wants_history else record.start_version)
    following = progress.extra.get("next_slice")
    if following is not None:
        return Position(progress.tick, None, following, tuple(progress.extra["cuts"]))
    return Position(progress.tick, progress.version)


def _history_extra(plan: TickPlan) -> dict[str, object]:
    """Return what the next part of history needs to know, nothing when this was the last one."""
    if plan.kind != "history" or plan.extra["slice"] == len(plan.extra["cuts"]):
        return {}
    return {"next_slice": plan.extra["slice"] + 1, "cuts": plan.extra["cuts"]}


def _closed_extra(running: _Running, plan: TickPlan) -> dict[str, object]:
    """Return up to where the clock has closed windows, for a stream whose windows it closes."""
    if not (running.stream.definition.options.by_clock or running.stream.is_periodic):
        return {}
    return {"closed_us": plan.extra["closed"][1] if "closed" in plan.extra else running.closed_us}


def _corrected_extra(running: _Running) -> dict[str, object]:
    """Return up to where changes have been corrected, for a stream that does so from time to time."""
    return running.corrected.written() if running.corrected is not None else {}


def as_failure(error: Exception) -> LakestreamError:
    """Return what a tick failed of as the named state of its stream; its neighbours go on.

    What is neither ours nor Spark's is a defect: it goes to the log with its traceback. Raises SparkGoneError
    when Spark itself has ended: that is no stream's fault.
    """
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    if isinstance(error, SparkGoneError):
        raise error
    if isinstance(error, LakestreamError):
        return error
    if isinstance(error, ConnectionError | Py4JNetworkError):
        check_spark_lives(wait_seconds=_ENDING_SECONDS)
    if isinstance(error, OSError):
        return StorageError("IO_ERROR", str(error))
    if isinstance(error, PySparkException | Py4JError):
        check_spark_lives()
        check_error(error)
        return StreamError("CALCULATION_FAILED", spark_message(error))
    _log.exception("a tick failed")
    return StreamError("INTERNAL", f"{type(error).__name__}: {error}", hint="this is a defect of lakestream")
