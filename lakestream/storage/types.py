"""Types of columns: TDengine's as written, Spark SQL's as kept, Delta's and Arrow's as stored."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from lakestream.errors import NotSupportedError, StatementError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import Field

_SIMPLE = {
    "timestamp": "timestamp",
    "tinyint": "tinyint",
    "tinyint unsigned": "smallint",
    "smallint": "smallint",
    "smallint unsigned": "int",
    "int": "int",
    "integer": "int",
    "int unsigned": "bigint",
    "integer unsigned": "bigint",
    "bigint": "bigint",
    "bigint unsigned": "decimal(20,0)",
    "float": "float",
    "double": "double",
    "bool": "boolean",
    "boolean": "boolean",
    "varchar": "string",
    "nchar": "string",
    "binary": "string",
    "string": "string",
    "json": "string",
    "varbinary": "binary",
    "date": "date",
}
"""TDengine's types (and a few of Spark's own); unsigned ones take the next wider signed type."""

_DELTA = {
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
}
_SPARK = {delta: spark for spark, delta in _DELTA.items()}
_DECIMAL = re.compile(r"^(?:decimal|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)$")
_WITH_LENGTH = re.compile(r"^(varchar|nchar|binary|varbinary)\s*\(\s*(\d+)\s*\)$")
_MAX_PRECISION = 38


def spark_type(tdengine_type: str) -> str:
    """Return the Spark SQL type of a TDengine type as written; lengths of texts are not kept.

    Unsigned integers become the next wider signed type. Raises StatementError UNKNOWN_TYPE, or
    NotSupportedError for GEOMETRY and BLOB.
    """
    text = " ".join(tdengine_type.lower().split())
    decimal = _DECIMAL.match(text)
    if decimal:
        return _decimal(tdengine_type, int(decimal[1]), int(decimal[2] or 0))
    with_length = _WITH_LENGTH.match(text)
    name = with_length[1] if with_length else text
    if name in _SIMPLE:
        return _SIMPLE[name]
    if name.partition("(")[0].strip() in {"geometry", "blob", "mediumblob"}:
        raise NotSupportedError(
            f"the type {tdengine_type.upper()}", hint="VARCHAR or VARBINARY holds the bytes"
        )
    raise StatementError("UNKNOWN_TYPE", f"{tdengine_type!r} is not a type", hint=did_you_mean(name, _SIMPLE))


def _decimal(written: str, precision: int, scale: int) -> str:
    if not 1 <= precision <= _MAX_PRECISION or scale > precision:
        raise StatementError(
            "UNKNOWN_TYPE", f"{written!r} is out of range", hint="DECIMAL(p,s) has 1 <= p <= 38 and s <= p"
        )
    return f"decimal({precision},{scale})"


def delta_field(name: str, spark: str, comment: str | None = None) -> Field:
    """Return the Delta field of a column, nullable, with its comment where Spark reads it."""
    from deltalake import Field
    from deltalake.schema import PrimitiveType

    return Field(
        name, PrimitiveType(_DELTA.get(spark, spark)), metadata={"comment": comment} if comment else None
    )


def spark_type_of(field: Field) -> str:
    """Return the Spark SQL type of a Delta field; nested types as Delta's JSON."""
    delta = json.loads(field.type.to_json())
    if isinstance(delta, str):
        return _SPARK.get(delta, delta.replace(" ", ""))
    return json.dumps(delta)


def arrow_type(spark: str) -> pa.DataType:
    """Return the Arrow type of a simple Spark SQL type: timestamps in microseconds, UTC."""
    import pyarrow as pa

    return pa.schema([pa.field(delta_field("c", spark))]).field(0).type
