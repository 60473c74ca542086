"""Columns and values as PostgreSQL has them."""

from __future__ import annotations

import json
import re
import struct
import sys
from array import array
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from pg_mimic import ARRAY_OID, ResultColumn
from pg_mimic import types as pg
from pg_mimic.messages import COPY_DATA, DATA_ROW
from pg_mimic.results import format_code_for
from pg_mimic.types import encode_value, encode_value_binary, pack_int16, pack_int32

from lakestream.engine.base.plain import plain
from lakestream.server.postgres.failing import refusal
from lakestream.storage.columns.times import values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], int], ...] = (
    (kinds.is_boolean, pg.BOOL),
    (kinds.is_int8, pg.INT2),
    (kinds.is_int16, pg.INT2),
    (kinds.is_uint8, pg.INT2),
    (kinds.is_int32, pg.INT4),
    (kinds.is_uint16, pg.INT4),
    (kinds.is_int64, pg.INT8),
    (kinds.is_uint32, pg.OID),
    (kinds.is_uint64, pg.NUMERIC),
    (kinds.is_decimal, pg.NUMERIC),
    (kinds.is_float16, pg.FLOAT4),
    (kinds.is_float32, pg.FLOAT4),
    (kinds.is_float64, pg.FLOAT8),
    (kinds.is_date, pg.DATE),
    (kinds.is_time, pg.TIME),
    (kinds.is_duration, pg.INTERVAL),
    (kinds.is_binary, pg.BYTEA),
    (kinds.is_large_binary, pg.BYTEA),
    (kinds.is_binary_view, pg.BYTEA),
)


_TIMES = (pg.TIMESTAMP, pg.TIMESTAMPTZ, pg.DATE)
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999, in microseconds since 1970."""
_SMALL, _LARGE = 1e-4, 1e300
"""Numbers between are written by Arrow as they are by PostgreSQL."""
_DAYS_TO_2000 = 10_957
_LONG = struct.Struct("!q")
_ZEROS = re.compile(r"\.?0{1,6}$")
"""What is not written of parts of a second."""
_YEAR = re.compile(r"([+-]?\d+)(-.*)")


def type_number(kind: pa.DataType) -> int:
    """Return the number that PostgreSQL has for a type; what it lacks is ``json`` or ``text``."""
    if kinds.is_timestamp(kind):
        return pg.TIMESTAMP if kind.tz is None else pg.TIMESTAMPTZ
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        element = type_number(kind.value_type)
        return pg.JSON if kinds.is_nested(kind.value_type) else ARRAY_OID.get(element, pg.JSON)
    if kinds.is_nested(kind):
        return pg.JSON
    return next((number for is_of, number in _SCALARS if is_of(kind)), pg.TEXT)


def result_columns(schema: pa.Schema) -> list[ResultColumn]:
    """Return the columns as PostgreSQL has them."""
    return [ResultColumn(field.name, type_number(field.type)) for field in schema]


def encoded(piece: pa.RecordBatch, formats: Sequence[int]) -> list[pa.Array]:
    """Return the values of each column as they are sent, as bytes: texts (0) or the binary form (1).

    There are as many ``formats`` as columns, or one for all, or none for texts. Raises PgError for a type
    that has no binary form, or a format that there is none of.
    """
    return [_encoded(column, format_code_for([*formats], at)) for at, column in enumerate(piece.columns)]


def data_rows(columns: Sequence[pa.Array], rows: int) -> bytes:
    """Return the messages of so many rows, whose values are given by column."""
    return _messages(DATA_ROW, _sized(columns, rows))


def copied_rows(columns: Sequence[pa.Array], rows: int, head: bytes) -> bytes:
    """Return the messages of rows in the binary form of COPY, whose values are given by column in theirs.

    ``head`` stands before the first one.
    """
    heads = pa.array([head, *[b""] * (rows - 1)])
    return _messages(COPY_DATA, pc.binary_join_element_wise(heads, _sized(columns, rows), b""))


def _sized(columns: Sequence[pa.Array], rows: int) -> pa.Array:
    """Return each row: how many values it has, and each with its length, which is -1 for NULL."""
    parts = [pa.repeat(pa.scalar(pack_int16(len(columns))), rows)]
    for column in columns:
        parts += [_numbers(pc.fill_null(pc.binary_length(column), -1)), pc.fill_null(column, b"")]
    return pc.binary_join_element_wise(*parts, b"")


def _messages(tag: bytes, bodies: pa.Array) -> bytes:
    sizes = _numbers(pc.add(pc.binary_length(bodies), 4))
    return b"".join(pc.binary_join_element_wise(tag, sizes, bodies, b"").to_pylist())


def _numbers(values: pa.Array) -> pa.Array:
    """Return whole numbers as the bytes of each, as they are sent."""
    swapped = array("i", values.to_pylist())
    if sys.byteorder == "little":
        swapped.byteswap()
    fixed = pa.Array.from_buffers(pa.binary(4), len(values), [None, pa.py_buffer(swapped.tobytes())])
    return fixed.cast(pa.binary())


def _encoded(column: pa.Array, code: int) -> pa.Array:
    number = type_number(column.type)
    if code not in (0, 1):
        raise refusal("22023", f"there is no format {code} of values")
    if code:
        pack = _PACKED.get(number) or partial(_in_binary, number)
        values = _counted(column) if number in _PACKED else _values(column, number)
        return pa.array([None if value is None else pack(value) for value in values], pa.binary())
    if (written := _TEXTS.get(number)) is not None and _is_plain(column):
        return written(column).cast(pa.binary())
    values = _values(column, number)
    texts = [None if value is None else encode_value(number, value) for value in values]
    return pa.array(texts, pa.string()).cast(pa.binary())


def _in_binary(number: int, value: object) -> bytes:
    try:
        return bytes(encode_value_binary(number, value))
    except ValueError as error:
        raise refusal("0A000", f"NOT_SUPPORTED: {error}", "ask for texts") from None


def _values(column: pa.Array, number: int) -> list[Any]:
    """Return the values of a column as Python has them; times beyond its years as PostgreSQL writes them."""
    found = values_of(column)
    if number == pg.JSON:
        return [None if value is None else json.dumps(plain(value)) for value in found]
    if number in _TIMES:
        return [_far_time(value) if isinstance(value, str) else value for value in found]
    return found


def _counted(column: pa.Array) -> list[Any]:
    """Return times as they are counted since 1970: days, or microseconds."""
    if kinds.is_date(column.type):
        return list(column.cast(pa.date32()).cast(pa.int32()).to_pylist())
    return list(_in_micros(column).cast(pa.int64()).to_pylist())


def _in_micros(column: pa.Array) -> pa.Array:
    return column.cast(pa.timestamp("us", column.type.tz), safe=False)


def _is_plain(column: pa.Array) -> bool:
    """Return whether Arrow writes the values of a column as PostgreSQL does: years, and small numbers."""
    if kinds.is_timestamp(column.type):
        return _lie_within(_in_micros(column).cast(pa.int64()), _FIRST_US, _LAST_US)
    if kinds.is_floating(column.type):
        return _lie_within(pc.abs(column.filter(pc.not_equal(column, 0)).cast(pa.float64())), _SMALL, _LARGE)
    return True


def _lie_within(values: pa.Array, low: float, high: float) -> bool:
    return pc.all(pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))).as_py() is not False


def _times_written(column: pa.Array) -> pa.Array:
    """Return times as PostgreSQL writes them: ``2025-01-01 08:10:00.5+00``."""
    zone, micros = "" if column.type.tz is None else "+00", _in_micros(column).cast(pa.timestamp("us"))
    try:
        texts = micros.cast(pa.timestamp("s")).cast(pa.string())
    except pa.ArrowInvalid:  # they have parts of seconds
        texts = pc.replace_substring_regex(micros.cast(pa.string()), _ZEROS.pattern, "")
    return pc.binary_join_element_wise(texts, zone, "")


def _far_time(text: str) -> str:
    """Return a time as PostgreSQL writes it, of years with more digits or before the first.

    >>> _far_time("+11476-08-15 05:20:00.000000Z"), _far_time("-0043-03-15")
    ('11476-08-15 05:20:00+00', '0044-03-15 BC')
    """
    year, rest = _YEAR.fullmatch(text.removesuffix("Z")).groups()  # type: ignore[union-attr]
    rest = (_ZEROS.sub("", rest) if "." in rest else rest) + "+00" * text.endswith("Z")
    return f"{year.lstrip('+')}{rest}" if int(year) > 0 else f"{1 - int(year):04}{rest} BC"


_TEXTS: dict[int, Callable[[pa.Array], pa.Array]] = {
    pg.TEXT: lambda column: column.cast(pa.string()),
    pg.BOOL: lambda column: pc.if_else(column, "t", "f"),
    **dict.fromkeys((pg.INT2, pg.INT4, pg.INT8, pg.OID), lambda column: column.cast(pa.string())),
    **dict.fromkeys((pg.FLOAT4, pg.FLOAT8), lambda column: column.cast(pa.string())),
    **dict.fromkeys((pg.TIMESTAMP, pg.TIMESTAMPTZ), _times_written),
}
"""How columns of a type are written as texts all at once."""
_PACKED: dict[int, Callable[[int], bytes]] = {
    pg.DATE: lambda days: pack_int32(days - _DAYS_TO_2000),
    **dict.fromkeys(
        (pg.TIMESTAMP, pg.TIMESTAMPTZ), lambda micros: _LONG.pack(micros - _DAYS_TO_2000 * 86_400_000_000)
    ),
}
"""How times are written in binary form, as they are counted since 1970."""
