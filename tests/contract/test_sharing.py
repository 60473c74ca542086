"""Streams of one shape share a query; each has the output that it would have by itself."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake, Settings
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from lakestream.engine.ticks.sharing import Sharing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakestream.engine.ticks.sharing import Member

pytestmark = pytest.mark.spark

TRIGGERS = {
    "tens": "INTERVAL(10s) SLIDING(10s) FROM m PARTITION BY tbname",
    "late_start": "INTERVAL(15s, 4s) SLIDING(15s) FROM m PARTITION BY tbname",
    "large": "INTERVAL(10s) SLIDING(10s) FROM m PARTITION BY tbname STREAM_OPTIONS(PRE_FILTER(v >= 50))",
    "odd": "INTERVAL(20s) SLIDING(20s) FROM m PARTITION BY tbname STREAM_OPTIONS(PRE_FILTER(w % 2 = 1))",
    "none": "INTERVAL(10s) SLIDING(10s) FROM m PARTITION BY tbname STREAM_OPTIONS(PRE_FILTER(v < 0))",
    "hopping": "INTERVAL(20s) SLIDING(5s) FROM m PARTITION BY tbname",
    "half": "INTERVAL(20s) SLIDING(5s) FROM m PARTITION BY tbname STREAM_OPTIONS(PRE_FILTER(v > 50))",
    "expiring": "INTERVAL(10s) SLIDING(10s) FROM m PARTITION BY tbname STREAM_OPTIONS(EXPIRED_TIME(20s))",
    "expiring_too": "INTERVAL(30s) SLIDING(30s) FROM m PARTITION BY tbname STREAM_OPTIONS(EXPIRED_TIME(20s))",
    "together": "INTERVAL(10s) SLIDING(10s) FROM m",
}


class World:
    """A lake with the streams over a super table ``m``, and what they have shared."""

    def __init__(self, path: Path, spark: SparkSession, names: Sequence[str]) -> None:
        self.path, self.spark, self.names = path, spark, names
        self.lake = self.opened()
        self.lake.sql("CREATE STABLE m (ts TIMESTAMP, v INT, w INT) TAGS (loc INT)")
        for name in names:
            self.lake.sql(
                f"CREATE STREAM {name} {TRIGGERS[name]} INTO o_{name} AS "
                "SELECT _twstart AS ws, count(*) AS n, sum(v) AS total, avg(w) AS mean FROM %%trows"
            )

    def opened(self) -> Lake:
        return Lake(self.path, spark=self.spark, settings=Settings(transport="arrow"))

    def write(self, *readings: tuple[str, int, int, int]) -> None:
        rows = [_row(*reading) for reading in readings]
        self.lake.insert("m", rows)

    def run(self) -> None:
        failed = self.lake.run().failed
        assert not failed, failed[0].error

    def verify(self) -> None:
        for name in self.names:
            found = self.lake.verify(name)
            assert found.holds, (name, found)


def _row(name: str, second: int, v: int, w: int) -> dict[str, Any]:
    at = f"2025-01-01 00:{second // 60:02}:{second % 60:02}"
    return {"tbname": name, "loc": 1, "ts": at, "v": v, "w": w}


def test_each_stream_has_what_it_would_have_by_itself(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, run = [], Sharing.run

    def seen(sharing: Sharing, members: Sequence[Member]) -> dict[str, pa.Table]:
        shared.append(sorted(member.stream.definition.name.name for member in members))
        return run(sharing, members)

    monkeypatch.setattr(Sharing, "run", seen)
    world, random, since = World(tmp_path / "lake", spark, [*TRIGGERS]), Random("shared"), 0
    for _ in range(4):
        seconds = random.sample(range(max(0, since - 25), since + 40), 8)
        since = max(since, *seconds)
        world.write(
            *((random.choice("abc"), at, random.randrange(100), random.randrange(9)) for at in seconds)
        )
        world.run()
    alike = [
        ["large", "late_start", "none", "odd", "tens"],
        ["half", "hopping"],
        ["expiring", "expiring_too"],
    ]
    # One that has judged rows one by one goes by itself the next time: its open windows are read again.
    assert [group for group in shared if not any(set(group) <= set(all_alike) for all_alike in alike)] == []
    assert [all_alike for all_alike in alike if all_alike not in shared] == []
    world.verify()


@pytest.mark.parametrize("point", ["C3", "C7"])
def test_after_a_crash_each_goes_on_by_itself(tmp_path: Path, spark: SparkSession, point: str) -> None:
    world = World(tmp_path / "lake", spark, ["tens", "late_start"])
    world.write(("a", 1, 1, 1), ("b", 12, 60, 2))
    world.run()
    world.write(("a", 30, 70, 3), ("b", 95, 2, 5))
    with crash_at(point), pytest.raises(SimulatedCrash):
        world.lake.run()
    world.lake = world.opened()
    world.run()
    world.write(("a", 170, 80, 3), ("b", 199, 2, 5))
    world.run()
    world.verify()


def test_a_query_that_fails_is_left_to_each_stream(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_sharing: Sharing, _members: Sequence[Member]) -> dict[str, pa.Table]:
        raise RuntimeError("no memory")

    monkeypatch.setattr(Sharing, "run", fail)
    world = World(tmp_path / "lake", spark, ["tens", "large"])
    world.write(("a", 1, 1, 1), ("b", 12, 60, 2))
    world.run()
    world.verify()
