"""What delta-rs and Spark can each do with a Delta table, tried on both ways through our own functions."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakestream.errors import StorageError, StreamError
from lakestream.storage.delta import (
    CommitTag,
    Table,
    append,
    capabilities,
    changes_arrow,
    changes_spark,
    commit,
    insert_rows,
    read_arrow,
    read_commits,
    read_spark,
    timestamp_literal,
)
from lakestream.storage.names.catalog import Catalog
from lakestream.storage.names.table_info import Column, TableInfo
from lakestream.storage.places.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

S = 1_000_000
WAYS = ("arrow", "spark")
COLUMNS = ("ts", "v", "tbname")


@pytest.fixture
def info(tmp_path: Path) -> TableInfo:
    from lakestream.clock import SystemClock

    layout = Layout(str(tmp_path / "a lake"))
    layout.initialise()
    catalog = Catalog(layout, SystemClock())
    catalog.databases.create("main")
    columns = [Column("ts", "timestamp"), Column("v", "double"), Column("tbname", "string", "who")]
    return catalog.create_table("main", "_t ü", columns, time_column="ts", key=("tbname", "ts"))


@pytest.fixture
def table(info: TableInfo) -> Table:
    return Table.open(info.path)


def arrow(*items: tuple[float, float]) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array([round(second * S) for second, _ in items], pa.timestamp("us", "UTC")),
            "v": pa.array([v for _, v in items], pa.float64()),
            "tbname": pa.array(["d1"] * len(items), pa.string()),
        }
    )


@pytest.fixture
def rows(spark: SparkSession) -> Callable[..., Any]:
    """Rows in the form that goes the named way."""

    def made(way: str, *items: tuple[float, float]) -> pa.Table | DataFrame:
        return arrow(*items) if way == "arrow" else spark.createDataFrame(arrow(*items))

    return made


def tag(tick: int, epoch: int = 1) -> CommitTag:
    return CommitTag("lakestream:u1:out", tick, {"epoch": epoch, "tick": tick})


def seen(spark: SparkSession, table: Table, after: int, upto: int) -> list[list[tuple[Any, ...]]]:
    """The changes of a range by both ways, sorted."""
    fast = changes_arrow(table, after, upto, ["v"])
    slow = changes_spark(spark, table, after, upto, ["v"]).toArrow()
    assert fast.column_names == slow.column_names
    assert [fast.schema.field(i).type for i in range(3)] == [slow.schema.field(i).type for i in range(3)]
    return [sorted(tuple(row.values()) for row in found.to_pylist()) for found in (fast, slow)]


def values(table: Table) -> list[float]:
    table.refresh()
    return sorted(read_arrow(table, columns=["v"])["v"].to_pylist())


def sql(spark: SparkSession, text: str, path: str) -> None:
    """Run a statement on the table at a path, called ``tt`` in it."""
    spark.sql("CREATE DATABASE IF NOT EXISTS ls")
    spark.sql("DROP TABLE IF EXISTS ls.tt")
    spark.sql(f"CREATE TABLE ls.tt USING delta LOCATION '{path}'")
    spark.sql(text.replace("tt", "ls.tt"))


@pytest.mark.parametrize("way", WAYS)
def test_append_with_a_transaction_id_and_its_replay(
    spark: SparkSession, table: Table, rows: Callable[..., Any], way: str
) -> None:
    assert commit(table, rows(way, (1, 1.0)), tag(1)).version == 1
    for again in WAYS:
        assert commit(Table.open(table.path), rows(again, (1, 1.0)), tag(1)).replayed
    assert commit(table, rows(way, (2, 2.0)), tag(2)).version == 2
    assert values(table) == [1.0, 2.0]
    [info] = read_commits(table.path, 1, 2)
    assert (info.append_only, info.add_rows, info.user_metadata) == (True, 1, '{"epoch": 1, "tick": 2}')
    assert table.handle.history(1)[0]["userMetadata"] == info.user_metadata
    expected = [(1.0, 1, "insert"), (2.0, 2, "insert")]
    assert seen(spark, table, 0, 2) == [expected, expected]


@pytest.mark.parametrize("way", WAYS)
def test_a_range_is_rewritten_in_one_commit(
    spark: SparkSession, table: Table, rows: Callable[..., Any], way: str
) -> None:
    commit(table, rows(way, (1, 1.0), (2, 2.0), (3, 3.0)), tag(1))
    predicate = f"ts >= {timestamp_literal(2 * S)} AND ts < {timestamp_literal(3 * S)}"
    assert commit(table, rows(way, (2, 9.0), (2.5, 10.0)), tag(2), replace=predicate).version == 2
    assert commit(table, rows(way, (2, 9.0)), tag(2), replace=predicate).replayed
    assert values(table) == [1.0, 3.0, 9.0, 10.0]
    fast, slow = seen(spark, table, 1, 2)
    assert fast == slow
    assert {(v, kind) for v, _, kind in fast} >= {(2.0, "delete"), (9.0, "insert"), (10.0, "insert")}


@pytest.mark.parametrize("way", WAYS)
def test_rows_outside_the_predicate_are_refused(table: Table, rows: Callable[..., Any], way: str) -> None:
    commit(table, rows(way, (1, 1.0)), tag(1))
    with pytest.raises(StorageError, match="COMMIT_FAILED"):
        commit(table, rows(way, (9, 9.0)), tag(2), replace=f"ts < {timestamp_literal(5 * S)}")
    assert values(table) == [1.0]


@pytest.mark.parametrize("way", WAYS)
def test_a_predicate_may_name_the_keys_of_new_rows(table: Table, rows: Callable[..., Any], way: str) -> None:
    commit(table, rows(way, (1, 1.0), (9, 9.0)), tag(1))
    moment = timestamp_literal(9 * S)
    predicate = f"(ts < {timestamp_literal(2 * S)}) OR (tbname = 'd1' AND ts = {moment})"
    commit(table, rows(way, (9, 10.0)), tag(2), replace=predicate)
    assert values(table) == [10.0]


def test_a_commit_without_rows_is_empty_for_both(spark: SparkSession, table: Table) -> None:
    assert commit(table, None, tag(1)).version == 1
    assert seen(spark, table, 0, 1) == [[], []]


def test_spark_honours_the_ids_of_delta_rs(table: Table, rows: Callable[..., Any]) -> None:
    commit(table, arrow((1, 1.0)), tag(3))
    writer = rows("spark", (1, 7.0)).write.format("delta").mode("append").option("txnAppId", tag(3).app)
    writer.option("txnVersion", 3).save(table.path)
    assert values(table) == [1.0]


@pytest.mark.parametrize("way", WAYS)
def test_a_rival_with_the_same_tick_fences_us(
    table: Table, rows: Callable[..., Any], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rival commits between our look at the table and our write; Spark passes over ours silently."""
    from lakestream.storage.writes import commit as module

    rival, write = Table.open(table.path), module._write

    def late(*args: Any) -> None:
        monkeypatch.setattr(module, "_write", write)
        commit(rival, arrow((1, 5.0)), tag(1, epoch=2))
        write(*args)

    monkeypatch.setattr(module, "_write", late)
    with pytest.raises(StreamError, match="FENCED"):
        commit(table, rows(way, (1, 1.0)), tag(1, epoch=1))
    assert values(table) == [5.0]


@pytest.mark.parametrize("way", WAYS)
def test_a_lost_answer_is_recognised(
    table: Table, rows: Callable[..., Any], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakestream.storage.writes import commit as module

    write = module._write

    def cut(*args: Any) -> None:
        write(*args)
        raise OSError("connection lost")

    monkeypatch.setattr(module, "_write", cut)
    result = commit(table, rows(way, (1, 1.0)), tag(1))
    assert (result.version, result.recovered) == (1, True)
    assert values(table) == [1.0]


@pytest.mark.parametrize("deletion_vectors", ["false", "true"])
def test_both_feeds_agree_after_update_delete_merge_optimize_and_add_column(
    spark: SparkSession, table: Table, deletion_vectors: str
) -> None:
    append(table, arrow(*((n, float(n)) for n in range(10))))
    path = table.path
    sql(spark, f"ALTER TABLE tt SET TBLPROPERTIES (delta.enableDeletionVectors = {deletion_vectors})", path)
    for text in (
        "UPDATE tt SET v = v + 100 WHERE v < 3",
        "DELETE FROM tt WHERE v = 4",
        "MERGE INTO tt t USING (SELECT 5D AS v) s ON t.v = s.v WHEN MATCHED THEN UPDATE SET v = 55",
        "OPTIMIZE tt",
        "ALTER TABLE tt ADD COLUMN extra INT",
        "DELETE FROM tt WHERE v > 100",
    ):
        sql(spark, text, path)
    latest = table.refresh()
    fast, slow = seen(spark, table, 0, latest)
    assert fast == slow
    kinds = [kind for _, _, kind in fast]
    assert (kinds.count("insert"), kinds.count("update_preimage"), kinds.count("delete")) == (10, 4, 3)
    kept = sorted(r["v"] for r in read_spark(spark, path, latest, columns=["v"]).collect())
    assert values(table) == kept
    found = capabilities(table)
    assert (found.arrow_reads, found.arrow_changes, found.arrow_writes) == (True, True, True)
    assert commit(table, arrow((20, 20.0)), tag(1)).version == latest + 1
    assert 20.0 in values(table)


def test_types_that_spark_wrote_are_read_alike(spark: SparkSession, table: Table) -> None:
    """Spark cuts the statistics of times to milliseconds: no row may be skipped for that."""
    frame = spark.createDataFrame(arrow((1.0000005, 1.0), (1.0009, 2.0), (1.000999, 3.0)))
    commit(table, frame, tag(1))
    lower, upper = 1_000_950, 1_001_000
    read: dict[str, Any] = {"time_column": "ts", "columns": ["v"]}
    assert read_arrow(table, spans=[(lower, upper)], **read)["v"].to_pylist() == [3.0]
    rows = read_spark(spark, table.path, 1, lower=lower, upper=upper, **read).collect()
    assert [row.v for row in rows] == [3.0]
    assert read_arrow(table).schema.field("ts").type == pa.timestamp("us", "UTC")


def test_an_insert_meets_rows_that_spark_wrote(spark: SparkSession, info: TableInfo) -> None:
    from lakestream.storage.delta import Tables

    tables = Tables()
    insert_rows(info, arrow((1, 1.0)), tables=tables)
    spark.createDataFrame(arrow((2.000999, 2.0))).write.format("delta").mode("append").save(info.path)
    insert_rows(info, arrow((2.000999, 3.0)), tables=tables)
    assert sorted(read_arrow(info.path)["v"].to_pylist()) == [1.0, 3.0]


def test_our_description_survives_spark(spark: SparkSession, info: TableInfo) -> None:
    before = Table.open(info.path).properties["lakestream.table"]
    sql(spark, "ALTER TABLE tt ADD COLUMN extra INT COMMENT 'more'", info.path)
    sql(spark, "ALTER TABLE tt SET TBLPROPERTIES (delta.checkpointInterval = 20)", info.path)
    assert Table.open(info.path).properties["lakestream.table"] == before


def test_an_older_version_is_read_alike(spark: SparkSession, table: Table) -> None:
    for second in range(1, 4):
        append(table, arrow((second, float(second))))
    assert sorted(row.v for row in read_spark(spark, table.path, 2, columns=["v"]).collect()) == [1.0, 2.0]
    assert sorted(read_arrow(table, 2)["v"].to_pylist()) == [1.0, 2.0]


@pytest.mark.parametrize("way", WAYS)
def test_a_missing_commit_stops_both_ways(spark: SparkSession, table: Table, way: str) -> None:
    for second in range(1, 14):
        append(table, arrow((second, float(second))))
    Path(table.path, "_delta_log", f"{7:020}.json").unlink()
    with pytest.raises(StreamError, match=r"CHANGES_LOST.*version 7"):
        _ = (
            changes_arrow(table, 5, 13, ["v"])
            if way == "arrow"
            else changes_spark(spark, table, 5, 13, ["v"])
        )


@pytest.mark.parametrize(
    ("properties", "reads", "changes", "writes"),
    [
        ("delta.checkpointPolicy = 'v2', delta.enableChangeDataFeed = true", True, True, True),
        ("delta.columnMapping.mode = 'name', delta.enableChangeDataFeed = true", True, False, True),
        ("delta.enableInCommitTimestamps = true, delta.enableChangeDataFeed = true", True, True, False),
        ("delta.enableRowTracking = true, delta.enableChangeDataFeed = true", True, True, False),
        ("CLUSTER", True, True, False),
        ("delta.enableTypeWidening = true, delta.enableChangeDataFeed = true", False, False, False),
    ],
)
def test_capabilities_by_feature(
    spark: SparkSession, tmp_path: Path, properties: str, *, reads: bool, changes: bool, writes: bool
) -> None:
    """What the features say is held against what really happens."""
    path = str(tmp_path / "f")
    cluster = properties == "CLUSTER"
    shape = "CLUSTER BY (ts)" if cluster else ""
    wanted = "delta.enableChangeDataFeed = true" if cluster else properties
    spark.sql("CREATE DATABASE IF NOT EXISTS ls")
    spark.sql("DROP TABLE IF EXISTS ls.f")
    spark.sql(
        f"CREATE TABLE ls.f (ts TIMESTAMP, v DOUBLE, tbname STRING) USING delta {shape}"
        f" LOCATION '{path}' TBLPROPERTIES ({wanted})"
    )
    spark.createDataFrame(arrow((1, 1.0))).write.format("delta").mode("append").save(path)
    table = Table.open(path)
    found = capabilities(table)
    assert (found.arrow_reads, found.arrow_changes, found.arrow_writes) == (reads, changes, writes)
    if reads:
        assert read_arrow(table)["v"].to_pylist() == [1.0]
    version = table.version
    if changes:
        assert changes_arrow(table, version - 1, version, ["v"]).num_rows == 1
    assert changes_spark(spark, table, version - 1, version, ["v"]).count() == 1
    if writes:
        commit(table, arrow((2, 2.0)), tag(1))
    commit(table, spark.createDataFrame(arrow((3, 3.0))), tag(2))
    assert read_spark(spark, path, table.refresh()).count() == 2 + writes


def test_writers_of_one_process_lose_nothing(spark: SparkSession, table: Table) -> None:
    """Threads of delta-rs and of Spark on one table; the JVM holds its commits apart by itself."""
    failures: list[BaseException] = []

    def run(index: int, way: str, count: int) -> None:
        try:
            mine = Table.open(table.path)
            for n in range(1, count + 1):
                data = arrow((n, float(index)))
                rows = data if way == "arrow" else spark.createDataFrame(data)
                commit(mine, rows, CommitTag(f"app{index}", n, {"epoch": 1}))
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=run, args=(n, "arrow", 20)) for n in range(3)]
    threads.append(threading.Thread(target=run, args=(9, "spark", 4)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(values(table)) == 64
    assert table.version == 64
