"""Queries over the tree: Spark computes them all at once, over the points of all series they name."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from lakestream.compute.series import SeriesQuery, Windows
from lakestream.compute.targets import by_device, by_time
from lakestream.engine.instants import instant_micros
from lakestream.engine.isolation import spark_message
from lakestream.engine.points import AT, OF, Block, block_of, type_of_arrow
from lakestream.engine.stream import quoted
from lakestream.engine.transport import ArrowTransport
from lakestream.errors import StatementError
from lakestream.language.iotdb.paths import ROOT
from lakestream.language.source import place_of
from lakestream.storage.datafiles import rows_between
from lakestream.storage.delta import capabilities, read_spark
from lakestream.storage.reading import plain
from lakestream.storage.tree import DEVICE, TIME
from lakestream.triggers.resample import shifted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.compute.series import Scan
    from lakestream.language.iotdb.paths import Path
    from lakestream.language.iotdb.values import Select, TimeGroup
    from lakestream.settings import Settings
    from lakestream.storage.tree import Tree

_ALWAYS = (-(2**62), 2**62)
_MAX_CALENDAR_WINDOWS = 10_000


@dataclass
class SeriesReader:
    """Runs queries over the tree of one lake. ``zone`` is where times without an offset are."""

    tree: Tree
    spark: Callable[[], SparkSession]
    settings: Settings
    zone: str

    def __post_init__(self) -> None:
        self._views = count()

    def resolve(self, select: Select, now_us: int, bounds: tuple[int, int] | None = None) -> SeriesQuery:
        """Return a query resolved against the series there are; ``bounds`` (µs) are a CQ's range.

        Raises StatementError GROUP_BY_RANGE without bounds, and as SeriesQuery.
        """
        windows = None
        if select.group is not None:
            if bounds is None:
                bounds = self._range(select, select.group, now_us)
            windows = windows_of(select.group, bounds, self.zone)
        return SeriesQuery(
            select,
            self.tree.series(),
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

    def versions(self, query: SeriesQuery) -> dict[str, int]:
        """Return the latest version of each table that a query reads, by path."""
        paths = {self.tree.catalog.table(ROOT, scan.table).path for scan in query.scans}
        return {path: self.tree.catalog.handles.latest(path).version for path in paths}

    def rows(self, query: SeriesQuery, versions: Mapping[str, int]) -> pa.Table:
        """Compute a query: ``ts`` and ``device`` as far as it has them, then ``c0``, ``c1``, ….

        Tables are read at ``versions``, by path (see :meth:`versions`). May be called from several threads.
        Raises StatementError QUERY_INVALID with what Spark says.
        """
        import pyarrow as pa
        from pyspark.errors import PySparkException

        if not query.outputs:
            return pa.table({})
        spark = self.spark()
        try:
            self._points(spark, query, versions).createOrReplaceTempView(query.points)
            found = spark.sql(query.sql)
            kinds = [kind for name, kind in found.dtypes if name not in (TIME, DEVICE)]
            found.createOrReplaceTempView(query.result)
            return plain(spark.sql(query.filled(kinds)).toArrow())
        except PySparkException as error:
            place = place_of(query.select.text)
            raise StatementError("QUERY_INVALID", spark_message(error), place=place) from None
        finally:
            for view in (query.points, query.result):
                spark.catalog.dropTempView(view)

    def _points(self, spark: SparkSession, query: SeriesQuery, versions: Mapping[str, int]) -> DataFrame:
        parts = [self._scan(spark, scan, query.bounds, versions) for scan in query.scans]
        points = parts[0]
        for part in parts[1:]:
            points = points.unionByName(part, allowMissingColumns=True)
        return points

    def _scan(
        self,
        spark: SparkSession,
        scan: Scan,
        bounds: tuple[int | None, int | None],
        versions: Mapping[str, int],
    ) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        info = self.tree.catalog.table(ROOT, scan.table)
        handles = self.tree.catalog.handles
        table, version = handles.open(info.path), versions[info.path]
        columns = [DEVICE, TIME, *(column for column, _ in scan.columns)]
        lower, upper = bounds
        size = rows_between(
            table,
            TIME,
            lower if lower is not None else _ALWAYS[0],
            upper if upper is not None else _ALWAYS[1],
        )
        if capabilities(table).arrow_reads and size <= self.settings.small_rows:
            transport = ArrowTransport(spark, handles)
            rows = transport.rows(info.path, version, columns, TIME, [bounds])
        else:
            rows = read_spark(
                spark, table, version, columns=columns, lower=lower, upper=upper, time_column=TIME
            )
        renamed = [F.col(quoted(column)).alias(slot) for column, slot in scan.columns]
        return rows.filter(F.col(DEVICE).isin(sorted(scan.devices))).select(DEVICE, TIME, *renamed)


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


# --- INTO -----------------------------------------------------------------------------------------


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
    types = [type_of_arrow(rows.schema.field(f"c{i}").type) for i in range(len(query.outputs))]
    if query.select.by_device:
        return _by_device(query, rows, types)
    targets = by_time(query.select, [output.source for output in query.outputs])
    blocks: dict[Path, list[int]] = {}
    for place, target in enumerate(targets):
        blocks.setdefault(target.device, []).append(place)
    return [
        block_of(
            device,
            rows.select([TIME, *(f"c{i}" for i in places)]).rename_columns(
                [AT, *(targets[i].measurement for i in places)]
            ),
            {targets[i].measurement: types[i] for i in places},
        )
        for device, places in blocks.items()
    ]


def _by_device(query: SeriesQuery, rows: pa.Table, types: list[str]) -> list[Block]:
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [output.operands[0].shown if output.operands else output.name for output in query.outputs]
    targets = by_device(query.select, query.devices, names)
    groups: dict[tuple[str, ...], list[Path]] = {}
    for source, paths in targets.items():
        groups.setdefault(tuple(path.measurement for path in paths), []).append(source)
    blocks = []
    for measurements, sources in groups.items():
        texts = pa.array(list(map(str, sources)))
        devices = [targets[source][0].device for source in sources]
        chosen = rows.filter(pc.is_in(rows[DEVICE], texts))
        mapped = pa.array(list(map(str, devices))).take(pc.index_in(chosen[DEVICE], texts).combine_chunks())
        columns = [mapped, chosen[TIME], *(chosen[f"c{i}"] for i in range(len(measurements)))]
        blocks.append(
            Block(
                {str(device): device for device in devices},
                dict(zip(measurements, types, strict=True)),
                pa.Table.from_arrays(columns, names=[OF, AT, *measurements]),
            )
        )
    return blocks
