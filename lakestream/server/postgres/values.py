"""Columns and values as PostgreSQL has them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as kinds
from pg_mimic import ARRAY_OID, ResultColumn
from pg_mimic import types as pg

from lakestream.engine.base.plain import plain
from lakestream.storage.columns.times import values_of

if TYPE_CHECKING:
    from collections.abc import Callable

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
_LISTED_TIMES = tuple(ARRAY_OID[number] for number in _TIMES)


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


def told_rows(table: pa.Table) -> tuple[list[ResultColumn], list[tuple[Any, ...]]]:
    """Return the columns and the rows of a table; times beyond Python's years make a column of texts."""
    columns, values = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        number, found = type_number(field.type), values_of(column)
        if number == pg.JSON:
            found = [None if value is None else json.dumps(plain(value)) for value in found]
        elif number in _TIMES and any(isinstance(value, str) for value in found):
            number = pg.TEXT
        elif number in _LISTED_TIMES and any(isinstance(one, str) for value in found for one in value or ()):
            number = ARRAY_OID[pg.TEXT]
        columns.append(ResultColumn(field.name, number))
        values.append(found)
    return columns, list(zip(*values, strict=True))
