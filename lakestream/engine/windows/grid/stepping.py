"""Partial aggregates of many changed rows, by several queries: the groups are judged before their windows.

So nothing is sorted by window. DuckDB goes by parts of the groups: what a part takes is gone before the next
one begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from lakestream.compute.windows.incremental import (
    GROUP_COLUMNS,
    RESULT,
    ROW_COUNT,
    Fresh,
    Incremental,
    slot_columns,
)
from lakestream.engine.base.keyed import parted, parts_of
from lakestream.engine.base.rows import Rows
from lakestream.engine.base.state import summary_in_steps
from lakestream.engine.reading.queries import fresh_sql
from lakestream.engine.reading.relations import CHANGED, GOING_ON, GROUPS, PRESENT, STATE, SUMMED
from lakestream.engine.reading.transport import SPARK, fits_here
from lakestream.engine.windows.grid.updated import (
    LASTING,
    Updated,
    are_in_order,
    is_flagged,
    most_windows,
    picked,
    together,
    updated_of,
    windows_opened,
    windows_passed,
    with_groups,
)
from lakestream.engine.windows.totals import least
from lakestream.engine.windows.waiting import Passing
from lakestream.language.quoting import quoted
from lakestream.storage.columns.types import arrow_type
from lakestream.storage.rows.reading import arrow_frame
from lakestream.storage.rows.views import give_back, view_of, view_of_rows
from lakestream.storage.small.session import SmallSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from lakestream.engine.base.state import GroupState
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.windows.family import TickInput

PART_ROWS = 131_072
"""Sums by group and window that are looked at at once; a group's are all in one part."""


@dataclass(frozen=True)
class Stepping:
    """Several queries over one tick's changed rows, which are registered."""

    given: TickInput

    def run(self, state: GroupState) -> Updated:
        """Return what the changes and a state give; raises StreamError (TOO_MANY_WINDOWS)."""
        passing = passing_of(self.given)
        if self.given.transport.name == SPARK:
            updated = self._of(state, self._changed, passing)
            found = [] if updated is None else [updated]
        else:
            found = [*self._of_parts(state, passing)]
        if passing is not None:
            passing.check()
        return together(found)

    def _of_parts(self, state: GroupState, passing: Passing | None) -> Iterator[Updated]:
        """Yield what parts of the groups give."""
        session, relations = self.given.spark, self.given.relations
        assert isinstance(session, SmallSession)  # which computes what does not travel by Spark

        def let_go_of_changes() -> None:
            relations.added, relations.has_changes = None, False
            session.drop(CHANGED)
            give_back()

        # They are read once; whoever needs them after all reads them again.
        text = self._incremental.summed_sql(fresh_sql(self.given.stream, CHANGED))
        sums = session.sparing(text, let_go_of_changes)
        parts, schema, batches = parts_of(sums.num_rows, PART_ROWS), sums.schema, sums.to_batches()
        del sums
        divided = parted(batches, schema, parts)
        waiting = [(part, rows) for part, rows in enumerate(divided) if rows.num_rows or parts == 1]
        del divided, batches
        give_back()
        while waiting:
            part, rows = waiting.pop()
            found = self._of(state.in_part(part, parts), self._summed(rows), passing)
            del rows
            session.drop(SUMMED, GOING_ON, STATE, GROUPS, PRESENT)
            give_back()
            if found is not None:
                yield found
        if parts > 1:
            session.end_threads()

    @property
    def _incremental(self) -> Incremental:
        incremental = self.given.stream.incremental
        assert incremental is not None  # by Grid.step()
        return incremental

    def _changed(self, from_us: int | None = None) -> Fresh:
        """Return the changed rows, from an instant on: Spark reads them for each query."""
        return Fresh(fresh_sql(self.given.stream, CHANGED, from_us))

    def _summed(self, sums: pa.Table) -> Callable[[int | None], Fresh]:
        """Return what registers sums of changed rows, or those that reach an instant."""

        def register(from_us: int | None = None) -> Fresh:
            import pyarrow.compute as pc

            if from_us is None:
                view = view_of_rows(self.given.spark, sums, SUMMED)
            else:
                # Not by a number in the query's text, which would be another query.
                rows = sums.filter(pc.greater_equal(sums["high"], from_us))
                view = view_of_rows(self.given.spark, rows, GOING_ON)
            return Fresh(f"SELECT * FROM {view}", summed=True)

        return register

    def _of(
        self, state: GroupState, changed: Callable[[int | None], Fresh], passing: Passing | None
    ) -> Updated | None:
        """Return what changed rows, from an instant on, and a state give; None where too many pass."""
        view = register_state(self.given, state)
        incremental, fresh, held = self._incremental, changed(None), self.given.target.shape.of_groups()
        groups = self.given.spark.sql(incremental.groups_sql(fresh, view, held)).toArrow()
        if passing is not None:
            passing.add(groups, windows_passing(groups, "start"))
            if passing.are_too_many:
                return None
        view_of(arrow_frame(self.given.spark, groups), GROUPS)
        selected, clock = self.given.target.shape.listed(with_groups=True), self.given.plan.clock_us
        windows = self.given.spark.sql(incremental.windows_sql(fresh, view, GROUPS, selected, [*held], clock))
        flagged = None
        if are_in_order(groups):
            rest = changed(least(groups["opens"]))
            kept = self.given.spark.sql(incremental.slots_sql(rest, view, GROUPS)).toArrow()
            due = self._collected(groups, windows)
        else:
            due, flagged = self._due_and_flagged(groups, windows)
            flagged = with_groups(flagged, groups, GROUP_COLUMNS)
            kept = picked(flagged, "_ls_open", incremental.kept_columns)
        parts, count = self._with_gaps(groups, due)
        summary = summary_in_steps(groups, flagged)
        return updated_of(parts, count, kept, flagged, summary, self.given.stream.group_columns)

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
            return Rows.of(self._results_of(kept)), self._flagged(kept.drop(*names))
        rows = windows.toArrow()
        due = rows.filter(rows[RESULT]).select(["_ls_gid", "_ls_k", *names])
        return Rows(self.given.spark, due), rows.filter(is_flagged(rows)).drop_columns(names)

    def _flagged(self, windows: DataFrame) -> pa.Table:
        """Return what is flagged of many windows; of those that are late alone not what is in them."""
        import pyarrow as pa

        lasting = windows.where(LASTING).toArrow()
        late = windows.where(f"_ls_late AND NOT ({LASTING})").drop(*slot_columns(self._incremental)).toArrow()
        return pa.concat_tables([lasting, late], promote_options="default")

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
        results = self._results_of(self.given.spark.sql(sql))
        by_spark = self.given.transport.name == SPARK
        gaps = Rows.of(results) if by_spark else self.given.transport.materialize(results)
        return (found, gaps.select(names)), passed


def register_state(given: TickInput, state: GroupState) -> str:
    """Register the groups of a state and its open windows; return the view's name."""
    return str(view_of_rows(given.spark, state.merged(state_kinds(given.stream)), STATE))


def state_kinds(stream: Stream) -> pa.Schema:
    """Return the columns of the state of a stream whose windows are kept by partial aggregates."""
    import pyarrow as pa

    assert stream.incremental is not None  # by Grid.step()
    known = zip_longest(stream.group_columns, stream.group_types, fillvalue="void")
    groups = {name: _kind_of_group(kind) for name, kind in known}
    own = {name: arrow_type(kind) for name, kind in stream.incremental.types.items()}
    numbers = dict.fromkeys(("k", ROW_COUNT, "first", "newest"), pa.int64())
    return pa.schema({"gid": pa.int64(), **groups, **numbers, **own})


def _kind_of_group(kind: str) -> pa.DataType:
    import pyarrow as pa

    try:
        return arrow_type(kind)
    except ValueError:  # a text with a collation, which is Spark's alone
        return pa.null()


def passing_of(given: TickInput) -> Passing | None:
    """Return what counts the windows that a tick lets pass; None where those without rows are none."""
    incremental = given.stream.incremental
    assert incremental is not None  # by Grid.step()
    return None if incremental.only_with_rows else Passing(given.stream, given.most_windows)


def windows_passing(groups: pa.Table, start: str) -> pa.ChunkedArray:
    """Return how many windows of each group fire or open; ``start`` is as :func:`windows_opened` has it."""
    import pyarrow.compute as pc

    return pc.add(windows_passed(groups), windows_opened(groups, start))
