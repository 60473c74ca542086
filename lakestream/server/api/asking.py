"""Statements that somebody sends, by whatever protocol: whether they may, what is noted, what comes of it."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from lakestream.server.api.guard import RequestRefused
from lakestream.server.api.permits import asker_of, is_about_queries, kills, require_statements, sees_as
from lakestream.server.process.statements import Sent
from lakestream.storage.records.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from contextlib import AbstractContextManager

    from lakestream.engine.base.result import Result
    from lakestream.lake import Lake
    from lakestream.server.news.live import Live
    from lakestream.server.process.statements import Statements
    from lakestream.server.shown.documents import Health, StatementRequest
    from lakestream.server.shown.reader import Reader
    from lakestream.storage.records.audit import Audit
    from lakestream.storage.records.tokens import Principal

    _T = TypeVar("_T")

ROW_LIMIT = 10_000
"""Most rows of a result over HTTP."""


@dataclass(frozen=True)
class Service:
    """What is asked; ``metrics`` gives the text for Prometheus, ``health`` whether rounds go on."""

    reader: Reader
    statements: Statements
    live: Live
    audit: Audit
    metrics: Callable[[], bytes]
    health: Callable[[], Health]


@dataclass(frozen=True)
class Asker:
    """Somebody who asks, and the address that they ask from."""

    principal: Principal
    address: str

    @property
    def sees(self) -> str | None:
        """Whose statements they may see and end: their own; None: those of all."""
        return sees_as(self.principal, self.address)

    def sent(self, sql: str, *, at_once: bool = False) -> Sent:
        """Return what they have done, as it is listed while it runs."""
        return Sent(sql, asker_of(self.principal, self.address), self.address, at_once)


async def run_statements(
    service: Service,
    asker: Asker,
    asked: StatementRequest,
    gone: Callable[[], Awaitable[None]],
    answer: Callable[[Result, str], _T],
    limit: int = ROW_LIMIT,
) -> _T:
    """Run statements and return what ``answer`` makes of the last one's result and the current database.

    Of the result there are at most ``limit`` rows. Raises what :meth:`Statements.run` does, LakestreamError
    of the statements, and RequestRefused FORBIDDEN.
    """

    def done(lake: Lake) -> _T:
        return answer(lake.sql(asked.sql, asked.dialect, limit=limit), lake.database)

    return await run_permitted(service, asker, asked, gone, done)


async def run_permitted(
    service: Service,
    asker: Asker,
    asked: StatementRequest,
    gone: Callable[[], Awaitable[None]],
    done: Callable[[Lake], _T],
    said: str = "",
) -> _T:
    """Return what is ``done`` with a lake, for which somebody needs what they need for the statements asked.

    ``said`` is how they have said it, where it is otherwise. Raises what :func:`run_statements` does.
    """
    said = said or asked.sql

    def work(lake: Lake) -> _T:
        with _permitted(service, asker, asked, said):
            lake.database = asked.database
            lake.restrict(asker.principal.databases, asker.sees)
            return done(lake)

    at_once = is_about_queries(asked.sql, asked.dialect)
    return await service.statements.run(work, gone, asker.sent(said, at_once=at_once), yes=asked.yes)


@contextmanager
def noting_refusal(service: Service, asker: Asker, did: str) -> Iterator[None]:
    """Note what somebody with a token was not let do."""
    try:
        yield
    except RequestRefused as refusal:
        service.audit.note(asker.principal.name, asker.address, did, refusal.problem.code)
        raise


def permit(service: Service, asker: Asker, asked: StatementRequest, said: str) -> Scope:
    """Return the scope that statements need. Raises RequestRefused, and notes what was ``said`` then."""
    with noting_refusal(service, asker, said):
        return require_statements(asker.principal, asked.sql, asked.dialect, asked.database)


def _permitted(
    service: Service, asker: Asker, asked: StatementRequest, said: str
) -> AbstractContextManager[None]:
    """Refuse statements that somebody may not run; return what notes those that change something."""
    scope = permit(service, asker, asked, said)
    if scope is Scope.READ and not kills(asked.sql):
        return nullcontext()
    return service.audit.noting(asker.principal.name, asker.address, said)
