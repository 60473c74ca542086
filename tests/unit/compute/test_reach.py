"""By which ways a change of a table leads to windows: what a query says, and what it leaves open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from lakestream.compute.windows.calculation import Relation, Scope, compile_calculation
from lakestream.compute.windows.reach import paths_of
from lakestream.language.model import Fragment
from tests.unit.compute.test_calculation import METERS, PLACEHOLDERS

TABLES = {
    "meters": METERS,
    "sites": Relation("main.sites", ("loc", "region", "most"), ""),
    "regions": Relation("main.regions", ("region", "f"), ""),
    "ref": Relation("main.ref", ("ts", "p", "loc"), "ts"),
}
CASES: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("reach.yaml").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["query"][:70])
def test_a_change_leads_where_the_query_lets_it(case: dict[str, Any]) -> None:
    query = case["query"]
    scope = Scope(METERS, ("_ls_g1",), 1, PLACEHOLDERS, "UTC", lambda _, name, __: TABLES[name])
    paths = paths_of(compile_calculation(Fragment(query, statement=query), scope))
    found = [path for path in paths if path.read.relation.key == f"main.{case['table']}"]
    assert [path.said if path.leads else "any window" for path in found] == case["ways"]
