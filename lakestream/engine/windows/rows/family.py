"""Row windows: SESSION, STATE_WINDOW, EVENT_WINDOW and COUNT_WINDOW, whose rows cut them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lakestream.compute.windows.calculation import ROWS
from lakestream.engine.base.state import GroupState
from lakestream.engine.reading.queries import changes_sql, empty_state_sql, rows_sql
from lakestream.engine.reading.relations import CHANGED, CHANGES, FIRED, STATE, Relations
from lakestream.engine.windows.family import DELAY, Batch, Family, TickInput
from lakestream.engine.windows.rows.cutting import CUTS
from lakestream.engine.windows.rows.in_order import is_in_order, may_be_in_order
from lakestream.engine.windows.rows.policy import keeps_closed, keeps_expired
from lakestream.engine.windows.rows.queries import RowQueries
from lakestream.engine.windows.rows.steps import CutDelayed, CutWindows, RecomputeCut, cut
from lakestream.engine.windows.rows.summing import summed
from lakestream.engine.windows.said import rule
from lakestream.engine.windows.taken import Taken
from lakestream.storage.records.registry import TickPlan
from lakestream.storage.rows.views import view_of_sql
from lakestream.triggers.cut import NO_SEEDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.streams.stream import EventRange
    from lakestream.engine.streams.target import Target
    from lakestream.engine.windows.delays import OpenWindow
    from lakestream.engine.windows.family import Snapshot, Standing, Step
    from lakestream.storage.delta import CommitInfo
    from lakestream.storage.records.registry import WaitingGroup


@dataclass(frozen=True)
class RowWindows(Family):
    """Windows that rows cut; the state has the open window of each group, as far as it has been cut."""

    divides: ClassVar[bool] = False  # its windows are known only when they are cut

    def step(self, target: Target, plan: TickPlan, event_range: EventRange | None) -> Step:
        """Return the stage that finds out what fires."""
        text = rule(self.stream)
        if event_range is not None:
            return RecomputeCut(text, event_range)
        if plan.kind == DELAY:
            return CutDelayed(text, plan.windows)
        return CutWindows(text, is_in_order(self.stream, target, plan))

    def saves_each_tick(self, standing: Standing) -> bool:  # noqa: ARG002
        """Return true: what is open follows from the ticks, not from a range of versions."""
        return True

    def loaded(self, saved: pa.Table) -> tuple[int, GroupState]:
        """Return what was saved; an older lakestream saved no expired rows, nor ends of closed windows."""
        keeps = {"keeps_expired": keeps_expired(self.stream), "keeps_closed": keeps_closed(self.stream)}
        return GroupState.loaded(saved, **keeps)

    def taken_at_once(self, commits: Sequence[CommitInfo]) -> int:
        """Return how many commits may be cut together: windows are cut from the source as it is.

        No policy tells those from one commit whose rows are all newer than those of the commits before.
        """
        if self.stream.exact:
            return len(commits)
        if self.stream.follows_source and all(c.append_only or not c.data_change for c in commits):
            return len(commits)
        return _in_order(commits, self.stream.logged_time)

    def open_windows(self, spark: SparkSession, groups: pa.Table) -> list[OpenWindow]:  # noqa: ARG002
        """Return the open windows that the state lists, by their start."""
        assert self.stream.cut is not None
        ahead = self.stream.emission.opens_ahead
        column = "starts" if self.stream.cut.counts else "opened" if ahead else "resume"
        rows = zip(groups["gid"].to_pylist(), groups[column].to_pylist(), strict=True)
        listed = ((gid, value if isinstance(value, list) else [value]) for gid, value in rows)
        return [(gid, low) for gid, lows in listed for low in lows if low is not None]

    def windows_sql(self, fired: str) -> str:
        """Return SQL of windows with their placeholders, from a cut."""
        return RowQueries(self.stream).cut_windows_sql(fired, 0)

    def rebuild(self, snapshot: Snapshot) -> tuple[GroupState, list[WaitingGroup]]:
        """Cut all rows there are as if they had come in one commit."""
        version, start = snapshot.version, snapshot.history.start_us
        plan = TickPlan(self.stream.uuid, 0, "history", -1, version, 0, {}, start, None, snapshot.transport)
        relations = Relations.of(snapshot.spark, snapshot.tables, self.stream, plan, snapshot.history)
        relations.changes(self.stream.changed_columns)
        changes = view_of_sql(snapshot.spark, changes_sql(self.stream, CHANGED), CHANGES)
        state = view_of_sql(snapshot.spark, empty_state_sql(self.stream, CHANGES), STATE)
        given = TickInput(relations, snapshot.target, GroupState(), snapshot.max_windows)
        sums = summed(given, changes, state)
        found = cut(given, sums, changes).groups
        return GroupState(found if found.num_rows else None), []

    @property
    def sums_up(self) -> bool:
        """Whether rows in order are cut and computed in one query."""
        return may_be_in_order(self.stream)

    def follows_from_source(self, late: int, only_added: Callable[[], bool]) -> bool:
        """Return whether nothing was left out: every late row counted, and none was taken back."""
        if self.stream.exact:
            return True
        if not self.stream.follows_source and (late or self.stream.expiry is not None):
            return False
        return self.stream.deletes or only_added()

    def batch(self, snapshot: Snapshot) -> Batch:
        """Register the windows of the source as it is, for streams that follow it."""
        stream, cut, spark = self.stream, self.stream.cut, snapshot.spark
        assert cut is not None
        queries, options = RowQueries(stream), stream.definition.options
        changes = Taken(stream, snapshot).as_it_is()
        view_of_sql(spark, rows_sql(stream, CHANGED, None, None), ROWS)
        ahead, shows = str(options.emission.opens_ahead).lower(), str(options.emission.at_once).lower()
        cuts = view_of_sql(
            spark,
            f"SELECT *, IF({ahead}, newest, mark) AS upto FROM (SELECT _ls_gid AS gid, "
            f"min(_ls_ts) AS from_us, max(_ls_ts) AS newest, "
            f"max(_ls_ts) - {stream.watermark_delay}L AS mark, CAST(NULL AS BIGINT) AS known "
            f"FROM {ROWS} GROUP BY _ls_gid)",
            CUTS,
        )
        windows = cut.sql(queries.cut_rows_sql(str(cuts)), NO_SEEDS)
        names = "".join(f", any_value({name}) AS {name}" for name in stream.group_columns)
        groups = f"SELECT gid{names} FROM {changes} GROUP BY gid"
        listed = "".join(f", g.{name}" for name in stream.group_columns)
        fired = view_of_sql(
            spark,
            f"SELECT w.gid{listed}, w.low AS k, CAST({snapshot.version} AS BIGINT) AS c, w.low, w.high, "
            f"false AS opening FROM ({windows}) w JOIN ({groups}) g ON g.gid = w.gid "
            f"WHERE w.counts AND (w.closed OR w.shows AND {shows})",
            FIRED,
        )
        return Batch(self.windows_sql(str(fired)))


def _in_order(commits: Sequence[CommitInfo], time: str) -> int:
    """Return how many commits add rows that are all newer than those of the commits before; one at least.

    No policy tells them from one commit: what is late or expired is so for all that came before them.
    """
    newest: int | None = None
    for number, commit in enumerate(commits):
        if not commit.data_change:
            continue
        ends = commit.times(time) if commit.append_only else None
        if ends is None or (newest is not None and ends[0] <= newest):
            return max(number, 1)
        newest = ends[1]
    return len(commits)
