"""Many commands at once, and processes that get too little of what the machine has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from tests.faults.attach import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = [pytest.mark.faults, pytest.mark.e2e]

START = datetime(2025, 1, 1, tzinfo=UTC)
ROWS = [{"ts": START + timedelta(minutes=n), "v": n} for n in range(31)]


def stream(name: str, calculation: str = "SELECT _twstart AS w, sum(v) AS total FROM %%trows") -> str:
    """Return a statement that creates a stream over windows of ten minutes."""
    return (
        f"CREATE STREAM {name} INTERVAL(10m) SLIDING(10m) FROM t STREAM_OPTIONS(FILL_HISTORY) "
        f"INTO o_{name} AS {calculation}"
    )


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Return a lake with a table of half an hour."""
    folder = str(tmp_path / "lake")
    with Lake(folder) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        lake.insert("t", ROWS)
    return folder


def begun(root: str, *command: str, within: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Start a command ``within`` another one, in an environment that starts no large JVM."""
    return subprocess.Popen(
        [*within, sys.executable, "-m", "lakestream", "--lake", root, *command],
        env={
            **os.environ,
            "PYTHONPATH": str(CHECKOUT),
            "LAKESTREAM_MASTER": "local[1]",
            "LAKESTREAM_DRIVER_MEMORY": "1g",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for a command; return its exit status and what it printed."""
    out, errors = process.communicate(timeout=240)
    assert "Traceback" not in errors, errors
    return process.returncode, out, errors


def shown(root: str) -> dict[str, str]:
    """Return the streams of a lake and their states."""
    status, out, errors = ended(begun(root, "status", "--output", "json"))
    assert status == 0, errors
    return {row["name"]: row["status"] for row in json.loads(out)["streams"]}


def exact(root: str, name: str) -> None:
    """Run the lake and hold a stream's output against the rows."""
    with Lake(root) as lake:
        assert lake.run().failed == []
        found = sorted(total for (total,) in lake.sql(f"SELECT total FROM o_{name}").fetchall())
        assert found == [sum(range(10 * n, 10 * n + 10)) for n in range(3)]


def test_commands_at_the_same_time_leave_one_consistent_catalogue(root: str) -> None:
    """Of statements for different names all are done; of those for one name one."""
    apart = [begun(root, "sql", stream(f"s{n}")) for n in range(4)]
    rivals = [begun(root, "sql", stream("same")) for _ in range(4)]
    assert [ended(process)[0] for process in apart] == [0] * 4
    answers = [ended(process) for process in rivals]
    assert sorted(status == 0 for status, _, _ in answers) == [False] * 3 + [True]
    assert all("STREAM_ALREADY_EXISTS" in errors for status, _, errors in answers if status)
    names = {*(f"s{n}" for n in range(4)), "same"}
    assert shown(root) == dict.fromkeys(names, "Running")
    mixed = [
        *(begun(root, "sql", "DROP STREAM same") for _ in range(2)),
        begun(root, "sql", "STOP STREAM s0"),
        begun(root, "run"),
        begun(root, "recalculate", "s1", "--from", "2025-01-01", "--to", "2025-01-02"),
        begun(root, "sql", "INSERT INTO t VALUES ('2025-01-01 00:00:00', 0)"),
    ]
    statuses = [ended(process) for process in mixed]
    assert sorted(status == 0 for status, _, _ in statuses[:2]) == [False, True], statuses
    assert [status for status, _, _ in statuses[2:]] == [0] * 4, statuses
    assert shown(root) == {"s0": "Stopped"} | dict.fromkeys(["s1", "s2", "s3"], "Running")
    for name in ("s1", "s2", "s3"):
        exact(root, name)


def test_a_process_with_too_few_files_to_open_says_so_and_loses_nothing(root: str) -> None:
    assert ended(begun(root, "sql", stream("s")))[0] == 0
    for most in (12, 16, 20, 24, 32, 48):
        status, out, errors = ended(begun(root, "run", within=["prlimit", f"--nofile={most}"]))
        assert status == 0 or "oo many open files" in errors + out, (most, status, out, errors)
    exact(root, "s")


@pytest.mark.spark
@pytest.mark.slow
def test_a_query_that_takes_all_memory_of_spark_stops_its_stream_alone(root: str) -> None:
    """It is tried again by the next processes, after its neighbours, and then no more."""
    large = "SELECT _twstart AS w, sum(size(sequence(1, 200000000 + v))) AS total FROM %%trows"
    ok = ended(begun(root, "sql", f"{stream('large', large)}; {stream('well')}"))
    assert ok[0] == 0, ok
    for status in ("Retrying", "Retrying", "Failed"):
        ended_with, _, errors = ended(begun(root, "run"))
        assert (ended_with, "SPARK_DIED" in errors) == (70, True), errors
        assert shown(root) == {"large": status, "well": "Running"}
    assert ended(begun(root, "sql", "STOP STREAM large"))[0] == 0
    exact(root, "well")
