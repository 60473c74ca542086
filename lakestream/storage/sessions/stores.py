"""What a Spark that lakestream starts needs for lakes in stores of S3's protocol: jars, settings, a log.

Where the store is, and who may ask it, says the environment that delta-rs reads too: credentials reach the
JVM as its environment, from which Spark takes them, and executors as theirs. They stand on no command line.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from py4j.java_gateway import JavaGateway

STORE = "s3"
"""The scheme of the URIs that such a Spark reads."""

_LOG_STORE = Path(__file__).with_name("ConditionalLogStore.java")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_PROVIDERS = {
    "AWS_SKIP_SIGNATURE": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "software.amazon.awssdk.auth.credentials."
    "WebIdentityTokenFileCredentialsProvider",
}
"""Who has credentials that Hadoop does not look for by itself, by the variable that says so."""


def has_store(spark_conf: Mapping[str, str]) -> bool:
    """Return whether a user's settings of Spark bring a file system for S3: it is left as it is."""
    return f"spark.hadoop.fs.{STORE}.impl" in spark_conf or any(
        "hadoop-aws" in value for value in spark_conf.values()
    )


def store_configuration(environment: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's settings for S3, as an environment tells delta-rs where the store is."""
    configuration = {
        f"spark.hadoop.fs.{STORE}.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        f"spark.delta.logStore.{STORE}.impl": "lakestream.ConditionalLogStore",
        "spark.redaction.regex": "(?i)secret|password|token|access[._]?key",
    }
    endpoint, region = _first(environment, _ENDPOINTS), _first(environment, _REGIONS)
    if endpoint:
        by_host = _is_true(environment.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST"))
        configuration["spark.hadoop.fs.s3a.endpoint"] = endpoint
        configuration["spark.hadoop.fs.s3a.path.style.access"] = str(not by_host).lower()
        region = region or "us-east-1"
    if region:
        configuration["spark.hadoop.fs.s3a.endpoint.region"] = region
    for variable, provider in _PROVIDERS.items():
        value = environment.get(variable)
        if value and (_is_true(value) or variable.endswith("_FILE")):
            configuration["spark.hadoop.fs.s3a.aws.credentials.provider"] = provider
    return configuration


def executor_environment(environment: Mapping[str, str], spark_conf: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of an environment that executors are given; none where a user's settings give some.

    Without keys each machine has a role of its own, or a token in a file.
    """
    if any(f"spark.executorEnv.{name}" in spark_conf for name in _KEYS):
        return {}
    return {name: environment[name] for name in _KEYS if environment.get(name)}


def compile_log_store(gateway: JavaGateway, folder: Path) -> None:
    """Compile the log of tables in a store into a folder of the JVM's class path, by Spark's compiler."""
    jvm = gateway.jvm
    compiler = jvm.org.codehaus.janino.Compiler()
    compiler.setDestinationDirectory(jvm.java.io.File(str(folder)), False)
    class_path = jvm.java.lang.System.getProperty("java.class.path").split(os.pathsep)
    compiler.setClassPath(_files(gateway, class_path))
    compiler.compile(_files(gateway, [str(_LOG_STORE)]))


def _files(gateway: JavaGateway, paths: list[str]) -> object:
    files = gateway.new_array(gateway.jvm.java.io.File, len(paths))
    for at, path in enumerate(paths):
        files[at] = gateway.jvm.java.io.File(path)
    return files


def _first(environment: Mapping[str, str], names: Iterable[str]) -> str:
    return next(filter(None, map(environment.get, names)), "")


def _is_true(value: str | None) -> bool:
    return (value or "").lower() in ("1", "true", "on", "yes", "y")
