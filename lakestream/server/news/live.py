"""What the websocket tells: ticks as they end, changes of status, and new events."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUED = 1_000
"""Messages that wait for one client; it is dropped when there are more."""

Message = dict[str, Any]


@dataclass(eq=False)
class Subscriber:
    """A client: the stream that it asked for (None: all), and what waits for it; None ends it.

    ``reaches`` says of which databases it may hear.
    """

    stream: str | None
    reaches: Callable[[str], bool]
    queue: asyncio.Queue[Message | None] = field(default_factory=lambda: asyncio.Queue(QUEUED))

    def hears(self, stream: str) -> bool:
        """Return whether a message of a stream (``database.name``), or of a continuous query, is for it."""
        return self.stream in (None, stream) and self.reaches(stream.rpartition(".")[0])


class Live:
    """Hands messages from any thread to the clients, whose queues belong to the server's loop."""

    def __init__(self) -> None:
        self._subscribers: set[Subscriber] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def subscribe(self, stream: str | None, reaches: Callable[[str], bool]) -> Subscriber:
        """Add a client, which may hear of some databases; called in the server's loop."""
        self._loop = asyncio.get_running_loop()
        subscriber = Subscriber(stream, reaches)
        self._subscribers.add(subscriber)
        return subscriber

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Forget a client; called in the server's loop."""
        self._subscribers.discard(subscriber)

    @property
    def has_listeners(self) -> bool:
        """Whether anybody would hear a message."""
        return bool(self._subscribers)

    def publish(self, message: Message) -> None:
        """Hand a message (it names its ``stream``) to everybody who asked for it; from any thread."""
        if self._subscribers and self._loop is not None:
            self._loop.call_soon_threadsafe(self._deliver, message)

    def _deliver(self, message: Message) -> None:
        for subscriber in list(self._subscribers):
            if not subscriber.hears(message["stream"]):
                continue
            try:
                subscriber.queue.put_nowait(message)
            except asyncio.QueueFull:
                self._drop(subscriber)

    def _drop(self, subscriber: Subscriber) -> None:
        """End a client that does not keep up: it hears the end in the place of what waits."""
        self.unsubscribe(subscriber)
        while not subscriber.queue.empty():
            subscriber.queue.get_nowait()
        subscriber.queue.put_nowait(None)


class Rates:
    """Rows a second of each stream over the last minute, from its ticks."""

    SECONDS = 60.0

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._taken: dict[str, deque[tuple[float, int]]] = {}

    def add(self, stream: str, rows: int) -> None:
        """Count the rows of a tick that has just ended."""
        self._taken.setdefault(stream, deque()).append((self._monotonic(), rows))
        self._forget(stream)

    def of(self, stream: str) -> float:
        """Return the rows a second that a stream took."""
        self._forget(stream)
        return sum(rows for _, rows in tuple(self._taken.get(stream, ()))) / self.SECONDS

    def _forget(self, stream: str) -> None:
        taken = self._taken.get(stream)
        while taken and taken[0][0] < self._monotonic() - self.SECONDS:
            taken.popleft()
