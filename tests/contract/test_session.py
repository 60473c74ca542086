"""What every statement may rely on in lakestream's Spark session."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from lakestream import Lake
from lakestream.errors import ConfigError
from lakestream.storage.sessions.session import adopt_session, frame_of, spark_session, statement_session

if TYPE_CHECKING:
    from pathlib import Path

    from lakestream.settings import Settings

pytestmark = pytest.mark.spark


def test_the_process_has_one_session(spark: SparkSession, settings: Settings) -> None:
    assert spark_session(settings) is spark
    assert adopt_session(spark) is spark
    ours = statement_session(spark)
    frame_of(ours, [(1,)], "n INT")
    assert SparkSession.getActiveSession() is not ours
    assert spark_session(settings) is spark


def test_instants_are_utc(spark: SparkSession) -> None:
    rows = spark.sql("SELECT TIMESTAMP '2025-07-01 12:00:00' AS ts, current_timezone() AS zone").toArrow()
    assert rows["zone"][0].as_py() == "UTC"
    assert rows["ts"][0].as_py() == dt.datetime(2025, 7, 1, 12, tzinfo=dt.UTC)


def test_bad_values_are_null_as_in_tdengine(spark: SparkSession) -> None:
    assert spark.sql("SELECT CAST('x' AS INT), 1 / 0, 1 % 0").collect()[0] == (None, None, None)


def test_files_are_read_by_path_outside_of_statements_only(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(3).write.format("delta").save(path)
    assert spark.sql(f"SELECT * FROM delta.`{path}`").count() == 3
    ours = statement_session(spark)
    assert ours.read.format("delta").load(path).count() == 3
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        ours.sql(f"SELECT * FROM delta.`{path}`")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        ours.sql("SELECT * FROM text.`/etc/passwd`")


def test_tables_of_the_lake_have_names_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", spark=spark.newSession())
    lake.sql("CREATE TABLE t (ts TIMESTAMP, n INT); CREATE TABLE `t 1` (ts TIMESTAMP, n INT)")
    lake.insert("t", [{"ts": 0, "n": 7}])
    assert lake.spark.sql("SELECT n FROM main.t").collect() == [(7,)]
    # Whoever has another session of this Spark, a client of Spark Connect for one, sees them too.
    assert spark.newSession().table("main.t").count() == 1
    lake.insert("t", [{"ts": 1, "n": 8}])
    assert lake.spark.table("main.t").count() == 2
    lake.sql("CREATE DATABASE d; CREATE TABLE d.u (ts TIMESTAMP, n INT); DROP TABLE t")
    assert _named(lake, "d") == ["u"]
    assert not lake.spark.catalog.tableExists("main.t")
    assert _named(lake, "main") == []  # Spark's catalog takes no names with blanks


def _named(lake: Lake, database: str) -> list[str]:
    return [row.tableName for row in lake.spark.sql(f"SHOW TABLES IN {database}").collect()]


def test_views_of_streams_are_not_among_a_users(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", spark=spark.newSession())
    lake.sql("CREATE TABLE t (ts TIMESTAMP, n INT)")
    lake.sql("CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM t INTO o AS SELECT _twstart, sum(n) FROM t")
    lake.insert("t", [{"ts": 0, "n": 7}, {"ts": 60_000, "n": 7}])
    lake.run()
    assert _named(lake, "main") == ["o", "t"]


def test_names_are_those_of_the_lake_that_is_asked(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(2):
        lake = Lake(tmp_path / f"lake{number}", spark=spark)
        lake.sql("CREATE TABLE t (ts TIMESTAMP, n INT)")
        lake.insert("t", [{"ts": 0, "n": number}])
        assert lake.spark.sql("SELECT n FROM main.t").collect() == [(number,)]
        assert (tmp_path / f"lake{number}" / "main" / "t" / "_delta_log").exists()


def test_a_name_that_somebody_else_has_given_stays_theirs(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE SCHEMA theirs")
    try:
        spark.range(3).write.format("delta").save(str(tmp_path / "own"))
        spark.catalog.createTable("theirs.t", path=str(tmp_path / "own"), source="delta")
        lake = Lake(tmp_path / "lake", spark=spark)
        lake.sql("CREATE DATABASE theirs; CREATE TABLE theirs.t (ts TIMESTAMP, n INT)")
        assert lake.spark.table("theirs.t").count() == 3
        lake.sql("DROP TABLE theirs.t")
        assert lake.spark.table("theirs.t").count() == 3
    finally:
        spark.sql("DROP SCHEMA theirs CASCADE")


def test_frames_that_leave_the_lake_are_of_its_spark(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", spark=spark)
    lake.sql("CREATE TABLE t (ts TIMESTAMP, n INT)")
    lake.table("t").createOrReplaceTempView("seen")
    assert lake.spark.sql("SELECT * FROM seen").count() == 0
    assert lake.sql("SHOW TABLES").to_spark().sparkSession is lake.spark


def test_variables_stay_text(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "canary")
    assert spark.sql("SELECT '${env:HOME}${system:user.home}' AS text").collect()[0].text == (
        "${env:HOME}${system:user.home}"
    )


def test_another_session_is_used_through_a_child(spark: SparkSession) -> None:
    notebook = spark.newSession()
    notebook.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    ours = adopt_session(notebook)
    assert ours.conf.get("spark.sql.session.timeZone") == "UTC"
    assert notebook.conf.get("spark.sql.session.timeZone") == "Asia/Kathmandu"


def test_passing_over_missing_files_is_refused(spark: SparkSession) -> None:
    careless = spark.newSession()
    careless.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    with pytest.raises(ConfigError) as caught:
        adopt_session(careless)
    assert caught.value.code == "UNSAFE_SPARK_CONF"


def test_the_jvm_lives_in_utc(spark: SparkSession) -> None:
    # Python-side conversions and legacy Java dates ask the JVM, not the session.
    zone = spark._jvm.java.util.TimeZone.getDefault().getID()  # type: ignore[union-attr]
    assert zone == "UTC"
