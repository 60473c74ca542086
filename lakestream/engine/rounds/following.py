"""What a stream does next: what is new in its source, else what time has made due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.engine.windows.once.readmission import ANEW
from lakestream.storage.registry import Instant

if TYPE_CHECKING:
    from lakestream.engine.rounds.agenda import Look
    from lakestream.engine.rounds.running import Running, Services
    from lakestream.storage.delta import Table
    from lakestream.storage.registry import TickPlan
    from lakestream.triggers.period import Period


@dataclass
class Following:
    """Plans the tick that follows a stream's last one."""

    services: Services

    def next(self, running: Running, look: Look) -> TickPlan | None:
        """Plan the next tick; sources that were seen in this look are not looked at again."""
        if self.services.meter.monotonic() < running.not_before:
            return None
        path = running.stream.source.info.path
        tables = self.services.catalog.handles
        source = tables.open(path) if path in look.sources else tables.latest(path)
        look.sources.setdefault(path, source.mark)
        if running.period is not None:
            return self._period(running, running.period, source)
        planner = self.services.planner(running)
        if running.family.is_stale(running.state):
            return planner.by_clock(running.position, ANEW)
        return planner.following(running.position, source) or self._by_clock(running)

    def _period(self, running: Running, period: Period, source: Table) -> TickPlan | None:
        """Plan the instant of PERIOD that is due; those before it that were missed are counted."""
        planner = self.services.planner(running)
        planner.check(running.position, source)
        due = period.due(running.closed_us, planner.clock_us)
        if due is None:
            return None
        instant, missed = due
        around = Instant(period.previous(instant), period.following(instant), missed)
        return planner.period(running.position, source, (running.closed_us, instant), around)

    def _by_clock(self, running: Running) -> TickPlan | None:
        """Plan what is due because time has passed, None for nothing."""
        planner = self.services.planner(running)
        due = running.family.due(running.standing, planner.clock_us)
        if due is None:
            return None
        return planner.by_clock(running.position, due.kind, windows=due.windows, closed=due.closed)
