"""Errors as clients of PostgreSQL are told them: by its five-character codes, and ours in the message."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pg_mimic import PgError

from lakestream.errors import BusyError, LakestreamError, StatementError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakestream.errors import Place
    from lakestream.server.shown.documents import Problem

_CODES = {
    "SYNTAX": "42601",
    "TABLE_NOT_FOUND": "42P01",
    "COLUMN_NOT_FOUND": "42703",
    "DATABASE_NOT_FOUND": "3F000",
    "TABLE_EXISTS": "42P07",
    "NOT_SUPPORTED": "0A000",
    "FORBIDDEN": "42501",
    "STATEMENT_TIMEOUT": "57014",
    "STATEMENT_KILLED": "57014",
    "STATEMENT_INTERRUPTED": "57014",
    "LAKE_LOCKED": "55P03",
    "BAD_VALUE": "22P02",
}
_UNKNOWN = {"column": "42703", "function": "42883"}
"""Of names that there are none of, which Spark's errors are about."""
_REFUSED, _BUSY, _FAILED = "42000", "53000", "58000"


def refusal(code: str, message: str, hint: str = "") -> PgError:
    """Return an error of the protocol, by PostgreSQL's code."""
    return PgError(code, message, **({"H": hint} if hint else {}))


def told(error: LakestreamError, sql: str = "") -> PgError:
    """Return an error of lakestream as the protocol tells it, with its place in what a client wrote.

    Where the lake reads other words than ``sql``, and the place is not found there, the detail shows them.
    """
    kind = _REFUSED if isinstance(error, StatementError) else _FAILED
    code = _UNKNOWN.get(error.unknown) or _CODES.get(
        error.code, _BUSY if isinstance(error, BusyError) else kind
    )
    told = refusal(code, f"{error.code}: {error.message}", error.hint)
    if error.place is not None and error.place.text:
        position = _position(error.place, sql)
        told.fields |= {"P": str(position)} if position else {"D": f"read as\n{error.place.caret()}"}
    return told


@contextmanager
def placed(characters: int) -> Iterator[None]:
    """Have the places of errors meanwhile count so many characters further; -1: there is none for them."""
    try:
        yield
    except PgError as error:
        position = error.fields.pop("P", None)
        if position is not None and characters >= 0:
            error.fields["P"] = str(int(position) + characters)
        raise


def _position(place: Place, sql: str) -> int:
    """Return where in a text a place is, counted from 1; 0 where its word stands there more or less often."""
    lines = place.text.splitlines(keepends=True)
    start = sum(map(len, lines[: place.line - 1])) + place.column - 1
    word = place.text[start : start + place.length].strip("`")
    if place.text == sql:
        return start + 1
    if not word or place.text.count(word) != sql.count(word):
        return 0
    before = sql.split(word)[: place.text[:start].count(word) + 1]
    return len(word.join(before)) + 1


def problem_told(problem: Problem) -> PgError:
    """Return what a request was refused for as the protocol tells it."""
    return refusal(_CODES.get(problem.code, _REFUSED), f"{problem.code}: {problem.message}", problem.hint)
