"""Writing points into the tree: by INSERT, by INTO, by Python (IoTDB A1, A2).

A second point at the time of another one replaces it; a measurement without a value leaves what is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.engine.base.faults import crash_point
from lakestream.errors import StatementError
from lakestream.language.iotdb.paths import ROOT, Path, name_of
from lakestream.language.iotdb.types import SERIES_TYPES, SPARK_TYPES
from lakestream.language.quoting import delta_name, delta_text
from lakestream.storage.columns.types import arrow_type
from lakestream.storage.delta import (
    Change,
    Written,
    align,
    commit_made,
    insert_rows,
    lies_behind,
    read_arrow,
    timestamp_literal,
)
from lakestream.storage.names.table_info import Column
from lakestream.storage.names.tree import DEVICE, TIME, Tree
from lakestream.storage.writes.values import convert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from lakestream.engine.reading.apart import Apart
    from lakestream.language.model import Value
    from lakestream.storage.delta import CommitTag, Table
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.timeseries.firing import Triggers

_WIDER = {
    "INT32": {"INT64", "FLOAT", "DOUBLE", "TIMESTAMP"},
    "INT64": {"DOUBLE", "TIMESTAMP"},
    "FLOAT": {"DOUBLE"},
    "TEXT": {"STRING", "BLOB"},
    "STRING": {"TEXT", "BLOB"},
    "TIMESTAMP": {"INT64", "DOUBLE"},
}
"""Which types of series take the points of a type (IoTDB, "Data Type Compatibility")."""


AT, OF = " time", " device"
"""The columns of a block that are no measurement's: with a blank, which no name of a node begins with."""


@dataclass(frozen=True)
class Block:
    """Points of some devices: ``rows`` has their device (OF), time (AT) and a column per measurement.

    ``devices`` are the paths of the devices by how they are written; ``types`` are IoTDB's by measurement.
    ``row_by_row``: triggers see the rows one after the other, as those of INSERT … VALUES, not a device's at
    once.
    """

    devices: dict[str, Path]
    types: dict[str, str]
    rows: pa.Table
    row_by_row: bool = False


@dataclass(frozen=True)
class Guards:
    """What writing points holds: ``alone`` keeps other writers of points away, and tells them what is done.

    ``recording`` keeps those away who make tables, for a moment; what takes long is asked ``apart``.
    """

    alone: Callable[[str], AbstractContextManager[None]]
    recording: Callable[[], AbstractContextManager[None]]
    apart: Apart


class Writer:
    """Writes blocks of points; ``triggers`` see them first and may refuse them by raising."""

    def __init__(self, tree: Tree, triggers: Triggers, guards: Guards) -> None:
        self.tree = tree
        self.triggers = triggers
        self.guards = guards

    def write(self, blocks: Sequence[Block], tag: CommitTag | None = None) -> int:
        """Write points, a commit per table, and return how many rows that were.

        Series that are not there are created, where they have a point. With a ``tag`` each table's commit
        is made at most once. Raises StatementError SERIES_TYPE where a series is of another type,
        DATABASE_MAPPED where it cannot be written here, and what triggers raise; nothing is written then.
        """
        with self.guards.alone("INSERT"), self.guards.recording():
            return self._write(blocks, tag)

    def _write(self, blocks: Sequence[Block], tag: CommitTag | None) -> int:
        blocks = [block for block in blocks if block.rows.num_rows]
        missing = dict(one for b in blocks for one in missing_series(self.tree, _with_points(b), b.types))
        if blocks:
            self.triggers.before(blocks)
        if missing:
            self.tree.add(list(missing.items()))
        parts: dict[str, list[pa.Table]] = {}
        for block in blocks:
            for table, rows in self._placed(block):
                parts.setdefault(table, []).append(rows)
        row_by_row = any(block.row_by_row for block in blocks)
        return sum(self._write_table(table, rows, tag, row_by_row) for table, rows in parts.items())

    def has_written(self, tag: CommitTag) -> bool:
        """Return whether a table holds its commit of a tag."""
        catalog = self.tree.catalog
        tables = (catalog.handles.latest(info.path) for info in self.tree.tables())
        return any(table.transaction_version(tag.app) == tag.tick for table in tables)

    def _placed(self, block: Block) -> list[tuple[str, pa.Table]]:
        """Return the rows of each table, in its columns."""
        import pyarrow as pa
        import pyarrow.compute as pc

        placed = []
        for (table, columns), devices in by_columns(self.tree, block.devices, block.types).items():
            chosen = pc.is_in(block.rows[OF], pa.array(devices))
            rows = block.rows.filter(chosen).select([OF, AT, *(m for m, _ in columns)])
            placed.append((table, rows.rename_columns([DEVICE, TIME, *(c for _, c in columns)])))
        return placed

    def _write_table(
        self, name: str, parts: Sequence[pa.Table], tag: CommitTag | None, row_by_row: bool
    ) -> int:
        import pyarrow as pa

        info = self.tree.catalog.table(ROOT, name)
        table = self.tree.catalog.handles.latest(info.path)
        given = pa.concat_tables([align(_cast(part, table.schema), table.schema) for part in parts])
        given = given.filter(_some(given))
        if not given.num_rows:
            return 0
        rows = _merged(given)
        written = None
        if not self.triggers.is_idle():
            written = Written(given if row_by_row else rows, row_by_row)
        if tag is None:
            insert_rows(info, rows, tables=self.tree.catalog.handles, keep_old=True, written=written)
        else:
            _commit(table, info, rows, tag, written)
        return int(rows.num_rows)


def missing_series(
    tree: Tree, points: Iterable[tuple[Path, str]], types: Mapping[str, str]
) -> list[tuple[Path, str]]:
    """Return the series to create, with their types, where these devices and measurements have points.

    Raises StatementError SERIES_TYPE or DATABASE_MAPPED for one that cannot take its points.
    """
    found: list[tuple[Path, str]] = []
    for device, measurement in points:
        path = Path((*device.nodes, measurement))
        series, kind = tree.find(path), types[measurement]
        if series is None:
            tree.check_writable(path)
            found.append((path, kind))
        elif not _fits(kind, series.type):
            raise StatementError("SERIES_TYPE", f"{path} is {series.type}: it cannot hold {kind}")
    return found


def by_columns(
    tree: Tree, devices: Mapping[str, Path], measurements: Iterable[str]
) -> dict[tuple[str, tuple[tuple[str, str], ...]], list[str]]:
    """Return the devices whose measurements have the same columns, by table and (measurement, column)."""
    names = list(measurements)
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for device, path in devices.items():
        series = [(m, tree.find(Path((*path.nodes, m)))) for m in names]
        known = [(m, one) for m, one in series if one is not None]
        if known:
            columns = tuple((m, one.column) for m, one in known)
            groups.setdefault((known[0][1].table, columns), []).append(device)
    return groups


def _with_points(block: Block) -> list[tuple[Path, str]]:
    """Return the devices and measurements that have a point in a block."""
    counts = block.rows.group_by(OF).aggregate([(name, "count") for name in block.types])
    return [
        (block.devices[row[OF]], name)
        for row in counts.to_pylist()
        for name in block.types
        if row[f"{name}_count"]
    ]


def _fits(kind: str, wanted: str) -> bool:
    return kind == wanted or wanted in _WIDER.get(kind, ())


def _cast(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Widen numbers and texts; a time is a whole number of milliseconds."""
    for place, field in enumerate(rows.schema):
        values = _as(rows.column(place), schema.field(field.name).type)
        rows = rows.set_column(place, field.name, values)
    return rows


def _as(values: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    import pyarrow as pa

    kind = values.type
    if pa.types.is_timestamp(wanted):
        is_whole = pa.types.is_integer(kind)
        return values.cast(pa.timestamp("ms", wanted.tz)).cast(wanted) if is_whole else values
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64())
    return values.cast(wanted, safe=not pa.types.is_floating(wanted))


def _merged(rows: pa.Table) -> pa.Table:
    """Put rows of one device and time together: of several points of a series the last one."""
    import pyarrow.compute as pc

    keys = rows.group_by([DEVICE, TIME]).aggregate([])
    if keys.num_rows == rows.num_rows:
        return rows
    last = pc.ScalarAggregateOptions(skip_nulls=True, min_count=0)
    names = [name for name in rows.column_names if name not in (DEVICE, TIME)]
    grouped = rows.group_by([DEVICE, TIME], use_threads=False)
    found = grouped.aggregate([(name, "last", last) for name in names])
    return found.rename_columns([name.removesuffix("_last") for name in found.column_names]).select(
        rows.column_names
    )


def _some(rows: pa.Table) -> pa.Array:
    """Tell which rows have a point."""
    import functools

    import pyarrow as pa
    import pyarrow.compute as pc

    valid = [pc.is_valid(rows[name]) for name in rows.column_names if name not in (DEVICE, TIME)]
    return functools.reduce(pc.or_, valid) if valid else pa.array([False] * rows.num_rows)


def _span(rows: pa.Table) -> tuple[int, int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    bounds = pc.min_max(rows[TIME].cast(pa.int64()))
    return bounds["min"].as_py(), bounds["max"].as_py()


def _devices_of(rows: pa.Table) -> str:
    import pyarrow.compute as pc

    names = ", ".join(map(delta_text, pc.unique(rows[DEVICE]).to_pylist()))
    return f"{delta_name(DEVICE)} IN ({names})"


def _old(table: Table, info: TableInfo, rows: pa.Table) -> pa.Table:
    """Return what the table has of the rows' devices in their range of time."""
    first, last = _span(rows)
    return align(
        read_arrow(table, spans=[(first, last + 1)], time_column=info.time_column, where=_devices_of(rows)),
        table.schema,
    )


def _laid_over(rows: pa.Table, old: pa.Table) -> pa.Table:
    """Return rows over old rows, one for each device and time: old points stay where there is no new one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [name for name in rows.column_names if name not in (DEVICE, TIME)]
    joined = rows.join(old, keys=[DEVICE, TIME], join_type="full outer", right_suffix="\0old")
    points = [pc.coalesce(joined[name], joined[f"{name}\0old"]) for name in names]
    columns = [joined[DEVICE], joined[TIME], *points]
    return pa.table(dict(zip([DEVICE, TIME, *names], columns, strict=True))).select(rows.column_names)


def _commit(table: Table, info: TableInfo, rows: pa.Table, tag: CommitTag, written: Written | None) -> None:
    """Write rows at most once: what lies in their range of time is written anew with them."""
    commit_made(table, lambda: _laid(table, info, rows, written), tag)
    crash_point("C6b")


def _laid(table: Table, info: TableInfo, rows: pa.Table, written: Written | None) -> Change:
    """Return rows together with what the table has in their range of time, as it is seen now."""
    first, last = _span(rows)
    old = None if lies_behind(table, info, first) else _old(table, info, rows)
    replaced = None
    if old is not None and old.num_rows:
        time = delta_name(info.time_column)
        within = f"{time} >= {timestamp_literal(first)} AND {time} <= {timestamp_literal(last)}"
        rows, replaced = _laid_over(rows, old), f"{_devices_of(rows)} AND {within}"
    named = {} if written is None else written.metadata(rewrites=replaced is not None)
    crash_point("C6a")
    return Change(rows, replaced, named)


# --- values ---------------------------------------------------------------------------------------


def block_of_values(
    tree: Tree,
    device: Path,
    measurements: Sequence[str],
    times_us: Sequence[int],
    rows: Sequence[Sequence[Value]],
    *,
    now_us: int,
    zone: str,
) -> Block:
    """Return points as written as a block; series that are not there get a type by their values.

    Raises StatementError BAD_VALUE.
    """
    import pyarrow as pa

    types: dict[str, str] = {}
    data: dict[str, pa.Array] = {}
    for place, name in enumerate(measurements):
        values = [row[place] for row in rows]
        series = tree.find(Path((*device.nodes, name)))
        kind = series.type if series is not None else _type_of(values)
        column = Column(name_of(name), SPARK_TYPES[kind])
        converted = [convert(value, column, now_us=now_us, zone=zone) for value in values]
        data[name] = pa.array(converted, arrow_type(column.type))
        types[name] = kind
    times = pa.array(times_us, arrow_type("timestamp"))
    return block_of(device, pa.table({AT: times, **data}), types)


def block_of(device: Path, rows: pa.Table, types: Mapping[str, str]) -> Block:
    """Return the points of one device, with their time (AT) and measurements, as a block."""
    import pyarrow as pa

    names = pa.array([str(device)] * rows.num_rows, pa.string())
    return Block({str(device): device}, dict(types), rows.add_column(0, OF, names))


def _type_of(values: Sequence[Value]) -> str:
    """Return the type that a new series gets by its first value: BOOLEAN, DOUBLE or TEXT."""
    first = next((value for value in values if value is not None), None)
    if isinstance(first, bool):
        return "BOOLEAN"
    return "TEXT" if isinstance(first, str) else "DOUBLE"


_BY_ARROW = {
    "bool": "BOOLEAN",
    "int32": "INT32",
    "int64": "INT64",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "TEXT",
    "binary": "BLOB",
    "date32[day]": "DATE",
}


def type_of_arrow(kind: pa.DataType) -> str:
    """Return the IoTDB type of an Arrow type. Raises StatementError TYPE_NOT_STORABLE."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return "TIMESTAMP"
    return _storable(_BY_ARROW, str(kind))


def type_of_spark(kind: str) -> str:
    """Return the IoTDB type of a Spark SQL type. Raises StatementError TYPE_NOT_STORABLE."""
    return _storable(SERIES_TYPES, kind)


def _storable(types: Mapping[str, str], kind: str) -> str:
    if kind not in types:
        raise StatementError("TYPE_NOT_STORABLE", f"a series cannot hold values of {kind}")
    return types[kind]
