"""CREATE MATERIALIZED VIEW as text: which windows a query has, what is computed in them, why it has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlglot import exp

from lakestream.language import parse_statement
from lakestream.language.expressions.parsing import parse_query, place_in
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


@pytest.mark.parametrize(
    ("query", "line", "column"),
    [
        ("SELECT k, sum(nope) AS n FROM t GROUP BY k, window(ts, '10 minutes')", 1, 45),
        ("SELECT window.start AS s,\n  k,\n  sum(nope) AS n\nFROM t GROUP BY k, window(ts, '1 hour')", 3, 7),
        ("SELECT window.end AS s, sum(v) AS n FROM t\nWHERE nope > 1 GROUP BY window(ts, '1 day')", 2, 7),
        (
            "SELECT k, session_window.start AS s,\n sum(nope) FROM t GROUP BY k, session_window(ts, '1 h')",
            2,
            6,
        ),
        ("SELECT k, sum(v) AS n,\n max(`nope`) AS m FROM t GROUP BY k", 2, 6),
    ],
)
def test_what_a_view_says_is_where_it_was_written(query: str, line: int, column: int) -> None:
    calculation = view(query).calculation
    (named,) = (node for node in parse_query(calculation).find_all(exp.Column) if node.name == "nope")
    place = place_in(calculation, named)
    assert (place.line, place.column) == (line, column)
