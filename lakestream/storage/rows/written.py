"""Rows of the files that commits wrote, read as they lie there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.storage.places import files
from lakestream.storage.rows.reading import in_pieces, plain
from lakestream.storage.tables.looks import once

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lakestream.storage.tables.log import CommitInfo, WrittenFile
    from lakestream.storage.tables.table import Table


def added_rows(
    table: Table, commits: Sequence[CommitInfo], columns: Sequence[str]
) -> list[tuple[int, pa.Table]] | None:
    """Return the columns of the rows that commits added, with their version, a file each, in their order.

    None where the files alone do not tell: some rows were changed, or hidden by a deletion vector, columns
    were renamed, a file is in another place or gone, or it has columns of other types.
    """
    import pyarrow as pa

    if not columns or is_mapped(table) or not all(_only_adds(commit) for commit in commits):
        return None
    schema = stored_schema(table, columns)
    try:
        found = [
            (commit.version, _rows_of(table, file, schema))
            for commit in commits
            for file in commit.written or ()
        ]
    except (pa.ArrowException, OSError, KeyError):
        return None
    pieces = [(version, in_pieces(rows)) for version, rows in found if rows is not None]
    return pieces if len(pieces) == len(found) else None


def _only_adds(commit: CommitInfo) -> bool:
    if commit.misread or commit.written is None or not (commit.append_only or not commit.data_change):
        return False
    return not any(file.path.startswith("/") or ":" in file.path for file in commit.written)


def _rows_of(table: Table, file: WrittenFile, schema: pa.Schema) -> pa.Table | None:
    """Return a file's rows, None where a column is of another type than the table's, but for its unit."""
    import pyarrow as pa

    found, count = found_in_file(table, file, schema.names)
    rows = plain(with_missing(found, file, schema, count))
    for place, field in enumerate(schema):
        column = rows.column(place)
        if not column.type.equals(field.type):
            if not (pa.types.is_timestamp(column.type) and pa.types.is_timestamp(field.type)):
                return None
            rows = rows.set_column(place, field.name, column.cast(field.type))
    return rows


def found_in_file(table: Table, file: WrittenFile, columns: Sequence[str]) -> tuple[pa.Table, int]:
    """Return those of the columns that a file has, as they lie there, and its number of rows.

    Raises FileNotFoundError where it is gone, or another one than was written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if files.is_uri(table.path):
        content = once((table.path, file.path), lambda: files.read_bytes(table.path, file.path))
        source: pa.NativeFile = pa.BufferReader(content)
    else:
        source = pa.OSFile(files.join(table.path, file.path))
    with source:
        if file.size not in (None, source.size()):
            raise FileNotFoundError(file.path)
        with pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as opened:
            there = set(opened.schema_arrow.names)
            return opened.read([column for column in columns if column in there]), opened.metadata.num_rows


def with_missing(found: pa.Table, file: WrittenFile, schema: pa.Schema, count: int) -> pa.Table:
    """Return the columns of a schema, with those that a file lacks."""
    import pyarrow as pa

    columns = {
        field.name: found[field.name] if field.name in found.column_names else _missing(file, field, count)
        for field in schema
    }
    return pa.table(columns) if columns else pa.table({})


def _missing(file: WrittenFile, field: pa.Field, count: int) -> pa.Array:
    """Return a column that a file lacks: its partition's value, or NULL for one that came later."""
    import pyarrow as pa

    text = file.partition.get(field.name)
    if text is None:
        return pa.nulls(count, field.type)
    if pa.types.is_timestamp(field.type):
        text = text.rstrip("Z")
        moment = pa.scalar(text).cast(pa.timestamp("us"))
        return pa.repeat(moment, count).cast(pa.int64()).cast(field.type)
    return pa.repeat(pa.scalar(text).cast(field.type), count)


def stored_schema(table: Table, columns: Sequence[str]) -> pa.Schema:
    """Return the schema of columns, with plain types."""
    import pyarrow as pa

    return plain(pa.schema([table.schema.field(name) for name in columns]).empty_table()).schema


def is_mapped(table: Table) -> bool:
    """Return whether a table's files have its columns under other names."""
    return bool(table.properties.get("delta.columnMapping.mode", "none") != "none")
