"""What ticks did, recorded: progress in the registry, states that are saved, and reports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakestream.engine.base.faults import crash_point
from lakestream.engine.base.instants import to_micros
from lakestream.engine.planning.checks import settled
from lakestream.engine.rounds.runtime import FinishedTick, Services, StreamRuntime, TickReport, position_of
from lakestream.storage.delta import owe, read_commits
from lakestream.storage.records.registry import Progress, TablePosition, Totals, checked_together

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakestream.engine.rounds.failing import Failing
    from lakestream.engine.rounds.loading import Loader
    from lakestream.engine.ticks.tick import TickResult
    from lakestream.storage.records.registry import HistorySlice, TickPlan


@dataclass
class Recording:
    """Records ticks that were run, and lets their streams stand after them."""

    services: Services
    loader: Loader
    failing: Failing

    def record(self, done: Sequence[FinishedTick]) -> list[TickReport]:
        """Record ticks that were run, in one commit."""
        progress = [(one, one.outcome, self._progress(one, one.outcome)) for one in done if one.outcome]
        self.services.registry.write_progress([record for *_, record in progress])
        if progress:
            crash_point("C7")
        for one, outcome, record in progress:
            self._advance(one.runtime, one.plan, outcome, record)
        reports = [self.report(one.runtime, one.plan, one.outcome, one.seconds, one.error) for one in done]
        return [self.services.told(report) for report in reports]

    def _progress(self, done: FinishedTick, outcome: TickResult) -> Progress:
        """Return the record of a tick whose output is there."""
        runtime, plan = done.runtime, done.plan
        output = self.services.catalog.handles.open(runtime.target.info.path)
        mark = settled(runtime.mark, output, outcome.output_version, is_own=runtime.owns_output)
        pause = self._pause_after(runtime, outcome) - done.seconds
        return Progress(
            uuid=plan.uuid,
            tick=plan.tick,
            version=plan.upto,
            rows_in=outcome.rows_in,
            rows_out=outcome.rows_out,
            late=outcome.late,
            seconds=done.seconds,
            finished_us=to_micros(self.services.system_clock.now()),
            kind=plan.kind,
            lag=self._lag(runtime, plan),
            windows=outcome.windows,
            held_until=self.services.system_clock.now().timestamp() + max(0.0, pause),
            totals=_added(runtime.totals or Totals(), outcome),
            output=mark,
            beside={info.path: self._place(runtime, info.path) for info in runtime.target.beside},
            closed_us=_closed_us(runtime, plan),
            corrected=runtime.corrected,
            next_slice=_next_slice(plan),
            commit=plan.commit,
            followed=plan.followed,
            checked=outcome.checked,
        )

    def _place(self, runtime: StreamRuntime, path: str) -> TablePosition:
        """Return where a table beside the output stands after a tick, which may not have written there."""
        known, table = runtime.beside.get(path), self.services.catalog.handles.open(path)
        return known if known is not None and known.version == table.version else TablePosition.of(table)

    def _advance(
        self, runtime: StreamRuntime, plan: TickPlan, outcome: TickResult, progress: Progress
    ) -> None:
        """Let the stream stand after a tick that is recorded."""
        self.failing.recover(runtime)
        self.failing.retries.forget(plan.uuid)
        if (fewer := self.services.fewer_commits.get(plan.uuid)) is not None:
            self.services.fewer_commits[plan.uuid] = fewer + max(1, fewer // 8)
        runtime.pending, runtime.mark, runtime.beside = None, progress.output, progress.beside
        runtime.state = outcome.state
        runtime.totals = progress.totals
        runtime.position = position_of(runtime.record, runtime.stream, progress)
        held = progress.held_until - self.services.system_clock.now().timestamp()
        runtime.not_before = self.services.system_clock.monotonic() + max(0.0, held)
        self.loader.take_clock(runtime, plan)
        self._save_when_due(runtime)

    def _pause_after(self, runtime: StreamRuntime, outcome: TickResult) -> float:
        """Return the seconds that the sink's limits put between this output commit and the next one."""
        version, settings = outcome.output_version, self.services.settings
        if version is None:
            return 0.0
        pause = 1 / settings.sink_commits_per_second if settings.sink_commits_per_second else 0.0
        if settings.sink_bytes_per_second:
            commit = read_commits(runtime.target.info.path, version - 1, version)[0]
            pause = max(pause, commit.add_bytes / settings.sink_bytes_per_second)
        return pause

    def _save_when_due(self, runtime: StreamRuntime) -> None:
        ticks = runtime.position.tick - runtime.saved_tick
        age = self.services.system_clock.monotonic() - runtime.saved_at
        # Its state follows from the ticks and when they were, not from a range.
        if runtime.family.saves_each_tick(runtime.standing):
            self._saved(runtime, self.save)
        elif (
            ticks >= self.services.settings.checkpoint_ticks
            or age >= self.services.settings.checkpoint_seconds
        ):
            place = self.services.catalog.layout.system_path(f"state/{runtime.record.uuid}")
            owe(place, "state", lambda: self._saved(runtime, self.save_claimed))

    def save_claimed(self, runtime: StreamRuntime) -> None:
        """Save the state of a stream as :meth:`save`, unless others work on it or have ticked it since."""
        if not self.is_unsaved(runtime):
            return
        with self.services.turns.claiming(runtime.record.uuid) as is_claimed:
            if is_claimed and self.loader.stands(runtime):
                self.save(runtime)

    def _saved(self, runtime: StreamRuntime, save: Callable[[StreamRuntime], None]) -> None:
        try:
            save(runtime)
        except Exception as error:  # noqa: BLE001 - its neighbours are recorded, too
            self.failing.fail(runtime.record, self.failing.named(runtime.record, error))

    def is_unsaved(self, runtime: StreamRuntime) -> bool:
        """Return whether a stream has a state that is not saved as that of its last tick."""
        position = runtime.position
        return bool(
            position.tick != runtime.saved_tick and position.version is not None and len(runtime.state)
        )

    def save(self, runtime: StreamRuntime) -> None:
        """Save the state of a stream, unless that of its last tick is."""
        position = runtime.position
        if not self.is_unsaved(runtime):
            return
        assert position.version is not None  # by is_unsaved
        self.write_state(runtime, position.tick, position.version)
        crash_point("C4")
        runtime.saved_tick, runtime.saved_at = runtime.position.tick, self.services.system_clock.monotonic()

    def write_state(self, runtime: StreamRuntime, tick: int, version: int) -> None:
        """Save the state of a stream as that of a tick and a version of its source: what changed, or all."""
        states, state = self.services.registry.states, runtime.state
        sums_up = runtime.stream.incremental is not None and runtime.delays is None
        if sums_up and not state.knows_opened:
            # First: they would be of the tick, and not of these groups.
            self.services.registry.opened.remove(runtime.record.uuid)
        # The clock alone changes delays, of whichever groups.
        changes = state.changes(version) if runtime.delays is None else None
        if changes is None or not states.write_changes(runtime.record.uuid, tick, changes):
            whole = state.saved(version)
            states.write(
                runtime.record.uuid, tick, whole if runtime.delays is None else runtime.delays.saved(whole)
            )
        if sums_up and state.knows_opened:
            self._write_opened(runtime, tick, version)
        runtime.state = state.as_saved(tick)

    def _write_opened(self, runtime: StreamRuntime, tick: int, version: int) -> None:
        """Save the open windows of a stream beside its groups, so that no start reads their rows again.

        Those that are not of the groups' tick, as a crash between the two leaves them, count for nothing.
        """
        saved, state, uuid = self.services.registry.opened, runtime.state, runtime.record.uuid
        changes = state.opened_changes(version)
        if changes is not None and saved.write_changes(uuid, tick, changes):
            return
        whole = state.opened_saved(version)
        if whole is None:
            saved.remove(uuid)
        else:
            saved.write(uuid, tick, whole)

    def report(
        self,
        runtime: StreamRuntime,
        plan: TickPlan,
        outcome: TickResult | None,
        seconds: float,
        error: str | None,
    ) -> TickReport:
        """Return what a tick did, or what it failed of."""
        return TickReport(
            stream=f"{runtime.record.database}.{runtime.record.name}",
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
            transport=plan.transport,
            lag=self._lag(runtime, plan),
            error=error,
            violated=sum(counts.violated for counts in outcome.checked.values()) if outcome else 0,
        )

    def _lag(self, runtime: StreamRuntime, plan: TickPlan) -> int:
        """Return how many commits of the source there are behind a tick, as far as was seen."""
        return max(0, self.services.catalog.handles.open(runtime.stream.source.info.path).version - plan.upto)


def _added(totals: Totals, outcome: TickResult) -> Totals:
    return Totals(
        totals.rows_in + outcome.rows_in,
        totals.rows_out + outcome.rows_out,
        totals.late + outcome.late,
        totals.missed + outcome.missed,
        checked_together(totals.checked, outcome.checked),
    )


def _next_slice(plan: TickPlan) -> HistorySlice | None:
    """Return the next part of history, None when this was the last one."""
    done = plan.slice
    return None if done is None or done.number == len(done.cuts) else replace(done, number=done.number + 1)


def _closed_us(runtime: StreamRuntime, plan: TickPlan) -> int | None:
    """Return up to where the clock has closed windows, for a stream whose windows it closes."""
    if runtime.period is None and not runtime.stream.emission.by_clock:
        return None
    return runtime.closed_us if plan.closed is None else plan.closed[1]
