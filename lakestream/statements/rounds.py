"""Rounds of ticks, continuous queries and triggers of one lake, until there is nothing to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakestream.storage.places.leases import TREE
from lakestream.storage.tables.table import storage_refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.engine.rounds.wakeups import Alarm
    from lakestream.statements.streams import StreamStatements
    from lakestream.statements.workspace import Workspace


@dataclass
class RunSummary:
    """The ticks of a run, in order."""

    ticks: list[TickReport] = field(default_factory=list)

    @property
    def failed(self) -> list[TickReport]:
        """The ticks that ended in an error."""
        return [tick for tick in self.ticks if tick.error]


@dataclass
class Rounds:
    """Runs rounds. ``alarms`` tells when the clock makes something due, as the last round left it."""

    at: Workspace
    streams: StreamStatements
    alarms: Mapping[str, Alarm] = field(default_factory=dict)
    _part: frozenset[str] | None = None
    _runs_tree: bool = False

    def tick_once(self) -> list[TickReport]:
        """Run one round; see :meth:`lakestream.lake.Lake.tick_once`."""
        self.at.check_spark()
        self._take_part()
        try:
            self._runs_tree = (self._part is None or TREE in self._part) and self.at.runs_tree()
            if self._is_idle():
                return []
            return self._ticked(
                lambda: [*self.at.engine.round(), *(self.at.tree.round() if self._runs_tree else [])]
            )
        except BaseException as error:
            if (of_storage := storage_refusal(error)) is not None:
                raise of_storage from error
            raise

    def _take_part(self) -> None:
        """Follow the leases: what another daemon ran before is read from the lake."""
        part = None if self.at.leases is None else self.at.leases.use()
        if part is None or part == self._part:
            return
        self._part = part
        self.at.engine.take(part)
        # Events are sent by the daemon that runs their stream, from where the one before has stopped.
        self.at.notifier.close()
        self.at.notifier.only = part
        self.at.forget_tree()

    def _tick_streams(self) -> list[TickReport]:
        return self._ticked(self.at.engine.round)

    def _ticked(self, work: Callable[[], list[TickReport]]) -> list[TickReport]:
        with self.at.writing("ticks"):
            self.at.notifier.follow(self.at.engine, at_once=False)
            reports = work()
            if reports:
                self.at.notifier.follow(self.at.engine, at_once=True)
                self.at.engine.keep_up()
        self.alarms = {**self.at.engine.alarms, **(self.at.tree.queries.alarms if self._runs_tree else {})}
        return reports

    def _is_idle(self) -> bool:
        """Return whether a round would do nothing: to find that out it need not keep others from writing."""
        return (
            self.at.notifier.is_waiting()
            and self.at.engine.is_idle()
            and not (self._runs_tree and not self.at.tree.is_idle())
        )

    def run(
        self,
        until: str = "idle",
        on_tick: Callable[[TickReport], None] | None = None,
        streams: Sequence[str] | None = None,
    ) -> RunSummary:
        """Process everything available; see :meth:`lakestream.lake.Lake.run`."""
        if until != "idle":
            raise ValueError('run() goes on until "idle"')
        if streams is None:
            return self._run_until_idle(on_tick, self.tick_once)
        self.at.engine.restrict(frozenset(self.streams.named(name).uuid for name in streams))
        try:
            return self._run_until_idle(on_tick, self._tick_streams)
        finally:
            self.at.engine.restrict(None)

    def _run_until_idle(
        self, on_tick: Callable[[TickReport], None] | None, tick: Callable[[], list[TickReport]]
    ) -> RunSummary:
        summary = RunSummary()
        while True:
            reports = tick()
            for report in reports:
                summary.ticks.append(report)
                if on_tick is not None:
                    on_tick(report)
            wait = self.at.engine.wait_seconds()
            if not reports and not wait:
                blocked = self._blocked()
                self.at.notifier.drain()
                if not blocked - self._blocked():
                    return summary
                continue
            if not reports:
                self.at.system_clock.sleep(wait)

    def _blocked(self) -> set[str]:
        """Return the streams that wait until their events have been sent."""
        return {
            record.uuid for record in self.at.registry.streams() if self.at.notifier.is_blocked(record.uuid)
        }
