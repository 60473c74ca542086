"""What a stream does next: what is new in its source, else what time has made due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.engine.windows.once.rebuilding import REBUILD
from lakestream.storage.records.registry import Instant

if TYPE_CHECKING:
    from lakestream.engine.rounds.runtime import Services, StreamRuntime
    from lakestream.engine.rounds.wakeups import Look
    from lakestream.storage.delta import Table
    from lakestream.storage.records.registry import TickPlan
    from lakestream.triggers.period import Period


@dataclass
class Following:
    """Plans the tick that follows a stream's last one."""

    services: Services

    def next(self, runtime: StreamRuntime, look: Look) -> TickPlan | None:
        """Plan the next tick; sources that were seen in this look are not looked at again."""
        if self.services.system_clock.monotonic() < runtime.not_before:
            return None
        path = runtime.stream.source.info.path
        tables = self.services.catalog.handles
        source = tables.open(path) if path in look.sources else tables.latest(path)
        look.sources.setdefault(path, source.mark)
        if runtime.period is not None:
            return self._period(runtime, runtime.period, source)
        planner = self.services.planner(runtime)
        if runtime.family.is_stale(runtime.state):
            return planner.by_clock(runtime.position, REBUILD)
        return planner.following(runtime.position, source) or self._by_clock(runtime)

    def _period(self, runtime: StreamRuntime, period: Period, source: Table) -> TickPlan | None:
        """Plan the instant of PERIOD that is due; those before it that were missed are counted."""
        planner = self.services.planner(runtime)
        planner.check(runtime.position, source)
        due = period.due(runtime.closed_us, planner.clock_us)
        if due is None:
            return None
        instant, missed = due
        around = Instant(period.previous(instant), period.following(instant), missed)
        return planner.period(runtime.position, source, (runtime.closed_us, instant), around)

    def _by_clock(self, runtime: StreamRuntime) -> TickPlan | None:
        """Plan what is due because time has passed, None for nothing."""
        planner = self.services.planner(runtime)
        due = runtime.family.due(runtime.standing, planner.clock_us)
        if due is None:
            return None
        return planner.by_clock(runtime.position, due.kind, windows=due.windows, closed=due.closed)
