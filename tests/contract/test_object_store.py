"""A lake in a store of S3's protocol: the same rows as on a disk, and daemons that share the streams."""

from __future__ import annotations

import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from httpx2 import TransportError, put
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from lakestream import Lake, ManualClock, Settings
from lakestream.engine.base.faults import crash_point
from lakestream.engine.rounds import engine
from lakestream.storage.delta import read_commits
from lakestream.storage.places import files
from lakestream.storage.places.leases import LEASE_SECONDS, TREE, Leases, Member
from lakestream.storage.records.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = datetime(2025, 1, 1, tzinfo=UTC)
SETTINGS = Settings(transport="arrow")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Run a store in a process of its own: what asks it may hold this one's interpreter."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    for attempt in Retrying(
        retry=retry_if_exception_type(TransportError), stop=stop_after_delay(60), wait=wait_fixed(0.1)
    ):
        with attempt:
            put(f"{url}/lakes").raise_for_status()
    yield url
    process.kill()
    process.wait()


@pytest.fixture
def root(server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[str]:
    given = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server,
        "AWS_ALLOW_HTTP": "true",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    files.store_of.cache_clear()
    yield f"s3://lakes/{request.node.name}"
    files.store_of.cache_clear()


def stream(name: str, source: str) -> str:
    return (
        f"CREATE STREAM {name} INTERVAL(10s) SLIDING(10s) FROM {source} INTO o_{name} "
        "AS SELECT _twstart AS w, count(*) AS n, sum(v) AS total FROM %%trows"
    )


def write(lake: Lake, table: str, *seconds: int) -> None:
    lake.insert(table, [{"ts": START + timedelta(seconds=second), "v": second} for second in seconds])


def rows(lake: Lake, name: str) -> list[tuple[int, int, int]]:
    found = lake.sql(f"SELECT w, n, total FROM o_{name} ORDER BY w").fetchall()
    return [(int((w - START).total_seconds()), n, total) for w, n, total in found]


def test_a_lake_in_a_store_holds_what_one_on_a_disk_does(root: str, spark: SparkSession) -> None:
    with Lake(root, spark=spark, settings=SETTINGS) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        lake.sql(stream("s", "m"))
        write(lake, "m", 1, 2, 11, 21)
        assert not lake.run().failed
        assert rows(lake, "s") == [(0, 2, 3), (10, 1, 11)]
    with Lake(root, spark=spark, settings=SETTINGS) as lake:
        write(lake, "m", 3, 31)
        lake.sql(f"DELETE FROM m WHERE ts = '{START + timedelta(seconds=31):%Y-%m-%d %H:%M:%S}'")
        assert not lake.run().failed
        assert rows(lake, "s") == [(0, 3, 6), (10, 1, 11), (20, 1, 21)]
        [status] = lake.streams()
        assert (status.status, status.lag) == ("Running", 0)
        lake.sql("DROP STREAM s")
        lake.sql("DROP TABLE o_s")
        assert [name for name, *_ in lake.sql("SHOW TABLES").fetchall()] == ["m"]


class Daemon:
    """What a daemon does in its rounds, told to do it."""

    def __init__(self, root: str, spark: SparkSession, clock: ManualClock, pid: int) -> None:
        self.lake = Lake(root, spark=spark, settings=SETTINGS)
        registry = Registry(self.lake._at.layout)
        self.leases = Leases(
            f"{root}/_lakestream",
            Member(pid, "host", "http://127.0.0.1:8600", START.isoformat()),
            lambda: {TREE, *(record.uuid for record in registry.streams())},
            clock,
        )
        self.leases.renew()
        self.lake.share(self.leases)

    def work(self) -> set[str]:
        """Run rounds until nothing is left; return the streams that ticked."""
        ticked = set()
        while reports := self.lake.tick_once():
            assert not [report for report in reports if report.error], reports
            ticked |= {report.stream for report in reports}
        return ticked


def test_daemons_share_the_streams_and_take_over(root: str, spark: SparkSession) -> None:
    clock = ManualClock(START)
    names = ("a", "b", "c")
    with Lake(root, spark=spark, settings=SETTINGS) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        for name in names:
            lake.sql(stream(name, "m"))
        first, second = Daemon(root, spark, clock, 1), Daemon(root, spark, clock, 2)
        first.work()
        for daemon in (first, second, first, second):
            daemon.leases.renew()
            daemon.work()
        write(lake, "m", 1, 11)
        shared = first.work(), second.work()
        assert shared[0] | shared[1] == {f"main.{name}" for name in names}
        assert not shared[0] & shared[1]
        assert shared[0]
        assert shared[1]
        clock.advance(timedelta(seconds=LEASE_SECONDS))  # the first one is heard of no more
        second.leases.renew()
        write(lake, "m", 2, 21)
        assert second.work() == {f"main.{name}" for name in names}
        assert first.work() == set()
        for name in names:
            assert rows(lake, name) == [(0, 2, 3), (10, 1, 11)]
            path = f"{root}/main/o_{name}"
            commits = read_commits(path, 0, DeltaTable(path).version())
            ticks = [tick for commit in commits for _, tick in commit.transactions]
            assert ticks == sorted(set(ticks)), "a tick was committed twice"


def test_a_tick_that_two_processes_run_at_once_is_committed_once(
    root: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(START)
    with (
        Lake(root, spark=spark, settings=SETTINGS, clock=clock) as one,
        Lake(root, spark=spark, settings=SETTINGS, clock=clock) as other,
    ):
        one.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        one.sql(stream("s", "m"))
        write(one, "m", 1, 11)
        one.run()

        def overtaken(point: str) -> None:
            if point == "C2":
                monkeypatch.setattr(engine, "crash_point", crash_point)
                other.tick_once()

        monkeypatch.setattr(engine, "crash_point", overtaken)
        write(one, "m", 2, 21)
        [report] = one.tick_once()
        assert "FENCED" in str(report.error) or "another process" in str(report.error)
        assert rows(one, "s") == [(0, 2, 3), (10, 1, 11)]
        assert one.streams()[0].status == "Retrying"
        write(one, "m", 31)
        clock.advance(timedelta(seconds=1))
        assert not one.run().failed
        assert rows(one, "s") == [(0, 2, 3), (10, 1, 11), (20, 1, 21)]
        assert one.streams()[0].status == "Running"
