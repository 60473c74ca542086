"""The command line in processes of its own, on a lake on disk."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow]

CHECKOUT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "lakestream"]

STREAM = """
CREATE STREAM daily INTERVAL(1d) SLIDING(1d) FROM power STREAM_OPTIONS(FILL_HISTORY)
  INTO daily_power AS SELECT _twstart AS ts, count(*) AS n, sum(watts) AS watts FROM %%trows;
"""


def environment(**changes: str | None) -> dict[str, str]:
    """Return the environment of a call: a small Spark, and the changes (None removes)."""
    made: dict[str, str | None] = {
        **os.environ,
        "PYTHONPATH": str(CHECKOUT),
        "LAKESTREAM_MASTER": "local[1]",
        "LAKESTREAM_DRIVER_MEMORY": "1g",
        **changes,
    }
    return {name: value for name, value in made.items() if value is not None}


def lakestream(
    *arguments: str, text: str | None = None, env: Mapping[str, str | None] | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    given = {} if text is not None else {"stdin": subprocess.DEVNULL}
    return subprocess.run(
        [*COMMAND, *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env=environment(**(env or {})),
        **{**given, **more},
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a lake with a table of three days and a stream that has not run."""
    root = str(tmp_path_factory.mktemp("cli") / "a läke")
    made = lakestream("init", root)
    assert (made.returncode, made.stdout) == (0, f"created the lake {root}\n"), made.stderr
    rows = ", ".join(f"('2025-01-0{day} 0{hour}:00:00', {hour}.5)" for day in (1, 2, 3) for hour in range(4))
    script = f"CREATE TABLE power (ts TIMESTAMP, watts DOUBLE);\nINSERT INTO power VALUES {rows};\n{STREAM}"
    ran = lakestream("--lake", root, "sql", text=script)
    assert ran.returncode == 0, ran.stderr
    return root


def records(ran: subprocess.CompletedProcess[str]) -> Any:
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_a_stream_from_statement_to_result(lake: str) -> None:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return lakestream("--lake", lake, "--output", "json", *arguments)

    (before,) = records(call("status"))["streams"]
    assert (before["name"], before["status"]) == ("daily", "Running")

    (ran,) = records(call("run"))["streams"]
    assert (ran["stream"], ran["rows_in"], ran["lag"]) == ("main.daily", 12, 0)
    assert records(call("run"))["streams"] == []

    result = records(call("sql", "SELECT ts, n, watts FROM daily_power ORDER BY ts"))
    assert result["columns"] == ["ts", "n", "watts"]
    assert [(row["ts"][:10], row["n"], row["watts"]) for row in result["rows"]] == [
        ("2025-01-01", 4, 8.0),
        ("2025-01-02", 4, 8.0),
    ]
    verified = records(call("verify", "daily"))
    assert (verified["holds"], verified["expected_rows"]) == (True, 2)
    assert records(call("explain", "daily"))["rows"]
    assert records(call("doctor"))["healthy"] is True


def test_a_touched_output_does_not_verify(lake: str) -> None:
    lakestream("--lake", lake, "run")
    touched = lakestream(
        "--lake", lake, "sql", "UPDATE daily_power SET n = 5 WHERE ts = '2025-01-01 00:00:00'"
    )
    assert touched.returncode == 0, touched.stderr
    verified = lakestream("--lake", lake, "verify", "daily")
    assert verified.returncode == 1
    assert verified.stdout.splitlines()[-1] == "1 of 2 rows equal"
    lakestream("--lake", lake, "sql", "UPDATE daily_power SET n = 4 WHERE ts = '2025-01-01 00:00:00'")


def test_stop_start_and_drop(lake: str) -> None:
    def status() -> str:
        (stream,) = records(lakestream("--lake", lake, "status", "--output", "json"))["streams"]
        return str(stream["status"])

    assert lakestream("--lake", lake, "stop", "daily").returncode == 0
    assert status() == "Stopped"
    assert lakestream("--lake", lake, "start", "main.daily").returncode == 0
    assert status() == "Running"
    unconfirmed = lakestream("--lake", lake, "drop", "daily")
    assert (unconfirmed.returncode, status()) == (2, "Running")
    missing = lakestream("--lake", lake, "drop", "dayly", "--yes")
    assert missing.returncode == 2
    assert "daily" in missing.stderr


def test_drop(tmp_path: Path) -> None:
    root = str(tmp_path / "lake")
    lakestream("init", root)
    script = f"CREATE TABLE power (ts TIMESTAMP, watts DOUBLE); {STREAM}"
    assert lakestream("--lake", root, "sql", script).returncode == 0
    assert lakestream("--lake", root, "drop", "daily", "--yes").returncode == 0
    assert lakestream("--lake", root, "status").stdout == "no streams\n"


def test_show(lake: str) -> None:
    assert "power" in lakestream("--lake", lake, "show", "tables").stdout
    assert "main" in lakestream("--lake", lake, "show", "databases").stdout
    assert "daily" in lakestream("--lake", lake, "show", "streams").stdout


@pytest.mark.parametrize("arguments", [("--help",), ("status",), ("show", "streams")])
def test_looking_starts_no_jvm(lake: str, arguments: tuple[str, ...]) -> None:
    without_java = {"PATH": "/nowhere", "JAVA_HOME": None, "LAKESTREAM_LAKE": lake}
    ran = lakestream(*arguments, env=without_java)
    assert ran.returncode == 0, ran.stderr


BAD_CALLS: list[tuple[list[str], dict[str, str | None], int, str]] = [
    ([], {}, 2, "Commands:"),
    (["frobnicate"], {}, 2, "No such command 'frobnicate'"),
    (["status"], {}, 66, "error[LAKE_NOT_GIVEN]"),
    (["--lake", "/nowhere/lake", "status"], {}, 66, "lakestream init"),
    (["--lake", "/nowhere/lake", "sql", "SHOW TABLES"], {}, 66, "lakestream init"),
    (["--lake", __file__, "status"], {}, 66, "error[LAKE_"),
    (["init", __file__], {}, 66, "error[LAKE_"),
    (["init", "/tmp/100%"], {}, 66, "error[BAD_PATH]"),
    (["init", "/proc/lake"], {}, 66, "error[LAKE_NOT_WRITABLE]"),
    (
        ["--lake", "{lake}", "sql", "SELECT initcap('a')"],
        {"PATH": "/nowhere"},
        69,
        "error[JAVA_MISSING]",
    ),
    (
        ["--lake", "{lake}", "sql", "SELECT initcap('a')"],
        {"LAKESTREAM_JARS": "/usr"},
        69,
        "error[JARS_MISSING]",
    ),
    (["--lake", "{lake}", "status"], {"LAKESTREAM_JARS": "/nowhere"}, 78, "error[SETTING_INVALID]"),
    (["--lake", "{lake}", "run", "--set", "timezone=Mars"], {}, 78, "error[SETTING_INVALID]"),
    (["--lake", "{lake}", "--profile", "nope", "run"], {}, 78, "error[PROFILE_NOT_FOUND]"),
    (["--lake", "{lake}", "run"], {"LAKESTREAM_TIMEZOME": "UTC"}, 78, "error[SETTING_UNKNOWN]"),
    (["--lake", "{lake}", "sql", "SELEC 1"], {}, 2, "line 1, column 1"),
    (["--lake", "{lake}", "sql", ""], {}, 2, "error["),
    (["--lake", "{lake}", "sql", "/* nothing */ ;;"], {}, 2, "error["),
    (["--lake", "{lake}", "sql", "SELECT '\udcff'"], {}, 2, "error[BAD_CHARACTER]"),
    (["--lake", "{lake}", "stop", "no`such"], {}, 2, "error[STREAM_NOT_FOUND]"),
    (["--lake", "{lake}", "explain", "nosuch"], {}, 2, "error[STREAM_NOT_FOUND]"),
    (["--lake", "{lake}", "verify", "nosuch"], {}, 2, "error[STREAM_NOT_FOUND]"),
    (["--lake", "{lake}", "show", "tables", "-d", "nosuch"], {}, 2, "error[DATABASE_NOT_FOUND]"),
]


@pytest.mark.parametrize(("arguments", "changes", "status", "text"), BAD_CALLS)
def test_a_bad_call_has_its_status_and_says_why(
    lake: str, arguments: list[str], changes: dict[str, str | None], status: int, text: str
) -> None:
    filled = [part.replace("{lake}", lake) for part in arguments]
    ran = lakestream(*filled, env={"JAVA_HOME": None, **changes})
    assert (ran.returncode, ran.stdout) == (status, ""), ran.stderr
    assert text in ran.stderr
    assert "Traceback" not in ran.stderr
    if text.startswith("error["):
        ran = lakestream("--output", "json", *filled, env={"JAVA_HOME": None, **changes})
        assert (ran.returncode, ran.stdout) == (status, "")
        assert json.loads(ran.stderr)["code"].startswith(text.removeprefix("error[").rstrip("]"))


def shell(command: str, lake: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
    """Run a line of bash, in which ``ls`` is the command line on the lake."""
    line = f'set -o pipefail; ls() {{ \'{sys.executable}\' -m lakestream --lake "$LAKE" "$@"; }}; {command}'
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment(LAKE=lake, **changes),
    )


STANDARD_STREAMS = [
    ("ls config show | head -1", {}, 0, "setting"),
    ("ls --output json config show | head -1", {}, 0, "{"),
    ("ls config show > /dev/full", {}, 74, ""),
    ("ls status <&-", {}, 0, "daily"),
    ("ls sql <&-", {}, 2, ""),
    ("ls sql < /dev/null", {}, 2, ""),
    ("ls status >&-", {}, 0, ""),
    ("ls frobnicate 2>&-", {}, 2, ""),
    ("ls status", {"LANG": "C", "LC_ALL": "C"}, 0, "daily"),
    ("ls status", {"PYTHONIOENCODING": "ascii"}, 0, "daily"),
    ("ls status", {"COLUMNS": "80", "LINES": "1"}, 0, "daily"),
    ("ls status", {"TERM": "dumb"}, 0, "daily"),
    ("ls status", {"HOME": None, "USER": None, "LOGNAME": None}, 0, "daily"),
]


@pytest.mark.parametrize(("command", "changes", "status", "text"), STANDARD_STREAMS)
def test_standard_streams_and_terminals(
    lake: str, command: str, changes: dict[str, str | None], status: int, text: str
) -> None:
    ran = shell(command, lake, **changes)
    assert ran.returncode == status, ran.stderr
    assert text in ran.stdout
    assert "Traceback" not in ran.stderr
    assert "BrokenPipe" not in ran.stderr
    if status == 0:
        assert ran.stderr == ""


class Terminal:
    """A command in a terminal of 80 columns and one line, typed at and read from."""

    def __init__(self, *arguments: str, home: Path) -> None:
        self.child, self.screen = pty.fork()
        if self.child == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background processes ignore it
            os.execve(
                sys.executable,
                [*COMMAND, *arguments],
                environment(COLUMNS="80", LINES="1", TERM="xterm", XDG_STATE_HOME=str(home)),
            )
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.screen, text.encode())

    def read_until(self, wanted: str, seconds: float = 60) -> str:
        """Return what was shown up to and with the wanted text."""
        while wanted not in self.seen:
            ready, _, _ = select.select([self.screen], [], [], seconds)
            assert ready, f"{wanted!r} did not come: {self.seen!r}"
            try:
                self.seen += os.read(self.screen, 65_536).decode(errors="replace")
            except OSError:  # the other end is closed
                break
        assert wanted in self.seen, self.seen
        before, found, self.seen = self.seen.partition(wanted)
        return before + found

    def interrupt(self) -> int:
        """Press Ctrl-C until the command ends, and return its exit status.

        One press may be lost: Python does not see a signal that comes just before it waits for input.
        """
        ended = (0, 0)
        while ended[0] == 0:
            self.type("\x03")
            select.select([], [], [], 0.2)
            ended = os.waitpid(self.child, os.WNOHANG)
        os.close(self.screen)
        return os.waitstatus_to_exitcode(ended[1])

    def status(self) -> int:
        """Wait for the end and return the exit status."""
        _, status = os.waitpid(self.child, 0)
        os.close(self.screen)
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def shell_of(lake: str, tmp_path: Path) -> Terminal:
    terminal = Terminal("--lake", lake, "sql", home=tmp_path)
    terminal.read_until("lakestream> ")
    return terminal


def test_the_shell(shell_of: Terminal, tmp_path: Path) -> None:
    shell_of.type("SHOW\n")
    shell_of.read_until("... ")
    shell_of.type("TABLES;\n")
    shell_of.read_until("daily_power")
    shell_of.read_until("lakestream> ")
    shell_of.type("SELEC 1;\n")
    shell_of.read_until("error[")
    shell_of.read_until("lakestream> ")
    shell_of.type("SHOW\n")
    shell_of.read_until("... ")
    shell_of.type("\x04")
    assert shell_of.status() == 0
    assert "SELEC 1;" in (tmp_path / "lakestream" / "history").read_text()


def test_drop_asks_in_a_terminal(lake: str, tmp_path: Path) -> None:
    terminal = Terminal("--lake", lake, "drop", "daily", home=tmp_path)
    terminal.read_until("Drop the stream daily? [y/N]: ")
    terminal.type("n\n")
    terminal.read_until("nothing was dropped")
    assert terminal.status() == 1
    terminal = Terminal("--lake", lake, "drop", "daily", home=tmp_path)
    terminal.read_until("[y/N]: ")
    assert terminal.interrupt() == 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_watch_follows_the_table_until_a_signal(lake: str, number: int) -> None:
    watching = subprocess.Popen(
        [*COMMAND, "--lake", lake, "run", "--watch", "--poll", "0.2"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert watching.stderr is not None
    assert watching.stderr.readline().startswith("watching ")
    begin = time.monotonic()  # noqa: TID251 (the wall time of another process)
    watching.send_signal(number)
    _, err = watching.communicate(timeout=30)
    assert watching.returncode == 0, err
    assert "stopping after the running tick" in err
    assert time.monotonic() - begin < 30  # noqa: TID251
