"""What ticks did, recorded: progress in the registry, states that are saved, and reports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakestream.engine.base.faults import reach
from lakestream.engine.base.instants import to_micros
from lakestream.engine.rounds.running import Done, Running, Services, TickReport, position_of
from lakestream.storage.delta import read_commits
from lakestream.storage.registry import OutputMark, Progress, Totals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.engine.rounds.failing import Failing
    from lakestream.engine.rounds.loading import Loader
    from lakestream.engine.ticks.tick import Outcome
    from lakestream.storage.registry import HistorySlice, TickPlan


@dataclass
class Recording:
    """Records ticks that were run, and lets their streams stand after them."""

    services: Services
    loader: Loader
    failing: Failing

    def record(self, done: Sequence[Done]) -> list[TickReport]:
        """Record ticks that were run, in one commit."""
        progress = [(one, one.outcome, self._progress(one, one.outcome)) for one in done if one.outcome]
        self.services.registry.write_progress([record for *_, record in progress])
        if progress:
            reach("C7")
        for one, outcome, record in progress:
            self._advance(one.running, one.plan, outcome, record)
        return [self.report(one.running, one.plan, one.outcome, one.seconds, one.error) for one in done]

    def _progress(self, done: Done, outcome: Outcome) -> Progress:
        """Return the record of a tick whose output is there."""
        running, plan = done.running, done.plan
        mark = OutputMark.of(self.services.catalog.handles.open(running.target.info.path))
        pause = self._pause_after(running, outcome) - done.seconds
        return Progress(
            uuid=plan.uuid,
            tick=plan.tick,
            version=plan.upto,
            rows_in=outcome.rows_in,
            rows_out=outcome.rows_out,
            late=outcome.late,
            seconds=done.seconds,
            finished_us=to_micros(self.services.meter.now()),
            kind=plan.kind,
            lag=self._lag(running, plan),
            windows=outcome.windows,
            held_until=self.services.meter.now().timestamp() + max(0.0, pause),
            totals=_added(running.totals or Totals(), outcome),
            output=mark,
            closed_us=_closed_us(running, plan),
            corrected=running.corrected,
            next_slice=_next_slice(plan),
        )

    def _advance(self, running: Running, plan: TickPlan, outcome: Outcome, progress: Progress) -> None:
        """Let the stream stand after a tick that is recorded."""
        self.failing.recover(running)
        self.failing.retries.forget(plan.uuid)
        running.pending, running.mark = None, progress.output
        running.state = outcome.state
        running.totals = progress.totals
        running.position = position_of(running.record, running.stream, progress)
        held = progress.held_until - self.services.meter.now().timestamp()
        running.not_before = self.services.meter.monotonic() + max(0.0, held)
        self.loader.take_clock(running, plan)
        self._save_when_due(running)

    def _pause_after(self, running: Running, outcome: Outcome) -> float:
        """Return the seconds that the sink's limits put between this output commit and the next one."""
        version, settings = outcome.output_version, self.services.settings
        if version is None:
            return 0.0
        pause = 1 / settings.sink_commits_per_second if settings.sink_commits_per_second else 0.0
        if settings.sink_bytes_per_second:
            commit = read_commits(running.target.info.path, version - 1, version)[0]
            pause = max(pause, commit.add_bytes / settings.sink_bytes_per_second)
        return pause

    def _save_when_due(self, running: Running) -> None:
        ticks = running.position.tick - running.saved_tick
        age = self.services.meter.monotonic() - running.saved_at
        # Its state follows from the ticks and when they were, not from a range.
        by_tick = running.family.saves_each_tick(running.standing)
        if (
            by_tick
            or ticks >= self.services.settings.checkpoint_ticks
            or age >= self.services.settings.checkpoint_seconds
        ):
            self.save(running)

    def save(self, running: Running) -> None:
        """Save the state of a stream, unless that of its last tick is."""
        position = running.position
        if position.tick == running.saved_tick or position.version is None or not len(running.state):
            return
        self.write_state(running, position.tick, position.version)
        reach("C4")
        running.saved_tick, running.saved_at = running.position.tick, self.services.meter.monotonic()

    def write_state(self, running: Running, tick: int, version: int) -> None:
        """Save the state of a stream as that of a tick and a version of its source."""
        state = running.state.saved(version)
        self.services.registry.write_state(
            running.record.uuid, tick, running.delays.saved(state) if running.delays is not None else state
        )

    def report(
        self, running: Running, plan: TickPlan, outcome: Outcome | None, seconds: float, error: str | None
    ) -> TickReport:
        """Return what a tick did, or what it failed of."""
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
            transport=plan.transport,
            lag=self._lag(running, plan),
            error=error,
        )

    def _lag(self, running: Running, plan: TickPlan) -> int:
        """Return how many commits of the source there are behind a tick, as far as was seen."""
        return max(0, self.services.catalog.handles.open(running.stream.source.info.path).version - plan.upto)


def _added(totals: Totals, outcome: Outcome) -> Totals:
    return Totals(
        totals.rows_in + outcome.rows_in,
        totals.rows_out + outcome.rows_out,
        totals.late + outcome.late,
        totals.missed + outcome.missed,
    )


def _next_slice(plan: TickPlan) -> HistorySlice | None:
    """Return the next part of history, None when this was the last one."""
    done = plan.slice
    return None if done is None or done.number == len(done.cuts) else replace(done, number=done.number + 1)


def _closed_us(running: Running, plan: TickPlan) -> int | None:
    """Return up to where the clock has closed windows, for a stream whose windows it closes."""
    if running.period is None and not running.stream.emission.by_clock:
        return None
    return running.closed_us if plan.closed is None else plan.closed[1]
