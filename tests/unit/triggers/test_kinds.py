"""What is asked of a trigger: the answers of every kind."""

from __future__ import annotations

import pytest

from lakestream.language.model import (
    BoundedSessionTrigger,
    CountTrigger,
    Duration,
    EventTrigger,
    Fragment,
    IdleTrigger,
    IntervalTrigger,
    LatestTrigger,
    PeriodTrigger,
    SessionTrigger,
    SlideTrigger,
    SlidingTrigger,
    SpanTrigger,
    StateTrigger,
    Trigger,
)
from lakestream.triggers import kinds

TEN, NONE = Duration(10, "s"), Duration(0, "s")
ONE, OTHER = Fragment("v > 1"), Fragment("v < 1")
INTERVAL, SLIDING = IntervalTrigger(TEN, NONE, Duration(5, "s")), SlidingTrigger(TEN, NONE)
PERIOD, SESSION = PeriodTrigger(TEN, NONE), SessionTrigger("ts", TEN)
STATE, EVENT, COUNT = StateTrigger((ONE,)), EventTrigger(ONE, OTHER), CountTrigger(3, 3, (ONE, OTHER))
SLIDE, SPAN, LATEST = SlideTrigger(TEN, NONE, ONE), SpanTrigger(ONE, OTHER), LatestTrigger(3, 3)
IDLE = IdleTrigger(TEN, ("IDLE",), STATE)
BOUNDED = BoundedSessionTrigger(TEN, TEN)

QUESTIONS = (
    "is_periodic",
    "is_of_instants",
    "is_session",
    "is_of_states",
    "counts_rows",
    "is_each_row",
    "is_cut_by_rows",
    "counts_what_is_written",
)


@pytest.mark.parametrize(
    ("trigger", "answers"),
    [
        (INTERVAL, set()),
        (SLIDING, {"is_of_instants"}),
        (PERIOD, {"is_periodic", "counts_what_is_written"}),
        (IDLE, {"counts_what_is_written"}),
        (SESSION, {"is_session", "is_cut_by_rows"}),
        (STATE, {"is_of_states", "is_cut_by_rows"}),
        (EVENT, {"is_cut_by_rows"}),
        (COUNT, {"counts_rows", "is_cut_by_rows"}),
        (CountTrigger(1, 1), {"counts_rows", "is_each_row", "is_cut_by_rows"}),
        (SLIDE, set()),
        (SPAN, set()),
        (LATEST, set()),
        (BOUNDED, set()),
    ],
)
def test_what_kind_a_trigger_is(trigger: Trigger, answers: set[str]) -> None:
    assert {name for name in QUESTIONS if getattr(kinds, name)(trigger)} == answers


@pytest.mark.parametrize(
    ("trigger", "fragments"),
    [
        (INTERVAL, []),
        (SESSION, []),
        (STATE, [ONE]),
        (IDLE, [ONE]),
        (EVENT, [ONE, OTHER]),
        (COUNT, [ONE, OTHER]),
        (SLIDE, [ONE]),
        (SlideTrigger(TEN, NONE), []),
        (SPAN, [ONE, OTHER]),
        (SpanTrigger(ONE), [ONE]),
        (LATEST, []),
    ],
)
def test_what_a_trigger_looks_at_in_a_row(trigger: Trigger, fragments: list[Fragment]) -> None:
    assert kinds.fragments_of(trigger) == fragments


@pytest.mark.parametrize(
    ("trigger", "refire", "where_closed_ones_expire"),
    [
        (INTERVAL, True, True),
        (SESSION, True, True),
        (STATE, True, True),
        (EVENT, True, True),
        (SLIDING, False, False),
        (PERIOD, False, False),
        (IDLE, False, False),
        (CountTrigger(3, 1), True, True),
        (CountTrigger(3, 3), False, True),
        (CountTrigger(3, 2), False, True),
    ],
)
def test_late_rows_make_windows_fire_again(
    trigger: Trigger, refire: bool, where_closed_ones_expire: bool
) -> None:
    assert kinds.late_rows_refire(trigger, expires_closed=False) is refire
    assert kinds.late_rows_refire(trigger, expires_closed=True) is where_closed_ones_expire


@pytest.mark.parametrize(
    ("trigger", "step"),
    [
        (INTERVAL, 5_000_000),
        (SLIDING, 10_000_000),
        (SlidingTrigger(Duration(2, "n"), NONE), 60 * 86_400_000_000),
        (IntervalTrigger(TEN, NONE, Duration(1, "y")), 360 * 86_400_000_000),
        (SlidingTrigger(Duration(5, "b"), NONE), 1),
        (SESSION, 1_000_000),
        (PERIOD, 1_000_000),
        (IDLE, 1_000_000),
    ],
)
def test_how_far_windows_lie_apart(trigger: Trigger, step: int) -> None:
    assert kinds.step_us(trigger) == step


def test_the_events_of_idle_groups_compute_and_are_told_under_the_trigger_that_is_named() -> None:
    assert kinds.idle_events(IDLE) == ("IDLE",)
    assert kinds.idle_events(STATE) == ()
    assert kinds.type_in_messages(IDLE) == "State"
