"""The interactive shell, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream.cli.base.session import Session
from lakestream.cli.sql.shell import history_file, is_complete, run_shell
from lakestream.errors import StatementError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import FakeLake


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", False),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1;  \n", True),
        ("SELECT ';'", False),
        ('SELECT ";', False),
        ("SELECT `;`", False),
        ("SELECT '\\';", False),
        ("SELECT '\\'';", True),
        ("SELECT 'it''s';", True),
        ("SELECT 1 -- ;", False),
        ("SELECT 1; -- done", True),
        ("SELECT 1; /* done */", True),
        ("SELECT 1; /* ; */ x", False),
        ("SELECT 1 /* ;", False),
        ("SELECT 1; SELECT 2", False),
        ("SELECT 4 / 2;", True),
    ],
)
def test_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


@pytest.fixture(autouse=True)
def own_history(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str | type[BaseException]) -> list[str]:
    """Let the lines be typed, then Ctrl-D; return the prompts seen."""
    prompts: list[str] = []

    waiting = list(lines)

    def read(prompt: str) -> str:
        prompts.append(prompt)
        if not waiting:
            raise EOFError
        line = waiting.pop(0)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr("builtins.input", read)
    return prompts


def statements(lake: FakeLake) -> list[str]:
    return [asked[1] for asked in lake.asked]


def test_a_statement_may_take_several_lines(lake: FakeLake, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = typed(monkeypatch, "", "SELECT", "  1;", "SELECT 2; -- two")
    run_shell(Session(), lake, "tdengine")  # type: ignore[arg-type]
    assert statements(lake) == ["SELECT\n  1;", "SELECT 2; -- two"]
    assert prompts == ["lakestream> ", "lakestream> ", "        ... ", "lakestream> ", "lakestream> "]


@pytest.mark.parametrize("word", ["exit", "quit", "EXIT;", "\\q"])
def test_leaving(lake: FakeLake, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    typed(monkeypatch, word, "SELECT 1;")
    run_shell(Session(), lake, "tdengine")  # type: ignore[arg-type]
    assert statements(lake) == []


def test_ctrl_c_forgets_the_statement(lake: FakeLake, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "SELECT 1", KeyboardInterrupt, "SELECT 2;")
    run_shell(Session(), lake, "tdengine")  # type: ignore[arg-type]
    assert statements(lake) == ["SELECT 2;"]


@pytest.mark.parametrize(
    "error", [StatementError("SYNTAX", "bad"), ZeroDivisionError("x"), KeyboardInterrupt()]
)
def test_an_error_does_not_end_the_shell(
    lake: FakeLake, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    typed(monkeypatch, "SELECT 1;", "SELECT 2;")
    lake.error = error
    run_shell(Session(), lake, "tdengine")  # type: ignore[arg-type]
    assert statements(lake) == ["SELECT 1;", "SELECT 2;"]


def test_the_history_is_kept_for_its_owner_only(lake: FakeLake, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "exit")
    run_shell(Session(), lake, "tdengine")  # type: ignore[arg-type]
    assert history_file().stat().st_mode & 0o777 == 0o600


def test_a_history_that_cannot_be_kept_is_said(
    lake: FakeLake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    typed(monkeypatch, "exit")
    run_shell(Session(), lake, "tdengine")  # type: ignore[arg-type]
    assert "the history was not saved" in capsys.readouterr().err
