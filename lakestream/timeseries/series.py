"""Queries over the tree: Spark computes them all at once, over the points of all series they name."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import reduce
from itertools import count
from typing import TYPE_CHECKING

from lakestream.compute.tree.series import SeriesQuery
from lakestream.compute.tree.targets import by_device, by_time
from lakestream.compute.tree.time_windows import Windows
from lakestream.engine.base.instants import instant_micros
from lakestream.engine.base.refused import spark_errors, spark_message
from lakestream.engine.reading.narrowed import MAX_LITERALS
from lakestream.engine.reading.transport import ArrowTransport
from lakestream.errors import LakestreamError, StatementError
from lakestream.language.common.source import place_of
from lakestream.language.iotdb.paths import ROOT
from lakestream.language.quoting import quoted
from lakestream.storage.columns.types import types_of
from lakestream.storage.delta import capabilities, read_arrow, read_spark
from lakestream.storage.names.tree import DEVICE, TIME, Snapshot
from lakestream.storage.rows.reading import arrow_frame, plain
from lakestream.storage.rows.views import view_of
from lakestream.storage.small.session import SmallSession
from lakestream.storage.tables.datafiles import rows_between
from lakestream.timeseries.points import AT, OF, Block, block_of, missing_series, type_of_arrow
from lakestream.triggers.resample import shifted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.compute.tree.used import Scan
    from lakestream.engine.reading.small import SmallPath
    from lakestream.language.iotdb.paths import Path, Series
    from lakestream.language.iotdb.values import Select, TimeGroup
    from lakestream.settings import Settings
    from lakestream.storage.delta import Table
    from lakestream.storage.names.tree import Tree
    from lakestream.timeseries.mapped import Mapped, MappedTables

_ALWAYS = (-(2**62), 2**62)
_MAX_CALENDAR_WINDOWS = 10_000


@dataclass(frozen=True)
class _Frame:
    """A DataFrame, and about how many rows it has at most."""

    rows: DataFrame
    most: int


@dataclass
class SeriesReader:
    """Runs queries over the tree of one lake. ``zone`` is where times without an offset are.

    Few points of the tree's own tables are asked of the ``small`` path first.
    """

    tree: Tree
    mapped: MappedTables
    small: Callable[[], SmallPath]
    settings: Settings
    zone: str

    def __post_init__(self) -> None:
        self._views = count()

    def snapshot(self, sources: Sequence[Path]) -> Snapshot:
        """Return what patterns, or what follows them, see of the tree now."""
        catalog, mapped = self.tree.catalog, self.mapped.reached(sources)
        own = [catalog.table(ROOT, name) for name in self.tree.own_tables(sources)]
        paths = {info.path for info in (*own, *(one.info for one in mapped))}
        return Snapshot(self.tree.newest, {path: catalog.handles.latest(path).version for path in paths})

    def series(self, sources: Sequence[Path], snapshot: Snapshot) -> list[Series]:
        """Return the series of a snapshot that patterns of ``sources`` may stand for, in order."""
        found = [one for one in self.tree.series() if one.order <= snapshot.series]
        for mapped in self.mapped.reached(sources):
            version = snapshot.versions.get(mapped.info.path)
            if version is not None:
                after = max(snapshot.series, found[-1].order if found else 0)
                found += mapped.series(self.mapped.devices(mapped, version), after)
        return found

    def resolve(
        self, select: Select, now_us: int, snapshot: Snapshot, bounds: tuple[int, int] | None = None
    ) -> SeriesQuery:
        """Return a query resolved against the series of a snapshot; ``bounds`` (µs) are a CQ's range.

        Raises StatementError GROUP_BY_RANGE without bounds, and as SeriesQuery.
        """
        windows = None
        if select.group is not None:
            if bounds is None:
                bounds = self._range(select, select.group, now_us)
            windows = windows_of(select.group, bounds, self.zone)
        return SeriesQuery(
            select,
            self.series(select.sources, snapshot),
            windows=windows,
            instant=lambda written: instant_micros(written, now_us, self.zone),
            now_us=now_us,
            bounds=bounds or (None, None),
            number=next(self._views),
        )

    def _range(self, select: Select, group: TimeGroup, now_us: int) -> tuple[int, int]:
        if group.range is None:
            raise StatementError(
                "GROUP_BY_RANGE",
                "GROUP BY time needs a range here",
                hint=f"GROUP BY([start, end), {group.interval})",
                place=place_of(select.text),
            )
        start, end = group.range
        return instant_micros(start, now_us, self.zone), instant_micros(end, now_us, self.zone)

    def rows(self, query: SeriesQuery, snapshot: Snapshot) -> pa.Table:
        """Compute a query: ``ts`` and ``device`` as far as it has them, then ``c0``, ``c1``, ….

        Tables are read as of the snapshot that it was resolved in. May be called from several threads.
        Raises StatementError QUERY_INVALID with what Spark says.
        """
        import pyarrow as pa

        if not query.outputs:
            return pa.table({})
        if (few := self._of_few(query, snapshot)) is not None:
            return few
        with self._refusing(query), self._frame(query, snapshot) as frame:
            return plain(frame.rows.toArrow())

    def result(self, query: SeriesQuery, snapshot: Snapshot) -> pa.Table | DataFrame:
        """Compute a query as :meth:`rows` does; a large result stays in Spark.

        That one is persisted: whoever asked for it gives it back.
        """
        import pyarrow as pa

        if not query.outputs:
            return pa.table({})
        if (few := self._of_few(query, snapshot)) is not None:
            return few
        with self._refusing(query), self._frame(query, snapshot) as frame:
            if not query.has_time or frame.most <= self.settings.small_rows:
                return plain(frame.rows.toArrow())
            kept = frame.rows.persist()
            if kept.count() > self.settings.small_rows:
                return kept
            rows = plain(kept.toArrow())
            kept.unpersist()
            return rows

    @contextmanager
    def _refusing(self, query: SeriesQuery) -> Iterator[None]:
        try:
            yield
        except spark_errors() as error:
            place = place_of(query.select.text)
            raise StatementError("QUERY_INVALID", spark_message(error), place=place) from None

    @contextmanager
    def _frame(self, query: SeriesQuery, snapshot: Snapshot) -> Iterator[_Frame]:
        """Give a query as a DataFrame, with the views that it reads."""
        spark = self.small().spark()
        try:
            points = self._points(spark, query, snapshot)
            yield _Frame(_computed(spark, query, points.rows), query.most_rows(points.most))
        finally:
            _drop_views(spark, query)

    def _of_few(self, query: SeriesQuery, snapshot: Snapshot) -> pa.Table | None:
        """Compute a query over few points; None where they are many, or not all of the tree's own tables."""
        if (points := self._few_points(query, snapshot)) is None:
            return None

        def ask(session: SparkSession) -> pa.Table:
            try:
                return plain(_computed(session, query, arrow_frame(session, points)).toArrow())
            finally:
                if not isinstance(session, SmallSession):  # one that forgets them by itself
                    _drop_views(session, query)

        with self._refusing(query):
            return self.small().ask(ask)

    def _few_points(self, query: SeriesQuery, snapshot: Snapshot) -> pa.Table | None:
        """Return the points of a query; None where they are many, or not all of the tree's own tables."""
        import pyarrow as pa

        small, mapped = self.small(), self.mapped.reached(query.select.sources)
        if not small.is_on or {one.table for one in mapped} & {scan.table for scan in query.scans}:
            return None
        tables = [self.tree.catalog.handles.open(self._path(scan)) for scan in query.scans]
        sizes = [_rows_within(table, TIME, query.bounds) for table in tables]
        if sum(sizes) > self.settings.small_rows or not all(capabilities(one).arrow_reads for one in tables):
            return None
        read = [
            self._read(scan, table, snapshot, query.bounds)
            for scan, table in zip(query.scans, tables, strict=True)
        ]
        return pa.concat_tables(read, promote_options="default")

    def _path(self, scan: Scan) -> str:
        return self.tree.catalog.table(ROOT, scan.table).path

    def _read(
        self, scan: Scan, table: Table, snapshot: Snapshot, bounds: tuple[int | None, int | None]
    ) -> pa.Table:
        """Return the points that a query takes of a table, by the names that it has for them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = read_arrow(
            table,
            snapshot.versions[table.path],
            columns=[DEVICE, TIME, *(column for column, _ in scan.columns)],
            spans=[bounds],
            time_column=TIME,
        )
        taken = rows.filter(pc.is_in(rows[DEVICE], value_set=pa.array(sorted(scan.devices), pa.string())))
        return taken.rename_columns([DEVICE, TIME, *(slot for _, slot in scan.columns)])

    def _points(self, spark: SparkSession, query: SeriesQuery, snapshot: Snapshot) -> _Frame:
        mapped = {one.table: one for one in self.mapped.reached(query.select.sources)}
        parts = [
            self._scan(spark, scan, mapped.get(scan.table), query.bounds, snapshot) for scan in query.scans
        ]
        points = [part.rows for part in parts]
        together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), points)
        return _Frame(together, sum(part.most for part in parts))

    def _scan(
        self,
        spark: SparkSession,
        scan: Scan,
        mapped: Mapped | None,
        bounds: tuple[int | None, int | None],
        snapshot: Snapshot,
    ) -> _Frame:
        from pyspark.sql import functions as F  # noqa: N812

        names = [column for column, _ in scan.columns]
        if mapped is not None:
            version = snapshot.versions[mapped.info.path]
            rows = self._rows(spark, mapped.info.path, version, mapped.columns(names), mapped.time, bounds)
            points = mapped.points(rows.rows, scan.columns)
        else:
            info = self.tree.catalog.table(ROOT, scan.table)
            version = snapshot.versions[info.path]
            rows = self._rows(spark, info.path, version, [DEVICE, TIME, *names], TIME, bounds)
            renamed = [F.col(quoted(column)).alias(slot) for column, slot in scan.columns]
            points = rows.rows.select(DEVICE, TIME, *renamed)
        return _Frame(of_devices(points, sorted(scan.devices)), rows.most)

    def _rows(
        self,
        spark: SparkSession,
        path: str,
        version: int,
        columns: list[str],
        time: str,
        bounds: tuple[int | None, int | None],
    ) -> _Frame:
        """Return the rows of a table at a version within bounds of its time."""
        handles = self.tree.catalog.handles
        table = handles.open(path)
        lower, upper = bounds
        size = _rows_within(table, time, bounds)
        if capabilities(table).arrow_reads and size <= self.settings.small_rows:
            rows = ArrowTransport(spark, handles).rows(path, version, columns, time, [bounds])
        else:
            rows = read_spark(
                spark, table, version, columns=columns, lower=lower, upper=upper, time_column=time
            )
        return _Frame(rows, size)


def _computed(spark: SparkSession, query: SeriesQuery, points: DataFrame) -> DataFrame:
    """Return a query's result over its points; both are registered as it names them."""
    view_of(points, query.points)
    found = spark.sql(query.sql)
    kinds = [kind for name, kind in types_of(found).items() if name not in (TIME, DEVICE)]
    view_of(found, query.result)
    return spark.sql(query.filled(kinds))


def _drop_views(spark: SparkSession, query: SeriesQuery) -> None:
    for view in (query.points, query.result):
        spark.catalog.dropTempView(view)


def _rows_within(table: Table, time: str, bounds: tuple[int | None, int | None]) -> int:
    """Return about how many rows of a table lie within bounds of its time."""
    lower, upper = bounds
    low, high = _ALWAYS
    return rows_between(table, time, low if lower is None else lower, high if upper is None else upper)


def of_devices(points: DataFrame, devices: Sequence[str]) -> DataFrame:
    """Return the points of some devices; those of many are not listed in the plan."""
    import pyarrow as pa

    if len(devices) <= MAX_LITERALS:
        return points.where(points[DEVICE].isin([*devices]))
    listed = pa.table({DEVICE: pa.array(devices, pa.string())})
    return points.join(arrow_frame(points.sparkSession, listed), DEVICE, "left_semi")


def windows_of(group: TimeGroup, bounds: tuple[int, int], zone: str) -> Windows:
    """Return the windows of GROUP BY in a range (µs): they start from the range's start and end with it.

    Those of months and years are counted from the range's start in the zone.
    """
    lower, upper = bounds
    if not (group.interval.months or group.step.months):
        return Windows(lower, upper, group.interval.micros, group.step.micros)
    found: list[tuple[int, int]] = []
    while (start := shifted(lower, group.step, len(found), zone)) < upper:
        found.append((start, min(upper, shifted(start, group.interval, 1, zone))))
        if len(found) > _MAX_CALENDAR_WINDOWS:
            raise StatementError(
                "GROUP_BY_TOO_FINE",
                f"GROUP BY with months would make more than {_MAX_CALENDAR_WINDOWS:,} windows",
                hint="a shorter range",
            )
    return Windows(lower, upper, 0, 0, tuple(found))


def shown(query: SeriesQuery, rows: pa.Table) -> pa.Table:
    """Return a result with IoTDB's names of its columns."""
    import pyarrow as pa

    if not query.outputs:
        return pa.table({"Time": pa.array([], pa.timestamp("us", "UTC"))})
    return rows.rename_columns(query.columns)


def latest(query: SeriesQuery, rows: pa.Table) -> pa.Table:
    """Return the latest points of the series that have one, a row each: SELECT LAST (IoTDB).

    Values are texts, as series are of several types.
    """
    import pyarrow as pa

    select, found = query.select, []
    for place, (output, kind) in enumerate(zip(query.outputs, query.types, strict=True)):
        time = rows[f"t{place}"][0]
        if time.is_valid:
            found.append((time, output.name, _written(rows[f"c{place}"][0]), kind))
    if select.by_series:
        found.sort(key=lambda point: point[1], reverse=select.descending)
    upto = None if select.limit is None else select.offset + select.limit
    columns = zip(*found[select.offset : upto], strict=True) if found[select.offset : upto] else [()] * 4
    types = (pa.timestamp("us", "UTC"), *[pa.string()] * 3)
    arrays = [pa.array(list(values), kind) for values, kind in zip(columns, types, strict=True)]
    return pa.table(arrays, ["Time", "Timeseries", "Value", "DataType"])


def _written(point: pa.Scalar) -> str:
    """Return a value as IoTDB writes it; a number with the fewest digits that are it in its own type."""
    import pyarrow as pa

    value = point.as_py()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, float):
        return str(float(point.cast(pa.string()).as_py()))
    return value.isoformat() if isinstance(value, date) else str(value)


# --- INTO -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Placement:
    """Where columns of a result go: each with its measurement, and the target of each source device.

    Aligned by time a row has no device: the one target stands under the empty text.
    """

    columns: dict[str, str]
    devices: dict[str, Path]


def placements(query: SeriesQuery) -> list[Placement]:
    """Return where INTO puts the columns of a query. Raises StatementError INTO_INVALID."""
    if query.select.by_device:
        return _by_device(query)
    targets = by_time(query.select, [output.source for output in query.outputs])
    columns: dict[Path, dict[str, str]] = {}
    for place, target in enumerate(targets):
        columns.setdefault(target.device, {})[f"c{place}"] = target.measurement
    return [Placement(names, {"": device}) for device, names in columns.items()]


def written_into(query: SeriesQuery, rows: pa.Table) -> pa.Table:
    """Return what INTO wrote: where each column went, and how many points it has there (IoTDB)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def points(place: int, of: pa.Table) -> int:
        return int(pc.count(of[f"c{place}"]).as_py())

    names = ["SourceColumn", "TargetTimeseries", "Written"]
    found: list[tuple[str | int, ...]] = []
    if query.select.by_device:
        names = ["SourceDevice", *names]
        for device, targets in device_targets(query).items() if query.outputs else ():
            of = rows.filter(pc.equal(rows[DEVICE], str(device)))
            columns = enumerate(zip(query.outputs, targets, strict=True))
            found += [(str(device), o.name, str(t), points(place, of)) for place, (o, t) in columns]
    elif query.outputs:
        paths = by_time(query.select, [output.source for output in query.outputs])
        columns = enumerate(zip(query.outputs, paths, strict=True))
        found += [(o.name, str(t), points(place, rows)) for place, (o, t) in columns]
    kinds = [pa.string()] * (len(names) - 1) + [pa.int64()]
    return pa.table([pa.array([row[at] for row in found], kind) for at, kind in enumerate(kinds)], names)


def check_targets(tree: Tree, query: SeriesQuery) -> None:
    """Raise StatementError, with its place, where INTO has no series for a column or one of another type.

    INTO_INVALID, SERIES_TYPE or DATABASE_MAPPED: as the query is resolved, and by the types of its columns.
    """
    if not query.outputs:
        return
    kinds = {f"c{place}": kind for place, kind in enumerate(query.types)}
    for placement in placements(query):
        types = {name: kinds[column] for column, name in placement.columns.items()}
        targets = [(device, name) for device in placement.devices.values() for name in types]
        try:
            missing_series(tree, targets, types)
        except LakestreamError as error:
            raise error.at(place_of(query.select.text)) from None


def device_targets(query: SeriesQuery) -> dict[Path, tuple[Path, ...]]:
    """Return for each device the targets of its columns. Raises StatementError INTO_INVALID."""
    names = [output.operands[0].shown if output.operands else output.name for output in query.outputs]
    return by_device(query.select, query.devices, names)


def _by_device(query: SeriesQuery) -> list[Placement]:
    groups: dict[tuple[str, ...], dict[str, Path]] = {}
    for source, paths in device_targets(query).items():
        measurements = tuple(path.measurement for path in paths)
        groups.setdefault(measurements, {})[str(source)] = paths[0].device
    return [
        Placement({f"c{place}": name for place, name in enumerate(measurements)}, devices)
        for measurements, devices in groups.items()
    ]


def blocks_into(query: SeriesQuery, rows: pa.Table) -> list[Block]:
    """Return a result as the points that INTO writes. Raises StatementError INTO_INVALID.

    Aggregates without GROUP BY have the time 0, 1970-01-01.
    """
    import pyarrow as pa

    if not query.outputs:
        return []
    if not query.has_time:
        zero = pa.array([0] * rows.num_rows, pa.timestamp("us", "UTC"))
        rows = rows.add_column(0, TIME, zero)
    return [_block(placement, rows) for placement in placements(query)]


def _block(placement: Placement, rows: pa.Table) -> Block:
    import pyarrow as pa
    import pyarrow.compute as pc

    columns, devices = placement.columns, placement.devices
    types = {name: type_of_arrow(rows.schema.field(column).type) for column, name in columns.items()}
    if "" in devices:
        points = rows.select([TIME, *columns]).rename_columns([AT, *columns.values()])
        return block_of(devices[""], points, types)
    sources, targets = pa.array(list(devices)), pa.array(list(map(str, devices.values())))
    chosen = rows.filter(pc.is_in(rows[DEVICE], sources))
    mapped = targets.take(pc.index_in(chosen[DEVICE], sources).combine_chunks())
    points = pa.Table.from_arrays(
        [mapped, chosen[TIME], *(chosen[column] for column in columns)], names=[OF, AT, *columns.values()]
    )
    return Block({str(device): device for device in devices.values()}, types, points)
