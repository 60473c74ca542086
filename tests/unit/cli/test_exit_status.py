"""Whatever goes wrong has its exit status, a message on stderr, and nothing on stdout."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest

from lakestream import errors
from lakestream.cli.base.failures import describe, status_of, wants_json
from lakestream.cli.base.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result as Outcome

    from tests.unit.cli.conftest import FakeLake

FAILURES = [
    (errors.StatementError("SYNTAX", "bad", place=errors.Place(1, 3, 2, "SELECT")), 2, "SYNTAX"),
    (errors.NotSupportedError("SESSION"), 2, "NOT_SUPPORTED"),
    (errors.ConfirmationNeededError("Drop it?", hint="--yes"), 2, "CONFIRMATION_NEEDED"),
    (errors.StreamError("CHANGES_LOST", "gone"), 1, "CHANGES_LOST"),
    (errors.LakeError("LAKE_TOO_NEW", "new"), 66, "LAKE_TOO_NEW"),
    (errors.PrerequisiteError("JAVA_MISSING", "none"), 69, "JAVA_MISSING"),
    (ZeroDivisionError("division by zero"), 70, "INTERNAL"),
    (RecursionError(), 70, "INTERNAL"),
    (errors.StorageError("TABLE_UNREADABLE", "bad"), 74, "TABLE_UNREADABLE"),
    (PermissionError(13, "Permission denied", "/x"), 74, "IO_ERROR"),
    (OSError(28, "No space left on device"), 74, "IO_ERROR"),
    (errors.BusyError("LAKE_LOCKED", "process 7 writes"), 75, "LAKE_LOCKED"),
    (errors.ConfigError("SETTING_UNKNOWN", "x"), 78, "SETTING_UNKNOWN"),
]


@pytest.mark.parametrize(("error", "status", "code"), FAILURES, ids=lambda value: str(value)[:30])
def test_every_error_has_its_status(
    call: Callable[..., Outcome], lake: FakeLake, error: Exception, status: int, code: str
) -> None:
    lake.error = error
    outcome = call("sql", "SELECT")
    assert outcome.exit_code == status
    assert outcome.stdout == ""
    assert outcome.stderr.startswith(f"error[{code}]: ")
    assert "Traceback" not in outcome.stderr

    outcome = call("--output", "json", "sql", "SELECT")
    assert outcome.exit_code == status
    assert outcome.stdout == ""
    document = json.loads(outcome.stderr)
    assert (document["code"], document["exit_status"]) == (code, status)


def test_only_debug_shows_a_traceback(call: Callable[..., Outcome], lake: FakeLake) -> None:
    lake.error = errors.StorageError("TABLE_UNREADABLE", "bad")
    outcome = call("sql", "SELECT", "--debug")
    assert outcome.exit_code == 74
    assert "Traceback (most recent call last)" in outcome.stderr
    assert "error[TABLE_UNREADABLE]: bad" in outcome.stderr


@pytest.mark.parametrize("debug", [False, True])
def test_a_connection_that_breaks_shows_no_traceback_of_its_library(
    caplog: pytest.LogCaptureFixture, debug: bool
) -> None:
    def breaking() -> int:
        for library in ("py4j", "another"):
            told = {"pathname": f"/lib/{library}/java_gateway.py", "levelno": logging.ERROR, "msg": library}
            logging.getLogger().handle(logging.makeLogRecord(told))
        return 3

    assert status_of(breaking, Session(debug=debug)) == 3
    assert [record.msg for record in caplog.records] == [*(["py4j"] if debug else []), "another"]


def test_what_is_logged_beside_json_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        logging.getLogger("lakestream.notify").warning("%s cannot be told", "ws://x")
        try:
            int("no number")
        except ValueError:
            logging.getLogger("another").exception("a row\nof two lines")
        return 0

    assert status_of(work, Session(json=True)) == 0
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["level"], line["message"]) for line in lines] == [
        ("warning", "ws://x cannot be told"),
        ("error", "a row\nof two lines"),
    ]
    assert "ValueError: invalid literal" in lines[1]["traceback"]
    before = [*logging.getLogger().handlers]
    assert status_of(lambda: 0, Session(json=True)) == 0
    assert logging.getLogger().handlers == before


def test_interruption(call: Callable[..., Outcome], lake: FakeLake) -> None:
    lake.error = KeyboardInterrupt()
    assert call("run").exit_code == 130
    assert lake.closed


CALLS: list[tuple[list[str], str]] = [
    (["stauts"], "No such command 'stauts'. (Did you mean one of: 'start', 'status'?)"),
    (["--lkae", "x", "status"], "No such option '--lkae'"),
    (["status", "extra"], "unexpected extra argument"),
    (["explain"], "Missing argument 'STREAM'"),
    (["show", "windows"], "'windows' is not one of"),
    (["run", "--poll", "0", "--watch"], "--poll"),
    (["run", "--poll", "abc", "--watch"], "--poll"),
    (["run", "--poll", "1"], "--poll needs --watch"),
    (["sql", "SELECT 1", "-f", "-"], "not both"),
    (["sql", "-f", "no-such-file.sql"], "does not exist"),
    (["show", "databases", "-d", "x"], "--database goes with"),
    (["--output", "xml", "status"], "'xml' is not one of"),
    (["--set", "timezone", "status"], "is not NAME=VALUE"),
    (["completion", "tcsh"], "'tcsh' is not one of"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), CALLS, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_usage_errors(call: Callable[..., Outcome], arguments: list[str], message: str) -> None:
    outcome = call(*arguments)
    assert outcome.exit_code == 2
    assert outcome.stdout == ""
    assert message in outcome.stderr

    if "xml" not in arguments:
        outcome = call(*arguments, "--output=json")
        assert outcome.exit_code == 2
        document = json.loads(outcome.stderr)
        assert document["code"] == "USAGE"
        assert message in document["message"]


def test_no_command_shows_the_help(call: Callable[..., Outcome]) -> None:
    outcome = call()
    assert outcome.exit_code == 2
    assert outcome.stdout == ""
    assert "Commands:" in outcome.stderr
    assert json.loads(call("--output", "json").stderr)["message"] == "Missing command."
    assert json.loads(call("--output", "json", "config").stderr)["message"] == "no command is given"


def test_no_lake_is_named(call: Callable[..., Outcome]) -> None:
    outcome = call("status", env={"LAKESTREAM_LAKE": ""})
    assert outcome.exit_code == 66
    assert "error[LAKE_NOT_GIVEN]: no lake is named" in outcome.stderr
    assert "lakestream init PATH" in outcome.stderr


def test_a_missing_lake(call: Callable[..., Outcome]) -> None:
    outcome = call("--lake", "/mis sing", "status")
    assert outcome.exit_code == 66
    assert "hint: lakestream init '/mis sing'" in outcome.stderr


@pytest.mark.parametrize(
    ("uri", "code", "status"),
    [("foo://bucket/lake", "STORE_UNKNOWN", 66), ("s3://bucket/lake", "STORE_UNREACHABLE", 74)],
)
def test_a_store_that_gives_no_answer(
    call: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, uri: str, code: str, status: int
) -> None:
    given = {
        "ACCESS_KEY_ID": "k",
        "SECRET_ACCESS_KEY": "s",
        "REGION": "r",
        "ENDPOINT_URL": "http://127.0.0.1:1",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    outcome = call("--lake", uri, "status")
    assert outcome.exit_code == status
    assert f"error[{code}]" in outcome.stderr
    assert uri in outcome.stderr


def test_a_multi_line_internal_error_is_cut_to_its_first_line() -> None:
    error = describe(RuntimeError("first\nsecond"))
    assert error.message == "RuntimeError: first"
    assert describe(RuntimeError()).message == "RuntimeError: no message"


@pytest.mark.parametrize(
    ("arguments", "json_mode"),
    [
        (["--output", "json"], True),
        (["status", "--output=json"], True),
        (["--output", "table"], False),
        (["--output"], False),
        ([], False),
    ],
)
def test_wants_json(arguments: list[str], json_mode: bool) -> None:
    assert wants_json(arguments) is json_mode
