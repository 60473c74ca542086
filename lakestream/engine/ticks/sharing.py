"""Streams of one shape in one query: what they differ in are columns of their rows.

Streams over the same commits of one source are of one shape when their update queries say the same but for
which rows they admit (PRE_FILTER) and how long their tumbling windows are. To plan a query takes Spark
longer than to run it over a few rows, so that a hundred of them at once cost little more than one; what
follows, a commit to each output, is done stream by stream.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakestream.engine.base.state import MANY_GROUPS, nullable, with_number
from lakestream.engine.reading.queries import fresh_columns
from lakestream.engine.reading.relations import CHANGED, STATE
from lakestream.engine.reading.transport import ARROW, transport_by
from lakestream.engine.windows.grid.family import by_update
from lakestream.engine.windows.grid.stepping import state_kinds
from lakestream.storage.rows.views import view_of, view_of_rows
from lakestream.triggers.grid import ColumnGrid, FixedGrid

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence
    from typing import TypeGuard

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.compute.windows.incremental import Incremental
    from lakestream.engine.base.state import GroupState
    from lakestream.engine.reading.relations import History
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.streams.target import Target
    from lakestream.storage.delta import Tables
    from lakestream.storage.records.registry import TickPlan

MAX_ROWS = 500_000
"""Rows of a query: those of the source times the streams that share it."""

_MEMBER, _LENGTH, _OFFSET = "_ls_member", "_ls_length", "_ls_offset"
_OWN = (_MEMBER, _LENGTH, _OFFSET)
_COLUMNS = ColumnGrid(_LENGTH, _OFFSET)


@dataclass(frozen=True)
class Member:
    """A stream's tick that may share its query."""

    stream: Stream
    target: Target
    plan: TickPlan
    state: GroupState
    history: History
    shape: Hashable

    def may_share(self) -> bool:
        """Return whether the tick is one of a few rows that are only added, with all it needs in memory."""
        plan, state = self.plan, self.state
        return (
            plan.kind == "changes"
            and plan.transport == ARROW
            and by_update(self.stream, self.target, plan)
            and (state.knows_opened or not len(state))
            and len(state) <= MANY_GROUPS
            and self.history.takes_all(plan)
            and "_tlocaltime" not in self.stream.calculation.used
        )

    @property
    def columns(self) -> tuple[int, int]:
        """Length and offset of the windows, where they are columns."""
        grid = self.stream.grid
        return (grid.length, grid.offset) if _is_tumbling(grid) else (0, 0)


def shape_of(stream: Stream, target: Target) -> Hashable:
    """Return what is equal for streams of one shape, None for a stream that is of none."""
    if stream.incremental is None:
        return None
    selected = target.shape.listed()
    query = _combined(stream).sql("", STATE, selected, clock_us=0, limit=1)
    return (stream.source.time, stream.groups, query)


def _is_tumbling(grid: object) -> TypeGuard[FixedGrid]:
    return isinstance(grid, FixedGrid) and grid.length == grid.step


def _combined(stream: Stream) -> Incremental:
    """Return how windows of streams of one shape are kept: the stream is one more column of the group."""
    incremental = stream.incremental
    assert incremental is not None  # by may_share()
    return replace(
        incremental,
        grid=_COLUMNS if _is_tumbling(stream.grid) else stream.grid,
        groups=(*_OWN, *incremental.groups),
        apart=(_MEMBER,),
    )


@dataclass(frozen=True)
class Sharing:
    """The queries of one round that several streams share; ``limit`` is that of a tick's windows."""

    spark: SparkSession
    tables: Tables
    limit: int

    def run(self, members: Sequence[Member]) -> dict[str, pa.Table]:
        """Return by stream what its own update query would give; ``members`` are of one shape.

        Nothing where the changed rows do not travel as Arrow.
        """
        rows = self._register_changes(members)
        if rows is None:
            return {}
        at_once = max(2, MAX_ROWS // max(1, rows))
        found: dict[str, pa.Table] = {}
        for first in range(0, len(members), at_once):
            found |= self._updated(members[first : first + at_once])
        return found

    def _register_changes(self, members: Sequence[Member]) -> int | None:
        """Register the changed rows with the columns that any of the streams needs; return their number.

        None where delta-rs does not read them as they are.
        """
        first, source = members[0], members[0].stream.source.info
        wanted = {name for member in members for name in member.stream.changed_columns}
        columns = [column.name for column in source.columns if column.name in wanted]
        plan, transport = first.plan, transport_by(ARROW, self.spark, self.tables)
        kept = transport.appended(source.path, plan.after, plan.upto, columns, versions=False)
        if kept.here is None:
            return None
        view_of(kept.frame, CHANGED)
        return int(kept.here.num_rows)

    def _updated(self, members: Sequence[Member]) -> dict[str, pa.Table]:
        """Run one query over registered changes, and give each stream its rows of the result."""
        import pyarrow.compute as pc

        first = members[0]
        state = self._register_states(members)
        rows, selected = self._rows(members), first.target.shape.listed()
        sql = _combined(first.stream).sql(rows, state, selected, clock_us=0, limit=self.limit)
        found = self.spark.sql(sql).toArrow()
        return {
            member.plan.uuid: found.filter(pc.equal(found[_MEMBER], number)).drop_columns([*_OWN])
            for number, member in enumerate(members)
        }

    def _register_states(self, members: Sequence[Member]) -> str:
        """Register the groups and open windows of all streams; return the view's name."""
        import pyarrow as pa

        found = []
        for number, member in enumerate(members):
            state = member.state.merged(state_kinds(member.stream))
            for name, value in zip(_OWN, (number, *member.columns), strict=True):
                state = with_number(state, name, value)
            found.append(state)
        states = pa.concat_tables([nullable(state) for state in found], promote_options="default")
        return str(view_of_rows(self.spark, states.combine_chunks(), STATE))

    def _rows(self, members: Sequence[Member]) -> str:
        """Return SQL of the changed rows, once for each stream that admits them."""
        admitted = {member.stream.admitted(): None for member in members}
        numbers = {sql: number for number, sql in enumerate(admitted)}
        structs = ", ".join(
            f"struct({number}L, {length}L, {offset}L, {numbers[member.stream.admitted()]})"
            for number, member in enumerate(members)
            for length, offset in [member.columns]
        )
        cases = " ".join(f"WHEN {number} THEN {sql}" for sql, number in numbers.items())
        return (
            f"SELECT *{fresh_columns(members[0].stream)} FROM {CHANGED} "
            f"LATERAL VIEW inline(array({structs})) AS {', '.join(_OWN)}, _ls_admits "
            f"WHERE CASE _ls_admits {cases} END"
        )


def of_one_shape(members: Iterable[Member]) -> list[list[Member]]:
    """Return the members that are not alone with their shape, together with those of the same one."""
    found = defaultdict(list)
    for member in members:
        if member.may_share():
            plan = member.plan
            found[member.stream.source.info.path, plan.after, plan.upto, member.shape].append(member)
    return [group for group in found.values() if len(group) > 1]
