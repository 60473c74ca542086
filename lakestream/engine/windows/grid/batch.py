"""The batch evaluation of windows of a grid: everything taken as one tick from an empty state.

History as one commit, then the changes of every commit, by the same policies; what was recalculated since
fires again as it did then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.compute.windows.calculation import ROWS
from lakestream.engine.reading.queries import rows_sql
from lakestream.engine.reading.relations import CHANGED, FIRED, GROUPS, Relations
from lakestream.engine.reading.transport import SPARK
from lakestream.engine.windows.family import Batch
from lakestream.engine.windows.grid.extremes import Extremes
from lakestream.engine.windows.grid.firing import begun_sql
from lakestream.engine.windows.grid.queries import GridQueries
from lakestream.engine.windows.taken import Taken
from lakestream.storage.records.registry import TickPlan
from lakestream.storage.rows.reading import arrow_frame
from lakestream.storage.rows.views import view_of, view_of_rows, view_of_sql
from lakestream.storage.sessions.session import checkpointed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from lakestream.engine.streams.stream import EventRange, Stream
    from lakestream.engine.windows.family import Snapshot
    from lakestream.engine.windows.grid.firing import FirstWindow
    from lakestream.storage.rows.views import View

_DETECTED, _RECALCULATED = "ls_before_recalculation", "ls_recalculated"


@dataclass(frozen=True)
class GridBatch:
    """One batch evaluation; ``needs_rows``: of the rows themselves."""

    stream: Stream
    snapshot: Snapshot
    needs_rows: bool

    def run(self) -> Batch:
        """Register rows, and return what fires over them."""
        first_rows = None
        if self.stream.deletes and not self.stream.exact:
            first_rows = self.snapshot.known().rows  # before anything is registered: it is found out by ticks
        late = 0
        if self.stream.exact:
            fired, recalculated = self._net(), None
        else:
            fired, recalculated, late = self._by_commit()
        if self.stream.emission.at_once:
            state = Taken(self.stream, self.snapshot).nothing_before()
            sql = self._queries.early_sql(str(fired), str(state))
            fired = view_of_sql(self.snapshot.spark, sql, FIRED)
        if self.needs_rows:
            view_of_sql(self.snapshot.spark, rows_sql(self.stream, CHANGED, None, None), ROWS)
        windows = self._queries.windows_sql(str(fired), 0)
        if first_rows is not None and recalculated is not None:
            windows = self._without_first(windows, first_rows, recalculated)
        return Batch(windows, late, settled=self.stream.exact)

    @property
    def _queries(self) -> GridQueries:
        return GridQueries(self.stream)

    def _net(self) -> View:
        """Register the windows of the source as it is."""
        taken, spark = Taken(self.stream, self.snapshot), self.snapshot.spark
        changes, state = taken.as_it_is(), taken.nothing_before()
        ends = Extremes(spark, self._relations).none()
        return view_of_sql(spark, self._queries.net_emission.sql(str(changes), str(state), str(ends)), FIRED)

    def _by_commit(self) -> tuple[View, View, int]:
        """Register what fires over the whole history, commit by commit, and again by recalculations.

        Returns these two, and how many late rows count for nothing.
        """
        taken, spark = Taken(self.stream, self.snapshot), self.snapshot.spark
        changes, state = taken.as_they_came(), taken.nothing_before()
        detected = spark.sql(self._queries.detection.sql(str(changes), str(state)))
        if self.snapshot.recalculated:
            # Read once per range: without a checkpoint the whole detection would be planned as often.
            # Where deletes count it is joined to itself below, which Spark cannot plan of a checkpoint.
            by_arrow = self.stream.deletes
            kept = arrow_frame(spark, detected.toArrow()) if by_arrow else None
            detected = checkpointed(spark, detected) if kept is None else kept
        view_of(detected, _DETECTED)
        late = 0 if self.stream.refires else self._late()
        recalculated = self._recalculated(detected)
        fired = view_of(detected.unionByName(recalculated), FIRED)
        return fired, view_of(recalculated, _RECALCULATED), late

    def _late(self) -> int:
        late = self.snapshot.spark.sql(f"SELECT coalesce(sum(late), 0) AS n FROM {_DETECTED}").toArrow()
        return int(late["n"][0].as_py())

    def _recalculated(self, detected: DataFrame) -> DataFrame:
        """Return the windows that recalculations have let fire, each range over the state of its time."""
        recalculated, spark = detected.limit(0), self.snapshot.spark
        for event_range, at in self.snapshot.recalculated:
            state = self._state_of_range(event_range, at)
            fired = spark.sql(self._queries.recalculated_sql(f"({state})", at, event_range))
            recalculated = recalculated.unionByName(fired)
            if self._queries.begins_again:
                recalculated = checkpointed(spark, recalculated)
                view_of(detected.unionByName(recalculated), _DETECTED)
        return recalculated

    def _state_of_range(self, event_range: EventRange, at: int) -> str:
        """Return SQL of the state that a range was recalculated by: groups may have begun earlier."""
        state = _state_at(self.stream, at)
        if not self._queries.begins_again:
            return state

        def begun(first: FirstWindow) -> str:
            fired = f"r -> {first.number - 1}L BETWEEN r.a AND r.b"
            return f"SELECT gid FROM {_DETECTED} WHERE v <= {at} AND exists(concat(fires, refired), {fired})"

        return begun_sql(self._relations, at, f"({state})", event_range, begun)

    @property
    def _relations(self) -> Relations:
        snapshot, version = self.snapshot, self.snapshot.version
        plan = TickPlan(self.stream.uuid, 0, "recalculation", version, version, 0, {}, transport=SPARK)
        return Relations.of(snapshot.spark, snapshot.tables, self.stream, plan, snapshot.history)

    def _without_first(self, windows: str, first_rows: pa.Table, recalculated: View) -> str:
        """Return SQL of windows without those that deletes have left before their group's first row.

        Deletes may have moved it: windows before it are gone, unless recalculated.
        """
        groups = view_of_rows(self.snapshot.spark, first_rows, GROUPS)
        listed = self._queries.detection.windows_sql(str(recalculated), rows=self.stream.counting_rows)
        return (
            f"SELECT w.* FROM ({windows}) w JOIN {groups} g ON g.gid = w._ls_gid "
            f"LEFT JOIN ({listed}) r ON r.gid = w._ls_gid AND r.k = w._ls_k "
            f"WHERE w._ls_high > g.first OR r.k IS NOT NULL"
        )


def _state_at(stream: Stream, version: int) -> str:
    """Return SQL of the groups' state after a commit, from a detection result."""
    groups = "".join(f", any_value({name}) AS {name}" for name in stream.group_columns)
    return (
        f"SELECT gid{groups}, min(first) AS first, max(newest) AS newest FROM {_DETECTED} "
        f"WHERE v <= {version} GROUP BY gid"
    )
