"""Streams that failed of what may pass by itself: tried again, after pauses that grow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakestream.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakestream.errors import LakestreamError

LONGEST_PAUSE_US = 300_000_000
"""The longest pause between two attempts, in microseconds; the first one is a second."""

_PASSING = {"COMMIT_CONFLICT", "COMMIT_FAILED", "EDIT_FAILED", "IO_ERROR", "READ_FAILED", "TABLE_UNREADABLE"}
_FIRST_PAUSE_US = 1_000_000
_MOST_DOUBLED = 10


def may_pass(error: LakestreamError) -> bool:
    """Return whether an error is of the storage, and may be gone the next time."""
    return isinstance(error, StorageError) and error.code in _PASSING


@dataclass
class Retries:
    """When this process tries which stream again; another process does so at once."""

    _attempts: dict[str, tuple[int, int]] = field(default_factory=dict)

    def put(self, uuid: str, now_us: int) -> int:
        """Note that a stream has failed once more; return when it is tried again (µs since 1970 UTC)."""
        count = self._attempts.get(uuid, (0, 0))[0]
        due_us = now_us + min(_FIRST_PAUSE_US << min(count, _MOST_DOUBLED), LONGEST_PAUSE_US)
        self._attempts[uuid] = count + 1, due_us
        return due_us

    def is_due(self, uuid: str, now_us: int) -> bool:
        """Return whether a stream may be tried again."""
        return now_us >= self._attempts.get(uuid, (0, 0))[1]

    def forget(self, uuid: str) -> None:
        """Let the next failure of a stream be its first one."""
        self._attempts.pop(uuid, None)

    def keep(self, uuids: set[str]) -> None:
        """Forget all other streams: they were dropped, or stopped."""
        self._attempts = {uuid: tried for uuid, tried in self._attempts.items() if uuid in uuids}

    @property
    def due(self) -> Mapping[str, int]:
        """When each stream that has failed is tried again (µs since 1970 UTC)."""
        return {uuid: due_us for uuid, (_, due_us) in self._attempts.items()}
