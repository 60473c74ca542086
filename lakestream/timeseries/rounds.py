"""The rounds of the tree: whoever has its claim runs what is due, beside the ticks of streams."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.storage.places.claims import try_claim
from lakestream.storage.places.leases import TREE
from lakestream.storage.tables.looks import one_look

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from lakestream.clock import Clock
    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.engine.rounds.wakeups import Alarm
    from lakestream.storage.places.claims import Claim
    from lakestream.storage.places.layout import Layout
    from lakestream.storage.sessions.jobs import OwnSession
    from lakestream.timeseries.tree import TreeEngine


@dataclass
class TreeRounds:
    """Runs continuous queries and triggers, one round at a time; all but the round is called by one thread.

    ``here`` gives the tree that the calling thread works with, ``beside`` makes one for another thread, whose
    session is ``own``.
    """

    layout: Layout
    clock: Clock
    here: Callable[[], TreeEngine]
    beside: Callable[[], TreeEngine]
    own: OwnSession
    _pool: ThreadPoolExecutor | None = None
    _own: TreeEngine | None = None
    _running: Future[list[TickReport]] | None = None
    _is_stale: bool = False

    @property
    def alarms(self) -> Mapping[str, Alarm]:
        """When the clock makes an execution due, as the last round left it."""
        return (self._own or self.here()).queries.alarms

    def run(self) -> list[TickReport]:
        """Run a round here, or wait for the one beside; no report: nothing is due, or others are at it."""
        if self._running is not None:
            wait([self._running])
            return self.collect()
        self._own = None
        if self.here().is_idle() or (claim := self._claim()) is None:
            return []
        try:
            return self.here().round()
        finally:
            claim.release()

    def begin(self, ended: Callable[[], None]) -> None:
        """Run a round in a thread of its own, if anything is due; it calls ``ended`` when it did some."""
        if self._running is not None:
            return
        own = self._own = self._own or self.beside()
        before = own.queries.alarms
        if own.is_idle() or (claim := self._claim()) is None:
            return

        def work() -> list[TickReport]:
            try:
                with one_look():
                    return own.round()
            finally:
                claim.release()

        def told(done: Future[list[TickReport]]) -> None:
            if done.exception() is not None or done.result() or own.queries.alarms is not before:
                ended()

        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="tree")
        self._running = self._pool.submit(work)
        self._running.add_done_callback(told)

    def collect(self) -> list[TickReport]:
        """Return what a round did that has ended; raises what raised out of it."""
        if self._running is None or not self._running.done():
            return []
        done, self._running = self._running, None
        if self._is_stale:
            self.forget()
        return done.result()

    def forget(self) -> None:
        """Have the tree read again what another process ran before."""
        self._is_stale = self._running is not None
        if not self._is_stale:
            self._own = None

    def close(self) -> None:
        """Let a round that runs end."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None
            self.own.close()

    def _claim(self) -> Claim | None:
        claim = try_claim(self.layout, TREE)
        if claim is not None:
            claim.say("continuous queries and triggers", self.clock.now().timestamp())
        return claim
