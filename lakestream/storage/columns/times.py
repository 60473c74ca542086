"""Event times that are no timestamps among a table's columns, and how readers get them as some.

Dates, times without a zone and numbers since 1970, in a column or a field of a struct, are read as what they
are; of anything else an expression gives the time. The table stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

from lakestream.errors import StatementError
from lakestream.language.model import TIME_UNITS
from lakestream.language.quoting import quoted, quoted_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

_NUMBERS = {"bigint", "int"}
_WITHOUT_ZONE = {"date", "timestamp_ntz"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_US = 86_400_000_000
_MOST = 2**63 - 1

_ERA_YEARS, _ERA_US = 400, 146_097 * _DAY_US
"""After as many years the calendar comes again."""
_LAST_YEAR = 9999


def iso(micros: int) -> str:
    """Return microseconds since 1970 UTC as text; a year before 0 or after 9999 has a sign (ISO 8601).

    >>> iso(1_500_000)
    '1970-01-01T00:00:01.500000'
    """
    eras, within = divmod(micros, _ERA_US)
    moment = (_EPOCH + timedelta(microseconds=within)).replace(tzinfo=None)
    year = moment.year + _ERA_YEARS * eras
    written = f"{year:04}" if 0 <= year <= _LAST_YEAR else f"{year:+05}"
    return f"{written}{moment.isoformat(timespec='microseconds')[4:]}"


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as Python has them: times as text where one is beyond its years."""
    try:
        found: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        found = [_value_of(value) for value in column]
    return found


def _value_of(value: Any) -> Any:  # noqa: ANN401 - a value of Arrow's, of any type
    import pyarrow as pa

    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_struct(kind):
        return {name: _value_of(field) for name, field in value.items()}
    if pa.types.is_map(kind):
        return [(_value_of(entry["key"]), _value_of(entry["value"])) for entry in value.values]
    if pa.types.is_list(kind):
        return [_value_of(one) for one in value.values]
    if pa.types.is_timestamp(kind):
        text = iso(value.cast(pa.timestamp("us", kind.tz)).value).replace("T", " ")
        return text if kind.tz is None else f"{text}Z"
    return iso(value.value * _DAY_US).partition("T")[0] if pa.types.is_date32(kind) else value.as_py()


class Part(NamedTuple):
    """What a time is made of: a column, and the fields behind it that lead into a struct; its type."""

    path: tuple[str, ...]
    type: str


@dataclass(frozen=True)
class ReadTime:
    """How a timestamp is made of a table's columns.

    ``column`` is its name among those that readers see. ``kind`` is the Spark SQL type of the value that it
    is made of: ``timestamp``, ``date`` (its first instant), ``timestamp_ntz`` (both in ``zone``; a time that
    the clock passes over is as much later, one that it shows twice the first), or an integer that counts
    ``unit`` since 1970 UTC (NULL where that is beyond 64 bits of microseconds). The value is the one of
    ``parts``, or what ``expression`` gives (Spark SQL over them, for a session in UTC); ``written`` is how
    a statement said so. Without parts it is the column of that name.
    """

    column: str
    kind: str
    zone: str = "UTC"
    unit: str | None = None
    parts: tuple[Part, ...] = ()
    expression: str = ""
    written: str = ""

    @property
    def path(self) -> tuple[str, ...]:
        """Where the value lies, unless an expression gives it: a column, and the fields behind it."""
        return self.parts[0].path if self.parts else (self.column,)

    @property
    def stored(self) -> tuple[str, ...]:
        """The columns of the table that the time is made of."""
        return tuple(dict.fromkeys(part.path[0] for part in self.parts)) or (self.column,)

    @property
    def description(self) -> str:
        """What the time is, in words."""
        return self.written or f"a {self.kind}"

    @property
    def unit_us(self) -> int:
        """Microseconds of the unit of a column of integers."""
        return TIME_UNITS[self.unit or "MICROSECONDS"]

    @property
    def keeps_order(self) -> bool:
        """Whether the least and greatest value of the column are the first and last time."""
        return self.kind != "timestamp_ntz" or self.zone == "UTC"

    @property
    def value(self) -> str:
        """Spark SQL of the value."""
        return self.expression or quoted_path(*self.path)

    def sql(self) -> str:
        """Return Spark SQL of the timestamp, for a session in UTC."""
        if self.kind in _NUMBERS:
            return f"timestamp_micros(try_multiply(CAST({self.value} AS BIGINT), {self.unit_us}L))"
        if self.kind in _WITHOUT_ZONE:
            return f"to_utc_timestamp(CAST({self.value} AS TIMESTAMP), '{self.zone}')"
        return self.value

    def of(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return the values among rows of the table, where no expression gives them."""
        import pyarrow.compute as pc

        column, *fields = self.path
        return pc.struct_field(rows[column], fields) if fields else rows[column]

    def arrow(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return values as timestamps (µs, UTC)."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.kind in _NUMBERS:
            most = _MOST // self.unit_us
            inside = pc.and_(pc.greater_equal(values, -most), pc.less_equal(values, most))
            known = pc.if_else(inside, values.cast(pa.int64()), pa.scalar(None, pa.int64()))
            return pc.multiply(known, self.unit_us).cast(pa.timestamp("us", "UTC"))
        if self.kind not in _WITHOUT_ZONE:
            return values.cast(pa.timestamp("us", "UTC"))
        local = values.cast(pa.timestamp("us"))
        return local.cast(pa.timestamp("us", "UTC")) if self.zone == "UTC" else self._from_zone(local)

    def _from_zone(self, local: pa.ChunkedArray) -> pa.ChunkedArray:
        """Read times of the zone as Java does, each different one once."""
        import pyarrow as pa
        import pyarrow.compute as pc

        zone, different = ZoneInfo(self.zone), pc.unique(local)
        moments = [None if at is None else at.replace(tzinfo=zone) for at in different.to_pylist()]
        return pa.array(moments, pa.timestamp("us", "UTC")).take(pc.index_in(local, different))

    def bounds(self, name: str, lower: int | None, upper: int | None) -> list[str]:
        """Return conditions on the value that all rows of ``[lower, upper)`` (µs) meet.

        ``name`` is the value in SQL; Spark and delta-rs both read them, and skip files by them. Of what an
        expression gives nothing follows for files.
        """
        if self.expression:
            return []
        below = [] if lower is None else [f"{name} >= {self._least(lower)}"]
        return below if upper is None else [*below, f"{name} <= {self._greatest(upper)}"]

    def _least(self, micros: int) -> str:
        return str(micros // self.unit_us) if self.kind in _NUMBERS else self._local(micros - _DAY_US)

    def _greatest(self, micros: int) -> str:
        return str(-(-micros // self.unit_us)) if self.kind in _NUMBERS else self._local(micros + _DAY_US)

    def _local(self, micros: int) -> str:
        """Return a literal that is a day off: no zone is so far from UTC."""
        date, _, clock = iso(micros).partition("T")
        if self.kind == "date":
            return f"'{date}'"
        return f"'{date}T{clock[:8]}{'Z' if self.kind == 'timestamp' else ''}'"

    def widened(self, values: pa.ChunkedArray, sign: int) -> pa.ChunkedArray:
        """Return the least (``sign`` -1) or greatest values of files as µs that no row of them is beyond."""
        import pyarrow as pa
        import pyarrow.compute as pc

        micros = self.arrow(values).cast(pa.int64())
        return micros if self.keeps_order else pc.add(micros, sign * _DAY_US)

    # --- as it is kept ---

    def kept(self) -> dict[str, Any]:
        """Return what is kept of a time with parts, in JSON, beside its column, unit and zone."""
        parts = [[*part.path, part.type] for part in self.parts]
        return {"kind": self.kind, "parts": parts, "sql": self.expression, "written": self.written}


def kept_time(column: str, zone: str, unit: str | None, kept: Mapping[str, Any]) -> ReadTime:
    """Return the time that :meth:`ReadTime.kept` gave."""
    parts = tuple(Part(tuple(path), kind) for *path, kind in kept["parts"])
    return ReadTime(column, kept["kind"], zone, unit, parts, kept["sql"], kept["written"])


def check_kind(kind: str, unit: str | None, what: str) -> None:
    """Raise StatementError TIME_COLUMN_TYPE for a Spark SQL type that is no time, or lacks its unit."""
    if (kind in _NUMBERS) == (unit is not None) and kind in {"timestamp", *_WITHOUT_ZONE, *_NUMBERS}:
        return
    units = ", ".join(TIME_UNITS)
    text = "; of a text: column FORMAT 'yyyy-mm-dd hh24:mi:ss', column FORMAT ISO8601" if not unit else ""
    raise StatementError(
        "TIME_COLUMN_TYPE",
        f"{what} of type {kind} is no time {f'in {unit}' if unit else 'as it is'}",
        hint=f"a TIMESTAMP, a DATE, a TIMESTAMP_NTZ, or a BIGINT or INT with its unit: {units}{text}; "
        "of anything else: (expression)",
    )


def read_time(column: str, kind: str, zone: str, unit: str | None) -> ReadTime | None:
    """Return how a column of a Spark SQL type is an event time, None for one that is a timestamp already.

    Raises StatementError TIME_COLUMN_TYPE for what is no time, or says no unit, or has none.
    """
    check_kind(kind, unit, f"the column {column}")
    return None if kind == "timestamp" else ReadTime(column, kind, zone if unit is None else "UTC", unit)


def stored_columns(time: ReadTime | None, columns: Sequence[str]) -> list[str]:
    """Return the columns of a table that those which readers ask for are made of."""
    if time is None or time.column not in columns:
        return list(columns)
    return list(dict.fromkeys([*(name for name in columns if name != time.column), *time.stored]))


def timed_arrow(time: ReadTime | None, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return the columns that readers ask for, of rows that have the stored ones and those besides."""
    import pyarrow as pa

    if time is None or time.column not in columns:
        return rows
    values = [time.arrow(time.of(rows)) if name == time.column else rows[name] for name in columns]
    return pa.table(values, list(columns))


def timed_spark(time: ReadTime | None, rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return what :func:`timed_arrow` does, of a DataFrame."""
    if time is None or time.column not in columns:
        return rows
    made = f"{time.sql()} AS {quoted(time.column)}"
    return rows.selectExpr(*(made if name == time.column else quoted(name) for name in columns))
