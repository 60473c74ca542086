"""An output that is there already: what fits it, and what is made of the rest."""

from __future__ import annotations

import pytest

from lakestream.engine.streams.target import check_existing, output_shape, refuse_tag_types
from lakestream.errors import StatementError
from lakestream.language import parse_script
from lakestream.language.expressions.parsing import column_names, parse_query
from lakestream.language.model import CreateStream, StreamDefinition
from lakestream.output.columns import OutputColumn, OutputShape
from lakestream.storage.names.table_info import Column, TableInfo

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


def classic(into: str = "o TAGS (place VARCHAR(9))", by: str = "place") -> StreamDefinition:
    return _defined(
        f"CREATE STREAM s INTO {into} AS SELECT _wstart, count(*) FROM m PARTITION BY {by} INTERVAL(1s)"
    )


def _defined(text: str) -> StreamDefinition:
    (statement,) = parse_script(text)
    assert isinstance(statement, CreateStream)
    return statement.definition


NEW = _defined(
    "CREATE STREAM s INTERVAL(1s) SLIDING(1s) FROM m PARTITION BY place INTO o "
    "AS SELECT _twstart AS _wstart, count(*) AS count FROM %%trows"
)

TIME, TBNAME = Column("at", "timestamp"), Column("tbname", "string")


def test_converted_columns_are_those_of_the_table_in_order() -> None:
    there = table(TIME, Column("n", "int"), TBNAME, Column("room", "string", is_tag=True))
    shape = check_existing(there, SHAPE, classic(), ["string"])
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
        ((TIME, Column("n", "int"), TBNAME), "no tag for place"),
    ],
)
def test_what_cannot_be_converted_is_refused(columns: tuple[Column, ...], says: str) -> None:
    with pytest.raises(StatementError, match=says) as refused:
        check_existing(table(*columns), SHAPE, classic(), ["string"])
    assert refused.value.code == "OUTPUT_MISMATCH"


def test_without_conversion_names_and_types_must_match() -> None:
    there = table(TIME, Column("count", "bigint"), TBNAME, Column("place", "string", is_tag=True))
    with pytest.raises(StatementError, match="column 1 is at timestamp there and _wstart"):
        check_existing(there, SHAPE, NEW, ["string"])


def test_a_tag_has_the_type_of_the_table_also_where_a_column_may_be_wider() -> None:
    columns = (TIME, Column("count", "bigint"), TBNAME)
    shape = OutputShape(
        (
            OutputColumn("at", "timestamp", "c1"),
            OutputColumn("count", "int", "c2"),
            OutputColumn("tbname", "string", "concat('t', _ls_g1)"),
            OutputColumn("place", "int", "_ls_g1", is_tag=True),
        ),
        ("tbname", "at"),
    )
    fits = check_existing(table(*columns, Column("place", "int", is_tag=True)), shape, NEW, ["int"])
    assert [column.type for column in fits.columns] == ["timestamp", "bigint", "string", "int"]
    with pytest.raises(StatementError, match="tag 1 is place bigint there and place int"):
        check_existing(table(*columns, Column("place", "bigint", is_tag=True)), shape, NEW, ["int"])


def test_tags_of_a_table_are_found_by_their_names_where_the_statement_names_them() -> None:
    there = table(
        TIME,
        Column("n", "bigint"),
        TBNAME,
        Column("other", "int", is_tag=True),
        Column("place", "string", is_tag=True),
    )
    shape = check_existing(there, SHAPE, classic("o TAGS (place)"), ["string"])
    assert [column.name for column in shape.columns] == ["at", "n", "tbname", "place"]
    with pytest.raises(StatementError, match="tag 2 is place string there and nothing"):
        check_existing(there, SHAPE, classic(), ["string"])


def test_tags_of_the_table_take_the_grouping_columns_in_order_where_nothing_names_them() -> None:
    there = table(
        TIME,
        Column("n", "bigint"),
        TBNAME,
        Column("a", "string", is_tag=True),
        Column("b", "int", is_tag=True),
    )
    grouped = OutputShape(
        (*SHAPE.columns[:3], OutputColumn("group_id", "bigint", "_ls_gid", is_tag=True)), SHAPE.key
    )
    shape = check_existing(there, grouped, classic("o", "place, floor"), ["string", "int"])
    assert [(column.name, column.sql) for column in shape.columns[3:]] == [("a", "_ls_g1"), ("b", "_ls_g2")]


def test_types_of_tags_are_for_a_table_that_is_made() -> None:
    there = table(TIME, Column("n", "bigint"), TBNAME, Column("place", "string", is_tag=True))
    refuse_tag_types(there, classic("o TAGS (place)"))
    refuse_tag_types(there, classic("o"))
    with pytest.raises(StatementError, match="TAGS gives place a type") as refused:
        refuse_tag_types(there, classic())
    assert refused.value.code == "TAG_TYPE_GIVEN"
    assert refused.value.hint == "TAGS (place)"


def test_a_result_without_a_name_goes_into_a_column_of_its_text() -> None:
    unnamed = _defined(
        "CREATE STREAM s INTERVAL(1s) SLIDING(1s) FROM m INTO o "
        "AS SELECT _twstart AS at, AVG(v + 1) FROM %%trows"
    )
    shape = output_shape(unnamed, ("at", "avg_v_1"), ["timestamp", "double"], [], "UTC")
    there = table(TIME, Column("avg(v+1)", "double"))
    assert check_existing(there, shape, unnamed, []).columns[1].name == "avg(v+1)"
    with pytest.raises(StatementError, match=r"column 2 is avg\(v\) double there and avg_v_1 double"):
        check_existing(table(TIME, Column("avg(v)", "double")), shape, unnamed, [])


def grouped(by: str, query: str) -> StreamDefinition:
    stream = f"CREATE STREAM s INTERVAL(1s) SLIDING(1s) FROM m PARTITION BY {by} INTO o"
    return _defined(f"{stream} AS SELECT _twstart AS at, {query}")


@pytest.mark.parametrize(
    ("by", "result", "columns", "key"),
    [
        ("place", "count(*) AS n", ("at", "n", "place", "window"), ("place", "at")),
        ("place", "%%1 AS Place", ("at", "Place", "window"), ("Place", "at")),
        ("place, v > 1 AS big", "place", ("at", "place", "big", "window"), ("place", "big", "at")),
        ("place", "first(v) AS window", ("at", "window", "place", "window_1"), ("place", "at")),
        ("tbname", "count(*) AS n", ("at", "n", "tbname", "tag_tbname", "window"), ("tbname", "at")),
    ],
)
def test_what_groups_are_called_in_the_output(
    by: str, result: str, columns: tuple[str, ...], key: tuple[str, ...]
) -> None:
    defined = grouped(by, f"{result} FROM %%trows")
    names = column_names(parse_query(defined.calculation).selects)
    kinds = ["string"] * len(defined.partition_by)
    shape = output_shape(defined, names, ["timestamp", "bigint"], kinds, "UTC")
    assert (*[column.name for column in shape.columns], *shape.places.types) == columns
    assert shape.key == key


@pytest.mark.parametrize(
    ("by", "query"),
    [
        ("place", "first(v) AS place FROM %%trows"),
        ("place", "place FROM elsewhere"),
        ("place", "place FROM (SELECT 1 AS place FROM %%trows)"),
        ("v > 1 AS place", "place FROM %%trows"),
        ("tbname, place", "place FROM %%trows"),
    ],
)
def test_a_result_that_is_called_as_a_group_and_is_none_is_refused(by: str, query: str) -> None:
    with pytest.raises(StatementError, match="column place is there twice") as refused:
        grouped(by, query)
    assert refused.value.code == "DUPLICATE_COLUMN"
