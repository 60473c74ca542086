"""What all kinds of windows have in common: the interface by which ticks, VERIFY and RESYNC go.

A stream belongs to one of four families: windows of a time grid, row windows (which rows cut), windows that
fire once (over the rows that were admitted), and instants of the clock. A family says what a tick does to
find out what fires, and how that follows from the source as it is; :mod:`families` says whose a stream is.
A tick reads, advances, evaluates, commits and reports; the family has the second of these alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from lakestream.compute.windows.calculation import ROWS, WINDOWS
from lakestream.compute.windows.keyed.keys import Share
from lakestream.engine.base.state import MANY_GROUPS, GroupState
from lakestream.engine.reading.queries import empty_state_sql, rows_sql
from lakestream.engine.reading.relations import CHANGED, FIRED, STATE
from lakestream.engine.reading.transport import ARROW, SPARK
from lakestream.storage.rows.views import view_of_rows, view_of_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.base.rows import Rows
    from lakestream.engine.reading.narrowed import Narrowed, OneOf
    from lakestream.engine.reading.relations import History, Relations, Spans
    from lakestream.engine.reading.transport import Transport
    from lakestream.engine.streams.stream import EventRange, Stream
    from lakestream.engine.streams.target import Target
    from lakestream.engine.windows.delays import Delays, OpenWindow
    from lakestream.notify.events import EventRules
    from lakestream.storage.delta import CommitInfo, Tables
    from lakestream.storage.records.registry import StreamRecord, TickPlan, WaitingGroup
    from lakestream.storage.rows.views import View
    from lakestream.triggers.period import Period

PERIOD, CLOCK, DELAY = "period", "clock", "delay"
"""Kinds of ticks: an instant of PERIOD, windows that the clock has closed, open ones whose delay is over."""

CLOCK_KINDS = (DELAY, CLOCK)
"""Kinds of ticks that take no changes: time has passed."""


UNLIMITED = 2**62
"""Windows of a tick that may be as many as there are; a number can be added to it."""

WHOLE = "replace all rows of the windows"
"""What EXPLAIN says of results that take the place of all that there was."""


@dataclass(frozen=True)
class TickInput:
    """What a tick starts from: what it reads, its output, and the state before it.

    ``max_windows`` is the most that may fire in a tick; ``output_committed``: the output is there already,
    only the state is to follow (replay after a crash); ``rules``: what events are emitted, None for none;
    ``updated``: the result of the update query, where streams of one shape have shared it. ``touched`` are
    windows that changes of other tables touch (gid, group columns, a, b; None: none), as :class:`Touched`
    gives them.
    """

    relations: Relations
    target: Target
    state: GroupState
    max_windows: int
    output_committed: bool = False
    rules: EventRules | None = None
    updated: pa.Table | None = None
    touched: pa.Table | None = None

    @property
    def most_windows(self) -> int:
        """The most windows that may fire; those whose results are there were within it, tick by tick."""
        return UNLIMITED if self.output_committed else self.max_windows

    @property
    def spark(self) -> SparkSession:
        """The session that computes."""
        return self.relations.spark

    @property
    def tables(self) -> Tables:
        """The handles of the lake's tables."""
        return self.relations.tables

    @property
    def stream(self) -> Stream:
        """The stream that ticks."""
        return self.relations.stream

    @property
    def plan(self) -> TickPlan:
        """What the tick takes."""
        return self.relations.plan

    @property
    def transport(self) -> Transport:
        """How bytes move."""
        return self.relations.transport

    def state_view(self, changes: str | View) -> View:
        """Register the groups before the tick; with the types of the changes where there are none yet."""
        return self._view_of(self.state, changes)

    def touched_view(self, changes: View) -> View:
        """Register the groups before the tick of which there are changes; all where they are not many."""
        if self.touched is not None or len(self.state) <= MANY_GROUPS or self.transport.name != ARROW:
            return self.state_view(changes)
        touched = self.spark.sql(f"SELECT DISTINCT gid FROM {changes}").toArrow()
        return self._view_of(self.state.only(touched["gid"]), changes)

    def _view_of(self, state: GroupState, changes: str | View) -> View:
        if len(state):
            return view_of_rows(self.spark, state.rows, STATE)
        return view_of_sql(self.spark, empty_state_sql(self.stream, str(changes)), STATE)


@dataclass(frozen=True)
class Fired:
    """Windows that are to be computed.

    They lie in ``spans`` of event time (µs). ``windows`` is SQL of them with their placeholders, over the
    rows that are registered by then; None: they are registered, with their rows. ``settled``: their rows are
    those of the source as it is. ``share``: of which keys of a view there are results; ``registered`` are
    views of reads that are there already, ``narrowed`` those of which only rows with some values count, and
    ``own`` what rows of the source have that count.
    """

    spans: Spans
    windows: str | None = None
    settled: bool = True
    share: Share = Share.ALL
    registered: frozenset[str] = frozenset()
    narrowed: Narrowed = field(default_factory=dict)
    own: Sequence[OneOf] = ()


@dataclass(frozen=True)
class Advance:
    """What a tick found out: the next state, and what becomes of which windows.

    ``rows`` came, ``late`` of them were late; ``windows`` fire, of which ``results`` are computed already and
    ``fired`` are to be. The old rows of the windows ``replaced`` (gid, low BIGINT µs) go, or all of those of
    ``event_range``. ``errors`` are rows for the error table, ``missed`` instants of the clock that were
    passed over. ``events`` are a relation of what happened to windows (gid, group columns, low,
    high, kind, refired, extra), ``closings`` such events with their results, as the outbox takes them.
    """

    state: GroupState
    rows: int = 0
    late: int = 0
    missed: int = 0
    windows: int = 0
    results: Sequence[Rows] = ()
    fired: Fired | None = None
    replaced: Sequence[pa.Table] = ()
    event_range: EventRange | None = None
    errors: pa.Table | None = None
    events: View | None = None
    closings: pa.Table | None = None

    @property
    def writes_nothing(self) -> bool:
        """Whether no row of the output comes or goes; what a recalculation does not find goes."""
        return not (self.results or self.replaced or self.fired or self.event_range)


class Step(ABC):
    """The stage of a tick in which its family finds out what fires; as text, what EXPLAIN says of it."""

    title: ClassVar[str]
    late_only: ClassVar[bool] = False
    """Whether what it leaves to be computed are windows that had fired before."""

    @property
    def fires(self) -> bool:
        """Whether anything may fire in it; where not, the tick only takes what came."""
        return True

    @abstractmethod
    def advance(self, given: TickInput) -> Advance:
        """Find out what fires and the state behind it; raises StreamError with the stream's named state."""


@dataclass(frozen=True)
class Standing:
    """Where a stream stands towards the clock (instants in µs): what has been closed, which windows wait."""

    state: GroupState
    closed_us: int
    delays: Delays | None


@dataclass(frozen=True)
class Due:
    """A tick that time makes due: its kind, the open windows that fire, or the range (µs) of those closed."""

    kind: str
    windows: Sequence[OpenWindow] = ()
    closed: tuple[int, int] | None = None


@dataclass(frozen=True)
class Snapshot:
    """A version of the source from which a stream's state or results follow, and how it began.

    ``recalculated`` are ranges that were recalculated, each with the source's version then; ``begins``: it is
    the first one of another definition; ``known`` gives the state as ticks have left it; ``transport`` is how
    the source's rows are read.
    """

    spark: SparkSession
    tables: Tables
    record: StreamRecord
    target: Target
    history: History
    version: int
    max_windows: int = 0
    recalculated: Sequence[tuple[EventRange, int]] = ()
    begins: bool = False
    known: Callable[[], GroupState] = field(default=GroupState)
    transport: str = SPARK


@dataclass(frozen=True)
class Batch:
    """The batch evaluation's windows: SQL of them with their placeholders, over registered rows.

    None: they are registered. ``late`` rows of the source count for nothing; ``settled``, ``retracts`` as
    the stream's evaluation takes them.
    """

    windows: str | None
    late: int = 0
    settled: bool = True
    retracts: bool = True


@dataclass(frozen=True)
class Family(ABC):
    """A stream's windows: what is different from one kind of windows to another one, and nothing else."""

    stream: Stream

    reads_rows: ClassVar[bool] = True
    """Whether rows of windows, and what else they need, are read by themselves after that step."""
    isolates: ClassVar[bool] = False
    """Whether windows whose calculation fails are left out of the tick, instead of failing it."""
    recalculates: ClassVar[bool] = True
    """Whether RESYNC computes all windows anew; where not, what was written stays."""
    flushes: ClassVar[bool] = False
    """Whether FLUSH STREAM closes what is open: windows wait for the watermark alone."""
    assigns_rows: ClassVar[bool] = False
    """Whether rows come with the windows that they are assigned to, and results go by rows."""
    divides: ClassVar[bool] = True
    """Whether a recalculation is divided into parts of event time."""
    judges_commits: ClassVar[bool] = False
    """Whether a tick of several commits judges each one of them by those before it."""
    is_whole: ClassVar[bool] = False
    """Whether there is a single window over all there is, which is computed again with any change."""
    follows_tables: ClassVar[bool] = False
    """Whether windows fire again that changes of other tables touch."""
    closes_with_rows: ClassVar[bool] = False
    """Whether a tick that takes all there is of its source does what time alone has made due, too."""
    follows_history: ClassVar[bool] = True
    """Whether the state follows from the history of the source, and not only from the ticks there were."""

    # --- what a tick does ---

    @abstractmethod
    def step(self, target: Target, plan: TickPlan, event_range: EventRange | None) -> Step:
        """Return the stage that finds out what fires; ``event_range`` is that of a recalculation."""

    def reads_changes(self, plan: TickPlan, event_range: EventRange | None) -> bool:
        """Return whether changed rows are read before that step."""
        return event_range is None and plan.kind not in CLOCK_KINDS

    @property
    def needs_rows(self) -> bool:
        """Whether the rows of windows are read after that step, not only which windows fire."""
        options, used = self.stream.definition.options, self.stream.calculation.used
        return self.stream.calculation.reads_rows or options.ignore_nodata or "_twrownum" in used

    def writes(self, target: Target, plan: TickPlan, event_range: EventRange | None) -> str:  # noqa: ARG002 (one differs)
        """Say how results come into the output."""
        if event_range is not None:
            return WHOLE
        return "append" if target.appends else "replace rows of equal key"

    def rewrites(self, plan: TickPlan, event_range: EventRange | None) -> bool:
        """Return whether windows that had fired before may be among the results of a tick."""
        stream = self.stream
        rewrites = stream.refires or stream.follows_updates or stream.deletes or stream.emission.fires_early
        return rewrites and self.reads_changes(plan, event_range)

    @property
    def sums_up(self) -> bool:
        """Whether a tick looks at added rows for their sums by window alone: many of them fit here."""
        return False

    @property
    def leaves_out_late(self) -> bool:
        """Whether late rows count for nothing: what a tick says of them is their number."""
        return not self.stream.refires

    # --- between ticks ---

    def saves_each_tick(self, standing: Standing) -> bool:
        """Return whether the state depends on which ticks there were, so that each one saves it."""
        return standing.delays is not None

    def loaded(self, saved: pa.Table) -> tuple[int, GroupState]:
        """Return the version of the source and the state that were saved."""
        return GroupState.loaded(saved)

    def taken_at_once(self, commits: Sequence[CommitInfo]) -> int:
        """Return how many commits one tick gives the same for as one for each would; one at least."""
        return len(commits)

    def open_windows(self, spark: SparkSession, groups: pa.Table) -> list[OpenWindow]:  # noqa: ARG002
        """Return the windows of groups, as the state has them, that have opened and none has closed."""
        return []

    def instants(self, created_us: int) -> Period | None:  # noqa: ARG002 (of one family only)
        """Return the instants at which the clock triggers a stream made at a time (µs); None: rows do."""
        return None

    def due(self, standing: Standing, now_us: int) -> Due | None:
        """Return the tick that is due because time has passed; None for none."""
        found = standing.delays.due(now_us) if standing.delays else []
        return Due(DELAY, windows=found) if found else None

    def next_due(self, standing: Standing, now_us: int) -> int | None:  # noqa: ARG002
        """Return the next instant (µs) at which time alone makes a tick due; None for none."""
        return standing.delays.next_due() if standing.delays else None

    def is_stale(self, state: GroupState) -> bool:  # noqa: ARG002 (of one family only)
        """Return whether a state says that all windows are to be made anew before all else."""
        return False

    # --- what Spark checks at creation ---

    @abstractmethod
    def windows_sql(self, fired: str) -> str:
        """Return SQL of windows with their placeholders, from a relation of those that fire."""

    def register_empty(self, spark: SparkSession, group_types: Sequence[str]) -> None:
        """Register rows and windows of a tick without any; its changed rows are registered."""
        listed = zip(self.stream.group_columns, group_types, strict=True)
        groups = "".join(f", CAST(NULL AS {kind}) AS {name}" for name, kind in listed)
        ranges = "CAST(array() AS ARRAY<STRUCT<a: BIGINT, b: BIGINT>>)"
        fired = view_of_sql(
            spark,
            f"SELECT 0L AS gid{groups}, 0L AS v, 0L AS first, {ranges} AS fires, {ranges} AS refired, "
            f"0L AS newest, 0L AS k, 0L AS c, 0L AS low, 0L AS high, 0L AS after, false AS opening "
            f"WHERE false",
            FIRED,
        )
        view_of_sql(spark, rows_sql(self.stream, CHANGED, None, None), ROWS)
        view_of_sql(spark, self.windows_sql(str(fired)), WINDOWS)

    # --- from the source as it is ---

    @abstractmethod
    def rebuild(self, snapshot: Snapshot) -> tuple[GroupState, list[WaitingGroup]]:
        """Return the state that follows from a version of the source, and the groups that are to wait."""

    @abstractmethod
    def follows_from_source(self, late: int, only_added: Callable[[], bool]) -> bool:
        """Return whether all that was written follows from the source as it is, whatever came when.

        ``late`` rows have been taken so far; ``only_added`` tells whether rows were only added since the
        stream's creation. Where it does not, VERIFY takes the changes once more, in the order they came.
        """

    @property
    def batch_needs_state(self) -> bool:
        """Whether the batch evaluation asks for the state that the whole history has left."""
        return False

    @abstractmethod
    def batch(self, snapshot: Snapshot) -> Batch:
        """Register what the batch evaluation at a version of the source computes: the windows and rows."""
