"""Statements beside the rounds: each worker has a lake and a session of its own, as a process would."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from lakestream.errors import BusyError
from lakestream.storage.tables.table import refusals_named

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lakestream.lake import Lake
    from lakestream.observation.queries import Queries, RunningQuery

WORKERS = 4
"""Statements that run at a time; further ones wait for their turn."""

_INTERRUPT_SECONDS = 0.5

_T = TypeVar("_T")


@dataclass(frozen=True)
class Sent:
    """A statement that was sent: what it says, by whom, from where.

    ``at_once``: it is about others that run, and waits for none of them.
    """

    sql: str
    user: str = ""
    address: str = ""
    at_once: bool = False


@dataclass
class _Turn:
    """A statement's turn: as what it is listed, and the lake it runs on, once it does."""

    query: RunningQuery
    lake: Lake | None = None


class Statements:
    """Runs what computes or changes the lake, on lakes that ``open_lake`` makes, one for each worker.

    ``open_lake`` takes who answers the questions of statements; ``queries`` lists what runs; ``seconds`` is
    how long one may take, with the time that it waits for its turn, 0: as long as it does. Of one client
    ``most`` run or wait, 0: any.
    """

    def __init__(
        self,
        open_lake: Callable[[Callable[[str], bool]], Lake],
        seconds: float,
        queries: Queries,
        most: int = 0,
    ) -> None:
        self.queries = queries
        """The statements that run or wait."""
        self._open, self._seconds, self._most = open_lake, seconds, most
        self._asked: Counter[str] = Counter()
        self._own = threading.local()
        self._lakes: list[Lake] = []
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="statement")
        self._at_once = ThreadPoolExecutor(1, thread_name_prefix="queries")
        self._interrupting: set[asyncio.Task[None]] = set()

    async def run(
        self,
        work: Callable[[Lake], _T],
        gone: Callable[[], Awaitable[None]],
        sent: Sent,
        *,
        yes: bool = False,
        limited: bool = True,
    ) -> _T:
        """Return what ``work`` makes of a lake, unless whoever asked is ``gone`` before.

        ``yes`` answers the questions of statements; ``limited``: only so many seconds may be taken. What does
        not come to its end is interrupted. Raises BusyError STATEMENT_TIMEOUT, STATEMENT_KILLED, SERVER_BUSY,
        TOO_MANY_STATEMENTS.
        """
        who = sent.user
        if sent.at_once:
            return await self._run(work, gone, sent, yes=yes, limited=limited)
        if self._most and self._asked[who] >= self._most:
            raise BusyError(
                "TOO_MANY_STATEMENTS",
                f"{self._most} statements of {who} run already or wait for their turn",
                hint="wait for one to end; the setting client_statements says how many there may be",
            )
        self._asked[who] += 1
        try:
            return await self._run(work, gone, sent, yes=yes, limited=limited)
        finally:
            self._asked[who] -= 1
            if not self._asked[who]:
                del self._asked[who]

    async def _run(
        self,
        work: Callable[[Lake], _T],
        gone: Callable[[], Awaitable[None]],
        sent: Sent,
        *,
        yes: bool,
        limited: bool,
    ) -> _T:
        killed, loop = asyncio.Event(), asyncio.get_running_loop()

        def end() -> None:
            loop.call_soon_threadsafe(killed.set)

        with self.queries.running(sent.sql, sent.user, sent.address, end) as query:
            turn = _Turn(query)
            pool = self._at_once if sent.at_once else self._pool
            running = pool.submit(self._work, turn, work, yes=yes)
            answer, leaving = asyncio.wrap_future(running), asyncio.ensure_future(gone())
            killing = asyncio.ensure_future(killed.wait())
            try:
                seconds = self._seconds if limited and self._seconds else None
                first: set[asyncio.Future[Any]] = {answer, leaving, killing}
                await asyncio.wait(first, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if answer.done():
                    return answer.result()
            finally:
                leaving.cancel()
                killing.cancel()
                if not answer.done():
                    answer.add_done_callback(_heard)
                    self._interrupt(running, turn)
            if killed.is_set():
                raise BusyError("STATEMENT_KILLED", f"the statement was ended by KILL QUERY '{query.id}'")
            raise self._not_done(leaving, turn)

    def _work(self, turn: _Turn, work: Callable[[Lake], _T], *, yes: bool) -> _T:
        if not hasattr(self._own, "lake"):
            self._own.lake = self._open(lambda _: bool(self._own.yes))
            self._lakes.append(self._own.lake)
        self._own.yes = yes
        turn.lake = self._own.lake
        turn.query.waits = False
        with refusals_named(), self._own.lake.shared_spark.guests.asking(turn.query.user):
            return work(self._own.lake)

    def _interrupt(self, running: Future[Any], turn: _Turn) -> None:
        """Have a statement end: take it out of the queue, or fail what it computes, again and again."""

        async def interrupt() -> None:
            while not running.done():
                if turn.lake is not None:
                    await asyncio.to_thread(turn.lake.interrupt)
                await asyncio.sleep(_INTERRUPT_SECONDS)

        if not running.cancel():
            task = asyncio.ensure_future(interrupt())
            self._interrupting.add(task)
            task.add_done_callback(self._interrupting.discard)

    def _not_done(self, leaving: asyncio.Future[None], turn: _Turn) -> BusyError:
        if leaving.done():
            return BusyError("STATEMENT_INTERRUPTED", "whoever sent the statement has gone")
        if turn.lake is None:
            return BusyError(
                "SERVER_BUSY",
                f"other statements have not left room for this one in {self._seconds:g} s",
                hint="try again",
            )
        return BusyError(
            "STATEMENT_TIMEOUT",
            f"the statement has not ended in {self._seconds:g} s and was interrupted",
            hint="the setting statement_seconds gives it longer; --no-daemon runs it beside the daemon",
        )

    def close(self) -> None:
        """Let the running statements end, and take no more."""
        for pool in (self._pool, self._at_once):
            pool.shutdown(wait=True, cancel_futures=True)
        for lake in self._lakes:
            lake.close()


def _heard(answer: asyncio.Future[Any]) -> None:
    """Take what comes of a statement that nobody waits for any more: asyncio logs what is not taken."""
    if not answer.cancelled():
        answer.exception()
