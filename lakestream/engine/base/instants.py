"""Instants written in statements, and instants of tables, as microseconds since 1970 UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakestream.language.quoting import quoted
from lakestream.storage.delta import capabilities, read_arrow, read_spark
from lakestream.storage.names.table_info import Column
from lakestream.storage.writes.values import convert, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.language.model import Now
    from lakestream.storage.delta import Table

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TIME = Column("time", "timestamp")


def to_micros(moment: datetime) -> int:
    """Return an aware datetime as microseconds since 1970 UTC, exactly."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return microseconds since 1970 UTC as an aware datetime."""
    return _EPOCH + micros * _MICROSECOND


def latest(one: int | None, other: int | None) -> int | None:
    """Return the later one of two instants; None is none."""
    return other if one is None else one if other is None else max(one, other)


def parse_instant(written: str, zone: str) -> int:
    """Return a time of a statement in microseconds: ISO text (in ``zone`` unless it names one) or ms.

    Raises StatementError BAD_VALUE.
    """
    return int(written) * 1_000 if written.lstrip("-").isdigit() else parse_time(written, zone=zone)


def instant_micros(written: int | str | Now, now_us: int, zone: str) -> int:
    """Return a time of a statement, milliseconds or text or relative to now, in microseconds.

    Raises StatementError BAD_VALUE, also for one outside the years 1 to 9999.
    """
    return int(convert(written, _TIME, now_us=now_us, zone=zone))


def newest_time(table: Table, column: str, spark: Callable[[], SparkSession]) -> int | None:
    """Return the newest time in a column of the table at the version seen last, None when there is none.

    It comes from the statistics of the files where all of them have some, else from the rows; ``spark`` is
    asked for those that delta-rs cannot read.
    """
    return _extreme_time(table, column, "max", spark)


def oldest_time(table: Table, column: str, spark: Callable[[], SparkSession]) -> int | None:
    """Return the oldest time in a column, as :func:`newest_time` does the newest."""
    return _extreme_time(table, column, "min", spark)


def tells_newest(table: Table, column: str) -> bool:
    """Return whether the files' statistics tell the newest time in a column: no row need be read for it."""
    return _told(table, column, "max") is not None


def _extreme_time(table: Table, column: str, which: str, spark: Callable[[], SparkSession]) -> int | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    values = _told(table, column, which)
    if values is None:
        values = _times(table, column, which, spark)
    found = pc.min_max(values)[which].cast(pa.timestamp("us", "UTC"))
    return None if found.as_py() is None else int(found.value)


def _told(table: Table, column: str, which: str) -> pa.ChunkedArray | None:
    """Return the times at one end of the files by their statistics, None where some have none."""
    import pyarrow as pa

    files = pa.table(table.handle.get_add_actions(flatten=True))
    if files.num_rows == 0:
        return pa.chunked_array([], pa.timestamp("us", "UTC"))
    values = _from_statistics(table, files, f"{which}.{table.statistic_of(column)}", column)
    return None if values is None or values.null_count else values


def _times(table: Table, column: str, which: str, spark: Callable[[], SparkSession]) -> pa.ChunkedArray:
    """Return times of the rows, among them the one at an end."""
    if capabilities(table).arrow_reads:
        return read_arrow(table, None, columns=[column])[column]
    rows = read_spark(spark(), table, table.version, columns=[column])
    return rows.selectExpr(f"{which}({quoted(column)}) AS at").toArrow()["at"]


def _from_statistics(table: Table, files: pa.Table, name: str, column: str) -> pa.ChunkedArray | None:
    """Return what the statistics of the files say of the times at one end, NULL where they do not."""
    if name not in files.column_names:
        return None
    time = table.time_of(column)
    if time is None:
        return files[name]
    return time.arrow(files[name]) if time.keeps_order else None
