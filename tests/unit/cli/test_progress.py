"""What a long run shows on a terminal."""

from __future__ import annotations

import io
import os
import signal
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from lakestream.cli.base import progress
from lakestream.cli.base.output import described
from lakestream.cli.base.session import Session
from lakestream.errors import BusyError
from tests.unit.cli.conftest import report

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result as Outcome

    from lakestream.engine.rounds.runtime import TickReport
    from tests.unit.cli.conftest import FakeLake


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Show the bars in a terminal of 80 columns and one line."""
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=80, height=1)
    monkeypatch.setattr(progress, "console", lambda **_: terminal)
    monkeypatch.setattr("lakestream.cli.base.session.is_terminal", lambda _stream: True)
    return shown


def test_rows_per_second_and_lag(call: Callable[..., Outcome], lake: FakeLake, screen: io.StringIO) -> None:
    lake.rounds.append([report(lag=1), report(tick=2)])
    assert call("run").exit_code == 0
    assert "main.daily" in screen.getvalue()
    assert "2,000 rows/s" in screen.getvalue()
    assert "lag 0 commits" in screen.getvalue()


def test_json_and_files_get_no_bars(
    call: Callable[..., Outcome], lake: FakeLake, screen: io.StringIO
) -> None:
    lake.rounds.append([report()])
    call("run", "--output", "json")
    assert screen.getvalue() == ""


def test_a_run_that_fails_leaves_the_terminal_clean(
    call: Callable[..., Outcome], lake: FakeLake, screen: io.StringIO
) -> None:
    lake.error = KeyboardInterrupt()
    assert call("run").exit_code == 130
    assert screen.getvalue().endswith("\x1b[?25h\r\x1b[1A\x1b[2K")


def test_a_watch_says_every_tick_and_error(
    call: Callable[..., Outcome], lake: FakeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[list[TickReport] | BusyError] = [
        [report()],
        BusyError("LAKE_LOCKED", "process 7 writes"),
    ]

    def tick_once(on_tick: Callable[[TickReport], None], _ended: Callable[[], None]) -> list[TickReport]:
        if not answers:
            os.kill(os.getpid(), signal.SIGTERM)
            return []
        answer = answers.pop(0)
        if isinstance(answer, BusyError):
            raise answer
        for one in answer:
            on_tick(one)
        return answer

    monkeypatch.setattr(lake, "tick_once", tick_once)
    outcome = call("run", "--watch", "--poll", "0.01")
    assert outcome.exit_code == 0
    assert outcome.stderr.splitlines() == [
        "watching /lakes/one; Ctrl-C stops",
        "main.daily tick 1: 1,000 rows  2,000 rows/s  lag 0 commits  10 rows out  0.50 s",
        "error[LAKE_LOCKED]: process 7 writes",
        "stopping after the running tick; Ctrl-C once more does not wait",
    ]
    assert outcome.stdout.splitlines()[-1].split() == ["main.daily", "1", "1000", "10", "0.5", "2000", "0"]


def test_described() -> None:
    assert described(1, 0.0, 1) == "1 row  - rows/s  lag 1 commit"


def test_the_bar_of_the_jars_shows_the_bytes_so_far(screen: io.StringIO) -> None:
    with progress.WaitProgress("fetching", lambda: 12_300_000):
        assert progress.is_drawing()
    assert not progress.is_drawing()
    assert "12.3 MB" in screen.getvalue()


def test_a_start_of_spark_is_drawn(screen: io.StringIO) -> None:
    with progress.WaitProgress("starting Spark"):
        pass
    assert "starting Spark" in screen.getvalue()


@pytest.mark.parametrize("fetched", [None, lambda: 0])
@pytest.mark.parametrize(
    ("session", "says"), [(Session(), True), (Session(json=True), False), (Session(quiet=True), False)]
)
def test_waiting_is_a_line_where_nobody_looks(
    session: Session,
    says: bool,
    fetched: Callable[[], int] | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with session._waiting("starting Spark", fetched):
        pass
    assert capsys.readouterr().err == "starting Spark\n" * says


def test_a_run_says_which_events_wait(call: Callable[..., Outcome], lake: FakeLake) -> None:
    lake.waiting = {"wss://a.example:1/*": 3, "wss://b.example:1/*": 0}
    for _ in range(2):
        assert "waiting for wss://a.example:1/*: 3 events\n" in call("run").stderr
    assert "b.example" not in call("run").stderr
    assert call("run", "--output", "json").stderr == ""


def test_a_session_that_shows_no_progress_is_quiet() -> None:
    session = Session()
    assert session.progress("none") == "none"
    assert session.quiet
