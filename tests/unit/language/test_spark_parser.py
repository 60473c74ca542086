"""Spark's SQL is written out as what Spark reads in it, and names of tables mean what they mean there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlglot import exp

from lakestream import Lake
from lakestream.errors import Place, StatementError
from lakestream.language.expressions.parsing import parse_query
from lakestream.language.expressions.written import refuse_unwritten
from lakestream.language.model import Fragment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        # Operators bind as in Spark's grammar: * before +, - and ||, then shifts, & and ^ and |.
        ("1 & 2 >> 1", "1 & SHIFTRIGHT(2, 1)"),
        ("1 << 2 + 3", "SHIFTLEFT(1, 2 + 3)"),
        ("20 >>> 2 | 1", "SHIFTRIGHTUNSIGNED(20, 2) | 1"),
        ("a > b", "a > b"),
        # An interval of several units is one value.
        ("INTERVAL 2 WEEKS 3 MICROSECONDS * 1.5", "INTERVAL '2 WEEKS 3 MICROSECONDS' * 1.5"),
        ("a - INTERVAL '1' DAY '2' HOUR", "a - INTERVAL '1 DAY 2 HOUR'"),
        # Numbers tell their types.
        ("5L", "CAST(5 AS BIGINT)"),
        ("-9223372036854775808L", "-CAST(9223372036854775808 AS BIGINT)"),
        ("1.5D", "CAST(1.5 AS DOUBLE)"),
        ("1e3D", "CAST(1e3 AS DOUBLE)"),
        ("2F", "CAST(2 AS FLOAT)"),
        ("3.25BD", "CAST('3.25' AS DECIMAL(3, 2))"),
        # Functions that sqlglot has others for, or fewer arguments.
        ("named_struct('b', a)", "NAMED_STRUCT('b', a)"),
        ("regexp_extract_all(a, b, 1)", "REGEXP_EXTRACT_ALL(a, b, 1)"),
    ],
)
def test_an_expression_is_written_out_as_it_is_meant(written: str, meant: str) -> None:
    fragment = Fragment(f"SELECT {written} AS x")
    tree = parse_query(fragment)
    assert tree.sql("spark") == f"SELECT {meant} AS x"
    refuse_unwritten(fragment, tree, lambda _: Place(1, 1))


def test_texts_are_joined_from_left_to_right_as_numbers_are_added() -> None:
    total = parse_query(Fragment("SELECT a || 1 + 2")).selects[0]
    assert isinstance(total, exp.Add)
    assert isinstance(total.this, exp.DPipe)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder: Path = tmp_path_factory.mktemp("named")
    with Lake(folder / "lake") as lake:
        lake.sql("CREATE TABLE q (ts TIMESTAMP, x INT)")
        lake.sql("INSERT INTO q VALUES ('2026-01-01', 42)")
        yield lake


def rows(lake: Lake, query: str) -> list[tuple[object, ...]]:
    answer = lake.sql(query).arrow
    assert answer is not None
    return [tuple(row.values()) for row in answer.to_pylist()]


@pytest.mark.parametrize(
    ("query", "row"),
    [
        ("SELECT y, x FROM (WITH q AS (SELECT 1 AS x) SELECT x + 1 AS y FROM q), q", (2, 42)),
        ("SELECT (WITH q AS (SELECT 1 AS x) SELECT x + 1 FROM q) AS z, x FROM q", (2, 42)),
        ("WITH q AS (SELECT x + 1 AS x FROM q) SELECT q.x, max(q.x) OVER () AS m FROM q", (43, 43)),
        (
            "WITH q AS (SELECT x + 1 AS x FROM q), r AS (SELECT x + 1 AS y FROM q) SELECT x, y FROM q, r",
            (43, 44),
        ),
        ("WITH r AS (SELECT x FROM q), q AS (SELECT 1 AS x) SELECT r.x AS a, q.x AS b FROM r, q", (42, 1)),
        (
            "WITH q AS (SELECT 5 AS x), r AS (WITH q AS (SELECT 6 AS y) SELECT y FROM q) SELECT * FROM r, q",
            (6, 5),
        ),
        ("WITH q(z) AS (SELECT 1 AS x) SELECT q.z, (SELECT max(x) FROM main.q) AS m FROM q", (1, 42)),
        ("WITH Q AS (SELECT 1 AS x) SELECT s.x, t.x AS y FROM q AS s, (SELECT x FROM Q) AS t", (1, 1)),
    ],
)
def test_a_name_means_the_table_that_is_named_nearest_before_it(
    lake: Lake, query: str, row: tuple[int, ...]
) -> None:
    assert rows(lake, query) == [row]


def test_the_members_of_a_union_name_tables_each_for_itself(lake: Lake) -> None:
    query = "SELECT x FROM q UNION ALL (WITH q AS (SELECT 7 AS x) SELECT x FROM q) ORDER BY x"
    assert rows(lake, query) == [(7,), (42,)]


def test_very_many_names_are_told_apart_without_looking_at_each_for_each() -> None:
    named = ", ".join(f"c{at} AS (SELECT {at} AS x FROM c{at - 1})" for at in range(1, 1_000))
    tree = parse_query(
        Fragment(f"WITH {named} SELECT x FROM c999, (WITH c1 AS (SELECT 1 AS y) SELECT y FROM c1)")
    )
    assert [one.alias for one in tree.ctes[:2]] == ["_ls_cte_0", "c2"]
    assert "FROM _ls_cte_0 AS c1" in tree.sql("spark")


def test_a_function_is_no_table_of_its_name() -> None:
    within = "SELECT * FROM range(3), (WITH range AS (SELECT 1 AS x) SELECT x FROM range) AS r"
    tree = parse_query(Fragment(f"WITH range AS (SELECT 2 AS x) {within}"))
    assert tree.find(exp.Table).this.name.lower() == "range"  # type: ignore[union-attr]
    assert "_ls_cte_1 AS range" in tree.sql("spark")


def test_no_table_is_one_that_is_named_later(lake: Lake) -> None:
    with pytest.raises(StatementError, match=r"there is no table main\.later") as refused:
        lake.sql("WITH r AS (SELECT * FROM later), later AS (SELECT 1 AS x) SELECT 2 FROM r")
    assert refused.value.code == "TABLE_NOT_FOUND"
