"""Groups of a version of the source, and of the rows that a tick takes: what there is to know of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.compute.windows.calculation import ROWS
from lakestream.engine.base.state import GroupState, gids_sql
from lakestream.engine.reading.queries import changes_sql
from lakestream.engine.reading.relations import CHANGED, CHANGES, EVER, History, Relations
from lakestream.engine.windows.waiting import far_groups
from lakestream.storage.records.registry import TickPlan
from lakestream.storage.rows.views import view_of_sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.windows.family import Snapshot, TickInput
    from lakestream.storage.delta import Tables
    from lakestream.storage.records.registry import WaitingGroup


def groups_of(stream: Stream, snapshot: Snapshot, *, far: bool) -> tuple[GroupState, list[WaitingGroup]]:
    """Return the state of the groups of a snapshot; ``far`` ones are left out of it, to wait."""
    found = groups_at(
        snapshot.spark,
        snapshot.tables,
        stream,
        snapshot.history,
        snapshot.version,
        transport=snapshot.transport,
    )
    waiting = far_groups(snapshot.spark, stream, found, snapshot.max_windows) if far else []
    state = GroupState(found.drop_columns(["rows"]) if found.num_rows else None)
    return state.without([group.gid for group in waiting]), waiting


def groups_at(
    spark: SparkSession,
    tables: Tables,
    stream: Stream,
    history: History,
    version: int,
    only: Sequence[int] = (),
    *,
    transport: str,
) -> pa.Table:
    """Return the groups of rows of a version of the source: gid, group columns, first, newest, rows.

    ``only`` are those that are looked for, none for all; ``transport`` is how the rows are read. They are
    registered.
    """
    plan = TickPlan(stream.uuid, 0, "changes", version, version, 0, transport=transport)
    relations = Relations.of(spark, tables, stream, plan, history)
    low, high = EVER
    # Rows of before its start are not those of the history alone: others came after the stream's creation.
    start = history.start_us if history.until_us is None else None
    relations.rows_at(version, [(low if start is None else start, high)])
    where = f" WHERE _ls_gid IN ({gids_sql(only)})" if only else ""
    groups = "".join(
        f", any_value({sql}) AS {name}" for sql, name in zip(stream.groups, stream.group_columns, strict=True)
    )
    return spark.sql(
        f"SELECT _ls_gid AS gid{groups}, min(_ls_ts) AS first, max(_ls_ts) AS newest, count(1) AS rows "
        f"FROM {ROWS}{where} GROUP BY _ls_gid"
    ).toArrow()


def written_groups(given: TickInput) -> pa.Table:
    """Return by group the first and the newest time of the rows that were written, and their number."""
    changes = view_of_sql(given.spark, changes_sql(given.stream, CHANGED), CHANGES)
    names = "".join(f", any_value({name}) AS {name}" for name in given.stream.group_columns)
    return given.spark.sql(
        f"SELECT gid{names}, min(ts) AS first, max(ts) AS newest, count(1) AS rows "
        f"FROM {changes} WHERE kept GROUP BY gid"
    ).toArrow()
