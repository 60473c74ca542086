"""What is asked for at each point of a tick comes after it, and nothing is lost or doubled."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from lakestream.engine.base import faults
from lakestream.engine.base.faults import TICK_POINTS
from lakestream.lake import Lake
from lakestream.scheduler.watch import watch
from lakestream.settings import Settings
from tests.faults.child import Quiet
from tests.faults.meters import commits_by_tick
from tests.tiers import leaving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.faults

STREAM = (
    "STREAM s INTERVAL(1m) SLIDING(1m) FROM a STREAM_OPTIONS(EXACT | FILL_HISTORY) "
    "INTO o AS SELECT _twstart AS w, {} AS r FROM %%trows"
)
POINTS = leaving(TICK_POINTS, lambda point: point != "C6b")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake(tmp_path / "lake", settings=Settings(checkpoint_ticks=1)) as lake:
        lake.sql("CREATE TABLE a (ts TIMESTAMP, v INT)")
        lake.sql(f"CREATE {STREAM.format('sum(v)')}")
        for minute in (0, 1):
            come(lake, minute)
        lake.run()
        come(lake, 2)
        yield lake


def come(lake: Lake, minute: int) -> None:
    lake.insert("a", [{"ts": f"2026-01-01 00:{minute:02}:0{second}", "v": second} for second in (1, 2)])


def at(point: str, do: Callable[[], None]) -> None:
    """Do something once when a tick reaches a point."""

    def spring() -> None:
        faults._traps.remove(trap)
        do()

    trap = faults._set(point, 1, spring)


def results(lake: Lake) -> list[tuple[int, int]]:
    rows = DeltaTable(f"{lake._at.layout.root}/main/o").to_pyarrow_table().to_pylist()
    return sorted((row["w"].minute, row["r"]) for row in rows)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("statement", ["DROP", "STOP", "REPLACE"])
def test_a_statement_about_a_stream_that_ticks_comes_after_the_tick(
    lake: Lake, point: str, statement: str
) -> None:
    sql = {"DROP": "DROP STREAM s", "STOP": "STOP STREAM s"}.get(
        statement, f"CREATE OR REPLACE {STREAM.format('count(*)')}"
    )
    done, asked = threading.Event(), threading.Event()

    def other() -> None:
        with Lake(lake._at.layout.root, create=False) as beside:
            asked.set()
            beside.sql(sql)
        done.set()

    asking = threading.Thread(target=other)

    def begin() -> None:
        asking.start()
        asked.wait(30)
        assert not done.wait(0.2)

    at(point, begin)
    assert not lake.run().failed
    asking.join(60)
    assert done.is_set()
    come(lake, 3)
    assert not lake.run().failed
    if statement == "REPLACE":
        assert results(lake) == [(0, 2), (1, 2), (2, 2)]
        return
    # The tick that ran is whole, and nothing was written after it.
    assert results(lake) == [(0, 3), (1, 3)]
    ticks = commits_by_tick(f"{lake._at.layout.root}/main/o")
    assert len(ticks) == len(set(ticks))
    lake.sql("START STREAM s" if statement == "STOP" else f"CREATE {STREAM.format('sum(v)')}")
    assert not lake.run().failed
    assert results(lake) == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_tick_end(lake: Lake, point: str, number: int) -> None:
    at(point, lambda: os.kill(os.getpid(), number))
    watch(lake, Quiet(), poll_seconds=0.01)
    assert results(lake) == [(0, 3), (1, 3)]
    ticks = commits_by_tick(f"{lake._at.layout.root}/main/o")
    assert len(ticks) == len(set(ticks))
    assert not lake.run().ticks
