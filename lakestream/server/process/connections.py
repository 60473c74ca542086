"""Connections of clients that may be slow, or very many, on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

    import h11

HEAD_SECONDS = 10.0
"""How long the head of a connection's first request may take."""


class Connection(H11Protocol):
    """A connection over HTTP/1.1: one that asks nothing is closed, and one beyond those that may be at once.

    Each takes a file of the process, of which ticks need some; uvicorn waits for a first request for ever.
    """

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or close it at once."""
        super().connection_made(transport)
        most = self.limit_concurrency
        if most is not None and len(self.connections) > most:
            transport.abort()
            return
        self._patience = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait no more once there is a whole head."""
        super().data_received(data)
        if self.cycle is not None:
            self._wait_no_more()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Leave the connection to the protocol that follows."""
        self._wait_no_more()
        super().handle_websocket_upgrade(event)

    def _give_up(self) -> None:
        self.transport.abort()

    def _wait_no_more(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
