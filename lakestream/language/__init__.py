"""The language of statements: text in, frozen values of :mod:`lakestream.language.model` out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.errors import Place, StatementError, too_deep
from lakestream.language.model import ShowStreams

if TYPE_CHECKING:
    from sqlglot import exp

    from lakestream.language.common.source import Source
    from lakestream.language.iotdb.values import TreeStatement
    from lakestream.language.model import Fragment, Statement

DIALECTS = ("tdengine", "iotdb", "ekuiper")
"""The dialects that statements can be written in."""

# `SHOW STREAMS` must answer at once: it is read without loading the SQL parser.
_SHOW_STREAMS = re.compile(
    r"\s*+SHOW\s++(?:([A-Za-z][A-Za-z0-9_]*+)\s*+\.\s*+)?STREAMS\s*+;?\s*", re.IGNORECASE | re.ASCII
)


def parse_script(
    text: str, *, dialect: str = "tdengine", file: str | None = None
) -> list[Statement | TreeStatement]:
    """Return the statements of a script, separated by ``;`` and checked as far as text alone allows.

    Empty for a script of nothing but blanks, comments and semicolons. ``file`` is named in places.
    Raises StatementError (NotSupportedError for what is known and not built) for the first statement
    at fault, with line and column in the whole script.
    """
    _check_dialect(dialect)
    quick = _SHOW_STREAMS.fullmatch(text)
    if quick:
        return [ShowStreams(quick[1])]
    try:
        return _read(text, dialect, file)
    except RecursionError:
        raise too_deep() from None
    except StatementError as error:
        raise error.in_file(file) if file else error from error.__cause__


def _read(text: str, dialect: str, file: str | None) -> list[Statement | TreeStatement]:
    if dialect == "iotdb":
        from lakestream.language.iotdb import statements

        return [*statements.parse_script(text, file=file)]
    from lakestream.language import parser

    return [*parser.parse_script(text, dialect=dialect, file=file)]


@dataclass(frozen=True)
class ScriptPart:
    """A statement of a script: the line it begins in, and its text behind blanks that keep its places."""

    line: int
    text: str


def script_parts(text: str, *, dialect: str = "tdengine") -> list[ScriptPart]:
    """Return the statements of a script to be run one by one, once all of it could be read.

    Raises what :func:`parse_script` raises.
    """
    parse_script(text, dialect=dialect)
    return split_script(text, dialect=dialect)


def split_script(text: str, *, dialect: str = "tdengine") -> list[ScriptPart]:
    """Return the statements of a script unread; StatementError for a quote or a character alone."""
    _check_dialect(dialect)
    from lakestream.language.common.source import Source
    from lakestream.language.iotdb.literals import WORD_CHARACTERS
    from lakestream.language.reading.words import read_words, split_words

    source = Source(text)
    words = split_words(read_words(source, WORD_CHARACTERS if dialect == "iotdb" else None))
    return [_part(source, statement[0].start, statement[-1].end) for statement in words]


def _part(source: Source, start: int, end: int) -> ScriptPart:
    line, column = source.position(start)
    return ScriptPart(line, "\n" * (line - 1) + " " * (column - 1) + source.text[start:end])


def parse_statement(text: str, *, dialect: str = "tdengine") -> Statement | TreeStatement:
    """Return the one statement of a text. Raises StatementError, STATEMENT_COUNT for none or several."""
    statements = parse_script(text, dialect=dialect)
    if len(statements) != 1:
        found = "no statement" if not statements else f"{len(statements)} statements"
        raise StatementError(
            "STATEMENT_COUNT", f"one statement is wanted, the text has {found}", place=Place(1, 1, text=text)
        )
    return statements[0]


def parse_expression(f: Fragment) -> exp.Expr:
    """Return the tree of an expression; see :mod:`lakestream.language.expressions.parsing`."""
    from lakestream.language.expressions import parsing as expressions

    return expressions.parse_expression(f)


def parse_query(f: Fragment) -> exp.Query:
    """Return the tree of a query; see :mod:`lakestream.language.expressions.parsing`."""
    from lakestream.language.expressions import parsing as expressions

    return expressions.parse_query(f)


def _check_dialect(dialect: str) -> None:
    if dialect not in DIALECTS:
        raise StatementError(
            "UNKNOWN_DIALECT", f"there is no dialect {dialect}", hint=f"known: {', '.join(DIALECTS)}"
        )


__all__ = [
    "DIALECTS",
    "ScriptPart",
    "parse_expression",
    "parse_query",
    "parse_script",
    "parse_statement",
    "script_parts",
    "split_script",
]
