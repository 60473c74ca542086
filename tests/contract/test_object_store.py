"""A lake in a store of S3's protocol: the same rows as on a disk, and daemons that share the streams."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from lakestream import Lake, ManualClock, Settings
from lakestream.clock import SystemClock
from lakestream.engine.base.faults import crash_point
from lakestream.engine.rounds import engine
from lakestream.errors import LakestreamError, PrerequisiteError
from lakestream.scheduler.watch import PASSING
from lakestream.server.process.sharing import sharing
from lakestream.storage.delta import read_commits
from lakestream.storage.places import claims, files
from lakestream.storage.places.backup import restore
from lakestream.storage.places.leases import LEASE_SECONDS, TREE, Leases, Member, read_roll
from lakestream.storage.records import states, tick_log
from lakestream.storage.records.registry import Registry
from lakestream.storage.rows.reading import read_arrow
from lakestream.storage.tables import ahead
from lakestream.storage.tables.log import last_checkpoint
from lakestream.storage.tables.mirror import count_files
from lakestream.storage.tables.table import Table
from lakestream.storage.writes.writing import write_rows
from lakestream.timeseries import points
from tests.store_server import BUCKET, Answers, Asked, StoreServer, store_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

START = datetime(2025, 1, 1, tzinfo=UTC)
SETTINGS = Settings(transport="arrow")


@pytest.fixture(scope="module")
def server() -> Iterator[StoreServer]:
    with store_server() as server:
        yield server


@pytest.fixture
def root(
    server: StoreServer, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[str]:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    files.store_of.cache_clear()
    yield f"s3://{BUCKET}/{request.node.name.translate(str.maketrans('[]', '--'))}"
    server.answer(Answers())
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
                with monkeypatch.context() as elsewhere:  # another process knows nothing of this one's claims
                    elsewhere.setattr(claims, "_taken", {})
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


def test_a_given_session_that_reads_no_store_is_named(root: str, spark: SparkSession) -> None:
    with Lake(root, spark=spark) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        lake.sql(stream("s", "m"))
        write(lake, "m", 1, 11)
        assert not lake.run().failed  # what is small goes without Spark
        with pytest.raises(PrerequisiteError) as caught:
            lake.sql("VERIFY STREAM s")
        assert caught.value.code == "STORE_NOT_IN_SPARK"


REFUSALS = {
    "STORE_REFUSED": Answers(403, "SignatureDoesNotMatch"),
    "NO_BUCKET": Answers(404, "NoSuchBucket"),
    "CLOCK_SKEW": Answers(403, "RequestTimeTooSkewed"),
    "STORE_WITHOUT_CONDITIONS": Answers(501, "NotImplemented"),
}


def test_what_a_store_refuses_has_a_name(root: str, server: StoreServer) -> None:
    def said(work: Callable[[Lake], object]) -> str:
        with pytest.raises(LakestreamError) as caught:
            work(lake)
        assert caught.value.hint
        return caught.value.code

    with Lake(root) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        lake.sql(stream("s", "m"))
        write(lake, "m", 1, 11)
        for code, answers in REFUSALS.items():
            server.answer(answers)
            assert said(lambda _: Lake(root)) == code
            assert said(lambda lake: lake.tick_once()) == code
            if answers.status != 501:  # which the client asks for again and again
                assert said(lambda lake: lake.sql("INSERT INTO m VALUES ('2025-01-01', 1)")) == code
                assert said(lambda lake: write(lake, "m", 2)) == code
                assert said(lambda lake: lake.streams()) == code
                assert {(one.code, one.remedy) for one in lake.repair.check()} == {(code, "")}
        server.answer(Answers())
        assert not lake.run().failed
        assert rows(lake, "s") == [(0, 1, 1)]


def test_a_store_that_does_not_answer_is_named_and_may_come_back(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(LakestreamError) as caught:
            Lake(root)
    assert caught.value.code == "STORE_UNREACHABLE"
    assert isinstance(caught.value, PASSING)


FAILING = {
    "breaks off": Answers(half=True),
    "breaks off early": Answers(half=True, at=3),
    "breaks off in a tick": Answers(half=True, at=10),
    "has too much to do": Answers(503, "SlowDown", at=4),
    "fails, and has done it": Answers(500, "InternalError", at=9, lost=True),
}


@pytest.mark.parametrize("how", [*FAILING])
def test_a_store_that_fails_in_the_middle_of_a_tick(root: str, server: StoreServer, how: str) -> None:
    clock = ManualClock(START)
    with Lake(root, clock=clock) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        lake.sql(stream("s", "m"))
        write(lake, "m", 1, 11)
        assert not lake.run().failed
        write(lake, "m", 2, 21)
        server.answer(FAILING[how])
        try:
            codes = [report.error.partition(":")[0] for report in lake.tick_once() if report.error]
        except LakestreamError as error:
            codes = [error.code]
        server.answer(Answers())
        assert codes in ([], ["STORE_FAILED"]) or "the object store" in codes[0]
        clock.advance(timedelta(minutes=5))
        assert not lake.run().failed
        assert rows(lake, "s") == [(0, 2, 3), (10, 1, 11)]


def test_a_lake_below_what_is_no_path_of_a_uri_is_refused(root: str) -> None:
    """All that begins alike up to there would be one lake."""
    with Lake(root) as lake:
        for sign in "?#%":
            with pytest.raises(LakestreamError) as caught:
                Lake(f"{root}{sign}a")
            with pytest.raises(LakestreamError) as refused:
                lake.sql(f"CREATE TABLE m LOCATION '{root}{sign}b' TIMESTAMP BY ts")
            assert (caught.value.code, refused.value.code) == ("BAD_PATH", "BAD_PATH")


def test_no_lake_is_made_in_a_store_that_passes_over_conditions(root: str, server: StoreServer) -> None:
    server.answer(Answers(conditions=False))
    with pytest.raises(LakestreamError) as caught:
        Lake(root)
    assert caught.value.code == "STORE_WITHOUT_CONDITIONS"
    server.answer(Answers())
    Lake(root)


@pytest.mark.parametrize("seconds", [-120, 120])
@pytest.mark.usefixtures("root")
def test_a_daemon_whose_clock_is_not_the_stores_takes_no_part(root: str, seconds: int) -> None:
    layout = Lake(root)._at.layout
    skewed = ManualClock(SystemClock().now() + timedelta(seconds=seconds))
    with (
        pytest.raises(LakestreamError) as caught,
        sharing(layout, "http://127.0.0.1:1", skewed, lambda _: None),
    ):
        pass
    assert caught.value.code == "CLOCK_SKEW"
    assert ("ahead of" if seconds > 0 else "behind") in caught.value.message
    assert not read_roll(layout.system_root).members


CALCULATION = "AS SELECT _twstart AS w, count(*) AS n, sum(v) AS total FROM %%trows"
KINDS = {
    "exact": f"INTERVAL(10s) SLIDING(10s) FROM exact STREAM_OPTIONS(EXACT) INTO o_exact {CALCULATION}",
    "cut": f"SESSION(ts, 4s) FROM cut INTO o_cut {CALCULATION}",
    "classic": "INTO o_classic AS SELECT _wstart AS w, count(*) AS n, sum(v) AS total FROM classic "
    "INTERVAL(10s)",
}


def test_what_looks_and_ticks_ask_of_a_store(root: str, server: StoreServer) -> None:
    """A look at an idle lake is a request for each source, a small tick little beside its three commits."""

    def asked(work: Callable[[], object]) -> list[Asked]:
        server.asked()
        work()
        return server.asked()

    with Lake(root) as lake, Lake(root) as other:
        for name, text in KINDS.items():
            lake.sql(f"CREATE TABLE {name} (ts TIMESTAMP, v INT)")
            lake.sql(f"CREATE STREAM s_{name} {text}")
            write(lake, name, 1, 11)
        assert not lake.run().failed
        lake.tick_once()
        looked = asked(lake.tick_once)
        assert [one.method for one in looked] == ["GET"] * len(KINDS)
        assert {one.path.split("/")[4] for one in looked} == {*KINDS}
        for name in KINDS:
            write(other, name, 21)
            ticked = asked(lake.tick_once)
            commits = 4 if name == "cut" else 3  # its state too
            assert len([one for one in ticked if one.method == "PUT"]) == 2 * commits, name
            assert len([one for one in ticked if one.kind == "list"]) <= 3, name
            assert len(ticked) - (len(KINDS) - 1) <= 25, name  # but for the looks at the other sources
            assert rows(lake, name)[:2] == [(0 if name != "cut" else 1, 1, 1), (10 + (name == "cut"), 1, 11)]
        write(other, "exact", 2)
        late = asked(lake.tick_once)
        assert len(late) - (len(KINDS) - 1) <= 40
        assert rows(lake, "exact")[0] == (0, 2, 3)


SERIES = {
    "exact": f"INTERVAL(10s) SLIDING(10s) FROM m STREAM_OPTIONS(EXACT) INTO o_s {CALCULATION}",
    "cut": f"SESSION(ts, 4s) FROM m INTO o_s {CALCULATION}",
    "cut by rows, exact": f"COUNT_WINDOW(3) FROM m STREAM_OPTIONS(EXACT) INTO o_s {CALCULATION}",
    "joined": "INTERVAL(10s) SLIDING(10s) FROM m INTO o_s AS SELECT _twstart AS w, count(*) AS n, "
    "sum(l.k) AS total FROM m r JOIN looked_up l ON r.v = l.v WHERE r.ts >= _twstart AND r.ts < _twend",
    "notifying": "INTERVAL(10s) SLIDING(10s) FROM m NOTIFY('ws://127.0.0.1:9/') ON(WINDOW_CLOSE) "
    f"INTO o_s {CALCULATION}",
}


def series(server: StoreServer, root: str, kind: str, ticks: int, settings: Settings) -> list[int]:
    """Return how many requests each tick of a series makes, behind the first two."""
    counts = []
    with Lake(root, settings=settings) as lake, Lake(root) as other:
        lake.sql("CREATE TABLE looked_up (ts TIMESTAMP, v INT, k INT)")
        lake.sql("INSERT INTO looked_up VALUES ('2025-01-01 00:00:00', 1, 7)")
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        lake.sql(f"CREATE STREAM s {SERIES[kind]}")
        for tick in range(ticks):
            other.insert("m", [{"ts": START + timedelta(seconds=11 * tick), "v": 1}])
            server.asked()
            [report] = lake.tick_once()
            assert report.error is None
            counts.append(len(server.asked()))
    return counts[2:]


@pytest.mark.parametrize("kind", ["exact", "cut"])
def test_no_tick_of_a_series_asks_a_store_for_much(
    root: str, server: StoreServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upkeep comes due all the time here, of records, states, outputs and logs; what is kept has an end."""
    monkeypatch.setattr(tick_log, "_MAX_FILES", 4)
    monkeypatch.setattr(states, "_KEPT_UP_EVERY", 5)
    monkeypatch.setattr(ahead, "_LISTED_EVERY", 7)
    settings = Settings(checkpoint_ticks=5, compact_commits=8, history_ticks=3)
    assert max(series(server, root, kind, 20, settings)) <= 25
    for table in ("_lakestream/plans", "_lakestream/progress", "main/o_s"):
        path = f"{root}/{table}"
        assert DeltaTable(path).version() - last_checkpoint(path) < 15, table
        assert count_files(Table.open(path)) <= 15, table


@pytest.mark.long
@pytest.mark.parametrize("kind", [*SERIES])
def test_no_tick_of_a_long_series_asks_a_store_for_much(root: str, server: StoreServer, kind: str) -> None:
    assert max(series(server, root, kind, 300, Settings(notify_hosts=("127.0.0.1",)))) <= 25


def test_points_of_another_writer_stay_under_those_of_a_query(
    root: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(START)
    with Lake(root, spark=spark, clock=clock) as lake, Lake(root, spark=spark, clock=clock) as other:

        def tell(lake: Lake, text: str) -> list[tuple[Any, ...]]:
            return lake.sql(text, dialect="iotdb").fetchall()

        def overtaken(point: str) -> None:
            if point == "C6a":
                monkeypatch.setattr(points, "crash_point", crash_point)
                with monkeypatch.context() as elsewhere:  # another process knows nothing of this one's claims
                    elsewhere.setattr(claims, "_taken", {})
                    tell(other, "INSERT INTO root.o.d(time, extra) VALUES (2025-01-01T00:00:00, 9)")

        tell(lake, "INSERT INTO root.sg.d(time, s) VALUES (2025-01-01T00:00:01, 1)")
        tell(lake, "INSERT INTO root.o.d(time, total, extra) VALUES (2025-01-01T00:00:00, 0, 1)")
        sums = "SELECT sum(s), count(s) INTO root.o.d(total, n) FROM root.sg.d GROUP BY(10s)"
        tell(lake, f"CREATE CQ c BEGIN {sums} END")
        lake.run()
        clock.advance(timedelta(seconds=10))
        monkeypatch.setattr(points, "crash_point", overtaken)
        assert not lake.run().failed
        assert tell(lake, "SELECT total, n, extra FROM root.o.d")[1:] == [(START, 1.0, 1, 9.0)]


def test_rows_that_come_second_are_written_behind(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lake(root) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        path = f"{root}/main/m"
        one, other = Table.open(path), Table.open(path)

        def write_one(table: Table, value: int) -> None:
            write_rows(table, pa.table({"ts": [START], "v": [value]}, table.schema))

        write_one(one, 1)
        with pytest.raises(CommitFailedError):
            write_one(other, 2)
        write_one(other, 2)
        assert other.version == 2
        with monkeypatch.context() as lost:
            lost.setattr(files, "write_new", files.write_bytes)  # done, and not known
            one.refresh()
            write_one(one, 3)
        for table in (one, Table.open(path)):
            table.refresh()
            assert sorted(read_arrow(table, None)["v"].to_pylist()) == [1, 2, 3]
            assert table.handle.version() == 3
        write_rows(one, pa.table({"ts": [START], "v": [4]}, one.schema), replace="v IN (1, 4)")
        assert sorted(read_arrow(path, None)["v"].to_pylist()) == [2, 3, 4]


@pytest.mark.long
def test_what_another_process_records_is_looked_at_now_and_then(root: str) -> None:
    with Lake(root) as lake, Lake(root) as other:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        write(lake, "m", 1, 11)
        lake.sql(stream("s", "m"))
        assert not lake.run().failed
        lake.tick_once()
        other.sql(stream("late", "m").replace("FROM m", "FROM m STREAM_OPTIONS(FILL_HISTORY)"))
        lake._at.engine.asking.hurry()  # as after ten seconds
        assert [report.stream for report in lake.tick_once()] == ["main.late"]
        other.sql("STOP STREAM s")  # before a tick it is asked in any case
        write(other, "m", 21)
        assert "main.s" not in {report.stream for report in lake.tick_once()}


@pytest.mark.long
@pytest.mark.parametrize("ticked_elsewhere", [False, True])
def test_a_table_that_was_dropped_and_made_again_is_noticed_before_a_tick(
    root: str, *, ticked_elsewhere: bool
) -> None:
    with Lake(root) as lake, Lake(root) as other:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        lake.sql(stream("s", "m"))
        write(lake, "m", 1, 11)
        assert not lake.run().failed
        lake.tick_once()
        other.sql("DROP TABLE o_s")
        write(other, "m", 21)
        if ticked_elsewhere:
            assert not other.run().failed
            write(other, "m", 31)
        [report] = lake.run().ticks
        assert report.error is None
        assert rows(lake, "s") == [(10, 1, 11), (20, 1, 21)][: 1 + ticked_elsewhere]


def test_a_lake_goes_on_from_a_backup_in_a_store(root: str, tmp_path: Path) -> None:
    with Lake(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        lake.sql(stream("s", "m"))
        write(lake, "m", 1, 2, 11)
        lake.run()
        first = lake.repair.back_up(root)
        write(lake, "m", 21)
        lake.run()
        second = lake.repair.back_up(root)
        assert 0 < second.copied < first.copied
        write(lake, "m", 31)
    restore(root, str(tmp_path / "again"))
    with Lake(tmp_path / "again", create=False) as again:
        assert rows(again, "s") == [(0, 2, 3), (10, 1, 11)]
        write(again, "m", 3, 31)
        assert not again.run().failed
        assert rows(again, "s") == [(0, 3, 6), (10, 1, 11), (20, 1, 21)]
        assert [*again.repair.check()] == []
