"""Lanes: turns of streams side by side, each in a thread with a slot of its own.

All that is concurrent about ticks is here. A turn shares with the round and with other turns what is made for
several threads: the registry, the outbox, and what a stream was tried for. The streams of a turn are claimed,
so nobody else ticks them; when it is over, the round has them back.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING

from lakestream.engine.rounds.engine import engine_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakestream.clock import Clock
    from lakestream.engine.base.turns import Turn
    from lakestream.engine.lanes.slot import Slot
    from lakestream.engine.rounds.engine import Engine
    from lakestream.engine.rounds.runtime import StreamRuntime, TickReport


WORTH_SECONDS = 10.0
"""What a priority is worth: so much longer a turn counts as having waited."""


@dataclass
class _Done:
    """A turn that has ended, with its engine, what it did, and what raised out of it."""

    turn: Turn
    own: Engine
    reports: list[TickReport]
    error: BaseException | None = None


@dataclass
class Lanes:
    """Takes the turns that an engine's rounds leave, at most ``most`` at a time.

    ``new_slot`` makes what a thread works with, ``here`` gives that of the calling thread. ``priorities`` are
    those of streams by name, 0 for others: of the turns that wait whichever has waited longest comes first,
    each of the priority counting as ``WORTH_SECONDS`` more, so that none waits for ever. All but what runs in
    lanes is called by one thread.
    """

    engine: Engine
    new_slot: Callable[[], Slot]
    here: Callable[[], Slot]
    most: int
    priorities: Mapping[str, int]
    clock: Clock
    _waiting: list[tuple[Turn, float]] = field(default_factory=list)
    _running: list[Turn] = field(default_factory=list)
    _done: SimpleQueue[_Done] = field(default_factory=SimpleQueue)
    _pool: ThreadPoolExecutor | None = None
    _own: threading.local = field(default_factory=threading.local)
    _slots: list[Slot] = field(default_factory=list)

    @property
    def are_idle(self) -> bool:
        """Whether there is no turn, neither one that waits nor one that runs or has not come back."""
        return not (self._waiting or self._running or self.engine.services.turns.left)

    @property
    def have_news(self) -> bool:
        """Whether a turn has ended that has not come back."""
        return not self._done.empty()

    def begin(self, ended: Callable[[], None]) -> None:
        """Begin as many turns as there are lanes; ``ended`` is called as each ends, in its thread."""
        self._queue()
        while self._waiting and len(self._running) < self.most and self._may_begin(self._waiting[0][0]):
            turn, known = self._next()
            self._executor().submit(self._run_beside, turn, known, ended)

    def wait(self) -> None:
        """Wait until a turn has ended; one that has no neighbours is taken here, without a thread."""
        self._queue()
        if len(self._waiting) == 1 and not self._running:
            turn, known = self._next()
            self._done.put(self._run(turn, known, self.here()))
            return
        self.begin(lambda: None)
        if self._running:
            self._done.put(self._done.get())

    def collect(self) -> list[TickReport]:
        """Give the streams of a turn that has ended back to the rounds, and return what it did.

        Raises what raised out of it.
        """
        if not self.have_news:
            return []
        done = self._done.get()
        self._running.remove(done.turn)
        self.engine.take_back(done.turn, done.own)
        for report in done.reports:
            self.engine.services.told(report)
        if done.error is not None:
            for uuid in done.turn.uuids:
                self.engine.forget(uuid)
            raise done.error
        return done.reports

    def interrupt(self) -> None:
        """Have what the lanes compute fail; called in another thread, and those turns that wait begin."""
        for slot in [*self._slots]:
            slot.interrupt()

    def close(self) -> None:
        """Let the running turns end, and those that wait be for whoever comes next."""
        self._queue()
        for turn, _ in self._waiting:
            _release(turn)
        self._waiting.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None
        for slot in self._slots:
            slot.close()
        self._slots.clear()
        while self.have_news:
            done = self._done.get()
            self._running.remove(done.turn)
            self.engine.take_back(done.turn, done.own)

    def _next(self) -> tuple[Turn, dict[str, StreamRuntime]]:
        """Take the turn that is next from those that wait, with what is known of its streams."""
        turn, _ = self._waiting.pop(0)
        self._running.append(turn)
        return turn, self.engine.services.turns.hand_over(turn)

    def _queue(self) -> None:
        """Put turns that were left in their place among those that wait, and say that they do."""
        now, since = self.clock.now().timestamp(), self.clock.monotonic()
        left = self.engine.services.turns.left
        for turn in left:
            for claim in turn.claims.values():
                claim.say(turn.doing, now, waits=True)
        self._waiting += [(turn, since) for turn in left]
        left.clear()
        self._waiting.sort(key=lambda one: one[1] - WORTH_SECONDS * self._priority(one[0]))

    def _priority(self, turn: Turn) -> int:
        return max(self.priorities.get(f"{r.database}.{r.name}".lower(), 0) for r in turn.records)

    def _may_begin(self, turn: Turn) -> bool:
        """Return whether a turn has not to be alone, or is: what Spark dies of must not take others along."""
        return not self._running or not (turn.is_suspect or any(one.is_suspect for one in self._running))

    def _executor(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.most, thread_name_prefix="lane")
        return self._pool

    def _run_beside(self, turn: Turn, known: dict[str, StreamRuntime], ended: Callable[[], None]) -> None:
        if not hasattr(self._own, "slot"):
            self._own.slot = self.new_slot()
            self._slots.append(self._own.slot)
        self._done.put(self._run(turn, known, self._own.slot))
        ended()

    def _run(self, turn: Turn, known: dict[str, StreamRuntime], slot: Slot) -> _Done:
        """Take a turn; whatever raises out of it is for the round to raise."""
        reports: list[TickReport] = []
        own = engine_beside(self.engine, slot, turn, known, reports.append)
        try:
            now = self.clock.now().timestamp()
            for claim in turn.claims.values():
                claim.say(turn.doing, now)
            if own.take_turn(turn):
                own.keep_up()
        except BaseException as error:  # noqa: BLE001 - it is raised by the round
            return _Done(turn, own, reports, error)
        finally:
            _release(turn)
        return _Done(turn, own, reports)


def _release(turn: Turn) -> None:
    for claim in turn.claims.values():
        claim.release()
