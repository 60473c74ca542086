"""When the wall clock makes windows due."""

from __future__ import annotations

from lakestream.engine.delays import Delays

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
