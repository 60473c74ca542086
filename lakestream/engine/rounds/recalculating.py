"""Recalculations: streams put at their source as it is, groups taken up again, and parts that are run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakestream.engine.base.faults import crash_point
from lakestream.engine.base.instants import to_micros
from lakestream.engine.base.state import GroupState
from lakestream.engine.base.turns import TurnNeededError
from lakestream.engine.creation.compile import compile_record
from lakestream.engine.planning.corrections import correct, last_due
from lakestream.engine.planning.planner import way_of
from lakestream.engine.reading.relations import history_of
from lakestream.engine.reading.transport import ARROW
from lakestream.engine.recalculation.recalculate import PartRun, is_reached
from lakestream.engine.recalculation.resync import Resync
from lakestream.engine.windows.families import family_of
from lakestream.engine.windows.groups import groups_at
from lakestream.engine.windows.waiting import (
    TooManyWindowsError,
    far_groups,
    is_taking_up,
    let_go_on,
)
from lakestream.errors import LakestreamError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.rounds.failing import Failing
    from lakestream.engine.rounds.loading import Loader
    from lakestream.engine.rounds.recording import Recording
    from lakestream.engine.rounds.runtime import Services, StreamRuntime, TickReport
    from lakestream.engine.rounds.ticking import Ticking
    from lakestream.storage.records.registry import Recalculation, StreamRecord, WaitingGroup


@dataclass
class Recalculating:
    """Does what recalculations ask for, a part of each stream's oldest one in a round."""

    services: Services
    loader: Loader
    failing: Failing
    recording: Recording
    ticking: Ticking

    def resynchronise(self) -> None:
        """Give streams that were asked to resynchronise the place and state of the source as it is.

        Groups that are to be taken up again get the state of the stream's place.
        """
        for job in self.services.registry.recalculations():
            record = self._record_of(job) if job.is_open and job.place is None else None
            if record is None or not (job.resync or is_taking_up(job)) or self._has_failed(job, record):
                continue
            if (taken := self._taken(job)) is None:
                continue
            record = taken
            try:
                if is_taking_up(job):
                    self._take_up(record, job)
                    continue
                stream = replace(compile_record(record, self.services.catalog), waiting_groups=())
                most = self.services.settings.max_windows_per_tick
                services, limits = self.services, self.services.limits()
                resync = Resync(
                    services.small, services.catalog, services.registry, record, stream, most, limits
                )
                version = resync.run(
                    to_micros(self.services.system_clock.now()), to_micros(self.services.clock.now())
                )
            except TurnNeededError:
                self._leave(record)
                continue
            except BaseException as error:  # noqa: BLE001 - a stream that fails must not stop its neighbours
                self.failing.fail(record, self.failing.named(record, error))
                self.services.registry.put_recalculation(replace(job, status="Running"))
                continue
            self.loader.known.pop(record.uuid, None)
            # What PERIOD has written depends on when it did, and windows that leave late rows out fire
            # once: only place and state are taken anew.
            status = job.status if family_of(stream).recalculates else "Done"
            self.services.registry.put_recalculation(replace(job, status=status, place=version))
            self._supersede(job)

    def _has_failed(self, job: Recalculation, record: StreamRecord) -> bool:
        """Return whether a job was begun and its stream stands still, until it is started or tried again."""
        return job.status == "Running" and not self.failing.is_active(record)

    def _leave(self, record: StreamRecord) -> None:
        """Leave what is due of a stream to a turn."""
        self.services.turns.leave([record], is_suspect=self.failing.is_suspect(record))

    def _take_up(self, record: StreamRecord, job: Recalculation) -> None:
        """Let groups wait no longer, as far as they need not; the job computes their windows then."""
        if not self.failing.is_active(record):
            return
        runtime = self.loader.load(record, *self.services.registry.last(record.uuid))
        position = runtime.position
        if runtime.pending is not None or position.version is None:
            return
        source = self.services.catalog.handles.latest(runtime.stream.source.info.path)
        if not is_reached(job, position.version, source.version):
            return
        history = history_of(record, runtime.stream.definition)
        stream = replace(runtime.stream, waiting_groups=())
        version, most = position.version, self.services.settings.max_windows_per_tick
        way = way_of(source, version, self.services.limits())

        def found(session: SparkSession) -> tuple[pa.Table, list[WaitingGroup]]:
            given = (session, self.services.catalog.handles, stream, history, version)
            groups = groups_at(*given, only=job.groups or (), transport=way)
            return groups, far_groups(session, stream, groups, most)

        groups, far = self.services.small.ask(found, small=way == ARROW)
        taken = [gid for gid in job.groups or () if gid not in {group.gid for group in far}]
        # First their state, which counts for nothing while they wait: a crash is mended by doing it again.
        new = GroupState(groups.drop_columns(["rows"])).only(taken)
        if new.rows is not None:
            runtime.state = runtime.state.updated(new.rows)
            self.recording.write_state(runtime, position.tick, position.version)
        crash_point("C4")
        let_go_on(self.services.registry, record, taken)
        self.loader.forget(record.uuid)
        job = replace(job, groups=tuple(taken), place=position.version)
        self.services.registry.put_recalculation(replace(job, status=job.status if taken else "Done"))

    def _supersede(self, job: Recalculation) -> None:
        """Let be what was asked for before a resynchronisation, which computes all windows anew."""
        for other in self.services.registry.recalculations(job.uuid):
            if other.is_open and other.id != job.id and other.requested_us <= job.requested_us:
                self.services.registry.put_recalculation(replace(other, status="Done"))

    def correct(self) -> None:
        """Queue the recalculation of what changed late, for the streams that it is due for."""
        runtimes = (one for uuid, one in self.loader.known.items() if self.services.takes(uuid))
        correcting = [runtime for runtime in runtimes if runtime.corrected is not None]
        if not correcting:
            return
        now_us = to_micros(self.services.clock.now())
        for runtime in correcting:
            due = last_due(runtime.stream, runtime.record.created_us, now_us)
            version = runtime.position.version
            assert due is not None and runtime.corrected is not None  # noqa: PT018 - by correcting
            if version is None or runtime.pending is not None or due <= runtime.corrected.due_us:
                continue
            if not self.services.turns.take(runtime.record.uuid) or self._is_overtaken(runtime):
                continue
            source = self.services.catalog.handles.open(runtime.stream.source.info.path)
            try:
                runtime.corrected, job = correct(
                    self.services.spark(), runtime.stream, source, runtime.corrected, due, version
                )
            except TurnNeededError:
                self._leave(runtime.record)
                continue
            except LakestreamError as error:
                self.failing.fail(runtime.record, error)
                continue
            if job is not None:
                self.services.registry.put_recalculation(job)

    def _is_overtaken(self, runtime: StreamRuntime) -> bool:
        """Return whether a stream is no longer as it is known here, or is being recalculated already."""
        jobs = self.services.registry.recalculations(runtime.record.uuid)
        return any(job.is_open for job in jobs) or not self.loader.stands(runtime)

    def recalculate(self) -> list[TickReport]:
        """Run one part of the oldest open recalculation of every running stream."""
        reports, busy = [], set()
        for job in self.services.registry.recalculations():
            record = self._record_of(job) if job.is_open and job.uuid not in busy else None
            if record is None or not self.failing.is_active(record) or self.services.is_blocked(record.uuid):
                continue
            busy.add(job.uuid)
            if (record := self._taken(job)) is None:
                continue
            report = self._run_part(record, job)
            if report is not None:
                reports.append(report)
        return reports

    def _taken(self, job: Recalculation) -> StreamRecord | None:
        """Take the stream of a job, and return it as it is then; None where the job is another's, or done."""
        if not self.services.turns.take(job.uuid):
            return None
        if job in self.services.registry.recalculations(job.uuid):
            return self._record_of(job)
        return None

    def _record_of(self, job: Recalculation) -> StreamRecord | None:
        return next((record for record in self.services.streams() if record.uuid == job.uuid), None)

    def _run_part(self, record: StreamRecord, job: Recalculation) -> TickReport | None:
        started = self.services.system_clock.monotonic()
        try:
            runtime = self.loader.load(record, *self.services.registry.last(record.uuid))
            version = runtime.position.version
            if runtime.pending is not None or version is None or is_taking_up(job):
                return None
            source = self.services.catalog.handles.open(runtime.stream.source.info.path)
            if not is_reached(job, version, source.version):
                return None
            self.ticking.output(runtime)
            try:
                plan, outcome = self._part(runtime, job, version).run(
                    lambda plan, run: self.loader.run(runtime, plan, runtime.state, run)
                )
            except TooManyWindowsError as error:
                if not self.ticking.let_wait(runtime, error):
                    raise
                return self._run_part(runtime.record, job)
        except TurnNeededError:
            self._leave(record)
            return None
        except BaseException as error:  # noqa: BLE001 - a stream that fails must not stop its neighbours
            self.failing.fail(record, self.failing.named(record, error))
            return None
        seconds = self.services.system_clock.monotonic() - started
        return self.services.told(self.recording.report(runtime, plan, outcome, seconds, None))

    def _part(self, runtime: StreamRuntime, job: Recalculation, version: int) -> PartRun:
        return PartRun(
            self.services.registry,
            self.services.catalog.handles,
            job,
            runtime.stream,
            runtime.target.info.path,
            self.services.planner(runtime),
            version,
            runtime.state if job.groups is None else runtime.state.only(job.groups),
            self.services.settings.recalculation_rows,
            max(1, self.services.settings.max_windows_per_tick // 2),
            runtime.position.followed,
        )
