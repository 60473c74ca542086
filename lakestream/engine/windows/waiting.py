"""Groups that wait: of each, a row far from the others would make more windows fire than one tick may.

The stream goes on with its other groups. It admits no row of those that wait, keeps no state of them and
leaves their rows of the output as they are, until they are taken up again. A group that waits is in the
registration of its stream before the tick goes on without it, so that a replay leaves out the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from lakestream.compute.windows.calculation import ROWS
from lakestream.engine.base.state import gids_sql
from lakestream.errors import StreamError
from lakestream.storage.records.registry import Recalculation, WaitingGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.streams.stream import Stream
    from lakestream.storage.records.registry import Registry, StreamRecord

MOST_WAITING = 1_000
"""Groups of a stream that may wait; where more would, the stream stops."""

WINDOWS_A_ROW = 1_000
"""More are nearly all empty: what a row far from the others makes of them."""

_NAMED = 3


class TooManyWindowsError(StreamError):
    """TOO_MANY_WINDOWS: ``groups`` make too many of ``count`` by themselves, none where only all do."""

    def __init__(self, count: int, most: int, groups: Sequence[WaitingGroup] = ()) -> None:
        named = [*map(str, groups[:_NAMED]), *(["…"] if len(groups) > _NAMED else [])]
        of_groups = f" ({'; '.join(named)})" if groups else ""
        super().__init__(
            "TOO_MANY_WINDOWS",
            f"{count:,} windows would fire, more than {most:,}{of_groups}",
            hint="a row far in the future, or in the past? delete it, then START STREAM where the stream is "
            "EXACT and its history is taken, else RECALCULATE STREAM … RESYNC; or raise the setting "
            "max_windows_per_tick, then START STREAM",
        )
        self.count, self.groups = count, (*groups,)


def check_windows(count: int, most: int) -> None:
    """Raise TooManyWindowsError when more windows would fire at once than there may."""
    if count > most:
        raise TooManyWindowsError(count, most)


def check_groups(stream: Stream, groups: pa.Table, windows: pa.ChunkedArray, most: int) -> None:
    """Raise TooManyWindowsError when more windows of groups would fire than there may.

    ``groups`` has gid and the group columns, ``windows`` how many it would be of each.
    """
    passing = Passing(stream, most)
    passing.add(groups, windows)
    passing.check()


@dataclass
class Passing:
    """Windows that fire or open in a tick, counted by parts of its groups; ``most`` is how many may."""

    stream: Stream
    most: int
    count: int = 0
    far: list[WaitingGroup] = field(default_factory=list)
    """The groups that make too many by themselves."""

    def add(self, groups: pa.Table, windows: pa.ChunkedArray) -> None:
        """Count the windows of groups (gid, group columns), how many of each one."""
        import pyarrow.compute as pc

        self.count += int(pc.sum(windows).as_py() or 0)
        if self.are_too_many:
            far = pc.greater(windows, self.most)
            self.far += _named(self.stream, groups.filter(far), windows.filter(far))

    @property
    def are_too_many(self) -> bool:
        """Whether more have passed than may."""
        return self.count > self.most

    def check(self) -> None:
        """Raise TooManyWindowsError when more have passed than may."""
        if self.are_too_many:
            raise TooManyWindowsError(self.count, self.most, self.far)


def far_groups(spark: SparkSession, stream: Stream, groups: pa.Table, most: int) -> list[WaitingGroup]:
    """Return the groups of which a row lies far from the others: they are to wait.

    Those have more than ``most`` windows between two rows, or in all and nearly all of them empty. ``groups``
    are (gid, group columns, first, newest BIGINT µs, rows), of rows that are registered.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if stream.counting_rows or not stream.groups:
        return []
    windows = windows_between(groups["first"], groups["newest"], stream.step_us)
    wide = groups.append_column("windows", windows).filter(pc.greater(windows, most))
    if not wide.num_rows:
        return []
    gaps = spark.sql(_gaps_sql(wide["gid"].to_pylist(), stream.step_us)).toArrow()
    of_gaps = gaps["windows"].take(pc.index_in(wide["gid"], value_set=gaps["gid"].combine_chunks()))
    empty = pc.greater(wide["windows"], pc.multiply(wide["rows"], WINDOWS_A_ROW))
    far = pc.or_(empty, pc.fill_null(pc.greater(of_gaps, pa.scalar(most)), fill_value=False))
    found = wide.filter(far)
    return _named(stream, found, found["windows"])


def _gaps_sql(gids: Sequence[int], step_us: int) -> str:
    """Return SQL of about how many windows lie between two rows of groups at most: gid, windows."""
    gap = "_ls_ts - lag(_ls_ts) OVER (PARTITION BY _ls_gid ORDER BY _ls_ts)"
    return (
        f"SELECT _ls_gid AS gid, max(gap) div {step_us}L AS windows "
        f"FROM (SELECT _ls_gid, {gap} AS gap FROM {ROWS} WHERE _ls_gid IN ({gids_sql(gids)})) "
        "GROUP BY _ls_gid"
    )


def windows_between(first: pa.ChunkedArray, newest: pa.ChunkedArray, step_us: int) -> pa.ChunkedArray:
    """Return about how many windows there are from one instant to another one (µs), none backwards."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.max_element_wise(pc.divide(pc.subtract(newest, first), step_us), pa.scalar(0))


def _named(stream: Stream, groups: pa.Table, windows: pa.ChunkedArray) -> list[WaitingGroup]:
    """Return groups by name; none of a stream that has but one, which is the stream itself."""
    keys = [key.expression.sql for key in stream.definition.partition_by]
    if not keys:
        return []
    values = zip(*(groups[name].to_pylist() for name in stream.group_columns), strict=True)
    names = [
        ", ".join(
            f"{key} = {'NULL' if value is None else value}" for key, value in zip(keys, row, strict=True)
        )
        for row in values
    ]
    return [*map(WaitingGroup, groups["gid"].to_pylist(), names, windows.to_pylist())]


# --- the registration of a stream ---


def let_wait(registry: Registry, record: StreamRecord, groups: Sequence[WaitingGroup]) -> StreamRecord | None:
    """Have more groups of a stream wait, and return its registration; None: they would be too many."""
    waiting = {group.gid: group for group in (*record.waiting_groups, *groups)}
    if len(waiting) > MOST_WAITING:
        return None
    return _put(registry, record, [*waiting.values()])


def let_go_on(registry: Registry, record: StreamRecord, gids: Sequence[int]) -> StreamRecord:
    """Have groups of a stream wait no longer, and return its registration."""
    return _put(registry, record, [group for group in record.waiting_groups if group.gid not in gids])


def _put(registry: Registry, record: StreamRecord, groups: Sequence[WaitingGroup]) -> StreamRecord:
    return registry.update(record.uuid, waiting_groups=tuple(groups))


def taking_up(record: StreamRecord, gids: Sequence[int], version: int, now_us: int) -> Recalculation:
    """Return the recalculation that takes up groups that wait, from a version of the source on.

    Their first and newest rows are taken from the source first, then their windows are computed. For a stream
    that is EXACT, of which these follow from the source as it is.
    """
    return Recalculation(
        str(uuid4()),
        record.uuid,
        None,
        None,
        False,
        "Waiting",
        now_us,
        asked_at=version,
        groups=tuple(gids),
    )


def is_taking_up(job: Recalculation) -> bool:
    """Return whether a recalculation has yet to take up groups that wait, before its first part."""
    return job.groups is not None and job.place is None
