"""A few cycles of the random killer; ``make faults`` runs as many as it is told."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.faults import forked, killer, shared, sparks

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.faults, pytest.mark.long]


@pytest.mark.spark
def test_kills_at_any_time_lose_and_double_nothing(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(killer, "MAX_SECONDS", 2.0)
    assert killer.run(tmp_path / "lake", spark, cycles=10, seed="1") > 20


@pytest.mark.spark
def test_the_spark_of_a_process_is_killed_alone(tmp_path: Path) -> None:
    assert sparks.kill(tmp_path / "lake", cycles=3, seed="2", tell=lambda _text: None) > 5


def test_kills_without_spark_lose_and_double_nothing(tmp_path: Path) -> None:
    assert forked.kill(tmp_path / "lake", cycles=10, seed="1", tell=lambda _text: None) > 10


def test_of_two_daemons_on_one_folder_each_may_be_killed(tmp_path: Path) -> None:
    told: list[str] = []
    assert shared.run(5, "1", told.append, folder=str(tmp_path), verifies=False) > 10
    assert told


def test_a_workload_is_taken_up_again_where_it_was_cut_off(tmp_path: Path) -> None:
    load = killer.Workload(random.Random(1), tmp_path / "lake", kinds=("hopping", "exact")).begin()
    with load.opened() as lake:
        for _ in range(30):
            load.write(lake)
    again = killer.Workload(random.Random(2), load.root, kinds=load.kinds).resumed()
    assert (again.readings, again.front) == (load.readings, max(second for _, second in load.readings))
    assert [{*map(repr, commit)} for commit in again.commits] == [
        {*map(repr, commit)} for commit in load.commits
    ]
    again.check()
