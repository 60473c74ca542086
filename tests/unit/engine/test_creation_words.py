"""Ordinary functions have types that are known, so that CREATE STREAM starts no Spark."""

from __future__ import annotations

import pytest
from sqlglot import parse_one

from lakestream.compute.expressions.plain import is_plain

_COLUMNS = {"v": "a whole number", "d": "a double", "s": "a text", "ts": "an instant"}


@pytest.mark.parametrize(
    "said",
    [
        *("round(avg(v), 2)", "round(sum(v))", "upper(max(s))", "trim(max(s))", "replace(max(s), 'a', 'b')"),
        *("date_format(max(ts), 'yyyy-MM')", "to_date(max(ts))", "max(ts) - INTERVAL 1 HOUR"),
        "count_if(ts >= TIMESTAMP '2026-01-01 00:00:00')",
    ],
)
def test_types_of_ordinary_functions_are_known(said: str) -> None:
    assert is_plain(parse_one(f"SELECT {said} AS r FROM rows", dialect="spark"), _COLUMNS)


@pytest.mark.parametrize(
    "said",
    ["round(s, 2)", "upper(v)", "trim(BOTH 'x' FROM s)", "date_format(s, 'yyyy')", "s - INTERVAL 1 HOUR"],
)
def test_types_of_others_are_spark_s_to_tell(said: str) -> None:
    assert not is_plain(parse_one(f"SELECT {said} AS r FROM rows", dialect="spark"), _COLUMNS)
