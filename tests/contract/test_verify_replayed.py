"""VERIFY where the output depends on what came when: what was admitted is replayed, each defect seen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings
from lakestream.clock import ManualClock
from tests.spoilt import sides, spoilt
from tests.tiers import every_other

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

START = datetime(2025, 1, 1, tzinfo=UTC)
OF_ROWS = "AS SELECT _twstart AS ws, count(*) AS n, avg(v) AS a FROM %%trows"
OF_TABLE = "AS SELECT _twstart AS ws, count(*) AS n, avg(v) AS a FROM m WHERE ts >= _twstart AND ts < _twend"
CLASSIC = "AS SELECT _wstart AS ws, count(*) AS n, avg(v) AS a FROM m PARTITION BY tbname"
AT_INSTANT = "AS SELECT CAST(_tlocaltime / 1000000 AS TIMESTAMP) AS ws, count(*) AS n, avg(v) AS a"
GROUPED = "FROM m PARTITION BY tbname"
TDENGINE = {
    "disorder": f"SESSION(ts, 3s) {GROUPED} STREAM_OPTIONS(IGNORE_DISORDER) INTO disorder {OF_ROWS}",
    "expired": f"STATE_WINDOW(v) {GROUPED} STREAM_OPTIONS(EXPIRED_TIME(5s)) INTO expired {OF_ROWS}",
    "updated": f"SESSION(ts, 3s) {GROUPED} INTO updated {OF_ROWS}",
    "counted": f"COUNT_WINDOW(2) {GROUPED} INTO counted {OF_ROWS}",
    "opened": f"INTERVAL(10s) SLIDING(10s) {GROUPED} "
    f"STREAM_OPTIONS(EVENT_TYPE(WINDOW_OPEN | WINDOW_CLOSE)) INTO opened {OF_TABLE}",
    "delayed": f"INTERVAL(10s) SLIDING(10s) {GROUPED} STREAM_OPTIONS(MAX_DELAY(3s)) INTO delayed {OF_ROWS}",
    "periodic": f"PERIOD(10s) {GROUPED} INTO periodic {AT_INSTANT} FROM %%trows",
    "closed": f"TRIGGER FORCE_WINDOW_CLOSE INTO closed {CLASSIC} INTERVAL(10s)",
    "classic": f"IGNORE EXPIRED 1 INTO classic {CLASSIC} SESSION(ts, 3s)",
}
FIGURES = "SELECT g, min(ts) AS since, count(*) AS n, avg(v) AS a FROM e GROUP BY g"
BY_EVENT = "WITH (TIMESTAMP='ts', LATE_TOLERANCE='2s')"
EKUIPER = {
    "tumbling": f"{BY_EVENT} INTO tumbling AS {FIGURES}, TUMBLINGWINDOW(ss, 10)",
    "sliding": f"{BY_EVENT} INTO sliding AS {FIGURES}, SLIDINGWINDOW(ss, 3)",
    "arrived": f"INTO arrived AS {FIGURES}, COUNTWINDOW(2)",
}
STORED = [*TDENGINE, *EKUIPER]
HISTORY = [
    [("a", 1, 1), ("b", 2, 1)],
    [("a", 3, 2), ("b", 13, 2), ("a", 14, 2)],
    [("a", 2, 3), ("b", 4, 1)],
    [("a", 23, 1), ("b", 24, 3)],
    [("a", 11, 2), ("b", 33, 1), ("a", 37, 2)],
    [("a", 49, 3), ("b", 50, 2), ("a", 45, 1)],
]


def instant(second: int) -> str:
    return (START + timedelta(seconds=second)).isoformat()


class World:
    """A lake in which each stream has met late rows, an update and a delete, in ticks of several commits."""

    def __init__(self, path: Path, spark: SparkSession) -> None:
        self.path, self.clock = path, ManualClock(START)
        settings = Settings(notify_hosts=("localhost",))
        self.lake = Lake(path, spark=spark, settings=settings, clock=self.clock)
        self.lake.sql("CREATE STABLE m (ts TIMESTAMP, v INT) TAGS (loc INT)")
        self.lake.sql("CREATE TABLE e (ts TIMESTAMP, g VARCHAR(9), v INT)")
        for name, text in TDENGINE.items():
            self.lake.sql(f"CREATE STREAM {name} {text}")
        for name, text in EKUIPER.items():
            self.lake.sql(f"CREATE STREAM {name} {text}", dialect="ekuiper")
        self.lake.sql(
            f"CREATE STREAM notifying SESSION(ts, 3s) {GROUPED} NOTIFY('ws://localhost:1/x') "
            f"ON (WINDOW_OPEN | WINDOW_CLOSE) STREAM_OPTIONS(CALC_NOTIFY_ONLY) {OF_ROWS}"
        )
        for number, rows in enumerate(HISTORY):
            self.write(rows)
            if number == 3:
                self.lake.sql(f"UPDATE m SET v = 9 WHERE ts = '{instant(3)}'")
                self.lake.sql(f"DELETE FROM m WHERE ts = '{instant(2)}' AND tbname = 'b'")
            if number % 2:
                self.clock.advance(timedelta(seconds=11))
                self.lake.run()

    def write(self, rows: list[tuple[str, int, int]]) -> None:
        self.lake.insert("m", [{"tbname": g, "loc": 1, "ts": instant(s), "v": v} for g, s, v in rows])
        self.lake.insert("e", [{"g": g, "ts": instant(s), "v": v} for g, s, v in rows])

    def table(self, *names: str) -> DeltaTable:
        return DeltaTable(str(self.path.joinpath(*names)))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("replayed") / "lake", spark)
    yield world
    world.lake.close()


@pytest.mark.parametrize("name", every_other(STORED))
def test_what_was_admitted_is_replayed_and_each_defect_seen(world: World, name: str) -> None:
    rows = pa.table(world.table("main", name).to_pyarrow_table())
    n = rows.num_rows
    sound = world.lake.verify(name)
    assert (sound.holds, sound.differing) == (True, ())
    assert sound.equal_rows == sound.expected_rows == sound.found_rows == n > 2
    assert (sound.left_out_rows, sound.compared_with) == (0, "a replay of the admitted changes")
    write_deltalake(world.table("main", name), spoilt(rows), mode="overwrite")
    seen = world.lake.verify(name)
    assert (seen.equal_rows, seen.expected_rows, seen.found_rows, seen.differing_rows) == (n - 2, n, n + 1, 4)
    assert sides(seen) == {(False, True): 2, (True, False): 1, (True, True): 1}


def test_a_stream_that_only_notifies_is_held_against_its_events(world: World) -> None:
    sound = world.lake.verify("notifying")
    assert (sound.holds, sound.equal_rows > 2, sound.expected_rows) == (True, True, sound.found_rows)
    assert "events" in sound.compared_with
    outbox = world.table("_lakestream", "outbox")
    order = [("event_time", "ascending"), ("seq", "ascending")]
    events = pa.table(outbox.to_pyarrow_table()).sort_by(order)
    last = events.slice(events.num_rows - 1)
    write_deltalake(outbox, pa.concat_tables([events, last]), mode="overwrite")
    doubled = world.lake.verify("notifying")
    assert (doubled.differing_rows, sides(doubled)) == (1, {(False, True): 1})
    write_deltalake(outbox, events.slice(0, events.num_rows - 1), mode="overwrite")
    missing = world.lake.verify("notifying")
    assert (missing.differing_rows, sides(missing)) == (1, {(True, False): 1})


def test_rows_of_ticks_without_a_record_are_held_against_what_was_written(
    tmp_path: Path, spark: SparkSession
) -> None:
    clock = ManualClock(START)
    with Lake(tmp_path / "lake", spark=spark, settings=Settings(history_ticks=2), clock=clock) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        lake.sql(f"CREATE STREAM s PERIOD(10s) FROM m INTO o {AT_INSTANT} FROM %%trows")
        for number in range(5):
            lake.insert("m", [{"ts": instant(number), "v": number}])
            clock.advance(timedelta(seconds=10))
            lake.run()
        lake.maintain()
        sound = lake.verify("s")
        assert (sound.holds, sound.equal_rows, sound.left_out_rows) == (True, 5, 3)
        assert sound.left_out_reason == "of ticks that are no longer recorded"
        output = DeltaTable(str(tmp_path / "lake" / "main" / "o"))
        rows = pa.table(output.to_pyarrow_table()).sort_by("ws")
        figures = pa.array([7, *rows["n"].to_pylist()[1:-1], 7], pa.int64())
        write_deltalake(output, rows.set_column(1, "n", figures), mode="overwrite")
        assert lake.verify("s").differing_rows == 2


def test_a_range_recalculated_after_all_was_taken_anew(spark: SparkSession, tmp_path: Path) -> None:
    with Lake(tmp_path, spark=spark, clock=ManualClock(START)) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        lake.sql(
            "CREATE STREAM s INTERVAL(4s) SLIDING(10s) FROM t "
            f"STREAM_OPTIONS(IGNORE_DISORDER | PRE_FILTER(v > 0)) INTO o {OF_ROWS}"
        )
        lake.sql(f"INSERT INTO t VALUES ('{instant(11)}', 3) ('{instant(14)}', 1)")
        for statement in ("RESYNC", f"FROM '{instant(-9)}'"):
            lake.run()
            lake.sql(f"RECALCULATE STREAM s {statement}")
        lake.run()
        lake.sql(f"INSERT INTO t VALUES ('{instant(23)}', 1) ('{instant(26)}', 1)")
        lake.run()
        assert lake.verify("s").holds


def test_a_part_that_changed_nothing_is_not_taken_behind_the_delay_that_came_after(
    spark: SparkSession, tmp_path: Path
) -> None:
    clock = ManualClock(START)
    with Lake(tmp_path, spark=spark, clock=clock) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        lake.sql(
            "CREATE STREAM s SESSION(ts, 20s) FROM t STREAM_OPTIONS(EXACT | MAX_DELAY(5s) | WATERMARK(4s)) "
            f"INTO o {OF_ROWS}"
        )
        lake.sql(f"INSERT INTO t VALUES ('{instant(11)}', 3) ('{instant(14)}', 1) ('{instant(17)}', 1)")
        lake.run()
        lake.sql("RECALCULATE STREAM s RESYNC")
        lake.run()
        clock.advance(timedelta(seconds=6))
        lake.run()
        assert lake.sql("SELECT n FROM o").fetchall() == [(3,)]
        assert lake.verify("s").holds
