"""From what a command raised to a message on stderr and an exit status.

The statuses are those of :mod:`lakestream.errors`; besides them 130 after Ctrl-C, and 0 when the
reader of stdout went away (``| head``).
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakestream.cli.base.output import print_json, wants_colour
from lakestream.cli.base.session import PROGRAM, Session
from lakestream.errors import LakestreamError
from lakestream.storage.places.refusals import disk_remedy, system_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


INTERRUPTED = 130


class CallError(LakestreamError):
    """A call that the command line does not know (exit status 2)."""

    exit_status = 2


class InternalError(LakestreamError):
    """An error nobody expected (exit status 70)."""

    exit_status = 70


class InputOutputError(LakestreamError):
    """The operating system refused a read or a write (exit status 74)."""

    exit_status = 74


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether the arguments ask for JSON; needed before (and when not) they can be parsed."""
    asked = [b for a, b in pairwise(arguments) if a == "--output"]
    asked += [a.partition("=")[2] for a in arguments if a.startswith("--output=")]
    return "json" in asked


def status_of(invoke: Callable[[], int | None], session: Session) -> int:
    """Run a command and return its exit status; what it raised is reported on stderr."""
    _tolerant_streams()
    try:
        with _logged(session), _without_traces(session):
            status = _without_panics(invoke) or 0
        _flush()
    except BrokenPipeError:
        _discard_stdout()
        return 0
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 (the last one to catch)
        return report(error, session)
    return status


@contextmanager
def _logged(session: Session) -> Iterator[None]:
    """Have what is logged be objects of JSON, a line each, where all else on stderr is JSON too."""
    if not session.json:
        yield
        return
    from lakestream.server.process.logs import JsonLines

    root, handler = logging.getLogger(), logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


@contextmanager
def _without_traces(session: Session) -> Iterator[None]:
    """Keep from stderr, unless it debugs, the traceback that py4j logs of a connection that breaks."""

    def is_told(record: logging.LogRecord) -> bool:
        return session.debug or "py4j" not in record.pathname

    root = logging.getLogger()
    root.addFilter(is_told)
    try:
        yield
    finally:
        root.removeFilter(is_told)


def _without_panics(invoke: Callable[[], int | None]) -> int | None:
    """Run a command; what a library in Rust panics of is an error of the storage."""
    try:
        return invoke()
    except (Exception, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        from lakestream.storage.tables.table import storage_refusal

        raise storage_refusal(error) or error from error


def describe(error: Exception) -> LakestreamError:
    """Return the error as one of the family: what is not of it becomes a usage, system or internal one."""
    if isinstance(error, LakestreamError):
        return error
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return CallError("USAGE", "no command is given", hint=f"see `{PROGRAM} --help`")
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else PROGRAM
        return CallError("USAGE", error.format_message(), hint=f"see `{path} --help`")
    if isinstance(error, click.ClickException):
        return CallError("USAGE", error.format_message())
    if isinstance(error, OSError):
        said = system_message(error)
        return InputOutputError("IO_ERROR", said, hint=disk_remedy(said))
    first_line = (str(error).strip() or "no message").splitlines()[0]
    return InternalError(
        "INTERNAL", f"{type(error).__name__}: {first_line}", hint="--debug shows where; please report it"
    )


def report(error: Exception, session: Session) -> int:
    """Write the error to stderr as the session asks for, and return its exit status."""
    failure = describe(error)
    if session.debug:
        import traceback

        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    if session.json:
        print_json({**failure.to_dict(), "exit_status": failure.exit_status}, err=True)
    elif isinstance(error, click.UsageError):
        error.show()
    else:
        show_error(failure)
    return failure.exit_status


def show_error(failure: LakestreamError) -> None:
    """Write the error with its place and hint to stderr."""
    head, newline, rest = failure.render().partition("\n")
    if wants_colour(sys.stderr):
        head = click.style(head, fg="red", bold=True)
    click.echo(head + newline + rest, err=True)


def _tolerant_streams() -> None:
    """Let a character that the locale cannot write become an escape instead of an error.

    Closed standard descriptors are taken by /dev/null, or the next file opened would get their
    number and whatever a child process prints.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (for good)
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (for good)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _flush() -> None:
    """Write out what is left while an error can still be reported (a full disk, a closed pipe)."""
    sys.stdout.flush()
    sys.stderr.flush()


def _discard_stdout() -> None:
    """Point stdout away, so that the interpreter does not fail on it once more at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
