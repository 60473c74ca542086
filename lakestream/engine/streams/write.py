"""A tick's rows into its output table: one idempotent commit that appends, or replaces by key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.engine.base.faults import crash_point
from lakestream.engine.base.rows import Rows
from lakestream.engine.streams.replacing import MAX_LITERALS, Replacing, of_own, windows_predicate
from lakestream.language.quoting import DELTA, SPARK, quoted
from lakestream.output.columns import micros
from lakestream.storage.delta import (
    CommitTag,
    capabilities,
    commit,
    delete_where,
    read_arrow,
    read_commits,
    time_range,
    timestamp_literal,
)
from lakestream.storage.rows.reading import instant_literal, query_arrow
from lakestream.storage.tables.log import OWN_APPS
from lakestream.storage.writes.upkeep import FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.engine.base.state import GroupState
    from lakestream.engine.streams.stream import EventRange, Stream
    from lakestream.engine.streams.target import Target
    from lakestream.output.columns import OutputShape
    from lakestream.storage.delta import Table, Tables
    from lakestream.storage.records.registry import TickPlan


@dataclass(frozen=True)
class Written:
    """What the commit held: rows, and the output's version (None: there was nothing to write)."""

    rows: int
    version: int | None


def write_result(
    table: Table,
    target: Target,
    rows: Rows,
    *,
    retracted: pa.Table | None,
    tag: CommitTag,
    beside: Rows | None = None,
) -> Written:
    """Write rows in one commit; ``retracted`` lists (gid, low µs) of windows whose old rows go.

    ``beside`` are rows of the same windows that go elsewhere. Arrow rows go through delta-rs, a DataFrame
    through Spark. No rows and nothing to replace write nothing.
    """
    return _write(Replacing(table, target, retracted, None if target.appends else beside), rows, tag)


def write_range(
    table: Table,
    target: Target,
    rows: Rows,
    *,
    event_range: EventRange,
    tag: CommitTag,
    beside: Rows | None = None,
) -> Written:
    """Write the rows of a range of event time in one commit, in the place of all rows of its windows.

    A table without provenance, which the user made, keeps the rows of windows that are no more. ``beside``
    are rows of the same windows that go elsewhere.
    """
    if target.appends:
        return _replace_range(table, target, rows, event_range, tag)
    return _write(Replacing(table, target, _windows_there(table, target, event_range), beside), rows, tag)


def _replace_range(
    table: Table, target: Target, rows: Rows, event_range: EventRange, tag: CommitTag
) -> Written:
    by_arrow = rows.here is not None
    kept = rows if by_arrow else Rows.of(rows.frame.persist())
    predicate = _range_predicate(target.shape, event_range, by_arrow=by_arrow)
    try:
        count = kept.count()
        crash_point("C6a")
        ordered = _in_order(target, kept.here if by_arrow else kept.frame)
        result = commit(table, ordered, tag, replace=predicate)
        crash_point("C6b")
    finally:
        if not by_arrow:
            kept.frame.unpersist()
    return Written(count, result.version)


def read_windows(
    table: Table,
    shape: OutputShape,
    lower: int | None,
    upper: int | None = None,
    *,
    columns: Sequence[str] = (),
) -> pa.Table:
    """Return provenance, and more columns, of rows whose windows start in ``[lower, upper)`` (µs).

    Rows of windows that start up to a millisecond before may be among them.
    """
    return read_arrow(table, columns=[*shape.places.types, *columns], where=_between(shape, lower, upper))


def rows_of_windows(table: Table, target: Target, windows: pa.Table) -> pa.Table:
    """Return the output's rows of windows (gid, low µs); where they are many, of the span that they cover."""
    table.refresh()
    where = windows_predicate(target.shape.places, windows)
    return read_arrow(table, None, where=of_own(target.shape, where) if where else None)


def rows_in_range(
    table: Table, target: Target, event_range: EventRange, columns: Sequence[str] | None = None
) -> pa.Table:
    """Return the output's rows of the windows of a range of event time; of all ``columns`` unless named."""
    table.refresh()
    return read_arrow(table, columns=columns, where=_range_predicate(target.shape, event_range))


def windows_in_range(tables: Tables, target: Target, event_range: EventRange) -> set[tuple[int, int, int]]:
    """Return group, first and last instant (µs) of the windows of a range of event time that have rows."""
    return _windows_where(tables, target, _range_predicate(target.shape, event_range))


def windows_from(
    tables: Tables,
    target: Target,
    lower: int | None,
    share: tuple[int, int] = (0, 1),
    *,
    over: int | None = None,
    only: Collection[int] = (),
) -> set[tuple[int, int, int]]:
    """Return group, first and last instant of the windows that have rows and start at or after one (µs).

    Windows that start up to a millisecond before may be among them, and those that end after ``over`` are.
    ``share`` is a part of the groups, of how many: as :func:`keyed.in_part` takes them; of those, ``only``
    are some.
    """
    places = target.shape.places
    bounds = [(places.start, lower), (places.end, over)]
    near = [time_range(name, at, None) for name, at in bounds if at is not None]
    # Where a bound is beyond what delta-rs compares with, it holds for all.
    reached = " OR ".join(" AND ".join(part) for part in near) if all(near) else ""
    where = " AND ".join([f"({reached})"] * bool(reached) + _of_groups(target, share, only))
    return _windows_where(tables, target, of_own(target.shape, where) if where else target.shape.own(), only)


def groups_there(tables: Tables, target: Target) -> set[int]:
    """Return the groups that the output, or its quarantine, has rows of."""
    places, found = target.shape.places, set[int]()
    query = f"SELECT DISTINCT {places.group} AS gid FROM t WHERE {target.shape.own() or 'true'}"
    for info in target.tables:
        table = tables.open(info.path)
        table.refresh()
        found.update(query_arrow(table, None, query)["gid"].drop_null().to_pylist())
    return found


def last_starts(
    tables: Tables, target: Target, upto: int, share: tuple[int, int], only: Collection[int]
) -> list[int]:
    """Return where the last window starts (µs) that ends by an instant, of each group that has one."""
    places = target.shape.places
    ended = of_own(target.shape, f"{places.end} <= {instant_literal(upto)}")
    where = " AND ".join([ended, *_of_groups(target, share, only)])
    query = (
        f"SELECT {places.group} AS gid, max({places.start}) AS low FROM t "
        f"WHERE {where} GROUP BY {places.group}"
    )
    found: list[int] = []
    for info in target.tables:
        table = tables.open(info.path)
        table.refresh()
        rows = _of_only(query_arrow(table, None, query), only)
        found += [low for low in micros(rows["low"]) if low is not None]
    return found


def _of_groups(target: Target, share: tuple[int, int], only: Collection[int]) -> list[str]:
    """Return conditions for a part of the groups, and for some of them where they are few."""
    (part, parts), group = share, target.shape.places.group
    where = [f"({group} & {parts - 1}) = {part}"] if parts > 1 else []
    if 0 < len(only) <= MAX_LITERALS:
        where.append(f"{group} IN ({', '.join(map(str, sorted(only)))})")
    return where


def _of_only(rows: pa.Table, only: Collection[int]) -> pa.Table:
    """Return the rows of some groups (gid), or all unless some are named."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return rows.filter(pc.is_in(rows["gid"], value_set=pa.array(only, pa.int64()))) if only else rows


def _between(shape: OutputShape, lower: int | None, upper: int | None) -> str | None:
    """Return the predicate of the stream's rows of windows that start in a range, None for all rows."""
    where = " AND ".join([*filter(None, [shape.own()]), *time_range(shape.places.start, lower, upper)])
    return where or None


def _windows_where(
    tables: Tables, target: Target, where: str | None, only: Collection[int] = ()
) -> set[tuple[int, int, int]]:
    """Return the windows of which the output, or its quarantine, has rows that meet a condition."""
    found: set[tuple[int, int, int]] = set()
    places = target.shape.places
    for info in target.tables:
        table = tables.open(info.path)
        table.refresh()
        rows = _of_only(places.windows(read_arrow(table, None, columns=[*places.types], where=where)), only)
        found.update(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    return found


def write_errors(table: Table, rows: pa.Table, tag: CommitTag) -> None:
    """Append rows to a stream's error table, once for each tick."""
    commit(table, rows, tag)


def delete_output(
    table: Table, target: Target, stream: Stream, state: GroupState, subtables: Collection[str]
) -> None:
    """Delete the output rows of the groups that subtables of the source stand for (DELETE_OUTPUT_TABLE)."""
    keys = stream.definition.partition_by
    column = next(f"_ls_g{number}" for number, key in enumerate(keys, 1) if key.is_tbname)
    rows = state.rows.select(["gid", column]).to_pylist() if state.rows is not None else []
    gids = sorted(row["gid"] for row in rows if row[column] in subtables)
    if gids:
        of_groups = f"{target.shape.places.group} IN ({', '.join(map(str, gids))})"
        delete_where(table, of_own(target.shape, of_groups), app=f"{OWN_APPS}{stream.uuid}:dropped")


def take_out_others(spark: SparkSession, table: Table, target: Target, tag: CommitTag) -> None:
    """Take the rows that name no window out of an output that streams made: others wrote them."""
    provenance = target.shape.provenance
    if provenance is None:
        return
    table.refresh()
    theirs = f"{provenance.group} IS NULL"
    if not read_arrow(table, None, columns=[*provenance.types], where=theirs).num_rows:
        return
    by_arrow = capabilities(table).arrow_writes
    nothing = None if by_arrow else spark.sql(f"{target.shape.nothing} WHERE false")
    commit(table, nothing, tag, replace=theirs)


def tick_tag(app: str, plan: TickPlan, epoch: int, **said: object) -> CommitTag:
    """Return what a tick's commit says of itself, under an application id; ``said`` is more of it (JSON)."""
    metadata: dict[str, object] = {"epoch": epoch, "tick": plan.tick, "after": plan.after, "upto": plan.upto}
    if plan.followed:
        metadata["tables"] = plan.table_versions
    return CommitTag(app, plan.tick, {**metadata, **said})


def _range_predicate(shape: OutputShape, event_range: EventRange, *, by_arrow: bool = True) -> str:
    """Return the predicate of the stream's rows of a range's windows, for delta-rs or for Spark."""
    group, start, end = shape.places.group, shape.places.start, shape.places.end
    literal = instant_literal if by_arrow else timestamp_literal  # Spark takes its own only
    parts = [f"{start} IS NOT NULL"]
    if event_range.overlap_us is not None:
        parts.append(f"{end} > {literal(event_range.overlap_us)}")
    if event_range.from_us is not None:
        parts.append(f"{start} >= {literal(event_range.from_us)}")
    if event_range.to_us is not None:
        parts.append(f"{start} < {literal(event_range.to_us)}")
    if event_range.over_us is not None:
        parts.append(f"{end} <= {literal(event_range.over_us)}")
    of_groups = " OR ".join(
        f"({group} = {gid} AND {start} >= {literal(low)} AND {start} < {literal(high)})"
        for gid, low, high in event_range.groups
    )
    if of_groups:
        parts.append(f"({of_groups})")
    if event_range.only:
        parts.append(f"{group} IN ({', '.join(map(str, event_range.only))})")
    if event_range.without:
        parts.append(f"{group} NOT IN ({', '.join(map(str, event_range.without))})")
    return of_own(shape, " AND ".join(parts), DELTA if by_arrow else SPARK)


def _windows_there(table: Table, target: Target, event_range: EventRange) -> pa.Table | None:
    """Return the windows of a range that the output has rows of; None where rows do not say."""
    provenance = target.shape.provenance
    if not provenance:
        return None
    table.refresh()
    old = read_arrow(
        table, None, columns=[*provenance.types], where=_range_predicate(target.shape, event_range)
    )
    return provenance.windows(old).select(["gid", "low"])


def _write(replacing: Replacing, rows: Rows, tag: CommitTag) -> Written:
    if rows.here is not None:
        return _write_arrow(replacing, rows.here, tag)
    return _write_spark(replacing, rows.frame, tag)


def _write_arrow(replacing: Replacing, rows: pa.Table, tag: CommitTag) -> Written:
    if rows.num_rows == 0 and replacing.retracted is None and replacing.beside is None:
        return Written(0, None)
    written, replaced = replacing.by_arrow(rows)
    if replaced is None and replacing.retracted is None and not written.num_rows:
        return Written(0, None)
    crash_point("C6a")
    result = commit(replacing.table, _in_order(replacing.target, written), tag, replace=replaced)
    crash_point("C6b")
    return Written(rows.num_rows, result.version)


def _write_spark(replacing: Replacing, rows: DataFrame, tag: CommitTag) -> Written:
    table, target = replacing.table, replacing.target
    replaced, kept, count = None, None, None
    if replacing.retracted is not None or not target.appends:
        kept = rows.persist()
        count = kept.count()
        rows, replaced = replacing.by_spark(kept)
    try:
        crash_point("C6a")
        result = commit(table, _in_order(target, rows), tag, replace=replaced)
        crash_point("C6b")
    finally:
        if kept is not None:
            kept.unpersist()
    if count is None:
        count = read_commits(table.path, result.version - 1, result.version)[0].add_rows or 0
    return Written(count, result.version)


def _in_order(target: Target, rows: pa.Table | DataFrame) -> pa.Table | DataFrame:
    """Return rows that fill more than one file in the order of time, so that those of a window lie in one.

    Spark writes each of its parts apart.
    """
    import pyarrow as pa

    time = target.info.time_column
    if not time:
        return rows
    if isinstance(rows, pa.Table):
        return rows.sort_by(time) if rows.nbytes > FILE_BYTES else rows
    return rows.sortWithinPartitions(quoted(time))
