"""The steady load: its figures, and a short run of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.steady import Look, Steady, _level, _slope

if TYPE_CHECKING:
    from pathlib import Path


def _look(seconds: float, resident: float) -> Look:
    return Look(at=seconds, resident=resident, processor=0.0, files=0, behind=0, kept=0)


def test_the_slope_is_that_of_the_least_of_each_minute() -> None:
    looks = [_look(second, 300 + second / 3600 * 5 + (second % 60 > 0) * 80) for second in range(0, 3600, 5)]
    slope, error = _slope(looks)
    assert slope == pytest.approx(5)
    assert error < 0.01


def test_a_slope_of_few_minutes_breaks_nothing() -> None:
    slope, error = _slope([_look(0, 100), _look(60, 200)])
    assert slope - 2 * error < 0


def test_a_last_quarter_that_costs_more_is_told() -> None:
    assert _level("p99", [10, 30, 30, 13]).is_broken
    assert not _level("p99", [10, 30, 30, 11]).is_broken
    assert not _level("files", [10, 30, 30, 31], since=1).is_broken


@pytest.mark.long
@pytest.mark.slow
def test_outputs_of_a_compressed_half_hour_are_right(tmp_path: Path) -> None:
    steady = Steady(tmp_path / "lake", tmp_path / "daemon.log", 30, compressed=True)
    steady.make()
    steady.run()
    assert steady.wrong() == []
    assert {line.name: line.values for line in steady.lines()}["ticks"] != [0, 0, 0, 0]
