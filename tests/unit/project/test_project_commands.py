"""``lakestream new``, ``plan`` and ``apply`` from a shell: what a new project is, and the exit statuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from lakestream.cli import cli
from lakestream.cli.base.names import complete_environment
from lakestream.cli.base.session import Session
from tests.unit.cli.test_schema import check

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKESTREAM_DURABILITY", "process")


def called(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def test_a_new_project_works_by_the_commands_that_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check("new", called("new", "plant", "--output", "json").stdout)
    monkeypatch.chdir(tmp_path / "plant")
    assert called("plan").exit_code == 2
    assert not (tmp_path / "plant" / "lake").exists()
    assert "CONFIRMATION_NEEDED" in called("apply", "--output", "json").stderr
    assert called("apply", "--yes").exit_code == 0
    assert called("plan").exit_code == 0
    assert "the lake is as the files say" in called("apply").stdout
    assert called("status").exit_code == 0
    shown = called("plan", "--output", "json", "--env", "dev").stdout
    check("plan", shown)
    found = json.loads(shown)
    assert (found["lake"], found["environment"], found["changes"]) == ("lake", "dev", True)
    assert [(one["name"], one["action"], one["line"]) for one in found["items"]] == [
        ("main__dev", "new", None),
        ("main.readings", "same", 2),
        ("main__dev.rooms_hourly_stream", "new", 2),
    ]
    (tmp_path / "plant" / "streams" / "wrong.sql").write_text("CREATE STREAM;\nCREATE TABLE")
    wrong = called("plan", "--output", "json")
    assert wrong.exit_code == 1
    assert [one["place"]["line"] for one in json.loads(wrong.stderr)["errors"]] == [1, 2]
    (tmp_path / "plant" / "streams" / "wrong.sql").write_text(
        "CREATE STREAM s INTERVAL(1h) SLIDING(1h) FROM nothing INTO o AS SELECT _twstart, 1 FROM %%trows"
    )
    assert called("plan").exit_code == 1
    applied = called("apply", "--yes", "--output", "json")
    assert applied.exit_code == 1
    check("apply", applied.stdout)


def test_environments_are_completed(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    called("--lake", lake, "init")
    called("--lake", lake, "sql", "CREATE DATABASE main__dev; CREATE DATABASE main__test")
    context = click.Context(cli, obj=Session(lake=lake))
    assert complete_environment(context, cli.params[0], "d") == ["dev"]


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plant").mkdir()
    assert called("new", "plant").exit_code == 0
    again = called("new", "plant")
    assert again.exit_code != 0
    assert again.exception is not None
    assert "PROJECT_EXISTS" in str(again.output) + str(again.exception)


def test_the_file_of_a_project_has_settings_and_profiles_for_all_commands(tmp_path: Path) -> None:
    (tmp_path / "lakestream.toml").write_text(
        "profile = 'dev'\nlake = 'there'\npoll_seconds = 3.0\n[profiles.dev]\nlake = 'here'\n"
        "[profiles.other]\ntimezone = 'Europe/Helsinki'\n"
    )
    for words, lake, source in (
        ((), "here", "profile lakestream.toml [profiles.dev]"),
        (("--profile", "other"), "there", "project lakestream.toml"),
        (("--profile", "local"), "there", "project lakestream.toml"),
        (("--set", "lake=x"), "x", "argument"),
    ):
        found = json.loads(called(*words, "--output", "json", "config", "show").stdout)["settings"]
        assert (found["lake"]["value"], found["lake"]["from"]) == (lake, source)
        assert found["poll_seconds"]["value"] == 3.0


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("lak = 'x'", "SETTING_UNKNOWN"),
        ("[profiles.dev]\nlak = 'x'", "SETTING_UNKNOWN"),
        ("[prod]\nlake = 'x'", "profiles.prod"),
        ("[parameters]\na = [1]", "PROFILE_INVALID"),
        ("profiles = 3", "PROFILE_INVALID"),
        ("profile = 'nothing'", "PROFILE_NOT_FOUND"),
        ("=", "PROFILE_INVALID"),
    ],
)
def test_what_is_wrong_in_the_file_of_a_project_is_told(tmp_path: Path, text: str, code: str) -> None:
    (tmp_path / "lakestream.toml").write_text(text)
    outcome = called("config", "show")
    assert code in outcome.output + str(outcome.exception)
