"""Cursors: DECLARE keeps a query's rows under a name, FETCH and MOVE go on in them, CLOSE ends.

psycopg's named cursors, pandas with ``chunksize`` and ODBC read large results so. They go forward only.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from pg_mimic.connection import PortalEntry

from lakestream.clock import SystemClock
from lakestream.server.postgres.failing import refusal
from lakestream.server.postgres.rows.portals import Answer, Part

if TYPE_CHECKING:
    from datetime import datetime

    from pg_mimic import ResultColumn
    from pg_mimic.connection import Connection

    from lakestream.server.postgres.rows.portals import Asked

_NAME = r'(?P<name>"(?:[^"]|"")+"|\w+)'
_DECLARE = re.compile(
    rf"declare\s+{_NAME}\s+(?:(?:asensitive|insensitive|(?:no\s+)?scroll)\s+)*"
    r"cursor\s+(?:(?P<hold>with|without)\s+hold\s+)?for\s+(?P<query>.+)",
    re.IGNORECASE | re.DOTALL,
)
_STEP = re.compile(
    r"(?P<word>fetch|move)\s+(?:(?P<way>next|forward\s+all|all|forward\s+\d+|\d+|forward)\s+)?"
    rf"(?:(?:from|in)\s+)?{_NAME}\s*",
    re.IGNORECASE,
)
_MOST_DIGITS = 18
_CLOSE = re.compile(rf"close\s+{_NAME}\s*", re.IGNORECASE)
_OF_CURSORS = re.compile(r"(declare|fetch|move|close)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Declared:
    """A cursor that is to be: its name, its query, whether it stays when its transaction ends."""

    name: str
    query: str
    is_held: bool


@dataclass(frozen=True)
class Step:
    """How many rows of a cursor are read (None: all that are left), and whether they are given."""

    name: str
    rows: int | None
    gives_rows: bool


@dataclass(frozen=True)
class Closed:
    """The name of a cursor that ends; empty for every one."""

    name: str


def cursor_statement(sql: str) -> Declared | Step | Closed | None:
    """Return what a statement does with a cursor, None for another one. Raises PgError for an unknown way."""
    if not _OF_CURSORS.match(sql):
        return None
    declared, step, closed = (form.fullmatch(sql) for form in (_DECLARE, _STEP, _CLOSE))
    if declared:
        is_held = (declared["hold"] or "").lower() == "with"
        return Declared(_plain(declared["name"]), declared["query"], is_held)
    if step:
        return Step(_plain(step["name"]), _count(step["way"] or "next"), step["word"].lower() == "fetch")
    if closed:
        return Closed("" if closed["name"].lower() == "all" else _plain(closed["name"]))
    raise refusal(
        "0A000", "NOT_SUPPORTED: cursors are of text and go forward only", "FETCH [FORWARD] n FROM name"
    )


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def _count(way: str) -> int | None:
    last = way.lower().split()[-1]
    if last.isdigit():
        if len(last) > _MOST_DIGITS:
            raise refusal("22003", f"{last[:_MOST_DIGITS]}… rows are more than can be counted")
        return int(last)
    return None if last == "all" else 1


class Cursors:
    """The open cursors of a connection; they are portals of it, which a client may ask for their columns."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._clock = connection, SystemClock()
        self._open: dict[str, tuple[Declared, datetime]] = {}
        self._lasting: set[str] = set()
        self.running = ""
        """The portal that is run: it cannot be read, or closed, by what it runs."""

    def rows(self) -> list[dict[str, object]]:
        """Return what ``pg_cursors`` tells of those that are open, and that a client has not closed."""
        return [
            {
                "name": name,
                "statement": declared.query,
                "is_holdable": declared.is_held,
                "is_binary": False,
                "is_scrollable": False,
                "creation_time": since,
            }
            for name, (declared, since) in self._open.items()
            if name in self._connection.portals
        ]

    def require_place(self, declared: Declared) -> None:
        """Raise PgError where a cursor cannot be declared: a name that is taken, or no transaction."""
        if not declared.is_held and self._connection.tx_status == b"I":
            raise refusal(
                "25P01", "a cursor WITHOUT HOLD lives in a transaction", "BEGIN, or DECLARE … WITH HOLD"
            )
        if declared.name in self._connection.portals:
            raise refusal("42P03", f'the cursor "{declared.name}" is there already')

    def open(self, declared: Declared, portal: Asked, columns: list[ResultColumn]) -> None:
        """Keep the rows of a query under a name."""
        self._open[declared.name] = declared, self._clock.now()
        self._connection.portals[declared.name] = PortalEntry(portal, columns, declared.query)

    async def read(self, step: Step) -> Answer:
        """Return the next rows of a cursor, or pass over them. Raises PgError for an unknown one."""
        self._require(step.name)
        asked = cast("Asked", self._connection.portals[step.name].portal)
        if (columns := await asked.columns()) is None:
            raise refusal("55000", f'"{step.name}" is of no query, and has no rows')
        rows = Part(asked, sys.maxsize if step.rows is None else step.rows)
        if step.gives_rows:
            return Answer(columns, rows)
        passed = 0
        while (piece := await rows.take(sys.maxsize)) is not None:
            passed += piece.num_rows
        return Answer(written=passed)

    def close(self, closed: Closed) -> None:
        """End a cursor, or all. Raises PgError for an unknown one."""
        if closed.name:
            self._require(closed.name, in_use="24000")
        self._forget([closed.name] if closed.name else [*self._open])

    def end_transaction(self, *, failed: bool) -> None:
        """End cursors and portals that live no longer than their transaction, or began in one that failed."""
        held = {name for name, (declared, _) in self._open.items() if declared.is_held}
        kept = held & self._lasting if failed else held
        self._forget([name for name in {*self._open, *self._connection.portals} if name not in kept])
        self._lasting = kept

    def _forget(self, names: list[str]) -> None:
        for name in names:
            self._open.pop(name, None)
            if (entry := self._connection.portals.pop(name, None)) is not None:
                cast("Asked", entry.portal).close()

    def _require(self, name: str, in_use: str = "55000") -> None:
        # One that was bound as a portal is a cursor, too; one that was declared may be closed as a portal.
        if name not in self._connection.portals:
            raise refusal("34000", f'there is no cursor "{name}"')
        if name == self.running:
            raise refusal(in_use, f'the cursor "{name}" is in use')
