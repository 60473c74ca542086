"""What EXPLAIN says of the rule by which windows come about, and of parts of event time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream.engine.streams.stream import EventRange
from lakestream.engine.windows.said import admission, extent, rule, versions_read
from tests.unit.windows.streams import SECOND, classic, ekuiper, new, plan

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import Stream

TENS, SESSION = "INTERVAL(10s) SLIDING(10s)", "SESSION(ts, 5s)"
AGAIN, IGNORED = "late rows fire their windows again", "late rows are ignored"


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        ("INTERVAL(10s, 2s) SLIDING(5s)", "INTERVAL(10s, 2s) SLIDING(5s)"),
        (SESSION, SESSION),
        ("STATE_WINDOW(v) TRUE_FOR(3s)", "STATE_WINDOW(v) TRUE_FOR(3s)"),
        ("STATE_WINDOW(v)", "STATE_WINDOW(v)"),
        ("STATE_WINDOW(v, 0, TRUE)", "STATE_WINDOW(v) ZEROTH_STATE(TRUE)"),
        (
            "EVENT_WINDOW(START WITH v > 1 END WITH v < 1)",
            "EVENT_WINDOW(START WITH v > 1 END WITH v < 1)",
        ),
        ("COUNT_WINDOW(3, 1)", "COUNT_WINDOW(3, 1)"),
    ],
)
def test_a_trigger_is_said_as_it_is_written(trigger: str, said: str) -> None:
    assert rule(new(trigger)) == f"{said} by tbname, watermark 0s, {AGAIN}"


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (new(TENS, by=""), f"{TENS} by one group, watermark 0s, {AGAIN}"),
        (new(TENS, by="tbname, loc"), f"{TENS} by tbname, loc, watermark 0s, {AGAIN}"),
        (new(TENS, by="v % 2 AS par"), f"{TENS} by par, watermark 0s, {AGAIN}"),
        (new(TENS, "WATERMARK(5s)"), f"{TENS} by tbname, watermark 5s, {AGAIN}"),
        (new(TENS, "IGNORE_DISORDER"), f"{TENS} by tbname, watermark 0s, {IGNORED}"),
        (new("SLIDING(10s)"), f"SLIDING(10s) by tbname, watermark 0s, {IGNORED}"),
        (new(TENS, "EXACT"), f"{TENS} by tbname, watermark 0s, every change is followed"),
        (classic("INTERVAL(10s)"), f"{TENS} by tbname, watermark 0s, {IGNORED}"),
        (classic("INTERVAL(10s)", "IGNORE EXPIRED 0"), f"{TENS} by tbname, watermark 0s, {AGAIN}"),
    ],
)
def test_a_rule_says_groups_watermark_and_what_becomes_of_late_rows(stream: Stream, said: str) -> None:
    assert rule(stream) == said


OVER = "OVER (WHEN v > 1)"


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ("TUMBLINGWINDOW(ss, 10)", TENS),
        ("HOPPINGWINDOW(ss, 10, 5)", "INTERVAL(10s) SLIDING(5s)"),
        ("SLIDINGWINDOW(ss, 10)", "each row: 10s before to 0s after it"),
        (f"SLIDINGWINDOW(ss, 10, 2) {OVER}", "each row WHEN v > 1: 10s before to 2s after it"),
        ("SESSIONWINDOW(ss, 30, 5)", "sessions with gaps up to 5s, cut every 30s"),
        ("COUNTWINDOW(5, 2)", "the latest 5 rows, every 2"),
        ("STATEWINDOW(v > 1, v < 0)", "from v > 1 to v < 0"),
        ("STATEWINDOW(v > 1)", "from v > 1 to the next one"),
    ],
)
@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ("TIMESTAMP = 'ts'", "tolerance 0s, late rows are left out"),
        ("TIMESTAMP = 'ts', LATE_TOLERANCE = '5s'", "tolerance 5s, late rows are left out"),
        ("TIMESTAMP = 'ts', EXACT = 'true'", "tolerance 0s, every change is followed"),
        ("", "by the time of arrival"),
    ],
)
def test_an_admission_says_window_timeline_and_what_becomes_of_late_rows(
    window: str, said: str, options: str, policy: str
) -> None:
    assert admission(ekuiper(window, options)) == f"{said}, by one timeline, {policy}"


def test_an_admission_by_keys_names_them() -> None:
    keyed = ekuiper("COUNTWINDOW(2) OVER (PARTITION BY v, v + 1)")
    assert admission(keyed).startswith("the latest 2 rows, every 2, by v, v + 1, tolerance")


@pytest.mark.parametrize(
    ("event_range", "said"),
    [
        (EventRange(), "there are"),
        (EventRange(from_us=5 * SECOND), "from 1970-01-01T00:00:05+00:00"),
        (EventRange(to_us=0), "before 1970-01-01T00:00:00+00:00"),
        (
            EventRange(overlap_us=5 * SECOND, to_us=9 * SECOND),
            "that end after 1970-01-01T00:00:05+00:00 before 1970-01-01T00:00:09+00:00",
        ),
    ],
)
def test_a_range_is_said_by_its_bounds(event_range: EventRange, said: str) -> None:
    assert extent(event_range) == said


def test_changes_are_those_between_two_versions_and_history_is_that_at_one() -> None:
    stream = new("STATE_WINDOW(v)")
    assert versions_read(stream, plan(after=4, upto=9)) == "changes of (4, 9] of db.m: ts, v, tbname"
    assert versions_read(stream, plan("history")) == "history at version 5 of db.m: ts, v, tbname"
