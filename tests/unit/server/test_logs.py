"""``logs`` and ``events`` on the lake without a daemon; statements where an announced one does not answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from click.testing import CliRunner

from lakestream.cli import cli
from lakestream.clock import SystemClock
from lakestream.server.process.owner import Ownership
from lakestream.storage.places.layout import Layout

if TYPE_CHECKING:
    from click.testing import Result


def called(root: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--lake", root, *arguments])


def test_logs_show_ticks_and_failures_oldest_first(root: str) -> None:
    shown = called(root, "logs")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines() == [
        "2025-01-01 12:00:00.000+00:00  main.hourly  tick 1  period: 2 rows in, 1 out, 0 late  0.25 s  lag 0",
        "2025-01-01 12:00:00.000+00:00  main.hourly  tick 2  failed: COMMIT_FAILED: no space left",
    ]
    runs = json.loads(called(root, "--output", "json", "logs", "--stream", "hourly", "--limit", "1").stdout)
    assert [run["tick"] for run in runs["runs"]] == [2]


def test_what_logs_and_events_refuse(root: str) -> None:
    for arguments, code in (
        (("logs", "--stream", "nope"), "STREAM_NOT_FOUND"),
        (("events", "--stream", "nope"), "STREAM_NOT_FOUND"),
        (("events", "--after", "x"), "BAD_VALUE"),
        (("logs", "--limit", "0"), "limit"),
    ):
        refused = called(root, *arguments)
        assert (refused.exit_code, code in refused.stderr) == (2, True)


def test_no_events_are_no_lines(root: str) -> None:
    assert called(root, "events").stdout == ""
    assert json.loads(called(root, "--output", "json", "events").stdout) == {"events": []}


def test_a_daemon_that_does_not_answer_is_named(root: str) -> None:
    with Ownership.wait(Layout(root), SystemClock(), lambda _: None) as ownership:
        ownership.announce("http://127.0.0.1:9", SystemClock())
        failed = called(root, "sql", "SHOW TABLES")
        assert (failed.exit_code, "DAEMON_UNREACHABLE" in failed.stderr) == (75, True)
        assert called(root, "--no-daemon", "sql", "SHOW TABLES").exit_code == 0
