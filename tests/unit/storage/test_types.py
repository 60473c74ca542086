"""Types as they are kept, in Spark SQL, and as Delta has them: one way and back."""

from __future__ import annotations

import pytest

from lakestream.storage.columns.types import arrow_type, delta_field, is_widened, spark_type_of


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


@pytest.mark.parametrize(
    ("before", "now", "holds"),
    [
        ("int", "int", True),
        ("smallint", "int", True),
        ("int", "smallint", False),
        ("int", "float", False),
        ("int", "string", False),
        ("string", "int", False),
        ("float", "double", True),
        ("decimal(10,2)", "decimal(12,4)", True),
        ("decimal(10,2)", "decimal(11,4)", False),
        ("decimal(10,2)", "decimal(12,1)", False),
        ("array<int>", "array<bigint>", True),
        ("array<int>", "map<int,int>", False),
        ("map<int,int>", "map<int,bigint>", True),
        ("map<int,int>", "map<bigint,int>", False),
        ("struct<a:int>", "struct<b:string,a:bigint>", True),
        ("struct<a:int,b:int>", "struct<a:int>", False),
        ("struct<a:array<struct<x:int>>>", "struct<a:array<struct<x:date>>>", False),
    ],
)
def test_a_wider_type_holds_all_values_of_another_one(before: str, now: str, *, holds: bool) -> None:
    assert is_widened(before, now) is holds
