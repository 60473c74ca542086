"""A stream read from the lake: its definition, place and state, and what follows from its last tick."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakestream.engine.base.state import GroupState
from lakestream.engine.creation.compile import compile_record
from lakestream.engine.creation.create import open_target
from lakestream.engine.planning.analysis import refuse_other_results
from lakestream.engine.planning.checks import check_tables
from lakestream.engine.reading.relations import history_of
from lakestream.engine.reading.transport import DUCKDB
from lakestream.engine.rounds.runtime import Services, StreamRuntime, beside_of, mark_of
from lakestream.engine.rounds.soundness import standing
from lakestream.engine.ticks.tick import Tick
from lakestream.engine.windows.delays import Delays
from lakestream.engine.windows.family import UNLIMITED
from lakestream.engine.windows.once.admission import FLUSH
from lakestream.engine.windows.once.rebuilding import rebuild_plan
from lakestream.errors import LakestreamError, StorageError, StreamError
from lakestream.storage.delta import capabilities
from lakestream.storage.records.registry import Corrected, Progress, Totals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.ticks.tick import TickResult
    from lakestream.engine.windows.delays import OpenWindow
    from lakestream.storage.records.registry import StreamRecord, TickPlan


_log = logging.getLogger(__name__)


@dataclass
class Loader:
    """Reads streams, and keeps those that it has read."""

    services: Services
    known: dict[str, StreamRuntime] = field(default_factory=dict)

    def forget(self, uuid: str | None = None) -> None:
        """Let a stream (None: all) be read again when it is asked for."""
        if uuid is None:
            self.known.clear()
        else:
            self.known.pop(uuid, None)

    def spill(self) -> None:
        """Put the largest states into files until those in memory take no more than they may."""
        sizes = {uuid: runtime.state.nbytes for uuid, runtime in self.known.items()}
        beyond = sum(sizes.values()) - self.services.settings.state_memory
        for uuid in sorted(sizes, key=sizes.__getitem__, reverse=True) if beyond > 0 else ():
            runtime = self.known[uuid]
            try:
                runtime.state = runtime.state.spilled()
            except OSError:
                _log.warning("the disk takes no states of streams", exc_info=True)
                return
            beyond -= sizes[uuid] - runtime.state.nbytes
            if beyond <= 0:
                return

    def load(self, record: StreamRecord, plan: TickPlan | None, progress: Progress | None) -> StreamRuntime:
        """Return the stream as it is in memory, or read its place and state from the lake."""
        known = self.known.get(record.uuid)
        if (
            known is not None
            and known.record == record
            and known.position.tick == (progress.tick if progress else 0)
        ):
            return known
        stream = compile_record(record, self.services.catalog)
        mark = mark_of(record, progress)
        target = open_target(stream, record, self.services.catalog, self.services.spark, mark)
        position, pending = standing(self.services, record, stream, plan, progress)
        done = plan.table_versions if plan is not None and pending is None else {}
        if check_tables(stream, self.services.catalog.handles, done):
            refuse_other_results(self.services.small, record, stream)
        totals = (progress.totals or Totals()) if progress else None
        runtime = StreamRuntime(record, stream, target, position, GroupState(), pending, mark)
        runtime.beside, runtime.totals = beside_of(record, progress), totals
        taken = record.start_version if position.version is None else position.version
        runtime.commented = {**done, stream.source.info.path: taken}
        delay = stream.emission.max_delay
        saved = self._saved(runtime)
        if delay is not None:
            runtime.delays = Delays.restored(delay.micros, saved[1] if saved else None)
        runtime.state = self._restored(runtime, saved, plan)
        runtime.saved_tick, runtime.saved_at = position.tick, self.services.system_clock.monotonic()
        known_us = progress.closed_us if progress else None
        runtime.closed_us = record.created_us if known_us is None else known_us
        if stream.emission.recalculate_every is not None:
            version = record.start_version if position.version is None else position.version
            corrected = progress.corrected if progress else None
            runtime.corrected = corrected or Corrected(record.created_us, version)
        if plan is not None:
            self._restore_clock(runtime, plan)
        self.known[record.uuid] = runtime
        return runtime

    def stands(self, runtime: StreamRuntime) -> bool:
        """Return whether a stream is as it is known here: nobody else has ticked or changed it since."""
        progress = self.services.registry.last(runtime.record.uuid)[1]
        is_last = runtime.position.tick == (progress.tick if progress else 0)
        return is_last and runtime.record in self.services.registry.streams(runtime.record.database)

    def _saved(self, runtime: StreamRuntime) -> tuple[int, pa.Table] | None:
        """Return the saved state; None for none, or where one that is damaged follows from the source.

        Raises StreamError STATE_DAMAGED for one that only the ticks themselves could tell.
        """
        if not runtime.position.tick:
            return None
        try:
            return self.services.registry.states.read(runtime.record.uuid, runtime.position.tick)
        except StorageError as error:
            if error.code != "STATE_DAMAGED":
                raise
            delayed = runtime.stream.emission.max_delay is not None
            if delayed or runtime.family.saves_each_tick(runtime.standing):
                raise StreamError(error.code, error.message) from error
            _log.warning("the state is computed anew from the source: %s", error.message)
            return None

    def _opened(self, runtime: StreamRuntime, tick: int) -> pa.Table | None:
        """Return the open windows that were saved with the groups of a tick; None: the source tells them."""
        incremental = runtime.stream.incremental
        if incremental is None or runtime.delays is not None:
            return None
        try:
            saved = self.services.registry.opened.read(runtime.record.uuid, tick)
        except StorageError as error:
            if error.code != "STATE_DAMAGED":
                raise
            _log.warning("open windows are computed anew from the source: %s", error.message)
            return None
        if saved is None or saved[0] != tick:
            return None
        rows = saved[1].drop_columns(["version"])
        return rows if {*rows.column_names} == {*incremental.kept_columns.values()} else None

    def _restore_clock(self, runtime: StreamRuntime, last: TickPlan) -> None:
        """Follow the last tick, which the saved delays may lack: saying it again changes nothing."""
        if runtime.delays is not None:
            runtime.delays.follow(self._open_windows(runtime, runtime.state.rows), last.clock_us)
        if runtime.pending is None:
            self.take_clock(runtime, last)

    def _follow_touched(self, runtime: StreamRuntime, delays: Delays, now_us: int) -> None:
        """Follow the windows of the groups that the last tick has touched; those that wait have none."""
        gids = runtime.state.touched
        touched = [] if gids is None else gids.to_pylist()
        opened = self._open_windows(runtime, runtime.state.of(gids) if touched else None)
        delays.follow(opened, now_us, [*touched, *runtime.stream.waiting_groups])

    def take_clock(self, runtime: StreamRuntime, plan: TickPlan) -> None:
        """Follow what the tick opened or closed, and what of the clock it has done."""
        if plan.closed is not None:
            runtime.closed_us = plan.closed[1]
        # A tick before a resynchronisation says nothing of the windows that are open now.
        if runtime.delays is None or plan.tick < runtime.position.tick:
            return
        if plan.kind == "delay":
            runtime.delays.fire(plan.windows, plan.clock_us)
        else:
            self._follow_touched(runtime, runtime.delays, plan.clock_us)

    def _open_windows(self, runtime: StreamRuntime, groups: pa.Table | None) -> list[OpenWindow]:
        if groups is None or not groups.num_rows:
            return []
        return self.services.small.ask(lambda session: runtime.family.open_windows(session, groups))

    def _restored(
        self, runtime: StreamRuntime, saved: tuple[int, pa.Table] | None, last: TickPlan | None
    ) -> GroupState:
        """Take the last checkpoint of the state, and follow what the source did since.

        State is a function of the history, so one range does for however many ticks there were; where it
        is one of the clock too, it was saved with every tick, and ``last`` is the only one that it may lack.
        """
        position = runtime.position
        if position.tick == 0:
            return GroupState()
        loaded = runtime.family.loaded(saved[1]) if saved else None
        version, state = loaded or (None, GroupState())
        if saved is not None:
            state = state.with_opened(self._opened(runtime, saved[0])).as_saved(saved[0])
        state = state.without(runtime.stream.waiting_groups)
        plans = self.services.planner(runtime).replay(position, version)
        if saved is not None and saved[0] < position.tick and runtime.family.is_stale(state):
            plans.insert(0, rebuild_plan(runtime.record.uuid, 0, version or 0))
        if last is not None and last.tick == position.tick and (saved is None or saved[0] < last.tick):
            if runtime.stream.late.by_arrival:
                plans = [last]
            elif last.kind == FLUSH:
                plans.append(last)
        return self.replayed(runtime, plans, state)

    def replayed(self, runtime: StreamRuntime, plans: Sequence[TickPlan], state: GroupState) -> GroupState:
        """Return the state behind ticks whose output is there already."""
        for plan in plans:
            state = self.run(runtime, plan, state, Tick.run, output_committed=True).state
        return state

    def run(
        self,
        runtime: StreamRuntime,
        plan: TickPlan,
        state: GroupState,
        run: Callable[[Tick], TickResult],
        *,
        output_committed: bool = False,
        updated: pa.Table | None = None,
        unlimited: bool = False,
    ) -> TickResult:
        """Run a tick of a stream, from a state, by the small path where that takes it.

        ``output_committed``: its output is there already; ``updated`` is what its update query gave, where
        that is known; ``unlimited``: it was found within the limit of windows that held when it began.
        """
        small, many = self.services.small, plan.transport == DUCKDB
        kind = (runtime.record.uuid, runtime.record.sql, plan.kind, plan.appends_only)
        if many:
            self.services.turns.check_turn()
        return small.ask(
            lambda session: run(
                self._tick(
                    *(session, runtime, plan, state),
                    output_committed=output_committed,
                    updated=updated,
                    unlimited=unlimited,
                )
            ),
            key=kind,
            small=self._is_small(runtime, plan),
            many=many,
        )

    def _is_small(self, runtime: StreamRuntime, plan: TickPlan) -> bool:
        """Return whether a tick's bytes move as Arrow on both sides."""
        output = self.services.catalog.handles.open(runtime.target.info.path)
        return self.services.small.takes(plan) and capabilities(output).arrow_writes

    def computed_by(self, runtime: StreamRuntime, plan: TickPlan) -> str:
        """Return who computes a tick, which is rehearsed for that; with a reason where that is Spark."""
        small, many = self.services.small, plan.transport == DUCKDB
        # Of many rows none is looked at: what they are is known by their types.
        rehearsed = replace(plan, upto=plan.after) if many else plan
        why = None
        with suppress(LakestreamError):  # an answer
            why = small.why_spark(
                lambda session: self._tick(session, runtime, rehearsed, runtime.state).rehearse(),
                small=self._is_small(runtime, plan),
                many=many,
            )
        if why is not None:
            return f"Spark: {why}"
        return f"DuckDB, in this process{f', by {small.larger.room.threads} threads' if many else ''}"

    def _tick(
        self,
        session: SparkSession,
        runtime: StreamRuntime,
        plan: TickPlan,
        state: GroupState,
        *,
        output_committed: bool = False,
        updated: pa.Table | None = None,
        unlimited: bool = False,
    ) -> Tick:
        most = self.services.settings.max_windows_per_tick
        return Tick(
            spark=session,
            tables=self.services.catalog.handles,
            stream=runtime.stream,
            target=runtime.target,
            plan=plan,
            state=state,
            history=history_of(runtime.record, runtime.stream.definition),
            max_windows=UNLIMITED if unlimited else most,
            epoch=self.services.epoch,
            output_committed=output_committed,
            outbox=self.services.outbox,
            updated=updated,
        )
