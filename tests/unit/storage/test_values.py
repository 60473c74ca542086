from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from lakestream.errors import NotSupportedError, StatementError
from lakestream.language.model import Now, Value
from lakestream.storage.columns.types import arrow_type, delta_field, spark_type, spark_type_of
from lakestream.storage.delta import insert_rows, read_arrow, update_where
from lakestream.storage.names.table_info import Column, TableInfo
from lakestream.storage.writes.values import convert, parse_time, rows_of_values, sql_literal

if TYPE_CHECKING:
    from lakestream.storage.names.catalog import Catalog

NOW = 1_735_689_600_000_000


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("timestamp", "2025-01-01 00:00:00", NOW),
        ("timestamp", "2025-01-01", NOW),
        ("timestamp", "2025-01-01T00:00:00.5Z", NOW + 500_000),
        ("timestamp", "2025-01-01 08:00:00.000001+08:00", NOW + 1),
        ("timestamp", "1969-12-31 23:59:59.5", -500_000),
        ("timestamp", 1_735_689_600_000, NOW),
        ("timestamp", Now(-5), NOW - 5),
        ("int", "12", 12),
        ("int", 3.0, 3),
        ("int", True, 1),
        ("double", 1, 1.0),
        ("double", Decimal("0.1"), 0.1),
        ("decimal(4,2)", 12.34, Decimal("12.34")),
        ("boolean", "TRUE", True),
        ("boolean", 0, False),
        ("string", "it's", "it's"),
        ("binary", "\\x00ff", b"\x00\xff"),
        ("bigint", None, None),
    ],
)
def test_a_value_is_read_by_the_type_of_its_column(kind: str, value: Value, expected: Any) -> None:
    assert convert(value, Column("c", kind), now_us=NOW) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("timestamp", "yesterday"),
        ("timestamp", "2025-02-30 00:00:00"),
        ("timestamp", "2025-01-01 00:00:00.0000001"),
        ("timestamp", 1.5),
        ("timestamp", True),
        ("timestamp", 10**18),
        ("tinyint", 128),
        ("int", 1.5),
        ("int", "x"),
        ("int", Now()),
        ("float", 1e39),
        ("double", "nan"),
        ("decimal(4,2)", "1.234"),
        ("decimal(4,2)", 123),
        ("boolean", 2),
        ("boolean", "yes"),
        ("string", 1),
        ("date", "01.01.2025"),
    ],
)
def test_what_does_not_fit_names_column_type_and_value(kind: str, value: Value) -> None:
    with pytest.raises(StatementError) as caught:
        convert(value, Column("c", kind), now_us=NOW)
    assert caught.value.code == "BAD_VALUE"
    assert caught.value.message.startswith(f"column c ({kind}) cannot hold ")


def test_times_without_a_zone_are_in_the_zone_of_the_lake() -> None:
    assert parse_time("2025-01-01 08:00", zone="Asia/Shanghai") == NOW
    assert parse_time("2025-01-01 08:00Z", zone="Asia/Shanghai") == NOW + 8 * 3_600_000_000
    with pytest.raises(StatementError, match="BAD_VALUE"):
        parse_time("later")


def test_rows_of_an_insert(catalog: Catalog, meters: TableInfo) -> None:
    fixed = {"tbname": "d1", "loc": "x"}
    rows = rows_of_values(meters, (), [("2025-01-01", 1.5, 2)], now_us=NOW, constants=fixed)
    insert_rows(meters, rows, tables=catalog.handles)
    rows = rows_of_values(meters, ("v", "ts"), [(2.5, Now(1_000))], now_us=NOW, constants=fixed)
    insert_rows(meters, rows, tables=catalog.handles)
    found = read_arrow(meters.path, columns=["v", "n", "tbname", "loc"]).sort_by("v").to_pylist()
    assert [tuple(r.values()) for r in found] == [(1.5, 2, "d1", "x"), (2.5, None, "d1", "x")]


@pytest.mark.parametrize(
    ("columns", "values", "code"),
    [
        ((), (1, 2), "VALUE_COUNT"),
        (("ts", "w"), (1, 2), "COLUMN_NOT_FOUND"),
        (("ts", "v", "v"), (1, 2, 3), "DUPLICATE_COLUMN"),
        (("ts", "loc"), (1, "x"), "COLUMN_NOT_FOUND"),
        (("v",), (1,), "BAD_VALUE"),
    ],
)
def test_what_is_wrong_with_an_insert_is_named(
    meters: TableInfo, columns: tuple[str, ...], values: tuple[Value, ...], code: str
) -> None:
    with pytest.raises(StatementError) as caught:
        rows_of_values(meters, columns, [values], now_us=NOW, constants={"tbname": "d1", "loc": "x"})
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("TIMESTAMP", "timestamp"),
        ("INT  UNSIGNED", "bigint"),
        ("BIGINT UNSIGNED", "decimal(20,0)"),
        ("VARCHAR(16)", "string"),
        ("nchar( 8 )", "string"),
        ("VARBINARY(4)", "binary"),
        ("DECIMAL(10, 2)", "decimal(10,2)"),
        ("DECIMAL(5)", "decimal(5,0)"),
        ("BOOL", "boolean"),
        ("TINYINT", "tinyint"),
    ],
)
def test_types_survive_the_way_to_delta(written: str, kind: str) -> None:
    assert spark_type(written) == kind
    assert spark_type_of(delta_field("c", kind)) == kind
    assert arrow_type(kind) is not None


def test_unknown_types_are_named() -> None:
    with pytest.raises(StatementError, match="did you mean float"):
        spark_type("FLAOT")
    with pytest.raises(StatementError, match="out of range"):
        spark_type("DECIMAL(40,2)")
    with pytest.raises(NotSupportedError, match="GEOMETRY"):
        spark_type("GEOMETRY(100)")


@pytest.mark.parametrize(
    ("kind", "value"),
    [("timestamp", NOW + 1), ("string", 'it\'s \\ "x"'), ("double", 1.5), ("int", None), ("boolean", True)],
)
def test_literals_mean_their_values(catalog: Catalog, kind: str, value: Any) -> None:
    columns = [Column("ts", "timestamp"), Column("c", kind)]
    info = catalog.create_table("main", "t", columns, time_column="ts", key=("ts",))
    insert_rows(info, rows_of_values(info, ("ts",), [(0,)], now_us=NOW), tables=catalog.handles)
    update_where(catalog.handle(info), {"c": sql_literal(value, columns[1])}, None)
    found = read_arrow(info.path)["c"]
    assert (found.cast("int64") if kind == "timestamp" else found).to_pylist() == [value]


def test_a_null_may_leave_the_old_value(catalog: Catalog) -> None:
    columns = [Column("who", "string"), Column("ts", "timestamp"), Column("A", "int"), Column("b", "int")]
    info = catalog.create_table("main", "kept", columns, time_column="ts", key=("who", "ts"))
    for row in (("x", 1_000, 1, 2), ("x", 1_000, None, 3), ("y", 1_000, 5, None), ("x", 1_000, 7, None)):
        rows = rows_of_values(info, (), [row], now_us=NOW)
        insert_rows(info, rows, tables=catalog.handles, keep_old=True)
    found = read_arrow(catalog.handles.open(info.path), columns=["who", "A", "b"]).sort_by("who")
    assert found.to_pylist() == [{"who": "x", "A": 7, "b": 3}, {"who": "y", "A": 5, "b": None}]
