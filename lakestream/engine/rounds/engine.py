"""The engine of one lake: rounds of ticks over all its streams, and going on where they stopped.

A round plans every stream that has something new, writes the plans, runs one after the other what is
small, and records what they did; what needs Spark it leaves to turns (:mod:`lakestream.engine.lanes`). The
commit to an output table is the commit point of a tick: whatever is lost before it is done again by the same
plan, whatever comes after it follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakestream.engine.base.faults import crash_point
from lakestream.engine.base.instants import from_micros, to_micros
from lakestream.engine.base.state import GroupState
from lakestream.engine.base.turns import TurnNeededError, Turns
from lakestream.engine.creation.compile import compile_record
from lakestream.engine.planning.corrections import next_due
from lakestream.engine.rounds.failing import Failing
from lakestream.engine.rounds.following import Dividing, Following, Held, RecordedStreams
from lakestream.engine.rounds.loading import Loader
from lakestream.engine.rounds.recalculating import Recalculating
from lakestream.engine.rounds.recording import Recording
from lakestream.engine.rounds.ticking import Ticking
from lakestream.engine.rounds.wakeups import Look, Seen, WaitCondition, WakeUpIndex
from lakestream.engine.streams.write import delete_output
from lakestream.engine.windows.once.admission import FLUSH
from lakestream.errors import StatementError, StreamError
from lakestream.storage.delta import Owed, Seldom, commit_digest, compact, shorten_log
from lakestream.storage.records.registry import Progress, TablePosition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lakestream.engine.base.turns import Turn
    from lakestream.engine.lanes.slot import Slot
    from lakestream.engine.rounds.runtime import Services, StreamRuntime, TickReport
    from lakestream.engine.rounds.wakeups import Alarm
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.streams.target import Target
    from lakestream.storage.delta import Table
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import StreamRecord, TickPlan


@dataclass
class Engine:
    """Runs the ticks of one lake's streams in this process, one at a time in one thread."""

    services: Services
    alarms: Mapping[str, Alarm] = field(default_factory=dict)
    """When the clock makes something due, by the stream's id: as of the last round."""
    loader: Loader = field(init=False)
    failing: Failing = field(init=False)
    recording: Recording = field(init=False)
    ticking: Ticking = field(init=False)
    recalculating: Recalculating = field(init=False)
    following: Following = field(init=False)
    asking: Seldom = field(init=False)
    held: Held = field(init=False)
    """The streams that the last round left alone though they may have something to do."""
    _before: Engine | None = None
    """The engine that this one takes a turn of, and shares what it has tried with."""
    _owed: Owed = field(default_factory=Owed)
    _dropping: list[StreamRecord] = field(default_factory=list)
    _wakeups: WakeUpIndex | None = None

    def __post_init__(self) -> None:
        """Put its parts together."""
        before = self._before
        self.loader = Loader(self.services)
        self.failing = Failing(self.services, self.loader)
        self.recording = Recording(self.services, self.loader, self.failing)
        dividing = Dividing(self.services)
        if before is not None:
            self.failing.retries, dividing.tried = before.failing.retries, before.ticking.dividing.tried
        self.ticking = Ticking(self.services, self.loader, self.failing, self.recording, dividing)
        parts = (self.services, self.loader, self.failing, self.recording, self.ticking)
        self.recalculating = Recalculating(*parts)
        self.following = Following(self.services)
        self.asking = Seldom(self.services.system_clock)
        self.held = Held(self.services)

    def restrict(self, uuids: frozenset[str] | None) -> None:
        """Have rounds take these streams only, by id; None: all."""
        self.services.only, self._wakeups = uuids, None

    def take(self, uuids: frozenset[str]) -> None:
        """Have rounds take what is this daemon's part now; what it did not have is read from the lake."""
        had = frozenset() if self.services.only is None else self.services.only
        self.checkpoint(had - uuids)
        for uuid in had ^ uuids:
            self.forget(uuid)
        # Commits of the daemon that ran a stream before are of an earlier turn than ours.
        self.services.epoch = to_micros(self.services.system_clock.now())
        self.restrict(uuids)

    def see(self) -> Seen:
        """Return what the next round is to go by; needs no lock."""
        now_us, marks = to_micros(self.services.clock.now()), self._marks()
        return Seen(now_us, marks, self._look(marks, now_us))

    def round(self, seen: Seen) -> list[TickReport]:
        """Run one tick of every stream that has something new, then a part of each recalculation.

        Nothing to do gives no report. Only streams that may have something to do are looked at. What needs
        Spark is left to turns.
        """
        now_us, marks, look = seen.now_us, seen.marks, seen.look
        self.held = Held(self.services)
        self.services.turns.missed.clear()
        if look.is_empty:
            return []
        with self.services.turns.within_round(), self._owed.put_off():
            planned = self._plan(look, marks)
            try:
                reports = self._tick_all(planned)
            except Exception:
                # What of it is committed, the lake knows; what is in memory may not.
                self.forget()
                raise
            if reports:
                self.keep_up()
                self._owed.pay(len(reports))
        for uuid in self.services.turns.elsewhere & {*self.loader.known}:
            self.services.turns.known[uuid] = self.loader.known.pop(uuid)
        self.loader.spill()
        self._wait(look, marks, {runtime.record.uuid for runtime, _ in planned}, now_us)
        return reports

    def take_turn(self, turn: Turn) -> list[TickReport]:
        """Run the ticks that a turn was left, or what is due of its streams; then recalculations of them."""
        try:
            if turn.planned is None:
                return self._tick_all(self._plan(Look(), self.services.registry.marks()))
            return self._tick_all(turn.planned, are_written=True)
        except Exception:
            self.forget()
            raise

    def take_back(self, turn: Turn, own: Engine) -> None:
        """Go on with the streams of a turn, as its engine left them."""
        self.services.turns.come_back(turn)
        back = {uuid: one for uuid, one in own.loader.known.items() if self.services.takes(uuid)}
        for runtime in back.values():
            runtime.waiting = None
        self.loader.known.update(back)
        if self._wakeups is not None:
            self._wakeups = self._wakeups.busy_too(turn.uuids)

    def _marks(self) -> tuple[int, ...]:
        """Return how far the registry has come, as of now or, in a store, of some seconds ago."""
        registry, is_local = self.services.registry, self.services.catalog.layout.is_local
        is_asked = is_local or self._wakeups is None or self.asking.is_due()
        return registry.marks() if is_asked else registry.seen()

    def _look(self, marks: tuple[int, ...], now_us: int) -> Look:
        if self._wakeups is None:
            return Look()
        return self._wakeups.look(marks, self.services.catalog.handles, now_us)

    def _tick_all(
        self, planned: Sequence[tuple[StreamRuntime, TickPlan]], *, are_written: bool = False
    ) -> list[TickReport]:
        new = [] if are_written else [plan for runtime, plan in planned if runtime.pending is None]
        if new:
            crash_point("C1")
            self.services.registry.write_plans(new)
            crash_point("C2")
        reports = self.ticking.run_all(planned)
        self._delete_outputs()
        self.recalculating.correct()
        return [*reports, *self.recalculating.recalculate()]

    def _wait(self, look: Look, marks: tuple[int, ...], ticked: set[str], now_us: int) -> None:
        """Note what the streams that were looked at wait for now; those that ticked may have more to do.

        ``marks`` are the registry's from before it was read: the next round sees what others write meanwhile.
        """
        for uuid, runtime in self.loader.known.items():
            if look.streams is None or uuid in look.streams:
                runtime.waiting = None if uuid in ticked else self._waiting(runtime, now_us)
        here = self.loader.known
        retried = {
            uuid: due_us
            for uuid, due_us in self.failing.retries.due.items()
            if uuid not in here and self.services.takes(uuid)
        }
        alarms = ((uuid, runtime.alarm) for uuid, runtime in self.loader.known.items())
        self.alarms = {
            **{uuid: alarm for uuid, alarm in alarms if alarm is not None},
            **{uuid: from_micros(due_us) for uuid, due_us in retried.items()},
        }
        jobs = (job for job in self.services.registry.recalculations() if self.services.takes(job.uuid))
        busy = self._dropping or any(job.is_open for job in jobs)
        waiting: dict[str, WaitCondition | None] = {
            **dict.fromkeys(self.held.claimed),
            **{uuid: runtime.waiting for uuid, runtime in self.loader.known.items()},
            **{uuid: WaitCondition((), due_us) for uuid, due_us in retried.items()},
        }
        self._wakeups = None if busy else WakeUpIndex(marks, look.sources, waiting)

    def _waiting(self, runtime: StreamRuntime, now_us: int) -> WaitCondition | None:
        """Return what a stream waits for; None where that is not a table's commit or the clock."""
        if runtime.pending is not None or runtime.record.uuid in self.held:
            return None
        # What is written between two instants of PERIOD is for the second one to take.
        sources = () if runtime.period is not None else runtime.paths
        return WaitCondition(sources, _due_us(runtime, now_us))

    def _delete_outputs(self) -> None:
        """Take the output of dropped subtables back, once the stream has taken all that was in them."""
        for record in self._dropping:
            runtime = self.loader.known.get(record.uuid)
            if runtime is None or runtime.position.version is None:
                continue
            if not (self.services.takes(record.uuid) and self.services.turns.take(record.uuid)):
                continue
            if not self.loader.stands(runtime):
                continue
            dropped = self.services.registry.stream(record.database, record.name).dropped
            done = {name for name, version in dropped.items() if version <= runtime.position.version}
            if not done:
                continue
            table = self.services.catalog.handles.open(runtime.target.info.path)
            delete_output(table, runtime.target, runtime.stream, runtime.state, done)
            left = {name: version for name, version in dropped.items() if name not in done}
            self.services.registry.update(record.uuid, dropped=left)

    def skip(self, record: StreamRecord) -> None:
        """Put a stream behind all commits of its source; what they wrote is not the stream's.

        Raises StatementError UNTREATED_NOT_IGNORED for a stream that is EXACT or takes history yet.
        """
        runtime = self.loader.load(record, *self.services.registry.last(record.uuid))
        if runtime.pending is not None:
            self.ticking.run(runtime, runtime.pending)
        position = runtime.position
        if runtime.stream.exact or position.version is None:
            why = "follows every change" if runtime.stream.exact else "is still taking its history"
            raise StatementError("UNTREATED_NOT_IGNORED", f"{record.database}.{record.name} {why}")
        source = runtime.stream.source.info.path
        latest = self.services.catalog.handles.latest(source).version
        if latest == position.version:
            return
        # First what is passed over, then the place behind it: a crash between the two is mended by
        # saying it again.
        known = [(after, upto) for after, upto in record.skipped if after != position.version]
        self.services.registry.update(record.uuid, skipped=(*known, (position.version, latest)))
        mark = TablePosition.of(self.ticking.output(runtime))
        finished = to_micros(self.services.system_clock.now())
        passed = Progress(
            record.uuid,
            position.tick + 1,
            latest,
            finished_us=finished,
            totals=runtime.totals,
            output=mark,
            beside=dict(runtime.beside),
            corrected=runtime.corrected,
            commit=commit_digest(source, latest),
        )
        by_tick = runtime.family.saves_each_tick(runtime.standing) or not runtime.family.follows_history
        if by_tick and len(runtime.state):
            self.recording.write_state(runtime, passed.tick, latest)
        self.services.registry.write_progress([passed])
        self.forget(record.uuid)

    def flush(self, record: StreamRecord) -> list[TickReport]:
        """Take all there is of a stream's source, then close what is open, as if no row were ever to come.

        Raises StatementError FLUSH_WITHOUT_EFFECT for a stream whose windows wait for more than that,
        StreamError when the stream fails meanwhile.
        """
        self.recalculating.resynchronise()
        record = self.services.registry.stream(record.database, record.name)
        reports: list[TickReport] = []
        while True:
            runtime = self.loader.load(record, *self.services.registry.last(record.uuid))
            if not runtime.family.flushes:
                raise StatementError(
                    "FLUSH_WITHOUT_EFFECT",
                    f"{record.database}.{record.name} follows its source; FLUSH STREAM is for windows that "
                    "leave late rows out",
                )
            self.following.rest(runtime)
            plan = runtime.pending or self.following.next(runtime, Look())
            is_last = plan is None
            if plan is None:
                plan = self.services.planner(runtime).by_clock(runtime.position, FLUSH)
            assert plan is not None  # such a stream takes no history
            if runtime.pending is None:
                self.services.registry.write_plans([plan])
            reports.append(self.ticking.run(runtime, plan))
            if reports[-1].error is not None:
                raise StreamError("CALCULATION_FAILED", reports[-1].error)
            if is_last:
                self.recording.save(runtime)
                return reports

    def forget(self, uuid: str | None = None) -> None:
        """Drop what is kept in memory of a stream (or of all): it is read again on its next tick."""
        self._wakeups = None
        self.loader.forget(uuid)

    def next_plan(self, record: StreamRecord) -> tuple[Stream, Target, TickPlan | None]:
        """Return what the next tick of a stream would do, without doing it."""
        runtime = self.loader.load(record, *self.services.registry.last(record.uuid))
        return runtime.stream, runtime.target, runtime.pending or self.following.next(runtime, Look())

    def computed_by(self, record: StreamRecord, plan: TickPlan) -> str:
        """Return who computes a tick of a stream, and why it is Spark where it is."""
        return self.loader.computed_by(self.loader.known[record.uuid], plan)

    def next_instant(self, record: StreamRecord) -> int | None:
        """Return the instant of PERIOD that comes next (µs since 1970 UTC), None for other streams."""
        period = self.loader.load(record, *self.services.registry.last(record.uuid)).period
        return None if period is None else period.following(to_micros(self.services.clock.now()))

    def keep_up(self) -> None:
        """Have tables that ticks read and write cost no more as they grow by commits.

        The small files of one that they write are put together: of that which has grown most, so that no
        tick waits for long. They are those of streams that nobody else works on.
        """
        commits = self.services.settings.compact_commits
        if not commits:
            return
        runtimes = [one for uuid, one in self.loader.known.items() if self.services.turns.has(uuid)]
        for source in self._within_lake(runtime.stream.source.info for runtime in runtimes):
            shorten_log(source, commits)
        outputs = self._within_lake(runtime.target.info for runtime in runtimes)
        grown = max(
            filter(None, [*outputs, self.services.outbox.table]), key=lambda table: table.grown, default=None
        )
        if grown is not None and grown.grown >= commits:
            compact(grown)

    def _within_lake(self, infos: Iterable[TableInfo]) -> list[Table]:
        """Return the kept handles of tables that the lake owns."""
        handles = self.services.catalog.handles
        known = (handles.known(path) for path in dict.fromkeys(one.path for one in infos if not one.external))
        return [table for table in known if table is not None]

    def checkpoint(self, uuids: frozenset[str] | None = None) -> None:
        """Save the states of streams (all by default) that ticked since they were saved last.

        It takes no lock but their claims. A stream that others work on, or have ticked since, is theirs to
        save. What rounds have put off is done.
        """
        for uuid, runtime in self.loader.known.items():
            if uuids is None or uuid in uuids:
                self.recording.save_claimed(runtime)
        self._owed.pay()

    def state_of(self, runtime: StreamRuntime) -> Callable[[], GroupState]:
        """Return what finds the state of a stream where it stands now, as it follows from the whole history.

        Where that is not known, after a resynchronisation or FLUSH STREAM, it is the one it goes on with.
        """
        state = runtime.state
        if runtime.record.resynced is not None or not runtime.family.follows_history:
            return lambda: state
        plans = self.services.planner(runtime).replay(runtime.position, None)
        return lambda: self.loader.replayed(runtime, plans, GroupState())

    def _plan(self, look: Look, marks: tuple[int, ...]) -> list[tuple[StreamRuntime, TickPlan]]:
        """Plan the running streams of a look; registry and sources are read once however many there are."""
        self.recalculating.resynchronise()
        planned, recorded = [], RecordedStreams(self.services.registry, marks)
        running = {r.uuid for r in recorded.streams if r.status in ("Running", "Retrying")}
        self.failing.retries.keep(running)
        records = [record for record in recorded.streams if self.services.takes(record.uuid)]
        self._dropping = [record for record in records if record.dropped]
        for known in records:
            if not self.failing.is_active(known):
                self.loader.forget(known.uuid)
                continue
            if look.streams is not None and known.uuid not in look.streams:
                continue
            if (record := _taken(self, known.uuid, recorded)) is None:
                continue
            one = _next(self, record, recorded.last(record.uuid), look)
            if one is None:
                self.services.turns.give_back(record.uuid)
            else:
                planned.append(one)
        # What others have to do does not wait for what has failed, and may end this process.
        return sorted(planned, key=lambda one: one[0].record.status == "Retrying")


def refresh(engine: Engine, record: StreamRecord) -> list[TickReport]:
    """Take all there is of a stream's tables; raises StreamError when the stream fails meanwhile."""
    engine.recalculating.resynchronise()
    reports: list[TickReport] = []
    while True:
        runtime = engine.loader.load(record, *engine.services.registry.last(record.uuid))
        engine.following.rest(runtime)
        plan = runtime.pending or engine.following.next(runtime, Look())
        if plan is None:
            return reports
        if runtime.pending is None:
            engine.services.registry.write_plans([plan])
        reports.append(engine.ticking.run(runtime, plan))
        if reports[-1].error is not None:
            raise StreamError("CALCULATION_FAILED", reports[-1].error)


def _taken(engine: Engine, uuid: str, recorded: RecordedStreams) -> StreamRecord | None:
    """Take a stream, and return it as it is then; None for one that is not this round's to run."""
    if not engine.services.turns.take(uuid):
        return None
    record = recorded.stream(uuid)
    if record is None or not engine.failing.is_active(record):
        engine.loader.forget(uuid)
        engine.services.turns.give_back(uuid)
        return None
    return record


def _next(
    engine: Engine, record: StreamRecord, last: tuple[TickPlan | None, Progress | None], look: Look
) -> tuple[StreamRuntime, TickPlan] | None:
    """Plan the next tick of a stream that the round has taken; None: there is nothing for it to do."""
    try:
        runtime = engine.loader.load(record, *last)
        if runtime.pending is None and engine.held.holds(runtime):
            return None
        plan = runtime.pending or engine.following.next(runtime, look)
    except TurnNeededError:
        engine.services.turns.leave([record], is_suspect=engine.failing.is_suspect(record))
        return None
    except BaseException as error:  # noqa: BLE001 - a stream that fails must not stop its neighbours
        engine.failing.fail(record, engine.failing.named(record, error))
        return None
    if plan is None:
        engine.failing.recover(runtime)
        return None
    if plan.wider_tables:
        runtime.stream = compile_record(record, engine.services.catalog)
    return runtime, plan


def _due_us(runtime: StreamRuntime, now_us: int) -> int | None:
    """Return the next instant at which time alone makes a stream tick (µs), None for none."""
    if runtime.period is not None:
        return runtime.period.after(now_us)
    corrected = next_due(runtime.stream, runtime.record.created_us, now_us)
    return runtime.family.next_due(runtime.standing, now_us) if corrected is None else corrected


def engine_beside(
    engine: Engine,
    slot: Slot,
    turn: Turn,
    known: Mapping[str, StreamRuntime],
    tell: Callable[[TickReport], None],
) -> Engine:
    """Return an engine of a turn's streams alone, with what another thread works with.

    ``known`` is what is known of them, ``tell`` hears of their ticks.
    """
    services = replace(
        engine.services,
        catalog=slot.catalog,
        session=slot.session,
        asked=slot.small,
        turns=Turns(None),
        only=turn.uuids,
        tell=tell,
    )
    own = Engine(services, _before=engine)
    own.loader.known.update(known)
    for runtime in known.values():
        for info in runtime.stream.tables.values():
            slot.catalog.handles.read_time(info.path, info.read_time)
    return own
