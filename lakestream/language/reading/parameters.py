"""Parameters of statements: ``${name}`` stands for a value, and where it stands says what is made of it.

Within quotes it is text, within back-ticks a name, else a number, a truth value or a duration. A value is
put there escaped, or as one word, so that it can never be anything else of the statement. ``$${`` is ``${``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakestream.errors import StatementError, did_you_mean
from lakestream.language.common.edited import Edit, Edited
from lakestream.language.common.source import Source
from lakestream.language.reading.words import enclosed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Parameter = str | int | float | bool
"""A value of a parameter."""

_PARAMETER = re.compile(r"\$(?P<escape>\$?)\{(?P<name>[^{}\r\n]*)\}")
_DURATION = re.compile(r"\d+[A-Za-z]{1,2}", re.ASCII)
_UNSTORABLE = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")


@dataclass
class Filling:
    """Fills texts with the ``values`` of parameters, and keeps the names of those ``used``."""

    values: Mapping[str, Parameter]
    used: set[str] = field(default_factory=set)

    def fill(self, text: str, file: str | None = None) -> tuple[Edited, list[StatementError]]:
        """Return a text with values in the place of its parameters, and what is wrong with any of them.

        That is, with its place: PARAMETER_MISSING, PARAMETER_INVALID for a value that cannot stand there,
        and UNCLOSED.
        """
        source = Source(text, file=file)
        edits: list[Edit] = []
        errors: list[StatementError] = []
        try:
            for mark, start, end in _pieces(source):
                for found in _PARAMETER.finditer(text, start, end):
                    try:
                        edits.append(Edit(found.start(), found.end(), self._replaced(source, found, mark)))
                    except StatementError as error:
                        errors.append(error)
        except StatementError as error:
            errors.append(error)
        return Edited.by(text, edits), errors

    def _replaced(self, source: Source, found: re.Match[str], mark: str) -> str:
        if found["escape"]:
            return found.group()[1:]
        name, place = found["name"].strip(), source.place(found.start(), found.end())
        if name not in self.values:
            raise StatementError(
                "PARAMETER_MISSING",
                f"there is no parameter {name}",
                hint=did_you_mean(name, self.values) or "give it under [parameters] in lakestream.toml",
                place=place,
            )
        self.used.add(name)
        try:
            text = _within(mark, self.values[name]) if mark else _bare(self.values[name])
        except ValueError as error:
            raise StatementError(
                "PARAMETER_INVALID",
                f"the parameter {name} is {self.values[name]!r}, which {error}",
                hint=f"'${{{name}}}' is a text, `${{{name}}}` a name; numbers, true, false and durations "
                "such as 15m stand alone",
                place=place,
            ) from None
        return text if mark else _apart(source.text, found, text)


def _pieces(source: Source) -> Iterator[tuple[str, int, int]]:
    """Yield what is no comment: the mark of quotes or back-ticks around it, or none, and its offsets."""
    text, at = source.text, 0
    for mark, start, end in enclosed(source, text):
        yield "", at, start
        at = len(text) if end < 0 else end
        if len(mark) == 1:
            yield mark, start, at
    yield "", at, len(text)


def _within(mark: str, value: Parameter) -> str:
    """Return a value as it stands within quotes or back-ticks; ValueError for what cannot."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if _UNSTORABLE.search(text):
        raise ValueError("holds characters that may not stand in a statement")
    if mark == "`":
        return text.replace("`", "``")
    return text.replace("\\", "\\\\").replace(mark, f"\\{mark}")


def _bare(value: Parameter) -> str:
    """Return a value as one word: a number, a truth value, a duration; ValueError for any other."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str) and not _DURATION.fullmatch(value):
        raise ValueError("is text, and cannot stand without quotes")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("is no number of a statement")
    return str(value)


def _apart(text: str, found: re.Match[str], word: str) -> str:
    """Return a word with blanks where it would otherwise be one with what stands beside it."""
    before, after = text[: found.start()][-1:], text[found.end() :][:1]
    left = " " if before and not (before.isspace() or before in "(,=") else ""
    right = " " if after and not (after.isspace() or after in "),;") else ""
    return f"{left}{word}{right}"
