"""How far each stream's events have been delivered to each target: a small table, written now and then."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from lakestream.covered import redacted
from lakestream.storage.records.keyed import KeyedTable

if TYPE_CHECKING:
    from collections.abc import Mapping

_COLUMNS = {
    "id": "string",
    "stream_id": "string",
    "target": "string",
    "version": "bigint",
    "seq": "bigint",
    "sent": "bigint",
    "dropped": "bigint",
    "error": "string",
    "holds": "boolean",
    "updated_us": "bigint",
}


@dataclass(frozen=True)
class Delivery:
    """How far a stream's events have been delivered to a target.

    ``version`` and ``seq`` are the outbox's commit and the event in it that come next; ``sent`` and
    ``dropped`` count events; ``error`` says why the last attempt failed, None when it did not, and ``holds``
    that the stream waits for it. The target is shown without its secrets, and known by the hash of its url.
    """

    id: str
    stream_id: str
    target: str
    version: int
    seq: int
    sent: int = 0
    dropped: int = 0
    error: str | None = None
    holds: bool = False
    updated_us: int = 0


class Deliveries:
    """The deliveries of a lake; written by the process that sends, from several threads."""

    def __init__(self, path: str) -> None:
        self._table = KeyedTable(path, _COLUMNS, "id")
        self._lock = threading.Lock()
        self._unsaved: dict[str, dict[str, object]] = {}

    def of(self, stream_id: str, url: str) -> Delivery:
        """Return how far a target is; at the beginning of the outbox when nothing was sent yet."""
        key = hashlib.sha256(f"{stream_id} {url}".encode()).hexdigest()[:32]
        with self._lock:
            row = self._rows().get(key)
        return Delivery(**row) if row else Delivery(key, stream_id, redacted(url), 0, 0)

    def all(self) -> list[Delivery]:
        """Return what is known of all targets."""
        with self._lock:
            return [Delivery(**row) for row in self._rows().values()]

    def keep(self, delivery: Delivery, **changes: object) -> Delivery:
        """Note a change of a delivery, for the next commit, and return it."""
        changed = replace(delivery, **changes)  # type: ignore[arg-type]
        with self._lock:
            self._unsaved[changed.id] = asdict(changed)
        return changed

    def save(self) -> bool:
        """Record what was noted, of all targets, in one commit; return whether there was anything."""
        with self._lock:
            found = bool(self._unsaved)
            self._table.put(self._unsaved.values())
            self._unsaved = {}
        return found

    def put(self, delivery: Delivery, **changes: object) -> Delivery:
        """Record a change of a delivery at once, and return it."""
        changed = self.keep(delivery, **changes)
        self.save()
        return changed

    def _rows(self) -> dict[str, dict[str, Any]]:
        return {**self._table.rows(), **self._unsaved}

    def move(self, deliveries: list[Delivery], version: int) -> None:
        """Put deliveries that have everything behind a version, in one commit."""
        with self._lock:
            moved = [asdict(replace(delivery, version=version, seq=0)) for delivery in deliveries]
            self._table.put([*self._unsaved.values(), *moved])
            self._unsaved = {}

    def renumber(self, moved: Mapping[int, int], end: int) -> None:
        """Follow an outbox that was made anew: ``moved`` are old and new versions of what was not sent yet.

        Whoever has all of it goes on behind the version ``end``.
        """
        with self._lock:
            changed = []
            for row in self._rows().values():
                known = [old for old in sorted(moved) if old >= row["version"]]
                version = moved[known[0]] if known else end + 1
                seq = row["seq"] if known and known[0] == row["version"] else 0
                changed.append({**row, "version": version, "seq": seq})
            self._table.put(changed)
            self._unsaved = {}

    def remove(self, stream_id: str) -> None:
        """Forget a stream."""
        with self._lock:
            own = [key for key, row in self._rows().items() if row["stream_id"] == stream_id]
            self._unsaved = {key: row for key, row in self._unsaved.items() if key not in own}
            self._table.remove(own)
