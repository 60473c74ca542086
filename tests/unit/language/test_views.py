"""CREATE MATERIALIZED VIEW as text: which windows a query has, what is computed in them, why it has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from lakestream.language import parse_statement
from lakestream.language.model import (
    CreateStream,
    IntervalTrigger,
    SessionTrigger,
    StreamDefinition,
    WholeTrigger,
)

CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "data" / "views.yaml").read_text("utf-8")
)


def view(query: str) -> StreamDefinition:
    statement = parse_statement(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert isinstance(statement, CreateStream)
    return statement.definition


@pytest.mark.parametrize("case", [one for one in CASES if "windows" in one], ids=lambda one: one["windows"])
def test_windows_of_a_grid(case: dict[str, Any]) -> None:
    found = view(case["query"])
    trigger = found.trigger
    assert isinstance(trigger, IntervalTrigger)
    assert f"{trigger.length}/{trigger.offset}/{trigger.step}" == case["windows"]
    assert found.calculation.sql == case["calculation"]
    assert (found.source.name, str(found.output)) == ("t", "v")


@pytest.mark.parametrize("case", [one for one in CASES if "sessions" in one], ids=lambda one: one["sessions"])
def test_sessions_of_one_table(case: dict[str, Any]) -> None:
    found = view(case["query"])
    trigger, kept = found.trigger, found.options.pre_filter
    assert isinstance(trigger, SessionTrigger)
    keys = ", ".join(key.expression.sql for key in found.partition_by)
    assert f"{trigger.gap} by {keys} of {kept and kept.sql}" == case["sessions"]
    assert (trigger.column, found.source.name, found.calculation.sql) == ("ts", "t", case["calculation"])


@pytest.mark.parametrize("case", [case for case in CASES if "why" in case], ids=lambda case: case["why"])
def test_what_is_computed_as_a_whole(case: dict[str, Any]) -> None:
    found = view(case["query"])
    assert found.trigger == WholeTrigger()
    assert found.options.view is not None
    assert case["why"] in found.options.view.why
    assert "_lswin" not in found.calculation.sql


def test_sessions_of_another_time_than_the_tables_may_be_computed_by_keys() -> None:
    query = "SELECT k, count(*) AS n FROM t GROUP BY session_window(at, '1 minute'), k"
    statement = parse_statement(f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL AS {query}")
    assert isinstance(statement, CreateStream)
    assert statement.otherwise is not None
    assert statement.otherwise.trigger == WholeTrigger()
