"""What may happen to a stream's source: each is followed exactly, or stops that one stream by name."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.faults.meters import EXACT, STREAM, TUMBLING, Story, commit_files, commits_by_tick, moment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.faults.meters import Trigger

pytestmark = [pytest.mark.faults, pytest.mark.spark]

FEED = "delta.enableChangeDataFeed"


@pytest.fixture
def story(tmp_path: Path, spark: SparkSession) -> Story:
    """A stream that has read the first readings."""
    return begun(Story(tmp_path / "lake", spark, EXACT))


def begun(story: Story, query: str | None = None) -> Story:
    story.begin(query)
    story.write(("a", 1, 1), ("b", 7, 2), ("a", 33, 3), ("b", 31, 4))
    story.run()
    story.check()
    return story


def stopped(story: Story, code: str, *words: str) -> None:
    """Run; the stream stops by name and says the way out, the neighbour goes on."""
    story.step()
    story.step()
    before = story.status("z").rows_in
    story.run()
    status = story.status()
    assert status.status == "Failed"
    error = status.last_error or ""
    assert error.startswith(f"{code}: "), error
    for word in words:
        assert word in error, error
    neighbour = story.status("z")
    assert (neighbour.status, neighbour.lag, neighbour.rows_in) == ("Running", 0, before + 2)


def resynchronised(story: Story) -> None:
    """Go the way out of a named state; the output is what it should be."""
    with story.opened() as lake:
        lake.sql(f"RECALCULATE STREAM {STREAM} RESYNC")
    story.run()
    story.check()
    front = max(at for _, at in story.readings)
    story.write(("a", front + 12, 1), ("b", front + 13, 2))
    story.run()
    story.check()


def source(story: Story) -> DeltaTable:
    return DeltaTable(story.source)


def switch_feed(story: Story, value: str) -> None:
    source(story).alter.set_table_properties({FEED: value})


def readings_of(story: Story) -> pa.Table:
    """Return all rows of the source."""
    return pa.table(source(story).scan())


# --- another table, another past ---


def recreated(story: Story) -> None:
    with story.opened() as lake:
        lake.sql("DROP TABLE meters")
        lake.sql("CREATE STABLE meters (ts TIMESTAMP, v INT, w INT) TAGS (loc INT)")
    story.readings.clear()
    story.write(("a", 3, 10), ("a", 25, 20))


def swapped(story: Story) -> None:
    """Another lake's table at the path, with more versions than were read."""
    other = Story(story.root.parent / "other", story.spark, EXACT).begin()
    other.readings.clear()
    for at in range(5, 50, 5):
        other.write(("a", at, at))
    shutil.rmtree(story.source)
    shutil.copytree(other.source, story.source)
    story.readings = other.readings


@pytest.mark.parametrize("replace", [recreated, swapped])
def test_another_table_at_its_place_stops_the_stream(story: Story, replace: Callable[[Story], None]) -> None:
    replace(story)
    stopped(story, "SOURCE_REPLACED", "RECALCULATE STREAM main.s RESYNC")
    resynchronised(story)


def test_a_table_replaced_by_statement_stops_the_stream(story: Story) -> None:
    """CREATE OR REPLACE keeps the path and goes on counting versions."""
    readings = readings_of(story)
    spark = story.spark
    spark.sql(f"CREATE TABLE replaced USING delta LOCATION '{story.source}'")
    try:
        spark.sql(
            "CREATE OR REPLACE TABLE replaced (ts TIMESTAMP, v INT, w INT, tbname STRING, loc INT) "
            f"USING delta TBLPROPERTIES ('{FEED}' = 'true')"
        )
    finally:
        spark.sql("DROP TABLE replaced")
    write_deltalake(story.source, readings.select(["ts", "v", "w", "tbname", "loc"]), mode="append")
    stopped(story, "SOURCE_REPLACED")


def test_a_plan_is_not_run_on_another_table(story: Story) -> None:
    story.write(("a", 45, 5))
    story.crash("C2")
    recreated(story)
    stopped(story, "SOURCE_REPLACED")
    resynchronised(story)


def test_a_state_is_not_read_from_another_table(tmp_path: Path, spark: SparkSession) -> None:
    """The state was never saved: what came after the last save is read again."""
    story = Story(tmp_path / "lake", spark, TUMBLING, checkpoint_ticks=100).begin()
    for at in (1, 33, 55):
        story.write(("a", at, at))
        story.crash("C7")
    recreated(story)
    stopped(story, "SOURCE_REPLACED")
    resynchronised(story)


@pytest.mark.parametrize("trigger", [TUMBLING, EXACT], ids=["default", "exact"])
def test_an_empty_table_at_its_place_begins_anew(
    tmp_path: Path, spark: SparkSession, trigger: Trigger
) -> None:
    story = begun(Story(tmp_path / "lake", spark, trigger))
    with story.opened() as lake:
        lake.sql("DROP TABLE meters")
        lake.sql("CREATE STABLE meters (ts TIMESTAMP, v INT, w INT) TAGS (loc INT)")
    story.readings.clear()
    story.run()
    with story.opened() as lake:
        lake.sql(f"RECALCULATE STREAM {STREAM} RESYNC")
    story.run()
    story.check()
    story.write(("a", 1, 1), ("a", 14, 2), ("a", 23, 3))
    story.run()
    story.check()


def test_a_dropped_source_stops_the_stream(story: Story) -> None:
    with story.opened() as lake:
        lake.sql("DROP TABLE meters")
    stopped(story, "TABLE_NOT_FOUND")


def test_a_source_put_back_to_an_old_copy_stops_the_stream(story: Story, tmp_path: Path) -> None:
    shutil.copytree(story.source, tmp_path / "copy")
    known = dict(story.readings)
    story.write(("a", 45, 5))
    story.run()
    shutil.rmtree(story.source)
    shutil.copytree(tmp_path / "copy", story.source)
    story.readings = known
    stopped(story, "SOURCE_REWOUND", "RECALCULATE STREAM main.s RESYNC")
    resynchronised(story)


def test_a_restored_source_is_followed(story: Story) -> None:
    version, known = source(story).version(), dict(story.readings)
    story.write(("a", 2, 5), ("a", 45, 5), ("b", 60, 6))
    story.delete("b", 7)
    story.run()
    source(story).restore(version)
    story.readings = known
    story.run()
    story.check()
    assert story.verify()


# --- changes that cannot be read ---


def test_a_change_feed_that_is_off_stops_the_stream(story: Story) -> None:
    switch_feed(story, "false")
    story.write(("a", 2, 5), ("a", 45, 5))
    stopped(story, "CHANGE_FEED_OFF", FEED, "RECALCULATE STREAM main.s RESYNC")
    switch_feed(story, "true")
    resynchronised(story)


def test_a_change_feed_that_was_off_for_a_while_stops_the_stream(story: Story) -> None:
    switch_feed(story, "false")
    story.write(("a", 2, 5), ("a", 45, 5))
    switch_feed(story, "true")
    story.write(("a", 55, 6))
    stopped(story, "CHANGE_FEED_OFF")
    resynchronised(story)


def test_data_files_that_are_gone_stop_the_stream(story: Story) -> None:
    story.write(("a", 2, 5), ("a", 45, 5))
    story.write(("a", 2, 6))
    story.delete("b", 7)
    source(story).optimize.compact()
    source(story).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    stopped(story, "CHANGES_LOST", "RECALCULATE STREAM main.s RESYNC")
    resynchronised(story)


def test_a_commit_that_is_gone_stops_the_stream(story: Story) -> None:
    """Spark's reader would pass over it without a word."""
    for at in range(40, 60, 5):
        story.write(("a", at, at))
    table = source(story)
    table.create_checkpoint()
    gone = [*commit_files(story.source)][-3]
    gone.unlink()
    stopped(story, "CHANGES_LOST", str(int(gone.stem)), "RECALCULATE STREAM main.s RESYNC")
    resynchronised(story)


def test_a_commit_that_is_gone_from_the_end_of_a_planned_range_stops_the_stream(story: Story) -> None:
    story.write(("a", 45, 5))
    story.write(("a", 55, 5))
    story.crash("C2")
    [*commit_files(story.source)][-1].unlink()
    del story.readings["a", 55]
    stopped(story, "SOURCE_REWOUND", "RECALCULATE STREAM main.s RESYNC")
    resynchronised(story)


def test_the_same_stop_comes_by_spark(tmp_path: Path, spark: SparkSession) -> None:
    story = begun(Story(tmp_path / "lake", spark, TUMBLING, "spark"))
    for at in range(40, 60, 5):
        story.write(("a", at, at))
    source(story).create_checkpoint()
    [*commit_files(story.source)][-3].unlink()
    stopped(story, "CHANGES_LOST")
    resynchronised(story)


# --- columns ---


@pytest.mark.parametrize("reopened", [False, True])
def test_a_new_column_is_passed_over(story: Story, *, reopened: bool) -> None:
    with story.opened() as lake:
        lake.run()
        lake.sql("ALTER STABLE meters ADD COLUMN x INT")
        if not reopened:
            lake.insert("meters", [{"tbname": "a", "loc": 1, "ts": "2025-01-01 00:00:50", "v": 9, "x": 1}])
            story.readings["a", 50] = 9
            lake.run()
    story.write(("a", 2, 5), ("a", 61, 6))
    story.run()
    story.check()
    assert story.verify()


def with_type(story: Story, column: str) -> None:
    """Rewrite the table with a column as text."""
    rows = readings_of(story)
    at = rows.schema.get_field_index(column)
    rows = rows.set_column(at, column, rows[column].cast(pa.string()))
    write_deltalake(story.source, rows, mode="overwrite", schema_mode="overwrite")


def without(story: Story, column: str) -> None:
    """Rewrite the table without a column."""
    rows = readings_of(story).drop_columns([column])
    write_deltalake(story.source, rows, mode="overwrite", schema_mode="overwrite")


@pytest.mark.parametrize("change", [with_type, without])
def test_a_column_that_the_stream_uses_stops_it(story: Story, change: Callable[[Story, str], None]) -> None:
    change(story, "v")
    stopped(story, "SOURCE_SCHEMA_CHANGED", "column v", "RECALCULATE STREAM main.s RESYNC")


@pytest.mark.parametrize("change", [with_type, without])
def test_a_column_that_the_stream_does_not_use_is_passed_over(
    story: Story, change: Callable[[Story, str], None]
) -> None:
    change(story, "w")
    story.run()
    story.check()
    rows = readings_of(story)
    row = {**rows.slice(0, 1).to_pylist()[0], "tbname": "a", "ts": moment(48), "v": 7}
    write_deltalake(story.source, pa.Table.from_pylist([row], rows.schema), mode="append")
    story.readings["a", 48] = 7
    story.run()
    story.check()
    assert story.verify()


@pytest.fixture
def mapped(tmp_path: Path, spark: SparkSession) -> Story:
    """A source whose columns may be renamed and dropped, which only Spark can read the changes of."""
    story = begun(Story(tmp_path / "lake", spark, EXACT))
    alter(story, "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    story.run()
    return story


def alter(story: Story, what: str) -> None:
    spark = story.spark
    spark.sql(f"CREATE TABLE altered USING delta LOCATION '{story.source}'")
    try:
        spark.sql(f"ALTER TABLE altered {what}")
    finally:
        spark.sql("DROP TABLE altered")


def write_by_spark(story: Story, name: str, at: int, value: int) -> None:
    columns = {
        "ts": f"timestamp_seconds({int(moment(at).timestamp())})",
        "v": f"{value}",
        "volts": f"{value}",
        "tbname": f"'{name}'",
        "loc": "1",
    }
    there = [field.name for field in source(story).schema().fields]
    listed = ", ".join(f"{sql} AS {column}" for column, sql in columns.items() if column in there)
    story.spark.sql(f"SELECT {listed}").write.format("delta").mode("append").option(
        "mergeSchema", "true"
    ).save(story.source)
    story.readings[name, at] = value


def test_a_renamed_column_that_the_stream_uses_stops_it(mapped: Story) -> None:
    alter(mapped, "RENAME COLUMN v TO volts")
    write_by_spark(mapped, "a", 48, 7)
    stopped(mapped, "SOURCE_SCHEMA_CHANGED", "column v", "RECALCULATE STREAM main.s RESYNC")
    alter(mapped, "RENAME COLUMN volts TO v")
    with mapped.opened() as lake:
        lake.sql(f"RECALCULATE STREAM {STREAM} RESYNC")
    mapped.run()
    mapped.check()


@pytest.mark.parametrize("what", ["RENAME COLUMN w TO u", "DROP COLUMN w"])
def test_other_columns_may_be_renamed_and_dropped(mapped: Story, what: str) -> None:
    write_by_spark(mapped, "b", 45, 6)
    alter(mapped, what)
    write_by_spark(mapped, "a", 48, 7)
    mapped.run()
    mapped.check()
    assert mapped.verify()


# --- commits without changes ---


def compacted(story: Story) -> None:
    source(story).optimize.compact()


def described(story: Story) -> None:
    source(story).alter.set_table_properties({"custom.note": "nothing"}, raise_if_not_exists=False)


def appended_nothing(story: Story) -> None:
    write_deltalake(story.source, readings_of(story).slice(0, 0), mode="append")


def overwritten_as_it_was(story: Story) -> None:
    write_deltalake(story.source, readings_of(story), mode="overwrite")


@pytest.mark.parametrize("change", [compacted, described, appended_nothing, overwritten_as_it_was])
@pytest.mark.parametrize("trigger", [TUMBLING, EXACT], ids=["default", "exact"])
def test_a_commit_without_changes_makes_no_output(
    tmp_path: Path, spark: SparkSession, trigger: Trigger, change: Callable[[Story], None]
) -> None:
    story = Story(tmp_path / "lake", spark, trigger).begin()
    story.write(("a", 1, 1), ("b", 7, 2))
    story.write(("a", 33, 3), ("b", 31, 4))
    story.run()
    ticks, version = commits_by_tick(story.output), source(story).version()
    change(story)
    assert source(story).version() == version + 1
    story.run()
    story.check()
    assert commits_by_tick(story.output) == ticks
    assert story.status().version == version + 1


def test_an_overwrite_that_changes_half_is_followed(story: Story) -> None:
    rows = readings_of(story)
    kept = rows.slice(0, 2)
    new = rows.slice(2).set_column(1, "v", pa.array([70, 80], pa.int32()))
    write_deltalake(story.source, pa.concat_tables([kept, new.cast(kept.schema)]), mode="overwrite")
    for row in new.to_pylist():
        story.readings[row["tbname"], row["ts"].second] = row["v"]
    story.run()
    story.check()
    assert story.verify()


def test_everything_deleted_takes_every_row_of_an_exact_stream(story: Story) -> None:
    source(story).delete()
    story.readings.clear()
    story.run()
    story.check()
