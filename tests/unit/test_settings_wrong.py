"""Each setting with each kind of wrong value, by each way it can be given: refused, with all that helps."""

from __future__ import annotations

import json
import math
import random
import re
from dataclasses import fields
from datetime import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import pytest
from pydantic import SecretStr

from lakestream.cli.lakes.doctor import check_machine
from lakestream.errors import ConfigError
from lakestream.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakestream.errors import LakestreamError

KINDS: dict[str, Any] = get_type_hints(Settings, localns={"SecretStr": SecretStr, "Mapping": dict})
SIZES = {one.name for one in fields(Settings) if "of_bytes" in one.metadata["limits"]}
NO_NUMBERS = [
    "x",
    "12 x",
    True,
    False,
    -1,
    math.nan,
    math.inf,
    -math.inf,
    10**40,
    [1],
    {"a": 1},
    time(),
]
NO_TEXTS = [5, 1.5, True, ["a"], {"a": "b"}, time(), "a\0b", "a\nb"]
BY_KIND: dict[object, list[object]] = {
    int: [*NO_NUMBERS, 1.5, "1.5"],
    float: [*NO_NUMBERS, "nan", "inf", "1e300"],
    bool: ["maybe", 2, 1.5, [True], {"a": True}, time()],
    str: [*NO_TEXTS, ""],
    str | None: NO_TEXTS,
    Path | None: [5, True, ["a"], {"a": "b"}, "a\0b"],
    SecretStr | None: [5, True, ["a"], {"a": "b"}],
    tuple[str, ...]: [5, 1.5, True, [5], ["a\0b"], "a\0b", {"a": "b"}, time()],
    dict[str, str]: [5, "x", "[1]", "{", ["a"], {"spark.a": 1}, True, time()],
    dict[str, int]: [5, "x", "[1]", "{", ["a"], {"main.a": "x"}, {"main.a": True}, True, time()],
    dict[str, SecretStr]: [5, "x", "[1]", "{", ["a"], {"a": 1}, True, time()],
}
OF_ITS_OWN: dict[str, list[object]] = {
    "profile": ["nowhere", "./nowhere.toml"],
    "timezone": ["Europe/Helsinky", "UTC+25:00", "../../etc/passwd"],
    "master": [
        "local[0]",
        "local[]",
        "locl",
        "spark:/h:1",
        "spark://h",
        "http://h:1",
        "sc://h:15002",
        "k8s://",
    ],
    "driver_memory": ["2", "2gb", "0g", "256m", "999t", "2g -Dx=y", "-2g", "1.5g"],
    "jars": ["/nowhere/at/all"],
    "spark_conf": [
        {"sprak.executor.memory": "2g"},
        {"": "x"},
        {"spark.sql.files.ignoreCorruptFiles": "TRUE"},
    ],
    "notify_hosts": ["a b", ["https://a"], ["10.0.0.0/99"]],
    "secrets": [{"a-b": "x"}],
    "openlineage_url": ["ftp://a"],
    "alert_urls": ["alarms", "ftp://alarms.example/x", ["https://alarms.example/x", "http://10.0.0.1/x"]],
    "maintenance_at": ["24:00", "3:30", "noon"],
    "tick_priorities": [{"hourly": 1}, {".a": 1}, {"main.": 1}, {"main.a": 10**9}],
    "trigger_modules": ["no_such_module_anywhere", "a/b.py", "a-b", ["json", "1a"]],
    "trigger_lib_dir": [__file__],
    "server_host": ["http://h", "h:80", "a b"],
    "server_names": ["https://lake.example", "lake.example:443", "a b", [""]],
    "server_port": [65_536],
    "connect_port": [65_536],
    "postgres_port": [65_536],
    "server_token": ["short"],
    "compact_files": [1],
}
POSITIVE = ("max_", "parallel_never", "poll_seconds", "checkpoint_", "history_ticks", "executor_wait_seconds")


def wrong_values(name: str) -> Iterator[object]:
    kind = KINDS[name]
    by_kind = NO_NUMBERS if name in SIZES else BY_KIND.get(kind)
    yield from by_kind or ["pigeon", 5, True, ["auto"], {"a": "b"}, time(), ""]
    yield from OF_ITS_OWN.get(name, [])
    if name in SIZES:
        yield from ("1QB", "-1", "MiB")
    if name.startswith(POSITIVE):
        yield 0


def refused(**values: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        Settings(**values)
    return caught.value


def check(error: ConfigError, name: str, value: object) -> None:
    told = (name, value, str(error))
    assert error.code in ("SETTING_INVALID", "PROFILE_NOT_FOUND", "UNSAFE_SPARK_CONF"), told
    assert error.exit_status == 78
    assert error.hint, told
    if error.code == "SETTING_INVALID":
        assert error.message.startswith(name), told
        assert name in error.hint or name == "trigger_modules", told
        assert "String should" not in error.message, told
        assert len(error.message) < 400, told
    if name in ("server_token", "openlineage_token", "secrets", "alert_urls"):
        assert "not shown" in error.message or "may not be sent to" in error.message, told
        assert "/x" not in error.message, told


@pytest.mark.parametrize("name", Settings.described())
def test_as_an_argument(name: str) -> None:
    for value in wrong_values(name):
        if (name, value) != ("profile", ""):
            check(refused(**{name: value}), name, value)


@pytest.mark.parametrize("name", Settings.described())
def test_in_the_environment(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for value in wrong_values(name):
        if isinstance(value, dict) and str(KINDS[name]).startswith("dict"):
            text = json.dumps(value)
        elif isinstance(value, str) and value and "\0" not in value:
            text = value
        else:
            continue
        monkeypatch.setenv(f"LAKESTREAM_{name.upper()}", text)
        error = refused()
        check(error, name, text)
        if error.code == "SETTING_INVALID":
            assert f"(environment LAKESTREAM_{name.upper()})" in error.message
        monkeypatch.delenv(f"LAKESTREAM_{name.upper()}")


@pytest.mark.parametrize("name", [name for name in Settings.described() if name != "profile"])
def test_in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    # Every second setting stands in a profile.
    table = "[profiles.dev]\n" if len(name) % 2 else ""
    monkeypatch.chdir(tmp_path)
    head = f'# {name} = 1\n\n{table}parameters = {{a = """\n{name} = 2\n"""}} # {name}\n'
    for value in wrong_values(name):
        Path("lakestream.toml").write_text(f"{head}  {name} = {toml(value)}\n", encoding="utf-8")
        error = refused(profile="dev" if table else None)
        check(error, name, value)
        assert error.place is not None
        line = head.count("\n") + 1
        assert (error.place.file, error.place.line, error.place.column) == ("lakestream.toml", line, 3)
        assert name in error.place.caret()
        assert f"lakestream.toml: line {line}, column 3" in error.render()


def test_secrets_in_a_project_are_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in (
        'server_token = "hunter2"',
        'server_tokn = "hunter2"',
        "openlineage_token = ['hunter2']",
        'spark_conf = {"spark.hadoop.fs.s3a.secret.key" = ["hunter2"]}',
        'secrets = {"a-b" = "hunter2"}',
        'alert_urls = {"a" = "hunter2"}',
        'profile = "x"\n[profiles.x]\nserver_token = "hunter2"',
    ):
        Path("lakestream.toml").write_text(line, encoding="utf-8")
        error = refused()
        assert "hunter2" not in error.render() + json.dumps(error.to_dict())
        assert error.place is not None


def misspelt(name: str) -> Iterator[str]:
    half = len(name) // 2
    yield name[:half] + name[half + 1 :]
    yield name[:half] + name[half + 1] + name[half] + name[half + 2 :]
    yield f"{name}s"


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, str | list | bool):
        return json.dumps(value)
    return value.isoformat() if isinstance(value, time) else repr(value)


@pytest.mark.parametrize("name", Settings.described())
def test_a_misspelt_name_has_the_nearest_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for wrong in set(misspelt(name)) - Settings.described().keys() - {"profiles"}:
        assert name in refused(**{wrong: 1}).hint
        Path("lakestream.toml").write_text(f"exact = true\n\n{wrong} = 1\n", encoding="utf-8")
        error = refused()
        assert (error.code, error.place is not None and error.place.line) == ("SETTING_UNKNOWN", 3)
        assert name in error.hint
        Path("lakestream.toml").unlink()
        monkeypatch.setenv(f"LAKESTREAM_{wrong.upper()}", "1")
        assert f"LAKESTREAM_{name.upper()}" in refused().hint
        monkeypatch.delenv(f"LAKESTREAM_{wrong.upper()}")


def test_a_profile_that_names_one_is_refused(tmp_path: Path) -> None:
    profile = tmp_path / "own.toml"
    profile.write_text('exact = true\nprofile = "server"\n', encoding="utf-8")
    error = refused(profile=str(profile))
    assert (error.code, error.place and error.place.line) == ("PROFILE_INVALID", 2)


def test_what_is_built_in_is_right() -> None:
    built_in = Settings()
    given = {name: getattr(built_in, name) for name in Settings.described()}
    assert Settings(**given).shown() == built_in.shown()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("master", one) for one in ("local", "local[2]", "local[*, 4]", "local-cluster[2,1,1024]", "yarn")),
        *(("master", one) for one in ("spark://a:7077,b:7077", "spark://[::1]:7077", "k8s://https://a:443")),
        ("driver_memory", "512M"),
        ("tick_priorities", '{"main.hourly": "5"}'),
        ("server_names", "Lake.Example, 10.0.0.7, fe80::1"),
        ("server_host", "::1"),
        ("server_host", "0.0.0.0"),
        ("trigger_modules", "json, email.message"),
        ("duckdb_memory", 0),
        ("small_rows", "5"),
        ("stuck_seconds", 0),
        ("spark_conf", {"spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000"}),
        ("maintenance_at", "never"),
    ],
)
def test_what_is_right_is_taken(name: str, value: object) -> None:
    Settings(**{name: value})


@pytest.mark.parametrize(
    "name", sorted(set(Settings.described()) - {"profile", "alert_urls", "notify_hosts"})
)
def test_alerts_are_told_with_whatever_else_is_wrong(name: str) -> None:
    for value in wrong_values(name):
        error = refused(alert_urls="alarms", **{name: value})
        assert error.code == "SETTINGS_INVALID", (name, value)
        assert "alert_urls" in error.render()


def test_of_alerts_nothing_is_said_where_their_hosts_are_wrong() -> None:
    assert refused(notify_hosts="a b", alert_urls="http://a/x").message.startswith("notify_hosts")


WAYS = ("argument", "environment", "project", "profile", "file")
NAMES = [name for name in Settings.described() if name not in ("profile", "lake", "trigger_lib_dir")]


def wrong_text(name: str) -> str:
    """Return a text that a setting cannot have, whichever way it is given."""
    kind = KINDS[name]
    if kind in (str, str | None, Path | None, SecretStr | None, tuple[str, ...]):
        return "a\tb"
    return "no such thing"


@pytest.mark.parametrize("seed", range(24))
def test_all_that_is_wrong_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)
    monkeypatch.chdir(tmp_path)
    names = draw.sample(NAMES, draw.randint(2, 6))
    chosen = draw.choice(["dev", "./own.toml", None])
    ways = {name: draw.choice(WAYS) for name in names}
    misspelt_ones = {name for name in names if draw.random() < 0.4}
    said: dict[str, dict[str, str]] = {way: {} for way in WAYS}
    for name, way in ways.items():
        said[way][f"{name}z" if name in misspelt_ones else name] = wrong_text(name)
    for name, text in said["environment"].items():
        monkeypatch.setenv(f"LAKESTREAM_{name.upper()}", text)
    lines = [f"{name} = {toml(text)}" for name, text in said["project"].items()]
    lines += ["[profiles.dev]", *(f"{name} = {toml(text)}" for name, text in said["profile"].items())]
    Path("lakestream.toml").write_text("\n".join(lines), encoding="utf-8")
    own = (f"{name} = {toml(text)}" for name, text in said["file"].items())
    Path("own.toml").write_text("\n".join(own), encoding="utf-8")
    read = {"argument", "environment", "project", {"dev": "profile", "./own.toml": "file"}.get(chosen or "")}
    # Names are looked at in each profile of a project, values in the chosen one.
    expected = sorted(
        ("SETTING_UNKNOWN", f"{name}z") if name in misspelt_ones else ("SETTING_INVALID", name)
        for name, way in ways.items()
        if way in read or (way == "profile" and name in misspelt_ones)
    )
    if not expected:
        assert Settings(profile=chosen).profile == chosen
        return
    error = refused(profile=chosen, **said["argument"])
    assert sorted((one.code, named(one)) for one in error.errors) == expected
    assert error.code == (expected[0][0] if len(expected) == 1 else "SETTINGS_INVALID")
    assert error.exit_status == 78
    assert all(one.message in error.render() and one.message in str(error) for one in error.errors)
    assert all((one.place is not None) == ("toml" in one.message) for one in error.errors)


def named(error: LakestreamError) -> str:
    found = re.match(r"the environment variable LAKESTREAM_(\w+)|(\w+)", error.message)
    assert found is not None
    return (found[1] or found[2]).lower()


def test_the_doctor_has_a_line_for_each_wrong_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKESTREAM_TIMEZONE", "Mars")
    monkeypatch.setenv("LAKESTREAM_SMALL_ROWS", "few")
    found = [check for check in check_machine(Settings) if check.name == "settings"]
    assert [(check.verdict, check.found.split()[1]) for check in found] == [
        ("wrong", "timezone"),
        ("wrong", "small_rows"),
    ]
