"""The files of a project, read: every statement with its place, and all that is wrong with any of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakestream.errors import ConfigError, LakestreamError, Place, ProjectError, StatementError, did_you_mean
from lakestream.language import DIALECTS, parse_statement, split_script
from lakestream.language.common.edited import Edit, Edited
from lakestream.language.common.source import Source, decoded
from lakestream.language.model import UseDatabase
from lakestream.language.reading.parameters import Filling
from lakestream.language.reading.words import read_words
from lakestream.settings import PROJECT_FILE, project_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lakestream.language.iotdb.values import TreeStatement
    from lakestream.language.model import Statement
    from lakestream.language.reading.parameters import Parameter

FOLDERS = ("tables", "streams")
"""Where the files lie that define: which of them a statement stands in makes no difference."""

_DIALECT = re.compile(r"\s*(?:--[^\r\n]*\r?\n\s*)*?--[ \t]*dialect:[ \t]*(\w+)", re.ASCII)
_FIRST_DATABASE = "main"


@dataclass(frozen=True)
class Written:
    """A statement of a file: ``text`` stands behind blanks that keep its places.

    ``database`` is what names without one stand in. ``layers`` are what was replaced in the text, in order.
    """

    file: str
    dialect: str
    database: str
    statement: Statement | TreeStatement
    text: str
    layers: tuple[Edited, ...]

    @property
    def place(self) -> Place:
        """Where the statement begins in its file."""
        return self._as_written(self._first)

    @property
    def _first(self) -> Place:
        start = len(self.text) - len(self.text.lstrip())
        return Source(self.text).place(start, start + len(self.text[start:].split(None, 1)[0]))

    def _as_written(self, place: Place) -> Place:
        for layer in reversed(self.layers):
            place = layer.place(place)
        return replace(place, file=self.file)

    def located(self, error: LakestreamError) -> LakestreamError:
        """Return an error of the statement with its place in the file, which is the statement's at least."""
        error.place = self._as_written(error.place or self._first)
        return error

    def beginning(self, head: str) -> Written:
        """Return the statement with another beginning, in the place of all up to IF NOT EXISTS.

        It is not read again: ``head`` says of the same thing otherwise whether it may be there already.
        """
        words = read_words(Source(self.text))
        last = next(n for n, word in enumerate(words) if word.text.upper() in ("STREAM", "TABLE", "VIEW"))
        if words[last + 1].is_word("IF"):
            last += 3
        layer = Edited.by(self.text, [Edit(words[0].start, words[last].end, head)])
        return replace(self, text=layer.text, layers=(*self.layers, layer))

    def edited(self, layer: Edited) -> Written:
        """Return the statement read again from its text with edits. Raises StatementError."""
        try:
            statement = parse_statement(layer.text, dialect=self.dialect)
        except StatementError as error:
            raise replace(self, layers=(*self.layers, layer)).located(error) from None
        return replace(self, statement=statement, text=layer.text, layers=(*self.layers, layer))


def read_project(
    folder: Path, profile: str | None = None, given: Mapping[str, Parameter] | None = None
) -> list[Written]:
    """Return the statements of a project's files, in the order of the files' paths.

    Parameters are those of the project and of the profile; what is ``given`` wins. Raises ProjectError with
    everything that is wrong, ConfigError NO_PROJECT for a folder that is none.
    """
    if not (folder / PROJECT_FILE).is_file():
        raise ConfigError(
            "NO_PROJECT",
            f"{folder.absolute()} is no project: it has no {PROJECT_FILE}",
            hint="`lakestream new DIR` makes one",
        )
    reader = _Reader(Filling({**project_file(folder).parameters_of(profile), **(given or {})}))
    for path in _paths(folder):
        reader.read(path.relative_to(folder).as_posix(), path.read_bytes())
    reader.refuse_unused(project_file(folder).parameters_of(profile), folder / PROJECT_FILE)
    if reader.errors:
        raise ProjectError(reader.errors)
    return reader.found


def read_statements(text: str, name: str, dialect: str, given: Mapping[str, Parameter]) -> list[Written]:
    """Return the statements of a text that stands in a file of a name. Raises ProjectError."""
    reader = _Reader(Filling(given))
    reader.read_text(name, text, dialect)
    if reader.errors:
        raise ProjectError(reader.errors)
    return reader.found


def _paths(folder: Path) -> Iterator[Path]:
    for name in FOLDERS:
        yield from sorted(path for path in (folder / name).rglob("*.sql") if path.is_file())


@dataclass
class _Reader:
    """Reads files and keeps what is wrong, so that all of it is told at once."""

    filling: Filling
    found: list[Written] = field(default_factory=list)
    errors: list[LakestreamError] = field(default_factory=list)

    def read(self, name: str, content: bytes) -> None:
        try:
            text = decoded(content, name)
        except StatementError as error:
            self.errors.append(error)
            return
        said = _DIALECT.match(text)
        if said is not None and said[1] not in DIALECTS:
            place = Source(text, file=name).place(said.start(1), said.end(1))
            hint = did_you_mean(said[1], DIALECTS)
            message = f"there is no dialect {said[1]}"
            self.errors.append(StatementError("UNKNOWN_DIALECT", message, hint=hint, place=place))
            return
        self.read_text(name, text, said[1] if said else DIALECTS[0])

    def read_text(self, name: str, text: str, dialect: str) -> None:
        """Read the statements of a text, as far as its parameters have values."""
        edited, missing = self.filling.fill(text, name)
        self.errors += missing
        if missing:
            return
        try:
            parts = split_script(edited.text, dialect=dialect)
        except StatementError as error:
            if error.place is not None:
                error.place = replace(edited.place(error.place), file=name)
            self.errors.append(error)
            return
        database = _FIRST_DATABASE
        for part in parts:
            written = self._statement(Written(name, dialect, database, UseDatabase(""), part.text, (edited,)))
            if written is not None and isinstance(written.statement, UseDatabase):
                database = written.statement.name
            elif written is not None:
                self.found.append(written)

    def _statement(self, unread: Written) -> Written | None:
        try:
            return replace(unread, statement=parse_statement(unread.text, dialect=unread.dialect))
        except LakestreamError as error:
            self.errors.append(unread.located(error))
            return None

    def refuse_unused(self, names: Mapping[str, Parameter], path: Path) -> None:
        """Refuse parameters that no file uses; those of a file that could not be read are not known."""
        unused = [] if self.errors else sorted(names.keys() - self.filling.used)
        text = path.read_text(encoding="utf-8") if unused else ""
        for name in unused:
            found = re.search(rf"^[ \t]*[\"']?({re.escape(name)})[\"']?[ \t]*=", text, re.MULTILINE)
            start, end = found.span(1) if found else (0, 1)
            error = StatementError(
                "PARAMETER_UNUSED",
                f"no file uses the parameter {name}",
                hint=did_you_mean(name, self.filling.used) or "take it out",
                place=Source(text, file=PROJECT_FILE).place(start, end),
            )
            self.errors.append(error)
