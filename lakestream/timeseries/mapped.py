"""Databases of the tree whose points are the rows of a table that others write (IoTDB A1, "Mapping").

A device is a value of the mapping's expression among the rows of the version that is read: which devices
there are follows from that version alone, whoever asks and whenever. The table gives each device all its
measurements; of several rows of a device and time a series has the greatest value.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.engine.base.names import visible_columns
from lakestream.engine.base.refused import refused, spark_message
from lakestream.engine.planning.planner import size_of, table_size
from lakestream.engine.reading.transport import Size, choose_transport, transport_by
from lakestream.errors import LakestreamError, NotSupportedError, Place, StatementError, StreamError
from lakestream.language.common.functions import Meaning
from lakestream.language.common.source import place_of
from lakestream.language.expressions.meaning import in_spark
from lakestream.language.expressions.parsing import parse_expression, place_in
from lakestream.language.iotdb.literals import written_device
from lakestream.language.iotdb.paths import ROOT, Path, Series, node_of
from lakestream.language.iotdb.types import SERIES_TYPES, SPARK_TYPES
from lakestream.language.quoting import quoted
from lakestream.storage.delta import read_commits
from lakestream.storage.names.tree import DEVICE, TIME, table_name
from lakestream.storage.rows.reading import plain, rows_of_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.engine.reading.apart import Apart
    from lakestream.engine.reading.transport import Transport
    from lakestream.language.iotdb.values import TableMapping
    from lakestream.language.model import TableName
    from lakestream.settings import Settings
    from lakestream.storage.delta import Table
    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.names.tree import Tree

_BY_SPARK = {**SERIES_TYPES, "tinyint": "INT32", "smallint": "INT32"}
"""The types of series that columns of a table become, by Spark's; columns of other types become none."""

_SIGN = "CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END"


@dataclass(frozen=True)
class Mapped:
    """A mapped database: where its rows are, and what of them a point is.

    ``device`` is Spark SQL over the columns ``device_columns``; ``measurements`` are the columns that are
    series, with IoTDB's types, in the table's order.
    """

    database: Path
    info: TableInfo
    device: str
    device_columns: tuple[str, ...]
    time: str
    measurements: tuple[tuple[str, str], ...]

    @property
    def table(self) -> str:
        """How series name the database's table."""
        return table_name(self.database)

    @property
    def origin(self) -> tuple[str, str, str, str]:
        """What its devices follow from."""
        return str(self.database), self.info.path, self.device, self.time

    def columns(self, measurements: Sequence[str]) -> list[str]:
        """Return the columns of the table that points with these measurements are made of."""
        return list(dict.fromkeys([*self.device_columns, self.time, *measurements]))

    def points(
        self, rows: DataFrame, names: Sequence[tuple[str, str]], more: Sequence[str] = ()
    ) -> DataFrame:
        """Return rows of the table as points: one for each device and time (and ``more`` of the rows).

        ``names`` are the columns to take, each with its name among the points.
        """
        from pyspark.sql import functions as F  # noqa: N812

        types = dict(self.measurements)
        values = [f"CAST({quoted(c)} AS {SPARK_TYPES[types[c]]}) AS {quoted(name)}" for c, name in names]
        keys = [DEVICE, TIME, *more]
        listed = [f"{self.device} AS {DEVICE}", f"{quoted(self.time)} AS {TIME}", *more, *values]
        found = rows.selectExpr(*listed).where(f"{DEVICE} IS NOT NULL AND {TIME} IS NOT NULL")
        greatest = [F.max(quoted(name)).alias(name) for _, name in names]
        return found.groupBy(*keys).agg(*greatest) if greatest else found.select(*keys).distinct()

    def device_path(self, text: str) -> Path | None:
        """Return the device that a value of the expression stands for, None where it stands for none."""
        path = written_device(text)
        is_inside = path is not None and path.is_below(self.database) and path != self.database
        return path if is_inside else None

    def series(self, devices: Sequence[Path], after: int) -> list[Series]:
        """Return the series of devices: by device, then in the order of the columns; numbered on."""
        return [
            Series(Path((*device.nodes, node_of(column))), kind, self.table, column, number)
            for number, (device, (column, kind)) in enumerate(
                ((device, one) for device in devices for one in self.measurements), after + 1
            )
        ]


@dataclass(frozen=True)
class _Counted:
    """How many rows each value of the expression has in a version of a table, and the devices that those are.

    A value stands for a device where it is a path below the mapped database.
    """

    table_id: str
    version: int
    rows: Counter[str]
    devices: tuple[Path, ...]


@dataclass
class MappedTables:
    """The mapped databases of one lake."""

    tree: Tree
    spark: Callable[[], SparkSession]
    settings: Settings
    apart: Apart
    _counted: dict[tuple[str, str, str, str], _Counted] = field(default_factory=dict)

    # --- which there are ---

    def checked(self, database: Path, mapping: TableMapping) -> Mapped:
        """Return a mapping once Spark understands its expression.

        Raises StatementError with the place: NOT_SUPPORTED, TABLE_NOT_FOUND, COLUMN_NOT_FOUND, TIME_TYPE,
        DEVICE_TYPE, EXPRESSION_INVALID, or NO_MEASUREMENTS.
        """
        if mapping.table.database == ROOT:
            raise NotSupportedError(
                "USING TABLE with a table of the tree itself", hint="SELECT … INTO copies series"
            ).at(_place(mapping.table))
        found = self._of(database, mapping)
        self._check_time(found, mapping)
        self._check_device(found, mapping)
        if not found.measurements:
            raise StatementError(
                "NO_MEASUREMENTS",
                f"{mapping.table} has no column that can be a series",
                hint=f"a series is of a type such as {', '.join(sorted(_BY_SPARK))}",
                place=place_of(mapping.device),
            )
        return found

    def _check_time(self, mapped: Mapped, mapping: TableMapping) -> None:
        kind = mapped.info.column(mapped.time).type
        if kind != "timestamp":
            raise StatementError(
                "TIME_TYPE",
                f"the time column {mapped.time} is {kind}",
                hint="the time of a point is a timestamp",
                place=place_of(mapping.time),
            )

    def _check_device(self, mapped: Mapped, mapping: TableMapping) -> None:
        about = ("device", mapped.origin, mapped.info.columns)
        kind = self.apart.ask(about, lambda: self._type_of_device(mapped, mapping))
        if kind != "string":
            raise StatementError(
                "DEVICE_TYPE",
                f"device is {kind}, not a text",
                hint="such as concat('root.ln.', site)",
                place=place_of(mapping.device),
            )

    def _type_of_device(self, mapped: Mapped, mapping: TableMapping) -> str:
        from pyspark.errors import PySparkException

        table = self.tree.catalog.handles.latest(mapped.info.path)
        try:
            rows = rows_of_files(self.spark(), table, [], mapped.device_columns)
            [(_, kind)] = rows.selectExpr(f"{mapped.device} AS {DEVICE}").dtypes
        except PySparkException as error:
            raise refused("EXPRESSION_INVALID", "device", mapping.device, error) from None
        return kind

    def reached(self, sources: Sequence[Path]) -> list[Mapped]:
        """Return the mapped databases that patterns, or what follows them, may stand for paths of.

        Raises StatementError where a table or a column of one is there no more.
        """
        reached = {
            database: mapping
            for database, mapping in self.tree.mappings().items()
            if any(source.reaches(database) for source in sources)
        }
        try:
            return [self._of(database, mapping) for database, mapping in reached.items()]
        except LakestreamError as error:
            error.place = None  # it is one of the statement that made the mapping
            raise

    def _of(self, database: Path, mapping: TableMapping) -> Mapped:
        table = mapping.table
        try:
            info = self.tree.catalog.table(table.database or "", table.name)
        except LakestreamError as error:
            raise error.at(_place(table)) from None
        try:
            time = info.column(mapping.time.sql).name
        except LakestreamError as error:
            raise error.at(place_of(mapping.time)) from None
        tree = parse_expression(mapping.device)
        columns = dict.fromkeys(_column(mapping, info, column) for column in tree.find_all(exp.Column))
        visible = {*visible_columns(info)} - {time, *columns}
        measurements = [
            (column.name, _BY_SPARK[column.type])
            for column in info.columns
            if column.name in visible and column.type in _BY_SPARK
        ]
        device = in_spark(tree, Meaning(), mapping.device).sql("spark")
        return Mapped(database, info, device, tuple(columns), time, tuple(measurements))

    # --- their devices ---

    def devices(self, mapped: Mapped, version: int) -> tuple[Path, ...]:
        """Return the devices that have rows at a version of the table, sorted by how they are written.

        Raises StorageError where the version cannot be read, StatementError EXPRESSION_INVALID.
        """
        table = self.tree.catalog.handles.open(mapped.info.path)
        known = self._counted.get(mapped.origin)
        if known is not None and known.table_id != table.table_id:
            known = None
        if known is not None and known.version == version:
            return known.devices
        is_later = known is None or known.version < version
        rows = self._carried_on(mapped, table, known, version) if known is not None and is_later else None
        counted = self._counts(mapped, table, version, rows)
        if is_later:
            self._counted[mapped.origin] = counted
        return counted.devices

    def _counts(self, mapped: Mapped, table: Table, version: int, rows: Counter[str] | None) -> _Counted:
        rows = self._of_version(mapped, table, version) if rows is None else rows
        paths = map(mapped.device_path, sorted(rows))
        return _Counted(table.table_id, version, rows, tuple(path for path in paths if path is not None))

    def _of_version(self, mapped: Mapped, table: Table, version: int) -> Counter[str]:
        transport = self._transport(table, table_size(table, version))
        rows = transport.rows(table.path, version, mapped.columns(()), mapped.time, [(None, None)])
        return Counter(self._summed(mapped, rows, "1"))

    def _carried_on(self, mapped: Mapped, table: Table, known: _Counted, version: int) -> Counter[str] | None:
        """Return the counts carried on with what has changed since; None where the log does not tell."""
        try:
            changes = self._changes(table, known.version, version, mapped.columns(()))
        except StreamError:
            return None
        rows = known.rows.copy()
        rows.update(self._summed(mapped, changes, _SIGN))
        return +rows

    def _summed(self, mapped: Mapped, rows: DataFrame, sign: str) -> dict[str, int]:
        """Return the sum of ``sign`` over the rows of each value of the expression."""
        timed = rows.where(f"{quoted(mapped.time)} IS NOT NULL")
        values = timed.selectExpr(f"{mapped.device} AS {DEVICE}", f"{sign} AS n").where(
            f"{DEVICE} IS NOT NULL"
        )
        with _evaluating(mapped):
            found = values.groupBy(DEVICE).agg({"n": "sum"}).toArrow()
        return dict(zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True))

    # --- their commits ---

    def changes(self, mapped: Mapped, after: int, upto: int) -> pa.Table:
        """Return the changed points of commits ``(after, upto]``, once for each commit, device and time.

        Beside device and time there are ``_commit_version``, ``_change_type`` (insert or delete) and a column
        per measurement, ``m0``, ``m1``, …. Raises StreamError CHANGES_LOST or CHANGE_FEED_OFF, StatementError
        EXPRESSION_INVALID.
        """
        names = [column for column, _ in mapped.measurements]
        columns = mapped.columns(names)
        rows = self._changes(self.tree.catalog.handles.open(mapped.info.path), after, upto, columns)
        kind = f"CASE WHEN {_SIGN} > 0 THEN 'insert' ELSE 'delete' END AS _change_type"
        rows = rows.selectExpr(*map(quoted, columns), "_commit_version", kind)
        numbered = [(name, f"m{number}") for number, name in enumerate(names)]
        with _evaluating(mapped):
            return plain(mapped.points(rows, numbered, ("_commit_version", "_change_type")).toArrow())

    def _changes(self, table: Table, after: int, upto: int, columns: Sequence[str]) -> DataFrame:
        transport = self._transport(table, size_of(read_commits(table.path, after, upto)))
        return transport.changes(table.path, after, upto, columns)

    def _transport(self, table: Table, size: Size) -> Transport:
        most = Size(self.settings.small_rows, self.settings.small_bytes)
        chosen = choose_transport(table, size, most)
        return transport_by(chosen, self.spark(), self.tree.catalog.handles)


@contextmanager
def _evaluating(mapped: Mapped) -> Iterator[None]:
    """Raise EXPRESSION_INVALID where Spark cannot evaluate the expression over a row."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise StatementError(
            "EXPRESSION_INVALID", f"device of {mapped.database} cannot be evaluated: {spark_message(error)}"
        ) from None


def _place(table: TableName) -> Place:
    return Place(table.line, table.column, len(str(table)))


def _column(mapping: TableMapping, info: TableInfo, column: exp.Column) -> str:
    """Return the name of the table's column that one of the expression means, which goes by no case.

    Of a field of a structure that is the structure's.
    """
    name = column.parts[0].name
    by_name = {one.name.lower(): one.name for one in info.columns}
    try:
        return by_name.get(name.lower()) or info.column(name).name
    except LakestreamError as error:
        raise error.at(place_in(mapping.device, column)) from None
