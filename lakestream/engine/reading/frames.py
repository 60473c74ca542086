"""Rows that users hand over: mappings, and frames of any library that gives an Arrow stream."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from lakestream.errors import StatementError
from lakestream.storage.rows.reading import plain_column
from lakestream.storage.tables.table import first_line
from lakestream.storage.writes.values import named_columns, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from lakestream.storage.names.table_info import TableInfo


class ArrowStream(Protocol):
    """A frame of pandas, Polars, DuckDB, PyArrow, Spark and others, by Arrow's PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a capsule of an Arrow stream."""


_NAMELESS_INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls an index without a name: the rows' numbers, which are no column."""


def rows_given(rows: ArrowStream | Iterable[Mapping[str, Any]]) -> pa.Table | list[Mapping[str, Any]]:
    """Return rows as an Arrow table where they come as a frame, else as mappings by column.

    Columns with a dictionary (pandas' and Polars' categories) become plain ones. Raises StatementError
    BAD_VALUE for what is neither.
    """
    if hasattr(rows, "toArrow"):  # Spark's, also where its frames have no stream yet
        return rows.toArrow()
    if hasattr(rows, "__arrow_c_stream__"):
        return _table_of(cast("ArrowStream", rows))
    # A mapping is iterable, too: one row by itself would be taken for its column names.
    found = None if isinstance(rows, Mapping) or not hasattr(rows, "__iter__") else list(rows)
    if found is None or not all(isinstance(row, Mapping) for row in found):
        raise StatementError(
            "BAD_VALUE",
            f"rows cannot be taken from a {type(rows).__name__}",
            hint="a list of mappings by column, or a frame with an Arrow stream (pandas, Polars, DuckDB, …)",
        )
    return found


def _table_of(stream: ArrowStream) -> pa.Table:
    import pyarrow as pa

    try:
        table = pa.RecordBatchReader.from_stream(stream).read_all()
    except (ValueError, TypeError, NotImplementedError) as error:
        # Of pandas: two columns of one name, a column with values of several types.
        kind = type(stream).__name__
        raise StatementError("BAD_VALUE", f"this {kind} is no Arrow table: {first_line(error)}") from error
    kept = [at for at, name in enumerate(table.column_names) if not _NAMELESS_INDEX.fullmatch(name)]
    names = [table.column_names[at] for at in kept]
    columns = [_plain_of(table.column_names[at], table.column(at)) for at in kept]
    return pa.Table.from_arrays(columns, names=names)


def _plain_of(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    try:
        return plain_column(column)
    except pa.ArrowException as error:
        raise StatementError("BAD_VALUE", f"column {name} cannot be taken: {first_line(error)}") from error


def fitted(info: TableInfo, rows: pa.Table, schema: pa.Schema, zone: str) -> pa.Table:
    """Return a frame's rows in the types of the table's columns (``schema``), where nothing is lost by it.

    Times mean what they mean in mappings: without a zone they are in ``zone``, whole numbers are
    milliseconds since 1970 UTC. Raises StatementError DUPLICATE_COLUMN, COLUMN_NOT_FOUND, or BAD_VALUE with
    the column for a value that its type cannot hold.
    """
    import pyarrow as pa

    columns = {}
    # To name no column means all of them in a statement; a frame without any has no rows either.
    named = named_columns(info, rows.column_names, {}) if rows.num_columns else []
    for known, column in zip(named, rows.columns, strict=True):
        try:
            columns[known.name] = _fitted(column, schema.field(known.name).type, zone)
        except pa.ArrowException as error:
            raise StatementError(
                "BAD_VALUE",
                f"column {known.name} ({known.type}) cannot hold all of the rows: {first_line(error)}",
            ) from error
    return pa.table(columns)


def _fitted(column: pa.ChunkedArray, kind: pa.DataType, zone: str) -> pa.ChunkedArray:
    import pyarrow as pa

    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), kind)])  # pandas calls such a column what it likes
    return (_instants(column, zone) if _is_instant(kind) else column).cast(kind)


def _is_instant(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_timestamp(kind) and kind.tz)


def _instants(column: pa.ChunkedArray, zone: str) -> pa.ChunkedArray:
    """Return times of any type as instants."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_integer(kind):
        return column.cast(pa.int64()).cast(pa.timestamp("ms", "UTC"))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        micros = [None if text is None else parse_time(text, zone=zone) for text in column.to_pylist()]
        return pa.chunked_array([pa.array(micros, pa.timestamp("us", "UTC"))])
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("us"))
    if pa.types.is_timestamp(column.type) and column.type.tz is None:
        # Of two equal times on the clock the first, as for text; one that the clock passes over is refused.
        return pc.assume_timezone(column, zone, ambiguous="earliest", nonexistent="raise")
    return column
