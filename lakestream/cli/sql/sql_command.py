"""``lakestream sql``: one statement, a file, stdin, or a shell."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from lakestream.cli.base.output import counted, print_json, print_table, records
from lakestream.cli.base.session import Session, command, is_terminal
from lakestream.errors import LakestreamError, StatementError
from lakestream.language import DIALECTS
from lakestream.language.common.source import decoded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.cli.base.remote import RemoteLake
    from lakestream.engine.base.result import Result
    from lakestream.lake import Lake
    from lakestream.language import ScriptPart

_BLANK = re.compile(r"(?>[\s;\ufeff]|--[^\r\n]*+|/\*(?>.*?\*/))*+", re.DOTALL)
"""A script of nothing but blanks, semicolons and comments; never backtracks."""


@command("sql")
@click.argument("statement", required=False)
@click.option(
    "--file",
    "-f",
    "file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="Read the statements of a file; - is stdin.",
)
@click.option(
    "--dialect",
    type=click.Choice(DIALECTS),
    default="tdengine",
    show_default=True,
    help="The language the statements are written in; one that can only be IoTDB's is read as such.",
)
@click.pass_obj
def sql(session: Session, statement: str | None, file: str | None, dialect: str) -> None:
    """Run a statement, a file, stdin, or a shell.

    What each did is said, and the result of the last one is shown. Without STATEMENT and file, stdin
    is read; from a terminal that is a shell, where a statement ends with `;`.
    """
    if statement is not None and file is not None:
        raise click.UsageError("give a STATEMENT or --file, not both")
    if statement is None and file is None and is_terminal(sys.stdin):
        from lakestream.cli.sql.shell import run_shell

        with session.statements(written=True) as lake:
            run_shell(session, lake, dialect)
        return
    text = statement if statement is not None else read_script(file)
    if _BLANK.fullmatch(text):
        raise StatementError("EMPTY_STATEMENT", "there is no statement", hint="for example: SHOW TABLES")
    with session.statements(written=True) as lake:
        if file is None:
            run_text(session, lake, text, dialect=dialect)
        else:
            run_file(session, lake, text, dialect=dialect, file=file)


def read_script(file: str | None) -> str:
    """Read a file, or stdin (``-`` or None), as UTF-8 text with or without a byte order mark.

    Raises StatementError (NOT_UTF8) with the place of the first byte that is no UTF-8.
    """
    if file is not None and file != "-":
        return decoded(Path(file).read_bytes(), file)
    if sys.stdin is None:
        raise click.UsageError("give a STATEMENT or --file: stdin is closed")
    source: BinaryIO = sys.stdin.buffer
    return decoded(source.read(), "stdin")


def run_text(session: Session, lake: Lake | RemoteLake, text: str, *, dialect: str) -> None:
    """Run all statements of the text, say of each that it ran, and show the result of the last."""
    parts = _parts(text, dialect)
    result = _run_parts(session, lake, parts, dialect) if len(parts) > 1 else lake.sql(text, dialect=dialect)
    show_result(session, result)


def _parts(text: str, dialect: str) -> Sequence[ScriptPart]:
    """Return the statements of a text, none where it looks like one, which is not read here then."""
    if ";" not in text.rstrip("; \r\n\t"):
        return ()
    from lakestream.language import script_parts

    return script_parts(text, dialect=dialect)


def run_file(session: Session, lake: Lake | RemoteLake, text: str, *, dialect: str, file: str) -> None:
    """Run the statements of a file one by one, say of each that it ran, and show the result of the last.

    An error names the file, and the lines of the statements that ran and that did not.
    """
    from lakestream.language import script_parts

    try:
        parts = script_parts(text, dialect=dialect)
        result = _run_parts(session, lake, parts, dialect)
    except LakestreamError as error:
        if error.script is None:
            session.say("nothing was run: a file is read to its end first")
        raise error.in_file(file) if file != "-" else error from error.__cause__
    show_result(session, result)


def _run_parts(
    session: Session, lake: Lake | RemoteLake, parts: Sequence[ScriptPart], dialect: str
) -> Result:
    """Run statements and return the result of the last; whatever ends them before, it is said where."""
    done = 0
    try:
        for done, part in enumerate(parts):  # noqa: B007 - where it stands is told
            result = lake.sql(part.text, dialect=dialect)
            if part is not parts[-1]:
                session.say(f"line {part.line}: {result.message or counted(len(result.fetchall()), 'row')}")
    except BaseException as error:
        lines = [part.line for part in parts]
        script = {"ran": lines[:done], "failed": [lines[done]], "not_run": lines[done + 1 :]}
        session.say("; ".join(f"{what.replace('_', ' ')}: {_lines(of)}" for what, of in script.items()))
        if isinstance(error, LakestreamError):
            error.script = script
        raise
    return result


def _lines(lines: list[int]) -> str:
    listed = ", ".join(map(str, lines))
    return f"line{'s' if len(lines) > 1 else ''} {listed}" if lines else "none"


def show_result(session: Session, result: Result) -> None:
    """Show rows as a table (their number on stderr) or a message; in JSON mode all of it."""
    if session.json:
        truncated = {"truncated": True} if result.truncated else {}
        print_json({**records(result.columns, result.fetchall()), "message": result.message, **truncated})
        return
    if result.columns:
        rows = result.fetchall()
        print_table(result.columns, rows)
        more = "; there are more, --no-daemon shows all" if result.truncated else ""
        session.say(f"({counted(len(rows), 'row')}{more})")
    if result.message:
        click.echo(result.message)
