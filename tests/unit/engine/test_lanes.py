"""Streams side by side: what takes long stands in no other one's way. Spark's part is played by DuckDB."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from lakestream import Lake, Settings
from lakestream.clock import ManualClock
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from lakestream.engine.base.turns import Turn, Turns
from lakestream.engine.lanes.lanes import WORTH_SECONDS, Lanes
from lakestream.engine.rounds.engine import Engine
from lakestream.engine.rounds.loading import Loader
from lakestream.errors import BusyError, SparkGoneError, StatementError
from lakestream.lake import workspace_of
from lakestream.statements.workspace import Workspace
from lakestream.storage.places.claims import try_claim, work_on
from lakestream.storage.sessions.jobs import OwnSession
from lakestream.storage.small.session import SmallSession

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.engine.rounds.wakeups import Look

WAIT_SECONDS = 60


class Spark:
    """What computes ticks of streams that are named slow…: each waits at the gate."""

    def __init__(self) -> None:
        self.gate, self.came = threading.Event(), threading.Semaphore(0)
        self.gate.set()
        self.running, self.most = 0, 0
        self.error: Exception | None = None
        self._guard = threading.Lock()

    def session(self) -> SparkSession:
        """Return a session of a turn, once the gate is open."""
        with self._guard:
            self.running += 1
            self.most = max(self.most, self.running)
        self.came.release()
        assert self.gate.wait(WAIT_SECONDS)
        with self._guard:
            self.running -= 1
        if self.error is not None:
            raise self.error
        return cast("SparkSession", SmallSession())

    def wait(self, turns: int = 1) -> None:
        """Wait until so many turns have come to the gate."""
        for _ in range(turns):
            assert self.came.acquire(timeout=WAIT_SECONDS)


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spark]:
    spark, is_small = Spark(), Loader._is_small

    def small(loader: Loader, runtime: Any, plan: Any) -> bool:
        return is_small(loader, runtime, plan) and not runtime.record.name.startswith("slow")

    monkeypatch.setattr(Loader, "_is_small", small)
    monkeypatch.setattr(OwnSession, "get", lambda _: spark.session())
    monkeypatch.setattr(OwnSession, "close", lambda _: None)
    monkeypatch.setattr(Workspace, "session", property(lambda _: spark.session()))
    yield spark
    spark.gate.set()


@pytest.fixture
def lake(tmp_path: Path, spark: Spark) -> Iterator[Lake]:
    del spark
    with Lake(tmp_path / "lake", settings=_settings(lock_wait_seconds=5)) as lake:
        for name in ("slow", "slow2", "quick"):
            lake.sql(f"CREATE TABLE m_{name} (ts TIMESTAMP, v INT)")
            lake.sql(_stream(name))
        yield lake


def _settings(**more: Any) -> Settings:
    return Settings(**{"lock_wait_seconds": 0, "parallel_ticks": 2, **more})


def _stream(name: str) -> str:
    return (
        f"CREATE STREAM {name} INTERVAL(10s) SLIDING(10s) FROM m_{name} INTO o_{name} "
        f"AS SELECT _twstart AS w, sum(v) AS n FROM %%trows"
    )


def write(lake: Lake, *names: str, minute: int = 0) -> None:
    for name in names:
        rows = [{"ts": f"2025-01-01 00:{minute:02}:{at:02}", "v": 1} for at in range(0, 60, 5)]
        lake.insert(f"m_{name}", rows)


def written(lake: Lake, name: str) -> list[int]:
    return [row["n"] for row in lake.newest_results(name).to_pylist()]


def names(reports: list[TickReport]) -> list[str]:
    return [report.stream.removeprefix("main.") for report in reports]


def begin(lake: Lake) -> list[TickReport]:
    return lake.tick_once(ended=lambda: None)


def finish(lake: Lake, spark: Spark) -> list[str]:
    spark.gate.set()
    return sorted(names(lake.run().ticks))


def test_a_long_tick_stands_in_no_other_streams_way(lake: Lake, spark: Spark) -> None:
    spark.gate.clear()
    write(lake, "slow", "quick")
    assert names(begin(lake)) == ["quick"]
    spark.wait()
    for minute in (1, 2):
        write(lake, "slow", "quick", minute=minute)
        assert names(begin(lake)) == ["quick"]
    assert begin(lake) == []
    assert finish(lake, spark) == ["slow", "slow"]
    assert written(lake, "slow") == written(lake, "quick") == [2] * 17


def test_what_a_long_tick_does_not_write_may_be_changed_meanwhile(lake: Lake, spark: Spark) -> None:
    spark.gate.clear()
    write(lake, "slow")
    begin(lake)
    spark.wait()
    with lake.another(lock_wait_seconds=0) as other:
        other.sql("CREATE TABLE m_new (ts TIMESTAMP, v INT)")
        other.sql(_stream("new"))
        other.sql("STOP STREAM quick")
        other.sql("DROP STREAM quick")
        other.sql("INSERT INTO m_slow VALUES ('2025-01-01 00:01:00', 1)")
        other.sql("ALTER TABLE m_slow ADD COLUMN w INT")
        other.sql("RECALCULATE STREAM slow FROM '2025-01-01 00:00:00'")
        for statement in (
            "STOP STREAM slow",
            "DROP STREAM slow",
            "CREATE OR REPLACE " + _stream("slow").removeprefix("CREATE "),
            "DELETE FROM o_slow",
            "DROP TABLE o_slow",
            "DROP TABLE m_slow",
            "DROP DATABASE main FORCE",
        ):
            with pytest.raises(BusyError, match=r"main\.slow .* tick 1 \(changes\)") as busy:
                other.sql(statement)
            assert busy.value.code == "STREAM_BUSY"
        with pytest.raises(BusyError, match="STREAM_BUSY"):
            other.insert("o_slow", [{"w": "2025-01-01 00:00:00", "n": 1}])
        left_out = {done.table: done.error for done in other.maintain() if done.error}
        assert left_out.keys() == {"main.o_slow"}
    assert finish(lake, spark) == ["slow", "slow", "slow"]
    lake.sql("DROP STREAM slow")


def test_a_statement_waits_for_the_tick_of_its_stream(lake: Lake, spark: Spark) -> None:
    spark.gate.clear()
    write(lake, "slow")
    begin(lake)
    spark.wait()
    done = list[str]()

    def stop() -> None:
        with lake.another(lock_wait_seconds=WAIT_SECONDS) as other:
            done.append(str(other.sql("STOP STREAM slow").message))

    waiting = threading.Thread(target=stop)
    waiting.start()
    waiting.join(0.3)
    assert not done
    assert finish(lake, spark) == ["slow"]
    waiting.join(WAIT_SECONDS)
    assert [status.status for status in lake.streams() if status.name == "slow"] == ["Stopped"]


def test_another_process_leaves_a_stream_alone_that_ticks(lake: Lake, spark: Spark, tmp_path: Path) -> None:
    spark.gate.clear()
    write(lake, "slow", "quick")
    begin(lake)
    spark.wait()
    with Lake(tmp_path / "lake", settings=_settings()) as other:
        write(other, "quick", minute=1)
        assert names(begin(other)) == ["quick"]
        assert names(begin(other)) == []
    write(lake, "quick", minute=2)
    assert finish(lake, spark) == ["quick", "slow"]
    assert written(lake, "quick") == [2] * 17


def test_long_ticks_go_side_by_side_as_many_as_may(lake: Lake, spark: Spark) -> None:
    lake.sql("CREATE TABLE m_slow3 (ts TIMESTAMP, v INT)")
    lake.sql(_stream("slow3"))
    spark.gate.clear()
    write(lake, "slow", "slow2", "slow3")
    heard = list[str]()
    run = threading.Thread(target=lambda: lake.run(on_tick=lambda report: heard.append(report.stream)))
    run.start()
    spark.wait(2)
    waits = {status.name: status.waits_for_turn for status in lake.another().streams() if status.doing}
    assert waits == {"slow": False, "slow2": False, "slow3": True}
    spark.gate.set()
    run.join(WAIT_SECONDS)
    assert sorted(heard) == ["main.slow", "main.slow2", "main.slow3"]
    assert spark.most == 2
    assert [status.doing for status in lake.streams()] == [None] * 4


def test_a_tick_is_heard_of_when_it_ends(lake: Lake, spark: Spark) -> None:
    spark.gate.clear()
    write(lake, "quick", "slow", "slow2")
    heard = list[str]()

    def hear(report: TickReport) -> None:
        heard.append(report.stream)
        spark.gate.set()

    lake.run(on_tick=hear)
    assert (heard[0], sorted(heard[1:])) == ("main.quick", ["main.slow", "main.slow2"])


def test_a_stream_that_fails_stops_itself_alone(lake: Lake, spark: Spark) -> None:
    spark.error = StatementError("BAD_VALUE", "no")
    write(lake, "slow", "quick")
    lake.run()
    assert {status.name: status.status for status in lake.streams()} == {
        "slow": "Failed",
        "slow2": "Running",
        "quick": "Running",
    }
    spark.error = None
    lake.sql("START STREAM slow")
    assert names(lake.run().ticks) == ["slow"]
    assert written(lake, "slow") == [2] * 5


@pytest.mark.parametrize(
    ("point", "beside"), [("C2", False), ("C3", False), ("C6b", False), ("C6a", True), ("C7", True)]
)
def test_a_crash_within_a_turn_loses_and_doubles_nothing(
    lake: Lake, spark: Spark, tmp_path: Path, point: str, *, beside: bool
) -> None:
    del spark
    streams = ("slow", "slow2") if beside else ("slow",)
    write(lake, *streams)
    with crash_at(point), pytest.raises(SimulatedCrash):
        lake.run()
    lake._rounds.lanes.close()
    with Lake(tmp_path / "lake", settings=_settings()) as other:
        other.run()
        write(other, *streams, minute=1)
        other.run()
        assert [written(other, name) for name in streams] == [[2] * 11] * len(streams)


def test_a_lake_that_another_process_writes_to_is_named_once(lake: Lake, tmp_path: Path) -> None:
    with Lake(tmp_path / "lake", settings=_settings()) as other, lake._at.writing("a test"):
        with pytest.raises(BusyError, match="LAKE_LOCKED"):
            other.tick_once()
        other.close()


def test_a_claim_of_a_process_that_is_gone_holds_nothing(lake: Lake) -> None:
    claim = try_claim(lake._at.layout, "x")
    assert claim is not None
    claim.say("tick 1", 0.0)
    assert try_claim(lake._at.layout, "x") is None
    assert str(work_on(lake._at.layout, "x")) == "tick 1"
    claim._file.close()  # type: ignore[union-attr]
    assert work_on(lake._at.layout, "x") is None
    assert try_claim(lake._at.layout, "x") is not None


def test_a_steady_load_of_high_priorities_starves_no_low_one() -> None:
    """Turns take 3 s each of the one lane, and there is always one of the high priority."""
    clock, turns = ManualClock(datetime(2025, 1, 1, tzinfo=UTC)), Turns(None)
    engine = cast("Any", SimpleNamespace(services=SimpleNamespace(turns=turns)))
    lanes = Lanes(engine, cast("Any", None), cast("Any", None), 1, {"main.high": 6}, clock)

    def leave(name: str) -> None:
        record = cast("Any", SimpleNamespace(uuid=name, database="main", name=name))
        turns.left.append(Turn((record,), None, {}))

    leave("low")
    begun = []
    for _ in range(40):
        leave("high")
        lanes._queue()
        begun.append((clock.monotonic(), lanes._next()[0].name))
        lanes._running.clear()
        clock.advance(timedelta(seconds=3))
    assert [at for at, name in begun if name == "main.low"] == [6 * WORTH_SECONDS]


def test_higher_priorities_come_first_and_suspects_are_alone(lake: Lake, spark: Spark) -> None:
    lake._rounds.lanes.most = 3
    lake._rounds.lanes.priorities = {"main.slow2": 1}
    spark.gate.clear()
    write(lake, "slow", "slow2")
    order = list[str]()
    begun = Lanes._next

    def noted(lanes: Lanes) -> object:
        turn, known = begun(lanes)
        order.append(turn.name)
        return turn, known

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lanes, "_next", noted)
        begin(lake)
        spark.wait(2)
        assert order == ["main.slow2", "main.slow"]
        assert finish(lake, spark) == ["slow", "slow2"]
        spark.error = SparkGoneError("SPARK_DIED", "gone")
        write(lake, "slow", "slow2", minute=1)
        with pytest.raises(SparkGoneError):
            lake.run()
        with pytest.raises(SparkGoneError):
            lake.run()
        spark.error, spark.most = None, 0
        assert {status.status for status in lake.streams() if status.name != "quick"} == {"Retrying"}
        assert finish(lake, spark) == ["slow", "slow2"]
    assert spark.most == 1


def test_what_turns_record_makes_no_round_look_at_all_streams(
    lake: Lake, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(lake, "slow", "quick")
    lake.run()
    assert not begin(lake)
    looks = list[object]()
    plan = Engine._plan

    def noted(engine: Engine, look: Look, marks: tuple[int, ...]) -> object:
        looks.append(look.streams)
        return plan(engine, look, marks)

    monkeypatch.setattr(lake._at.engine, "_plan", partial(noted, lake._at.engine))
    spark.gate.clear()
    write(lake, "slow", minute=1)
    begin(lake)
    spark.wait()
    assert finish(lake, spark) == ["slow"]
    own = next(record.uuid for record in lake._at.registry.streams() if record.name == "slow")
    assert looks == [{own}] * 2


def test_ticks_side_by_side_are_interrupted_with_their_lake(
    lake: Lake, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Semaphore(0)

    def interrupted(_: OwnSession) -> None:
        spark.error = StatementError("STATEMENT_INTERRUPTED", "it was ended")
        ended.release()

    monkeypatch.setattr(OwnSession, "interrupt", interrupted)
    write(lake, "slow", "slow2")
    spark.gate.clear()
    assert begin(lake) == []
    spark.wait(2)
    lake.interrupt()
    assert [ended.acquire(blocking=False) for _ in range(3)] == [True, True, False]
    spark.gate.set()
    lake.close()


def test_who_works_on_a_stream_for_a_moment_is_named(lake: Lake) -> None:
    record = workspace_of(lake).registry.streams()[0]
    claim = try_claim(workspace_of(lake).layout, record.uuid)
    assert claim is not None
    with (
        Lake(lake.root, settings=_settings()) as other,
        pytest.raises(BusyError, match=rf"STREAM_BUSY: .*process {os.getpid()} works on it"),
    ):
        other.sql(f"DROP STREAM {record.name}")
    claim.release()
