"""Types as they are kept, in Spark SQL, and as Delta has them: one way and back."""

from __future__ import annotations

import pytest

from lakestream.storage.types import arrow_type, delta_field, spark_type_of


@pytest.mark.parametrize(
    "kind",
    [
        *("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string", "binary", "date"),
        *("timestamp", "timestamp_ntz", "decimal(38,18)", "variant"),
        "array<int>",
        "array<array<decimal(10,2)>>",
        "map<string,bigint>",
        "map<string,struct<a:int,b:array<map<int,timestamp>>>>",
        "struct<a:int>",
        "struct<>",
        "struct<order:string,`a b`:tinyint,`tick``s`:struct<`x,y:z<>`:array<string>>,`ü`:date>",
    ],
)
def test_a_type_is_kept_as_it_is(kind: str) -> None:
    field = delta_field("c", kind, "a comment")
    assert spark_type_of(field) == kind
    assert (field.name, field.nullable, field.metadata) == ("c", True, {"comment": "a comment"})


def test_the_names_of_fields_are_the_logical_ones() -> None:
    from deltalake import Field

    inner = (
        '{"name":"id","type":"long","nullable":false,"metadata":{"delta.columnMapping.physicalName":"col-1"}}'
    )
    field = Field.from_json(
        f'{{"name":"c","type":{{"type":"struct","fields":[{inner}]}},"nullable":false,"metadata":{{}}}}'
    )
    assert spark_type_of(field) == "struct<id:bigint>"


def test_nested_types_are_arrows() -> None:
    assert (
        str(arrow_type("map<string,array<timestamp>>")) == "map<string, list<element: timestamp[us, tz=UTC]>>"
    )
