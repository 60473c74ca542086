"""Instants of the clock (PERIOD): each one fires for every group, over the rows written since the last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from lakestream.compute.windows.calculation import ROWS, WINDOWS
from lakestream.compute.windows.window_rows import each_sql
from lakestream.engine.base.state import with_number
from lakestream.engine.reading.relations import CHANGED, EVER, FIRED
from lakestream.engine.windows.events import EVENTS, kind_sql
from lakestream.engine.windows.family import PERIOD, Advance, Batch, Family, Fired, Step
from lakestream.engine.windows.groups import groups_of, written_groups
from lakestream.engine.windows.said import rule
from lakestream.engine.windows.totals import total
from lakestream.language.model import ON_TIME, PeriodTrigger
from lakestream.language.quoting import quoted
from lakestream.storage.rows.reading import arrow_frame
from lakestream.storage.rows.views import view_of, view_of_sql
from lakestream.triggers.period import Period

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from lakestream.engine.base.state import GroupState
    from lakestream.engine.streams.stream import EventRange, Stream
    from lakestream.engine.streams.target import Target
    from lakestream.engine.windows.family import Snapshot, TickInput
    from lakestream.storage.records.registry import Instant, TickPlan, WaitingGroup
    from lakestream.storage.rows.views import View


@dataclass(frozen=True)
class Periodic(Family):
    """Instants of the clock; the state has the groups that have ever been written."""

    reads_rows: ClassVar[bool] = False
    recalculates: ClassVar[bool] = False
    judges_commits: ClassVar[bool] = True

    def step(self, target: Target, plan: TickPlan, event_range: EventRange | None) -> Step:  # noqa: ARG002
        """Return the stage that counts what was written, and lets an instant fire."""
        only_written = self.stream.definition.options.ignore_nodata
        return FireInstants(rule(self.stream), has_come=plan.kind == PERIOD, only_written=only_written)

    @property
    def needs_rows(self) -> bool:
        """Whether rows are read besides: no, they are those that came."""
        return False

    def instants(self, created_us: int) -> Period:
        """Return the instants of the trigger, of a stream that was created then."""
        trigger = self.stream.definition.trigger
        assert isinstance(trigger, PeriodTrigger)  # by family_of
        return Period(trigger, self.stream.zone, created_us)

    def windows_sql(self, fired: str) -> str:
        """Return SQL of instants with their placeholders, from a relation of them."""
        return _periods_sql(self.stream, fired)

    def rebuild(self, snapshot: Snapshot) -> tuple[GroupState, list[WaitingGroup]]:
        """Return the groups there are; none is far from another one."""
        return groups_of(self.stream, snapshot, far=False)

    def follows_from_source(self, late: int, only_added: Callable[[], bool]) -> bool:  # noqa: ARG002
        """Return false: what it writes depends on when its ticks were."""
        return False

    def batch(self, snapshot: Snapshot) -> Batch:
        """Raise: what it writes depends on when its ticks were, which only a replay tells."""
        raise NotImplementedError("a stream of PERIOD is verified by a replay")


@dataclass(frozen=True)
class FireInstants(Step):
    """Count by group the rows written since the instant before, which are its %%trows, and fire the instant.

    It fires for every group there is, or for those with such rows only. ``has_come``: there is one.
    """

    rule: str
    has_come: bool
    only_written: bool
    title: ClassVar[str] = "fire"

    def __str__(self) -> str:
        counted = f"{self.rule}: the rows written since the instant before, by group"
        groups = "every group with such rows" if self.only_written else "every group there is"
        return f"{counted}; the instant for {groups}" if self.has_come else counted

    @property
    def fires(self) -> bool:
        """Whether an instant has come."""
        return self.has_come

    def advance(self, given: TickInput) -> Advance:
        """Bring the groups forward, and let the instant fire for them."""
        written = written_groups(given)
        state = given.state.updated(written.drop_columns(["rows"]))
        advance = Advance(
            state, total(written, "rows"), missed=given.plan.instant.missed if given.plan.instant else 0
        )
        if given.output_committed or not self.has_come:
            return advance
        fired = self._instants(given, state, written)
        return _fire(given, advance, fired) if fired.num_rows else advance

    def _instants(self, given: TickInput, state: GroupState, written: pa.Table) -> pa.Table:
        """Return the instant for each group; without PARTITION BY there is one group, with rows or not."""
        import pyarrow as pa

        names, plan = ["gid", *given.stream.group_columns], given.plan
        known = written if self.only_written else state.rows
        groups = written.select(names) if known is None else known.select(names)
        if not given.stream.groups and not self.only_written:
            groups = pa.table({"gid": pa.array([0], pa.int64())})
        instant = _instant(given)
        ends = {"low": instant.before_us, "high": plan.clock_us, "after": instant.after_us}
        values = {"k": plan.clock_us, "c": plan.upto, **ends}
        for name, value in values.items():
            groups = with_number(groups, name, value)
        return groups


def _instant(given: TickInput) -> Instant:
    """Return the instants before and after the one that has come."""
    assert given.plan.instant is not None  # by its kind
    return given.plan.instant


def _fire(given: TickInput, advance: Advance, instants: pa.Table) -> Advance:
    """Register the instants as windows, and the rows that were written since as those of all of them."""
    fired = view_of(arrow_frame(given.spark, instants), FIRED)
    view_of_sql(given.spark, _periods_sql(given.stream, str(fired)), WINDOWS)
    before = _instant(given).before_us
    view_of_sql(given.spark, _written_sql(given.stream, CHANGED, before), ROWS)
    events = _events(given, fired) if given.rules is not None else None
    return replace(advance, windows=instants.num_rows, fired=Fired([EVER]), events=events)


def _events(given: TickInput, fired: View) -> View:
    groups = "".join(f", {name}" for name in given.stream.group_columns)
    return view_of_sql(
        given.spark, f"SELECT gid{groups}, low, high, {kind_sql(ON_TIME)} FROM {fired}", EVENTS
    )


def _periods_sql(stream: Stream, fired: str) -> str:
    """Return SQL of instants with their placeholders, from (gid, groups, k, c, low, high, after).

    ``low`` is the instant before, ``high`` the instant, ``after`` the one after it (BIGINT µs).
    """
    groups = "".join(f", {name}" for name in stream.group_columns)
    return (
        f"SELECT gid AS _ls_gid, k AS _ls_k, c AS _ls_c{groups}, low AS _ls_low, high AS _ls_high, "
        f"low * 1000L AS _tprev_localtime, after * 1000L AS _tnext_localtime, "
        f"high * 1000L AS _tlocaltime, gid AS _tgrpid FROM {fired}"
    )


def _written_sql(stream: Stream, changed: str, since_us: int) -> str:
    """Return SQL of the rows that were written since an instant: they are all of one trigger."""
    columns = ", ".join(quoted(name) for name in stream.changed_columns)
    return (
        f"SELECT {columns}, {stream.group_id()} AS _ls_gid, {since_us}L AS _ls_ts, "
        f"CAST(_commit_version AS BIGINT) AS _ls_v, 1L AS _ls_sign "
        f"FROM {each_sql(changed, '_ls_sign')} WHERE {stream.admitted()}"
    )
