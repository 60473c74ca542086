"""What is emitted for windows that are open when rows of them go, or come late."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from lakestream import Lake, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = 1_735_689_600_000
NOTIFY = "NOTIFY('ws://localhost:1/x') ON (WINDOW_OPEN | WINDOW_CLOSE)"
OF_ROWS = "AS SELECT _twstart AS ws, count(*) AS n FROM %%trows"
INTERVAL = "INTERVAL(10s) SLIDING(10s) FROM m STREAM_OPTIONS"
STREAMS = {
    "session": f"SESSION(ts, 3s) FROM m {NOTIFY} INTO session {OF_ROWS}",
    "state": f"STATE_WINDOW(v) FROM m PARTITION BY tbname {NOTIFY} INTO state {OF_ROWS}",
    "followed": f"{INTERVAL}(IGNORE_NODATA_TRIGGER | DELETE_RECALC) {NOTIFY} INTO followed {OF_ROWS}",
    "filtered": f"{INTERVAL}(IGNORE_NODATA_TRIGGER | PRE_FILTER(v > 0)) {NOTIFY} INTO filtered {OF_ROWS}",
    "exact": f"{INTERVAL}(IGNORE_NODATA_TRIGGER | EXACT) {NOTIFY} INTO exact {OF_ROWS}",
    "behind": f"{INTERVAL}(IGNORE_NODATA_TRIGGER | WATERMARK(4s)) {NOTIFY} INTO behind {OF_ROWS}",
    "emptied": f"{INTERVAL}(DELETE_RECALC) {NOTIFY} INTO emptied {OF_ROWS}",
    "notifying": f"{INTERVAL}(IGNORE_NODATA_TRIGGER | DELETE_RECALC | CALC_NOTIFY_ONLY) {NOTIFY} {OF_ROWS}",
}
Emitted = dict[str, list[tuple[str, int]]]


class World:
    """A lake with the streams, and what came of each since the last look."""

    def __init__(self, path: Path, spark: SparkSession) -> None:
        self.path, self.seen = path, set[str]()
        self.lake = Lake(path, spark=spark, settings=Settings(notify_hosts=("localhost",)))
        self.lake.sql("CREATE STABLE m (ts TIMESTAMP, v INT) TAGS (loc INT)")
        for name, text in STREAMS.items():
            self.lake.sql(f"CREATE STREAM {name} {text}")

    def write(self, *readings: tuple[int, int]) -> Emitted:
        rows = [{"tbname": "a", "loc": 1, "ts": f"2025-01-01 00:00:{s:02}", "v": v} for s, v in readings]
        self.lake.insert("m", rows)
        return self.run()

    def sql(self, text: str) -> Emitted:
        self.lake.sql(text)
        return self.run()

    def run(self) -> Emitted:
        """Run, and return the events of each stream with the second at which their windows start."""
        assert not self.lake.run().failed
        outbox = DeltaTable(str(self.path / "_lakestream" / "outbox")).to_pyarrow_table()
        rows = sorted(outbox.to_pylist(), key=lambda row: (int(row["tick"].split(":")[-1]), row["seq"]))
        emitted: Emitted = {name: [] for name in STREAMS}
        for row in rows:
            if row["event_id"] not in self.seen:
                start = (json.loads(row["event"])["windowStart"] - START) // 1_000
                emitted[row["stream"]].append((row["event_type"].removeprefix("WINDOW_"), start))
        self.seen = {row["event_id"] for row in rows}
        return emitted


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("open") / "lake", spark)
    yield world
    world.lake.close()


def test_what_is_emitted_for_open_windows(world: World) -> None:
    """One history from the first row on; each step says what is new."""
    emitted = world.write((1, 1), (3, 1), (5, 1))
    assert set(map(tuple, emitted.values())) == {(("OPEN", 0),), (("OPEN", 1),)}

    emitted = world.sql("DELETE FROM m WHERE ts = '2025-01-01 00:00:03'")
    assert emitted.pop("session") == [("CLOSE", 1), ("OPEN", 5)], "the delete has cut it, followed or not"
    assert not any(emitted.values())

    emitted = world.write((18, 1))
    assert emitted["followed"] == emitted["exact"] == emitted["emptied"] == [("CLOSE", 0), ("OPEN", 10)]
    assert emitted["filtered"] == emitted["notifying"] == [("CLOSE", 0), ("OPEN", 10)]
    assert emitted["behind"] == [("CLOSE", 0)], "no row of the next window has been evaluated"
    assert emitted["session"] == [("CLOSE", 5), ("OPEN", 18)]

    emitted = world.sql("UPDATE m SET v = 0 WHERE ts = '2025-01-01 00:00:18'")
    assert emitted.pop("filtered") == [("INVALIDATION", 10)], "the update took the only row of it away"
    assert emitted.pop("state") == [("CLOSE", 1), ("OPEN", 18)]
    assert not any(emitted.values())

    emitted = world.write((22, 2))
    assert emitted["behind"] == [("OPEN", 10)], "the mark has reached the row, of a window begun before"
    assert emitted["filtered"] == [("OPEN", 20)]
    assert emitted["followed"] == emitted["exact"] == emitted["notifying"] == [("CLOSE", 10), ("OPEN", 20)]

    emitted = world.sql("DELETE FROM m WHERE ts = '2025-01-01 00:00:22'")
    assert emitted["followed"] == emitted["notifying"] == [("INVALIDATION", 20)]
    assert emitted["exact"] == [("INVALIDATION", 10), ("INVALIDATION", 20), ("OPEN", 10)]
    assert emitted["state"] == [("INVALIDATION", 22)]
    assert emitted["session"] == [("INVALIDATION", 22)]
    assert emitted["filtered"] == [("INVALIDATION", 20)], "the delete that triggers nothing is seen"
    assert emitted["emptied"] == emitted["behind"] == []

    emitted = world.write((33, 2))
    assert emitted["followed"] == emitted["notifying"] == emitted["filtered"] == [("OPEN", 30)]
    assert emitted["behind"] == [("CLOSE", 10)]
    assert emitted["emptied"] == [("CLOSE", 20), ("OPEN", 30)]

    emitted = world.sql("DELETE FROM m")
    assert emitted["followed"][-1] == emitted["notifying"][-1] == ("INVALIDATION", 30)
    assert ("INVALIDATION", 30) in emitted["emptied"], "nothing is left of its group"
    assert emitted["state"] == [("INVALIDATION", 33)]
    assert world.lake.verify("notifying").holds
