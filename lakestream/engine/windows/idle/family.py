"""Groups of which no row comes for a while (IDLE_TIMEOUT): each silence, once, and the row that ends it.

Source: TDengine, the idle trigger. It goes by processing time alone: a row comes when the tick that takes it
is planned, so that a replay says the same. A silence is looked for when all there is of the source has been
taken, and is over the timeout at that instant itself, however much later it is looked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from lakestream.compute.windows.calculation import WINDOWS
from lakestream.engine.base.state import GroupState, with_number
from lakestream.engine.reading.relations import EVER, FIRED
from lakestream.engine.windows.events import EVENTS
from lakestream.engine.windows.family import CLOCK, Advance, Batch, Due, Family, Fired, Step
from lakestream.engine.windows.groups import written_groups
from lakestream.engine.windows.idle.silences import Silences
from lakestream.engine.windows.said import arrival
from lakestream.engine.windows.totals import total
from lakestream.language.model import IdleTrigger
from lakestream.language.quoting import quoted_text
from lakestream.storage.rows.views import view_of_rows, view_of_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from lakestream.engine.streams.stream import EventRange, Stream
    from lakestream.engine.streams.target import Target
    from lakestream.engine.windows.family import Snapshot, Standing, TickInput
    from lakestream.storage.records.registry import TickPlan, WaitingGroup


@dataclass(frozen=True)
class Idle(Family):
    """Silences of groups; the state has when each was heard of last, and when it is due to be idle."""

    reads_rows: ClassVar[bool] = False
    recalculates: ClassVar[bool] = False
    follows_history: ClassVar[bool] = False
    closes_with_rows: ClassVar[bool] = True

    def step(self, target: Target, plan: TickPlan, event_range: EventRange | None) -> Step:  # noqa: ARG002
        """Return the stage that hears of groups, and looks for those that are silent."""
        trigger = self.stream.definition.trigger
        assert isinstance(trigger, IdleTrigger)  # by family_of
        return HearGroups(arrival(self.stream), trigger, by_clock=plan.kind == CLOCK)

    @property
    def needs_rows(self) -> bool:
        """Whether rows are read besides: no, a silence has none."""
        return False

    def saves_each_tick(self, standing: Standing) -> bool:  # noqa: ARG002
        """Return true: only the ticks tell when rows came."""
        return True

    def due(self, standing: Standing, now_us: int) -> Due | None:
        """Return the tick of groups whose timeout is over."""
        first = standing.state.first_due
        is_over = first is not None and first <= now_us
        return Due(CLOCK, closed=(standing.closed_us, now_us)) if is_over else None

    def next_due(self, standing: Standing, now_us: int) -> int | None:  # noqa: ARG002
        """Return when the next group is idle, if no row of it comes until then."""
        return standing.state.first_due

    def windows_sql(self, fired: str) -> str:
        """Return SQL of silences with their placeholders, from a relation of events."""
        return _silences_sql(self.stream, fired)

    def rebuild(self, snapshot: Snapshot) -> tuple[GroupState, list[WaitingGroup]]:
        """Return the state that ticks have left; a stream with another definition begins with what comes."""
        return GroupState() if snapshot.begins else snapshot.known(), []

    def follows_from_source(self, late: int, only_added: Callable[[], bool]) -> bool:  # noqa: ARG002
        """Return false: what it writes depends on when its ticks were."""
        return False

    def batch(self, snapshot: Snapshot) -> Batch:
        """Raise: what it writes depends on when its ticks were, which only a replay tells."""
        raise NotImplementedError("a stream with IDLE_TIMEOUT is verified by a replay")


@dataclass(frozen=True)
class HearGroups(Step):
    """Note of which groups rows have come, which of these were idle, and which others are by now.

    ``by_clock``: time has passed, and no rows are taken.
    """

    rule: str
    trigger: IdleTrigger
    by_clock: bool
    title: ClassVar[str] = "hear"

    def __str__(self) -> str:
        idle = f"IDLE of those that were heard of {self.trigger.timeout} ago"
        if self.by_clock:
            return f"{self.rule}: {idle}"
        return f"{self.rule}: RESUME of idle groups of which rows come; where that is all there is, {idle}"

    def advance(self, given: TickInput) -> Advance:
        """Bring the groups forward, and let the events fire of those that resume or fall idle."""
        silences = Silences(self.trigger.timeout.micros, given.plan.clock_us)
        state, rows, events = given.state, 0, []
        if not self.by_clock:
            written = written_groups(given)
            heard, rows = silences.heard(state, written), total(written, "rows")
            state = state.updated(heard.groups)
            events.append(heard.events)
        if given.plan.closed is not None and (fallen := silences.fallen(state)) is not None:
            state = state.updated(fallen.groups)
            events.append(fallen.events)
        advance = Advance(state, rows)
        if given.output_committed or not any(one.num_rows for one in events):
            return advance
        return self._fire(given, advance, events)

    def _fire(self, given: TickInput, advance: Advance, events: Sequence[pa.Table]) -> Advance:
        """Register the events, and as windows those that compute."""
        import pyarrow as pa

        happened = pa.concat_tables(events, promote_options="default")
        happened = with_number(happened.append_column("k", happened["low"]), "c", given.plan.upto)
        view = view_of_rows(given.spark, happened, FIRED)
        told = None
        if given.rules is not None:
            told = view_of_sql(given.spark, _events_sql(given.stream, str(view)), EVENTS)
        kinds = happened["kind"].to_pylist()
        computed = [kind for kind in kinds if kind in self.trigger.events]
        if not computed:
            return replace(advance, events=told)
        listed = ", ".join(map(quoted_text, self.trigger.events))
        computing = f"(SELECT * FROM {view} WHERE kind IN ({listed}))"
        view_of_sql(given.spark, _silences_sql(given.stream, computing), WINDOWS)
        return replace(advance, windows=len(computed), fired=Fired([EVER]), events=told)


def _silences_sql(stream: Stream, events: str) -> str:
    """Return SQL of silences with their placeholders, from (gid, groups, k, c, low, high).

    ``low`` is when a group was heard of last, ``high`` the instant of the event (BIGINT µs).
    """
    groups = "".join(f", {name}" for name in stream.group_columns)
    return (
        f"SELECT gid AS _ls_gid, k AS _ls_k, c AS _ls_c{groups}, low AS _ls_low, high AS _ls_high, "
        f"low * 1000L AS _tidlestart, high * 1000L AS _tidleend, "
        f"high * 1000L AS _tlocaltime, gid AS _tgrpid FROM {events}"
    )


def _events_sql(stream: Stream, events: str) -> str:
    """Return SQL of events as the outbox takes them, with what is said of a silence."""
    groups = "".join(f", {name}" for name in stream.group_columns)
    return (
        f"SELECT gid{groups}, low, high, kind, false AS refired, CAST(NULL AS STRING) AS extra FROM {events}"
    )
