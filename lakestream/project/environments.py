"""Environments: streams write into databases of their own, ``DATABASE__NAME``, and read the same sources.

What another stream of the project writes is read from the environment too.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from lakestream.errors import NotSupportedError, ProjectError, StatementError
from lakestream.language.common.edited import Edit, Edited
from lakestream.language.common.source import Source
from lakestream.language.model import CreateStream, TableName
from lakestream.language.names import check_database_name
from lakestream.language.quoting import quoted_path
from lakestream.language.reading.words import read_words
from lakestream.project.definitions import model_place, tables_read

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakestream.errors import LakestreamError, Place
    from lakestream.language.model import StreamDefinition
    from lakestream.language.reading.words import Word
    from lakestream.project.files import Written

_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)


def check_environment(name: str) -> str:
    """Return the name of an environment. Raises StatementError BAD_NAME."""
    if _NAME.fullmatch(name):
        return name
    raise StatementError(
        "BAD_NAME", f"{name!r} cannot name an environment", hint="small letters, digits and _, such as dev"
    )


def database_in(environment: str, database: str) -> str:
    """Return the database that stands for another one in an environment.

    >>> database_in("dev", "main")
    'main__dev'
    """
    return f"{database}__{environment}"


def in_environment(statements: Sequence[Written], environment: str) -> list[Written]:
    """Return the statements with their streams, and what these write, in an environment.

    Raises ProjectError: NOT_SUPPORTED for an output that lies outside the lake.
    """
    outputs = {
        str(one.statement.definition.within(one.database).output).lower()
        for one in statements
        if isinstance(one.statement, CreateStream)
    }
    found: list[Written] = []
    errors: list[LakestreamError] = []
    for one in statements:
        try:
            found.append(_moved(one, environment, outputs))
        except StatementError as error:
            errors.append(error)
    if errors:
        raise ProjectError(errors)
    return found


def _moved(written: Written, environment: str, outputs: Iterable[str]) -> Written:
    if not isinstance(written.statement, CreateStream):
        return written
    definition = written.statement.definition
    if definition.layout.place is not None:
        error = NotSupportedError(
            "an output outside of the lake in an environment",
            hint="its LOCATION would be that of the other environments",
            place=definition.layout.place,
        )
        raise written.located(error)
    current = written.database
    named = [definition.name.within(current)] + ([definition.output.within(current)] * definition.stores)
    places = [model_place(definition.name)] + ([model_place(definition.output)] * definition.stores)
    moved = [*zip(named, places, strict=True)]
    moved += [
        (name, place) for name, place in tables_read(definition, current) if str(name).lower() in outputs
    ]
    try:
        layer = _edited(written.text, moved, environment)
        result = written.edited(layer)
    except StatementError as error:
        raise (error if error.place is not None and error.place.file else written.located(error)) from None
    assert isinstance(result.statement, CreateStream)
    _check_moved(definition.within(current), result.statement.definition.within(current), environment)
    return result


def _edited(text: str, moved: Iterable[tuple[TableName, Place]], environment: str) -> Edited:
    """Return a statement's text with names, at their places, in the environment's databases."""
    source = Source(text)
    words = {word.start: number for number, word in enumerate(read_words(source))}
    listed = read_words(source)
    edits = set()
    for name, place in moved:
        start = source.offset(place.line, place.column)
        database = database_in(environment, name.database or "")
        check_database_name(database, place)
        end = _end_of_name(listed, words[start])
        edits.add(Edit(start, end, quoted_path(database, name.name)))
    return Edited.by(text, [*edits])


def _end_of_name(words: Sequence[Word], first: int) -> int:
    """Return where ``[database.]name`` ends that begins with a word."""
    if first + 2 < len(words) and words[first + 1].is_symbol("."):
        return words[first + 2].end
    return words[first].end


def _check_moved(before: StreamDefinition, after: StreamDefinition, environment: str) -> None:
    """Hold what was read against what was meant."""
    names = [(before.name, after.name), *([(before.output, after.output)] if before.stores else [])]
    for old, new in names:
        assert new == replace(old, database=database_in(environment, old.database or "")), (old, new)
