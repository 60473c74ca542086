"""Rows of a table at a version: by delta-rs into Arrow, or as a DataFrame of Spark."""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING, cast

from lakestream.errors import LakestreamError, StorageError
from lakestream.language.quoting import delta_name, delta_text, quoted
from lakestream.storage.columns.meant import meant_arrow, meant_spark
from lakestream.storage.columns.times import iso, stored_columns
from lakestream.storage.places import files
from lakestream.storage.rows.handed import handed
from lakestream.storage.small.session import SmallSession
from lakestream.storage.tables.datafiles import data_files, has_plain_files
from lakestream.storage.tables.log import TIME_CUT_US
from lakestream.storage.tables.mirror import few_files, mirrored
from lakestream.storage.tables.table import Table, first_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from arro3.core import RecordBatchReader
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.storage.columns.times import ReadTime
    from lakestream.storage.tables.datafiles import Span

_FEW_FILES = 1_000

_OLDEST, _NEWEST = -9_000_000_000_000_000, 9_000_000_000_000_000
"""What delta-rs compares with lies between: it counts nanoseconds, which reach from 1677 to 2262."""


class TooManyRowsError(Exception):
    """There are more rows than were to be read at most."""


def opened(table: Table | str) -> Table:
    """Return the table, opened when it is given as a path."""
    return Table.open(table) if isinstance(table, str) else table


def timestamp_literal(micros: int) -> str:
    """Return microseconds since 1970 UTC as a literal that delta-rs and Spark both compare with a timestamp.

    >>> timestamp_literal(1_500_000)
    "'1970-01-01T00:00:01.500000Z'"
    """
    return f"'{iso(micros)}Z'"


def instant_literal(micros: int) -> str:
    """Return microseconds since 1970 UTC as a literal of delta-rs's SQL, whatever the year.

    What its nanoseconds reach is as in :func:`timestamp_literal`, by which files are skipped.
    """
    if _OLDEST <= micros <= _NEWEST:
        return timestamp_literal(micros)
    return f"arrow_cast({micros}, 'Timestamp(Microsecond, Some(\"UTC\"))')"


def among(time: str, instants: Iterable[int]) -> str:
    """Return a condition in delta-rs's SQL that holds for times that are one of some instants (µs).

    ``time`` is SQL. Instants that its nanoseconds do not reach are listed apart: delta-rs takes all of one
    list for the type of the first.
    """
    listed = sorted(instants)
    near = [instant for instant in listed if _OLDEST <= instant <= _NEWEST]
    far = [instant for instant in listed if not _OLDEST <= instant <= _NEWEST]
    lists = [", ".join(map(instant_literal, part)) for part in (near, far) if part]
    return "(" + " OR ".join(f"{time} IN ({part})" for part in lists) + ")"


def read_arrow(
    table: Table | str,
    version: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    spans: Sequence[Span] = (),
    time_column: str | None = None,
    where: str | None = None,
    most: int | None = None,
) -> pa.Table:
    """Return the table's rows at a version (None: the one seen last), in no particular order.

    ``time_column`` lies in one of the ``spans`` ``[lower, upper)`` in microseconds since 1970 UTC, None for
    no bound, where there are any; files outside are skipped by their statistics. ``where`` is a further
    condition in delta-rs's SQL.
    Strings come as plain strings, timestamps in microseconds, UTC. Raises StorageError
    VERSION_NOT_FOUND or READ_FAILED (a data file is gone), and TooManyRowsError for more than ``most``,
    of which no others are read.
    """
    table = opened(table)
    bounded = [] if (None, None) in spans else spans
    if time_column is None and bounded:
        raise ValueError("spans bound a time_column, and none was named")
    wanted = list(columns) if columns is not None else table.columns(version)
    conditions = [] if time_column is None else _ranges(table, time_column, bounded)
    asked = wanted if time_column is None or time_column in wanted else [*wanted, time_column]
    if where:
        conditions.append(f"({where})")
    few = few_files(table, version, time=time_column, spans=bounded)
    rows = _scan(table, version, asked, " AND ".join(conditions) or None, few, most)
    if time_column is not None and bounded:
        rows = _within(rows, time_column, bounded)
    return rows.select(wanted)


def _ranges(table: Table, column: str, spans: Sequence[Span]) -> list[str]:
    """Return a condition that holds for times of all spans, where one of delta-rs's leaves any out."""
    parts = [_range(table, column, lower, upper) for lower, upper in spans]
    return [f"({' OR '.join(' AND '.join(part) for part in parts)})"] if parts and all(parts) else []


def _range(table: Table, column: str, lower: int | None, upper: int | None) -> list[str]:
    time = table.time_of(column)
    if time is None:
        return time_range(delta_name(column), lower, upper)
    first, *fields = time.path
    name = "".join([delta_name(first), *(f"[{delta_text(field)}]" for field in fields)])
    return _bounds(time, name, lower, upper)


def time_range(time: str, lower: int | None, upper: int | None) -> list[str]:
    """Return conditions in delta-rs's SQL that hold for times of ``[lower, upper)`` (µs since 1970 UTC).

    ``time`` is SQL. They hold for a millisecond more at the lower end, by which statistics may be cut, and
    for more where delta-rs cannot compare with a bound.
    """
    bounds = []
    if lower is not None and lower >= _OLDEST:
        bounds.append(f"{time} >= {timestamp_literal(min(lower, _NEWEST) - TIME_CUT_US)}")
    if upper is not None and upper <= _NEWEST:
        bounds.append(f"{time} < {timestamp_literal(max(upper, _OLDEST))}")
    return bounds


def query_arrow(table: Table, version: int | None, sql: str) -> pa.Table:
    """Return what a query in delta-rs's SQL gives of a version of a table, which is called t in it.

    Raises StorageError VERSION_NOT_FOUND or READ_FAILED (a data file is gone).
    """
    with table.guard:
        return _queried(table, table.at(version), sql)


def _queried(table: Table, handle: DeltaTable, sql: str) -> pa.Table:
    from deltalake import QueryBuilder

    query = QueryBuilder()
    # Without it, times of Spark's before 1678 and after 2261 are taken for others.
    query.execute("SET datafusion.execution.parquet.coerce_int96 = 'us'")
    try:
        return gathered(query.register("t", handle).execute(sql))
    except LakestreamError:
        raise
    except Exception as error:
        # delta-rs raises DeltaError, and a bare Exception for a data file that is gone.
        raise StorageError("READ_FAILED", f"{table.path} cannot be read: {first_line(error)}") from error


def _scan(
    table: Table,
    version: int | None,
    columns: list[str],
    predicate: str | None,
    few: list[str] | None,
    most: int | None,
) -> pa.Table:
    """Return columns of a version's rows, out of ``few`` of its files where those are given.

    Raises TooManyRowsError for more than ``most``.
    """
    condition = f" WHERE {predicate}" if predicate else ""
    limit = "" if most is None else f" LIMIT {most + 1}"
    asked = ", ".join(map(delta_name, stored_columns(table.time, columns)))
    sql = f"SELECT {asked} FROM t{condition}{limit}"  # noqa: S608 - quoted names
    if few is None:
        rows = query_arrow(table, version, sql)
    else:
        with mirrored(table, few) as mirror:
            rows = _queried(table, mirror, sql)
    if most is not None and rows.num_rows > most:
        raise TooManyRowsError
    return meant_arrow(table, rows, columns)


def _bounds(time: ReadTime, name: str, lower: int | None, upper: int | None) -> list[str]:
    """Return conditions by which files of a range are found where the time is read as another kind."""
    within = [at if at is not None and _OLDEST < at < _NEWEST else None for at in (lower, upper)]
    return time.bounds(name, *within)


def _within(rows: pa.Table, column: str, spans: Sequence[Span]) -> pa.Table:
    """Return the rows whose time lies in one of the spans."""
    import pyarrow.compute as pc

    return rows.filter(reduce(pc.or_, [_lies(rows[column], lower, upper) for lower, upper in spans]))


def _lies(times: pa.ChunkedArray, lower: int | None, upper: int | None) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    bounds = [(lower, pc.greater_equal), (upper, pc.less)]
    instants = [
        (pa.scalar(bound, pa.int64()).cast(pa.timestamp("us")).cast(times.type), holds)
        for bound, holds in bounds
        if bound is not None
    ]
    return reduce(pc.and_, [holds(times, instant) for instant, holds in instants])


_PIECE_ROWS = 131_072
"""Rows that are read before they are made plain, and what the reader has of them is let go."""


def in_pieces(rows: pa.Table) -> pa.Table:
    """Return rows in pieces, of which one thread goes over each."""
    import pyarrow as pa

    return pa.Table.from_batches(rows.to_batches(max_chunksize=_PIECE_ROWS), rows.schema)


def gathered(stream: RecordBatchReader) -> pa.Table:
    """Return the rows of a stream, as :func:`plain` does; no more of them than a piece are here twice."""
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_stream(stream)
    pieces, batches, rows = [], [], 0
    for batch in reader:
        batches.append(batch)
        rows += batch.num_rows
        if rows >= _PIECE_ROWS:
            # To combine is to copy: of columns that stay as they are, the reader has the rows otherwise.
            pieces.append(plain(pa.Table.from_batches(batches)).combine_chunks())
            batches, rows = [], 0
    rest = plain(pa.Table.from_batches(batches, reader.schema))
    return pa.concat_tables([*pieces, rest]) if pieces else rest


def constant(value: int | str, rows: int) -> pa.ChunkedArray:
    """Return a column of one BIGINT or text, in pieces that are one in memory."""
    import pyarrow as pa

    piece = pa.repeat(pa.scalar(value), min(rows, _PIECE_ROWS))
    pieces = [piece.slice(0, rows - first) for first in range(0, rows, _PIECE_ROWS)]
    return pa.chunked_array(pieces, piece.type)


def plain(rows: pa.Table) -> pa.Table:
    """Return rows with the types that Spark's Arrow reader knows, and no metadata.

    Dictionaries, views and large types become plain ones, in lists, maps and structs too; timestamps are
    in microseconds.
    """
    import pyarrow as pa

    return pa.table([plain_column(column) for column in rows.columns], rows.column_names)


def plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as :func:`plain` does; raises pyarrow.ArrowInvalid where a value would be lost."""
    import pyarrow as pa

    kind = _plain_type(column.type)
    if not pa.types.is_dictionary(column.type):
        return column.cast(kind)
    # Arrow casts no dictionary of views.
    return pa.chunked_array([c.dictionary.cast(kind).take(c.indices) for c in column.chunks], kind)


def align(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with exactly the columns of the schema, in its order and types; missing ones are NULL.

    Raises StorageError ROWS_DO_NOT_FIT for a column that the schema lacks or a value it cannot hold.
    """
    import pyarrow as pa

    if rows.schema.equals(schema):
        return rows
    unknown = set(rows.column_names) - set(schema.names)
    if unknown:
        raise StorageError("ROWS_DO_NOT_FIT", f"the table has no column {min(unknown)}")
    columns = []
    for field in schema:
        try:
            missing = field.name not in rows.column_names
            columns.append(
                pa.nulls(rows.num_rows, field.type) if missing else rows[field.name].cast(field.type)
            )
        except pa.ArrowInvalid as error:
            raise StorageError("ROWS_DO_NOT_FIT", f"column {field.name} ({field.type}): {error}") from error
    return pa.Table.from_arrays(columns, schema=schema)


def _plain_type(kind: pa.DataType) -> pa.DataType:  # noqa: PLR0911 (one for each shape of a type)
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain_type(field.type)).remove_metadata()


def arrow_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return Arrow rows as a DataFrame: times without a zone stay so, which Spark would take for instants."""
    if isinstance(spark, SmallSession):
        return cast("DataFrame", spark.frame(rows))
    from pyspark.sql.pandas.types import from_arrow_schema

    # PySpark takes no nested column that has not even an empty chunk.
    chunks = rows if rows.num_rows else rows.schema.empty_table()
    return handed(spark, chunks, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True))


def read_spark(
    spark: SparkSession,
    table: Table | str,
    version: int,
    *,
    columns: Sequence[str] | None = None,
    lower: int | None = None,
    upper: int | None = None,
    time_column: str | None = None,
) -> DataFrame:
    """Return the table's rows at a version as a DataFrame; bounds as in :func:`read_arrow`.

    Few files of a range are read as what they are: to plan the same read, Delta takes a second for a
    table of two thousand commits. Raises StorageError READ_FAILED when one of those is gone.
    """
    from pyspark.sql import functions as F  # noqa: N812

    table = opened(table)
    names, wanted = _files_of_range(table, version, time_column, lower, upper), table.columns(version)
    if names is None:
        rows = _pruned(spark, table, version, time_column, lower, upper)
        frame = meant_spark(table, rows, wanted)
    else:
        frame = rows_of_files(spark, table, names, wanted)
    if time_column is not None and lower is not None:
        frame = frame.filter(F.col(quoted(time_column)) >= F.timestamp_micros(F.lit(lower)))
    if time_column is not None and upper is not None:
        frame = frame.filter(F.col(quoted(time_column)) < F.timestamp_micros(F.lit(upper)))
    return frame if columns is None else frame.select(*map(quoted, columns))


def _pruned(
    spark: SparkSession,
    table: Table,
    version: int,
    time_column: str | None,
    lower: int | None,
    upper: int | None,
) -> DataFrame:
    """Return the rows as they are, without files that no row of a range of another kind of time is in."""
    frame = _loaded(spark, table, version)
    time = table.time_of(time_column) if time_column is not None else None
    if time is None or time_column is None:
        return frame
    for condition in _bounds(time, time.value, lower, upper):
        frame = frame.where(condition)
    return frame


def _loaded(spark: SparkSession, table: Table, version: int) -> DataFrame:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return spark.read.format("delta").option("versionAsOf", version).load(table.path)
    except (PySparkException, Py4JError) as error:
        raise StorageError(
            "TABLE_UNREADABLE", f"Spark cannot read the Delta table at {table.path}: {first_line(error)}"
        ) from error


def _files_of_range(
    table: Table, version: int, time: str | None, lower: int | None, upper: int | None
) -> list[str] | None:
    """Return the paths of the files of a bounded range, None where Delta has to plan the read."""
    if time is None or (lower is None and upper is None):
        return None
    if not has_plain_files(table) or "deletionVectors" in table.features:
        return None
    names: list[str] = data_files(table, version, time, lower, upper)["path"].to_pylist()
    if len(names) > _FEW_FILES or not all(map(_is_plain, names)):
        return None
    for name in names:
        if not files.exists(table.path, name):
            raise StorageError("READ_FAILED", f"the data file {name} of {table.path} is gone")
    return names


def rows_of_files(
    spark: SparkSession, table: Table, names: Sequence[str], columns: Sequence[str]
) -> DataFrame:
    """Return the columns of data files as a DataFrame; a file that lacks a column has NULL in it."""
    import pyarrow as pa
    from pyspark.sql.types import StructType

    stored = stored_columns(table.time, columns)
    if not names:
        nothing = pa.schema([table.schema.field(name) for name in stored]).empty_table()
        return meant_spark(table, arrow_frame(spark, nothing), columns)
    schema = StructType.fromJson(json.loads(table.handle.schema().to_json()))
    chosen = StructType([schema[name] for name in stored])
    paths = [files.join(table.path, name) for name in names]
    return meant_spark(table, spark.read.schema(chosen).parquet(*paths), columns)


def _is_plain(name: str) -> bool:
    """Return whether a path of the log is one in the table's folder, with nothing to decode."""
    return "%" not in name and ":" not in name and not name.startswith("/")
