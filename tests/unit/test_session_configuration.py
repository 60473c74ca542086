from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from lakestream.errors import ConfigError
from lakestream.settings import Settings
from lakestream.storage.sessions import session
from lakestream.storage.sessions.archive import archive_beside, make_archive
from lakestream.storage.sessions.jars import find_jars
from lakestream.storage.sessions.session import few_partitions

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    (tmp_path / "io.delta_delta-spark_4.2_2.13-4.4.0.jar").touch()
    return tmp_path


def configuration(settings: Settings, tmp_path: Path) -> dict[str, str]:
    return session._configuration(settings, tmp_path, find_jars(settings.jars))


def test_java_options_of_the_user_are_added_to_the_zone(jars: Path, tmp_path: Path) -> None:
    settings = Settings(jars=jars, spark_conf={"spark.driver.extraJavaOptions": "-XX:+UseZGC"})
    options = configuration(settings, tmp_path)["spark.driver.extraJavaOptions"].split()
    assert options[0] == "-Duser.timezone=UTC"
    assert options[-1] == "-XX:+UseZGC"


def test_spark_conf_wins_over_what_is_only_for_speed(jars: Path, tmp_path: Path) -> None:
    settings = Settings(jars=jars, spark_conf={"spark.sql.adaptive.enabled": "true"})
    assert configuration(settings, tmp_path)["spark.sql.adaptive.enabled"] == "true"


@pytest.mark.parametrize(
    ("master", "partitions"), [("local[1]", "2"), ("local[6]", "6"), ("local[4,2]", "4")]
)
def test_partitions_follow_the_cores(master: str, partitions: str, jars: Path, tmp_path: Path) -> None:
    conf = configuration(Settings(jars=jars, master=master), tmp_path)
    assert conf["spark.sql.shuffle.partitions"] == partitions


def test_a_cluster_gets_the_jars_and_may_call_back(jars: Path, tmp_path: Path) -> None:
    conf = configuration(Settings(jars=jars, profile="cluster"), tmp_path)
    assert conf["spark.jars"].endswith("delta-spark_4.2_2.13-4.4.0.jar")
    assert "spark.driver.bindAddress" not in conf
    assert "spark.driver.extraClassPath" not in conf


def test_a_cluster_computes_as_this_machine_does(jars: Path, tmp_path: Path) -> None:
    own = {"spark.jars": "a.jar,b.jar", "spark.executor.extraJavaOptions": "-XX:+UseZGC"}
    conf = configuration(Settings(jars=jars, master="spark://host:7077", spark_conf=own), tmp_path)
    assert conf["spark.jars"].split(",")[1:] == ["a.jar", "b.jar"]
    options = conf["spark.executor.extraJavaOptions"]
    assert options == "-Duser.timezone=UTC -XX:-DontCompileHugeMethods -XX:+UseZGC"
    assert conf["spark.sql.adaptive.enabled"] == "true"
    assert "spark.sql.shuffle.partitions" not in conf  # they follow the executors


def test_passing_over_missing_files_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        Settings(spark_conf={"spark.sql.files.ignoreMissingFiles": "TRUE"})
    assert caught.value.code == "UNSAFE_SPARK_CONF"


def test_the_archive_of_classes_beside_the_jars_is_used(jars: Path, tmp_path: Path) -> None:
    without = configuration(Settings(jars=jars), tmp_path)["spark.driver.extraJavaOptions"]
    assert "SharedArchiveFile" not in without
    (jars / "classes.jsa").touch()
    options = configuration(Settings(jars=jars), tmp_path)["spark.driver.extraJavaOptions"]
    assert f'"-XX:SharedArchiveFile={jars / "classes.jsa"}"' in options
    away = configuration(Settings(jars=jars, master="spark://host:7077"), tmp_path)
    assert "SharedArchiveFile" not in away["spark.driver.extraJavaOptions"]


def test_no_archive_is_no_failure(tmp_path: Path) -> None:
    assert not make_archive(tmp_path)
    assert archive_beside([tmp_path / "a.jar"]) is None


@pytest.mark.parametrize(
    ("before", "rows", "within"),
    [("200", 5, "1"), ("200", 250_000, "3"), ("200", 10**9, "200"), ("1", 0, "1"), ("auto", 5, "auto")],
)
def test_few_rows_are_shuffled_in_few_partitions(before: str, rows: int, within: str) -> None:
    key = "spark.sql.shuffle.partitions"
    conf = {key: before}
    spark = SimpleNamespace(conf=SimpleNamespace(get=conf.get, set=conf.__setitem__))
    with few_partitions(spark, rows):  # type: ignore[arg-type]
        assert conf[key] == within
    assert conf[key] == before
