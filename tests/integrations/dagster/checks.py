"""Assets of a lake's streams, by Dagster itself: run in an environment of its own (`make integrations`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from dagster import AssetKey, AssetSelection, DagsterInstance, Definitions, define_asset_job, materialize

from lakestream import Lake
from lakestream.integrations.dagster import lakestream_assets

if TYPE_CHECKING:
    from pathlib import Path

TABLES = """
CREATE TABLE temps (ts TIMESTAMP, room VARCHAR(10) COMMENT 'of the house', v DOUBLE) COMMENT 'readings';
CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM temps PARTITION BY room
  STREAM_OPTIONS(IGNORE_NODATA_TRIGGER) INTO minutes
  AS SELECT _twstart AS minute, avg(v) AS mean FROM %%trows;
CREATE STREAM t INTERVAL(1h) SLIDING(1h) FROM minutes INTO hours
  AS SELECT _twstart AS hour, max(mean) AS most FROM %%trows
"""
MINUTES, HOURS = AssetKey(["main", "minutes"]), AssetKey(["main", "hours"])


@pytest.fixture
def root(tmp_path: Path) -> str:
    with Lake(tmp_path / "lake") as lake:
        lake.sql(TABLES)
        rows = " ".join(
            f"('2026-01-01 {hour:02d}:{m:02d}:00', 'a', {m})" for hour in (0, 1, 2) for m in (0, 1)
        )
        lake.sql(f"INSERT INTO temps VALUES {rows}")
    return str(tmp_path / "lake")


def test_each_output_is_an_asset_that_depends_on_what_its_stream_reads(root: str) -> None:
    assets = lakestream_assets(root, group_name="plant")
    assert assets.asset_deps == {MINUTES: {AssetKey(["main", "temps"])}, HOURS: {MINUTES}}
    spec = assets.get_asset_spec(MINUTES)
    assert (spec.group_name, spec.kinds) == ("plant", {"lakestream", "deltalake"})
    assert spec.description == "main.minutes: from main.temps: readings"
    lineage = spec.metadata["dagster/column_lineage"].deps_by_column
    assert [(one.asset_key.path[-1], one.column_name) for one in lineage["mean"]] == [("temps", "v")]
    columns = {
        one.name: (one.type, one.description) for one in spec.metadata["dagster/column_schema"].columns
    }
    assert columns["room"] == ("STRING", "of the house")


def test_materializing_takes_what_is_new(root: str) -> None:
    with DagsterInstance.ephemeral() as instance:
        done = materialize([lakestream_assets(root)], instance=instance)
        assert done.success
        found = {one.asset_key: one.metadata for one in done.asset_materializations_for_node("lakestream")}
    assert found[MINUTES]["rows_written"].value == 5
    assert found[HOURS]["rows_written"].value >= 1
    with Lake(root) as lake:
        assert lake.sql("SELECT count(*) FROM minutes").fetchall() == [(5,)]


def test_what_is_selected_runs_alone(root: str) -> None:
    job = define_asset_job("job", AssetSelection.assets(MINUTES))
    job = Definitions([lakestream_assets(root)], jobs=[job]).resolve_job_def("job")
    with DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(instance=instance)
    assert [one.asset_key for one in done.asset_materializations_for_node("lakestream")] == [MINUTES]
    with Lake(root) as lake:
        assert lake.sql("SELECT count(*) FROM hours").fetchall() == [(0,)]


def test_a_stream_that_failed_fails_its_asset_and_no_other(root: str) -> None:
    assets = lakestream_assets(root)
    with Lake(root) as lake:
        lake.run()
        lake.sql("DROP TABLE minutes; CREATE TABLE minutes (ts TIMESTAMP, x INT)")
        lake.sql("INSERT INTO temps VALUES ('2026-01-01 04:00:00', 'a', 1)")
    with DagsterInstance.ephemeral() as instance:
        done = materialize([assets], instance=instance, raise_on_error=False)
        assert not done.success
        [failed] = [event for event in done.all_events if event.is_step_failure]
    assert "main.s" in str(failed.step_failure_data.user_failure_data.description)
