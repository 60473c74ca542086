"""Tables that others made as outputs of streams: each keeps what its owner made it with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings
from lakestream.errors import StatementError
from tests.contract.foreign_tables import CREATED, FEED, MAKERS, MAPPING, VECTORS, Maker, Owner
from tests.tiers import every_other

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

START = datetime(2025, 1, 1, tzinfo=UTC)
STREAM = (
    "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM own PARTITION BY site "
    "STREAM_OPTIONS(EXACT | IGNORE_NODATA_TRIGGER) INTO theirs (at, v) "
    "AS SELECT _twstart, CAST(sum(n) AS INT) FROM %%trows"
)
ROWS = ((3600, 1, "a"), (3612, 2, "b"), (3615, 4, "a"), (3603, 8, "a"), (3630, 16, "b"))
KEPT = (
    "checked",
    "clustered",
    "default",
    "row_tracking",
    "commit_times",
    "not_null",
)
OUTPUTS = {
    "by_group": Maker(layout="PARTITIONED BY (site)"),
    "more_columns": Maker(columns="note STRING, n INT"),
    "vectors": Maker(properties=VECTORS),
    "mapping": Maker(properties=f"{MAPPING}'name', {VECTORS}"),
    "far_times": Maker(columns="until TIMESTAMP", more="until=TIMESTAMP '9999-12-31'"),
    **{name: MAKERS[name] for name in KEPT},
}
CASES = [(name, (1000, 1000, 0, 0)[number % 4]) for number, name in enumerate(OUTPUTS)]


@pytest.mark.parametrize(("name", "small_rows"), every_other(CASES))
def test_rows_of_windows_stand_beside_those_that_were_there(
    name: str, small_rows: int, tmp_path: Path, spark: SparkSession
) -> None:
    owner = Owner(spark, tmp_path / "theirs")
    owner.sql(*OUTPUTS[name].statements())
    before = [tuple(row) for row in owner.query("SELECT * FROM {t}").collect()]
    with Lake(
        tmp_path / "lake", spark=spark, settings=Settings(duckdb_memory=0, small_rows=small_rows)
    ) as lake:
        lake.sql(f"CREATE TABLE theirs LOCATION '{tmp_path / 'theirs'}'")
        lake.sql("CREATE TABLE own (ts TIMESTAMP, n INT, site VARCHAR(8))")
        lake.sql(STREAM)
        for second, n, site in ROWS:
            lake.insert("own", [{"ts": START + timedelta(seconds=second), "n": n, "site": site}])
            lake.run()
            assert [(s.name, s.last_error) for s in lake.streams() if s.last_error] == []
    later = owner.query("SELECT unix_seconds(at) % 3600, site, v FROM {t} WHERE at > '2025-01-01 00:30:00'")
    assert sorted(map(tuple, later.collect())) == [(0, "a", 9), (10, "b", 2)]
    kept = owner.query("SELECT * FROM {t} WHERE at < '2025-01-01 00:30:00'")
    assert sorted(map(str, map(tuple, kept.collect()))) == sorted(map(str, before))


@pytest.mark.parametrize("name", ["generated", "identity"])
def test_a_table_with_computed_columns_is_no_output(name: str, tmp_path: Path, spark: SparkSession) -> None:
    Owner(spark, tmp_path / "theirs").sql(*MAKERS[name].statements())
    with Lake(tmp_path / "lake", spark=spark) as lake:
        lake.sql(f"CREATE TABLE theirs LOCATION '{tmp_path / 'theirs'}'")
        lake.sql("CREATE TABLE own (ts TIMESTAMP, n INT, site VARCHAR(8))")
        with pytest.raises(StatementError, match=f"OUTPUT_MISMATCH.*{name} columns"):
            lake.sql(STREAM)
        assert lake.streams() == []


@pytest.mark.parametrize("small_rows", [1000, 0])
def test_rows_that_break_a_constraint_stop_the_stream_until_it_is_gone(
    small_rows: int, tmp_path: Path, spark: SparkSession
) -> None:
    owner = Owner(spark, tmp_path / "theirs")
    owner.sql(
        CREATED.replace("$columns", "at TIMESTAMP, site STRING, v INT")
        .replace("$layout", "")
        .replace("$properties", f"{FEED} = true"),
        "ALTER TABLE {t} ADD CONSTRAINT low CHECK (v < 10)",
    )
    with Lake(
        tmp_path / "lake", spark=spark, settings=Settings(duckdb_memory=0, small_rows=small_rows)
    ) as lake:
        lake.sql(f"CREATE TABLE theirs LOCATION '{tmp_path / 'theirs'}'")
        lake.sql("CREATE TABLE own (ts TIMESTAMP, n INT, site VARCHAR(8))")
        lake.sql(STREAM)
        lake.sql(STREAM.replace("STREAM s", "STREAM z").replace("theirs", "z_out"))
        rows = [(3600, 70, "a"), (3615, 4, "a"), (3630, 16, "a")]
        lake.insert(
            "own", [{"ts": START + timedelta(seconds=at), "n": n, "site": site} for at, n, site in rows]
        )
        lake.run()
        stopped, beside = lake.streams()
        assert (stopped.status, beside.status) == ("Failed", "Running")
        assert (stopped.last_error or "").startswith("OUTPUT_CONSTRAINT: ")
        assert "low CHECK (v < 10)" in (stopped.last_error or "")
        assert "START STREAM main.s" in (stopped.last_error or "")
        assert owner.query("SELECT v FROM {t}").collect() == []
        owner.sql("ALTER TABLE {t} DROP CONSTRAINT low")
        lake.sql("START STREAM s")
        lake.run()
        assert lake.verify("s").holds
        found = owner.query("SELECT unix_seconds(at) % 3600, site, v FROM {t} ORDER BY at").collect()
        assert [tuple(row) for row in found] == [(0, "a", 70), (10, "a", 4)]


@pytest.mark.parametrize("small_rows", [1000, 0])
def test_a_null_where_the_output_takes_none_stops_the_stream_until_it_does(
    small_rows: int, tmp_path: Path, spark: SparkSession
) -> None:
    owner = Owner(spark, tmp_path / "theirs")
    owner.sql(
        CREATED.replace("$columns", "at TIMESTAMP NOT NULL, site STRING, v INT NOT NULL")
        .replace("$layout", "")
        .replace("$properties", f"{FEED} = true")
    )
    with Lake(
        tmp_path / "lake", spark=spark, settings=Settings(duckdb_memory=0, small_rows=small_rows)
    ) as lake:
        lake.sql(f"CREATE TABLE theirs LOCATION '{tmp_path / 'theirs'}'")
        lake.sql("CREATE TABLE own (ts TIMESTAMP, n INT, site VARCHAR(8))")
        lake.sql(STREAM)
        for at, n in ((3600, 70), (3615, None), (3630, 16)):
            lake.insert("own", [{"ts": START + timedelta(seconds=at), "n": n, "site": "a"}])
            lake.run()
        (stopped,) = lake.streams()
        assert (stopped.status, (stopped.last_error or "").partition(": ")[0]) == (
            "Failed",
            "OUTPUT_CONSTRAINT",
        )
        assert "v NOT NULL" in (stopped.last_error or "")
        assert "START STREAM main.s" in (stopped.last_error or "")
        assert [row["v"] for row in owner.query("SELECT v FROM {t}").collect()] == [70]
        owner.sql("ALTER TABLE {t} ALTER COLUMN v DROP NOT NULL")
        lake.sql("START STREAM s")
        lake.run()
        assert lake.verify("s").holds
        assert [row["v"] for row in owner.query("SELECT v FROM {t} ORDER BY at").collect()] == [70, None]


def test_an_output_may_be_a_table_of_a_catalog(tmp_path: Path, spark: SparkSession) -> None:
    session = spark.newSession()
    session.sql(f"CREATE SCHEMA outputs LOCATION '{tmp_path}/warehouse'")
    columns = "(at TIMESTAMP, site STRING, v INT) USING delta PARTITIONED BY (site)"
    try:
        session.sql(f"CREATE TABLE outputs.theirs {columns} TBLPROPERTIES ({FEED} = true)")
        with Lake(tmp_path / "lake", spark=session) as lake:
            lake.sql("CREATE TABLE theirs USING TABLE spark_catalog.outputs.theirs")
            lake.sql("CREATE TABLE own (ts TIMESTAMP, n INT, site VARCHAR(8))")
            lake.sql(STREAM)
            for second, n, site in ROWS:
                lake.insert("own", [{"ts": START + timedelta(seconds=second), "n": n, "site": site}])
                lake.run()
            assert lake.verify("s").holds
        found = session.sql("SELECT unix_seconds(at) % 3600, site, v FROM outputs.theirs ORDER BY at")
        assert [tuple(row) for row in found.collect()] == [(0, "a", 9), (10, "b", 2)]
    finally:
        session.sql("DROP SCHEMA outputs CASCADE")
