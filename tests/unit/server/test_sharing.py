"""Daemons that share a lake in a folder: each runs its part, and what one leaves another takes. No Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakestream import Lake, ManualClock
from lakestream.storage.places.leases import TREE, Leases, Member

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2025, 1, 1, tzinfo=UTC)
NAMES = frozenset({"a", "b", "c"})


class Daemon:
    """What a daemon does in its rounds, told to do it."""

    def __init__(self, root: Path, clock: ManualClock, pid: int) -> None:
        self.lake = Lake(root)
        streams = self.lake._at.registry.streams
        self.leases = Leases(
            self.lake._at.layout.system_root,
            Member(pid, "host", "http://127.0.0.1:8600", START.isoformat(), boot="this one"),
            lambda: {TREE, *(record.uuid for record in streams())},
            clock,
        )
        self.lake.share(self.leases)

    def work(self) -> set[str]:
        """Renew the leases and run rounds until nothing is left; return the streams that ticked."""
        self.leases.renew()
        ticked = set()
        while reports := self.lake.tick_once():
            assert not [report for report in reports if report.error], reports
            ticked |= {report.stream.removeprefix("main.") for report in reports}
        return ticked

    def kill(self) -> None:
        """End it as a kill does: nothing is given back, and its locks are gone."""
        assert self.leases._life is not None
        self.leases._life.close()


def write(lake: Lake, *seconds: int) -> None:
    lake.insert("m", [{"ts": START + timedelta(seconds=second), "v": second} for second in seconds])


def test_each_runs_its_part_and_takes_what_another_one_leaves(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with Lake(tmp_path) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        for name in NAMES:
            lake.sql(
                f"CREATE STREAM {name} INTERVAL(10s) SLIDING(10s) FROM m INTO o_{name} "
                "AS SELECT _twstart AS w, count(*) AS n, sum(v) AS total FROM %%trows"
            )
        first, second = Daemon(tmp_path, clock, 1), Daemon(tmp_path, clock, 2)
        for daemon in (first, second, first, second):
            daemon.work()
        write(lake, 1, 11)
        parts = first.work(), second.work()
        assert parts[0] | parts[1] == NAMES
        assert not parts[0] & parts[1]
        assert all(parts)
        first.kill()
        write(lake, 2, 21)
        assert second.work() == NAMES
        third = Daemon(tmp_path, clock, 3)
        third.work()
        second.leases.leave()
        write(lake, 3, 31)
        assert second.lake.tick_once() == []
        assert third.work() == NAMES
        for name in NAMES:
            found = lake.newest_results(name).select(["n", "total"]).to_pylist()
            assert sorted((row["n"], row["total"]) for row in found) == [(1, 11), (1, 21), (3, 6)]
        for daemon in (first, second, third):
            daemon.lake.close()
