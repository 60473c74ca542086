"""Groups that are heard of and fall idle, as values: what becomes of them at an instant, and their events.

A state has, beside what all have of a group, when it was heard of last and when it is due to be idle (µs),
NULL while it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.engine.base.state import DUE, HEARD
from lakestream.language.model import IDLE, RESUME
from lakestream.storage.rows.reading import constant

if TYPE_CHECKING:
    import pyarrow as pa

    from lakestream.engine.base.state import GroupState

_NOT_OF_GROUPS = ("first", "newest", "rows", HEARD, DUE)
"""What rows of groups have beside gid and the group columns."""


@dataclass(frozen=True)
class Changed:
    """Groups as they are now, and their events: gid, group columns, low and high (µs), kind."""

    groups: pa.Table
    events: pa.Table


@dataclass(frozen=True)
class Silences:
    """What becomes of groups at an instant (µs), which are idle after a timeout (µs)."""

    timeout_us: int
    now_us: int

    def heard(self, state: GroupState, written: pa.Table) -> Changed:
        """Return the groups of which rows have come, with RESUME of those that were idle.

        ``written`` has gid, the group columns, first, newest and rows. Time does not go back for a group:
        where the clock does, rows come when it was heard of last, or fell idle.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        heard, due = _before(state, written["gid"])
        idle = pc.and_(pc.is_valid(heard), pc.is_null(due))
        least = pc.if_else(idle, pc.add(heard, self.timeout_us), heard)
        now = pc.max_element_wise(least, pa.scalar(self.now_us))
        groups = written.drop_columns(["rows"]).append_column(HEARD, now)
        groups = groups.append_column(DUE, pc.add(now, self.timeout_us))
        return Changed(groups, _events(written, heard, now, RESUME).filter(idle))

    def fallen(self, state: GroupState) -> Changed | None:
        """Return the groups whose timeout is over, with IDLE at that instant; None for none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = state.rows
        if rows is None or state.first_due is None or state.first_due > self.now_us:
            return None
        over = rows.filter(pc.less_equal(rows[DUE], self.now_us))
        none = pa.nulls(over.num_rows, pa.int64())
        groups = over.set_column(over.schema.get_field_index(DUE), DUE, none)
        return Changed(groups, _events(over, over[HEARD], over[DUE], IDLE))


def _before(state: GroupState, gids: pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
    """Return of groups when they were heard of and are due to be idle, NULL for those that are new."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known = state.of(gids)
    if known is None:
        return pa.nulls(len(gids), pa.int64()), pa.nulls(len(gids), pa.int64())
    at = pc.index_in(gids.combine_chunks(), value_set=known["gid"].combine_chunks())
    heard, due = (known[name].combine_chunks().take(at) for name in (HEARD, DUE))
    return heard, due


def _events(groups: pa.Table, low: pa.Array, high: pa.Array, kind: str) -> pa.Table:
    """Return an event of each group."""
    named = groups.drop_columns([name for name in _NOT_OF_GROUPS if name in groups.column_names])
    named = named.append_column("low", low).append_column("high", high)
    return named.append_column("kind", constant(kind, groups.num_rows))
