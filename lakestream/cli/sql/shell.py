"""The interactive shell: statements over several lines, with a history."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakestream.cli.base.failures import report
from lakestream.cli.base.session import PROGRAM, Session
from lakestream.cli.sql.sql_command import run_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakestream.cli.base.remote import RemoteLake
    from lakestream.lake import Lake

PROMPT = f"{PROGRAM}> "
CONTINUATION = "... ".rjust(len(PROMPT))
HISTORY_LENGTH = 1_000
_LEAVE = frozenset({"exit", "quit", r"\q"})
_HELP = "A statement ends with `;`. Ctrl-C forgets it, Ctrl-D or `exit` leaves. SHOW TABLES; SHOW STREAMS;"


def run_shell(session: Session, lake: Lake | RemoteLake, dialect: str) -> None:
    """Read statements and run them until the end of input; an error ends its statement only."""
    _say(_HELP)
    with _history():
        while (text := _read_statement()) is not None:
            try:
                run_text(session, lake, text, dialect=dialect)
            except KeyboardInterrupt:
                _say("\ninterrupted")
            except Exception as error:  # noqa: BLE001 (a shell outlives every error)
                report(error, session)


def _say(message: str) -> None:
    click.echo(message, err=True)


def _read_statement() -> str | None:
    """Return the next text that ends with `;`, or None at the end of input."""
    lines: list[str] = []
    while True:
        try:
            line = input(CONTINUATION if lines else PROMPT)
        except EOFError:
            _say("")
            return None
        except KeyboardInterrupt:
            _say("")
            lines.clear()
            continue
        if not lines and line.strip().rstrip(";").lower() in _LEAVE:
            return None
        if lines or line.strip():
            lines.append(line)
        text = "\n".join(lines)
        if is_complete(text):
            return text


def is_complete(text: str) -> bool:
    """Return whether the last thing in the text is a `;` outside quotes and comments.

    >>> is_complete("SELECT ';'"), is_complete("SELECT 1; -- done")
    (False, True)
    """
    ended = False
    at = 0
    while at < len(text):
        skipped = _after_quote_or_comment(text, at)
        if skipped is None:
            if not text[at].isspace():
                ended = text[at] == ";"
            at += 1
        else:
            ended = ended and text[at] in "-/"
            at = skipped
    return ended


def _after_quote_or_comment(text: str, at: int) -> int | None:
    """Return where the quote or comment that begins here ends; None when none begins here."""
    if text.startswith("--", at):
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        return len(text) if end < 0 else end + 2
    if text[at] in "'\"`":
        end = at + 1
        while end < len(text) and text[end] != text[at]:
            end += 2 if text[end] == "\\" and text[at] != "`" else 1
        return end + 1
    return None


@contextmanager
def _history() -> Iterator[None]:
    """Keep the lines typed in a file between shells, where Python has readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    path = history_file()
    # The first shell has no history; one that cannot be read is no reason to stop.
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(HISTORY_LENGTH)
    try:
        yield
    finally:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(path)
            path.chmod(0o600)  # statements may hold what is nobody else's business
        except OSError as error:
            _say(f"the history was not saved: {error}")


def history_file() -> Path:
    """Return the history's place by the XDG rules: ``$XDG_STATE_HOME/lakestream/history``."""
    given = os.environ.get("XDG_STATE_HOME")
    return (Path(given) if given else Path.home() / ".local" / "state") / PROGRAM / "history"
