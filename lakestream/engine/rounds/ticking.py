"""Ticks that are run: streams of one shape together, then the others one by one."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakestream.engine.base.instants import to_micros
from lakestream.engine.base.turns import TurnNeededError
from lakestream.engine.creation.create import open_target
from lakestream.engine.planning.checks import check_beside, check_output, check_tick
from lakestream.engine.rounds.runtime import (
    FinishedTick,
    Services,
    StreamRuntime,
    TickReport,
)
from lakestream.engine.streams.comments import follow_comments
from lakestream.engine.ticks.expecting import ResultRefusedError
from lakestream.engine.ticks.sharing import Member, Sharing, of_one_shape
from lakestream.engine.ticks.tick import Tick, counts_committed, has_begun, output_app
from lakestream.engine.windows.waiting import (
    TooManyWindowsError,
    let_wait,
    taking_up,
)
from lakestream.errors import BusyError, SparkGoneError, StorageError
from lakestream.storage.delta import look_anew
from lakestream.storage.records.registry import TablePosition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lakestream.engine.rounds.failing import Failing
    from lakestream.engine.rounds.following import Dividing
    from lakestream.engine.rounds.loading import Loader
    from lakestream.engine.rounds.recording import Recording
    from lakestream.storage.delta import Table
    from lakestream.storage.records.registry import TickPlan


_log = logging.getLogger(__name__)

_RECORDED_SECONDS = 0.5
"""Ticks of so many seconds may wait to be recorded."""


_OF_ROWS = ("FOLDER_TOO_LONG", "OUTPUT_CONSTRAINT")
"""What the output refuses of rows that it was to take."""


@dataclass
class Ticking:
    """Runs planned ticks up to the commits of their outputs, and has them recorded."""

    services: Services
    loader: Loader
    failing: Failing
    recording: Recording
    dividing: Dividing

    def run_all(self, planned: Sequence[tuple[StreamRuntime, TickPlan]]) -> list[TickReport]:
        """Run the ticks of a round: streams of one shape together, then the others one by one."""
        reports: list[TickReport] = []
        together: set[str] = set()
        new = [(runtime, plan) for runtime, plan in planned if runtime.pending is None]
        members = [runtime.member(plan) for runtime, plan in new] if len(new) > 1 else []
        for group in of_one_shape(members):
            try:
                updated = self._updated(group)
            except TurnNeededError:
                uuids = {member.plan.uuid for member in group}
                self._leave([one for one in planned if one[1].uuid in uuids])
                together |= uuids
                continue
            reports += self._run_each([one for one in planned if one[1].uuid in updated], updated)
            together |= {*updated}
        return reports + self._run_each([one for one in planned if one[1].uuid not in together], {})

    def _run_each(
        self, planned: Sequence[tuple[StreamRuntime, TickPlan]], updated: Mapping[str, pa.Table]
    ) -> list[TickReport]:
        """Run ticks one by one; those that are quick are recorded together, a commit for some of them.

        ``updated`` is what an update query gave, by stream, where it is known.
        """
        reports: list[TickReport] = []
        done: list[FinishedTick] = []
        for runtime, plan in planned:
            try:
                done.append(self._ticked(runtime, plan, updated.get(plan.uuid)))
            except TurnNeededError:
                self._leave([(runtime, plan)])
            except (SparkGoneError, BusyError):
                self.recording.record(done)
                raise
            if sum(one.seconds for one in done) >= _RECORDED_SECONDS:
                reports += self.recording.record(done)
                done = []
        return reports + self.recording.record(done)

    def _leave(self, planned: Sequence[tuple[StreamRuntime, TickPlan]]) -> None:
        """Leave planned ticks to a turn."""
        records = [runtime.record for runtime, _ in planned]
        suspect = any(map(self.failing.is_suspect, records))
        self.services.turns.leave(records, planned, is_suspect=suspect)

    def _updated(self, members: list[Member]) -> dict[str, pa.Table]:
        """Return what one query gave for streams of one shape; nothing where it fails: each is then run."""
        tables, limit = self.services.catalog.handles, self.services.settings.max_windows_per_tick
        try:
            return self.services.small.ask(
                lambda session: Sharing(session, tables, limit).run(members), key=members[0].shape
            )
        except Exception:  # noqa: BLE001 - whose fault it is shows when each runs by itself
            _log.warning("a query that %d streams share failed", len(members), exc_info=True)
            return {}

    def run(self, runtime: StreamRuntime, plan: TickPlan) -> TickReport:
        """Run and record a tick."""
        return self.recording.record([self._ticked(runtime, plan)])[0]

    def _ticked(
        self,
        runtime: StreamRuntime,
        plan: TickPlan,
        updated: pa.Table | None = None,
        *,
        unlimited: bool = False,
    ) -> FinishedTick:
        """Run a tick up to the commit of its output; ``updated`` is what its update query gave, if known."""
        started, output_committed = self.services.system_clock.monotonic(), True
        try:
            output = self.output(runtime)
            output_committed = self._is_committed(runtime, plan, output)
            self._follow_comments(runtime, plan)
            outcome = self.loader.run(
                *(runtime, plan, runtime.state, Tick.run),
                output_committed=output_committed,
                updated=updated,
                unlimited=unlimited,
            )
            if output_committed and runtime.target.checks:
                outcome.checked |= counts_committed(output, plan)
        except BaseException as error:  # noqa: BLE001 - a stream that fails must not stop its neighbours
            failure = self.failing.named(runtime.record, error)
            of_rows = isinstance(failure, ResultRefusedError) or failure.code in _OF_ROWS
            if of_rows and plan.kind == "changes" and not output_committed:
                self.dividing.withdraw(plan)  # what is corrected later is to be taken with it
            if isinstance(failure, TooManyWindowsError) and not output_committed:
                if not unlimited and self._has_begun(runtime, plan):
                    return self._ticked(runtime, plan, unlimited=True)
                if self.dividing.divide(runtime, plan, failure):
                    return FinishedTick(runtime, plan, None, self.services.system_clock.monotonic() - started)
                if self.let_wait(runtime, failure):
                    return self._ticked(runtime, plan)
                # So a row that is deleted leads back. Where policies judge commit by commit, it does not.
                if plan.kind == "changes" and runtime.stream.forgets_what_went:
                    self.dividing.withdraw(plan)
            self.failing.fail(runtime.record, failure)
            return FinishedTick(
                runtime, plan, None, self.services.system_clock.monotonic() - started, failure.message
            )
        if outcome.shrunk:
            now_us = to_micros(self.services.system_clock.now())
            self.services.registry.put_recalculation(
                taking_up(runtime.record, outcome.shrunk, plan.upto, now_us)
            )
        return FinishedTick(runtime, plan, outcome, self.services.system_clock.monotonic() - started)

    def _follow_comments(self, runtime: StreamRuntime, plan: TickPlan) -> None:
        """Have the output say what the tables that a tick reads say as of it."""
        reads = {**plan.table_versions, runtime.stream.source.info.path: plan.upto}
        known = runtime.commented
        spans = {path: (known[path], upto) for path, upto in reads.items() if known.get(path, upto) < upto}
        tables = self.services.catalog.handles
        follow_comments(runtime.stream, runtime.target, tables, spans, self.services.spark)
        runtime.commented = {**known, **reads}

    def let_wait(self, runtime: StreamRuntime, failure: TooManyWindowsError) -> bool:
        """Have the groups wait of which too many windows would fire; return whether the others can go on."""
        if not failure.groups or not self.services.is_ours(runtime.record.uuid):
            return False
        record = let_wait(self.services.registry, runtime.record, failure.groups)
        if record is None:
            return False
        self.failing.note(record, failure)
        runtime.record, gids = record, [group.gid for group in record.waiting_groups]
        runtime.stream = replace(runtime.stream, waiting_groups=tuple(gids))
        runtime.state = runtime.state.without(gids)
        return True

    def output(self, runtime: StreamRuntime) -> Table:
        """Return the output at its latest version, made again when it is gone and had no rows of the stream.

        Raises StreamError OUTPUT_GONE when it had, OUTPUT_REPLACED, OUTPUT_REWOUND or OUTPUT_TOUCHED when
        others changed rows of it, OUTPUT_CHANGED when its columns no longer fit.
        """
        try:
            table = self._untouched(runtime)
        except StorageError as error:
            if error.code != "TABLE_NOT_FOUND":
                raise
            look_anew()
            self.services.catalog.handles.forget(runtime.target.info.path)
            self._open_target(runtime)
            table = self._untouched(runtime)
        known = (runtime.pending or runtime.position).tick
        if (table.transaction_version(output_app(runtime.record.uuid)) or 0) > known:
            check_tick(output_app(runtime.record.uuid), self._recorded(runtime), table)
        return table

    def _untouched(self, runtime: StreamRuntime) -> Table:
        handles = self.services.catalog.handles
        table = handles.latest(runtime.target.info.path)
        for info in runtime.target.quarantines:
            handles.latest(info.path)
        check_beside(runtime.beside, handles)
        if runtime.mark is None:
            if TablePosition.of(table).commit is None:
                table.reopen()  # a statement elsewhere has dropped it, unless its log was cleared
            runtime.mark = TablePosition.of(table)  # what is there at the first look counts as it is
        elif check_output(runtime.mark, table, is_own=runtime.owns_output):
            self._open_target(runtime)
        return table

    def _open_target(self, runtime: StreamRuntime) -> None:
        services = self.services
        runtime.target = open_target(
            runtime.stream, runtime.record, services.catalog, services.spark, runtime.mark
        )

    def _recorded(self, runtime: StreamRuntime) -> int:
        """Return the last tick of a stream that the registry knows of by now."""
        look_anew()
        last = self.services.registry.last(runtime.record.uuid)
        return max((one.tick for one in last if one is not None), default=0)

    def _is_committed(self, runtime: StreamRuntime, plan: TickPlan, output: Table) -> bool:
        """Return whether an earlier run of this plan committed its output (only asked after a crash)."""
        if runtime.pending is None:
            return False
        return (output.transaction_version(output_app(runtime.record.uuid)) or 0) >= plan.tick

    def _has_begun(self, runtime: StreamRuntime, plan: TickPlan) -> bool:
        """Return whether an earlier run of this plan wrote beside the output: it has to be finished as it is.

        Under another number the same rows and events would be written once more.
        """
        if runtime.pending is None:
            return False
        return has_begun(self.services.catalog.handles, runtime.target, self.services.outbox, plan)
