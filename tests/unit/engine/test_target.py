"""An output that is there already: what fits it, and what is made of the rest."""

from __future__ import annotations

import pytest

from lakestream.engine.target import check_existing
from lakestream.errors import StatementError
from lakestream.output.columns import OutputColumn, OutputShape
from lakestream.storage.catalog import Column, TableInfo

SHAPE = OutputShape(
    (
        OutputColumn("_wstart", "timestamp", "c1"),
        OutputColumn("count", "bigint", "c2"),
        OutputColumn("tbname", "string", "concat('t', _ls_g1)"),
        OutputColumn("place", "string", "_ls_g1", is_tag=True),
    ),
    ("tbname", "_wstart"),
)


def table(*columns: Column) -> TableInfo:
    return TableInfo("main", "o", "/o", "stable", columns, "at", ("tbname", "at"))


TIME, TBNAME = Column("at", "timestamp"), Column("tbname", "string")


def test_converted_columns_are_those_of_the_table_in_order() -> None:
    there = table(TIME, Column("n", "int"), TBNAME, Column("room", "string", is_tag=True))
    shape = check_existing(there, SHAPE, by_name=False, converts=True)
    assert [(column.name, column.type, column.sql) for column in shape.columns] == [
        ("at", "timestamp", "c1"),
        ("n", "int", "try_cast(c2 AS int)"),
        ("tbname", "string", "concat('t', _ls_g1)"),
        ("room", "string", "_ls_g1"),
    ]
    assert shape.key == ("tbname", "at")


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (
            (Column("at", "bigint"), Column("n", "int"), TBNAME, Column("room", "string", is_tag=True)),
            "at bigint",
        ),
        ((TIME, Column("n", "date"), TBNAME, Column("room", "string", is_tag=True)), "n date"),
        ((TIME, Column("n", "int"), Column("m", "int"), TBNAME), "column 3 is m int"),
        ((TIME, Column("n", "int"), TBNAME, Column("room", "string")), "column 4 is room"),
        ((TIME, Column("n", "int"), TBNAME), "no column for place"),
    ],
)
def test_what_cannot_be_converted_is_refused(columns: tuple[Column, ...], says: str) -> None:
    with pytest.raises(StatementError, match=says) as refused:
        check_existing(table(*columns), SHAPE, by_name=False, converts=True)
    assert refused.value.code == "OUTPUT_MISMATCH"


def test_without_conversion_names_and_types_must_match() -> None:
    there = table(TIME, Column("count", "bigint"), TBNAME, Column("place", "string", is_tag=True))
    with pytest.raises(StatementError, match="column 1 is at timestamp there and _wstart"):
        check_existing(there, SHAPE, by_name=False, converts=False)
