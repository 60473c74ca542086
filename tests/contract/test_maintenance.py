"""Maintenance: fewer files, the same rows, and streams that go on."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, PostCommitHookProperties, write_deltalake

from lakestream import Lake, ManualClock, Settings
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from lakestream.notify.outbox import COLUMNS, Outbox
from lakestream.storage.delta import compact
from lakestream.storage.tables.log import last_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakestream.statements.maintenance import Maintained

pytestmark = pytest.mark.spark

START = datetime(2025, 1, 1, 12, tzinfo=UTC)
NO_UPKEEP = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
SETTINGS = Settings(history_ticks=2, compact_files=4)
CALCULATION = "AS SELECT _twstart AS w, sum(v) AS n FROM %%trows"
STREAM = f"CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM m INTO o {CALCULATION}"
NOTIFYING = (
    "CREATE STREAM t INTERVAL(10s) SLIDING(10s) FROM m NOTIFY('ws://127.0.0.1:9') ON (WINDOW_CLOSE) "
    f"INTO p {CALCULATION}"
)

NESTED = (
    "CREATE STREAM nested COUNT_WINDOW(2) FROM o STREAM_OPTIONS(EXACT) INTO q "
    "AS SELECT _twstart AS w, sum(n) AS n FROM %%trows"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A lake with small commits, whose output keeps no old files."""
    root = tmp_path_factory.mktemp("made") / "lake"
    with opened(root, spark) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        lake.sql(STREAM)
        for minute in range(4):
            write(lake, minute)
            lake.run()
        lake.sql("UPDATE m SET v = 5 WHERE ts = '2025-01-01 00:01:01'")
        lake.run()
        keep_nothing(root, "o")
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "lake"))


def opened(root: Path, spark: SparkSession) -> Lake:
    return Lake(root, spark=spark, clock=ManualClock(START), settings=SETTINGS)


def write(lake: Lake, minute: int) -> None:
    lake.insert("m", [{"ts": f"2025-01-01 00:{minute:02}:{second:02}", "v": 1} for second in (1, 30)])


def keep_nothing(root: Path, table: str) -> None:
    handle = DeltaTable(str(root / "main" / table))
    handle.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})


def by_table(done: list[Maintained]) -> dict[str, Maintained]:
    assert not [table.error for table in done if table.error]
    return {table.table: table for table in done}


def data_files(root: Path, table: str) -> int:
    return len(list((root / "main" / table).rglob("*.parquet")))


def test_files_go_and_rows_stay(root: Path, spark: SparkSession) -> None:
    before = data_files(root, "o")
    with opened(root, spark) as lake:
        planned = by_table(lake.maintain(dry_run=True))["main.o"]
        assert planned.files_before >= 4
        assert (planned.files_after, data_files(root, "o")) == (None, before)
        heard: list[Maintained] = []
        done = by_table(lake.maintain(on_table=heard.append))
        assert heard == list(done.values())
        output = done["main.o"]
        assert (output.files_before, output.files_after) == (planned.files_before, 1)
        assert output.files_deleted >= output.files_before
        assert output.bytes_freed > 0
        assert data_files(root, "o") == 1 + len(list((root / "main/o/_delta_log").glob("*.parquet")))
        assert done["main.m"].files_deleted == 0
        assert done["_lakestream/progress"].rows_deleted > 0
        write(lake, 30)
        assert not lake.run().failed
        assert lake.verify("s").holds
        assert not by_table(lake.maintain())["main.m"].left_out


def test_what_a_stream_has_still_to_read_stays(root: Path, spark: SparkSession) -> None:
    keep_nothing(root, "m")
    with opened(root, spark) as lake:
        lake.sql("STOP STREAM s")
        write(lake, 20)
        lake.sql("UPDATE m SET v = 7 WHERE ts = '2025-01-01 00:20:01'")
        source = by_table(lake.maintain())["main.m"]
        assert source.files_deleted == 0
        assert source.left_out is not None
        assert "the stream main.s has still to read version" in source.left_out
        lake.sql("START STREAM s")
        write(lake, 21)
        assert not lake.run().failed
        assert lake.sql("SELECT n FROM o WHERE w = '2025-01-01 00:20:00'").fetchall() == [(7,)]


def test_a_crash_in_between_is_harmless(root: Path, spark: SparkSession) -> None:
    with pytest.raises(SimulatedCrash), opened(root, spark) as lake, crash_at("M1", 2):
        lake.maintain()
    with opened(root, spark) as lake:
        assert by_table(lake.maintain())["main.o"].files_before == 1
        assert lake.sql("SELECT n FROM o WHERE w = '2025-01-01 00:01:00'").fetchall() == [(5,)]


def test_a_table_that_fails_does_not_stop_the_others(root: Path, spark: SparkSession) -> None:
    handle = DeltaTable(str(root / "main/m"))
    handle.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval of a week"})
    with opened(root, spark) as lake:
        write(lake, 20)
        failed, *others = sorted(lake.maintain(), key=lambda table: table.table != "main.m")
        assert failed.error is not None
        assert "RETENTION_UNREADABLE" in failed.error
        assert not any(table.error for table in others)


def test_tables_outside_are_left_alone(root: Path, spark: SparkSession) -> None:
    shutil.copytree(root / "main/m", root.parent / "outside")
    with opened(root, spark) as lake:
        lake.sql(f"CREATE TABLE other LOCATION '{root.parent}/outside'")
        outside = by_table(lake.maintain())["main.other"]
        assert outside.left_out is not None
        assert outside.files_before == 0


def test_old_events_go_once_everyone_was_told(root: Path, spark: SparkSession) -> None:
    clock = ManualClock(START)
    with Lake(root, spark=spark, clock=clock, settings=Settings(notify_hosts=("127.0.0.1",))) as lake:
        lake.sql(NOTIFYING)
        write(lake, 41)
        lake.run()
        clock.advance(timedelta(days=30))
        outbox = by_table(lake.maintain())["_lakestream/outbox"]
        assert outbox.rows_deleted == 0
        lake.sql("DROP STREAM t")
        assert by_table(lake.maintain(dry_run=True))["_lakestream/outbox"].rows_deleted > 0
        assert by_table(lake.maintain())["_lakestream/outbox"].rows_deleted > 0
        assert by_table(lake.maintain())["_lakestream/outbox"].rows_deleted == 0


def test_ticks_put_small_files_together(tmp_path: Path, spark: SparkSession) -> None:
    """A nested stream, late rows and events that wait go on over it; a source is left to who writes it."""
    settings = Settings(compact_commits=3, notify_hosts=("127.0.0.1",), notify_keep_seconds=1e9)
    with Lake(tmp_path / "lake", spark=spark, clock=ManualClock(START), settings=settings) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        lake.sql(STREAM)
        lake.sql(NOTIFYING.replace("FROM m", "FROM m STREAM_OPTIONS(EXACT)"))
        lake.sql(NESTED)
        for minute in range(9):
            write(lake, minute)
            if minute == 7:
                lake.insert("m", [{"ts": "2025-01-01 00:02:05", "v": 3}])
            assert not lake.run().failed
            counts = {name: len(DeltaTable(str(lake.root) + f"/main/{name}").file_uris()) for name in "op"}
            assert max(counts.values()) <= 6, counts
        assert len(DeltaTable(f"{lake.root}/main/m").file_uris()) == 10
        for name in ("s", "t", "nested"):
            assert lake.verify(name).holds
        events = lake.events("t", limit=1_000)
        assert len(DeltaTable(f"{lake.root}/_lakestream/outbox").file_uris()) < 9
    assert len({event.id for event in events}) == len(events) > 40


def test_ticks_write_the_checkpoints_of_a_source_that_its_writer_leaves_out(tmp_path: Path) -> None:
    settings = Settings(compact_commits=3)
    with Lake(tmp_path / "lake", clock=ManualClock(START), settings=settings) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        lake.sql(STREAM)
        source = f"{lake.root}/main/m"
        found = []
        for minute in range(7):
            rows = pa.table({"ts": [START + timedelta(minutes=minute)], "v": pa.array([minute], pa.int32())})
            write_deltalake(source, rows, mode="append", post_commithook_properties=NO_UPKEEP)
            assert not lake.run().failed
            found.append(last_checkpoint(source))
        assert lake.verify("s").holds
    assert found == [-1, 2, 2, 2, 5, 5, 5]


def test_events_are_read_after_their_files_were_put_together(tmp_path: Path) -> None:
    outbox = Outbox(str(tmp_path / "outbox"))
    for number in range(4):
        outbox.put(event(number), "lakestream:s:output", number, epoch=1)
    batches = outbox.since(-1)
    assert outbox.table is not None
    compact(outbox.table)
    assert (outbox.table.grown, len(outbox.table.handle.file_uris())) == (0, 1)
    outbox.put(event(4), "lakestream:s:output", 4, epoch=1)
    assert [b.number for b in outbox.since(batches[-1].version)] == [4]
    read = [outbox.events(batch)["event_id"].to_pylist() for batch in outbox.since(-1)]
    assert read == [[f"e{number}"] for number in range(5)]


def event(number: int) -> pa.Table:
    row: dict[str, object] = dict.fromkeys(COLUMNS, "x")
    times = dict.fromkeys(("window_start", "window_end", "event_time"), START)
    return pa.Table.from_pylist([{**row, **times, "seq": 0, "event_id": f"e{number}"}])
