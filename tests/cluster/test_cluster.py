"""What ``make cluster`` shows at length, in short."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cluster.crossing import KINDS, VIEWED
from tests.cluster.driver import CHECKOUT
from tests.cluster.history import SHORT
from tests.cluster.scenarios import SCENARIOS, Run, small

if TYPE_CHECKING:
    from pathlib import Path


def test_small_work_does_not_go_to_a_cluster(tmp_path: Path) -> None:
    assert small(Run(tmp_path, 1_000, SHORT)) == []


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["same", "all_workers_killed"])
def test_streams_on_a_cluster_are_as_they_are_here(scenario: str, tmp_path: Path) -> None:
    assert SCENARIOS[scenario](Run(tmp_path, 2_000, SHORT)) == []


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, VIEWED])
def test_nothing_large_passes_the_driver(kind: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.cluster.crossing", str(tmp_path), kind]
    ran = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=True)
    assert json.loads(ran.stdout.splitlines()[-1]) == []
