"""Which stage of a tick finds out what fires: by family, kind of tick and policy, with what it carries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lakestream.engine.base.state import GroupState
from lakestream.engine.streams.stream import EventRange
from lakestream.engine.windows.families import family_of
from lakestream.engine.windows.family import Advance
from lakestream.engine.windows.grid.steps import (
    DetectWindows,
    FireByClock,
    FireDelayed,
    RecomputeGrid,
    UpdateWindows,
)
from lakestream.engine.windows.once.steps import AdmitRows, RecomputeAdmitted
from lakestream.engine.windows.periodic import FireInstants
from lakestream.engine.windows.rows.steps import CutDelayed, CutWindows, RecomputeCut
from tests.unit.windows.streams import classic, ekuiper, new, plan, stream, target

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.windows.family import Step
    from lakestream.storage.records.registry import TickPlan

TENS, SESSION, COUNTED = "INTERVAL(10s) SLIDING(10s)", "SESSION(ts, 5s)", "COUNT_WINDOW(3)"
TUMBLING = "TUMBLINGWINDOW(ss, 10)"
RANGE = EventRange(overlap_us=0, to_us=10_000_000)
ONE, SEVERAL = plan(), plan(after=4, upto=8)
REWRITTEN, HISTORY = plan(appends_only=False), plan("history")


def step(of: Stream, tick: TickPlan, event_range: EventRange | None = None, **written: Any) -> Step:
    return family_of(of).step(target(of, **written), tick, event_range)


# --- windows of a grid ---


@pytest.mark.parametrize(
    ("of", "tick"),
    [
        (new(TENS), ONE),
        (new(TENS), SEVERAL),
        (new(TENS), HISTORY),
        (new(TENS, "IGNORE_DISORDER"), ONE),
        (new(TENS, "EXPIRED_TIME(1h)"), ONE),
        (new(TENS, "EXPIRED_TIME(1h)"), HISTORY),
        (new(TENS, "EXACT"), SEVERAL),
        (new(TENS, "DELETE_RECALC"), SEVERAL),
        (new(TENS, "MAX_DELAY(3s)"), SEVERAL),
        (new("SLIDING(10s)"), ONE),
        (classic("INTERVAL(10s)", "TRIGGER AT_ONCE"), ONE),
        (new(TENS, notify="WINDOW_CLOSE"), ONE),
        (new(TENS, notify="WINDOW_OPEN | WINDOW_CLOSE"), HISTORY),
    ],
)
def test_added_rows_update_partial_aggregates(of: Stream, tick: TickPlan) -> None:
    assert type(step(of, tick)) is UpdateWindows


@pytest.mark.parametrize(
    ("of", "tick", "why"),
    [
        (new(TENS), REWRITTEN, "rows went"),
        (new(TENS, "IGNORE_DISORDER"), SEVERAL, "which rows are late, each commit tells"),
        (new(TENS, "EXPIRED_TIME(1h)"), SEVERAL, "which rows have expired, each commit tells"),
        (new("SLIDING(10s)"), SEVERAL, "late rows are ignored"),
        (new(TENS, "EVENT_TYPE(WINDOW_OPEN)"), ONE, "openings are computed"),
        (classic("INTERVAL(10s)", "TRIGGER FORCE_WINDOW_CLOSE"), ONE, "the clock closes windows"),
        (new(TENS, notify="WINDOW_OPEN | WINDOW_CLOSE"), ONE, "openings are emitted"),
        (new(TENS, notify="WINDOW_CLOSE"), plan(transport="spark"), "a large tick tells of closings"),
    ],
)
def test_what_partial_aggregates_do_not_know_is_judged_row_by_row(
    of: Stream, tick: TickPlan, why: str
) -> None:
    assert type(step(of, tick)) is DetectWindows, why


def test_history_with_events_is_judged_row_by_row() -> None:
    clause = "NOTIFY('ws://h:1/n') ON (WINDOW_CLOSE) NOTIFY_OPTIONS(NOTIFY_HISTORY)"
    query = "SELECT _twstart AS ws, count(*) AS n FROM %%trows"
    of = stream(f"CREATE STREAM s {TENS} FROM m STREAM_OPTIONS(FILL_HISTORY) {clause} INTO o AS {query}")
    assert type(step(of, HISTORY)) is DetectWindows
    assert type(step(of, ONE)) is UpdateWindows


def test_partial_aggregates_need_keys_of_their_own_and_aggregates_that_combine() -> None:
    text = f"CREATE STREAM s {TENS} FROM m INTO o AS SELECT _twstart AS ws, count(*) AS n FROM %%trows"
    assert type(step(stream(text), ONE, unique=False)) is DetectWindows
    assert type(step(stream(text, combines=False), ONE)) is DetectWindows
    assert type(step(stream(text), ONE)) is UpdateWindows


def test_the_clock_closes_a_range_that_its_plan_names() -> None:
    found = step(classic("INTERVAL(10s)", "TRIGGER FORCE_WINDOW_CLOSE"), plan("clock", closed=(3, 7)))
    assert isinstance(found, FireByClock)
    assert found.closed == (3, 7)
    unknown = step(classic("INTERVAL(10s)", "TRIGGER FORCE_WINDOW_CLOSE"), plan("clock"))
    assert isinstance(unknown, FireByClock)
    assert unknown.closed is None


@pytest.mark.parametrize(("trigger", "kind"), [(TENS, FireDelayed), (SESSION, CutDelayed)])
def test_open_windows_fire_that_the_plan_of_a_delay_names(
    trigger: str, kind: type[FireDelayed | CutDelayed]
) -> None:
    found = step(new(trigger, "MAX_DELAY(3s)"), plan("delay", windows=((1, 10), (2, 30))))
    assert isinstance(found, kind)
    assert found.windows == ((1, 10), (2, 30))
    assert found.title == "fire by the clock"


# --- row windows ---


@pytest.mark.parametrize(
    ("of", "tick"),
    [
        (new(SESSION), ONE),
        (new(SESSION), SEVERAL),
        (new(SESSION), HISTORY),
        (new("STATE_WINDOW(v)", "IGNORE_DISORDER"), ONE),
        (new("EVENT_WINDOW(START WITH v > 1 END WITH v < 1)", "EXACT"), ONE),
        (new(COUNTED), ONE),
        (new(SESSION, "EXPIRED_TIME(1h)"), ONE),
        (classic(SESSION), ONE),
    ],
)
def test_rows_in_order_may_be_cut_and_computed_in_one_query(of: Stream, tick: TickPlan) -> None:
    found = step(of, tick)
    assert isinstance(found, CutWindows)
    assert found.is_in_order


@pytest.mark.parametrize(
    ("of", "tick", "written"),
    [
        (new(SESSION), REWRITTEN, {}),
        (new("COUNT_WINDOW(3, 1)"), ONE, {}),
        (new(SESSION, notify="WINDOW_CLOSE"), ONE, {}),
        (new(SESSION, "EVENT_TYPE(WINDOW_OPEN)"), ONE, {}),
        (new(SESSION, "EVENT_TYPE(WINDOW_OPEN | WINDOW_CLOSE)"), ONE, {}),
        (new(SESSION, "MAX_DELAY(3s)"), ONE, {}),
        (classic(SESSION, "TRIGGER AT_ONCE"), ONE, {}),
        (new(SESSION), ONE, {"unique": False}),
    ],
)
def test_windows_that_overlap_or_are_told_of_or_fire_early_take_more_than_one_query(
    of: Stream, tick: TickPlan, written: dict[str, Any]
) -> None:
    found = step(of, tick, **written)
    assert isinstance(found, CutWindows)
    assert not found.is_in_order


def test_an_output_that_does_not_say_which_window_a_row_is_of_takes_more_than_one_query() -> None:
    of = new(SESSION)
    silent = replace(target(of), shape=replace(target(of).shape, provenance=None))
    found = family_of(of).step(silent, ONE, None)
    assert isinstance(found, CutWindows)
    assert not found.is_in_order


# --- windows that fire once, and instants of the clock ---


@pytest.mark.parametrize(
    ("tick", "taken"),
    [
        (ONE, "changes of (4, 5] of db.m: ts, tbname, and the rows that were held"),
        (REWRITTEN, "changes of (4, 5] of db.m: ts, tbname, and the rows that were held"),
        (plan("flush"), "what is open closes, as if no row were to come"),
        (plan("clock"), "what time has closed, of the rows that were held"),
        (plan("anew"), "all windows anew from db.m at version 5"),
    ],
)
@pytest.mark.parametrize("options", ["TIMESTAMP = 'ts'", "TIMESTAMP = 'ts', EXACT = 'true'", ""])
def test_admitted_rows_have_one_stage_that_says_what_it_takes(
    options: str, tick: TickPlan, taken: str
) -> None:
    found = step(ekuiper(TUMBLING, options), tick)
    assert isinstance(found, AdmitRows)
    assert found.taken == taken


@pytest.mark.parametrize(
    ("of", "tick", "comes", "only_written"),
    [
        (new("PERIOD(10s)"), plan("period"), True, False),
        (new("PERIOD(10s)"), ONE, False, False),
        (new("PERIOD(10s)", "IGNORE_NODATA_TRIGGER"), plan("period"), True, True),
    ],
)
def test_an_instant_fires_when_it_has_come(
    of: Stream, tick: TickPlan, comes: bool, only_written: bool
) -> None:
    found = step(of, tick)
    assert isinstance(found, FireInstants)
    assert (found.has_come, found.fires, found.only_written) == (comes, comes, only_written)


# --- recalculation ---


@pytest.mark.parametrize(
    ("of", "kind"),
    [
        (new(TENS), RecomputeGrid),
        (new("SLIDING(10s)"), RecomputeGrid),
        (new(SESSION), RecomputeCut),
        (new("COUNT_WINDOW(3, 1)"), RecomputeCut),
        (ekuiper(TUMBLING), RecomputeAdmitted),
        (ekuiper(TUMBLING, "TIMESTAMP = 'ts', EXACT = 'true'"), RecomputeAdmitted),
    ],
)
@pytest.mark.parametrize("tick", [plan("recalculation"), plan("recalculation", appends_only=False)])
def test_a_part_of_event_time_is_made_again(
    of: Stream, kind: type[RecomputeGrid | RecomputeCut | RecomputeAdmitted], tick: TickPlan
) -> None:
    found = step(of, tick, RANGE)
    assert isinstance(found, kind)
    assert found.event_range == RANGE


def test_a_part_in_which_nothing_fires_takes_back_what_is_there() -> None:
    assert Advance(GroupState()).writes_nothing
    assert not Advance(GroupState(), event_range=EventRange(overlap_us=5)).writes_nothing
