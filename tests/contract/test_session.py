"""What every statement may rely on in lakestream's Spark session."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from lakestream.errors import ConfigError
from lakestream.storage.session import adopt_session, spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakestream.settings import Settings

pytestmark = pytest.mark.spark


def test_the_process_has_one_session(spark: SparkSession, settings: Settings) -> None:
    assert spark_session(settings) is spark
    assert adopt_session(spark) is spark


def test_instants_are_utc(spark: SparkSession) -> None:
    rows = spark.sql("SELECT TIMESTAMP '2025-07-01 12:00:00' AS ts, current_timezone() AS zone").toArrow()
    assert rows["zone"][0].as_py() == "UTC"
    assert rows["ts"][0].as_py() == dt.datetime(2025, 7, 1, 12, tzinfo=dt.UTC)


def test_bad_values_are_null_as_in_tdengine(spark: SparkSession) -> None:
    assert spark.sql("SELECT CAST('x' AS INT), 1 / 0, 1 % 0").collect()[0] == (None, None, None)


def test_delta_is_read_by_path_through_the_reader_only(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(3).write.format("delta").save(path)
    assert spark.read.format("delta").load(path).count() == 3
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql(f"SELECT * FROM delta.`{path}`")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM text.`/etc/passwd`")


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
