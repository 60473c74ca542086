"""The JVM is killed and the process lives: at each point of a tick, and what comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from lakestream.clock import SystemClock
from lakestream.engine.base.faults import QUARANTINE_POINTS, TICK_POINTS
from tests.faults.attach import child
from tests.faults.meters import commits_by_tick

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.faults, pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

POINTS = (*TICK_POINTS, *QUARANTINE_POINTS)
SECONDS = 1_500
STREAMS = """
CREATE TABLE p (ts TIMESTAMP, v INT);
CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM p STREAM_OPTIONS(EXACT)
  EXPECT positive CHECK (v >= 0) ON VIOLATION QUARANTINE
  INTO o AS SELECT _twstart AS w, count(*) AS n, sum(v) AS total FROM %%trows;
CREATE STREAM c COUNT_WINDOW(2) FROM p INTO oc AS SELECT _twstart AS w, sum(v) AS total FROM %%trows
"""


def minute(number: int) -> str:
    """Return an INSERT of three rows of a minute, of which one is put into quarantine."""
    rows = ", ".join(
        f"('2025-01-01 00:{number:02d}:{second:02d}', {v})" for second, v in ((1, 1), (2, -1), (3, 2))
    )
    return f"INSERT INTO p VALUES {rows}"


def until(process: subprocess.Popen[str], holds: Callable[[], bool]) -> None:
    clock = SystemClock()
    deadline = clock.monotonic() + SECONDS
    while not holds():
        assert process.poll() is None, process.communicate()[1]
        assert clock.monotonic() < deadline
        clock.sleep(0.2)


def test_each_tick_is_committed_once_at_whichever_point_spark_is_killed(tmp_path: Path) -> None:
    """One process takes them all, each time with another Spark."""
    root, point = tmp_path / "lake", tmp_path / "point"
    point.write_text("")
    with Lake(root) as lake:
        lake.sql(STREAMS)
        lake.sql(minute(0))

        def is_current() -> bool:
            found = {(one.status, one.lag) for one in lake.streams()}
            return not point.read_text() and found == {("Running", 0)}

        flags = ("--watch", "--own-spark", f"--kill-spark={point}")
        with child("tests.faults.child", str(root), "spark", *flags) as process:
            until(process, is_current)
            for number, name in enumerate(POINTS, 1):
                point.write_text(name)
                lake.sql(minute(number))
                until(process, is_current)
        seen = len(POINTS)
        assert lake.sql("SELECT n, total FROM o").fetchall() == [(2, 3)] * seen
        assert lake.sql("SELECT v FROM s__quarantine").fetchall() == [(-1,)] * (seen + 1)
        assert lake.sql("SELECT count(*) FROM oc").fetchall() == [((seen + 1) * 3 // 2,)]
        for output in ("o", "oc", "s__quarantine"):
            ticks = commits_by_tick(str(root / "main" / output))
            assert len(ticks) == len(set(ticks)), (output, ticks)
        assert "SPARK_DIED" in {one.code for one in lake.failures("s")}
