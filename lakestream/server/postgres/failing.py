"""Errors as clients of PostgreSQL are told them: by its five-character codes, and ours in the message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pg_mimic import PgError

from lakestream.errors import BusyError, LakestreamError, StatementError

if TYPE_CHECKING:
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
}
_REFUSED, _BUSY, _FAILED = "42000", "53000", "58000"


def refusal(code: str, message: str, hint: str = "") -> PgError:
    """Return an error of the protocol, by PostgreSQL's code."""
    return PgError(code, message, **({"H": hint} if hint else {}))


def told(error: LakestreamError) -> PgError:
    """Return an error of lakestream as the protocol tells it, with its place in the detail."""
    kind = _REFUSED if isinstance(error, StatementError) else _FAILED
    code = _CODES.get(error.code, _BUSY if isinstance(error, BusyError) else kind)
    told = refusal(code, f"{error.code}: {error.message}", error.hint)
    if error.place is not None:
        told.fields["D"] = f"line {error.place.line}, column {error.place.column}"
    return told


def problem_told(problem: Problem) -> PgError:
    """Return what a request was refused for as the protocol tells it."""
    return refusal(_CODES.get(problem.code, _REFUSED), f"{problem.code}: {problem.message}", problem.hint)
