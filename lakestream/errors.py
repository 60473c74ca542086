"""The one exception family of lakestream: errors are data, text and JSON are renderings.

Every error has a stable code, a message that names what was wrong, a hint that says what
would be right, and, for statements, the place with a caret::

    error[WATERMARK_BEYOND_EXPIRY]: WATERMARK(10s) is longer than EXPIRED_TIME(5s)
      --> line 1, column 58
       |
     1 | CREATE STREAM s ... STREAM_OPTIONS(WATERMARK(10s) | EXPIRED_TIME(5s)) ...
       |                                    ^^^^^^^^^
      hint: make WATERMARK at most 5s

Exit statuses follow sysexits(3): 1 a check that did not hold, 2 a bad statement or usage, 66 no
lake, 69 a missing prerequisite, 70 an internal error, 74 input/output, 75 try again later, 78
configuration.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from lakestream.sorting import natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


@dataclass(frozen=True)
class Place:
    """Where in a text something stands: lines and columns count from 1, in characters."""

    line: int
    column: int
    length: int = 1
    text: str = ""
    file: str | None = None

    def caret(self) -> str:
        """Render the line with a caret line under the place; empty when the text is not known."""
        lines = self.text.splitlines()
        if not 0 < self.line <= len(lines):
            return ""
        source = lines[self.line - 1]
        start = max(0, self.column - 1)
        # A window around the place keeps a statement of one very long line readable.
        left = max(0, start - 60)
        shown = source[left : left + 120]
        marks = " " * (start - left) + "^" * max(1, min(self.length, len(shown) - (start - left)))
        number = str(self.line)
        gutter = " " * len(number)
        return f" {gutter} |\n {number} | {shown}\n {gutter} | {marks}"


class LakestreamError(Exception):
    """Base of every error that lakestream raises on purpose.

    Attributes: ``code`` (stable, upper snake case), ``message``, ``hint`` (what would be right, may
    be empty), ``place`` (for statements), ``exit_status`` (of the command line), ``script`` (for a file of
    statements: the lines of those that ``ran``, ``failed`` and were ``not_run``), ``missing`` (the full name
    of what is not there), ``unknown`` (of what kind a name in a query is that there is none of, such as
    ``column``).
    """

    exit_status = 1

    def __init__(
        self, code: str, message: str, *, hint: str = "", place: Place | None = None, missing: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.missing = missing
        self.message = message
        self.hint = hint
        self.place = place
        self.script: dict[str, list[int]] | None = None
        self.unknown = ""

    @property
    def errors(self) -> tuple[LakestreamError, ...]:
        """Each thing that is wrong: the error itself, unless it is of several."""
        return (self,)

    def at(self, place: Place | None) -> LakestreamError:
        """Add a place that is known when the error has none yet, and return the error itself."""
        if self.place is None:
            self.place = place
        return self

    def in_file(self, file: str) -> LakestreamError:
        """Name the file of the statement in the place, and return the error itself."""
        if self.place is not None:
            self.place = replace(self.place, file=file)
        return self

    def render(self) -> str:
        """Render for a terminal: code, message, place with caret, hint."""
        parts = [f"error[{self.code}]: {self.message}"]
        if self.place is not None:
            where = f"line {self.place.line}, column {self.place.column}"
            parts.append(f"  --> {self.place.file}: {where}" if self.place.file else f"  --> {where}")
            caret = self.place.caret()
            if caret:
                parts.append(caret)
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)

    def to_dict(self) -> dict[str, object]:
        """Return the error as a JSON object."""
        data: dict[str, object] = {"code": self.code, "message": self.message}
        if self.hint:
            data["hint"] = self.hint
        if self.place is not None:
            data["place"] = {
                "file": self.place.file,
                "line": self.place.line,
                "column": self.place.column,
                "length": self.place.length,
            }
        if self.script is not None:
            data["script"] = self.script
        return data

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class StatementError(LakestreamError, ValueError):
    """A statement that cannot be accepted: syntax, names, types, options (exit status 2)."""

    exit_status = 2


class NotSupportedError(StatementError):
    """A statement, option or function that lakestream knows of and does not have (yet)."""

    def __init__(self, what: str, *, hint: str = "", place: Place | None = None) -> None:
        super().__init__("NOT_SUPPORTED", f"{what} is not supported", hint=hint, place=place)


def too_deep(place: Place | None = None) -> StatementError:
    """Return the error of a statement whose parts stand in one another more often than can be followed."""
    said = "the expression is nested too deeply"
    return StatementError("STATEMENT_TOO_DEEP", said, hint="split it", place=place)


class ConfirmationNeededError(StatementError):
    """A question that nobody was there to answer, or that was not answered with yes."""

    def __init__(self, question: str, *, hint: str) -> None:
        super().__init__("CONFIRMATION_NEEDED", question, hint=hint)


class LakeError(LakestreamError):
    """A lake that cannot be opened or used as asked (exit status 66)."""

    exit_status = 66


class PrerequisiteError(LakestreamError):
    """Something outside lakestream is missing: Java, jars, disk (exit status 69)."""

    exit_status = 69


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import what comes with an extra: PrerequisiteError EXTRA_MISSING where it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise PrerequisiteError(
            "EXTRA_MISSING", f"{error.name} is not installed", hint=f"pip install 'lakestream[{name}]'"
        ) from None


def refuse_compiled(parser: type) -> None:
    """Refuse sqlglot's parser once mypyc has compiled it: PrerequisiteError SQLGLOT_COMPILED.

    Such classes cannot be extended, and every dialect here extends one.
    """
    if hasattr(parser, "__mypyc_attrs__"):
        raise PrerequisiteError(
            "SQLGLOT_COMPILED",
            "sqlglotc is installed, whose compiled parser cannot be extended",
            hint="pip uninstall sqlglotc",
        )


class StreamError(LakestreamError):
    """A stream that cannot go on by itself; the code is its named state (exit status 1)."""


class StorageError(LakestreamError):
    """The storage refused or lost something (exit status 74)."""

    exit_status = 74


class BusyError(LakestreamError):
    """Another process holds what is needed, or a cluster has no room; try again later (exit status 75)."""

    exit_status = 75


class SeveralError(LakestreamError):
    """All that is wrong in what was read at once."""

    def __init__(self, code: str, message: str, errors: Sequence[LakestreamError]) -> None:
        super().__init__(code, message)
        self._errors = tuple(errors)

    @property
    def errors(self) -> tuple[LakestreamError, ...]:
        """Each of them, in order."""
        return self._errors

    def render(self) -> str:
        """Render each error, and how many there are."""
        return "\n\n".join([*(error.render() for error in self.errors), super().render()])

    def to_dict(self) -> dict[str, object]:
        """Return the error as a JSON object, with each of its errors."""
        return {**super().to_dict(), "errors": [error.to_dict() for error in self.errors]}

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  {error}" for error in self.errors)])


class ProjectError(SeveralError):
    """All that is wrong in the files of a project (exit status 1)."""

    def __init__(self, errors: Sequence[LakestreamError]) -> None:
        files = len({error.place.file for error in errors if error.place})
        count = f"{len(errors)} error{'s' if len(errors) != 1 else ''}"
        message = f"{count} in {files} file{'s' if files != 1 else ''}"
        super().__init__("PROJECT_INVALID", message, errors)


class SparkGoneError(LakestreamError):
    """Spark ended under the process that uses it (exit status 70)."""

    exit_status = 70


class ConfigError(LakestreamError):
    """A setting that is unknown or out of range (exit status 78)."""

    exit_status = 78


class SettingsError(SeveralError, ConfigError):
    """Several things that are wrong with settings (exit status 78)."""

    def __init__(self, errors: Sequence[LakestreamError]) -> None:
        super().__init__("SETTINGS_INVALID", f"{len(errors)} settings are wrong", errors)


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names, at most three, that one which is not known may stand for."""
    names = sorted(set(known), key=natural)
    close = get_close_matches(name.lower(), [n.lower() for n in names], n=3, cutoff=0.6)
    return [n for n in names if n.lower() in close]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with the closest known names, or with all of them when they are few."""
    names = sorted(set(known), key=natural)
    if close := nearest(name, names):
        return f"did you mean {' or '.join(close)}?"
    return f"known: {', '.join(names)}" if 0 < len(names) <= 20 else ""
