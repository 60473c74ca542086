"""Finds what no tick tells of: streams whose status has changed, and new events of the outbox."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from lakestream.errors import LakestreamError
from lakestream.server.shown.reader import event_document

if TYPE_CHECKING:
    from lakestream.lake import Lake
    from lakestream.server.news.live import Live, Message

LOOK_SECONDS = 0.5
"""How often it looks while somebody listens; after a tick it looks at once."""

_MOST_EVENTS = 100
_log = logging.getLogger(__name__)


class Feed:
    """Looks at the lake (one of its own) while somebody listens."""

    def __init__(self, lake: Lake, live: Live) -> None:
        self._lake = lake
        self._live = live
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = asyncio.Event()
        self._statuses: dict[str, tuple[str, str | None]] | None = None
        self._last_event: str | None = None

    def look(self) -> None:
        """Have it look at once; from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._due.set)

    async def run(self) -> None:
        """Look until cancelled."""
        self._loop = asyncio.get_running_loop()
        while True:
            if self._live.has_listeners:
                for message in await asyncio.to_thread(self._news):
                    self._live.publish(message)
            else:
                self._statuses = self._last_event = None
            await self._pause()

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self._due.wait(), LOOK_SECONDS)
        except TimeoutError:
            return
        self._due.clear()

    def _news(self) -> list[Message]:
        """Return what has changed since the last look; the first one only finds where things stand."""
        try:
            return [*self._changed_statuses(), *self._new_events()]
        except LakestreamError:
            _log.exception("the lake could not be looked at")
            return []

    def _changed_statuses(self) -> list[Message]:
        before = self._statuses
        self._statuses = {f"{s.database}.{s.name}": (s.status, s.last_error) for s in self._lake.streams()}
        if before is None:
            return []
        return [
            {"type": "status", "stream": stream, "status": status, "last_error": error}
            for stream, (status, error) in self._statuses.items()
            if before.get(stream) != (status, error)
        ]

    def _new_events(self) -> list[Message]:
        first = self._last_event is None
        found = self._lake.events(after=self._last_event, limit=1 if first else _MOST_EVENTS)
        self._last_event = found[-1].id if found else self._last_event or "0-0"
        if first:
            return []
        return [{"type": "event", **event_document(event).model_dump(mode="json")} for event in found]
