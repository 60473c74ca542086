"""A stream's admitted changes taken once more, into a table of their own, for VERIFY to compare with.

Where the policy makes the output depend on what came when, the batch evaluation is this: the commits of the
source one after the other, each judged against those before it, by the rules of ticks but not by the ticks
that there were; between them what the clock did and what was recalculated, which only the record tells.
Nothing is written into the lake: the table lies in a folder that goes with the comparison.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lakestream.engine.base.refused import spark_errors
from lakestream.engine.base.state import GroupState
from lakestream.engine.reading.relations import history_of
from lakestream.engine.reading.transport import SPARK
from lakestream.engine.recalculation.recalculate import app_of, range_of
from lakestream.engine.ticks.tick import Tick, output_app
from lakestream.engine.windows.families import family_of
from lakestream.engine.windows.family import CLOCK_KINDS, PERIOD
from lakestream.engine.windows.once.admission import FLUSH
from lakestream.engine.windows.once.rebuilding import rebuild_plan
from lakestream.errors import StorageError, StreamError
from lakestream.notify.outbox import Outbox
from lakestream.storage.delta import CommitTag, Tables, commit, create_alike, read_commits, read_spark
from lakestream.storage.records.registry import WITHDRAWN, TickPlan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lakestream.engine.planning.planner import Planner
    from lakestream.engine.rounds.engine import Engine
    from lakestream.engine.streams.stream import EventRange, Stream
    from lakestream.engine.streams.target import Target
    from lakestream.storage.records.registry import Recalculation, StreamRecord

    Kept = tuple[int, int, GroupState]

_BY_CLOCK = (*CLOCK_KINDS, PERIOD, FLUSH)
"""Kinds of ticks that the source's commits do not bring about."""

_SEED = "lakestream:seed"
_LAST = 2**62


@dataclass(frozen=True)
class Replayed:
    """The rows that should be there, the events that should be emitted, and what was left out of them.

    ``late`` counts rows of the source that were left out by policy, ``taken_over`` rows of ticks of which no
    record is left: they are expected as they were written. ``unknown``: there were ticks of which no record
    is left, so that a row that nothing explains may be theirs; ``unrecorded``: so may an event. ``refused``
    are the rows that should be in the quarantine of results, None where there is none.
    """

    rows: DataFrame
    outbox: Outbox
    late: int
    taken_over: int
    unknown: bool
    unrecorded: bool
    refused: DataFrame | None = None


@dataclass(frozen=True)
class RecordedTicks:
    """What a stream did that its source does not tell, as far as there is a record of it.

    ``tick`` and ``position`` are its last tick and the source's version that it stands at, ``since`` the last
    tick of which there is no record (0: there is one of all), ``plans`` those of its ticks that came to
    something, ``kept`` the oldest state that goes with them (its tick, the source's version, the state).
    """

    tick: int
    position: int
    since: int
    plans: tuple[TickPlan, ...]
    jobs: tuple[Recalculation, ...]
    kept: Kept | None
    output_version: int

    @classmethod
    def of(
        cls, engine: Engine, record: StreamRecord, stream: Stream, position: int, output_version: int
    ) -> RecordedTicks:
        """Read the record of a stream between two ticks."""
        registry = engine.services.registry
        _, progress = registry.last(record.uuid)
        tick = progress.tick if progress is not None else 0
        plans = [plan for plan in registry.plans(record.uuid) if plan.tick <= tick]
        start = record.start_version
        begun = 0 if record.begun is None else record.begun.tick
        plans = [plan for plan in plans if plan.tick > begun]
        known = [plan for plan in plans if plan.after >= start or plan.kind == "history"]
        kept = None
        since = known[0].tick - 1 if known else tick
        if since and _goes_by_state(record, stream):
            saved = registry.states.oldest(record.uuid, since, tick)
            kept = None if saved is None else (saved[0], *GroupState.loaded(saved[1]))
        jobs = tuple(registry.recalculations(record.uuid))
        withdrawn = {one.tick for one in registry.history(record.uuid) if one.kind == WITHDRAWN}
        done = tuple(plan for plan in known if plan.tick not in withdrawn)
        return cls(tick, position, since, done, jobs, kept, output_version)


@dataclass(frozen=True)
class _Beginning:
    """What a replay goes on from: a tick, the source's version (None: creation), a state and an output.

    ``anew``: that tick, if it has been, made all windows anew.
    """

    tick: int = 0
    at: int | None = None
    state: GroupState = field(default_factory=GroupState)
    output: int | None = None
    anew: bool = False


@dataclass(frozen=True)
class _Recalculated:
    """A part of a recalculation that was done when the stream stood at the source's version ``upto``."""

    event_range: EventRange
    upto: int


@dataclass(frozen=True)
class _Commit:
    """A commit of the output: its version, whose it is (application and number), the versions it took."""

    version: int
    app: str
    number: int
    after: int
    upto: int


@dataclass(frozen=True)
class _Written:
    """A stream's commits to its output, in order; ``is_whole``: the log still has those of all versions."""

    commits: Sequence[_Commit]
    is_whole: bool


def _goes_by_state(record: StreamRecord, stream: Stream) -> bool:
    """Return whether a stream goes on from rows that are those of no version of its source."""
    resynced = not family_of(stream).follows_history and record.resynced is not None
    return stream.late.by_arrival or resynced


@dataclass
class Replay:
    """Replays a stream in ``folder``; ``planner`` plans what its source tells."""

    spark: SparkSession
    record: StreamRecord
    stream: Stream
    target: Target
    planner: Planner
    max_windows: int
    recorded: RecordedTicks
    folder: str
    _tables: Tables = field(default_factory=Tables, init=False)
    _outbox: Outbox = field(init=False)
    _own: Target = field(init=False)
    _state: GroupState = field(default_factory=GroupState, init=False)
    _at: int | None = field(default=None, init=False)
    _number: int = field(default=0, init=False)
    _late: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Make the table that is written to, alike to the output."""
        info, path = self.target.info, str(Path(self.folder, "output"))
        create_alike(self.spark, self._tables.open(info.path), path)
        own = replace(self.target, info=replace(info, path=path), errors=None, quarantine=None)
        self._own = replace(own, refused=self._alike(self.target.refused))
        self._outbox = Outbox(str(Path(self.folder, "outbox")))

    def _alike(self, refused: Target | None) -> Target | None:
        """Return a quarantine of results like the stream's, in the folder."""
        if refused is None:
            return None
        path = str(Path(self.folder, "refused"))
        create_alike(self.spark, self._tables.open(refused.info.path), path)
        return replace(refused, info=replace(refused.info, path=path))

    def run(self) -> Replayed:
        """Take all commits again, and between them what the clock did and what was recalculated."""
        written = self._written()
        begin, taken_over = self._begun(written)
        self._state, self._at = begin.state, begin.at
        if begin.anew and begin.tick <= self.recorded.tick:
            self._take(rebuild_plan(self.stream.uuid, begin.tick, begin.at or 0))
        for step in self._steps(begin, written):
            if isinstance(step, _Recalculated):
                self._until(step.upto)
                self._recalculate(step)
            else:
                self._until(step.after)
                self._take(step)
        self._until(self.recorded.position)
        path, since = self._own.info.path, self.recorded.since
        unknown = since > 0 and self.stream.emission.max_delay is not None
        return Replayed(
            read_spark(self.spark, path, self._tables.latest(path).version),
            self._outbox,
            self._late,
            taken_over,
            unknown,
            unknown or begin.tick > 0,
            self._refused(),
        )

    def _refused(self) -> DataFrame | None:
        if self._own.refused is None:
            return None
        path = self._own.refused.info.path
        return read_spark(self.spark, path, self._tables.latest(path).version)

    # --- where it begins ---

    def _beginning(self, written: _Written) -> _Beginning:
        """Return the creation, or the last tick of which there is no record where the ticks decide."""
        recorded, by_state = self.recorded, _goes_by_state(self.record, self.stream)
        begun = self.record.begun
        if begun is not None and not self.stream.late.by_arrival:
            return _Beginning(begun.tick + 1, begun.version, anew=True)
        if begun is not None and recorded.since <= begun.tick:
            return _Beginning(begun.tick, begun.version, output=begun.output)
        if recorded.since == 0 or not (by_state or self.stream.goes_by_ticks):
            return _Beginning()
        if not by_state:
            at = recorded.plans[0].after if recorded.plans else recorded.position
            state = GroupState()
            for plan in self.planner.again(None, at):
                state = self._tick(plan, state, output_committed=True).run().state
            return _Beginning(recorded.since, at, state, self._output_after(recorded.since, written))
        tick, at, state = recorded.kept or (recorded.tick, recorded.position, GroupState())
        return _Beginning(tick, at, state, self._output_after(tick, written))

    def _begun(self, written: _Written) -> tuple[_Beginning, int]:
        """Return the beginning, and how many rows were taken over; all there are where that is not kept."""
        begin = self._beginning(written)
        if begin.output is None:
            return begin, 0
        unreadable: tuple[type[Exception], ...] = (StorageError, *spark_errors())
        try:
            return begin, self._take_over(begin.output)
        except unreadable:
            recorded = self.recorded
            last = _Beginning(recorded.tick, recorded.position, output=recorded.output_version)
            return last, self._take_over(recorded.output_version)

    def _output_after(self, tick: int, written: _Written) -> int:
        """Return the output's version after a tick, as its commits tell."""
        app = output_app(self.stream.uuid)
        later = [c.version for c in written.commits if c.app == app and c.number > tick]
        return min(later) - 1 if later else self.recorded.output_version

    def _take_over(self, version: int) -> int:
        """Write what the output held at a version, and return how many rows that was."""
        rows = read_spark(self.spark, self.target.info.path, version, columns=self._own.shape.names)
        commit(self._tables.open(self._own.info.path), rows, CommitTag(_SEED, 1, {"epoch": 0}))
        return rows.count()

    # --- what was done ---

    def _written(self) -> _Written:
        """Return the stream's commits to the output, as far back as the log goes."""
        found: list[_Commit] = []
        path, is_whole = self.target.info.path, True
        own = f"lakestream:{self.stream.uuid}:"
        for version in range(self.recorded.output_version, 0, -1):
            try:
                info = read_commits(path, version - 1, version)[0]
            except StreamError:
                is_whole = False  # cleared from the log
                break
            for app, number in info.transactions:
                if app.startswith(own):
                    metadata = json.loads(info.user_metadata or "{}")
                    found.append(
                        _Commit(version, app, number, metadata.get("after", -1), metadata.get("upto", 0))
                    )
        return _Written(found[::-1], is_whole)

    def _steps(self, begin: _Beginning, written: _Written) -> Iterator[TickPlan | _Recalculated]:
        """Give the ticks of the clock and the parts of recalculations in the order in which they were.

        A part that committed nothing found nothing to change, and would where it does not stand.
        """
        tells_all = written.is_whole and self.stream.definition.stores
        places = {(c.app, c.number): c.version for c in written.commits}
        steps: list[tuple[int, int, int, TickPlan | _Recalculated]] = []
        place, app = 0, output_app(self.stream.uuid)
        for plan in self._ticks(written):
            place = max(place, places.get((app, plan.tick), 0))
            if plan.tick > begin.tick:
                steps.append((plan.upto, place, 0, plan))
        done = {} if self.record.begun is None else self.record.begun.parts
        for job in self.recorded.jobs:
            for number in range(done.get(job.id, 0), job.part):
                version, at = job.versions[number], places.get((app_of(job), number + 1), _LAST)
                if at == _LAST and tells_all:
                    continue
                if version >= self.record.start_version and at > (begin.output or 0):
                    steps.append((version, at, 1, _Recalculated(range_of(job, number), version)))
        for *_, step in sorted(steps, key=lambda step: step[:3]):
            yield step

    def _ticks(self, written: _Written) -> list[TickPlan]:
        """Return the ticks that the source does not tell of, in order; some show in the output."""
        plans = self.recorded.plans
        if self.stream.late.by_arrival:
            return [*plans]
        known = {plan.tick: plan for plan in plans if plan.kind in _BY_CLOCK}
        start, app = self.record.start_version, output_app(self.stream.uuid)
        for c in written.commits:
            if c.app == app and c.after >= start and c.number not in known:
                known |= self._as_written(c)
        return [known[tick] for tick in sorted(known)]

    def _as_written(self, c: _Commit) -> dict[int, TickPlan]:
        """Return the plan of a tick that was FLUSH STREAM, or that read tables as they were at that time."""
        if c.after == c.upto and family_of(self.stream).flushes:
            return {c.number: TickPlan(self.stream.uuid, c.number, FLUSH, c.upto, c.upto, 0, transport=SPARK)}
        if c.after < c.upto and self.stream.calculation.reads:
            return {c.number: replace(self.planner.changes_again(c.after, c.upto), tick=c.number)}
        return {}

    # --- doing it again ---

    def _until(self, upto: int) -> None:
        """Take the commits up to a version of the source."""
        if self.stream.late.by_arrival or (self._at is not None and self._at >= upto):
            return
        for plan in self.planner.again(self._at, upto):
            self._take(plan)
        self._at = upto

    def _take(self, plan: TickPlan) -> None:
        outcome = self._tick(plan, self._state, output_committed=False).run()
        self._state, self._at = outcome.state, plan.upto
        if family_of(self.stream).leaves_out_late:
            self._late += outcome.late

    def _recalculate(self, recalculated: _Recalculated) -> None:
        plan = self.planner.recalculation_again(recalculated.upto)
        self._tick(plan, self._state, output_committed=False).recalculate(
            recalculated.event_range, output_app(self.stream.uuid)
        )

    def _tick(self, plan: TickPlan, state: GroupState, *, output_committed: bool) -> Tick:
        self._number += 1
        return Tick(
            spark=self.spark,
            tables=self._tables,
            stream=self.stream,
            target=self._own,
            plan=replace(plan, tick=self._number),
            state=state,
            history=history_of(self.record, self.stream.definition),
            max_windows=self.max_windows,
            epoch=0,
            output_committed=output_committed,
            outbox=None if self.stream.definition.stores else self._outbox,
            compares=True,
        )
