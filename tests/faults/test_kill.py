"""Processes that are really killed, one at each point, and taken up by the next one."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lakestream.engine.base.faults import CRASH_VARIABLE, STATUS_KILLED, TICK_POINTS
from tests.faults.attach import CHECKOUT, child, gateway_of
from tests.faults.meters import HOPPING, Story
from tests.tiers import leaving

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.faults, pytest.mark.spark]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Story:
    begun = Story(tmp_path_factory.mktemp("kill") / "lake", spark, HOPPING).begin()
    begun.write(("a", 1, 1), ("b", 7, 2), ("a", 33, 3), ("b", 31, 4))
    begun.run()
    return begun


@pytest.mark.parametrize("point", leaving(TICK_POINTS, lambda point: point not in ("C1", "C3", "C7")))
def test_a_killed_process_loses_and_doubles_nothing(story: Story, spark: SparkSession, point: str) -> None:
    front = max(at for _, at in story.readings)
    story.write(("a", front + 12, 1), ("b", front + 13, 2))
    story.write(("a", 2 + TICK_POINTS.index(point), 5), ("b", 7, front))
    story.step()
    environment = {**gateway_of(spark), CRASH_VARIABLE: point}
    with child("tests.faults.child", str(story.root), "arrow", **environment) as process:
        _, errors = process.communicate(timeout=240)
    assert process.returncode == STATUS_KILLED, errors
    story.run()
    story.check()


@pytest.mark.e2e
@pytest.mark.slow
def test_a_killed_command_is_taken_up_by_the_next_one(tmp_path: Path, spark: SparkSession) -> None:
    """The command line with a Spark of its own, which dies with it."""
    story = Story(tmp_path / "lake", spark, HOPPING).begin()
    story.write(("a", 1, 1), ("b", 7, 2), ("a", 33, 3), ("b", 31, 4))
    story.step()
    story.step()

    def command(**environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "lakestream", "--lake", str(story.root), "run"],
            env={
                **os.environ,
                "PYTHONPATH": str(CHECKOUT),
                "LAKESTREAM_MASTER": "local[1]",
                "LAKESTREAM_DRIVER_MEMORY": "1g",
                **environment,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    assert command(**{CRASH_VARIABLE: "C6b"}).returncode == STATUS_KILLED
    again = command()
    assert again.returncode == 0, again.stderr
    story.check()


def test_an_unknown_crash_point_is_refused() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "import lakestream.engine.base.faults"],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), CRASH_VARIABLE: "C6"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "there is no crash point C6:1 (the points are C1, C2, C3, C4, C6a, C6b, C7" in ran.stderr
