"""Files of cases: what they may say, and where they are wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakestream.errors import StatementError
from lakestream.testing.cases import START, read_cases
from lakestream.testing.comparing import difference, different_events

if TYPE_CHECKING:
    from pathlib import Path

    from lakestream.testing.cases import Case


def read(folder: Path, text: str) -> list[Case]:
    path = folder / "cases.yaml"
    path.write_text(text, encoding="utf-8")
    return read_cases(path, "cases.yaml")


def test_a_case_is_read_with_its_places(tmp_path: Path) -> None:
    text = """# of one case
- test: a
  clock: 2025-03-01 00:00:00+01:00
  tables: {t: [{ts: 2025-01-01 00:00:00, v: 1.5}]}
  steps:
    - clock: 90s
    - clock: 2025-03-02
    - expect:
        t: # said
          - {v: 2}
  expect: {u: []}
"""
    [case] = read(tmp_path, text)
    assert (case.name, case.line) == ("a", 2)
    assert case.clock.astimezone(UTC) == datetime(2025, 2, 28, 23, tzinfo=UTC)
    assert case.tables == {"t": [{"ts": "2025-01-01 00:00:00", "v": 1.5}]}
    assert [(step.kind, step.line) for step in case.steps] == [
        ("clock", 6),
        ("clock", 7),
        ("expect", 8),
        ("expect", 11),
    ]
    assert [step.said for step in case.steps[:2]] == [timedelta(seconds=90), datetime(2025, 3, 2, tzinfo=UTC)]
    assert [text[slice(*one.span)] for one in case.expects] == [" # said\n          - {v: 2}", " []"]
    assert read(tmp_path, "- test: b")[0].clock == START
    assert read(tmp_path, "") == []


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: [", 1, "expected the node content"),
        ("a: 1", 1, "a list is wanted"),
        ("- 1", 1, "a case is a mapping"),
        ("- steps: []", 1, "the case has no name"),
        ("- test: a\n  stepps: []", 2, "a case has no stepps"),
        ("- test: a\n  test: b", 2, "test is there twice"),
        ("- test: a\n  dialect: x", 2, "there is no dialect x"),
        ("- test: a\n  timezone: Nowhere", 2, "there is no time zone Nowhere"),
        ("- test: a\n  clock: soon", 2, "soon is no time"),
        ("- test: a\n  tables: {t: 1}", 2, "the rows of t are a list of mappings"),
        ("- test: a\n  steps:\n    - run: idle", 3, "a step has no run"),
        ("- test: a\n  steps:\n    - {sql: a, clock: 1s}", 3, "a step says one thing"),
        ("- test: a\n  steps:\n    - clock: 10", 3, "10 is no time"),
        ("- test: a\n  steps:\n    - insert: []", 3, "insert names tables with their rows"),
        ("- test: a\n  steps:\n    - events: 1", 3, "events is a list"),
        ("- test: a\n  expect: {sql: SELECT 1}", 2, "rows are wanted beside sql"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    with pytest.raises(StatementError) as raised:
        read(tmp_path, text)
    error = raised.value
    assert (error.code, said in error.message) == ("TEST_INVALID", True), error.message
    assert error.place is not None
    assert (error.place.file, error.place.line) == ("cases.yaml", line)


def test_rows_are_compared_by_value_and_in_any_order() -> None:
    at = datetime(2025, 7, 1, 9, tzinfo=UTC)
    found: list[dict[str, Any]] = [
        {"at": at, "n": 2, "x": 0.1 + 0.2, "s": "a"},
        {"at": None, "n": 1, "x": 1.0, "s": None},
    ]
    expected: list[dict[str, Any]] = [
        {"at": None, "n": 1.0, "x": 1},
        {"at": "2025-07-01 12:00:00", "n": 2, "x": 0.3},
    ]
    assert difference(["at"], expected, found, "Europe/Helsinki") is None
    assert difference(["at"], [{"s": None}, {"s": "a"}], found, "UTC", in_order=True) is not None
    assert difference(["n"], [], found, "UTC") == "  n\n+ 1\n+ 2"
    shown = difference(["n"], [{"n": 2, "y": 1}, {"n": 3, "y": 1}], found, "UTC")
    assert shown is not None
    assert "(no such column)" in shown


def test_events_are_compared_by_the_fields_that_are_expected() -> None:
    found = [{"eventType": "WINDOW_CLOSE", "windowStart": 1735689600000, "triggerType": "Interval"}]
    expected = [
        {"eventType": "WINDOW_CLOSE", "windowStart": "2025-01-01 00:00:00", "triggerType": "interval"}
    ]
    assert different_events(expected, found, "UTC") is None
    assert different_events([], found, "UTC") is not None
    assert different_events([{"eventType": "WINDOW_OPEN"}], found, "UTC") is not None
