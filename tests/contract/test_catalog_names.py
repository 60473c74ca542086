"""Delta tables by the names that a catalog of Spark's has for them."""

from __future__ import annotations

import json
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
        described = opened.sql("DESCRIBE t")
    name = written.rpartition(".")[2]
    assert described.message == f"main.t is spark_catalog.{SCHEMA}.{name}, at {path}"
    assert described.fetchall()[0][:3] == ("at", "TIMESTAMP", "EVENT TIME")


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
    lake._at.confirm = lambda _: True
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


# --- outputs ---

OF_SITES = (
    "INTERVAL(10s) SLIDING(10s) FROM own PARTITION BY site STREAM_OPTIONS(EXACT | IGNORE_NODATA_TRIGGER)"
)
CALCULATED = "AS SELECT _twstart AS at, sum(v) AS total, count(*) AS n FROM %%trows"
ROWS = ((1, "a", 1), (2, "b", 2), (13, "a", 4), (3, "a", 8), (25, "a", 16), (26, "b", 32))
EXPECTED = [(0, "a", 9, 2), (0, "b", 2, 1), (10, "a", 4, 1)]


def follow(lake: Lake, rows: tuple[tuple[int, str, int], ...] = ROWS) -> None:
    """Write rows one by one, each followed by a run."""
    for second, site, v in rows:
        lake.insert("own", [{"ts": f"2025-01-01 00:00:{second:02}", "v": v, "site": site}])
        assert not lake.run().failed


def rows_of(session: SparkSession, table: str) -> list[tuple[object, ...]]:
    """Return what an output has, by its name in the catalog."""
    rows = session.sql(f"SELECT second(at) AS s, site, total, n FROM {table} ORDER BY s, site").collect()
    return [tuple(row) for row in rows]


def tables(session: SparkSession, schema: str) -> list[str]:
    return [row["tableName"] for row in session.sql(f"SHOW TABLES IN {schema}").collect()]


@pytest.fixture
def fed(lake: Lake) -> Lake:
    """Return a lake with a table of its own, which streams are made from."""
    lake.sql("CREATE TABLE own (ts TIMESTAMP, v INT, site VARCHAR(10))")
    return lake


@pytest.mark.parametrize(
    ("layout", "written"),
    [
        ("", "made"),
        ("PARTITIONED BY (Site)", f"{SCHEMA}.made"),
        ("CLUSTER BY (site, at)", f"spark_catalog.{SCHEMA}.made"),
    ],
)
def test_a_stream_makes_its_output_under_a_name_of_a_catalog(
    fed: Lake, session: SparkSession, layout: str, written: str
) -> None:
    fed.sql(f"CREATE STREAM here {OF_SITES} INTO o_here {CALCULATED}")
    fed.sql(f"CREATE STREAM s {OF_SITES} INTO o {layout} USING TABLE {written} {CALCULATED}")
    follow(fed)
    assert rows_of(session, "made") == EXPECTED
    assert fed.verify("s").holds

    own, (detail,) = fed._at.catalog.table("main", "o"), session.sql("DESCRIBE DETAIL made").collect()
    here = fed._at.catalog.table("main", "o_here")
    assert (own.columns, own.key, own.kind) == (here.columns, here.key, here.kind)
    assert own.catalog_name == f"spark_catalog.{SCHEMA}.made"
    properties, theirs = (fed._at.catalog.handle(info).properties for info in (here, own))
    described = [json.loads(one.pop("lakestream.table")) for one in (properties, theirs)]
    assert properties.items() <= theirs.items()
    assert [{**one, "writer": None} for one in described] == [{**described[0], "writer": None}] * 2
    assert detail["partitionColumns"] == (["site"] if "PARTITIONED" in layout else [])
    assert detail["clusteringColumns"] == (["site", "at"] if "CLUSTER" in layout else [])

    fed.sql("DROP STREAM s; DROP TABLE o")
    assert rows_of(session, "made") == EXPECTED
    fed.sql("CREATE TABLE again USING TABLE made")
    assert fed.sql("SELECT count(*) FROM again").fetchall() == [(3,)]


def test_a_refused_output_leaves_neither_table_nor_name(
    fed: Lake, session: SparkSession, tmp_path: Path
) -> None:
    make(session, "there")
    make(session, "files", using="parquet")
    session.sql("CREATE VIEW seen AS SELECT * FROM there")
    session.sql(f"CREATE SCHEMA inside LOCATION '{tmp_path}/lake/inside'")
    refusals = {
        "there": "TABLE_EXISTS",
        "files": "CATALOG_TABLE_NOT_DELTA",
        "seen": "CATALOG_TABLE_IS_VIEW",
        "nosuch.made": "CATALOG_TABLE_NOT_FOUND",
        "spark_catalog.nosuch.made": "CATALOG_TABLE_NOT_FOUND",
        "no.such.made": "CATALOG_TABLE_NOT_FOUND",
        "inside.made": "LOCATION_IN_LAKE",
    }
    before = tables(session, SCHEMA)
    try:
        for name, code in refusals.items():
            statement = f"CREATE STREAM s {OF_SITES} INTO o\n USING TABLE {name} {CALCULATED}"
            assert name in refused(fed, code, statement).message or code == "LOCATION_IN_LAKE"
            assert fed.streams() == []
        assert tables(session, "inside") == []
        assert tables(session, SCHEMA) == before
    finally:
        session.sql("DROP SCHEMA inside CASCADE")
    fed.sql("CREATE TABLE o USING TABLE there")
    with pytest.raises(LakestreamError, match=r"OUTPUT_LAYOUT.*lies as it does"):
        fed.sql(f"CREATE STREAM s {OF_SITES} INTO o USING TABLE there {CALCULATED}")


def test_a_dropped_output_is_made_again_under_its_name(fed: Lake, session: SparkSession) -> None:
    fed.sql(f"CREATE STREAM s {OF_SITES} INTO o USING TABLE made {CALCULATED}")
    follow(fed, ROWS[:3])
    session.sql("DROP TABLE made")
    session.sql("USE default")
    fed.sql("DROP TABLE o")  # the name is still here
    follow(fed, ROWS[3:])
    assert fed._at.catalog.table("main", "o").catalog_name == f"spark_catalog.{SCHEMA}.made"
    assert rows_of(session, f"{SCHEMA}.made") == EXPECTED


@pytest.mark.parametrize("place", ["LOCATION '{}/out'", "USING TABLE made"])
def test_a_replaced_stream_keeps_the_output_that_lies_outside(fed: Lake, tmp_path: Path, place: str) -> None:
    place = place.format(tmp_path)
    fed.sql(f"CREATE STREAM s {OF_SITES} INTO o {place} {CALCULATED}")
    follow(fed)
    wider = CALCULATED.replace("count(*) AS n", "count(*) AS n, max(v) AS most")
    with pytest.raises(LakestreamError, match="OUTPUT_MISMATCH"):
        fed.sql(f"CREATE OR REPLACE STREAM s {OF_SITES} INTO o {place} {wider}")
    assert fed.verify("s").holds
    other = CALCULATED.replace("sum(v)", "sum(v * 2)")
    fed.sql(f"CREATE OR REPLACE STREAM s {OF_SITES} INTO o {place} {other}")
    fed.run()
    assert fed.verify("s").holds
    assert fed.sql("SELECT sum(total) FROM o").fetchall() == [(30,)]
