"""Statements beside the rounds: each worker has a lake and a Spark session of its own, as a process would."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.lake import Lake

WORKERS = 4
"""Statements that run at a time; further ones wait for their turn."""

_T = TypeVar("_T")


class Statements:
    """Runs what needs Spark or changes the lake, on lakes that ``open_lake`` makes, one for each worker.

    ``open_lake`` takes who answers the questions of statements.
    """

    def __init__(self, open_lake: Callable[[Callable[[str], bool]], Lake]) -> None:
        self._open = open_lake
        self._own = threading.local()
        self._lakes: list[Lake] = []
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="statement")

    async def run(self, work: Callable[[Lake], _T], *, yes: bool = False) -> _T:
        """Return what ``work`` makes of a lake.

        ``yes`` answers the questions of statements.
        """
        return await asyncio.wrap_future(self._pool.submit(self._work, work, yes=yes))

    def _work(self, work: Callable[[Lake], _T], *, yes: bool) -> _T:
        if not hasattr(self._own, "lake"):
            self._own.lake = self._open(lambda _: bool(self._own.yes))
            self._lakes.append(self._own.lake)
        self._own.yes = yes
        return work(self._own.lake)

    def close(self) -> None:
        """Let the running statements end, and take no more."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for lake in self._lakes:
            lake.close()
