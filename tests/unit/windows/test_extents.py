"""Extents of row windows: what holds of any of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestream.engine.windows.rows.extents import (
    Window,
    holds,
    one_of_each_start,
    overlap,
    overlaps,
    parted,
    start_of_open,
    widened,
)

WINDOW = st.tuples(st.integers(0, 40), st.integers(1, 8)).map(lambda w: (w[0], w[0] + w[1]))
WINDOWS = st.lists(WINDOW, max_size=8)


def instants(window: Window) -> set[int]:
    return {*range(*window)}


@given(WINDOW, WINDOW)
def test_windows_overlap_that_share_an_instant(one: Window, other: Window) -> None:
    assert overlap(one, other) is bool(instants(one) & instants(other))


def test_a_window_does_not_overlap_the_one_that_begins_where_it_ends() -> None:
    assert not overlap((10, 20), (20, 30))
    assert overlap((10, 21), (20, 30))


@given(WINDOW, WINDOWS)
def test_a_window_overlaps_others_where_it_overlaps_one(window: Window, others: list[Window]) -> None:
    assert overlaps(window, others) is any(overlap(window, other) for other in others)


@given(WINDOWS)
def test_of_windows_of_one_start_the_last_stands(windows: list[Window]) -> None:
    last: dict[int, int] = {}
    for low, high in windows:
        last[low] = max(high, last.get(low, high))
    assert one_of_each_start(windows) == {*last.items()}


@given(st.lists(st.integers(0, 50), max_size=8).map(sorted), WINDOW)
def test_a_window_holds_an_instant_from_its_start_to_before_its_end(
    listed: list[int], window: Window
) -> None:
    assert holds(listed, window) is bool(instants(window) & {*listed})


@given(WINDOW, WINDOWS)
def test_a_widened_part_cuts_no_window_that_moves_and_takes_none_in_vain(
    part: Window, moved: list[Window]
) -> None:
    wide = widened(part, moved)
    assert wide[0] <= part[0]
    assert part[1] <= wide[1]
    assert all(not overlap(window, wide) or instants(window) <= instants(wide) for window in moved)
    assert wide[0] in {part[0], *(low for low, _ in moved)}
    assert wide[1] in {part[1], *(high for _, high in moved)}


@pytest.mark.parametrize(
    ("moved", "wide"),
    [
        ([], (10, 20)),
        ([(12, 15)], (10, 20)),
        ([(20, 30), (0, 10)], (10, 20)),
        ([(18, 25)], (10, 25)),
        ([(18, 25), (24, 30), (29, 31), (40, 50)], (10, 31)),
        ([(5, 11), (2, 6)], (2, 20)),
    ],
)
def test_a_part_is_widened_by_windows_that_hang_together_with_it(moved: list[Window], wide: Window) -> None:
    assert widened((10, 20), moved) == wide


def row(low: int, high: int, *, closed: bool) -> dict[str, Any]:
    return {"low": low, "high": high, "closed": closed}


def test_open_windows_that_reach_back_behind_where_a_tick_goes_on_are_parted_from_the_others() -> None:
    closed, back, after = row(0, 5, closed=True), row(6, 12, closed=False), row(10, 14, closed=False)
    assert parted([closed, back, after], 10) == ([closed, after], [(6, 12)])
    assert parted([closed, back, after], None) == ([closed, back, after], [])
    assert parted([], 10) == ([], [])


@pytest.mark.parametrize(
    ("resume", "start"),
    [(None, 6), (5, 0), (6, 6), (9, 6), (10, 10), (99, 10)],
)
def test_what_is_open_goes_on_from_the_window_that_holds_where_it_began(
    resume: int | None, start: int
) -> None:
    found = [row(0, 5, closed=True), row(6, 12, closed=False), row(10, 14, closed=False)]
    assert start_of_open(found, resume) == start


def test_nothing_is_open_where_no_window_is_or_none_begins_by_then() -> None:
    assert start_of_open([], None) is None
    assert start_of_open([row(0, 5, closed=True)], None) is None
    assert start_of_open([row(6, 12, closed=False)], 5) is None
