"""Statements that run, as SHOW QUERIES lists them and KILL QUERY ends them."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from lakestream.covered import redacted_text
from lakestream.errors import StatementError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from lakestream.clock import Clock


@dataclass
class RunningQuery:
    """A statement that runs, or ``waits`` for its turn: its id, who sent it from where, and when (UTC).

    ``end`` has it end.
    """

    id: str
    user: str
    address: str
    sql: str
    since: datetime
    end: Callable[[], None]
    waits: bool = True


@dataclass
class Queries:
    """The statements that one process runs for others; for several threads.

    Whoever asks is given by their name, as it stands with what they have sent; None: somebody who may see and
    end all.
    """

    clock: Clock
    _running: dict[str, RunningQuery] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def running(self, sql: str, user: str, address: str, end: Callable[[], None]) -> Iterator[RunningQuery]:
        """List a statement for as long as it runs or waits."""
        query = RunningQuery(uuid4().hex[:12], user, address, redacted_text(sql), self.clock.now(), end)
        with self._guard:
            self._running[query.id] = query
        try:
            yield query
        finally:
            with self._guard:
                del self._running[query.id]

    def of(self, asker: str | None) -> list[RunningQuery]:
        """Return the statements that somebody may see, the oldest first."""
        with self._guard:
            return [query for query in self._running.values() if asker in (None, query.user)]

    def kill(self, query_id: str, asker: str | None) -> None:
        """Have a statement end; StatementError QUERY_NOT_FOUND where somebody may see none of that id."""
        query = next((query for query in self.of(asker) if query.id == query_id), None)
        if query is None:
            raise StatementError(
                "QUERY_NOT_FOUND", f"no statement {query_id!r} runs", hint="SHOW QUERIES lists those that do"
            )
        query.end()
