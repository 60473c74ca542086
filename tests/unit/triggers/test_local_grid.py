"""Which grids of a time zone follow its clocks."""

from __future__ import annotations

import pytest

from lakestream.language.model import Duration, IntervalTrigger
from lakestream.triggers.grid import FixedGrid, LocalGrid, grid_of


@pytest.mark.parametrize(
    ("length", "kind"),
    [
        (Duration(1, "d"), LocalGrid),
        (Duration(24, "h"), LocalGrid),
        (Duration(6, "h"), LocalGrid),
        (Duration(60, "m"), LocalGrid),
        (Duration(90, "m"), FixedGrid),
        (Duration(10, "s"), FixedGrid),
    ],
)
def test_windows_of_whole_hours_follow_the_clocks(length: Duration, kind: type) -> None:
    grid = grid_of(IntervalTrigger(length, Duration(0, "s"), length, local=True), "Europe/London")
    assert isinstance(grid, kind)


def test_other_intervals_of_hours_do_not() -> None:
    length = Duration(6, "h")
    assert isinstance(grid_of(IntervalTrigger(length, Duration(0, "s"), length), "Europe/London"), FixedGrid)
