"""Values of statements as values of columns, and back as literals of delta-rs's SQL."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from lakestream.errors import StatementError
from lakestream.language.common.zones import zone_of
from lakestream.language.model import ColumnName, Now, Value
from lakestream.language.quoting import delta_text, quoted_text
from lakestream.storage.columns.types import arrow_type
from lakestream.storage.rows.reading import timestamp_literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from lakestream.storage.names.table_info import Column, TableInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENT = re.compile(
    r"^(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2})?)(?:\.(\d{1,9}))?)?\s*(Z|[+-]\d{2}(?::?\d{2})?)?$",
    re.IGNORECASE,
)
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_MIN_MICROS = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_MAX_MICROS = (datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_TRUTH = {"true": True, "false": False, "t": True, "f": False, 1: True, 0: False, "1": True, "0": False}
_FLOAT_MAX = 3.4028234663852886e38


def rows_of_values(
    info: TableInfo,
    columns: Sequence[str],
    rows: Sequence[Sequence[Value]],
    *,
    now_us: int,
    zone: str = "UTC",
    constants: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Return the rows of an INSERT as an Arrow table for ``edits.insert_rows``.

    ``columns`` empty means the table's columns in order, without hidden ones and without those of
    ``constants``: columns of one value for all rows, converted already (``tbname`` and the tags of a
    subtable). Times without a zone are in ``zone``; ``now_us`` is what NOW stands for. Raises
    StatementError COLUMN_NOT_FOUND, DUPLICATE_COLUMN, VALUE_COUNT or BAD_VALUE.
    """
    import pyarrow as pa

    fixed = constants or {}
    named = named_columns(info, columns, fixed)
    _check_counts(info, named, rows)
    data: dict[str, pa.Array] = {}
    for position, column in enumerate(named):
        values = [row[position] for row in rows]
        converted = _all_converted(values, column, now_us=now_us, zone=zone)
        data[column.name] = pa.array(converted, arrow_type(column.type))
    for name, value in fixed.items():
        data[name] = pa.array([value] * len(rows), arrow_type(info.column(name).type))
    return pa.table(data)


def named_columns(info: TableInfo, columns: Sequence[str], fixed: Mapping[str, Any]) -> list[Column]:
    """Return the columns that rows fill, all but the hidden and ``fixed`` ones when none is named.

    Raises StatementError COLUMN_NOT_FOUND, DUPLICATE_COLUMN, or BAD_VALUE where the time is not among them.
    """
    if not columns:
        return [c for c in info.columns if c.name not in fixed and c.name not in info.hidden]
    for name in columns:
        if columns.count(name) > 1:
            raise StatementError("DUPLICATE_COLUMN", f"the column {name} is there twice")
        if name in fixed:
            place = name.place if isinstance(name, ColumnName) else None
            said = f"{name} is a tag: its value belongs to the subtable"
            raise StatementError("COLUMN_NOT_FOUND", said, place=place)
    named = [info.column(name) for name in columns]
    if (info.key or info.external) and info.time_column and info.time_column not in columns:
        raise StatementError("BAD_VALUE", f"the columns lack {info.time_column}, the time of a row")
    return named


def _check_counts(info: TableInfo, named: Sequence[Column], rows: Sequence[Sequence[Value]]) -> None:
    for number, row in enumerate(rows, 1):
        if len(row) != len(named):
            names = ", ".join(column.name for column in named)
            raise StatementError(
                "VALUE_COUNT",
                f"row {number} of {info.database}.{info.name} has {len(row)} values, not {len(named)}",
                hint=f"the columns are {names}",
            )


def _all_converted(values: Sequence[Value], column: Column, *, now_us: int, zone: str) -> list[Any]:
    """Return the values of a column; of several rows the error says which one."""
    converted: list[Any] = []
    try:
        for value in values:
            converted.append(convert(value, column, now_us=now_us, zone=zone))  # noqa: PERF401 (it is counted)
    except StatementError as error:
        if len(values) > 1:
            error.message = f"row {len(converted) + 1}: {error.message}"
        raise
    return converted


def convert(value: Value, column: Column, *, now_us: int, zone: str = "UTC") -> Any:  # noqa: ANN401
    """Return a statement's value as the column's: what Arrow takes for its type.

    A timestamp becomes microseconds since 1970 UTC, from text (``2025-01-01 00:00:00.000``, in ``zone``
    unless it says Z or an offset), from milliseconds, or from NOW. Raises StatementError BAD_VALUE
    naming column, type and value for what does not fit exactly.
    """
    if value is None:
        return None
    kind = column.type.partition("(")[0]
    try:
        if kind == "timestamp":
            return _timestamp(value, now_us, zone)
        return _CONVERTERS[kind](value, column.type)
    except (ValueError, KeyError, InvalidOperation, OverflowError) as error:
        reason = f": {error}" if isinstance(error, _UnfitError) else ""
        raise StatementError(
            "BAD_VALUE", f"column {column.name} ({column.type}) cannot hold {_shown(value)}{reason}"
        ) from error


def parse_time(text: str, *, zone: str = "UTC") -> int:
    """Return a time as written in microseconds since 1970 UTC; StatementError BAD_VALUE otherwise."""
    try:
        return _moment(text, zone)
    except ValueError as error:
        raise StatementError("BAD_VALUE", f"{text!r} is not a time", hint=_TIME_HINT) from error


def spark_literal(converted: Any, column: Column) -> str:  # noqa: ANN401
    """Return a converted value as a literal of Spark's SQL."""
    if converted is None:
        return "NULL"
    if column.type == "timestamp":
        return f"timestamp_micros({converted}L)"
    if isinstance(converted, bytes):
        return f"X'{converted.hex()}'"
    return f"CAST({quoted_text(str(converted))} AS {column.type})"


def sql_literal(converted: Any, column: Column) -> str:  # noqa: ANN401
    """Return a converted value as a literal of delta-rs's SQL."""
    if converted is None:
        return "NULL"
    if column.type == "timestamp":
        return timestamp_literal(converted)
    if isinstance(converted, bool):
        return "true" if converted else "false"
    if isinstance(converted, bytes):
        return f"X'{converted.hex()}'"
    if isinstance(converted, str | date):
        return delta_text(str(converted))
    return str(converted)


class _UnfitError(ValueError):
    """A value that is of the right kind and does not fit; the text says why."""


_TIME_HINT = "write '2025-01-31 12:00:00.000', with T, Z or an offset if you like"


def _timestamp(value: Value, now_us: int, zone: str) -> int:
    if isinstance(value, Now):
        micros = now_us + value.offset_micros
    elif isinstance(value, str):
        micros = _moment(value, zone)
    elif isinstance(value, int) and not isinstance(value, bool):
        micros = value * 1_000
    else:
        raise _UnfitError("a time is text, whole milliseconds since 1970 UTC, or NOW")
    if not _MIN_MICROS <= micros <= _MAX_MICROS:
        raise _UnfitError("it is outside the years 1 to 9999")
    return micros


def _moment(text: str, zone: str) -> int:
    parts = _MOMENT.match(text.strip())
    if parts is None:
        raise _UnfitError(_TIME_HINT)
    day, clock, fraction, offset = parts.groups()
    moment = datetime.fromisoformat(f"{day}T{clock or '00:00'}{(offset or '').upper()}")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone_of(zone))
    digits = (fraction or "").ljust(9, "0")
    if digits[6:] != "000":
        raise _UnfitError("times are kept in microseconds")
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1) + int(digits[:6])


def _integer(value: Value, kind: str) -> int:
    number = _exact(value)
    if number != number.to_integral_value():
        raise _UnfitError("it is not a whole number")
    bits = _BITS[kind]
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise _UnfitError(f"the range is {-(2 ** (bits - 1))} to {2 ** (bits - 1) - 1}")
    return int(number)


def _exact(value: Value) -> Decimal:
    """Return a number, or a text of one, without rounding."""
    if isinstance(value, bool):
        return Decimal(int(value))
    if isinstance(value, int | Decimal | str):
        number = Decimal(value)
    elif isinstance(value, float):
        number = Decimal(repr(value))
    else:
        raise _UnfitError("a number is needed")
    if not number.is_finite():
        raise _UnfitError("it is not a finite number")
    return number


def _floating(value: Value, kind: str) -> float:
    number = float(_exact(value))
    if math.isinf(number) or (kind == "float" and abs(number) > _FLOAT_MAX):
        raise _UnfitError("it is too large")
    return number


def _decimal(value: Value, kind: str) -> Decimal:
    precision, scale = (int(part) for part in kind[len("decimal(") : -1].split(","))
    number = _exact(value)
    exponent = Decimal(1).scaleb(-scale)
    rounded = number.quantize(exponent)
    if rounded != number:
        raise _UnfitError(f"more than {scale} decimals")
    if len(rounded.as_tuple().digits) > precision:
        raise _UnfitError(f"more than {precision} digits")
    return rounded


def _text(value: Value, _kind: str) -> str:
    if not isinstance(value, str):
        raise _UnfitError("text stands in quotes")
    return value


def _binary(value: Value, kind: str) -> bytes:
    text = _text(value, kind)
    return bytes.fromhex(text[2:]) if text.startswith("\\x") else text.encode()


def _truth(value: Value, _kind: str) -> bool:
    if isinstance(value, float | Decimal | Now):
        raise _UnfitError("true or false is needed")
    return _TRUTH[value.lower() if isinstance(value, str) else value]


def _date(value: Value, kind: str) -> date:
    return date.fromisoformat(_text(value, kind))


_CONVERTERS: dict[str, Callable[[Value, str], Any]] = {
    **dict.fromkeys(_BITS, _integer),
    "float": _floating,
    "double": _floating,
    "decimal": _decimal,
    "string": _text,
    "binary": _binary,
    "boolean": _truth,
    "date": _date,
}


def _shown(value: Value) -> str:
    if isinstance(value, Now):
        return "NOW"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
