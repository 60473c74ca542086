"""A tick's rows into its output table: one idempotent commit that appends, or replaces by key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakestream.engine.base.faults import crash_point
from lakestream.engine.base.rows import Rows
from lakestream.language.quoting import delta_name, delta_text, quoted
from lakestream.output.columns import Provenance, micros
from lakestream.storage.delta import (
    CommitTag,
    align,
    commit,
    delete_where,
    read_arrow,
    read_commits,
    time_range,
    timestamp_literal,
)
from lakestream.storage.rows.reading import among, arrow_frame, instant_literal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakestream.engine.base.state import GroupState
    from lakestream.engine.streams.stream import EventRange, Stream
    from lakestream.engine.streams.target import Target
    from lakestream.storage.delta import Table
    from lakestream.storage.records.registry import TickPlan

MAX_LITERALS = 300
"""Keys that a predicate lists one by one; beyond that a range of time is rewritten."""


@dataclass(frozen=True)
class Written:
    """What the commit held: rows, and the output's version (None: there was nothing to write)."""

    rows: int
    version: int | None


def write_result(
    spark: SparkSession,
    table: Table,
    target: Target,
    rows: Rows,
    *,
    retracted: pa.Table | None,
    app: str,
    plan: TickPlan,
    epoch: int,
) -> Written:
    """Write rows in one commit; ``retracted`` lists (gid, low µs) of windows whose old rows go.

    Arrow rows go through delta-rs, a DataFrame through Spark. No rows and nothing to replace write
    nothing.
    """
    tag = _tag(app, plan, epoch)
    if rows.here is not None:
        return _write_arrow(table, target, rows.here, retracted, tag)
    return _write_spark(spark, table, target, rows.frame, retracted, tag)


def write_range(
    table: Table,
    target: Target,
    rows: Rows,
    *,
    event_range: EventRange,
    app: str,
    plan: TickPlan,
    epoch: int,
) -> Written:
    """Write the rows of a range of event time in one commit, in the place of all rows of its windows.

    A table without provenance, which the user made, keeps the rows of windows that are no more.
    """
    tag = _tag(app, plan, epoch)
    if target.appends:
        return _replace_range(table, target, rows, event_range, tag)
    kept = rows.to_arrow()
    retracted = _windows_there(table, target, event_range)
    if kept.num_rows == 0 and retracted is None:
        return Written(0, None)
    return _write_arrow(table, target, kept, retracted, tag)


def _replace_range(
    table: Table, target: Target, rows: Rows, event_range: EventRange, tag: CommitTag
) -> Written:
    by_arrow = rows.here is not None
    kept = rows if by_arrow else Rows.of(rows.frame.persist())
    literal = instant_literal if by_arrow else timestamp_literal  # Spark takes its own only
    predicate = _range_predicate(target.shape.places, event_range, literal)
    try:
        count = kept.count()
        crash_point("C6a")
        result = commit(table, kept.here if by_arrow else kept.frame, tag, replace=predicate)
        crash_point("C6b")
    finally:
        if not by_arrow:
            kept.frame.unpersist()
    return Written(count, result.version)


def read_windows(
    table: Table,
    places: Provenance,
    lower: int | None,
    upper: int | None = None,
    *,
    columns: Sequence[str] = (),
) -> pa.Table:
    """Return provenance, and more columns, of rows whose windows start in ``[lower, upper)`` (µs).

    Rows of windows that start up to a millisecond before may be among them.
    """
    where = " AND ".join(time_range(places.start, lower, upper))
    return read_arrow(table, columns=[*places.types, *columns], where=where or None)


def rows_of_windows(table: Table, target: Target, windows: pa.Table) -> pa.Table:
    """Return the output's rows of windows (gid, low µs); where they are many, of the span that they cover."""
    listed = [*zip(windows["gid"].to_pylist(), windows["low"].to_pylist(), strict=True)]
    table.refresh()
    return read_arrow(table, None, where=_windows_predicate(target.shape.places, listed))


def rows_in_range(table: Table, target: Target, event_range: EventRange) -> pa.Table:
    """Return the output's rows of the windows of a range of event time."""
    table.refresh()
    return read_arrow(table, None, where=_range_predicate(target.shape.places, event_range))


def windows_in_range(table: Table, target: Target, event_range: EventRange) -> set[tuple[int, int, int]]:
    """Return group, first and last instant (µs) of the output's windows of a range of event time."""
    table.refresh()
    places = target.shape.places
    rows = read_arrow(table, None, columns=[*places.types], where=_range_predicate(places, event_range))
    return {*places.extents(rows)}


def write_errors(table: Table, rows: pa.Table, app: str, plan: TickPlan, epoch: int) -> None:
    """Append rows to a stream's error table, once for each tick."""
    commit(table, rows, _tag(app, plan, epoch))


def delete_output(
    table: Table, target: Target, stream: Stream, state: GroupState, subtables: Collection[str]
) -> None:
    """Delete the output rows of the groups that subtables of the source stand for (DELETE_OUTPUT_TABLE)."""
    keys = stream.definition.partition_by
    column = next(f"_ls_g{number}" for number, key in enumerate(keys, 1) if key.is_tbname)
    rows = state.rows.select(["gid", column]).to_pylist() if state.rows is not None else []
    gids = sorted(row["gid"] for row in rows if row[column] in subtables)
    if gids:
        delete_where(table, f"{target.shape.places.group} IN ({', '.join(map(str, gids))})")


def _tag(app: str, plan: TickPlan, epoch: int) -> CommitTag:
    metadata: dict[str, object] = {"epoch": epoch, "tick": plan.tick, "after": plan.after, "upto": plan.upto}
    return CommitTag(app, plan.tick, metadata)


def _range_predicate(
    places: Provenance, event_range: EventRange, literal: Callable[[int], str] = instant_literal
) -> str:
    """Return the predicate of the rows of a range's windows; ``literal`` writes an instant."""
    group, start, end = places.group, places.start, places.end
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
    return " AND ".join(parts)


def _windows_there(table: Table, target: Target, event_range: EventRange) -> pa.Table | None:
    """Return the windows of a range that the output has rows of; None where rows do not say."""
    import pyarrow as pa

    provenance = target.shape.provenance
    if not provenance:
        return None
    table.refresh()
    old = read_arrow(
        table, None, columns=[*provenance.types], where=_range_predicate(provenance, event_range)
    )
    gids, lows = zip(*provenance.windows(old), strict=True) if old.num_rows else ((), ())
    return pa.table({"gid": pa.array(gids, pa.int64()), "low": pa.array(lows, pa.int64())})


def _write_arrow(
    table: Table, target: Target, rows: pa.Table, retracted: pa.Table | None, tag: CommitTag
) -> Written:
    if rows.num_rows == 0 and retracted is None:
        return Written(0, None)
    replaced = _replacement(table, target, rows, retracted)
    count = rows.num_rows
    if replaced is not None:
        rows = _with_survivors(table, target, rows, retracted, replaced)
    crash_point("C6a")
    result = commit(table, rows, tag, replace=replaced)
    crash_point("C6b")
    return Written(count, result.version)


def _replacement(table: Table, target: Target, rows: pa.Table, retracted: pa.Table | None) -> str | None:
    """Return the predicate of what goes: rows of retracted windows, and of equal keys; None to append."""
    parts = []
    provenance = target.shape.provenance
    if retracted is not None and provenance:
        windows = [*zip(retracted["gid"].to_pylist(), retracted["low"].to_pylist(), strict=True)]
        parts.append(_windows_predicate(provenance, windows))
    if not target.appends or (retracted is not None and not provenance):
        if not parts and not _meets_keys(table, target, rows):
            return None
        parts.append(_keys_predicate(target, rows))
    elif provenance and parts:
        parts.append(_windows_predicate(provenance, provenance.windows(rows)))
    return " OR ".join(f"({one})" for one in parts if one) or None


def _windows_predicate(places: Provenance, windows: Sequence[tuple[int, int]]) -> str:
    if not windows:
        return ""
    group, start = places.group, places.start
    if len(windows) > MAX_LITERALS:
        starts = [low for _, low in windows]
        return f"{start} >= {instant_literal(min(starts))} AND {start} <= {instant_literal(max(starts))}"
    by_group: dict[int, set[int]] = {}
    for gid, low in windows:
        by_group.setdefault(gid, set()).add(low)
    return " OR ".join(f"({group} = {gid} AND {among(start, lows)})" for gid, lows in by_group.items())


def _keys_predicate(target: Target, rows: pa.Table) -> str:
    """Return the predicate of the rows' keys, or of their span of time when there are many."""
    if rows.num_rows == 0:
        return ""
    time = target.info.time_column
    times = micros(rows[time])
    name = delta_name(time)
    if rows.num_rows > MAX_LITERALS:
        return f"{name} >= {instant_literal(min(times))} AND {name} <= {instant_literal(max(times))}"
    others = [column for column in target.shape.key if column != time]
    by_rest: dict[tuple[Any, ...], set[int]] = {}
    for at, instant in enumerate(times):
        by_rest.setdefault(tuple(rows[column][at].as_py() for column in others), set()).add(instant)
    return " OR ".join(
        "("
        + " AND ".join(
            [
                among(name, lows),
                *(_equals(column, value) for column, value in zip(others, rest, strict=True)),
            ]
        )
        + ")"
        for rest, lows in by_rest.items()
    )


def _equals(column: str, value: object) -> str:
    name = delta_name(column)
    if value is None:
        return f"{name} IS NULL"
    if isinstance(value, bool | int | float):
        return f"{name} = {str(value).lower() if isinstance(value, bool) else value!r}"
    return f"{name} = {delta_text(str(value))}"


def _meets_keys(table: Table, target: Target, rows: pa.Table) -> bool:
    """Return whether a row of the output has the key of one of the rows."""
    if rows.num_rows == 0:
        return False
    times = micros(rows[target.info.time_column])
    table.refresh()
    old = read_arrow(
        table,
        None,
        columns=target.shape.key,
        lower=min(times),
        upper=max(times) + 1,
        time_column=target.info.time_column,
    )
    return not set(_keys(old, target)).isdisjoint(_keys(rows, target))


def _keys(rows: pa.Table, target: Target) -> list[tuple[Any, ...]]:
    """Return the key of each row, times in microseconds."""
    columns = [
        micros(rows[name]) if name == target.info.time_column else rows[name].to_pylist()
        for name in target.shape.key
    ]
    return [*zip(*columns, strict=True)]


def _with_survivors(
    table: Table, target: Target, rows: pa.Table, retracted: pa.Table | None, predicate: str
) -> pa.Table:
    """Add the rows that the predicate covers though neither their window nor their key is written anew.

    Of rows with one key that of the later window stays, then that of the greater group, whichever came first.
    """
    import pyarrow as pa

    table.refresh()
    old = read_arrow(table, None, where=predicate)
    if old.num_rows == 0:
        return rows
    keys = _keys(rows, target)
    written = dict(zip(keys, _extents(rows, target), strict=True))
    goes = (
        set()
        if retracted is None
        else set(zip(retracted["gid"].to_pylist(), retracted["low"].to_pylist(), strict=True))
    )
    held = [*zip(_keys(old, target), _extents(old, target), strict=True)]
    # Rows of a table that does not say where they come from give way to any of their key.
    stay = [
        not (extent and extent.window in goes) and (key not in written or _outlasts(extent, written[key]))
        for key, extent in held
    ]
    survivors = old.filter(pa.array(stay))
    if survivors.num_rows == 0:
        return rows
    lost = {key for (key, _), stays in zip(held, stay, strict=True) if stays}
    rows = rows.filter(pa.array([key not in lost for key in keys], pa.bool_()))
    # A table of the user's may have columns that the stream does not write.
    whole = align(rows, table.schema)
    return pa.concat_tables([whole, align(survivors, table.schema)])


@dataclass(frozen=True, order=True)
class _Extent:
    """Where a row comes from, in the order in which rows of one key take each other's place."""

    high: int
    gid: int
    low: int

    @property
    def window(self) -> tuple[int, int]:
        """The group and the start, which name the window."""
        return self.gid, self.low


def _outlasts(old: _Extent | None, new: _Extent | None) -> bool:
    """Return whether a row stays where another window writes its key: that of the later window does."""
    return old is not None and new is not None and old.window != new.window and old > new


def _extents(rows: pa.Table, target: Target) -> list[_Extent | None]:
    """Return the window of each row, None where the table's rows do not say."""
    provenance = target.shape.provenance
    if not provenance:
        return [None] * rows.num_rows
    return [_Extent(high, gid, low) for gid, low, high in provenance.extents(rows)]


# --- large results: the same by Spark, always by a range of time ---


def _write_spark(
    spark: SparkSession,
    table: Table,
    target: Target,
    rows: DataFrame,
    retracted: pa.Table | None,
    tag: CommitTag,
) -> Written:
    replaced, kept, count = None, None, None
    if retracted is not None or not target.appends:
        kept = rows.persist()
        count = kept.count()
        rows, replaced = _rewritten_by_spark(spark, table, target, kept, retracted)
    try:
        crash_point("C6a")
        result = commit(table, rows, tag, replace=replaced)
        crash_point("C6b")
    finally:
        if kept is not None:
            kept.unpersist()
    if count is None:
        count = read_commits(table.path, result.version - 1, result.version)[0].add_rows or 0
    return Written(count, result.version)


def _rewritten_by_spark(
    spark: SparkSession, table: Table, target: Target, rows: DataFrame, retracted: pa.Table | None
) -> tuple[DataFrame, str | None]:
    """Return rows with the survivors of the ranges that they replace, and the ranges' predicate."""
    ranges = _replaced_ranges(target, rows, retracted)
    if not ranges:
        return rows, None
    predicate = " OR ".join(
        f"({time} >= {timestamp_literal(low)} AND {time} <= {timestamp_literal(high)})"
        for time, low, high in ranges
    )
    old = spark.read.format("delta").option("versionAsOf", table.refresh()).load(table.path).where(predicate)
    provenance = target.shape.provenance
    if retracted is not None and provenance:
        old = old.alias("o").join(
            arrow_frame(spark, retracted).alias("g"), _goes_sql(provenance), "left_anti"
        )
    key = [*target.shape.key]
    if provenance and not target.appends:
        written = rows.alias("n").join(old.alias("o"), _outlasts_sql(provenance, key), "left_anti")
        return written.unionByName(_unwritten(old, written, key), allowMissingColumns=True), predicate
    return rows.unionByName(_unwritten(old, rows, key), allowMissingColumns=True), predicate


def _unwritten(old: DataFrame, rows: DataFrame, key: list[str]) -> DataFrame:
    from pyspark.sql.functions import expr

    return old.alias("o").join(rows.select(*key).alias("n"), expr(_same_sql(key)), "left_anti")


def _same_sql(key: list[str]) -> str:
    """Return what holds for rows n and o of one key; a group may be NULL."""
    return " AND ".join(f"n.{quoted(name)} <=> o.{quoted(name)}" for name in key)


def _goes_sql(places: Provenance) -> Column:
    """Return what holds for a row o of a window g that goes."""
    from pyspark.sql.functions import expr

    return expr(f"o.{places.group} = g.gid AND o.{places.start} = timestamp_micros(g.low)")


def _outlasts_sql(places: Provenance, key: list[str]) -> Column:
    """Return what :func:`_outlasts` says of a row n to be written and one o that is there."""
    from pyspark.sql.functions import expr

    group, start, end = places.group, places.start, places.end
    order = f"struct(o.{end}, o.{group}, o.{start}) > struct(n.{end}, n.{group}, n.{start})"
    other = f"NOT (o.{group} = n.{group} AND o.{start} = n.{start})"
    return expr(" AND ".join([_same_sql(key), other, order]))


def _replaced_ranges(
    target: Target, rows: DataFrame, retracted: pa.Table | None
) -> list[tuple[str, int, int]]:
    """Return (SQL of a time, first µs, last µs) of where replaced rows lie: windows that go, keys anew."""
    provenance = target.shape.provenance
    time = provenance.start if target.appends and provenance else quoted(target.info.time_column)
    low, high = rows.selectExpr(*(f"unix_micros({end}({time}))" for end in ("min", "max"))).head() or (
        None,
        None,
    )
    ranges = [] if low is None or high is None else [(time, low, high)]
    if retracted is not None and retracted.num_rows and provenance:
        starts = retracted["low"].to_pylist()
        ranges.append((provenance.start, min(starts), max(starts)))
    return ranges
