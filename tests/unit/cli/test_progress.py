"""What a long run shows on a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from lakestream.cli import progress
from tests.unit.cli.conftest import FakeReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result as Outcome

    from tests.unit.cli.conftest import FakeLake


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Show the bars in a terminal of 80 columns and one line."""
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=80, height=1)
    monkeypatch.setattr(progress, "console", lambda **_: terminal)
    monkeypatch.setattr("lakestream.cli.run_command.is_terminal", lambda _stream: True)
    return shown


def test_rows_per_second_and_lag(call: Callable[..., Outcome], lake: FakeLake, screen: io.StringIO) -> None:
    lake.rounds.append([FakeReport(lag=1), FakeReport(tick=2)])
    assert call("run").exit_code == 0
    assert "main.daily" in screen.getvalue()
    assert "2,000 rows/s" in screen.getvalue()
    assert "lag 0 commits" in screen.getvalue()


def test_json_and_files_get_no_bars(
    call: Callable[..., Outcome], lake: FakeLake, screen: io.StringIO
) -> None:
    lake.rounds.append([FakeReport()])
    call("run", "--output", "json")
    assert screen.getvalue() == ""


def test_a_run_that_fails_leaves_the_terminal_clean(
    call: Callable[..., Outcome], lake: FakeLake, screen: io.StringIO
) -> None:
    lake.error = KeyboardInterrupt()
    assert call("run").exit_code == 130
    assert screen.getvalue().endswith("\x1b[?25h\r\x1b[1A\x1b[2K")


def test_describe() -> None:
    assert progress.describe(1, 0.0, 1) == "1 row  - rows/s  lag 1 commit"
