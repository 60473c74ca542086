"""The fit of costs, and what simulated daemons make of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.scale.costs import Cost, Costs, fitted
from tests.scale.simulation import Load, expected, simulated

if TYPE_CHECKING:
    from pathlib import Path

COSTS = Costs(
    look=Cost(0.001, 1e-5),
    round=Cost(0.02, 0.02),
    rows=Cost(0.04, 1e-6),
    groups=Cost(0.04, 1e-9),
    windows=Cost(0.04, 1e-5),
    commits=Cost(0.04, 1e-6),
    files=Cost(0.04, 1e-6),
    outputs=Cost(0.04, 1e-6),
    daemons=Cost(0.001, 1e-4),
)


def test_a_line_through_costs_is_found() -> None:
    found = fitted([1, 10, 100], [0.5 + 0.25 * size for size in (1, 10, 100)])
    assert (found.fixed, found.each) == pytest.approx((0.5, 0.25))
    assert found.of(4) == pytest.approx(1.5)


def test_costs_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    file.write_text(COSTS.written())
    assert Costs.read(file) == COSTS


def test_all_commits_of_a_light_load_are_taken_soon() -> None:
    found = simulated(Load(20, 1, 0.1, seconds=200), COSTS)
    # 2 commits a second of 40 ms each, and looks in between.
    assert len(found.waited) == pytest.approx(400, rel=0.2)
    assert found.percentile(0.5) < 0.1
    assert found.left < 5


def test_more_commits_than_a_daemon_can_take_are_put_together_in_longer_rounds() -> None:
    light, heavy = (simulated(Load(100, 1, rate, seconds=60), COSTS) for rate in (0.1, 10))
    assert light.busy < heavy.busy <= 1.01
    assert light.percentile(0.99) < heavy.percentile(0.5)
    # A round of all streams takes 2 seconds, however many commits each has.
    assert heavy.percentile(0.99) == pytest.approx(4, rel=0.2)


def test_commits_that_are_taken_in_one_tick_cost_what_they_do() -> None:
    load = Load(10, 1, 10, seconds=60)
    few, much = (simulated(load, replace(COSTS, commits=Cost(0.04, each))) for each in (1e-6, 5e-3))
    assert much.percentile(0.5) > 1.2 * few.percentile(0.5)


def test_daemons_divide_streams_and_work() -> None:
    alone, shared = (simulated(Load(1_001, daemons, 0.05, seconds=60), COSTS) for daemons in (1, 10))
    assert shared.busy < alone.busy
    assert len(shared.waited) == pytest.approx(1_001 * 0.05 * 60, rel=0.1)


def test_what_a_store_takes_longer_is_waited_for() -> None:
    near, far = (simulated(Load(20, 1, 0.1, waits=waits), COSTS) for waits in (0.0, 1.0))
    assert far.percentile(0.5) - near.percentile(0.5) == pytest.approx(1.4, abs=0.6)


def test_rounds_cost_what_their_streams_do() -> None:
    assert expected(COSTS, [[1], [1, 2, 3]]) == pytest.approx(0.04 + 0.08)
