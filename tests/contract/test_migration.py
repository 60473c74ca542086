"""Outputs that earlier versions made are written anew in the layout of new ones; their streams go on."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from lakestream import Lake, Settings
from lakestream.engine.base.faults import MIGRATION_POINTS, SimulatedCrash, crash_at
from lakestream.output.columns import FLAT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STREAM = (
    "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM t STREAM_OPTIONS({}) "
    "INTO o AS SELECT _twstart AS at, count(*) AS n, sum(v) AS total FROM %%trows"
)
OF_STREAM = (
    "CREATE STREAM later INTERVAL(1m) SLIDING(1m) FROM o STREAM_OPTIONS(EXACT) "
    "INTO minutes AS SELECT _twstart AS at, sum(n) AS n FROM %%trows"
)
GROUPED = (
    "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM t PARTITION BY v % 2 AS odd STREAM_OPTIONS(EXACT) "
    "INTO o AS SELECT _twstart AS at, count(*) AS n, sum(v) AS total FROM %%trows"
)
OLD = ["at", "n", "total", *FLAT.types]
NEW = ["at", "n", "total", "window"]


@pytest.fixture
def as_before(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Make outputs as earlier versions did."""

    @contextmanager
    def made() -> Iterator[None]:
        with monkeypatch.context() as before:
            before.setattr("lakestream.engine.streams.target.provenance_beside", lambda _names: FLAT)
            before.setattr("lakestream.engine.streams.target.asks_for_subtables", lambda keys, *_: bool(keys))
            yield

    return made


def opened(folder: Path, spark: SparkSession, small_rows: int = 1000) -> Lake:
    return Lake(folder / "lake", spark=spark, settings=Settings(duckdb_memory=0, small_rows=small_rows))


def insert(lake: Lake, *seconds: int) -> None:
    lake.insert("t", [{"ts": f"2025-01-01 00:{at // 60:02}:{at % 60:02}", "v": at} for at in seconds])


def begin(lake: Lake, *statements: str) -> None:
    lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
    for statement in statements:
        lake.sql(statement)
    insert(lake, 1, 12, 25, 70)
    lake.run()
    insert(lake, 3, 36, 130)
    assert not lake.run().failed


def columns(folder: Path, table: str = "o") -> list[str]:
    return [field.name for field in DeltaTable(str(folder / "lake" / "main" / table)).schema().fields]


def goes_on(lake: Lake, *streams: str) -> None:
    """Late and new rows and a delete come; all is as it should be."""
    insert(lake, 14, 41, 200)
    lake.run()
    lake.sql("DELETE FROM t WHERE v = 12")
    assert not lake.run().failed
    for stream in streams:
        assert lake.verify(stream).holds, stream
    found = lake.sql("SELECT unix_seconds(at) % 3600, n, total FROM o WHERE n > 0 ORDER BY at, n").fetchall()
    assert found == [
        (0, 2, 4),
        (10, 1, 14),
        (20, 1, 25),
        (30, 1, 36),
        (40, 1, 41),
        (70, 1, 70),
        (130, 1, 130),
    ]


@pytest.mark.parametrize("small_rows", [1000, 0])
def test_an_output_is_migrated_and_its_readers_pass_that_over(
    tmp_path: Path, spark: SparkSession, as_before: Callable[[], Any], small_rows: int
) -> None:
    with opened(tmp_path, spark, small_rows) as lake:
        with as_before():
            begin(lake, STREAM.format("EXACT"), OF_STREAM)
        rows = lake.sql("SELECT * FROM o ORDER BY at").fetchall()
        assert columns(tmp_path) == OLD
        table = DeltaTable(str(tmp_path / "lake" / "main" / "o"))

        [planned, of_later] = lake.migrate("s", "later", dry_run=True)
        assert (planned.stream, planned.verdict, planned.dropped, planned.added) == (
            *("main.s", "to migrate"),
            *(tuple(FLAT.types), ("window",)),
        )
        assert of_later.verdict == "to migrate"
        assert DeltaTable(table.table_uri).version() == table.version()

        [done] = lake.migrate("s")
        assert (done.verdict, done.rows) == ("migrated", len(rows))
        assert columns(tmp_path) == NEW
        assert DeltaTable(table.table_uri).metadata().id == table.metadata().id
        assert lake.sql("SELECT * FROM o ORDER BY at").fetchall() == rows
        assert lake.sql("SELECT * FROM o LIMIT 0").columns == ("at", "n", "total")

        before = {status.name: status.rows_in for status in lake.streams()}
        lake.run()
        assert {status.name: status.rows_in for status in lake.streams()} == before
        assert lake.verify("s").holds
        assert lake.verify("later").holds
        goes_on(lake, "s", "later")
        assert {one.stream: one.verdict for one in lake.migrate()} == {
            "main.s": "current",
            "main.later": "migrated",
        }
        assert columns(tmp_path, "minutes") == ["at", "n", "window"]
        assert [one.verdict for one in lake.migrate()] == ["current", "current"]


@pytest.mark.parametrize("point", MIGRATION_POINTS)
def test_a_crash_leaves_the_old_layout_or_the_new_one(
    tmp_path: Path, spark: SparkSession, as_before: Callable[[], Any], point: str
) -> None:
    running = opened(tmp_path, spark)
    with as_before():
        begin(running, STREAM.format("EXACT"), OF_STREAM)
    with opened(tmp_path, spark) as lake, crash_at(point), pytest.raises(SimulatedCrash):
        lake.migrate("s")
    assert columns(tmp_path) == (OLD if point == "G1" else NEW)
    # The lake that has run the stream does so still.
    goes_on(running, "s", "later")
    running.close()
    with opened(tmp_path, spark) as lake:
        assert lake.migrate("s")[0].verdict == ("migrated" if point == "G1" else "current")
        assert columns(tmp_path) == NEW
        assert lake.verify("s").holds
        insert(lake, 230, 250)
        assert not lake.run().failed
        assert lake.verify("s").holds
        assert lake.verify("later").holds


def test_what_fires_early_is_replayed_beyond_a_migration(
    tmp_path: Path, spark: SparkSession, as_before: Callable[[], Any]
) -> None:
    with opened(tmp_path, spark) as lake:
        with as_before():
            begin(lake, STREAM.format("MAX_DELAY(1d)"))
        assert lake.migrate()[0].verdict == "migrated"
        insert(lake, 14, 41, 200)
        assert not lake.run().failed
        assert lake.verify("s").holds


def test_groups_that_had_subtables_become_columns(
    tmp_path: Path, spark: SparkSession, as_before: Callable[[], Any]
) -> None:
    with opened(tmp_path, spark) as lake:
        with as_before():
            begin(lake, GROUPED, OF_STREAM)
        assert columns(tmp_path) == ["at", "n", "total", "tbname", "odd", *FLAT.types]
        [left_out] = lake.migrate("s")
        assert (left_out.verdict, "main.later reads its tbname" in (left_out.why or "")) == ("left out", True)
        lake.sql("DROP STREAM later")
        [done] = lake.migrate()
        assert (done.verdict, done.dropped) == ("migrated", ("tbname", *FLAT.types))
        assert columns(tmp_path) == ["at", "n", "total", "odd", "window"]
        insert(lake, 14, 41, 200)
        lake.sql("DELETE FROM t WHERE v = 12")
        assert not lake.run().failed
        assert lake.verify("s").holds


def test_a_table_of_the_users_stays_and_so_does_one_with_more_columns(
    tmp_path: Path, spark: SparkSession, as_before: Callable[[], Any]
) -> None:
    with opened(tmp_path, spark) as lake:
        other = STREAM.format("EXACT").replace("STREAM s", "STREAM a").replace("INTO o", "INTO mine")
        lake.sql("CREATE TABLE mine (at TIMESTAMP, n BIGINT, total BIGINT)")
        with as_before():
            begin(lake, STREAM.format("EXACT"), other)
        lake.sql("DROP STREAM s; ALTER TABLE o ADD COLUMN note VARCHAR(10)")
        lake.sql(STREAM.format("EXACT").replace("INTO o AS", "INTO o (at, n, total) AS"))
        verdicts = {one.stream: (one.verdict, one.why) for one in lake.migrate()}
    assert verdicts == {
        "main.a": ("current", None),
        "main.s": ("left out", "it has columns beside the stream's: note"),
    }
    assert columns(tmp_path) == [*OLD, "note"]
