"""What a view is found to be without Spark is what Spark says of it: its columns, and how it goes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from lakestream.engine.reading.small import SmallPath
from lakestream.settings import Settings
from tests.properties.followed import TABLES
from tests.properties.kept import drawn
from tests.properties.views import VIEWS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_NAMED = ("joined", "united_once", "top", "by_factor")


def _queries() -> dict[str, str]:
    return {name: VIEWS[name].query for name in _NAMED} | {"drawn": drawn(Random("analysed")).query}


def _found(lake: Lake) -> dict[str, object]:
    """Return what is found of each view, by its name."""
    found: dict[str, object] = {}
    for name, query in _queries().items():
        lake.sql(f"CREATE MATERIALIZED VIEW {name}_v AS {query}")
        columns = lake.sql(f"DESCRIBE {name}_v").fetchall()
        refresh = [
            row for row in lake.sql(f"EXPLAIN MATERIALIZED VIEW {name}_v").fetchall() if row[0] == "refresh"
        ]
        found[name] = (columns, refresh)
    return found


def test_views_are_found_to_be_what_spark_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lake(tmp_path / "spark", settings=Settings(small_path="spark"), spark=spark) as lake:
        lake.sql(TABLES)
        wanted = _found(lake)
    monkeypatch.setattr(SmallPath, "_of_spark", lambda *_: pytest.fail("Spark is asked"))
    with Lake(tmp_path / "small") as lake:
        lake.sql(TABLES)
        assert _found(lake) == wanted
