"""Upkeep of tables that has come due in a tick, and is put off: in a store each step is some requests.

A round does a step for each of its ticks, whatever has come due in them, so that none makes many. Beside
rounds, and on a local disk, a step is done where it comes due.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import TYPE_CHECKING

from lakestream.storage.places import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OWED: ContextVar[Owed | None] = ContextVar("owed", default=None)


class Owed:
    """Steps that were put off, those that came due first at the beginning: one of a kind for each table."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, str], Callable[[], object]] = {}

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Have this thread put steps off."""
        token = _OWED.set(self)
        try:
            yield
        finally:
            _OWED.reset(token)

    def add(self, path: str, kind: str, step: Callable[[], object]) -> None:
        """Put a step off; it keeps the place of one that was put off before."""
        self._steps[path, kind] = step

    def pay(self, most: int | None = None) -> None:
        """Do the first steps, None: all. What comes due in them is put off to the next time, if at all."""
        for key in [*islice(self._steps, most)]:
            self._steps.pop(key)()


def owe(path: str, kind: str, step: Callable[[], object]) -> None:
    """Do a step of a table's upkeep, or put it off where a round does so and the table lies in a store.

    ``step`` names what keeps it from being done by itself, as nobody waits for it.
    """
    owed = _OWED.get()
    if owed is None or not files.is_uri(path):
        step()
    else:
        owed.add(path, kind, step)
