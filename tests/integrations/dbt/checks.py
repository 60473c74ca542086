"""A dbt project on a daemon, by dbt itself: from `dbt run` to rows (`make integrations`)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lakestream
from lakestream import Lake
from lakestream.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOCK = SystemClock()
DBT = str(Path(os.environ["TOOLS"], "dbt"))
PACKAGE = Path(lakestream.__file__).parent / "integrations" / "dbt"
TABLES = """
CREATE TABLE power (ts TIMESTAMP, machine VARCHAR(10) COMPOSITE KEY COMMENT 'its plate', watts DOUBLE);
INSERT INTO power VALUES ('2025-01-01 08:10:00', 'drill', 700) ('2025-01-01 08:50:00', 'drill', 740)
                         ('2025-01-01 10:00:00', 'drill', 650)
"""
HOURLY = """
{{ config(materialized='stream') }}
interval(1h) sliding(1h) from {{ source('plant', 'power') }} partition by machine
stream_options(fill_history | ignore_nodata_trigger)
into {{ this }}
as select _twstart as hour, %s(watts) as mean from %%%%trows
"""
FILES = {
    "dbt_project.yml": "{name: plant, version: '1.0', profile: plant, model-paths: [models]}",
    "packages.yml": f"packages: [{{local: {PACKAGE}}}]",
    "models/models.yml": """
sources: [{name: plant, schema: main, tables: [{name: power}]}]
models:
  - name: hourly
    description: The hours' means
    config: {persist_docs: {relation: true, columns: true}}
    columns: [{name: mean, description: it's in W, data_tests: [not_null]}]
""",
    "models/hourly.sql": HOURLY % "avg",
    "models/hours.sql": """
{{ config(materialized='lakestream_view') }}
select window.start as at, max(mean) as most from {{ ref('hourly') }} group by window(hour, '1 hour')
""",
}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@pytest.fixture
def root(tmp_path: Path) -> str:
    with Lake(tmp_path / "lake") as lake:
        lake.sql(TABLES)
    return str(tmp_path / "lake")


@pytest.fixture
def folder(tmp_path: Path, root: str) -> Iterator[Path]:
    """A dbt project, and a daemon for it."""
    port = free_port()
    names = "type: postgres, host: 127.0.0.1, user: me, password: x, dbname: main, schema: main"
    target = f"{{{names}, port: {port}}}"
    profiles = {"profiles.yml": f"plant: {{target: dev, outputs: {{dev: {target}}}}}"}
    for name, text in {**FILES, **profiles}.items():
        path = tmp_path / "plant" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    own = {"LAKESTREAM_POSTGRES_PORT": str(port), "LAKESTREAM_SERVER_PORT": str(free_port())}
    daemon = subprocess.Popen(
        [sys.executable, "-m", "lakestream", "--lake", root, "serve"], env={**os.environ, **own}
    )
    for _ in range(600):
        with socket.socket() as asking:
            if asking.connect_ex(("127.0.0.1", port)) == 0:
                break
        CLOCK.sleep(0.1)
    yield tmp_path / "plant"
    daemon.terminate()
    daemon.wait(60)


def dbt(folder: Path, *words: str) -> dict[str, str]:
    """Run a command of dbt's and return what became of each node."""
    command = [DBT, "--no-send-anonymous-usage-stats", *words, "--profiles-dir", str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stdout
    if words[0] == "deps":
        return {}
    results = json.loads((folder / "target" / "run_results.json").read_text("utf-8"))["results"]
    return {one["unique_id"].split(".")[2]: one["status"] for one in results}


def rows(root: str, query: str, expected: list[tuple[object, ...]]) -> None:
    """Wait until a query gives these rows: the daemon ticks by itself."""
    with Lake(root) as lake:
        for _ in range(600):
            found = lake.sql(query).fetchall()
            if found == expected:
                return
            CLOCK.sleep(0.1)
    assert found == expected


def test_models_are_streams_and_views_that_stay_current(folder: Path, root: str) -> None:
    dbt(folder, "deps")
    assert dbt(folder, "run") == {"hourly": "success", "hours": "success"}
    rows(root, "SELECT mean FROM hourly", [(720.0,)])
    rows(root, "SELECT most FROM hours", [(720.0,)])
    with Lake(root) as lake:
        shown = lake.sql("DESCRIBE hourly")
        assert shown.message == "main.hourly: The hours' means"
        assert [row[3] for row in shown.fetchall()] == ["", "it's in W", "its plate"]
        lake.sql("INSERT INTO power VALUES ('2025-01-01 11:00:00', 'drill', 1)")
    rows(root, "SELECT mean FROM hourly ORDER BY hour", [(720.0,), (650.0,)])
    assert set(dbt(folder, "test").values()) == {"pass"}
    # The same once more changes nothing; another text is another definition, over the history too.
    assert dbt(folder, "run") == {"hourly": "success", "hours": "success"}
    rows(root, "SELECT mean FROM hourly ORDER BY hour", [(720.0,), (650.0,)])
    (folder / "models" / "hourly.sql").write_text(HOURLY % "max", "utf-8")
    dbt(folder, "run", "--select", "hourly")
    rows(root, "SELECT mean FROM hourly ORDER BY hour", [(740.0,), (650.0,)])
    dbt(folder, "run", "--full-refresh", "--select", "hourly")
    rows(root, "SELECT mean FROM hourly ORDER BY hour", [(740.0,), (650.0,)])


def test_what_the_lake_refuses_fails_the_model(folder: Path) -> None:
    dbt(folder, "deps")
    (folder / "models" / "hourly.sql").write_text(HOURLY % "nothing", "utf-8")
    with pytest.raises(AssertionError, match="nothing"):
        dbt(folder, "run", "--select", "hourly")
    (folder / "models" / "plain.sql").write_text("{{ config(materialized='table') }} select 1 as x", "utf-8")
    with pytest.raises(AssertionError, match="SYNTAX"):
        dbt(folder, "run", "--select", "plain")
