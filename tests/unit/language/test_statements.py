"""Statements as text: what they say, or why they are refused and where."""

from __future__ import annotations

import re
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakestream.errors import StatementError
from lakestream.language import parse_script, parse_statement

DATA = Path(__file__).parent / "data"
ACCEPTED = yaml.safe_load((DATA / "accepted.yaml").read_text(encoding="utf-8"))
REFUSED = yaml.safe_load((DATA / "refused.yaml").read_text(encoding="utf-8"))


def _follow(value: Any, path: str) -> Any:
    steps = re.findall(r"[^.\[\]]+", path)
    return reduce(lambda v, s: v[int(s)] if s.isdigit() else getattr(v, s), steps, value)


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case["sql"][:60])
def test_accepted(case: dict[str, Any]) -> None:
    statement = parse_statement(case["sql"])
    assert type(statement).__name__ == case["is"]
    found = {path: str(_follow(statement, path)) for path in case.get("has", {})}
    assert found == case.get("has", {})


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["sql"][:60])
def test_refused(case: dict[str, Any]) -> None:
    with pytest.raises(StatementError) as caught:
        parse_script(case["sql"])
    error = caught.value
    assert error.code == case["code"]
    assert re.search(case["match"], str(error), re.IGNORECASE), str(error)
    assert error.place is not None
    assert f"{error.place.line}:{error.place.column}" == case["at"]


def test_the_rendered_error_shows_the_place() -> None:
    script = (
        "USE db;\nCREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM nt\n"
        "  STREAM_OPTIONS(WATERMARK(10s) | EXPIRED_TIME(5s))\n  INTO o AS SELECT _twstart AS a FROM nt"
    )
    with pytest.raises(StatementError) as caught:
        parse_script(script, file="streams.sql")
    assert caught.value.render() + "\n" == (DATA / "rendered.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["", " \r\n", ";;", "-- c", "/* ; */"])
def test_a_script_may_be_empty_a_statement_may_not(text: str) -> None:
    assert parse_script(text) == []
    with pytest.raises(StatementError, match="STATEMENT_COUNT"):
        parse_statement(text)


def test_a_statement_is_one() -> None:
    with pytest.raises(StatementError, match="2 statements"):
        parse_statement("SELECT 1; SELECT ';'")


def test_a_stream_keeps_its_own_text_only() -> None:
    statement = "CREATE STREAM s SLIDING(1s) FROM t INTO o AS SELECT ts /* ; */ FROM t"
    parsed: Any = parse_script(f"USE a;\n{statement} ; -- end")[1]
    assert parsed.definition.text == statement
    assert parsed.definition.calculation.line == 2


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(StatementError, match="UNKNOWN_DIALECT"):
        parse_script("SELECT 1", dialect="oracle")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 10_000 + "1" + ")" * 10_000,
        "SELECT " + "(" * 10_000,
        "SELECT " + "NOT " * 10_000 + "1",
        "SELECT " + "1+" * 10_000 + "1",
        "SELECT " + "CASE WHEN " * 1_000,
        "DELETE FROM t WHERE " + "(" * 10_000 + "a" + ")" * 10_000,
    ],
    ids=["parentheses", "open", "not", "sum", "case", "condition"],
)
def test_deep_nesting_is_an_error_of_the_statement(text: str) -> None:
    with pytest.raises(StatementError, match="STATEMENT_TOO_DEEP"):
        parse_script(text)


def _case(branches: int) -> str:
    return "CASE " + " ".join(f"WHEN v = {at} THEN {at}" for at in range(branches)) + " END"


@pytest.mark.parametrize(
    "around", ["SELECT {} FROM t", "SELECT 1 FROM t ORDER BY abs({})", "DELETE FROM t WHERE {} > 1"]
)
def test_a_case_has_so_many_branches_at_most(around: str) -> None:
    parse_script(around.format(_case(2_000)))
    with pytest.raises(StatementError, match=r"TOO_MANY_BRANCHES: a CASE has 2,001 branches"):
        parse_script(around.format(_case(2_001)))


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(StatementError, match=r"U\+D800"):
        parse_script("SELECT '\ud800'")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("TIMESTAMP WITHOUT TIME ZONE", "TIMESTAMP"),
        ("timestamp(6) with time zone", "TIMESTAMP"),
        ("TIMESTAMPTZ", "TIMESTAMP"),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("FLOAT(24)", "FLOAT"),
        ("FLOAT(53)", "DOUBLE"),
        ("real", "FLOAT"),
        ("FLOAT8", "DOUBLE"),
        ("INT8", "BIGINT"),
        ("TEXT", "STRING"),
        ("CHARACTER VARYING(9)", "VARCHAR(9)"),
        ("CHAR(9)", "VARCHAR(9)"),
        ("BYTEA", "VARBINARY"),
    ],
)
def test_types_of_standard_sql_are_known_by_their_names(written: str, meant: str) -> None:
    read = parse_statement(f"CREATE TABLE t (ts TIMESTAMP, v {written} COMMENT 'c')")
    assert read == parse_statement(f"CREATE TABLE t (ts TIMESTAMP, v {meant} COMMENT 'c')")


def test_functions_are_of_the_statement_they_stand_in() -> None:
    script = (
        "CREATE STREAM e INTO o AS SELECT log(x, 10) AS y FROM ev GROUP BY TUMBLINGWINDOW(ss, 10); "
        "CREATE STREAM t INTERVAL(1s) SLIDING(1s) FROM ev INTO p AS SELECT _twstart, log(x, 10) AS y FROM ev"
    )
    statements: list[Any] = [*parse_script(script)]
    fragments = [statement.definition.calculation for statement in statements]
    assert [fragment.spark for fragment in fragments] == [True, False]
