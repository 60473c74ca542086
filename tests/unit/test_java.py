from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream.errors import PrerequisiteError
from lakestream.java import check_java

if TYPE_CHECKING:
    from pathlib import Path


def java_that_says(folder: Path, text: str) -> None:
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\n", encoding="utf-8")
    java.chmod(0o755)


@pytest.mark.parametrize(
    ("says", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx=1\nopenjdk version "17.0.2" 2022-01-18', 17),
    ],
)
def test_new_enough(says: str, major: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_that_says(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert check_java().major == major


@pytest.mark.parametrize("says", ['java version "1.8.0_392"', 'openjdk version "11.0.2" 2019-01-15'])
def test_too_old(says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_that_says(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PrerequisiteError) as caught:
        check_java()
    assert caught.value.code == "JAVA_TOO_OLD"
    assert "openjdk-17-jre-headless" in caught.value.hint


def test_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PrerequisiteError, match=r"JAVA_HOME is .* there is no bin/java") as caught:
        check_java()
    assert caught.value.code == "JAVA_MISSING"


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PrerequisiteError) as caught:
        check_java()
    assert (caught.value.code, caught.value.exit_status) == ("JAVA_MISSING", 69)


def test_something_else_called_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_that_says(tmp_path, "hello")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PrerequisiteError) as caught:
        check_java()
    assert caught.value.code == "JAVA_MISSING"
