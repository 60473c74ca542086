"""A crash at any point loses no event and doubles none in the outbox; at worst a message comes twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake, Settings
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from lakestream.notify.outbox import Outbox
from tests.notify.catcher import Catcher

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.faults, pytest.mark.spark]

POINTS = ("C3", "C5", "C6a", "C6b", "C7", "C8", "C9")
TWICE = {"C8": 1}
"""How many messages may come twice: one that was sent and not recorded."""


class Notified:
    """A lake with a stream of windows of 10 s that emits all its events."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root, self.spark, self.catcher, self.windows = root, spark, Catcher(), 0
        with self.opened() as lake:
            lake.sql("CREATE TABLE nt (ts TIMESTAMP, v INT)")
            lake.sql(
                f"CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM nt NOTIFY('{self.catcher.url}') "
                "ON (WINDOW_OPEN | WINDOW_CLOSE) INTO o AS SELECT _twstart AS ws, sum(v) AS t FROM %%trows"
            )
        self.next_window()
        self.run()

    def opened(self) -> Lake:
        return Lake(self.root, spark=self.spark, settings=Settings(notify_hosts=("localhost",)))

    def next_window(self) -> None:
        """Write the row that closes a window and opens the next one."""
        with self.opened() as lake:
            ts = f"2025-01-01 00:{self.windows // 6:02d}:{self.windows % 6}1"
            lake.insert("nt", [{"ts": ts, "v": self.windows}])
        self.windows += 1

    def run(self) -> None:
        with self.opened() as lake:
            assert not lake.run().failed

    def crash(self, point: str) -> None:
        lake = self.opened()
        with pytest.raises(SimulatedCrash), crash_at(point):
            lake.run()
        # A dead process has neither threads nor locks.
        notifier = lake._at._sending
        assert notifier is not None
        assert notifier._dispatcher is not None
        for target in notifier._dispatcher._targets.values():
            target.stop()
        assert notifier._lock is not None
        notifier._lock.close()

    def expected(self) -> list[tuple[str, int]]:
        opened = [("WINDOW_OPEN", 0)]
        return opened + [
            event
            for number in range(1, self.windows)
            for event in (("WINDOW_CLOSE", number - 1), ("WINDOW_OPEN", number))
        ]

    def received(self) -> list[dict[str, Any]]:
        """Return each message once, in the order they came first."""
        return list({message["messageId"]: message for message in self.catcher.messages}.values())

    def check(self, twice: int) -> None:
        messages = self.received()
        events = [e for m in messages for stream in m["streams"] for e in stream["events"]]
        start = 1_735_689_600_000
        found = [(e["eventType"], (e["windowStart"] - start) // 10_000) for e in events]
        assert found == self.expected()
        results = [e["result"]["t"] for e in events if "result" in e]
        assert results == [*range(self.windows - 1)]
        assert len(self.catcher.messages) - len(messages) <= twice
        outbox = Outbox(str(self.root / "_lakestream" / "outbox"))
        kept = [e for batch in outbox.since(-1) for e in outbox.events(batch)["event_id"].to_pylist()]
        assert len(kept) == len(set(kept)) == len(events)


@pytest.fixture(scope="module")
def notified(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Notified]:
    story = Notified(tmp_path_factory.mktemp("notified") / "lake", spark)
    yield story
    story.catcher.close()


def test_no_event_is_lost_and_none_doubled(notified: Notified) -> None:
    twice = 0
    for point in POINTS:
        notified.next_window()
        notified.crash(point)
        notified.run()
        twice += TWICE.get(point, 0)
        notified.check(twice)
