"""What a Delta table is, found without Spark: its log, its statistics, and a look at some of its rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakestream.errors import StatementError, did_you_mean
from lakestream.language.model import TIME_UNITS
from lakestream.language.names import MAX_NAME, FreeNames, stored_name
from lakestream.language.quoting import delta_name, quoted
from lakestream.storage.columns.times import read_time
from lakestream.storage.columns.types import spark_type_of
from lakestream.storage.rows.reading import query_arrow
from lakestream.storage.tables.table import capabilities

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from lakestream.storage.columns.times import ReadTime
    from lakestream.storage.tables.table import Table

_SAMPLE = 10_000
"""Rows that a look takes."""
_GROUPS = range(2, 1_001)
"""How many values make a column one to group by."""
_DECIMALS = ("double", "float", "decimal")
_WHOLE = ("int", "bigint", "smallint", "tinyint")
_TIMES = (("timestamp", "timestamp_ntz"), ("date",))
"""Types of an event time, the better ones first."""
_EPOCHS = ("bigint", "int")
_CENTURY = (946_684_800, 4_102_444_800)
"""From 2000 to 2100, in seconds since 1970: a number in between is taken for a time."""
_LENGTHS = {"1m": 60, "1h": 3_600, "1d": 86_400}
_FEW_WINDOWS = 200
HISTORY = (
    *("version", "timestamp", "operation", "operationParameters", "readVersion", "isBlindAppend"),
    *("operationMetrics", "userMetadata", "engineInfo"),
)
"""The columns of DESCRIBE HISTORY, as Delta names them."""
_MAPS = ("operationParameters", "operationMetrics")
_OF_THE_TABLE = ("location", "metadata", "protocol")
"""What delta-rs notes of a commit that is no parameter of it, but what the table is."""


@dataclass(frozen=True)
class Inspection:
    """A Delta table at its latest version.

    ``columns`` are names and Spark SQL types. ``times`` are the columns that can be its event time, by the
    statistics of the files: those with the fewest NULLs first; ``unit`` is what the first one counts where
    that is a number. ``group`` and ``number`` are columns that a first stream could group by and take the
    mean of, None where the rows looked at show none. ``rows`` is None where statistics do not count them.
    ``span_seconds`` is from the first to the last time,
    None when no statistics tell; ``slow`` names what leaves some work to Spark, mostly table features.
    ``made_of`` is what the time is made of where that is more than a column of its name, ``by_days`` whether
    it is a date, and ``skips_files`` whether statistics tell which files have rows of a range of it.
    """

    path: str
    version: int
    files: int
    rows: int | None
    bytes: int
    columns: tuple[tuple[str, str], ...]
    partitioned_by: tuple[str, ...]
    features: tuple[str, ...]
    slow: tuple[str, ...]
    readable: bool
    writable: bool
    has_change_feed: bool
    times: tuple[str, ...]
    unit: str | None
    made_of: str
    by_days: bool
    skips_files: bool
    null_times: int
    span_seconds: float | None
    group: str | None
    number: str | None

    @property
    def time(self) -> str | None:
        """The column to take as event time."""
        return self.times[0] if self.times else None

    @property
    def window(self) -> str:
        """A length of windows that cuts the table's time into some hundred of them at most, if days do."""
        if self.by_days:
            return "1d"
        fitting = (
            name
            for name, seconds in _LENGTHS.items()
            if self.span_seconds is not None and self.span_seconds / seconds <= _FEW_WINDOWS
        )
        return next(fitting, "1d")

    @property
    def windows(self) -> int | None:
        """How many windows of that length the table's time has, for each group."""
        if self.span_seconds is None:
            return None
        return int(self.span_seconds // _LENGTHS[self.window]) + 1


def inspect(table: Table, time: str | None = None, unit: str | None = None) -> Inspection:
    """Look at a table; ``time`` is its event time where that is known already, ``unit`` what it counts.

    Raises StatementError COLUMN_NOT_FOUND, TIME_COLUMN_TYPE for such a time.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    can = capabilities(table)
    columns = tuple((field.name, spark_type_of(field)) for field in table.fields)
    files = pa.table(table.handle.get_add_actions(flatten=True))
    made = table.time_of(time) if time is not None else None
    times = _times(files, columns) if time is None else [time if made else _known(time, columns)]
    if times and made is None:
        unit = unit or _unit(files, times[0], dict(columns))
        made = read_time(times[0], dict(columns)[times[0]], "UTC", unit)
    statistic = table.statistic_of(times[0]) if times else ""
    group, number = _for_a_stream(table, columns) if can.arrow_reads else (None, None)
    return Inspection(
        path=table.path,
        version=table.version,
        files=files.num_rows,
        rows=None if files["num_records"].null_count else pc.sum(files["num_records"]).as_py() or 0,
        bytes=pc.sum(files["size_bytes"]).as_py() or 0,
        columns=columns,
        partitioned_by=table.partition_columns,
        features=tuple(sorted(table.features)),
        slow=can.reasons if made is None or not made.expression else (*can.reasons, "its time"),
        readable=can.arrow_reads and can.arrow_changes,
        writable=can.arrow_writes,
        has_change_feed=table.has_change_feed,
        times=tuple(times),
        unit=unit,
        made_of=made.written if made else "",
        by_days=made is not None and made.kind == "date",
        skips_files=bool(statistic),
        null_times=_nulls(files, statistic),
        span_seconds=_span(files, statistic, made),
        group=group,
        number=number,
    )


def first_stream(found: Inspection, table: str) -> str | None:
    """Return a CREATE STREAM over a table of that name that runs as it stands; None without a time."""
    if found.time is None:
        return None
    unit = {"1m": "minute", "1h": "hour", "1d": "day"}[found.window]
    endings = f"_per_{unit}_stream", f"_per_{unit}"
    names = [quoted(table[: MAX_NAME - len(ending)] + ending) for ending in endings]
    grouped = f" PARTITION BY {quoted(found.group)}" if found.group else ""
    free = FreeNames([stored_name(found.group)] if found.group else [])
    begin, count, mean = (quoted(free.take(name)) for name in (f"{unit}_begin", "n", _mean_of(found)))
    averaged = f", avg({quoted(found.number)}) AS {mean}" if found.number else ""
    return (
        f"CREATE STREAM {names[0]}\n"
        f"  INTERVAL({found.window}) SLIDING({found.window}) FROM {quoted(table)}{grouped}\n"
        "  STREAM_OPTIONS(FILL_HISTORY)\n"
        f"  INTO {names[1]}\n"
        f"  AS SELECT _twstart AS {begin}, count(*) AS {count}{averaged} FROM %%trows"
    )


def _mean_of(found: Inspection) -> str:
    """Return a name for the mean of the column that it is taken of."""
    return stored_name(f"mean_{found.number}")


def repeated_rows(table: Table, columns: tuple[str, ...]) -> int:
    """Return how many values of the columns together stand in more than one row, without a JVM."""
    listed = ", ".join(map(delta_name, columns))
    repeated = f"SELECT {listed} FROM t GROUP BY {listed} HAVING count(*) > 1"  # quoted names
    return int(query_arrow(table, None, f"SELECT count(*) AS n FROM ({repeated})")["n"][0].as_py())


def _nulls(files: pa.Table, column: str) -> int:
    """Return how many NULLs the statistics of the files tell of."""
    import pyarrow.compute as pc

    name = f"null_count.{column}"
    return int(pc.sum(files[name]).as_py() or 0) if name in files.column_names else 0


def _known(column: str, columns: tuple[tuple[str, str], ...]) -> str:
    names = [name for name, _ in columns]
    if column not in names:
        raise StatementError(
            "COLUMN_NOT_FOUND", f"the table has no column {column}", hint=did_you_mean(column, names)
        )
    return column


def _times(files: pa.Table, columns: tuple[tuple[str, str], ...]) -> list[str]:
    """Return the columns of the best type of time there is, numbers last."""
    of_types = [[name for name, kind in columns if kind in kinds] for kinds in _TIMES]
    numbers = [name for name, _ in columns if _unit(files, name, dict(columns)) is not None]
    found = next(filter(None, [*of_types, numbers]), [])
    return sorted(found, key=lambda name: _nulls(files, name))


def _unit(files: pa.Table, column: str, kinds: dict[str, str]) -> str | None:
    """Return what a column of numbers counts if it is a time of this century, None otherwise."""
    ends = _ends(files, column) if kinds[column] in _EPOCHS else None
    if ends is None:
        return None
    import pyarrow.compute as pc

    low, high = pc.min(ends[0]).as_py(), pc.max(ends[1]).as_py()
    first, last = _CENTURY
    seconds = {unit: 1_000_000 // micros for unit, micros in TIME_UNITS.items()}
    inside = (unit for unit, many in seconds.items() if first * many <= low and high < last * many)
    return next(inside, None)


def _ends(files: pa.Table, column: str) -> tuple[pa.ChunkedArray, pa.ChunkedArray] | None:
    """Return the least and greatest values of the files, None unless statistics tell some."""
    names = [f"min.{column}", f"max.{column}"]
    if not set(names) <= set(files.column_names) or any(files[n].null_count == files.num_rows for n in names):
        return None
    return files[names[0]], files[names[1]]


def _span(files: pa.Table, column: str, time: ReadTime | None) -> float | None:
    """Return the seconds from the least to the greatest time that the statistics tell of."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = _ends(files, column)
    if ends is None:
        return None
    low, high = (
        (pc.cast(values, pa.timestamp("us", "UTC")) if time is None else time.arrow(values)).cast(pa.int64())
        for values in ends
    )
    return float(pc.max(high).as_py() - pc.min(low).as_py()) / 1e6


def _for_a_stream(table: Table, columns: tuple[tuple[str, str], ...]) -> tuple[str | None, str | None]:
    """Return a column to group by and one to take the mean of, by some of the rows."""
    texts = [name for name, kind in columns if kind == "string"]
    numbers = [name for kinds in (_DECIMALS, _WHOLE) for name, kind in columns if kind.startswith(kinds)]
    wanted = [*texts, *numbers]
    if not wanted:
        return None, None
    listed = ", ".join(map(delta_name, wanted))
    rows = query_arrow(table, None, f"SELECT {listed} FROM t LIMIT {_SAMPLE}")
    # A column of which each row has a value of its own names the rows and groups nothing.
    values = {name: len(set(rows[name].to_pylist())) for name in wanted}
    group = next((n for n in texts if values[n] in _GROUPS and 2 * values[n] <= rows.num_rows), None)
    kinds = dict(columns)
    number = next((n for n in numbers if kinds[n].startswith(_DECIMALS) or values[n] < rows.num_rows), None)
    return group, number


def history(table: Table, limit: int | None) -> list[tuple[Any, ...]]:
    """Return the commits that a table's log has as rows of DESCRIBE HISTORY, the newest first."""
    return [_commit_row(commit) for commit in table.handle.history(limit)]


def _commit_row(commit: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a commit of Delta's log as a row of DESCRIBE HISTORY; its time is in milliseconds since 1970."""
    told = {**commit, "timestamp": datetime.fromtimestamp(commit["timestamp"] / 1000, UTC)}
    for name in _MAPS:
        kept = {key: value for key, value in (told.get(name) or {}).items() if key not in _OF_THE_TABLE}
        told[name] = json.dumps(kept) if kept else None
    return tuple(told.get(name) for name in HISTORY)


def properties(table: Table) -> dict[str, str]:
    """Return what Delta and lakestream keep of a table by key, and its protocol: SHOW TBLPROPERTIES."""
    protocol = table.handle.protocol()
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    return {
        **table.handle.metadata().configuration,
        "delta.minReaderVersion": str(protocol.min_reader_version),
        "delta.minWriterVersion": str(protocol.min_writer_version),
        **{f"delta.feature.{feature}": "supported" for feature in features},
    }
