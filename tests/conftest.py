"""What all tests share: one Spark session per process, and settings free of the machine's environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from lakestream.settings import PREFIX, Settings
from tests.connect_server import connect_server
from tests.small import FEW_TABLES, INTERPRETED, LONG_LIVED, QUICK_START
from tests.tiers import is_left

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

for _name in [name for name in os.environ if name.startswith(PREFIX)]:
    del os.environ[_name]
os.environ["JDK_JAVA_OPTIONS"] = QUICK_START


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks for the session as ``spark``, and what is left as ``long``, before ``-m`` chooses."""
    for item in items:
        if is_left(item.nodeid):
            item.add_marker(pytest.mark.long)
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session", autouse=True)
def queries_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep rewritten queries beside the tests, not among the user's."""
    folder = tmp_path_factory.mktemp("queries")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("lakestream.storage.small.rewritten.user_folder", lambda: folder)
        yield


@pytest.fixture(scope="session")
def settings() -> Settings:
    """Two cores, and memory for the metadata that Spark keeps of a thousand tables."""
    options = {key: f"{value} {LONG_LIVED}" for key, value in FEW_TABLES.items()}
    return Settings(master="local[2]", driver_memory="2g", spark_conf={**INTERPRETED, **options})


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--connect", action="store_true", help="share a session of Spark Connect, in test_cases")


@pytest.fixture(scope="session")
def spark(settings: Settings, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    from lakestream.storage.sessions.session import spark_session

    if request.config.getoption("--connect"):
        from pyspark.sql import SparkSession

        with connect_server() as address:
            session = SparkSession.builder.remote(address).getOrCreate()
            yield session
            session.stop()
        return
    session = spark_session(settings)
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def _forgotten_tables() -> Iterator[None]:
    """Let Spark forget the tables of a module: Delta keeps the log of each, with its plans, for an hour."""
    yield
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None and context._jvm is not None:
        context._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
