"""Delta tables by the names that a catalog of Spark's has for them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from lakestream.clock import ManualClock
from lakestream.errors import LakestreamError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
START = datetime(2025, 1, 1, tzinfo=UTC)
SCHEMA = "`2025_plant`"
FEED = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
STREAM = (
    "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM t STREAM_OPTIONS(FILL_HISTORY) INTO s_out AS "
    "SELECT _twstart AS w, count(*) AS n, sum(v) AS v FROM %%trows"
)


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    """Return a user's session, in a schema of its own."""
    session = spark.newSession()
    session.sql(f"CREATE SCHEMA {SCHEMA} LOCATION '{tmp_path}/warehouse'")
    session.sql(f"USE {SCHEMA}")
    yield session
    session.sql(f"DROP SCHEMA {SCHEMA} CASCADE")


@pytest.fixture
def lake(session: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    with Lake(tmp_path / "lake", clock=ManualClock(START), spark=session) as lake:
        yield lake


def make(session: SparkSession, table: str, path: Path | None = None, using: str = "delta") -> None:
    """Make a table of two rows, where the schema lies or at a path."""
    place = f"LOCATION '{path}'" if path else ""
    feed = FEED if using == "delta" else ""
    rows = "VALUES (TIMESTAMP'2025-01-01 00:00:01', 1L), (TIMESTAMP'2025-01-01 00:00:12', 2L) AS r(at, v)"
    session.sql(
        f"CREATE TABLE {table} USING {using} {place} {feed} AS SELECT at, v, 'x' AS Location FROM {rows}"
    )


def refused(lake: Lake, code: str, statement: str) -> LakestreamError:
    """Return the error of a statement that leaves nothing, which points at the name behind USING TABLE."""
    before = lake.sql("SHOW TABLES").fetchall()
    with pytest.raises(LakestreamError) as caught:
        lake.sql(statement)
    assert caught.value.code == code, caught.value
    assert lake.sql("SHOW TABLES").fetchall() == before
    assert caught.value.place is not None
    line = statement.splitlines()[caught.value.place.line - 1]
    assert line[: caught.value.place.column - 1].endswith("USING TABLE ")
    assert "^" in caught.value.render()
    return caught.value


@pytest.mark.parametrize("written", ["read", f"{SCHEMA}.READ", f"spark_catalog.{SCHEMA}.read"])
def test_a_table_is_found_by_its_name(
    lake: Lake, session: SparkSession, tmp_path: Path, written: str
) -> None:
    path = tmp_path / "some place #1"
    make(session, "read", path)
    lake.sql(f"CREATE TABLE t USING TABLE {written}")
    assert lake.sql("SELECT v FROM t ORDER BY v").fetchall() == [(1,), (2,)]
    with Lake(lake.root) as opened:
        told = opened.sql("DESCRIBE t")
    name = written.rpartition(".")[2]
    assert told.message == f"main.t is spark_catalog.{SCHEMA}.{name}, at {path}"
    assert told.fetchall()[0][:3] == ("at", "TIMESTAMP", "EVENT TIME")


def test_a_stream_follows_a_managed_table(lake: Lake, session: SparkSession) -> None:
    make(session, "read")
    lake.sql("CREATE TABLE t USING TABLE read TIMESTAMP BY at")
    lake.sql(STREAM)
    lake.run()
    session.sql("INSERT INTO read VALUES (TIMESTAMP'2025-01-01 00:00:30', 3L, 'x')")
    lake.run()
    assert lake.sql("SELECT n, v FROM s_out WHERE n > 0 ORDER BY w").fetchall() == [(1, 1), (1, 2)]
    assert lake.verify("s").holds
    lake.sql("DROP STREAM s; DROP TABLE t")
    assert session.table("read").count() == 3


def test_the_feed_of_a_table_is_switched_on_after_asking(lake: Lake, session: SparkSession) -> None:
    make(session, "read")
    session.sql("ALTER TABLE read SET TBLPROPERTIES (delta.enableChangeDataFeed = false)")
    with pytest.raises(LakestreamError, match="CONFIRMATION_NEEDED"):
        lake.sql("CREATE TABLE t USING TABLE read")
    lake._confirm = lambda _: True
    lake.sql("CREATE TABLE t USING TABLE read")
    shown = {row["key"]: row["value"] for row in session.sql("SHOW TBLPROPERTIES read").collect()}
    assert shown["delta.enableChangeDataFeed"] == "true"


def test_if_not_exists_means_the_same_table(lake: Lake, session: SparkSession) -> None:
    for name in ("one", "other"):
        make(session, name)
    for _ in range(2):
        lake.sql("CREATE TABLE IF NOT EXISTS t USING TABLE one")
    refused(lake, "TABLE_EXISTS", "CREATE TABLE IF NOT EXISTS t USING TABLE other")
    refused(lake, "TABLE_EXISTS", "CREATE TABLE t USING TABLE one")
    assert "main.t" in refused(lake, "LOCATION_TAKEN", "CREATE TABLE u USING TABLE one").message


@pytest.mark.parametrize("name", ["nosuch", "nosuch.read", "no.such.read", "spark_catalog.nosuch.read"])
def test_a_name_that_the_session_does_not_know_is_refused(lake: Lake, name: str) -> None:
    error = refused(lake, "CATALOG_TABLE_NOT_FOUND", f"CREATE TABLE t\n  USING TABLE {name}")
    assert f"knows no table {name}" in error.message
    assert "\n" not in error.message
    assert "cannot be found" not in error.message
    assert "LOCATION" in error.hint


def test_what_is_no_delta_table_is_refused_by_name(lake: Lake, session: SparkSession) -> None:
    make(session, "files", using="parquet")
    error = refused(lake, "CATALOG_TABLE_NOT_DELTA", "CREATE TABLE t USING TABLE files TIMESTAMP BY at")
    assert "parquet" in error.message
    make(session, "read")
    session.sql("CREATE VIEW seen AS SELECT * FROM read")
    session.table("read").createTempView("seen_here")
    for view in ("seen", "seen_here"):
        assert view in refused(lake, "CATALOG_TABLE_IS_VIEW", f"CREATE TABLE t USING TABLE {view}").message


def test_a_table_of_the_lake_has_no_other_name(lake: Lake) -> None:
    lake.sql("CREATE TABLE own (ts TIMESTAMP, v INT)")
    assert lake.spark is not None  # gives the lake's tables names in the catalog
    refused(lake, "LOCATION_IN_LAKE", "CREATE TABLE t USING TABLE main.own")
