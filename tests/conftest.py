"""What all tests share: one Spark session per process, and settings free of the machine's environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from lakestream.settings import PREFIX, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

for _name in [name for name in os.environ if name.startswith(PREFIX)]:
    del os.environ[_name]


@pytest.fixture(scope="session")
def settings() -> Settings:
    """Two cores, and memory for the metadata that Spark keeps of a thousand tables."""
    return Settings(master="local[2]", driver_memory="2g")


@pytest.fixture(scope="session")
def spark(settings: Settings) -> Iterator[SparkSession]:
    from lakestream.storage.session import spark_session

    session = spark_session(settings)
    yield session
    session.stop()
