"""Windows kept by partial aggregates: changes and open windows give the results and the next state.

That is what nearly every tick of windows on the clock's grid brings: rows that are only added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from lakestream.compute.windows.incremental import GROUP_TOLD, RESULT
from lakestream.engine.base.state import GroupState, summary_in_steps, update_summary_of
from lakestream.engine.reading.relations import CHANGED, GROUPS, PRESENT, STATE, UPDATED
from lakestream.engine.reading.transport import (
    ArrowTransport,
    SparkTransport,
    fits_here,
    frame_of,
    merge_spans,
)
from lakestream.engine.windows.updated import (
    TOLD,
    Updated,
    are_in_order,
    columns_of,
    count_of,
    is_told,
    least,
    most_windows,
    picked,
    windows_opened,
    windows_passed,
    with_groups,
)
from lakestream.engine.windows.waiting import check_groups
from lakestream.language.quoting import quoted
from lakestream.storage.delta import capabilities, rows_between
from lakestream.storage.reading import arrow_frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.compute.windows.incremental import Incremental
    from lakestream.engine.reading.relations import History, Relations
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.streams.target import Target
    from lakestream.notify.events import EventRules
    from lakestream.storage.delta import Tables
    from lakestream.storage.registry import TickPlan

    Rows: TypeAlias = Any  # an Arrow table (which has no types) or a DataFrame

MAX_ARROW_ROWS = 500_000
"""Rows of open windows that are read as Arrow."""


@dataclass
class Updating:
    """One tick's update query. ``rules`` say what is told of the windows that close (None: nothing)."""

    spark: SparkSession
    tables: Tables
    relations: Relations
    stream: Stream
    target: Target
    plan: TickPlan
    history: History
    max_windows: int
    rules: EventRules | None

    @cached_property
    def _incremental(self) -> Incremental:
        incremental = self.stream.incremental(self.max_windows)
        assert incremental is not None  # by stages()
        return incremental

    # --- what the query starts from ---

    def with_open_windows(self, state: GroupState) -> GroupState:
        """Return a state with its open windows, computed from the source where they are not known."""
        if state.rows is None or not len(state) or state.opened is not None:
            return state
        return GroupState(state.rows, self._open_windows(state.rows))

    def _open_windows(self, groups: pa.Table) -> pa.Table | None:
        """Compute the open windows of groups from the source as it was before the tick."""
        arrow_frame(self.spark, groups).coalesce(1).createOrReplaceTempView(STATE)
        spans = self._open_spans()
        if not spans:
            return None
        time, source = self.stream.source.info.time_column, self.tables.open(self.stream.source.info.path)
        rows = sum(rows_between(source, time, low, high) for low, high in spans)
        few = rows <= MAX_ARROW_ROWS and capabilities(source).arrow_reads
        way = ArrowTransport if few else SparkTransport
        relations = replace(self.relations, transport=way(self.spark, self.tables))
        relations.rows_at(self.plan.upto if self.plan.kind == "history" else self.plan.after, spans)
        sql = self._incremental.opened_sql(self.stream.open_rows_sql(), STATE)
        return self.spark.sql(sql).toArrow()

    def _open_spans(self) -> list[tuple[int, int]]:
        """Return the spans of event time of the windows that are open, as far as there are rows."""
        closed = self.stream.grid.closed(f"(newest - {self.stream.watermark_delay}L)", "first")
        k = f"({closed} + 1)"
        found = self.spark.sql(
            f"SELECT DISTINCT {self.stream.grid.low(k, 'first')} AS low, newest + 1 AS high "
            f"FROM {STATE} WHERE first IS NOT NULL"
        ).toArrow()
        start = self.history.start_us if self.plan.kind == "history" else None
        pairs = zip(found["low"].to_pylist(), found["high"].to_pylist(), strict=True)
        bounded = [(low if start is None else max(low, start), high) for low, high in pairs]
        return merge_spans([(low, high) for low, high in bounded if low < high])

    # --- the query ---

    def alone(self, state: GroupState) -> Updated:
        """Return what the registered changes and a state give, by a query of the stream's own.

        Raises StreamError (TOO_MANY_WINDOWS).
        """
        known = state.merged()
        if known is not None:
            arrow_frame(self.spark, known).coalesce(1).createOrReplaceTempView(STATE)
        view = None if known is None else STATE
        opened = bool(state.opened is not None and state.opened.num_rows)
        in_steps = isinstance(self.relations.transport, SparkTransport)
        return self._in_steps(view, opened=opened) if in_steps else self._at_once(view, opened=opened)

    def shared(self, rows: pa.Table) -> Updated:
        """Return what a query gave that streams of one shape have shared, with what this stream tells of.

        Raises StreamError (TOO_MANY_WINDOWS).
        """
        if self.rules is None:
            return self._told_apart(rows)
        arrow_frame(self.spark, rows).createOrReplaceTempView(UPDATED)
        sql = self.rules.closings_sql(f"SELECT * FROM {UPDATED}")
        return self._told_apart(self.spark.sql(sql).toArrow())

    def _at_once(self, state: str | None, *, opened: bool) -> Updated:
        """One query, for few rows: what Spark needs for a query counts."""
        fresh, selected = self.stream.fresh_sql(CHANGED), self.target.shape.listed()
        sql = self._incremental.sql(fresh, state, selected, opened=opened, clock_us=self.plan.clock_us)
        if self.rules is not None:
            sql = self.rules.closings_sql(sql)
        return self._told_apart(self.spark.sql(sql).toArrow())

    def _told_apart(self, rows: pa.Table) -> Updated:
        """Return the result of one update query as what is due, what is kept and what is told."""
        summary = update_summary_of(rows, self.stream.group_columns)
        self._check_passed(summary, "base")
        fired = rows.filter(rows[RESULT])
        due = fired.select(list(self.target.shape.names))
        told = rows.filter(is_told(rows))
        kept = picked(told, "_ls_open", self._incremental.kept_columns)
        return Updated((due,), due.num_rows, kept, told, summary, fired)

    def _in_steps(self, state: str | None, *, opened: bool) -> Updated:
        """Several queries, for many rows: the groups are judged first, so that nothing is sorted."""
        incremental = self._incremental
        fresh, held = self.stream.fresh_sql(CHANGED), self.target.shape.of_groups()
        groups = self.spark.sql(incremental.groups_sql(fresh, state, held)).toArrow()
        self._check_passed(groups, "start")
        arrow_frame(self.spark, groups).createOrReplaceTempView(GROUPS)
        selected, clock = self.target.shape.listed(with_groups=True), self.plan.clock_us
        windows = self.spark.sql(
            incremental.windows_sql(fresh, state, GROUPS, selected, [*held], opened=opened, clock_us=clock)
        )
        told = None
        if are_in_order(groups):
            rest = self.stream.fresh_sql(CHANGED, least(groups["opens"]))
            kept = self.spark.sql(incremental.slots_sql(rest, state, GROUPS, opened=opened)).toArrow()
            due = self._collected(groups, windows)
        else:
            due, told = self._due_and_told(groups, windows)
            told = with_groups(told, groups, GROUP_TOLD)
            kept = picked(told, "_ls_open", incremental.kept_columns)
        parts, count = self._with_gaps(groups, due)
        return Updated(parts, count, kept, told, summary_in_steps(groups, told))

    def _collected(self, groups: pa.Table, windows: DataFrame) -> Rows:
        """Return results as Arrow, or kept by Spark if they may be too many."""
        shape = self.target.shape
        if not self._fit_here(groups, len(shape.names)):
            return self.relations.transport.keep(self._results_of(windows)).frame
        # What is the same for all rows of a group is not carried from Spark row by row.
        held = shape.held_by_groups
        names = [name for name in shape.names if name not in held.values()]
        rows = windows.where(RESULT).selectExpr("_ls_gid", "_ls_k", *map(quoted, names)).toArrow()
        return columns_of(with_groups(rows, groups, held), ["_ls_gid", "_ls_k", *shape.names])

    def _due_and_told(self, groups: pa.Table, windows: DataFrame) -> tuple[Rows, pa.Table]:
        """Return the results and what is told of, by one query if they are few enough."""
        names = list(self.target.shape.names)
        if not self._fit_here(groups, len(windows.columns)):
            kept = self.relations.transport.keep(windows).frame
            return self._results_of(kept), kept.where(TOLD).drop(*names).toArrow()
        rows = windows.toArrow()
        due = rows.filter(rows[RESULT])
        return columns_of(due, ["_ls_gid", "_ls_k", *names]), rows.filter(is_told(rows)).drop_columns(names)

    def _fit_here(self, groups: pa.Table, columns: int) -> bool:
        """Return whether the windows of changed rows are few enough to be read as Arrow."""
        return fits_here(most_windows(groups, self.stream.step_us, self._incremental.overlap), columns)

    def _results_of(self, windows: DataFrame) -> DataFrame:
        """Return the output's rows of the windows that fire, with group and number."""
        return windows.where(RESULT).selectExpr("_ls_gid", "_ls_k", *map(quoted, self.target.shape.names))

    def _with_gaps(self, groups: pa.Table, due: Rows) -> tuple[tuple[Rows, ...], int]:
        """Return the output's rows and their number, with those of the windows without rows."""
        import pyarrow.compute as pc

        names, count = list(self.target.shape.names), count_of(due)
        found = columns_of(due, names)
        passed = int(pc.sum(windows_passed(groups)).as_py() or 0)
        if self._incremental.only_with_rows or passed <= count:
            return (found,), count
        present = columns_of(due, ["_ls_gid", "_ls_k"])
        frame_of(self.spark, present).createOrReplaceTempView(PRESENT)
        selected, held = self.target.shape.listed(with_groups=True), [*self.target.shape.held_by_groups]
        sql = self._incremental.gaps_sql(GROUPS, PRESENT, selected, held, self.plan.clock_us)
        gaps = columns_of(self._results_of(self.spark.sql(sql)), names)
        return (found, gaps), passed

    def _check_passed(self, groups: pa.Table, start: str) -> None:
        import pyarrow.compute as pc

        if not self._incremental.only_with_rows:
            windows = pc.add(windows_passed(groups), windows_opened(groups, start))
            check_groups(self.stream, groups, windows, self.max_windows)
