"""The version of a table that a query asks for: ``VERSION AS OF``, ``TIMESTAMP AS OF``, ``table@v3``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.errors import NotSupportedError, StatementError

if TYPE_CHECKING:
    from lakestream.language.expressions.inner_windows import PlaceOf

_MAX_VERSION = 18
_COMPACT = "%Y%m%d%H%M%S%f"


@dataclass(frozen=True)
class AsOf:
    """A version of a table by its number, or by an instant: ISO text, in the lake's zone by default."""

    version: int | None = None
    instant: str | None = None


def as_of(table: exp.Table, place: PlaceOf) -> AsOf | None:
    """Return the version that a table of a query is asked for, None for the newest one.

    Raises StatementError BAD_VERSION for what is no number or time, NOT_SUPPORTED for ranges of versions.
    """
    said = table.args.get("version")
    if said is None:
        return None
    if said.args["kind"] not in ("AS OF", "AT"):
        raise NotSupportedError(f"{said.args['kind']} of versions", hint="AS OF", place=place(table))
    value = said.args["expression"]
    where = place(value) if value is not None else place(table)
    if said.name == "VERSION":
        text = value.name if isinstance(value, exp.Literal) else ""
        if not text.isdigit() or len(text) > _MAX_VERSION:
            raise StatementError("BAD_VERSION", "VERSION AS OF takes a version's number", place=where)
        return AsOf(version=int(text))
    return AsOf(instant=_instant(value, compact=said.args["kind"] == "AT", place=place))


def _instant(value: exp.Expr, *, compact: bool, place: PlaceOf) -> str:
    literal = value.this if isinstance(value, exp.Cast) and value.is_type("timestamp") else value
    try:
        if compact:
            return datetime.strptime(literal.name, _COMPACT).isoformat()  # noqa: DTZ007 - in the lake's zone
        if isinstance(literal, exp.Literal) and literal.is_string:
            return datetime.fromisoformat(literal.name).isoformat()
    except ValueError:
        pass
    raise StatementError(
        "BAD_VERSION",
        "TIMESTAMP AS OF takes a time in quotes",
        hint="such as '2025-01-01 00:00:00.000'",
        place=place(value),
    )
