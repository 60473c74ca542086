from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from lakestream.errors import ConfigError
from lakestream.settings import Settings, profile_path

CONF = Path(__file__).parents[2] / "conf"


def refused(**values: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        Settings(**values)
    assert caught.value.exit_status == 78
    return caught.value


def test_arguments_win_over_environment_over_profile_over_built_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = tmp_path / "own.toml"
    profile.write_text(
        'master = "local[1]"\nsmall_rows = 1\nmax_rows_per_tick = 7\nsmall_bytes = "1KiB"\n', encoding="utf-8"
    )
    monkeypatch.setenv("LAKESTREAM_PROFILE", str(profile))
    monkeypatch.setenv("LAKESTREAM_SMALL_ROWS", "2")
    monkeypatch.setenv("LAKESTREAM_MAX_ROWS_PER_TICK", "8")
    settings = Settings(max_rows_per_tick=9)
    assert (settings.max_rows_per_tick, settings.small_rows, settings.small_bytes) == (9, 2, 1024)
    assert settings.master == "local[1]"
    won = settings.sources()
    assert won["max_rows_per_tick"] == "argument"
    assert won["small_rows"] == "environment LAKESTREAM_SMALL_ROWS"
    assert won["master"] == f"profile {profile}"
    assert won["timezone"] == "built-in"
    assert set(won) == set(Settings.described())


def test_an_unknown_name_is_refused_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = refused(smal_rows=1)
    assert (error.code, error.hint) == ("SETTING_UNKNOWN", "did you mean small_bytes or small_rows?")
    profile = tmp_path / "own.toml"
    profile.write_text("mastr = 1\n", encoding="utf-8")
    error = refused(profile=str(profile))
    assert error.code == "SETTING_UNKNOWN"
    assert str(profile) in error.message
    assert "master" in error.hint
    monkeypatch.setenv("LAKESTREAM_MASTR", "x")
    assert "LAKESTREAM_MASTR" in refused().message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timezone", "Europe/Helsinky"),
        ("timezone", "../../etc/passwd"),
        ("timezone", ""),
        ("driver_memory", "2"),
        ("driver_memory", "2g -Dx=y"),
        ("transport", "pigeon"),
        ("small_rows", -1),
        ("max_rows_per_tick", 0),
        ("poll_seconds", 0),
        ("small_bytes", "many"),
        ("spark_conf", "not json"),
        ("master", ""),
    ],
)
def test_a_value_out_of_range_names_the_setting(name: str, value: object) -> None:
    error = refused(**{name: value})
    assert error.code == "SETTING_INVALID"
    assert error.message.startswith(f"{name} ")
    assert error.hint.startswith(f"{name}: ")


def test_values_may_come_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKESTREAM_SPARK_CONF", '{"spark.executor.memory": "4g"}')
    settings = Settings(small_rows="5", sink_commits_per_second="0.5")
    assert settings.spark_conf == {"spark.executor.memory": "4g"}
    assert (settings.small_rows, settings.sink_commits_per_second) == (5, 0.5)
    monkeypatch.setenv("LAKESTREAM_SPARK_CONF", "{")
    assert refused().code == "SETTING_INVALID"


def test_a_profile_that_is_not_there_is_named() -> None:
    error = refused(profile="serve")
    assert (error.code, error.hint) == ("PROFILE_NOT_FOUND", "did you mean server?")
    assert refused(profile="./none.toml").code == "PROFILE_NOT_FOUND"


def test_a_profile_that_is_no_toml_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("master = ", encoding="utf-8")
    assert refused(profile=str(broken)).code == "PROFILE_INVALID"


@pytest.mark.parametrize("name", ["local", "server", "cluster", "databricks"])
def test_the_profiles_of_the_project_hold(name: str) -> None:
    settings = Settings(profile=name)
    assert profile_path(name).name == f"{name}.toml"
    assert any(source.startswith("profile") for source in settings.sources().values())


def test_the_local_profile_changes_nothing() -> None:
    local = Settings(profile="local").shown()
    assert {**local, "profile": None} == Settings().shown()


def test_settings_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(Settings(), "small_rows", 3)  # noqa: B010 - mypy would refuse the assignment


def test_every_setting_is_described_in_the_documentation() -> None:
    text = (CONF.parent / "docs" / "configuration.md").read_text(encoding="utf-8")
    missing = [name for name in Settings.described() if f"`{name}`" not in text]
    assert missing == []
