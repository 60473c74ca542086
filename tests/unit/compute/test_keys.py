"""By which keys the rows of a query fall apart, and which of them a changed row of a table touches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from lakestream.compute.windows.calculation import Scope, compile_calculation
from lakestream.compute.windows.keyed.keys import Keys, keys_of
from lakestream.compute.windows.keyed.leads import NotKeyedError
from lakestream.language.model import Fragment
from lakestream.storage.small.dialect.query import duckdb_sql
from lakestream.storage.small.macros import Macros
from tests.unit.compute.test_calculation import METERS
from tests.unit.compute.test_reach import TABLES

CASES: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("keys.yaml").read_text("utf-8"))
CHAIN = (
    "SELECT r.f, s.most, count(*) FROM meters m LEFT JOIN sites s ON s.loc = m.loc "
    "LEFT JOIN regions r ON r.region = s.region GROUP BY r.f, s.most"
)


TYPES = {"loc": "string", "region": "string", "v": "int", "most": "int", "f": "double", "ts": "timestamp"}


def found(query: str) -> Keys:
    tables = {name: replace(table, types=TYPES) for name, table in TABLES.items()}
    meters = replace(METERS, types=TYPES)
    scope = Scope(meters, (), None, frozenset(), "UTC", lambda _, name, __: tables[name])
    return keys_of(compile_calculation(Fragment(query, statement=query, spark=True), scope))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["query"][:70])
def test_rows_fall_apart_by_keys(case: dict[str, Any]) -> None:
    if "why" in case:
        with pytest.raises(NotKeyedError, match=case["why"]):
            found(case["query"])
        return
    keys = found(case["query"])
    assert keys.said == case["keys"]
    assert sorted(keys.anywhere) == case.get("anywhere", [])
    assert (keys.alone and keys.alone.relation.key) == case.get("alone")


def test_rows_of_other_keys_are_left_out_where_columns_are_equal() -> None:
    query = (
        "SELECT s.loc, count(r.f) FROM sites s JOIN meters m ON m.loc = s.loc "
        "LEFT JOIN regions r ON {} GROUP BY s.loc"
    )
    by_view = {0: "sites", 1: "meters", 2: "regions"}

    def narrowed(on: str) -> list[tuple[str, str]]:
        (branch,) = found(query.format(on)).branches
        return [(by_view[int(view[-1])], column) for view, column, _ in branch.narrowed]

    assert narrowed("r.region = s.loc") == [("meters", "loc"), ("regions", "region"), ("sites", "loc")]
    # A row of meters without one of regions may have another gid than its loc.
    assert narrowed("r.region = s.loc AND r.region = m.tbname") == narrowed("r.region = s.loc")


@pytest.mark.parametrize(
    ("table", "moved", "touched"),
    [
        ("meters", (), {(7, 1)}),
        ("sites", (), {(None, None), (None, 1), (7, None), (7, 1)}),
        ("regions", (), {(None, 1), (7, 1)}),
        ("meters", ("main.sites",), {(None, None), (None, 1), (7, None), (7, 1)}),
        ("meters", ("main.regions",), {(None, 1), (7, 1)}),
    ],
)
def test_keys_with_and_without_what_may_be_joined(
    table: str, moved: tuple[str, ...], touched: set[tuple[object, ...]]
) -> None:
    (branch,) = found(CHAIN).branches
    (lead,) = (lead for lead in branch.leads if lead.read.relation.key == f"main.{table}")
    sql = lead.sql(table, lambda read: read.relation.key.split(".")[1], {f"main.{table}", *moved})
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE meters AS SELECT now() AS ts, 2 AS v, 'l' AS loc, 1 AS gid, 't' AS tbname"
    )
    connection.execute("CREATE TABLE sites AS SELECT 'l' AS loc, 'x' AS region, 1 AS most")
    connection.execute("CREATE TABLE regions AS SELECT 'x' AS region, 7 AS f")
    names = {name: name for name in TABLES}
    query = duckdb_sql(sql).over(names)
    Macros(connection).define(query)
    assert set(connection.execute(query).fetchall()) == touched
