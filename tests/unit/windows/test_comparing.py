"""Windows of a new cut against those that fired before: which fire, which go, and what is emitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakestream.engine.windows.rows.comparing import Comparing
from tests.unit.windows.cuts import closed, group, opened
from tests.unit.windows.streams import classic, new

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakestream.engine.streams.stream import Stream
    from lakestream.engine.windows.rows.extents import Window
    from lakestream.engine.windows.rows.groups import CutGroup, Happening

SESSION = "SESSION(ts, 5s)"
EVENTS = "EVENT_WINDOW(START WITH v > 1 END WITH v < 1)"
CLOSING = new(SESSION)
OPENING = new(SESSION, "EVENT_TYPE(WINDOW_OPEN)")
BOTH = new(SESSION, "EVENT_TYPE(WINDOW_OPEN | WINDOW_CLOSE)")
AT_ONCE = classic(SESSION, "TRIGGER AT_ONCE")
DELAYED = new(SESSION, "MAX_DELAY(5s)")

SHORT = closed(40, 41, counts=False)
CUT = [closed(0, 10), closed(20, 30), SHORT, opened(50, 60)]


# --- what fires ---


@pytest.mark.parametrize(
    ("stream", "fires"),
    [
        (CLOSING, {(0, 10), (20, 30)}),
        (OPENING, {(0, 10), (20, 30), (50, 60)}),
        (BOTH, {(0, 10), (20, 30), (50, 60)}),
        (AT_ONCE, {(0, 10), (20, 30), (50, 60)}),
        (DELAYED, {(0, 10), (20, 30)}),
    ],
)
def test_windows_fire_that_close_or_open_or_are_open(stream: Stream, fires: set[Window]) -> None:
    assert Comparing(stream, unique=True).firing(group(), CUT, ()) == fires


@pytest.mark.parametrize(
    ("stream", "fires"),
    [
        (OPENING, {(0, 10), (50, 60)}),
        (BOTH, {(0, 10), (20, 30), (50, 60)}),
        (CLOSING, {(0, 10), (20, 30)}),
    ],
)
def test_a_window_opens_once(stream: Stream, fires: set[Window]) -> None:
    assert Comparing(stream, unique=True).firing(group(opened=[20]), CUT, ()) == fires


def test_an_open_window_that_a_delay_has_shown_fires_again_and_no_other_one() -> None:
    cut = [opened(0, 12), opened(50, 60)]
    assert Comparing(DELAYED, unique=True).firing(group(), cut, [(0, 9)]) == {(0, 12)}
    assert Comparing(CLOSING, unique=True).firing(group(), cut, [(0, 9)]) == set()


def test_of_two_windows_that_begin_at_one_instant_the_last_fires() -> None:
    assert Comparing(CLOSING, unique=True).firing(group(), [closed(0, 1), closed(0, 9)], ()) == {(0, 9)}


DELAYED_EVENTS = new(EVENTS, "MAX_DELAY(5s)")
CLASSIC_EVENTS = classic("EVENT_WINDOW START WITH v > 1 END WITH v < 1", "TRIGGER AT_ONCE")


@pytest.mark.parametrize(
    ("stream", "ended", "shows"),
    [
        (CLASSIC_EVENTS, False, False),
        (CLASSIC_EVENTS, True, True),
        (new(EVENTS, "MAX_DELAY(5s)"), False, True),
    ],
)
def test_in_the_classic_syntax_an_event_window_gives_nothing_without_its_end(
    stream: Stream, ended: bool, shows: bool
) -> None:
    comparing, window = Comparing(stream, unique=True), opened(0, 9, shows=ended)
    assert comparing.shows(window) is shows
    assert comparing.firing(group(), [window], [(0, 8)]) == ({(0, 9)} if shows else set())


# --- what goes ---


def compared(
    stream: Stream,
    of: CutGroup,
    cut: list[dict[str, Any]],
    *,
    there: Collection[Window] = (),
    moved: Collection[int] = (),
    unique: bool = True,
) -> tuple[list[Window], list[int]]:
    found = Comparing(stream, unique).compared([of], {1: cut}, {1: [*there]}, {1: [*moved]})
    return [window for _, window in found[0]], [low for _, low in found[1]]


def test_in_order_windows_fire_and_none_goes() -> None:
    found = compared(CLOSING, group(), [closed(20, 30), closed(0, 10), opened(50, 60)])
    assert found == ([(0, 10), (20, 30)], [])


LATE = group(late=True)


@pytest.mark.parametrize(
    ("cut", "there", "moved", "fires", "goes"),
    [
        # A late row within a window: that one alone.
        ([(0, 10), (20, 30)], [(0, 10), (20, 30)], [4], [(0, 10)], [0]),
        # It makes a window longer, whose row is replaced.
        ([(0, 13), (20, 30)], [(0, 10), (20, 30)], [12], [(0, 13)], [0]),
        # It joins two windows.
        ([(0, 30)], [(0, 10), (20, 30)], [15], [(0, 30)], [0, 20]),
        # A deleted row parts a window.
        ([(0, 4), (8, 10)], [(0, 10)], [6], [(0, 4), (8, 10)], [0]),
        # The only row of a window is deleted.
        ([(20, 30)], [(0, 1), (20, 30)], [0], [], [0]),
        # The row lies in a window that was not there.
        ([(0, 10), (15, 16), (20, 30)], [(0, 10), (20, 30)], [15], [(15, 16)], []),
        # What is told to have changed lies in none.
        ([(0, 10)], [(0, 10)], [10], [], []),
    ],
)
def test_late_rows_let_windows_go_and_fire_that_hold_them_or_are_cut_elsewhere(
    cut: list[Window], there: list[Window], moved: list[int], fires: list[Window], goes: list[int]
) -> None:
    found = compared(CLOSING, LATE, [closed(*window) for window in cut], there=there, moved=moved)
    assert (found[0], sorted(found[1])) == (fires, goes)


def test_windows_before_the_cut_stay_as_they_are() -> None:
    late = group(late=True, from_us=20)
    assert compared(CLOSING, late, [closed(20, 31)], there=[(0, 10), (20, 30)], moved=[30]) == (
        [(20, 31)],
        [20],
    )


def test_the_opening_of_a_window_that_is_there_stays_behind_a_late_row() -> None:
    late = group(late=True, opened=[0])
    assert compared(OPENING, late, [opened(0, 12)], there=[(0, 10)], moved=[11]) == ([], [])
    assert compared(OPENING, late, [opened(3, 12)], there=[(0, 10)], moved=[11]) == ([(3, 12)], [0])


@pytest.mark.parametrize("short", [closed(0, 4, counts=False), opened(0, 4, counts=False)])
@pytest.mark.parametrize("was_open", [[], [0]])
def test_the_opening_of_a_window_that_is_too_short_now_goes(
    short: dict[str, Any], was_open: list[int]
) -> None:
    late = group(late=True, opened=was_open)
    assert compared(OPENING, late, [short], there=[(0, 10)], moved=[9]) == ([], [0])


@pytest.mark.parametrize(
    ("unique", "goes"),
    [(True, [50]), (False, [0, 50])],
)
def test_at_once_an_open_window_that_is_no_more_goes_and_any_where_its_key_may_move(
    unique: bool, goes: list[int]
) -> None:
    of = group(opened=[0, 50])
    assert compared(AT_ONCE, of, [opened(0, 12)], unique=unique) == ([(0, 12)], goes)


def test_what_a_delay_has_shown_goes_where_its_window_is_no_more() -> None:
    of = group(opened=[0, 50])
    assert compared(DELAYED, of, [opened(0, 12)], there=[(0, 9)]) == ([(0, 12)], [0, 50])
    assert compared(CLOSING, of, [opened(0, 12)], there=[(0, 9)]) == ([], [])


# --- what is emitted ---

TELLING = new(SESSION, notify="WINDOW_OPEN | WINDOW_CLOSE")
OPENED, CLOSED, GONE = "WINDOW_OPEN", "WINDOW_CLOSE", "WINDOW_INVALIDATION"


def events_of(
    cut: list[dict[str, Any]],
    *,
    there: Collection[Window] = (),
    was_open: Collection[int] = (),
    moved: list[int] | None = None,
    of: CutGroup | None = None,
    stream: Stream = TELLING,
) -> list[tuple[str, int, int, bool]]:
    found: list[Happening] = Comparing(stream, unique=True).events(
        of or group(), cut, there, frozenset(was_open), moved
    )
    return [(event.kind, event.low, event.high, event.refired) for event in found]


def test_a_stream_without_notification_tells_nothing() -> None:
    assert events_of(CUT, moved=[], stream=CLOSING) == []


def test_events_are_emitted_of_a_window_when_it_opens_and_when_it_closes_unless_it_is_too_short() -> None:
    assert events_of([closed(0, 10), SHORT, opened(50, 60)], moved=[]) == [
        (OPENED, 0, 10, False),
        (CLOSED, 0, 10, False),
        (OPENED, 50, 60, False),
    ]


def test_a_window_that_was_open_opens_no_second_time() -> None:
    assert events_of([closed(0, 10), opened(50, 60)], was_open=[0, 50], moved=[]) == [(CLOSED, 0, 10, False)]


def test_an_open_window_that_is_no_more_has_gone() -> None:
    assert events_of([opened(2, 60)], was_open=[0], moved=[1]) == [(GONE, 0, 1, True), (OPENED, 2, 60, False)]


def test_an_open_window_that_a_delay_has_shown_is_no_other_one() -> None:
    assert events_of([opened(0, 12)], there=[(0, 9)], was_open=[0], moved=[11]) == []


def test_one_that_lies_before_the_cut_has_not() -> None:
    assert events_of([opened(50, 60)], was_open=[0, 50], moved=[], of=group(from_us=20)) == []


@pytest.mark.parametrize(
    ("cut", "there", "moved", "events"),
    [
        # As it was, without a changed row.
        ([(0, 10)], [(0, 10)], [12], []),
        # As it was, with one: its closing comes again.
        ([(0, 10)], [(0, 10)], [4], [(CLOSED, 0, 10, True)]),
        # It ends elsewhere, and is the same window.
        ([(0, 13)], [(0, 10)], [12], [(CLOSED, 0, 13, True)]),
        # Two are joined: the second one has gone, before its replacement closes.
        ([(0, 30)], [(0, 10), (20, 30)], [15], [(GONE, 20, 30, True), (CLOSED, 0, 30, True)]),
        # Another start is another window.
        ([(3, 10)], [(0, 10)], [0], [(GONE, 0, 10, True), (OPENED, 3, 10, False), (CLOSED, 3, 10, False)]),
        # In a recalculation (None) any row may have changed.
        ([(0, 10)], [(0, 10)], None, [(CLOSED, 0, 10, True)]),
    ],
)
def test_windows_that_were_there_close_again_or_go(
    cut: list[Window],
    there: list[Window],
    moved: list[int] | None,
    events: list[tuple[str, int, int, bool]],
) -> None:
    assert events_of([closed(*window) for window in cut], there=there, moved=moved) == events


def test_a_recalculation_lets_open_windows_be() -> None:
    assert events_of([], was_open=[50], moved=None) == []


def test_a_window_that_is_open_again_has_gone_and_opens() -> None:
    assert events_of([opened(0, 40)], there=[(0, 10)], moved=[15]) == [
        (GONE, 0, 10, True),
        (OPENED, 0, 40, False),
    ]


def test_events_say_what_their_rows_say() -> None:
    found = Comparing(TELLING, unique=True).events(group(), [closed(0, 10)], (), frozenset(), [])
    assert [event.extra for event in found] == ["o0", "c0"]
