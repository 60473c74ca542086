"""What a stream does next: what is new in its source, or less of it, else what time has made due."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakestream.engine.base.instants import newest_time, oldest_time, to_micros
from lakestream.engine.rounds.runtime import position_of
from lakestream.engine.windows.once.rebuilding import REBUILD
from lakestream.storage.records.registry import WITHDRAWN, HistorySlice, Instant, Progress

if TYPE_CHECKING:
    from lakestream.engine.rounds.runtime import Services, StreamRuntime
    from lakestream.engine.rounds.wakeups import Look
    from lakestream.engine.windows.waiting import TooManyWindowsError
    from lakestream.storage.delta import Table
    from lakestream.storage.records.registry import Registry, StreamRecord, TickPlan
    from lakestream.triggers.period import Period


@dataclass
class Held:
    """Streams that a round does not look at: no table and no instant tells what they wait for.

    That is the limits of their outputs (and until when, in the clock's seconds), events that have to be sent
    first, or others who work on them. As the round found it: what it was may be over before the round is.
    """

    services: Services
    limited: dict[str, float] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)

    @property
    def claimed(self) -> set[str]:
        """Those that others work on."""
        return self.services.turns.missed

    def __contains__(self, uuid: str) -> bool:
        """Return whether a stream is one of them, by its id."""
        return uuid in self.limited or uuid in self.blocked or uuid in self.claimed

    def holds(self, runtime: StreamRuntime) -> bool:
        """Return whether a stream has to wait before anything is planned for it."""
        uuid = runtime.record.uuid
        if self.services.is_blocked(uuid):
            self.blocked.add(uuid)
        elif runtime.not_before > self.services.system_clock.monotonic():
            self.limited[uuid] = runtime.not_before
        return uuid in self

    def wait_seconds(self) -> float:
        """Return the seconds until the first of the limits allows a commit, 0 where one does by now."""
        until = min(self.limited.values(), default=0.0)
        return max(0.0, until - self.services.system_clock.monotonic())


class RecordedStreams:
    """What is recorded of a lake's streams: read once, and again where others have recorded something since.

    So what is asked of a stream while it is claimed is how it stands. ``marks`` are the registry's as far
    as they are known, from before now.
    """

    def __init__(self, registry: Registry, marks: tuple[int, ...]) -> None:
        self._registry = registry
        self._read(marks)

    def _read(self, marks: tuple[int, ...]) -> None:
        self._marks = marks
        self._last = self._registry.last_of_all()
        self.streams = self._registry.streams()
        self._by_id = {record.uuid: record for record in self.streams}

    def stream(self, uuid: str) -> StreamRecord | None:
        """Return a stream, None for one that is no more."""
        if self._marks != (marks := self._registry.marks()):
            self._read(marks)
        return self._by_id.get(uuid)

    def last(self, uuid: str) -> tuple[TickPlan | None, Progress | None]:
        """Return a stream's newest plan and newest progress."""
        return self._last.get(uuid, (None, None))


@dataclass
class Following:
    """Plans the tick that follows a stream's last one."""

    services: Services

    def rest(self, runtime: StreamRuntime) -> None:
        """Wait until the limits of a stream's output allow its next commit."""
        wait = runtime.not_before - self.services.system_clock.monotonic()
        if wait > 0:
            self.services.system_clock.sleep(wait)

    def next(self, runtime: StreamRuntime, look: Look) -> TickPlan | None:
        """Plan the next tick, None where there is nothing to do.

        Sources that were seen in this look are not looked at again.
        """
        source, *_ = [self._seen(path, look) for path in runtime.paths]
        if runtime.period is not None:
            return self._period(runtime, runtime.period, source)
        planner = self.services.planner(runtime)
        if runtime.family.is_stale(runtime.state):
            return planner.by_clock(runtime.position, REBUILD)
        plan = planner.following(runtime.position, source)
        if plan is None:
            return self._by_clock(runtime)
        takes_all = plan.upto == source.version
        if runtime.family.closes_with_rows and takes_all:
            return replace(plan, closed=(runtime.closed_us, plan.clock_us))
        return plan

    def _seen(self, path: str, look: Look) -> Table:
        """Return a table as it is, or was seen in this look."""
        tables = self.services.catalog.handles
        table = tables.open(path) if path in look.sources else tables.latest(path)
        look.sources.setdefault(path, table.mark)
        return table

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


_MOST_PARTS = 64
_IN_VAIN = 3
"""Parts of history are divided so often with no fewer windows for it: a row then lies far from the others."""


@dataclass
class Dividing:
    """Divides ticks of which too many windows would fire: of fewer commits, or of shorter histories.

    ``tried`` are the fewest windows of a part of a stream's history, and how often it was divided in vain.
    """

    services: Services
    tried: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    def divide(self, runtime: StreamRuntime, plan: TickPlan, failure: TooManyWindowsError) -> bool:
        """Let a tick be over, and the next one take less than it; return whether there is less to take."""
        if not self.services.is_ours(plan.uuid):
            return False
        slices = None
        if plan.kind == "changes" and plan.upto - plan.after > 1:
            self.services.fewer_commits[plan.uuid] = (plan.upto - plan.after) // 2
        elif plan.kind == "history" and self._is_not_in_vain(plan, failure.count):
            slices = self._shorter(runtime, plan, failure.count)
            if slices is None:
                return False
        else:
            return False
        over = self.withdraw(plan, slices)
        runtime.pending, runtime.position = None, position_of(runtime.record, runtime.stream, over)
        return True

    def withdraw(self, plan: TickPlan, slices: HistorySlice | None = None) -> Progress:
        """Let a tick be over that has written nothing: what it was to take is planned anew, as it is then.

        ``slices`` are the part of history that is next, and the instants between the parts.
        """
        _, progress = self.services.registry.last(plan.uuid)
        known = progress or Progress(plan.uuid, plan.tick, plan.after)
        over = replace(known, tick=plan.tick, version=plan.after, kind=WITHDRAWN, next_slice=slices)
        now_us = to_micros(self.services.system_clock.now())
        over = replace(over, rows_in=0, rows_out=0, late=0, seconds=0.0, finished_us=now_us)
        self.services.registry.write_progress([over])
        return over

    def _is_not_in_vain(self, plan: TickPlan, count: int) -> bool:
        part = plan.uuid, plan.slice.number if plan.slice else 0
        fewest, vain = self.tried.get(part, (count + 1, 0))
        vain = 0 if count < fewest else vain + 1
        self.tried[part] = min(count, fewest), vain
        return vain < _IN_VAIN

    def _shorter(self, runtime: StreamRuntime, plan: TickPlan, count: int) -> HistorySlice | None:
        """Return the parts of history where this one is divided evenly; None for one of an instant."""
        part = plan.slice or HistorySlice(0, ())
        info, spark = runtime.stream.source.info, self.services.small.spark
        source = self.services.catalog.handles.open(info.path)
        low = plan.lower_us if plan.lower_us is not None else oldest_time(source, info.time_column, spark)
        high = plan.upper_us if plan.upper_us is not None else newest_time(source, info.time_column, spark)
        if low is None or high is None or high - low < 2:
            return None
        pieces = min(-(-count // self.services.settings.max_windows_per_tick) + 1, _MOST_PARTS)
        more = {low + (high - low) * number // pieces for number in range(1, pieces)} - {low, high}
        return HistorySlice(part.number, tuple(sorted({*part.cuts, *more}))) if more else None
