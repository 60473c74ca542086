"""Event times that are no timestamps in their table: dates, times without a zone, numbers since 1970.

Whoever reads such a table gets timestamps under the column's name; the table stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from lakestream.errors import StatementError
from lakestream.language.model import TIME_UNITS
from lakestream.language.names import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_NUMBERS = {"bigint", "int"}
_WITHOUT_ZONE = {"date", "timestamp_ntz"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_US = 86_400_000_000
_MOST = 2**63 - 1


@dataclass(frozen=True)
class ReadTime:
    """How a column is read as a timestamp.

    ``kind`` is its Spark SQL type: ``date`` (its first instant), ``timestamp_ntz`` (both in ``zone``; a time
    that the clock passes over is as much later, one that it shows twice the first), or an integer that
    counts ``unit`` since 1970 UTC (NULL where that is beyond 64 bits of microseconds).
    """

    column: str
    kind: str
    zone: str = "UTC"
    unit: str | None = None

    @property
    def unit_us(self) -> int:
        """Microseconds of the unit of a column of integers."""
        return TIME_UNITS[self.unit or "MICROSECONDS"]

    @property
    def keeps_order(self) -> bool:
        """Whether the least and greatest value of the column are the first and last time."""
        return self.kind != "timestamp_ntz" or self.zone == "UTC"

    def sql(self) -> str:
        """Return Spark SQL of the timestamp, for a session in UTC."""
        name = quoted(self.column)
        if self.kind in _NUMBERS:
            return f"timestamp_micros(try_multiply(CAST({name} AS BIGINT), {self.unit_us}L))"
        return f"to_utc_timestamp(CAST({name} AS TIMESTAMP), '{self.zone}')"

    def arrow(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return values of the column as timestamps (µs, UTC)."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.kind in _NUMBERS:
            most = _MOST // self.unit_us
            inside = pc.and_(pc.greater_equal(values, -most), pc.less_equal(values, most))
            known = pc.if_else(inside, values.cast(pa.int64()), pa.scalar(None, pa.int64()))
            return pc.multiply(known, self.unit_us).cast(pa.timestamp("us", "UTC"))
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
        """Return conditions on the column that all rows of ``[lower, upper)`` (µs) meet.

        ``name`` is the column in SQL; Spark and delta-rs both read them, and skip files by them.
        """
        below = [] if lower is None else [f"{name} >= {self._least(lower)}"]
        return below if upper is None else [*below, f"{name} <= {self._greatest(upper)}"]

    def _least(self, micros: int) -> str:
        return str(micros // self.unit_us) if self.kind in _NUMBERS else self._local(micros - _DAY_US)

    def _greatest(self, micros: int) -> str:
        return str(-(-micros // self.unit_us)) if self.kind in _NUMBERS else self._local(micros + _DAY_US)

    def _local(self, micros: int) -> str:
        """Return a literal that is a day off: no zone is so far from UTC."""
        moment = _EPOCH + timedelta(microseconds=micros)
        text = moment.date().isoformat() if self.kind == "date" else moment.isoformat()[:19]
        return f"'{text}'"

    def widened(self, values: pa.ChunkedArray, sign: int) -> pa.ChunkedArray:
        """Return the least (``sign`` -1) or greatest values of files as µs that no row of them is beyond."""
        import pyarrow as pa
        import pyarrow.compute as pc

        micros = self.arrow(values).cast(pa.int64())
        return micros if self.keeps_order else pc.add(micros, sign * _DAY_US)


def read_time(column: str, kind: str, zone: str, unit: str | None) -> ReadTime | None:
    """Return how a column of a Spark SQL type is an event time, None for one that is a timestamp already.

    Raises StatementError TIME_COLUMN_TYPE for what is no time, or says no unit, or has none.
    """
    if kind in _NUMBERS and unit is not None:
        return ReadTime(column, kind, unit=unit)
    if kind in _NUMBERS or unit is not None or kind not in {"timestamp", *_WITHOUT_ZONE}:
        units = ", ".join(TIME_UNITS)
        raise StatementError(
            "TIME_COLUMN_TYPE",
            f"the column {column} of type {kind} is no time {f'in {unit}' if unit else 'as it is'}",
            hint=f"a TIMESTAMP, a DATE, a TIMESTAMP_NTZ, or a BIGINT or INT with its unit: {units}",
        )
    return ReadTime(column, kind, zone) if kind in _WITHOUT_ZONE else None


def timed_arrow(time: ReadTime | None, rows: pa.Table) -> pa.Table:
    """Return rows of a table with its event time as a timestamp, where they have it."""
    if time is None or time.column not in rows.column_names:
        return rows
    place = rows.column_names.index(time.column)
    return rows.set_column(place, time.column, time.arrow(rows[time.column]))


def timed_spark(time: ReadTime | None, rows: DataFrame) -> DataFrame:
    """Return what :func:`timed_arrow` does, of a DataFrame."""
    from pyspark.sql import functions as F  # noqa: N812

    if time is None or time.column not in rows.columns:
        return rows
    return rows.withColumn(time.column, F.expr(time.sql()))
