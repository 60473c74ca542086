"""A new cut put in the place of what was there: whatever it was, what is left is the new cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestream.engine.windows.rows.comparing import Comparing
from lakestream.engine.windows.rows.extents import holds
from tests.unit.windows.cuts import closed, group
from tests.unit.windows.streams import classic, new

if TYPE_CHECKING:
    from lakestream.engine.streams.stream import Stream

SESSION = "SESSION(ts, 5s)"
CLOSING = new(SESSION)
AT_ONCE = classic(SESSION, "TRIGGER AT_ONCE")
DELAYED = new(SESSION, "MAX_DELAY(5s)")
TELLING = new(SESSION, notify="WINDOW_OPEN | WINDOW_CLOSE")

Windows = dict[int, int]
"""The ends of windows by their start."""

MOVED = st.lists(st.integers(0, 60), max_size=4).map(sorted)


@st.composite
def apart(draw: st.DrawFn) -> Windows:
    """Return windows of which no two overlap."""
    bounds = sorted(draw(st.sets(st.integers(0, 60), max_size=10)))
    return dict(zip(bounds[::2], bounds[1::2], strict=False))


@st.composite
def cuts(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return a cut: closed windows, some too short to count, and at last one that may be open."""
    found = draw(apart())
    rows = [closed(low, high, counts=draw(st.integers(0, 3)) > 0) for low, high in found.items()]
    is_open = draw(st.booleans())
    if rows and is_open:
        rows[-1] = {**rows[-1], "closed": False}
    return rows


def counting(cut: list[dict[str, Any]]) -> Windows:
    return {row["low"]: row["high"] for row in cut if row["counts"] and row["closed"]}


@given(apart(), cuts(), MOVED)
def test_late_rows_leave_the_windows_of_the_new_cut_and_those_alone(
    there: Windows, cut: list[dict[str, Any]], moved: list[int]
) -> None:
    late = group(late=True)
    fired, retracted = Comparing(CLOSING, unique=True).compared(
        [late], {1: cut}, {1: [*there.items()]}, {1: moved}
    )
    left = {low: high for low, high in there.items() if (1, low) not in retracted}
    fires = dict(window for _, window in fired)
    assert {**left, **fires} == counting(cut)
    assert {*left} & {*fires} == set()
    same = {*there.items()} & {*counting(cut).items()}
    assert {window for window in same if not holds(moved, window)} == {*left.items()}


@pytest.mark.parametrize("stream", [AT_ONCE, DELAYED])
@given(apart(), cuts())
def test_what_was_shown_of_open_windows_is_what_they_are_now_or_goes(
    stream: Stream, shown: Windows, cut: list[dict[str, Any]]
) -> None:
    of = group(opened=shown)
    fired, retracted = Comparing(stream, unique=True).compared([of], {1: cut}, {1: [*shown.items()]}, {1: []})
    fires = dict(window for _, window in fired)
    left = {low for low in shown if (1, low) not in retracted}
    assert left <= {*fires}  # what stays is written over
    assert {low: high for low, high in fires.items() if low in counting(cut)} == counting(cut)


@given(apart(), st.sets(st.integers(0, 60), max_size=2), cuts(), MOVED)
def test_who_listens_knows_of_the_windows_of_the_new_cut(
    there: Windows, was_open: set[int], cut: list[dict[str, Any]], moved: list[int]
) -> None:
    known: dict[int, int | None] = {**there, **dict.fromkeys(was_open)}
    events = Comparing(TELLING, unique=True).events(group(), cut, there.items(), frozenset(was_open), moved)
    for event in events:
        if event.kind == "WINDOW_INVALIDATION":
            assert event.low in known
            del known[event.low]
        elif event.kind == "WINDOW_OPEN":
            assert event.low not in known
            known[event.low] = None
        else:
            assert event.refired is (event.low in there and event.low not in was_open)
            known[event.low] = event.high
    assert known == {row["low"]: row["high"] if row["closed"] else None for row in cut if row["counts"]}
