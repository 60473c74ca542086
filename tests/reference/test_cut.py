"""The reference of windows that are cut by rows, held to figures worked out by hand."""

from __future__ import annotations

from tests.reference.cut import counts, events, extended_states, sessions, states


def instants(windows: list[list[tuple[int, int | None]]]) -> list[list[int]]:
    return [[at for at, _ in window] for window in windows]


def test_a_gap_is_inclusive_and_the_last_session_is_open() -> None:
    assert instants(sessions([(0, 1), (5, 1), (11, 1), (12, 1), (30, 1)], 5)) == [[0, 5], [11, 12]]


def test_rows_without_a_state_belong_to_what_goes_on_behind_them() -> None:
    rows = [(0, None), (1, 1), (2, None), (3, 1), (4, None), (5, 2), (6, 2), (7, 1), (8, None)]
    assert instants(states(rows)) == [[1, 2, 3], [5, 6]]
    assert instants(states(rows, 2)) == [[1, 2, 3]]


def test_windows_of_states_reach_to_each_other_by_extend() -> None:
    rows = [(0, None), (1, 1), (2, None), (3, 1), (4, None), (5, 2), (6, 2), (7, 1), (8, None)]

    def spans(extend: int, *zeroth: int) -> list[tuple[float, float, int]]:
        found = extended_states(rows, extend, zeroth=zeroth, still_open=True)
        return [(low, high, len(window)) for low, high, window in found]

    assert spans(0) == [(1, 3, 3), (5, 6, 2), (7, 7, 1)]
    assert spans(1) == [(1, 4.999, 4), (5, 6.999, 2), (7, 8, 2)]
    assert spans(2) == [(0, 3, 4), (3.001, 6, 3), (6.001, 7, 1)]
    assert spans(1, 2) == [(1, 4.999, 4), (7, 8, 2)]
    assert [low for low, _, _ in extended_states(rows, 1, 3, still_open=True)] == [1]


def test_the_row_that_begins_may_end_and_the_one_that_ends_begins_nothing() -> None:
    rows = [(0, 5), (1, 9), (2, 9), (3, 0), (4, 0), (5, 9)]
    assert instants(events(rows, lambda v: (v or 0) > 4, lambda v: v == 0)) == [[0, 1, 2, 3]]
    assert instants(events([(0, 9), (1, 9)], lambda v: v == 9, lambda v: v == 9)) == [[0], [1]]


def test_windows_of_a_count_begin_every_so_many_rows() -> None:
    rows = [(at, at) for at in range(6)]
    assert instants(counts(rows, 3, 2)) == [[0, 1, 2], [2, 3, 4]]
    assert instants(counts(rows, 4, 4)) == [[0, 1, 2, 3]]
