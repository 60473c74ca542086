"""What each command asks the lake and shows: one text per call under ``golden/``.

A text is the call after ``$ lakestream``, then stdout, ``[stderr]`` and stderr where there is any, and
``[exit N]`` unless that is 0.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakestream.engine.base.result import Result
from lakestream.errors import Place, StatementError, StreamError
from lakestream.observation.comparison import Difference
from lakestream.observation.expectations import ExpectationStatus
from lakestream.statements.maintenance import Maintained
from lakestream.statements.migration import Migrated
from tests.unit.cli.conftest import report, status, verification

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result as Outcome

    from lakestream.observation.verify import Verification
    from tests.unit.cli.conftest import FakeLake

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.txt"))


@pytest.fixture
def furnished(lake: FakeLake) -> FakeLake:
    instant = datetime(2025, 1, 1, tzinfo=UTC)
    lake.results = {
        "SELECT * FROM t": Result(("ts", "n", "n"), [(instant, 1, None), (instant, 1000, 0.5)]),
        "SELECT 1 WHERE false": Result(("1",), []),
        "SHOW `da``y`.STABLES": Result(("name",), [("weather",)]),
        "SHOW DATABASES": Result(("name",), [("main",)]),
        "SHOW `main`.TABLES": Result(("name", "rows"), [("weather", 3)]),
        "explain": Result(("stage", "what"), [("detect", "INTERVAL(1d)"), ("write", "append by Arrow")]),
    }
    lake.statuses = [
        status(),
        status(name="hourly", status="Failed", lag=3, last_error="CHANGES_LOST: version 7 is gone"),
        status(name="new", tick=None, version=None, rows_in=0, rows_out=0, late=0),
    ]
    lake.maintained = [
        Maintained("main.o", 12, 1, 30, 48_000, 0, 0.25),
        Maintained("main.m", 3, 3, left_out="no file is deleted: main.s has still to read version 4"),
        Maintained("_lakestream/plans", error="UPKEEP_FAILED: disk full"),
    ]
    flat = ("_ls_group", "_ls_start", "_ls_end")
    lake.migrated = [
        Migrated("main.s", "main.o", "migrated", flat, ("window",), 48_000),
        Migrated("main.told", None, "current", why="it stores no rows"),
        Migrated("main.m", "main.p", "failed", why="COMMIT_FAILED: disk full"),
    ]
    lake.rounds.extend([[report(lag=1), report(stream="main.b", seconds=0.0)], [report(tick=2)]])
    lake.verification = verification(
        2, 3, Difference((1,), (1, 2.5), (1, 3.5)), Difference((2,), None, (2, 0.5))
    )
    return lake


def test_there_are_golden_texts() -> None:
    assert len(GOLDEN) > 10


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden(call: Callable[..., Outcome], furnished: FakeLake, path: Path) -> None:
    del furnished
    text = path.read_text(encoding="utf-8")
    command = text.partition("\n")[0].removeprefix("$ lakestream ")
    assert transcript(command, call(*shlex.split(command))) == text


def transcript(command: str, outcome: Outcome) -> str:
    parts = [f"$ lakestream {command}\n", outcome.stdout]
    if outcome.stderr:
        parts += ["[stderr]\n", outcome.stderr]
    if outcome.exit_code:
        parts.append(f"[exit {outcome.exit_code}]\n")
    return "".join(parts)


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["start", "s"], ("sql", "START STREAM `s`", "tdengine")),
        (["start", "d.s"], ("sql", "START STREAM `d`.`s`", "tdengine")),
        (["stop", "a`; DROP TABLE t"], ("sql", "STOP STREAM `a``; DROP TABLE t`", "tdengine")),
        (["drop", "s", "--yes"], ("sql", "DROP STREAM `s`", "tdengine")),
        (["--yes", "drop", "s"], ("sql", "DROP STREAM `s`", "tdengine")),
        (["verify", "s"], ("verify", "s", None, None)),
        (["verify", "s", "--from", "2025-01-01", "--to", "b"], ("verify", "s", "2025-01-01", "b")),
        (["sql", "SELECT 1", "--dialect", "iotdb"], ("sql", "SELECT 1", "iotdb")),
        (["show", "tables"], ("sql", "SHOW TABLES", "tdengine")),
        (["show", "streams", "-d", "x"], ("sql", "SHOW `x`.STREAMS", "tdengine")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_the_lake_is_asked(
    call: Callable[..., Outcome], lake: FakeLake, arguments: list[str], asked: tuple[object, ...]
) -> None:
    outcome = call(*arguments)
    assert outcome.exit_code == 0, outcome.stderr
    assert lake.asked == [("open", "one", False, None), asked]
    assert lake.closed


@pytest.mark.parametrize("arguments", [["--lake", "two", "stop", "s"], ["stop", "s", "--lake", "two"]])
def test_the_flag_wins_over_the_environment(
    call: Callable[..., Outcome], lake: FakeLake, arguments: list[str]
) -> None:
    call(*arguments)
    assert lake.asked[0] == ("open", "two", False, None)


def test_settings_reach_the_lake(call: Callable[..., Outcome], lake: FakeLake) -> None:
    call("--set", "timezone=Europe/Helsinki", "stop", "s", "--set", "master=local[1]")
    given = lake.asked[0][3]
    assert (given.timezone, given.master) == ("Europe/Helsinki", "local[1]")
    assert call("--set", "timezome=UTC", "stop", "s").exit_code == 78


def test_a_script_from_stdin_and_from_a_file(
    call: Callable[..., Outcome], lake: FakeLake, tmp_path: Path
) -> None:
    script = tmp_path / "a.sql"
    script.write_bytes(b"\xef\xbb\xbfSELECT '\xc3\xa4'")
    assert call("sql", "-f", str(script)).exit_code == 0
    assert call("sql", text="SELECT 2").exit_code == 0
    assert call("sql", "-f", "-", text="SELECT 3").exit_code == 0
    assert [asked[1] for asked in lake.asked if asked[0] == "sql"] == ["SELECT 'ä'", "SELECT 2", "SELECT 3"]


def test_a_script_that_is_not_utf8_names_the_place(call: Callable[..., Outcome], tmp_path: Path) -> None:
    script = tmp_path / "latin.sql"
    script.write_bytes(b"SELECT 1;\nSELECT '\xe4'")
    outcome = call("sql", "-f", str(script))
    assert outcome.exit_code == 2
    assert "error[NOT_UTF8]: the byte 0xe4 is not UTF-8 text" in outcome.stderr
    assert f"--> {script}: line 2, column 9" in outcome.stderr


def test_an_error_in_a_file_names_the_file(
    call: Callable[..., Outcome], lake: FakeLake, tmp_path: Path
) -> None:
    from lakestream.errors import Place, StatementError

    script = tmp_path / "a.sql"
    script.write_text("SELEC 1")
    lake.error = StatementError("SYNTAX", "what is SELEC?", place=Place(1, 1, 5, "SELEC 1"))
    assert f"--> {script}: line 1, column 1" in call("sql", "-f", str(script)).stderr


SCRIPT = """-- two tables
USE a;

/* and */ USE b; USE c;
SHOW TABLES;
USE d
"""


def test_an_argument_of_several_statements_says_what_came_of_each(
    call: Callable[..., Outcome], lake: FakeLake
) -> None:
    outcome = call("sql", "USE a; USE b;\nUSE c")
    assert (outcome.stderr, outcome.stdout) == ("line 1: done\nline 1: done\n", "done\n")
    assert len([asked for asked in lake.asked if asked[0] == "sql"]) == 3


def test_a_file_says_which_statements_ran(
    call: Callable[..., Outcome], lake: FakeLake, tmp_path: Path
) -> None:
    (tmp_path / "a.sql").write_text(SCRIPT)
    lake.results = {f"{chr(10) * 4}SHOW TABLES": Result(("name",), [("t",)])}
    outcome = call("sql", "-f", str(tmp_path / "a.sql"))
    assert outcome.stderr == "line 2: done\nline 4: done\nline 4: done\nline 5: 1 row\n"
    assert outcome.stdout == "done\n"
    # Each statement stands where it stands in the file, so that what it raises points there.
    assert [asked[1] for asked in lake.asked if asked[0] == "sql"][2] == "\n" * 3 + " " * 17 + "USE c"


def test_a_file_says_which_statements_did_not_run(
    call: Callable[..., Outcome], lake: FakeLake, tmp_path: Path
) -> None:
    from lakestream.errors import StatementError

    (tmp_path / "a.sql").write_text(SCRIPT)
    lake.errors = {f"{chr(10) * 3}{' ' * 17}USE c": StatementError("DATABASE_NOT_FOUND", "no c")}
    outcome = call("sql", "-f", str(tmp_path / "a.sql"))
    assert outcome.exit_code == 2
    said = "line 2: done\nline 4: done\nran: lines 2, 4; failed: line 4; not run: lines 5, 6\nerror["
    assert outcome.stderr.startswith(said)
    outcome = call("--output", "json", "sql", "-f", str(tmp_path / "a.sql"))
    assert json.loads(outcome.stderr)["script"] == {"ran": [2, 4], "failed": [4], "not_run": [5, 6]}


def test_nothing_of_a_file_that_cannot_be_read_runs(
    call: Callable[..., Outcome], lake: FakeLake, tmp_path: Path
) -> None:
    (tmp_path / "a.sql").write_text("USE a;\nUSE;\n")
    outcome = call("sql", "-f", str(tmp_path / "a.sql"))
    assert outcome.stderr.startswith("nothing was run: a file is read to its end first\nerror[SYNTAX]")
    assert f"--> {tmp_path / 'a.sql'}: line 2" in outcome.stderr
    assert not [asked for asked in lake.asked if asked[0] == "sql"]


def test_drop_asks_on_a_terminal_only(
    call: Callable[..., Outcome], lake: FakeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = call("drop", "s")
    assert outcome.exit_code == 2
    assert "error[CONFIRMATION_NEEDED]: Drop the stream s?" in outcome.stderr
    monkeypatch.setattr("lakestream.cli.base.session.is_terminal", lambda _stream: True)
    assert call("drop", "s", text="n\n").exit_code == 1
    assert lake.asked == []
    assert call("drop", "s", text="y\n").exit_code == 0
    assert lake.asked[1] == ("sql", "DROP STREAM `s`", "tdengine")


@pytest.mark.parametrize("text", ["", " ;\n; ", "-- one\n/* two; */", "\ufeff"])
def test_a_script_without_a_statement(call: Callable[..., Outcome], lake: FakeLake, text: str) -> None:
    outcome = call("sql", text=text)
    assert (outcome.exit_code, lake.asked) == (2, [])
    assert "error[EMPTY_STATEMENT]" in outcome.stderr


def test_init_makes_a_lake_once(call: Callable[..., Outcome], lake: FakeLake, tmp_path: Path) -> None:
    root = str(tmp_path / "lake")
    assert call("init", root).stdout == f"created the lake {root}\n"
    assert lake.asked == [("open", root, True, None)]


def test_run_leaves_with_1_while_a_stream_has_failed(call: Callable[..., Outcome], lake: FakeLake) -> None:
    assert (call("run").exit_code, call("run").stdout) == (0, "nothing to do\n")
    lake.statuses = [status(status="Failed"), status(name="b")]
    outcome = call("run", "--output", "json")
    assert outcome.exit_code == 1
    assert json.loads(outcome.stdout) == {"streams": []}
    assert json.loads(outcome.stderr)["message"] == "main.daily: None"


def test_everything_is_equal(call: Callable[..., Outcome]) -> None:
    outcome = call("verify", "s")
    assert (outcome.exit_code, outcome.stdout) == (0, "3 of 3 rows equal\n")


@pytest.mark.parametrize("words", [[], ["--streams", "daily,hourly,new"]])
def test_a_stream_that_cannot_be_compared_keeps_no_other_from_it(
    call: Callable[..., Outcome], furnished: FakeLake, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    def verify(stream: str, **_: object) -> Verification:
        if "hourly" in stream:
            raise StreamError("OUTPUT_GONE", "it is gone")
        return verification(3, 3, stream=stream)

    monkeypatch.setattr(furnished, "verify", verify)
    outcome = call("verify", *words)
    assert outcome.exit_code == 1
    assert outcome.stdout.count("3 of 3 rows equal") == outcome.stderr.count("compared") >= 1
    assert "hourly: not compared" in outcome.stdout
    assert "error[OUTPUT_GONE]: it is gone" in outcome.stderr
    told = json.loads(call("verify", *words, "--output", "json").stdout)
    assert told["holds"] is False
    assert [error["code"] for error in told["errors"].values()] == ["OUTPUT_GONE"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("lakestream st", ["status", "start", "stop"]),
        ("lakestream stop da", ["daily"]),
        ("lakestream stop main.", ["main.daily", "main.hourly", "main.new"]),
        ("lakestream --lake /nowhere stop da", []),
        ("lakestream show t", ["tables"]),
        ("lakestream verify --streams daily,ho", ["daily,hourly"]),
        ("lakestream logs --stream da", ["daily"]),
        ("lakestream doctor wea", ["weather"]),
        ("lakestream show tables -d ma", ["main"]),
    ],
)
def test_completing(
    call: Callable[..., Outcome], furnished: FakeLake, words: str, offered: list[str]
) -> None:
    del furnished
    asked = {
        "_LAKESTREAM_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    assert call(env=asked).stdout.split() == [f"plain,{word}" for word in offered]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(call: Callable[..., Outcome], shell: str) -> None:
    outcome = call("completion", shell)
    assert outcome.exit_code == 0
    assert "_LAKESTREAM_COMPLETE" in outcome.stdout


def test_an_error_has_a_place_only_in_a_text_of_the_user(
    call: Callable[..., Outcome], furnished: FakeLake
) -> None:
    furnished.error = StatementError(
        "STREAM_NOT_FOUND", "there is none", place=Place(1, 13, text="STOP STREAM `x`")
    )
    assert "line 1" not in call("stop", "x").stderr
    furnished.error = StatementError("STREAM_NOT_FOUND", "none", place=Place(1, 13, text="STOP STREAM x"))
    assert "line 1, column 13" in call("sql", "STOP STREAM x").stderr


def test_the_pages_of_the_documentation_are_at_hand(call: Callable[..., Outcome]) -> None:
    assert "getting-started" in call("docs").stdout
    assert call("docs", "streams/late-rows").stdout.startswith("# Late rows")
    assert "did you mean getting-started?" in call("docs", "getting").stderr


POSSIBLE = ExpectationStatus("possible", "source", "watts > 0", "FAIL", 2, 1)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"lag": 1, "lag_seconds": None}, "It is 1 commit behind"),
        ({"lag": 3, "lag_seconds": 1200.4}, "It is 3 commits behind, the oldest 1,200 s old"),
        (
            {"lag": 3, "lag_seconds": 2, "tick": None},
            "No tick has run yet, 3 commits behind, the oldest 2 s old",
        ),
        ({"status": "Stopped"}, "It is stopped until START STREAM"),
        ({"status": "Stopped", "lag": 2, "lag_seconds": None}, "… until START STREAM, 2 commits behind"),
        (
            {"status": "Retrying", "last_error": "DISK_FULL: no room", "retry_us": 3_723_000_000, "lag": 1},
            "It is tried again at 01:02:03 UTC: DISK_FULL: no room",
        ),
        (
            {"status": "Failed", "last_error": "X: y", "held_back": "z"},
            "It failed and waits for START STREAM: X: y",
        ),
        (
            {"held_back": "the output's rate limit", "lag": 1},
            "It is held back by the output's rate limit, 1 commit…",
        ),
        (
            {"waiting_groups": ("North: 9 windows",)},
            "Groups wait, because a row lies far … others: North: 9 windows",
        ),
        ({"recalculating": "2 of 5 parts", "lag": 1}, "It is recalculating: 2 of 5 parts are done"),
        (
            {"expectations": (replace(POSSIBLE, action="DROP"),)},
            "… possible: 1 of 3 violated",
        ),
        ({"expectations": (POSSIBLE,)}, ""),
    ],
)
def test_a_sentence_says_why_a_stream_is_not_current(changes: dict[str, object], why: str) -> None:
    said, parts = status(**changes).why, why.split("…")
    assert said == why if len(parts) == 1 else all(part.strip() in said for part in parts)


def test_failed_streams_alone_and_whether_there_are_any(
    call: Callable[..., Outcome], furnished: FakeLake
) -> None:
    outcome = call("status", "--failed")
    assert outcome.exit_code == 1
    assert "main.hourly" in outcome.stdout
    assert "main.daily" not in outcome.stdout
    furnished.statuses = [status()]
    assert (call("status", "--failed").exit_code, call("status").exit_code) == (0, 0)


@pytest.mark.parametrize("command", ["run", "verify", "verify daily"])
def test_what_goes_on_is_said_in_lines_or_not_at_all(
    call: Callable[..., Outcome], furnished: FakeLake, command: str
) -> None:
    furnished.statuses = [status()]
    words = command.split()
    assert call(*words).stderr.count("daily") >= 1
    assert call(*words, "--progress", "none").stderr == ""
    assert call(*words, "--output", "json").stderr == ""
    assert call(*words, "--output", "json", "--progress", "plain").exit_code == 2


def test_what_a_command_is_for_fits_its_line(
    call: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in ([], ["job"], ["token"], ["config"]):
        assert "..." not in call(*words, "--help").stdout.partition("Commands:")[2], words
