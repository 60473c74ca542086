"""Types of columns: TDengine's as written, Spark SQL's as kept, Delta's and Arrow's as stored."""

from __future__ import annotations

import json
import re
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Any

from lakestream.errors import NotSupportedError, StatementError, did_you_mean
from lakestream.language.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from deltalake import Field
    from pyspark.sql import DataFrame

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
WIDER = {
    "tinyint": {"smallint", "int", "bigint", "float", "double"},
    "smallint": {"int", "bigint", "float", "double"},
    "int": {"bigint", "double"},
    "float": {"double"},
}
"""Spark SQL types that hold all values of another one."""
_NESTED = frozenset({"array", "map", "struct"})
_SPACED = {":": ": ", ",": ", "}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(r"`(?:[^`]|``)*`|[<>,:]|(?:\([^)]*\)|[^<>,:`(])+")
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
    """Return the Delta field of a column of a Spark SQL type, with its comment where Spark reads it.

    All is nullable, fields of structs and elements too.
    """
    from deltalake import Field

    return Field.from_json(json.dumps(_field(name, _kind(deque(_TOKEN.findall(spark))), comment)))


def spark_type_of(field: Field) -> str:
    """Return the Spark SQL type of a Delta field, as :func:`ddl` writes it: names of fields are logical."""
    return ddl(json.loads(field.type.to_json()))


def spark_type_in(kind: pa.DataType) -> str | None:
    """Return the Spark SQL type of values in Arrow, None where CREATE TABLE has no type for them."""
    import pyarrow.types as kinds

    if kinds.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return "string"
    if kinds.is_large_binary(kind) or kinds.is_binary_view(kind):
        return "binary"
    plain = sorted(found for found in _SIMPLE.values() if "(" not in found)
    return next((found for found in plain if arrow_type(found) == kind), None)


def ddl(kind: object) -> str:
    """Return the Spark SQL type of a type in the JSON that Delta and Spark share; nothing says NOT NULL.

    >>> ddl({"type": "array", "elementType": "long", "containsNull": True})
    'array<bigint>'
    """
    if not isinstance(kind, dict):
        return _SPARK.get(str(kind), str(kind).replace(", ", ","))
    if kind["type"] == "array":
        return f"array<{ddl(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{ddl(kind['keyType'])},{ddl(kind['valueType'])}>"
    if kind["type"] == "udt":
        return ddl(kind["sqlType"])
    fields = (f"{_name(field['name'])}:{ddl(field['type'])}" for field in kind["fields"])
    return f"struct<{','.join(fields)}>"


def type_within(spark: str, fields: Sequence[str]) -> str | None:
    """Return the type of a field in a struct, of one in that, and so on; None where there is none.

    >>> type_within("struct<id:bigint,at:struct<ts:timestamp>>", ["at", "ts"])
    'timestamp'
    """
    kind: Any = _kind(deque(_TOKEN.findall(spark)))
    for name in fields:
        inside = kind["fields"] if isinstance(kind, dict) and kind["type"] == "struct" else ()
        kind = next((field["type"] for field in inside if field["name"] == name), None)
    return None if kind is None else ddl(kind)


def is_widened(before: str, now: str) -> bool:
    """Return whether a Spark SQL type holds all values of another one, or is the same; structs may have more.

    >>> is_widened("array<struct<a:int>>", "array<struct<a:bigint,b:string>>")
    True
    >>> is_widened("decimal(10,2)", "decimal(11,3)"), is_widened("decimal(10,2)", "decimal(11,4)")
    (True, False)
    """
    return _is_wider(_kind(deque(_TOKEN.findall(before))), _kind(deque(_TOKEN.findall(now))))


def _is_wider(before: Any, now: Any) -> bool:  # noqa: ANN401 - a type in the JSON of Delta
    if before == now:
        return True
    if isinstance(before, dict) and isinstance(now, dict) and before["type"] == now["type"]:
        return _parts_are_wider(before, now)
    old, new = (_DECIMAL.match(str(kind)) for kind in (before, now))
    if old and new:
        (precision, scale), (digits, places) = (map(int, one.groups("0")) for one in (old, new))
        return places >= scale and digits - places >= precision - scale
    return ddl(now) in WIDER.get(ddl(before), ())


def _parts_are_wider(before: dict[str, Any], now: dict[str, Any]) -> bool:
    if before["type"] == "struct":
        kinds = {field["name"]: field["type"] for field in now["fields"]}
        return all(f["name"] in kinds and _is_wider(f["type"], kinds[f["name"]]) for f in before["fields"])
    if before["type"] == "array":
        return _is_wider(before["elementType"], now["elementType"])
    return bool(before["keyType"] == now["keyType"]) and _is_wider(before["valueType"], now["valueType"])


def fields_within(spark: str) -> list[str]:
    """Return the names of a struct's fields, none for another type."""
    kind: Any = _kind(deque(_TOKEN.findall(spark)))
    is_struct = isinstance(kind, dict) and kind["type"] == "struct"
    return [field["name"] for field in kind["fields"]] if is_struct else []


def shown_type(spark: str) -> str:
    """Return a Spark SQL type as it is shown: in upper case, but for the names of fields.

    >>> shown_type("struct<id:bigint,`a b`:array<string>>")
    'STRUCT<id: BIGINT, `a b`: ARRAY<STRING>>'
    """
    words = _TOKEN.findall(spark)
    followed = zip(words, [*words[1:], ""], strict=True)
    return "".join(_SPACED.get(word, word if after == ":" else word.upper()) for word, after in followed)


def holds_variant(spark: str) -> bool:
    """Return whether a Spark SQL type, as :func:`ddl` writes it, is VARIANT or has one in it.

    >>> holds_variant("struct<variant:int>"), holds_variant("array<variant>")
    (False, True)
    """
    words = _TOKEN.findall(spark)
    followed = zip(words, [*words[1:], ""], strict=True)
    return any(word == "variant" and after != ":" for word, after in followed)


def types_of(frame: DataFrame) -> dict[str, str]:
    """Return the Spark SQL types of a frame's columns; unlike its dtypes they parse, whatever is in them."""
    return {field["name"]: ddl(field["type"]) for field in frame.schema.jsonValue()["fields"]}


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)


def _kind(tokens: deque[str]) -> object:
    """Take a type off the tokens of a Spark SQL type, and return its JSON; the inverse of :func:`ddl`."""
    word = tokens.popleft()
    if word not in _NESTED:
        return _DELTA.get(word, word)
    parts = _parts(tokens, named=word == "struct")
    if word == "array":
        return {"type": word, "elementType": parts[0][1], "containsNull": True}
    if word == "map":
        return {"type": word, "keyType": parts[0][1], "valueType": parts[1][1], "valueContainsNull": True}
    return {"type": word, "fields": [_field(name, kind) for name, kind in parts]}


def _parts(tokens: deque[str], *, named: bool) -> list[tuple[str, object]]:
    """Take what stands between < and >: types, each with its name where it has one."""
    parts = []
    while tokens.popleft() != ">":  # of the first <, then of each comma
        if tokens[0] == ">":  # struct<>
            continue
        name = tokens.popleft() if named else ""
        if named:
            tokens.popleft()
        parts.append((name[1:-1].replace("``", "`") if name.startswith("`") else name, _kind(tokens)))
    return parts


def _field(name: str, kind: object, comment: str | None = None) -> dict[str, object]:
    return {
        "name": name,
        "type": kind,
        "nullable": True,
        "metadata": {"comment": comment} if comment else {},
    }


@cache
def arrow_type(spark: str) -> pa.DataType:
    """Return the Arrow type of a Spark SQL type: timestamps in microseconds, UTC."""
    import pyarrow as pa

    return pa.schema([pa.field(delta_field("c", spark))]).field(0).type
