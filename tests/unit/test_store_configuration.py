from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkConf

from lakestream.settings import Settings
from lakestream.storage.sessions import session
from lakestream.storage.sessions.stores import executor_environment, has_store, store_configuration

ALWAYS = {
    "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "spark.delta.logStore.s3.impl": "lakestream.ConditionalLogStore",
    "spark.redaction.regex": "(?i)secret|password|token|access[._]?key",
}
S3A = "spark.hadoop.fs.s3a"


@pytest.mark.parametrize(
    ("environment", "configuration"),
    [
        ({}, {}),
        ({"AWS_REGION": "eu-north-1"}, {"endpoint.region": "eu-north-1"}),
        ({"AWS_DEFAULT_REGION": "eu-north-1"}, {"endpoint.region": "eu-north-1"}),
        (
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"},
            {
                "endpoint": "http://127.0.0.1:9000",
                "path.style.access": "true",
                "endpoint.region": "us-east-1",
            },
        ),
        (
            {
                "AWS_ENDPOINT_URL_S3": "https://s3.here",
                "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
                "AWS_REGION": "x",
            },
            {"endpoint": "https://s3.here", "path.style.access": "false", "endpoint.region": "x"},
        ),
        (
            {"AWS_SKIP_SIGNATURE": "true"},
            {"aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
        ),
        ({"AWS_SKIP_SIGNATURE": "false"}, {}),
        (
            {"AWS_WEB_IDENTITY_TOKEN_FILE": "/var/token"},
            {
                "aws.credentials.provider": "software.amazon.awssdk.auth.credentials."
                "WebIdentityTokenFileCredentialsProvider"
            },
        ),
    ],
)
def test_spark_finds_the_store_where_the_environment_says(
    environment: dict[str, str], configuration: dict[str, str]
) -> None:
    expected = ALWAYS | {f"{S3A}.{key}": value for key, value in configuration.items()}
    assert store_configuration(environment) == expected


def test_credentials_stand_in_no_setting() -> None:
    secrets = {"AWS_ACCESS_KEY_ID": "one", "AWS_SECRET_ACCESS_KEY": "two", "AWS_SESSION_TOKEN": "three"}
    assert store_configuration(secrets) == ALWAYS


@pytest.mark.parametrize(
    ("conf", "has"),
    [
        ({}, False),
        ({"spark.executor.memory": "4g"}, False),
        ({"spark.hadoop.fs.s3.impl": "x.Y"}, True),
        ({"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0"}, True),
        ({"spark.jars": "/opt/hadoop-aws-3.5.0.jar"}, True),
    ],
)
def test_what_a_user_brings_for_the_store_is_left_alone(conf: dict[str, str], has: bool) -> None:
    assert has_store(conf) is has


@pytest.mark.parametrize(
    ("root", "conf", "transport"),
    [
        ("s3://bucket/lake", {}, "auto"),
        ("az://box/lake", {}, "arrow"),
        ("gs://bucket/lake", {"spark.hadoop.fs.gs.impl": "x.Y"}, "auto"),
        ("/srv/lake", {}, "auto"),
    ],
)
def test_arrow_carries_what_spark_does_not_read(root: str, conf: dict[str, str], transport: str) -> None:
    assert Settings(spark_conf=conf).for_lake(root).transport == transport


KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hidden"}


def test_executors_are_given_keys_where_there_are_some() -> None:
    assert executor_environment({**KEYS, "AWS_SESSION_TOKEN": "", "AWS_REGION": "x"}, {}) == KEYS
    assert executor_environment({"AWS_WEB_IDENTITY_TOKEN_FILE": "/var/token"}, {}) == {}
    assert executor_environment(KEYS, {"spark.executorEnv.AWS_SESSION_TOKEN": "theirs"}) == {}


def test_keys_reach_executors_by_no_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    launched: list[dict[str, str]] = []
    began: list[dict[str, str]] = []

    def launch(conf: SparkConf, **_: object) -> SimpleNamespace:
        launched.append(dict(conf.getAll()))
        return SimpleNamespace(proc=None)

    class Context:
        _gateway = None

        def __init__(self, conf: SparkConf, gateway: object) -> None:
            del gateway
            began.append(dict(conf.getAll()))

    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", launch)
    monkeypatch.setattr("pyspark.SparkContext", Context)
    monkeypatch.setattr(session, "_STARTED", [])
    monkeypatch.setattr(session, "compile_log_store", lambda *_: None)
    conf = SparkConf(loadDefaults=False, _jvm=None).set("spark.master", "spark://host:7077")
    session._launch(conf, tmp_path / "log", tmp_path, KEYS)
    assert launched == [{"spark.master": "spark://host:7077"}]
    assert began == [launched[0] | {f"spark.executorEnv.{name}": value for name, value in KEYS.items()}]


def test_a_start_of_spark_that_is_killed_leaves_its_folder_where_it_is_cleared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    left: list[Path] = []

    def killed(*_: object, **__: object) -> None:
        left.append(Path(tempfile.mkdtemp()))
        raise KeyboardInterrupt

    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", killed)
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    conf, before = SparkConf(loadDefaults=False, _jvm=None), tempfile.gettempdir()
    with pytest.raises(KeyboardInterrupt):
        session._launch(conf, tmp_path / "log", None, {})
    assert [folder.parent for folder in left] == [tmp_path]
    assert tempfile.gettempdir() == before
