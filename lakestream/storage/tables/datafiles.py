"""The data files of a table that hold rows of a range of time, by the statistics of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.storage.places import files
from lakestream.storage.tables.log import TIME_CUT_US

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

    from lakestream.storage.tables.table import Table

    Span = tuple[int | None, int | None]
    """A range of event time ``[lower, upper)`` (µs since 1970 UTC; None: no bound)."""

_ROW_BYTES = 16
"""What a row takes in a file that tells no number of rows: rather too little."""
_GLOB = set("*?[]{}\\")


def data_files(table: Table, version: int, time: str, lower: int | None, upper: int | None) -> pa.Table:
    """Return the files that may have rows of ``[lower, upper)`` (µs since 1970 UTC; None: no bound).

    Columns are those of delta-rs's ``get_add_actions``; a file without statistics is among them.
    """
    return within(table, table.at(version), time, lower, upper)


def within(
    table: Table, handle: DeltaTable, time: str | None, lower: int | None, upper: int | None
) -> pa.Table:
    """Return the files that a handle on a table has of a range, as :func:`data_files` does."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pa.table(handle.get_add_actions(flatten=True))
    if time is None:
        return found
    name = table.statistic_of(time)
    least, greatest = f"min.{name}", f"max.{name}"
    if not {least, greatest} <= set(found.column_names):
        return found
    inside = pa.array([True] * found.num_rows, pa.bool_())
    if lower is not None:
        last = file_times(table, time, found[greatest], 1)
        inside = pc.and_kleene(inside, pc.greater_equal(last, lower - TIME_CUT_US))
    if upper is not None:
        inside = pc.and_kleene(inside, pc.less(file_times(table, time, found[least], -1), upper))
    return found.filter(pc.fill_null(inside, True))


def rows_between(table: Table, time: str, lower: int, upper: int) -> int:
    """Return about how many rows of the table lie in ``[lower, upper)`` (µs), by its files' statistics."""
    return rows_of(data_files(table, table.version, time, lower, upper))


def rows_in(table: Table) -> int:
    """Return about how many rows a table has, by its files' statistics."""
    import pyarrow as pa

    return rows_of(pa.table(table.handle.get_add_actions()))


def rows_of(found: pa.Table) -> int:
    """Return how many rows files have, of delta-rs's ``get_add_actions``; about, where statistics do not."""
    import pyarrow.compute as pc

    estimated = pc.divide(found["size_bytes"], _ROW_BYTES)
    return pc.sum(pc.coalesce(found["num_records"], estimated)).as_py() or 0


def has_plain_files(table: Table) -> bool:
    """Return whether a local table's data files have all columns of their rows, under their names.

    Which rows of a file are deleted is another question.
    """
    mapped = table.properties.get("delta.columnMapping.mode", "none") != "none"
    return not (mapped or is_elsewhere(table) or table.partition_columns)


def is_elsewhere(table: Table) -> bool:
    """Return whether Spark cannot be given the paths of a table's files as they are."""
    return files.is_uri(table.path) or bool(_GLOB & set(table.path))


def file_times(table: Table, time: str, values: pa.ChunkedArray, sign: int) -> pa.ChunkedArray:
    """Return least (``sign`` -1) or greatest times of files, by their statistics, in µs since 1970 UTC."""
    import pyarrow as pa

    read = table.time_of(time)
    if read is not None:
        return read.widened(values, sign)
    return values.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
