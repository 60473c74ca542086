"""A project that is applied and changed: outputs stay what the batch evaluation says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from tests.unit.project.conftest import READINGS, Project, stream

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakestream.settings import Settings


@pytest.mark.long
def test_streams_over_an_output_that_is_made_anew_follow_it(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    with Lake(tmp_path / "lake", spark=spark, settings=settings) as lake:
        project = Project(tmp_path / "project", lake)
        project.write("tables/readings.sql", READINGS)
        project.write("streams/hourly.sql", stream())
        project.write("streams/daily.sql", stream("daily", "max(warmth) AS warmest", "hourly"))
        project.apply()
        project.apply("dev")
        hours = " ".join(f"('2025-01-01 0{hour}:10:00', {hour})" for hour in range(1, 5))
        lake.sql(f"INSERT INTO a USING readings TAGS ('x') VALUES {hours}")
        lake.run()
        assert lake.sql("SELECT warmest FROM daily ORDER BY daily_at").fetchall() == [(1.0,), (2.0,)]
        project.write("streams/hourly.sql", stream(calculation="10 * max(celsius) AS warmth, count(*) AS n"))
        project.apply()
        lake.run()
        assert lake.sql("SELECT warmest FROM daily ORDER BY daily_at").fetchall() == [(10.0,), (20.0,)]
        assert lake.sql("SELECT max(warmest) FROM main__dev.daily").fetchall() == [(2.0,)]
        assert all(lake.verify(f"{one.database}.{one.name}").holds for one in lake.streams())
        assert not project.plan().has_changes
