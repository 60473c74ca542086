"""A websocket server of a test's own: it keeps what it is sent, and misbehaves where it is told to."""

from __future__ import annotations

import json
import threading
from collections import deque
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

from lakestream.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from websockets.http11 import Request, Response
    from websockets.sync.server import Server, ServerConnection


_CLOCK = SystemClock()
_KEEP_SECONDS = 5.0


class Catcher:
    """A server on this machine; on a port of its own unless one is named.

    ``behaves`` are what the next connections do instead of keeping what they get; ``statuses`` what the
    next handshakes are answered.
    """

    def __init__(self, port: int = 0) -> None:
        self.messages: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.behaves: deque[Callable[[ServerConnection], None]] = deque()
        self.statuses: deque[HTTPStatus] = deque()
        self.leads_to: str | None = None
        self._lock = threading.Lock()
        self._server: Server = serve(
            self._keep, "localhost", port, process_request=self._answer, max_size=None
        )
        self.port = int(self._server.socket.getsockname()[1])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"ws://localhost:{self.port}"

    def events(self, count: int = 0) -> list[dict[str, Any]]:
        """Return the events of all messages, with the name of their stream, in the order they came.

        Waits a while until so many have come: the sender may go on before the thread here has kept them.
        """
        deadline = _CLOCK.monotonic() + _KEEP_SECONDS
        while len(found := self._events()) < count and _CLOCK.monotonic() < deadline:
            _CLOCK.sleep(0.01)
        return found

    def _events(self) -> list[dict[str, Any]]:
        with self._lock:
            return [
                {"streamName": stream["streamName"], **event}
                for message in self.messages
                for stream in message["streams"]
                for event in stream["events"]
            ]

    def close(self) -> None:
        """Stop listening, and close what is open."""
        self._server.shutdown()
        self._thread.join()

    def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        with self._lock:
            self.paths.append(request.path)
            status = self.statuses.popleft() if self.statuses else None
        if self.leads_to is not None:
            answer = connection.respond(HTTPStatus.FOUND, "")
            answer.headers["Location"] = self.leads_to
            return answer
        return connection.respond(status, "") if status is not None else None

    def _keep(self, connection: ServerConnection) -> None:
        with self._lock:
            behave = self.behaves.popleft() if self.behaves else None
        if behave is not None:
            behave(connection)
            return
        try:
            for message in connection:
                with self._lock:
                    self.messages.append(json.loads(message))
        except ConnectionClosed:
            pass
