"""Settings that are wrong are refused before anything is served, or computed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from lakestream.errors import ConfigError
from lakestream.server import daemon
from lakestream.settings import Settings
from lakestream.statements import rounds

if TYPE_CHECKING:
    from pathlib import Path

WRONG = {
    "a scheme": {"alert_urls": "ftp://alarms.example/x"},
    "a private host": {"alert_urls": "https://alarms.example/x,http://10.0.0.1/x"},
    "no url": {"alert_urls": "alarms"},
    "another scheme": {"openlineage_url": "ftp://lineage.example"},
    "lost files": {"spark_conf": json.dumps({"spark.sql.files.ignoreMissingFiles": "true"})},
    "no folder of jars": {"jars": "/nowhere/at/all"},
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_setting_is_refused_before_anything_is_announced(tmp_path: Path, what: str) -> None:
    said: list[str] = []
    with Lake(tmp_path, settings=Settings(**WRONG[what])) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")  # statements need none of it
        layout = lake._statements._at.layout
        with pytest.raises(ConfigError) as served:
            daemon.serve(layout, Settings(server_port=0, **WRONG[what]), said.append)
        with pytest.raises(ConfigError) as run:
            lake.run()
    assert not said
    [name] = WRONG[what]
    assert name in served.value.message or served.value.code == "UNSAFE_SPARK_CONF"
    assert run.value.message == served.value.message


def test_settings_that_are_right_are_taken(tmp_path: Path) -> None:
    settings = Settings(
        alert_urls=("https://alarms.example/x",),
        openlineage_url=str(tmp_path / "events.json"),
        spark_conf={"spark.ui.enabled": "true"},
        trigger_lib_dir=tmp_path / "made-before-it-is-used",
    )
    rounds.check_settings(settings)
