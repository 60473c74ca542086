"""RESYNC: a stream's place and state taken from the source as it is, when changes were lost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from lakestream.engine.base.state import GroupState
from lakestream.engine.creation.create import drop_unfit_view, open_target
from lakestream.engine.planning.planner import way_of
from lakestream.engine.reading.relations import History, Relations, history_of
from lakestream.engine.reading.transport import ARROW
from lakestream.engine.streams.quarantine import Quarantine
from lakestream.engine.streams.stream import followed_paths
from lakestream.engine.streams.write import tick_tag
from lakestream.engine.ticks.expecting import SourceQuarantine, refuse_standing
from lakestream.engine.ticks.tick import output_app
from lakestream.engine.windows.delays import Delays
from lakestream.engine.windows.families import family_of
from lakestream.engine.windows.family import Snapshot
from lakestream.errors import StorageError
from lakestream.storage.delta import commit_digest
from lakestream.storage.records.registry import Begun, Progress, Resynced, TablePosition, TickPlan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.planning.planner import Limits
    from lakestream.engine.reading.small import SmallPath
    from lakestream.engine.streams.stream import Stream
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.records.registry import Registry, StreamChanges, StreamRecord, WaitingGroup


@dataclass
class Resync:
    """Puts a stream at the latest version of its source; its windows are then recalculated.

    Groups that wait are taken up again, but for those of which still far more windows would fire than there
    are rows, and more than ``max_windows``.

    What a stream without FILL_HISTORY must leave out is no longer known row by row: from here on it takes
    the rows that are later than the newest one there was when it was created. One that leaves late rows out
    and has another definition now goes on from nothing: its next tick makes all windows anew, of the rows
    that came since its creation; by arrival there are only those that come.
    """

    small: SmallPath
    catalog: Catalog
    registry: Registry
    record: StreamRecord
    stream: Stream
    max_windows: int
    limits: Limits
    _waiting: list[WaitingGroup] = field(default_factory=list, init=False)

    def run(self, now_us: int, clock_us: int) -> int:
        """Rewrite state, registration and progress, and return the source's version.

        ``now_us`` is the system's time, ``clock_us`` that of the clock which ticks follow.
        """
        source = self.catalog.handles.latest(self.stream.source.info.path)
        version = source.version
        plan, progress = self.registry.last(self.record.uuid)
        tick = max(plan.tick if plan else 0, progress.tick if progress else 0, self._committed) + 1
        drop_unfit_view(self.stream, self.record, self.catalog)
        state = self._state(version)
        begun = self._begun(tick, version, source.table_id)
        self._expect(replace(self.record, **begun), tick, version, now_us)
        if len(state):
            self.registry.states.write(self.record.uuid, tick, self._saved_as(state, version, clock_us))
        else:
            self.registry.remove_states(self.record.uuid)
        self.registry.update(self.record.uuid, **begun)
        totals = progress.totals if progress else None
        commit = commit_digest(source.path, version)
        followed = {
            path: TablePosition.of(self.catalog.handles.latest(path)) for path in followed_paths(self.stream)
        }
        self.registry.write_progress(
            [
                Progress(
                    self.record.uuid,
                    tick,
                    version,
                    finished_us=now_us,
                    totals=totals,
                    commit=commit,
                    followed=followed,
                )
            ]
        )
        return version

    def _saved_as(self, state: GroupState, version: int, clock_us: int) -> pa.Table:
        """Return a state as it is saved: what is open in it has opened now."""
        saved, delay = state.saved(version), self.stream.emission.max_delay
        if delay is None:
            return saved
        delays, groups = Delays(delay.micros), state.without([group.gid for group in self._waiting]).rows
        if groups is not None and groups.num_rows:
            family = family_of(self.stream)
            delays.follow(self.small.ask(lambda session: family.open_windows(session, groups)), clock_us)
        return delays.saved(saved)

    def _expect(self, record: StreamRecord, tick: int, version: int, now_us: int) -> None:
        """Hold the source against what is expected of it, and put its quarantine together anew.

        Raises StreamError EXPECTATION_FAILED.
        """
        stream = replace(self.stream, floor_us=record.floor_us)
        if not stream.checks:
            return
        source = self.catalog.handles.open(stream.source.info.path)
        plan = TickPlan(record.uuid, tick, "recalculation", version, version, now_us)
        plan = replace(plan, transport=way_of(source, version, self.limits))
        history = history_of(record, stream.definition)
        relations = Relations.of(self.small.spark(), self.catalog.handles, stream, plan, history)
        refuse_standing(relations, version)
        info = Quarantine(stream.definition, record.uuid).of_source(self.catalog, stream.source)
        if info is not None:
            tag = tick_tag(f"lakestream:{record.uuid}:quarantine:{uuid4()}", plan, 0)
            SourceQuarantine(relations, info).fill(version, tag)

    @property
    def _committed(self) -> int:
        """The last tick that the output has, which a registry put back from an older copy lacks."""
        output = self.catalog.find_table(*self.record.output.split(".", 1))
        if output is None:
            return 0
        return self.catalog.handles.latest(output.path).transaction_version(output_app(self.record.uuid)) or 0

    def _begun(self, tick: int, version: int, source_id: str) -> StreamChanges:
        """Return what the registration says from now on: it runs, and where its rows begin."""
        changes: StreamChanges = {
            "status": "Running",
            "last_error": None,
            "source_id": source_id,
            "waiting_groups": tuple(self._waiting),
            "is_replaced": False,
            "begun": None,
        }
        if self.record.is_replaced:
            output = self.catalog.find_table(*self.record.output.split(".", 1))
            parts = {job.id: job.part for job in self.registry.recalculations(self.record.uuid)}
            there = self.catalog.handles.latest(output.path).version if output is not None else 0
            changes["begun"] = Begun(tick, version, there, parts)
            if source_id == self.record.source_id and not self.stream.late.by_arrival:
                return changes
        return {**changes, "start_version": version, "resynced": Resynced(self._floor)}

    @property
    def _floor(self) -> int | None:
        return self.record.until_us if self.record.resynced is None else self.record.floor_us

    def _state(self, version: int) -> GroupState:
        """Return the state that follows from a version of the source, by the family of its windows."""
        source = self.catalog.handles.open(self.stream.source.info.path)
        transport = way_of(source, version, self.limits)

        def rebuilt(session: SparkSession) -> tuple[GroupState, list[WaitingGroup]]:
            return family_of(self.stream).rebuild(
                Snapshot(
                    session,
                    self.catalog.handles,
                    self.record,
                    open_target(self.stream, self.record, self.catalog, self.small.spark),
                    History(version, taken=True, start_us=self._floor, until_us=None),
                    version,
                    self.max_windows,
                    begins=self.record.is_replaced,
                    known=self._saved,
                    transport=transport,
                )
            )

        state, self._waiting = self.small.ask(rebuilt, small=transport == ARROW)
        return state

    def _saved(self) -> GroupState:
        try:
            saved = self.registry.states.read(self.record.uuid)
        except StorageError as error:
            if error.code != "STATE_DAMAGED":
                raise
            saved = None  # it is made anew
        return GroupState.loaded(saved[1])[1] if saved else GroupState()
