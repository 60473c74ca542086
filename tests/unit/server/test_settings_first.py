"""Settings that are wrong are refused before a lake is opened, anything is served, or computed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from lakestream import Lake
from lakestream.cli.app import cli
from lakestream.errors import ConfigError, Place
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
    "no master": {"master": "spark:/here:7077"},
    "no module": {"trigger_modules": "no_such_module_anywhere.rules"},
}
RIGHT = Settings()
COMMANDS = (["run"], ["serve"], ["sql", "CREATE TABLE t (ts TIMESTAMP, v INT)"], ["status"])


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_setting_is_refused_before_anything_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    [(name, value)] = WRONG[what].items()
    monkeypatch.setenv(f"LAKESTREAM_{name.upper()}", value)
    with pytest.raises(ConfigError) as opened:
        Lake(tmp_path / "lake")
    assert not (tmp_path / "lake").exists()
    Lake(tmp_path / "lake", settings=RIGHT).close()
    assert name in opened.value.message or opened.value.code == "UNSAFE_SPARK_CONF"
    for command in COMMANDS:
        told = CliRunner().invoke(cli, ["--lake", str(tmp_path / "lake"), *command])
        assert (told.exit_code, told.output) == (78, f"{opened.value.render()}\n"), command
    told = CliRunner().invoke(cli, ["--lake", str(tmp_path / "lake"), "doctor"])
    assert told.exit_code == 1
    assert opened.value.code in told.output


def test_alerts_of_a_project_are_refused_at_their_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lakestream.toml").write_text('lake = "here"\nalert_urls = ["alarms"]\n', encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        Lake("here")
    assert refused.value.place == Place(2, 1, len("alert_urls"), "\nalert_urls", "lakestream.toml")


def test_settings_that_are_right_are_taken(tmp_path: Path) -> None:
    settings = Settings(
        alert_urls=("https://alarms.example/x",),
        openlineage_url=str(tmp_path / "events.json"),
        spark_conf={"spark.ui.enabled": "true"},
        trigger_lib_dir=tmp_path / "made-before-it-is-used",
    )
    rounds.check_settings(settings)
