"""Windows kept by partial aggregates: changes and open windows give the results and the next state.

That is what nearly every tick of windows on the clock's grid brings: rows that are only added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakestream.compute.windows.incremental import GROUP_COLUMNS, RESULT, Fresh, Incremental
from lakestream.engine.base.rows import Rows
from lakestream.engine.base.state import (
    MANY_GROUPS,
    GroupState,
    summary_in_steps,
    update_summary_of,
    with_number,
)
from lakestream.engine.reading.narrowed import of_groups
from lakestream.engine.reading.queries import fresh_sql, open_rows_sql
from lakestream.engine.reading.relations import (
    CHANGED,
    FIRED,
    GROUPS,
    PRESENT,
    STATE,
    SUMMED,
    UPDATED,
    by_size,
)
from lakestream.engine.reading.transport import ARROW, SPARK, fits_here, merge_spans
from lakestream.engine.streams.stream import group_sql
from lakestream.engine.windows.family import Advance, Fired
from lakestream.engine.windows.grid.queries import GridQueries
from lakestream.engine.windows.grid.updated import (
    FLAGGED,
    Updated,
    are_in_order,
    is_flagged,
    late_spans,
    least,
    most_windows,
    picked,
    windows_opened,
    windows_passed,
    with_groups,
)
from lakestream.engine.windows.totals import total
from lakestream.engine.windows.waiting import check_groups
from lakestream.language.quoting import quoted
from lakestream.notify.rows import closings
from lakestream.storage.rows.reading import arrow_frame
from lakestream.storage.rows.views import view_of, view_of_rows, view_of_sql
from lakestream.triggers.detect import WIDE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

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
        if total(updated.summary, "ignored") or (given.rules is not None and updated.late.num_rows):
            return None
        return self._advance(state, updated)

    def _advance(self, state: GroupState, updated: Updated) -> Advance:
        given = self.given
        groups = updated.summary.select(["gid", *given.stream.group_columns, "first", "newest"])
        opened = updated.kept if state.knows_opened or not len(state) else None
        advance = Advance(
            state.updated(groups, opened),
            total(updated.summary, "rows"),
            total(updated.summary, "late"),
            windows=updated.count,
        )
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
        flagged = with_number(flagged, "_ls_v", given.plan.upto)
        queries, view = GridQueries(given.stream), view_of_rows(given.spark, flagged, UPDATED)
        fired = view_of_sql(given.spark, queries.late_sql(str(view)), FIRED)
        sql = queries.windows_sql(str(fired), given.plan.clock_us, wide=windows > WIDE)
        narrowed, own = of_groups(given.stream, late)
        spans = Fired(merge_spans(late_spans(late)), sql, narrowed=narrowed, own=own)
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
        closed = self.given.stream.grid.closed(f"(newest - {self.given.stream.watermark_delay}L)", "first")
        k = f"({closed} + 1)"
        found = self.given.spark.sql(
            f"SELECT DISTINCT {self.given.stream.grid.low(k, 'first')} AS low, newest + 1 AS high "
            f"FROM {STATE} WHERE first IS NOT NULL"
        ).toArrow()
        start = self.given.relations.history.start_us if self.given.plan.kind == "history" else None
        pairs = zip(found["low"].to_pylist(), found["high"].to_pylist(), strict=True)
        bounded = [(low if start is None else max(low, start), high) for low, high in pairs]
        return merge_spans([(low, high) for low, high in bounded if low < high])

    # --- the query ---

    def _alone(self, state: GroupState) -> Updated:
        """Return what the registered changes and a state give, by a query of the stream's own.

        Raises StreamError (TOO_MANY_WINDOWS).
        """
        state = self._touched(state)
        known = state.merged()
        if known is not None:
            view_of_rows(self.given.spark, known, STATE)
        view = None if known is None else STATE
        opened = bool(state.opened is not None and state.opened.num_rows)
        in_steps = self.given.transport.name != ARROW
        return self._in_steps(view, opened=opened) if in_steps else self._at_once(view, opened=opened)

    def _touched(self, state: GroupState) -> GroupState:
        """Return the groups of which there are changed rows; all where they are not many, or much may be."""
        if len(state) <= MANY_GROUPS or self.given.transport.name != ARROW:
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

    def _at_once(self, state: str | None, *, opened: bool) -> Updated:
        """One query, for few rows: what Spark needs for a query counts."""
        fresh, selected = fresh_sql(self.given.stream, CHANGED), self.given.target.shape.listed()
        clock_us, limit = self.given.plan.clock_us, self.given.max_windows
        sql = self._incremental.sql(fresh, state, selected, opened=opened, clock_us=clock_us, limit=limit)
        if self.given.rules is not None:
            sql = self.given.rules.closings_sql(sql)
        return self._split(self.given.spark.sql(sql).toArrow())

    def _split(self, rows: pa.Table) -> Updated:
        """Return the result of one update query as what is due, what is kept and what is flagged."""
        summary = update_summary_of(rows, self.given.stream.group_columns)
        self._check_passed(summary, "base")
        fired = rows.filter(rows[RESULT])
        due = fired.select(list(self.given.target.shape.names))
        flagged = rows.filter(is_flagged(rows))
        kept = picked(flagged, "_ls_open", self._incremental.kept_columns)
        return Updated((Rows(self.given.spark, due),), due.num_rows, kept, flagged, summary, fired)

    def _in_steps(self, state: str | None, *, opened: bool) -> Updated:
        """Several queries, for many rows: the groups are judged first, so that nothing is sorted."""
        incremental = self._incremental
        if self.given.transport.name != SPARK:
            self._sum_up()
        fresh, held = self._fresh(), self.given.target.shape.of_groups()
        groups = self.given.spark.sql(incremental.groups_sql(fresh, state, held)).toArrow()
        self._check_passed(groups, "start")
        view_of(arrow_frame(self.given.spark, groups), GROUPS)
        selected, clock = self.given.target.shape.listed(with_groups=True), self.given.plan.clock_us
        windows = self.given.spark.sql(
            incremental.windows_sql(fresh, state, GROUPS, selected, [*held], opened=opened, clock_us=clock)
        )
        flagged = None
        if are_in_order(groups):
            rest = self._fresh(least(groups["opens"]))
            kept = self.given.spark.sql(incremental.slots_sql(rest, state, GROUPS, opened=opened)).toArrow()
            due = self._collected(groups, windows)
        else:
            due, flagged = self._due_and_flagged(groups, windows)
            flagged = with_groups(flagged, groups, GROUP_COLUMNS)
            kept = picked(flagged, "_ls_open", incremental.kept_columns)
        parts, count = self._with_gaps(groups, due)
        return Updated(parts, count, kept, flagged, summary_in_steps(groups, flagged))

    def _fresh(self, from_us: int | None = None) -> Fresh:
        """Return the changed rows, from an instant on, or their sums, where these are kept."""
        if self.given.transport.name == SPARK:
            return Fresh(fresh_sql(self.given.stream, CHANGED, from_us))
        later = "" if from_us is None else f" WHERE high >= {from_us}L"
        return Fresh(f"SELECT * FROM {SUMMED}{later}", summed=True)

    def _sum_up(self) -> None:
        """Have the changed rows summed up, so that they are read once; Spark reads them for each query."""
        summed = self.given.spark.sql(self._incremental.summed_sql(fresh_sql(self.given.stream, CHANGED)))
        view_of(self.given.transport.materialize(summed).frame, SUMMED)

    def _collected(self, groups: pa.Table, windows: DataFrame) -> Rows:
        """Return results as Arrow, or kept by Spark if they may be too many."""
        shape = self.given.target.shape
        if not self._fit_here(groups, len(shape.names)):
            return self.given.transport.materialize(self._results_of(windows))
        # What is the same for all rows of a group is not carried from Spark row by row.
        held = shape.held_by_groups
        names = [name for name in shape.names if name not in held.values()]
        rows = windows.where(RESULT).selectExpr("_ls_gid", "_ls_k", *map(quoted, names)).toArrow()
        found = with_groups(rows, groups, held).select(["_ls_gid", "_ls_k", *shape.names])
        return Rows(self.given.spark, found)

    def _due_and_flagged(self, groups: pa.Table, windows: DataFrame) -> tuple[Rows, pa.Table]:
        """Return the results and what is flagged, by one query if they are few enough."""
        names = list(self.given.target.shape.names)
        if not self._fit_here(groups, len(windows.columns)):
            kept = self.given.transport.materialize(windows).frame
            return Rows.of(self._results_of(kept)), kept.where(FLAGGED).drop(*names).toArrow()
        rows = windows.toArrow()
        due = rows.filter(rows[RESULT]).select(["_ls_gid", "_ls_k", *names])
        return Rows(self.given.spark, due), rows.filter(is_flagged(rows)).drop_columns(names)

    def _fit_here(self, groups: pa.Table, columns: int) -> bool:
        """Return whether the windows of changed rows are few enough to be read as Arrow."""
        return fits_here(most_windows(groups, self.given.stream.step_us, self._incremental.overlap), columns)

    def _results_of(self, windows: DataFrame) -> DataFrame:
        """Return the output's rows of the windows that fire, with group and number."""
        return windows.where(RESULT).selectExpr(
            "_ls_gid", "_ls_k", *map(quoted, self.given.target.shape.names)
        )

    def _with_gaps(self, groups: pa.Table, due: Rows) -> tuple[tuple[Rows, ...], int]:
        """Return the output's rows and their number, with those of the windows without rows."""
        import pyarrow.compute as pc

        names, count = list(self.given.target.shape.names), due.count()
        found = due.select(names)
        passed = int(pc.sum(windows_passed(groups)).as_py() or 0)
        if self._incremental.only_with_rows or passed <= count:
            return (found,), count
        view_of(due.select(["_ls_gid", "_ls_k"]).frame, PRESENT)
        selected, held = (
            self.given.target.shape.listed(with_groups=True),
            [*self.given.target.shape.held_by_groups],
        )
        sql = self._incremental.gaps_sql(GROUPS, PRESENT, selected, held, self.given.plan.clock_us)
        gaps = Rows.of(self._results_of(self.given.spark.sql(sql))).select(names)
        return (found, gaps), passed

    def _check_passed(self, groups: pa.Table, start: str) -> None:
        import pyarrow.compute as pc

        if not self._incremental.only_with_rows:
            windows = pc.add(windows_passed(groups), windows_opened(groups, start))
            check_groups(self.given.stream, groups, windows, self.given.max_windows)
