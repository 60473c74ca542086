"""A stream under the engine's care, and what the parts of the engine share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from lakestream.engine.base.instants import from_micros, to_micros
from lakestream.engine.planning.planner import Limits, Planner, Position
from lakestream.engine.reading.relations import history_of
from lakestream.engine.reading.transport import Size
from lakestream.engine.streams.stream import followed_paths
from lakestream.engine.ticks.sharing import Member, shape_of
from lakestream.engine.windows.families import family_of
from lakestream.engine.windows.family import Standing

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from pyspark.sql import SparkSession

    from lakestream.clock import Clock
    from lakestream.engine.base.state import GroupState
    from lakestream.engine.base.turns import Turns
    from lakestream.engine.reading.small import SmallPath
    from lakestream.engine.rounds.wakeups import Alarm, WaitCondition
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.streams.target import Target
    from lakestream.engine.ticks.tick import TickResult
    from lakestream.engine.windows.delays import Delays
    from lakestream.engine.windows.family import Family
    from lakestream.notify.outbox import Outbox
    from lakestream.settings import Settings
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.records.registry import (
        Corrected,
        Progress,
        Registry,
        StreamRecord,
        TablePosition,
        TickPlan,
        Totals,
    )
    from lakestream.triggers.period import Period


@dataclass(frozen=True)
class TickReport:
    """What a tick of a stream did; ``seconds`` is wall time, ``lag`` the source's commits still to take.

    ``violated`` counts rows that did not meet an expectation.
    """

    stream: str
    tick: int
    kind: str
    after: int
    upto: int
    commits: int
    rows_in: int
    rows_out: int
    windows: int
    late: int
    seconds: float
    transport: str
    lag: int
    error: str | None = None
    violated: int = 0


@dataclass
class StreamRuntime:
    """A stream under the engine's care: compiled, with its state and place.

    ``mark`` is up to where its output has nothing of others, None when that is not known, ``beside`` where
    the tables beside it stood when it wrote there last, by path; ``waiting`` what it waits for, None when the
    next round has to look at it. ``commented`` are the versions of the tables that it reads, by path, whose
    comments its output has.
    """

    record: StreamRecord
    stream: Stream
    target: Target
    position: Position
    state: GroupState
    pending: TickPlan | None = None
    mark: TablePosition | None = None
    beside: Mapping[str, TablePosition] = field(default_factory=dict)
    totals: Totals | None = None
    saved_tick: int = 0
    saved_at: float = 0.0
    not_before: float = 0.0
    delays: Delays | None = None
    closed_us: int = 0
    corrected: Corrected | None = None
    waiting: WaitCondition | None = None
    commented: dict[str, int] = field(default_factory=dict)

    @cached_property
    def period(self) -> Period | None:
        """The instants at which the clock triggers it; None where rows do."""
        return self.family.instants(self.record.created_us)

    @property
    def newest_us(self) -> int | None:
        """The newest event time that it has taken in any group (µs since 1970 UTC); None: none."""
        import pyarrow.compute as pc

        rows = self.state.rows
        newest: int | None = pc.max(rows["newest"]).as_py() if rows is not None else None
        return newest

    @property
    def owns_output(self) -> bool:
        """Whether all rows of its output are of streams: a stream made the table."""
        return owns_output(self.record, self.target.info)

    @property
    def paths(self) -> tuple[str, ...]:
        """Where the tables lie that it waits for changes of, its source first."""
        return (self.stream.source.info.path, *followed_paths(self.stream))

    @property
    def family(self) -> Family:
        """What its windows are."""
        return family_of(self.stream)

    @property
    def standing(self) -> Standing:
        """Where it stands towards the clock."""
        return Standing(self.state, self.closed_us, self.delays)

    @cached_property
    def shape(self) -> Hashable:
        """What is equal for streams whose ticks may share a query."""
        return shape_of(self.stream, self.target)

    def member(self, plan: TickPlan) -> Member:
        """Return a tick of it as one that may share its query with others."""
        history = history_of(self.record, self.stream.definition)
        return Member(self.stream, self.target, plan, self.state, history, self.shape)

    @property
    def alarm(self) -> Alarm | None:
        """When the clock makes something due, None for never."""
        due_us = self.waiting.due_us if self.waiting is not None else None
        return self.period or (None if due_us is None else from_micros(due_us))


@dataclass(frozen=True)
class FinishedTick:
    """A tick that was run: its outcome, or what it failed of (None: it did not), and how long it took."""

    runtime: StreamRuntime
    plan: TickPlan
    outcome: TickResult | None
    seconds: float
    error: str | None = None


@dataclass
class Services:
    """What the parts of an engine share: the lake, its clock and settings, and which streams are taken.

    ``session`` is called on first need, ``asked`` is asked before it; ``system_clock`` gives real seconds for
    durations and rate limits; ``is_blocked`` tells which streams wait because their events cannot be sent,
    ``is_ours`` which ones are still this process's to run where daemons share them; ``only`` are the
    streams that rounds take, by id (None: all). ``has_guests`` tells whether clients' statements run in the
    Spark that is there, or did in the one that has just died. ``fewer_commits`` are how many a tick of a
    stream takes at most, by id, where more have made too many windows fire. ``turns`` says what is left to
    others, ``tell`` hears of each tick as it is recorded.
    """

    catalog: Catalog
    registry: Registry
    clock: Clock
    settings: Settings
    session: Callable[[], SparkSession]
    system_clock: Clock
    epoch: int
    outbox: Outbox
    asked: SmallPath
    turns: Turns
    is_blocked: Callable[[str], bool] = field(default=lambda _: False)
    is_ours: Callable[[str], bool] = field(default=lambda _: True)
    has_guests: Callable[[], bool] = field(default=lambda: False)
    only: frozenset[str] | None = None
    fewer_commits: dict[str, int] = field(default_factory=dict)
    tell: Callable[[TickReport], None] = field(default=lambda _: None)

    def spark(self) -> SparkSession:
        """Return Spark's session; within a round raises TurnNeededError."""
        self.turns.check_turn()
        return self.session()

    @cached_property
    def small(self) -> SmallPath:
        """What is asked about few rows before Spark is, if that may be."""
        return replace(self.asked, spark=self.spark)

    def planner_of(self, record: StreamRecord, stream: Stream) -> Planner:
        """Return what plans the ticks of a stream."""
        now, limits = to_micros(self.clock.now()), self.limits()
        commits = min(limits.commits, self.fewer_commits.get(record.uuid, limits.commits))
        limits = replace(limits, commits=commits)
        return Planner(record, stream, self.catalog.handles, limits, now, self.small)

    def limits(self) -> Limits:
        """Return how much one tick takes."""
        settings = self.settings
        return Limits(
            settings.max_commits_per_tick,
            settings.max_rows_per_tick,
            settings.max_bytes_per_tick,
            Size(settings.small_rows, settings.small_bytes),
            settings.transport,
            settings.duckdb_memory if settings.small_path == "auto" else 0,
        )

    def streams(self) -> list[StreamRecord]:
        """Return the streams that rounds take, but for those of turns."""
        return [r for r in self.registry.streams() if self.takes(r.uuid)]

    def takes(self, uuid: str) -> bool:
        """Return whether a stream is one that rounds take, and not elsewhere."""
        return (self.only is None or uuid in self.only) and uuid not in self.turns.elsewhere

    def told(self, report: TickReport) -> TickReport:
        """Have a tick heard of, and return its report."""
        with self.turns.aside():
            self.tell(report)
        return report

    def planner(self, runtime: StreamRuntime) -> Planner:
        """Return what plans the ticks of a stream under care."""
        return self.planner_of(runtime.record, runtime.stream)


def owns_output(record: StreamRecord, output: TableInfo) -> bool:
    """Return whether all rows of an output are of streams: this one made the table, or another one did."""
    return not record.shared_output or output.kind == "output"


def mark_of(record: StreamRecord, progress: Progress | None) -> TablePosition | None:
    """Return up to where a stream's output is known to have nothing of others, None where that is not known.

    That is where it stood after the last tick, or where START STREAM has taken it as it is since.
    """
    accepted = record.accepted
    if accepted is not None and accepted.tick == (progress.tick if progress else 0):
        return accepted.output
    return progress.output if progress else None


def beside_of(record: StreamRecord, progress: Progress | None) -> Mapping[str, TablePosition]:
    """Return where the tables beside a stream's output stood after its last tick, by path."""
    return progress.beside if progress is not None and mark_of(record, progress) is not None else {}


def position_of(record: StreamRecord, stream: Stream, progress: Progress | None) -> Position:
    """Return where a stream stands by its last progress; None: it has not begun."""
    wants_history = stream.definition.options.wants_history
    if progress is None:
        return Position(0, None if wants_history else record.start_version)
    following = progress.next_slice
    followed = progress.followed
    if following is not None:
        return Position(progress.tick, None, following.number, following.cuts, followed=followed)
    return Position(progress.tick, progress.version, commit=progress.commit, followed=followed)
