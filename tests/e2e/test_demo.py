from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.demo.report import query_lines

ROOT = Path(__file__).parents[2]
OUTPUTS = ("weather_daily", "wind_6h", "departures_hourly", "delays_and_weather")
VIEW = "airline_days"
BY_CLOCK = ("bulletin", "mean")

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.e2e]


def start(*command: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "lake"


@pytest.fixture(scope="module")
def demo(lake: Path) -> subprocess.CompletedProcess[str]:
    return start(
        sys.executable, "-m", "jobs.demo", "--lake", str(lake), "--days", "10", "--days-per-run", "4"
    )


def test_every_row_is_equal(demo: subprocess.CompletedProcess[str]) -> None:
    assert demo.returncode == 0, demo.stdout + demo.stderr
    checked = re.findall(r"^  (\w+): (\d+) of (\d+) rows equal$", demo.stdout, re.MULTILINE)
    compared = [*OUTPUTS, VIEW, *BY_CLOCK, "total"]
    assert [name for name, _, _ in checked] == [*(f"{o}_stream" for o in OUTPUTS), VIEW, *compared]
    assert all(equal == total != "0" for _, equal, total in checked)


def test_the_changes_are_shown_with_the_rows_that_they_change(demo: subprocess.CompletedProcess[str]) -> None:
    sides = re.findall(r"^(before|after) ", demo.stdout, re.MULTILINE)
    assert sides == ["before", "after"] * (6 + 1 + 1) + ["before", "after"] * 2
    assert re.findall(r"^changed: (.*); all other rows", demo.stdout, re.MULTILINE) == [
        "1 row of weather_daily, 6 rows of wind_6h",
        "1 row of departures_hourly, 1 row of delays_and_weather, 1 row of airline_days",
        "1 row of departures_hourly, 1 row of delays_and_weather, 1 row of airline_days",
        "2 rows of airline_days",
    ]


def test_the_clock_fires_four_times(demo: subprocess.CompletedProcess[str]) -> None:
    printed = re.findall(r"^2013-01-1[56] (\d\d:00) by the clock: (.*)$", demo.stdout, re.MULTILINE)
    assert [at for at, _ in printed] == ["06:00", "12:00", "18:00", "00:00"]
    fired = "nyc.bulletin_stream wrote 3 rows, mean_temperature wrote 3 rows"
    assert {what for _, what in printed} == {fired}


def test_rates_and_ticks_are_shown(demo: subprocess.CompletedProcess[str]) -> None:
    assert re.search(r"rows in \d+ commits .* rows per second", demo.stdout)
    assert "median s" in demo.stdout


@pytest.mark.parametrize("engine", ["Spark", "DuckDB", "pandas"])
def test_the_printed_lines_read_the_outputs(
    demo: subprocess.CompletedProcess[str], lake: Path, engine: str
) -> None:
    line = query_lines(lake)[engine]
    assert line in demo.stdout
    answered = start("sh", "-c", line)
    assert answered.returncode == 0, answered.stderr
    assert all(airport in answered.stdout for airport in ("EWR", "JFK", "LGA"))


def test_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept", encoding="utf-8")
    refused = start(sys.executable, "-m", "jobs.demo", "--lake", str(tmp_path))
    assert refused.returncode == 66
    assert "NOT_A_DEMO_LAKE" in refused.stderr
    assert (tmp_path / "mine").read_text(encoding="utf-8") == "kept"
