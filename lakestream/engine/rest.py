"""What an engine with nothing to do waits for: a look costs the same for one stream and for a thousand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakestream.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakestream.storage.delta import Tables
    from lakestream.storage.registry import Registry


@dataclass(frozen=True)
class Rest:
    """Nothing is due while the registry and the sources stand as they are, until ``due_us`` (None: ever)."""

    registry: tuple[int, ...]
    sources: Mapping[str, object]
    due_us: int | None

    def lasts(self, registry: Registry, tables: Tables, now_us: int) -> bool:
        """Return whether there is still nothing to do, with a look at each table."""
        if self.due_us is not None and now_us >= self.due_us:
            return False
        if registry.marks() != self.registry:
            return False
        try:
            return all(tables.latest(path).mark == mark for path, mark in self.sources.items())
        except StorageError:
            return False  # a round finds out what that means for each stream
