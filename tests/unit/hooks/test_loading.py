"""Classes of triggers are loaded from where the settings allow, and from nowhere else."""

from __future__ import annotations

import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from lakestream.errors import StatementError
from lakestream.hooks.loading import load_class

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = "from lakestream.hooks import Trigger\nclass Quiet(Trigger): pass\nclass Other: pass\n"


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def code_of(name: str, uri: str | None, modules: tuple[str, ...], folder: Path | None) -> str:
    with pytest.raises(StatementError) as refused:
        load_class(name, uri, modules, folder)
    return refused.value.code


def test_a_module_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "ls_quiet_one.py").write_text(SOURCE)
    assert load_class("ls_quiet_one.Quiet", None, (), tmp_path).__name__ == "Quiet"
    assert code_of("ls_quiet_one.Other", None, (), tmp_path) == "TRIGGER_CLASS"
    assert code_of("ls_quiet_one.Nobody", None, (), tmp_path) == "TRIGGER_CLASS"


def test_an_archive_of_the_folder(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "quiet.zip", "w") as archive:
        archive.writestr("ls_quiet_two.py", SOURCE)
    assert load_class("ls_quiet_two.Quiet", "quiet.zip", (), tmp_path).__name__ == "Quiet"


@pytest.mark.parametrize("uri", ["nosuch.zip", "../outside.zip", "/etc/passwd", "http://host/x.zip", ""])
def test_an_archive_elsewhere_is_refused(tmp_path: Path, uri: str) -> None:
    folder = tmp_path / "hooks"
    folder.mkdir()
    (tmp_path / "outside.zip").write_bytes(b"")
    assert code_of("ls_quiet_three.Quiet", uri, (), folder) == "TRIGGER_URI"
    assert code_of("ls_quiet_three.Quiet", uri, (), None) == "TRIGGER_URI"


def test_a_module_is_not_even_imported_when_it_may_not_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ls_loud.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for folder in (None, hooks):
        for name in ("ls_loud.Quiet", "os.path.Quiet", "subprocess.Popen"):
            assert code_of(name, None, ("ls_loud_not",), folder) == "TRIGGER_NOT_ALLOWED"


def test_modules_are_named_with_what_is_below_them() -> None:
    assert load_class("tests.triggers.Recorder", None, ("tests",), None).__name__ == "Recorder"
    assert load_class("tests.triggers.Limit", None, ("tests.triggers",), None).__name__ == "Limit"
    assert code_of("tests.triggers.Recorder", None, ("tests.trig",), None) == "TRIGGER_NOT_ALLOWED"
    for name in ("Recorder", "tests..Recorder", "tests.triggers.", "a b.c", "__import__('os').system"):
        assert code_of(name, None, ("tests",), None) == "TRIGGER_CLASS"
