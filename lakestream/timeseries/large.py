"""Results of continuous queries that are too large for this process: Spark writes them itself.

The same points, series and commits as :mod:`lakestream.timeseries.points` makes of small ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from lakestream.engine.base.faults import crash_point
from lakestream.language.iotdb.paths import ROOT
from lakestream.language.quoting import quoted
from lakestream.storage.delta import Change, commit_made, lies_behind, read_spark, timestamp_literal
from lakestream.storage.names.tree import DEVICE, TIME
from lakestream.storage.rows.reading import arrow_frame
from lakestream.timeseries.points import by_columns, missing_series, type_of_spark
from lakestream.timeseries.series import of_devices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from lakestream.language.iotdb.paths import Path
    from lakestream.storage.delta import CommitTag, Table
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.names.tree import Tree
    from lakestream.timeseries.points import Writer
    from lakestream.timeseries.series import Placement

_TARGET, _OLD = "_ls_target", "_ls_old_"


@dataclass(frozen=True)
class _Part:
    """Rows for some devices, with their target device (DEVICE), time (TIME) and a column per measurement.

    ``columns`` say which column holds which measurement; ``types`` are IoTDB's by measurement.
    """

    devices: dict[str, Path]
    columns: dict[str, str]
    types: dict[str, str]
    rows: DataFrame


def write_large(writer: Writer, rows: DataFrame, placements: Sequence[Placement], tag: CommitTag) -> int:
    """Write a result, a commit per table that is made at most once, and return how many rows that were.

    ``rows`` are read several times. Series that are not there are created, where they have a point. Raises
    StatementError SERIES_TYPE, DATABASE_MAPPED or TYPE_NOT_STORABLE; nothing is written then.
    """
    parts = [_part(rows, placement) for placement in placements]
    with_points = [_with_points(part) for part in parts]
    tree = writer.tree
    with writer.guards.alone("INSERT"):
        with writer.guards.recording():
            pairs = zip(parts, with_points, strict=True)
            missing = dict(one for part, some in pairs for one in missing_series(tree, some, part.types))
            if missing:
                tree.add(list(missing.items()))
        tables: dict[str, list[DataFrame]] = {}
        for part in parts:
            for name, points in _placed(tree, part):
                tables.setdefault(name, []).append(points)
        return sum(_write_table(tree, name, points, tag) for name, points in tables.items())


def _part(rows: DataFrame, placement: Placement) -> _Part:
    import pyarrow as pa
    from pyspark.sql import functions as F  # noqa: N812

    columns = {name: column for column, name in placement.columns.items()}
    kinds = dict(rows.dtypes)
    types = {name: type_of_spark(kinds[column]) for name, column in columns.items()}
    if "" in placement.devices:
        target = F.lit(str(placement.devices[""]))
        placed = rows.select(target.alias(DEVICE), TIME, *placement.columns)
    else:
        names = {DEVICE: [*placement.devices], _TARGET: [*map(str, placement.devices.values())]}
        targets = arrow_frame(rows.sparkSession, pa.table(names))
        named = rows.join(targets, DEVICE)
        placed = named.select(F.col(_TARGET).alias(DEVICE), TIME, *placement.columns)
    # In the order of a small result's rows: new series are numbered by it.
    devices = {str(device): device for _, device in sorted(placement.devices.items())}
    return _Part(devices, columns, types, placed)


def _with_points(part: _Part) -> list[tuple[Path, str]]:
    """Return the devices and measurements that have a point, in order."""
    from pyspark.sql import functions as F  # noqa: N812

    counts = [F.count(column).alias(column) for column in part.columns.values()]
    found = {row[DEVICE]: row for row in part.rows.groupBy(DEVICE).agg(*counts).collect()}
    return [
        (device, name)
        for text, device in part.devices.items()
        if text in found
        for name, column in part.columns.items()
        if found[text][column]
    ]


def _placed(tree: Tree, part: _Part) -> list[tuple[str, DataFrame]]:
    """Return the rows of each table, in its columns."""
    from pyspark.sql import functions as F  # noqa: N812

    found = []
    for (table, columns), devices in by_columns(tree, part.devices, part.types).items():
        info = tree.catalog.table(ROOT, table)
        rows = part.rows if len(devices) == len(part.devices) else of_devices(part.rows, devices)
        values = [
            F.expr(_cast(part.columns[name], part.types[name], info.column(column).type)).alias(column)
            for name, column in columns
        ]
        found.append((table, rows.select(DEVICE, TIME, *values)))
    return found


def _cast(column: str, kind: str, wanted: str) -> str:
    """Return a value as a column's type; a time is a whole number of milliseconds."""
    if wanted == "timestamp" and kind in ("INT32", "INT64"):
        return f"timestamp_millis({column})"
    if kind == "TIMESTAMP" and wanted != "timestamp":
        return f"CAST(unix_millis({column}) AS {wanted})"
    return f"CAST({column} AS {wanted})"


def _write_table(tree: Tree, name: str, parts: Sequence[DataFrame], tag: CommitTag) -> int:
    info = tree.catalog.table(ROOT, name)
    table = tree.catalog.handles.latest(info.path)
    rows = _with_a_point(_merged(parts))
    ends = (f"unix_micros(min({TIME}))", f"unix_micros(max({TIME}))")
    [(first, last, count)] = rows.selectExpr(*ends, "count(*)").collect()
    if not count:
        return 0
    commit_made(table, lambda: _laid(table, info, rows, first, last), tag)
    crash_point("C6b")
    return int(count)


def _laid(table: Table, info: TableInfo, rows: DataFrame, first: int, last: int) -> Change:
    """Return rows together with what the table has in their range of time, as it is seen now."""
    replaced = None
    if not lies_behind(table, info, first):
        spark, version = rows.sparkSession, table.version
        old = read_spark(spark, table, version, lower=first, upper=last + 1, time_column=TIME)
        rows = _laid_over(rows, old)
        replaced = f"{TIME} >= {timestamp_literal(first)} AND {TIME} <= {timestamp_literal(last)}"
    crash_point("C6a")
    return Change(rows, replaced)


def _merged(parts: Sequence[DataFrame]) -> DataFrame:
    """Put rows of one device and time together; each of their columns has a point in one of them at most."""
    from pyspark.sql import functions as F  # noqa: N812

    if len(parts) == 1:
        return parts[0]
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    return rows.groupBy(DEVICE, TIME).agg(*(F.max(quoted(name)).alias(name) for name in _points(rows)))


def _points(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if name not in (DEVICE, TIME)]


def _with_a_point(rows: DataFrame) -> DataFrame:
    return rows.where(" OR ".join(f"{quoted(name)} IS NOT NULL" for name in _points(rows)))


def _laid_over(rows: DataFrame, old: DataFrame) -> DataFrame:
    """Return rows over old rows, one for each device and time: old points stay where there is no new one."""
    from pyspark.sql import functions as F  # noqa: N812

    new, names = set(_points(rows)), _points(old)
    before = old.select(DEVICE, TIME, *(F.col(quoted(name)).alias(f"{_OLD}{name}") for name in names))

    def point(name: str) -> Column:
        kept = F.col(quoted(f"{_OLD}{name}"))
        return (F.coalesce(F.col(quoted(name)), kept) if name in new else kept).alias(name)

    joined = rows.join(before, [DEVICE, TIME], "full_outer")
    return joined.select(DEVICE, TIME, *map(point, names))
