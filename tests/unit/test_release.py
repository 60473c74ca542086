"""A version is made in all its places, with its changes, or not at all."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tools import release

if TYPE_CHECKING:
    from pathlib import Path


def git(root: Path, *words: str) -> str:
    named = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *words]
    return subprocess.run(named, cwd=root, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with what a release reads and writes."""
    for name in ("NAME", "EMAIL"):
        for who in ("AUTHOR", "COMMITTER"):
            monkeypatch.setenv(f"GIT_{who}_{name}", "a@example.com")
    for name in release.PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((release.ROOT / name).read_text("utf-8"), "utf-8")
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## Unreleased\n\n- What is new.\n", "utf-8")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "all")
    monkeypatch.setattr(release, "build", lambda _: None)
    return tmp_path


def test_the_version_is_the_same_in_every_place() -> None:
    assert release.version_of(release.ROOT)


def test_a_version_is_written_committed_and_tagged(root: Path) -> None:
    assert release.main("7.0.1", root) == 0
    assert release.version_of(root) == "7.0.1"
    text = (root / "CHANGELOG.md").read_text("utf-8")
    assert text.index("## Unreleased") < text.index("## 7.0.1, 2") < text.index("- What is new.")
    assert git(root, "status", "--porcelain") == ""
    assert git(root, "describe") == "v7.0.1"


@pytest.mark.parametrize(
    ("version", "said"),
    [("", "VERSION="), ("7.0", "VERSION="), ("0.0.1", "is not later than"), ("7.0.0", "Unreleased")],
)
def test_what_is_no_next_version_is_refused(
    root: Path, capsys: pytest.CaptureFixture[str], version: str, said: str
) -> None:
    (root / "CHANGELOG.md").write_text("# Changes\n\n## Unreleased\n\n## 0.1.0\n\n- Old.\n", "utf-8")
    git(root, "commit", "--quiet", "-am", "released")
    assert release.main(version, root) == 1
    assert said in capsys.readouterr().err
    assert git(root, "status", "--porcelain") == ""


def test_a_change_that_is_not_committed_is_in_no_version(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "pyproject.toml").write_text((root / "pyproject.toml").read_text("utf-8") + "\n", "utf-8")
    assert release.main("7.0.0", root) == 1
    assert "not committed" in capsys.readouterr().err
