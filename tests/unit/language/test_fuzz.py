"""No text makes the reader fail with anything but its own errors, nor takes it long."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakestream.errors import LakestreamError, Place
from lakestream.language import parse_script

VALID = [
    case["sql"]
    for case in yaml.safe_load((Path(__file__).parent / "data" / "accepted.yaml").read_text(encoding="utf-8"))
]
TREE = yaml.safe_load((Path(__file__).parent / "data" / "iotdb_accepted.yaml").read_text(encoding="utf-8"))
TREE_PIECES = [
    *" ();,.'\"`|%-+*/=<>!&:$@#[]\n\0\u2028\ud800é温",
    *(
        "**",
        "::",
        "${1}",
        "root",
        "root.a.b",
        "wf*",
        "1h30m",
        "2025-01-01",
        "now()",
        "`a b`",
        "1.",
        "--",
        "/*",
    ),
    *("SELECT", "FROM", "INTO", "WHERE", "GROUP BY(", "LEVEL", "FILL(", "END", "BEGIN", "RESAMPLE", "count("),
    *("time", "AND", "NOT", "IN", "LIKE", "REGEXP", "NULL", "ALIGN BY DEVICE", "LIMIT", "9" * 40),
]
PIECES = [
    *" ();,.'\"`|%-+*/=<>\n\0\u2028\ud800é\u0661",
    *(
        "%%",
        "%%1",
        "%%trows",
        "--",
        "/*",
        "*/",
        "5m",
        "1e9",
        "0.5s",
        "NULL",
        "SELECT",
        "FROM",
        "AS",
        "IN",
        "NOT",
    ),
    *(
        "CASE",
        "WHEN",
        "INTERVAL(",
        "SLIDING(",
        "PARTITION BY",
        "TAGS",
        "VALUES",
        "OVER (",
        "WITH",
        "UNION",
        "{",
        "[",
    ),
]
SECONDS_PER_KB = 0.1
TEXTS = int(os.environ.get("FUZZ_TEXTS", "2000"))
"""How many texts the tests try together."""
calm = settings(max_examples=max(1, TEXTS // 6), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _parse(text: str, dialect: str = "tdengine") -> None:
    started = time.process_time()  # what others take of the machine does not count
    try:
        parse_script(text, dialect=dialect)
    except LakestreamError as error:
        place = error.place
        error.render()
    else:
        place = Place(1, 1)
    assert place is not None
    assert min(place.line, place.column) >= 1
    taken = time.process_time() - started
    # Several times the target: what reads a statement for ever is what is looked for.
    assert taken < max(1.0, 5 * SECONDS_PER_KB * len(text) / 1_000)


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Load each dialect's modules before its first statement is timed."""
    parse_script("SHOW DATABASES")
    parse_script("SHOW DATABASES", dialect="iotdb")


@calm
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    _parse(text)


@calm
@given(st.lists(st.sampled_from(PIECES), max_size=40).map(" ".join))
def test_any_words(text: str) -> None:
    _parse(text)


@calm
@given(st.sampled_from(VALID), st.data())
def test_a_changed_statement(sql: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(sql)))
        end = data.draw(st.integers(start, min(len(sql), start + 12)))
        sql = sql[:start] + data.draw(st.sampled_from(["", *PIECES])) + sql[end:]
    _parse(sql)


@calm
@given(st.lists(st.sampled_from(TREE_PIECES), max_size=40).map(" ".join))
def test_any_words_of_the_tree(text: str) -> None:
    _parse(text, "iotdb")


@calm
@given(st.lists(st.sampled_from(TREE_PIECES), max_size=12).map(" ".join))
def test_any_expression_over_series(text: str) -> None:
    _parse(f"SELECT {text} FROM root.a WHERE {text}", "iotdb")


@calm
@given(st.sampled_from(TREE), st.data())
def test_a_changed_statement_of_the_tree(sql: str, data: st.DataObject) -> None:
    _parse(sql, "iotdb")
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(sql)))
        end = data.draw(st.integers(start, min(len(sql), start + 12)))
        sql = sql[:start] + data.draw(st.sampled_from(["", *TREE_PIECES])) + sql[end:]
    _parse(sql, "iotdb")


def test_a_megabyte_is_read_in_linear_time() -> None:
    for text in (
        "INSERT INTO t VALUES " + ",".join(f"('2025-01-01', {i})" for i in range(40_000)),
        "/* " * 150_000 + "*/ " * 150_000 + "SELECT 1",
        "-- x\n" * 200_000 + "SELECT 1",
        "CREATE TABLE t (ts TIMESTAMP, " + ", ".join(f"c{i} INT" for i in range(60_000)) + ")",
    ):
        _parse(text)
