"""Every job of the bundle runs on a local lake, and leaves as its tasks do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from lakestream import Lake
from lakestream.cli import cli

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RANGE = ["--param=stream=s", "--param=from=2025-01-01", "--param=to=2025-01-02"]


def run(lake: Path, job: str, *arguments: str) -> tuple[int, list[str]]:
    outcome = CliRunner().invoke(cli, ["--lake", str(lake), "--output=json", "job", "run", job, *arguments])
    tasks = json.loads(outcome.stdout)["tasks"]
    return outcome.exit_code, [f"{task['task']} {task['state']}" for task in tasks]


def test_every_job_runs(tmp_path: Path, spark: SparkSession) -> None:
    root = tmp_path / "lake"
    with Lake(root, spark=spark) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        for name in "st":
            lake.sql(
                f"CREATE STREAM {name} INTERVAL(1h) SLIDING(1h) FROM m INTO {name}o "
                "AS SELECT _twstart AS w, sum(v) AS n FROM %%trows"
            )
        lake.insert("m", [{"ts": f"2025-01-01 0{hour}:00:00", "v": hour} for hour in range(3)])
    assert run(root, "catch_up", "--param=streams=s") == (0, ["run done"])
    with Lake(root, spark=spark) as lake:
        assert {stream.name: stream.lag for stream in lake.streams()} == {"s": 0, "t": 1}
    assert run(root, "recalculation", *RANGE) == (0, ["recalculate done", "verify done"])
    with Lake(root, spark=spark) as lake:
        assert [stream.lag for stream in lake.streams()] == [0, 0]
        lake.sql("DELETE FROM so WHERE n = 1")
    assert run(root, "verification", "--param=streams=s") == (1, ["run done", "verify failed"])
    assert run(root, "maintenance") == (0, ["run done", "maintain done"])
    assert run(root, "recalculation", "--param=stream=x", *RANGE[1:]) == (
        2,
        ["recalculate failed", "verify skipped"],
    )
