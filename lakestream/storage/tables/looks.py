"""One look at the tables of an object store, in which nothing is asked twice: a question there is a request.

What is found out in a look stands until its end, or until something fails and is tried again: what was
committed meanwhile is for the next one. It is never what a commit rests on: that is made under a condition.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from lakestream.clock import Clock

_Found = TypeVar("_Found")
_FOUND: ContextVar[dict[Hashable, object] | None] = ContextVar("found", default=None)


@contextmanager
def one_look() -> Iterator[None]:
    """Have this thread ask stores no question twice."""
    token = _FOUND.set({})
    try:
        yield
    finally:
        _FOUND.reset(token)


def look_anew() -> None:
    """Forget what this look has found: something has come in between."""
    known = _FOUND.get()
    if known is not None:
        known.clear()


def is_new(question: Hashable) -> bool:
    """Return whether a question comes up for the first time in a look; it does every time beside one."""
    known = _FOUND.get()
    if known is None:
        return True
    new = question not in known
    known[question] = None
    return new


def found(question: Hashable, answer: object) -> None:
    """Let the answer to a question be known for the rest of a look."""
    known = _FOUND.get()
    if known is not None:
        known[question] = answer


def once(question: Hashable, ask: Callable[[], _Found]) -> _Found:
    """Return the answer to a question, which is asked for once in a look, and every time beside one."""
    known = _FOUND.get()
    if known is None:
        return ask()
    if question not in known:
        known[question] = ask()
    return cast("_Found", known[question])


@dataclass
class Seldom:
    """What other processes have recorded: looks at an idle lake in a store ask for it every so many seconds.

    There each asking is a request for each table of lakestream's own. Before a tick it is asked in any case.
    """

    clock: Clock
    seconds: float = 10.0
    _asked_at: float = float("-inf")

    def is_due(self) -> bool:
        """Return whether it is to be asked for now, which then counts as done."""
        now = self.clock.monotonic()
        if now - self._asked_at < self.seconds:
            return False
        self._asked_at = now
        return True

    def hurry(self) -> None:
        """Have the next look ask, however short ago the last one did."""
        self._asked_at = float("-inf")
