"""What a cut gave, as Arrow tables: windows that fire or go, what is emitted for them, the next state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakestream.engine.base.instants import latest
from lakestream.engine.base.state import CLOSED, EXPIRED
from lakestream.engine.reading.transport import merge_spans
from lakestream.engine.windows.rows.policy import keeps_closed, keeps_expired

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import pyarrow as pa

    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.windows.rows.extents import Window
    from lakestream.engine.windows.rows.groups import CutGroup, Happening


@dataclass(frozen=True)
class CutResult:
    """What a cut gave: windows that fire, (gid, low) of rows that go, and the groups' next state.

    ``fired`` has gid, group columns, k, c, low, high, opening; ``retracted`` gid and low; ``spans`` cover the
    fired. ``events`` is what is emitted: gid, group columns, low, high, kind, refired, extra.
    """

    fired: pa.Table
    retracted: pa.Table
    groups: pa.Table
    spans: list[Window]
    rows: int
    late: int
    events: pa.Table


def together(results: Iterable[CutResult]) -> CutResult:
    """Return what cuts of parts of the groups gave as one, where there is one at least."""
    import pyarrow as pa

    parts = [*results]

    def joined(name: str) -> pa.Table:
        return pa.concat_tables([getattr(part, name) for part in parts])

    return CutResult(
        joined("fired"),
        joined("retracted"),
        joined("groups"),
        merge_spans([span for part in parts for span in part.spans]),
        sum(part.rows for part in parts),
        sum(part.late for part in parts),
        joined("events"),
    )


@dataclass(frozen=True)
class CutTables:
    """Makes the tables; ``schema`` is that of a table with the group columns, which gives their types."""

    stream: Stream
    schema: pa.Schema
    version: int

    def _events(self, events: Sequence[Happening]) -> pa.Table:
        import pyarrow as pa

        integer = pa.int64()
        columns: dict[str, Any] = {"gid": pa.array([event.group.gid for event in events], integer)}
        columns |= self._names([event.group for event in events])
        columns |= {
            "low": pa.array([event.low for event in events], integer),
            "high": pa.array([event.high for event in events], integer),
            "kind": pa.array([event.kind for event in events], pa.string()),
            "refired": pa.array([event.refired for event in events], pa.bool_()),
            "extra": pa.array([event.extra for event in events], pa.string()),
        }
        return pa.table(columns)

    def result(
        self,
        fired: list[tuple[CutGroup, Window]],
        retracted: list[tuple[int, int]],
        events: Sequence[Happening] = (),
        *,
        states: Sequence[tuple[CutGroup, list[dict[str, Any]]]] = (),
        left: Sequence[dict[str, Any]] = (),
        rows: int = 0,
        late: int = 0,
        opening: Collection[tuple[int, int]] = (),
    ) -> CutResult:
        """Return what a cut gave as tables.

        ``states`` are the groups that were cut with their windows, ``left`` rows of the next state that are
        known; ``opening`` are windows (group, start) that compute as they open.
        """
        spans = merge_spans(sorted({window for _, window in fired}))
        opens = [(group.gid, low) in opening for group, (low, _) in fired]
        tables = self._tables(fired, opens, retracted, states, left)
        return CutResult(*tables, spans, rows, late, self._events(events))

    def _tables(
        self,
        fired: list[tuple[CutGroup, Window]],
        opens: list[bool],
        retracted: list[tuple[int, int]],
        states: Sequence[tuple[CutGroup, list[dict[str, Any]]]],
        left: Sequence[dict[str, Any]],
    ) -> tuple[pa.Table, pa.Table, pa.Table]:
        """Return what fires, what goes, and the next state; ``left`` are rows of it that are known."""
        import pyarrow as pa

        integer = pa.int64()
        columns: dict[str, Any] = {"gid": pa.array([group.gid for group, _ in fired], integer)}
        columns |= self._names([group for group, _ in fired])
        lows = pa.array([low for _, (low, _) in fired], integer)
        columns |= {"k": lows, "c": pa.array([self.version] * len(fired), integer), "low": lows}
        columns["high"] = pa.array([high for _, (_, high) in fired], integer)
        columns["opening"] = pa.array(opens, pa.bool_())
        went = {
            "gid": pa.array([gid for gid, _ in retracted], integer),
            "low": pa.array([low for _, low in retracted], integer),
        }
        next_states = self._states(states)
        if left:
            known = pa.Table.from_pylist(list(left), schema=next_states.schema)
            next_states = pa.concat_tables([next_states, known])
        return pa.table(columns), pa.table(went), next_states

    def _names(self, groups: list[CutGroup]) -> dict[str, Any]:
        """Return the group columns with the types that Spark gives them."""
        import pyarrow as pa

        return {
            name: pa.array([group.names[at] for group in groups], self.schema.field(name).type)
            for at, name in enumerate(self.stream.group_columns)
        }

    def _states(self, states: Sequence[tuple[CutGroup, list[dict[str, Any]]]]) -> pa.Table:
        """Return the groups' next state; newest is NULL for a group without rows."""
        import pyarrow as pa

        integer = pa.int64()
        groups = [group for group, _ in states]
        opened = [sorted(row["low"] for row in found if not row["closed"]) for _, found in states]
        behind = [
            max((row["behind"] or 0 for row in found if not row["closed"]), default=0) for _, found in states
        ]
        counts = self.stream.cut is not None and self.stream.cut.counts
        columns: dict[str, Any] = {"gid": pa.array([group.gid for group in groups], integer)}
        columns |= self._names(groups)
        columns |= {
            "first": pa.array([group.first for group in groups], integer),
            "newest": pa.array([group.newest for group in groups], integer),
            "safe": pa.array([group.watermark(self.stream.watermark_delay) for group in groups], integer),
            "resume": pa.array([lows[0] if lows else None for lows in opened], integer),
            "counted": pa.array(behind, integer),
            "starts": pa.array([lows if counts else [] for lows in opened], pa.list_(integer)),
            "opened": pa.array(
                [sorted(r["low"] for r in found if not r["closed"] and r["counts"]) for _, found in states],
                pa.list_(integer),
            ),
        }
        if keeps_closed(self.stream):
            ends = [max((row["high"] for row in found if row["closed"]), default=None) for _, found in states]
            known = [latest(group.closed, end) for (group, _), end in zip(states, ends, strict=True)]
            columns[CLOSED] = pa.array(known, integer)
        if keeps_expired(self.stream):
            still = [
                [at for at in group.expired if lows and at > lows[0]]
                for group, lows in zip(groups, opened, strict=True)
            ]
            columns[EXPIRED] = pa.array(still, pa.list_(integer))
        return pa.table(columns)
