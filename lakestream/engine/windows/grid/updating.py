"""Windows kept by partial aggregates: changes and open windows give the results and the next state.

That is what nearly every tick of windows on the clock's grid brings: rows that are only added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakestream.compute.windows.incremental import RESULT, Incremental
from lakestream.engine.base.rows import Rows
from lakestream.engine.base.state import (
    MANY_GROUPS,
    GroupState,
    update_summary_of,
    with_number,
)
from lakestream.engine.reading.narrowed import of_groups
from lakestream.engine.reading.queries import fresh_sql, open_rows_sql
from lakestream.engine.reading.relations import (
    CHANGED,
    FIRED,
    STATE,
    UPDATED,
    by_size,
)
from lakestream.engine.reading.transport import ARROW
from lakestream.engine.streams.stream import group_sql
from lakestream.engine.windows.family import Advance, Fired
from lakestream.engine.windows.grid.queries import GridQueries
from lakestream.engine.windows.grid.stepping import Stepping, passing_of, register_state, windows_passing
from lakestream.engine.windows.grid.updated import (
    Updated,
    is_flagged,
    late_spans,
    picked,
    updated_of,
)
from lakestream.engine.windows.totals import spans_of
from lakestream.notify.rows import closings
from lakestream.storage.rows.reading import arrow_frame
from lakestream.storage.rows.views import view_of, view_of_rows, view_of_sql
from lakestream.triggers.detect import WIDE

if TYPE_CHECKING:
    import pyarrow as pa

    from lakestream.engine.windows.family import TickInput


@dataclass(frozen=True)
class Updating:
    """One tick's update query over its changed rows, which are registered."""

    given: TickInput

    def run(self) -> Advance | None:
        """Let changes and open windows give the results and the next state.

        None where which of the rows count depends on what each commit found, and what is emitted for windows
        that had fired on what they were: the rows are to be judged one by one. Raises StreamError
        (TOO_MANY_WINDOWS).
        """
        given = self.given
        if given.updated is not None:
            state, updated = given.state, self._shared(given.updated)
        else:
            state = given.state if given.output_committed else self._with_open_windows(given.state)
            updated = self._alone(state)
        if updated.ignored or (given.rules is not None and updated.late.num_rows):
            return None
        return self._advance(state, updated)

    def _advance(self, state: GroupState, updated: Updated) -> Advance:
        given = self.given
        opened = updated.kept if state.knows_opened or not len(state) else None
        state = state.updated(updated.groups, opened)
        advance = Advance(state, updated.rows, updated.late_rows, windows=updated.count)
        if given.output_committed:
            return advance
        closed = None
        if updated.count and given.rules is not None and updated.fired is not None:
            closed = closings(given.rules, updated.fired)
        advance = replace(advance, results=updated.due if updated.count else (), closings=closed)
        late = updated.late
        if updated.flagged is None or not late.num_rows:
            return advance
        return self._with_late(advance, updated.flagged, late)

    def _with_late(self, advance: Advance, flagged: pa.Table, late: pa.Table) -> Advance:
        """Have the windows that changed after they had fired computed again, from the source as it is."""
        given = self.given
        replaced = picked(flagged, "_ls_late", {"_ls_gid": "gid", "_ls_low": "low"})
        windows = advance.windows + replaced.num_rows
        queries = GridQueries(given.stream)
        # What is known of windows beside their numbers would make a row three times as long.
        flagged = with_number(flagged.select(queries.late_columns), "_ls_v", given.plan.upto)
        view = view_of_rows(given.spark, flagged, UPDATED)
        fired = view_of_sql(given.spark, queries.late_sql(str(view)), FIRED)
        sql = queries.windows_sql(str(fired), given.plan.clock_us, wide=windows > WIDE)
        narrowed, own = of_groups(given.stream, late)
        spans = Fired(late_spans(late), sql, narrowed=narrowed, own=own)
        return replace(advance, windows=windows, fired=spans, replaced=[replaced])

    @property
    def _incremental(self) -> Incremental:
        incremental = self.given.stream.incremental
        assert incremental is not None  # by Grid.step()
        return incremental

    # --- what the query starts from ---

    def _with_open_windows(self, state: GroupState) -> GroupState:
        """Return a state with its open windows, computed from the source where they are not known."""
        if not len(state) or state.knows_opened:
            return state
        return state.with_opened(self._open_windows(state))

    def _open_windows(self, state: GroupState) -> pa.Table | None:
        """Compute the open windows of groups from the source as it was before the tick."""
        view_of_rows(self.given.spark, state.rows, STATE)
        spans = self._open_spans()
        if not spans:
            return None
        given = self.given
        relations = by_size(given.relations, spans)
        relations.rows_at(given.plan.upto if given.plan.kind == "history" else given.plan.after, spans)
        sql = self._incremental.opened_sql(open_rows_sql(self.given.stream), STATE)
        return self.given.spark.sql(sql).toArrow()

    def _open_spans(self) -> list[tuple[int, int]]:
        """Return the spans of event time of the windows that are open, as far as there are rows."""
        import pyarrow as pa
        import pyarrow.compute as pc

        closed = self.given.stream.grid.closed(f"(newest - {self.given.stream.watermark_delay}L)", "first")
        k = f"({closed} + 1)"
        found = self.given.spark.sql(
            f"SELECT DISTINCT {self.given.stream.grid.low(k, 'first')} AS low, newest + 1 AS high "
            f"FROM {STATE} WHERE first IS NOT NULL"
        ).toArrow()
        start = self.given.relations.history.start_us if self.given.plan.kind == "history" else None
        low = pc.max_element_wise(found["low"], pa.scalar(start, pa.int64()))
        there = pc.less(low, found["high"])
        return spans_of(low.filter(there), found["high"].filter(there))

    # --- the query ---

    def _alone(self, state: GroupState) -> Updated:
        """Return what the registered changes and a state give, by a query of the stream's own.

        Raises StreamError (TOO_MANY_WINDOWS).
        """
        if self.given.transport.name != ARROW:
            return Stepping(self.given).run(state)
        return self._at_once(self._touched(state))

    def _touched(self, state: GroupState) -> GroupState:
        """Return the groups of which there are changed rows; all where they are not many, or much may be."""
        if len(state) <= MANY_GROUPS:
            return state
        stream = self.given.stream
        gid = group_sql(stream.group_columns)
        sql = f"SELECT DISTINCT {gid} AS gid FROM ({fresh_sql(stream, CHANGED)})"
        return state.only(self.given.spark.sql(sql).toArrow()["gid"])

    def _shared(self, rows: pa.Table) -> Updated:
        """Return what a query gave that streams of one shape have shared, with what the stream's events need.

        Raises StreamError (TOO_MANY_WINDOWS).
        """
        if self.given.rules is None:
            return self._split(rows)
        view_of(arrow_frame(self.given.spark, rows), UPDATED)
        sql = self.given.rules.closings_sql(f"SELECT * FROM {UPDATED}")
        return self._split(self.given.spark.sql(sql).toArrow())

    def _at_once(self, groups: GroupState) -> Updated:
        """One query, for few rows: what Spark needs for a query counts."""
        state = register_state(self.given, groups)
        fresh, selected = fresh_sql(self.given.stream, CHANGED), self.given.target.shape.listed()
        clock_us, limit = self.given.plan.clock_us, self.given.max_windows
        sql = self._incremental.sql(fresh, state, selected, clock_us=clock_us, limit=limit)
        if self.given.rules is not None:
            sql = self.given.rules.closings_sql(sql)
        return self._split(self.given.spark.sql(sql).toArrow())

    def _split(self, rows: pa.Table) -> Updated:
        """Return the result of one update query as what is due, what is kept and what is flagged."""
        summary, passing = update_summary_of(rows, self.given.stream.group_columns), passing_of(self.given)
        if passing is not None:
            passing.add(summary, windows_passing(summary, "base"))
            passing.check()
        fired = rows.filter(rows[RESULT])
        due = fired.select(list(self.given.target.shape.names))
        flagged = rows.filter(is_flagged(rows))
        kept = picked(flagged, "_ls_open", self._incremental.kept_columns)
        found = (Rows(self.given.spark, due),)
        names = self.given.stream.group_columns
        return updated_of(found, due.num_rows, kept, flagged, summary, names, fired=fired)
