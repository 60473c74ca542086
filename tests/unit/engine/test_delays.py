"""When the wall clock makes windows due."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakestream.engine.windows.delays import Delays

SECOND = 1_000_000
ONE, OTHER = (1, 10), (1, 20)


def test_a_window_is_due_each_time_its_delay_has_passed() -> None:
    delays = Delays(5 * SECOND)
    delays.follow([ONE], 0)
    assert delays.due(4 * SECOND) == []
    assert delays.due(6 * SECOND) == [ONE]
    delays.fire([ONE], 6 * SECOND)
    assert delays.due(9 * SECOND) == []
    assert delays.due(11 * SECOND) == [ONE]


def test_delays_that_a_slow_computation_covers_are_passed_over() -> None:
    delays = Delays(5 * SECOND)
    delays.follow([ONE], 0)
    delays.fire([ONE], 23 * SECOND)
    assert delays.due(24 * SECOND) == []
    assert delays.due(25 * SECOND) == [ONE]


def test_only_windows_that_are_open_are_due_each_from_its_own_opening() -> None:
    delays = Delays(5 * SECOND)
    delays.follow([ONE], 0)
    delays.follow([ONE, OTHER], 3 * SECOND)
    assert delays.due(6 * SECOND) == [ONE]
    delays.follow([OTHER], 7 * SECOND)
    assert delays.due(8 * SECOND) == [OTHER]


def test_the_next_delay_is_that_of_the_first_window() -> None:
    delays = Delays(5 * SECOND)
    assert delays.next_due() is None
    delays.follow([ONE], 0)
    delays.follow([ONE, OTHER], 3 * SECOND)
    assert delays.next_due() == 5 * SECOND
    delays.fire([ONE], 6 * SECOND)
    assert delays.next_due() == 8 * SECOND


def test_delays_go_on_from_what_was_saved() -> None:
    delays = Delays(5 * SECOND)
    delays.follow([ONE], 0)
    delays.fire([ONE], 6 * SECOND)
    delays.follow([ONE, (1, 11), (2, 3)], 7 * SECOND)
    state = pa.table({"gid": [1, 2, 3]})
    restored = Delays.restored(5 * SECOND, delays.saved(state))
    assert restored.due(11 * SECOND) == [ONE]
    assert sorted(restored.due(12 * SECOND)) == [ONE, (1, 11), (2, 3)]
    assert Delays.restored(5 * SECOND, state).next_due() is None


def test_windows_of_groups_without_changes_stay_as_they_are() -> None:
    delays = Delays(5 * SECOND)
    delays.follow([ONE, (2, 3)], 0)
    delays.follow([ONE, OTHER], SECOND, gids=[1])
    delays.follow([], 2 * SECOND, gids=[2])
    assert delays.due(5 * SECOND) == [ONE]
    assert delays.due(6 * SECOND) == [ONE, OTHER]


def test_following_a_window_again_and_again_keeps_one_instant_of_it() -> None:
    delays = Delays(5 * SECOND)
    for second in range(100):
        delays.follow([ONE], second * SECOND, gids=[1])
    assert len(delays._next) == 1


WINDOWS = st.dictionaries(st.tuples(st.integers(1, 3), st.integers(1, 3)), st.integers(0, 20), max_size=6)


def opened(windows: dict[tuple[int, int], int]) -> Delays:
    """Return delays of windows that opened at some seconds."""
    delays, known = Delays(5 * SECOND), list[tuple[int, int]]()
    for window, second in sorted(windows.items(), key=lambda item: item[1]):
        known.append(window)
        delays.follow(known, second * SECOND)
    return delays


@given(WINDOWS, st.integers(0, 60))
def test_windows_are_due_whose_delay_has_passed_since_they_opened(
    windows: dict[tuple[int, int], int], now: int
) -> None:
    delays = opened(windows)
    due = {window for window, second in windows.items() if second + 5 <= now}
    assert {*delays.due(now * SECOND)} == due
    first = min((second + 5 for second in windows.values()), default=None)
    assert delays.next_due() == (None if first is None else first * SECOND)


@given(WINDOWS, st.integers(20, 60), st.integers(0, 60))
def test_what_fired_is_due_at_the_next_multiple_of_its_delay_also_after_a_restart(
    windows: dict[tuple[int, int], int], fired: int, now: int
) -> None:
    delays = opened(windows)
    delays.fire(delays.due(fired * SECOND), fired * SECOND)
    restored = Delays.restored(5 * SECOND, delays.saved(pa.table({"gid": [1, 2, 3]})))
    passes = {window: second + 5 * ((fired - second) // 5 + 1) for window, second in windows.items()}
    assert {*delays.due(now * SECOND)} == {window for window, at in passes.items() if at <= now}
    assert sorted(restored.due(now * SECOND)) == sorted(delays.due(now * SECOND))
    assert restored.next_due() == delays.next_due()


def test_nothing_saved_is_no_delay() -> None:
    assert Delays.restored(5 * SECOND, None).next_due() is None
