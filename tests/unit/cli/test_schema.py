"""What commands print as JSON is what docs/cli.schema.json says; of a lake that is there, without Spark."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import jsonschema
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from lakestream.cli import cli
from tests.unit.cli.test_commands import GOLDEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[3]
SCHEMA: dict[str, Any] = json.loads((ROOT / "docs" / "cli.schema.json").read_text(encoding="utf-8"))
WITHOUT = {"serve", "completion"}
"""Commands that print no document: one goes on, one prints a program of the shell."""


def check(command: str, text: str) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate({command: json.loads(text)})


def commands(group: click.Group, before: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def test_every_command_has_its_document() -> None:
    assert {*commands(cli)} - WITHOUT == {*SCHEMA["properties"]}


@pytest.mark.parametrize("path", [p for p in GOLDEN if "json" in p.stem], ids=lambda path: path.stem)
def test_golden_documents(path: Path) -> None:
    command, _, shown = path.read_text(encoding="utf-8").partition("\n")
    out, _, err = shown.partition("[stderr]\n")
    if out:
        words = [word for word in shlex.split(command) if word not in {"--output", "json"}]
        check(words[2], out.partition("[exit")[0])
    if err:
        error = {**SCHEMA, **SCHEMA["$defs"]["error"], "maxProperties": 99}
        jsonschema.Draft202012Validator(error).validate(json.loads(err.partition("[exit")[0]))


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Run commands on a lake with a stream that has ticked."""
    folder = tmp_path_factory.mktemp("asked")
    at = {"ts": pa.array([0, 1], pa.timestamp("us", "UTC")), "v": [1.0, 2.0]}
    write_deltalake(folder / "theirs", pa.table(at))

    def run(*arguments: str) -> str:
        # Nobody listens there.
        call = [
            "--lake",
            str(folder / "lake"),
            "--set",
            "notify_hosts=localhost",
            "--output",
            "json",
            "--yes",
        ]
        call += arguments
        filled = [one.replace("{}", str(folder)) for one in call]
        return CliRunner().invoke(cli, filled).stdout

    run("init")
    run("sql", "CREATE TABLE t (ts TIMESTAMP, v DOUBLE)")
    run(
        "sql",
        "CREATE STREAM s INTERVAL(1h) SLIDING(1h) FROM t NOTIFY('ws://localhost:9/') ON (WINDOW_CLOSE) "
        "INTO o AS SELECT _twstart AS h, avg(v) AS m FROM %%trows",
    )
    run("sql", "INSERT INTO t VALUES ('2025-01-01 08:10:00', 700) ('2025-01-01 09:00:00', 0)")
    return run


@pytest.mark.parametrize(
    "command",
    [
        "init",
        "sql 'SELECT * FROM t'",
        "show tables",
        "explain s",
        "status",
        "status --failed",
        "logs",
        "events",
        "attach {}/theirs",
        "maintain --dry-run",
        "migrate --dry-run",
        "job list",
        "doctor t",
        "check",
        "repair",
        "backup {}/kept",
        "restore {}/kept {}/anew",
        "token create x",
        "token list",
        "token revoke x",
        "config show",
        "docs",
        "docs streams",
        "stop s",
        "start s",
        "recalculate s --from 2025-01-01",
        "run",
        "logs --stream s",
        "drop s",
    ],
)
def test_documents_of_a_lake(ask: Callable[..., str], command: str) -> None:
    words = shlex.split(command)
    name = " ".join(words[:2]) if words[0] in {"job", "token", "config"} else words[0]
    check(name, ask(*words))


def test_no_command_is_silent_on_an_empty_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lake = str(tmp_path / "lake")
    CliRunner().invoke(cli, ["--lake", lake, "init"])
    going_on = {"serve", "sql", "completion"}
    for command in {*commands(cli)} - going_on:
        arguments = [str(tmp_path / "kept")] if command == "backup" else []
        asked = CliRunner().invoke(cli, ["--lake", lake, *command.split(), *arguments])
        assert asked.output.strip(), command
        assert asked.exception is None or isinstance(asked.exception, SystemExit), (command, asked.exception)
