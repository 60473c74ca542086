"""A group whose rows are cut into windows, and what happened to one of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakestream.engine.reading.relations import EVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True)
class CutGroup:
    """A group with changes: what it was, what changed, and from where on it is cut."""

    gid: int
    names: tuple[Any, ...]
    first: int
    newest: int | None
    counted: int
    starts: Sequence[int]
    opened: frozenset[int]
    from_us: int
    late: bool
    lost_newest: bool
    expired: Sequence[int] = ()
    """Instants of rows in the open window that had expired when they came: they do not cut it."""
    closed: int | None = None
    """Where the last window that has closed ends (µs), where the stream keeps that."""
    known: int | None = None
    """Its newest row before the tick (µs); None where there was none."""
    begins: bool = False
    """Whether a window begins where it is cut from."""
    came: int | None = None
    """The oldest row that came with the tick (µs)."""
    safe: int | None = None
    """Up to where its rows are those that were counted (µs); None: none of them were."""
    goes_on: int | None = None
    """From where on its windows had not closed before the tick (µs); None: none had."""
    changed: bool = False
    """Whether rows of the open windows were rewritten or went, or earlier ones joined them."""

    @classmethod
    def of(cls, state: Mapping[str, Any], names: Iterable[str], from_us: int, *, late: bool) -> CutGroup:
        """Return a group by its state, with the columns ``names`` of that, to be cut from an instant on."""
        values, none = tuple(state[name] for name in names), frozenset[int]()
        first, newest = state["first"], state["newest"]
        return cls(state["gid"], values, first, newest, 0, (), none, from_us, late=late, lost_newest=False)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where its rows may lie from where on it is cut (µs): not between what was known and what came."""
        end = EVER[1] if self.newest is None or self.lost_newest else self.newest + 1
        if self.known is None or self.came is None or self.came <= self.known:
            return [(self.from_us, end)]
        before = [(self.from_us, self.known + 1)] if self.from_us <= self.known else []
        return [*before, (max(self.from_us, self.came), end)]

    def watermark(self, delay_us: int) -> int:
        """Return its watermark (µs), for a watermark delay."""
        return EVER[0] if self.newest is None else self.newest - delay_us


@dataclass(frozen=True)
class Happening:
    """A window that opened, closed or went; ``refired``: events for it may have been emitted before."""

    group: CutGroup
    low: int
    high: int
    kind: str
    refired: bool = False
    extra: str | None = None
