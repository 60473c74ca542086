"""A webhook: messages POSTed to one url, each by a connection of its own to an address that was judged."""

from __future__ import annotations

import json
import ssl
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lakestream.notify.connection import (
    CONFIRM_SECONDS,
    PASSING_STATUSES,
    DeliveryFailed,
    failed,
    judged_socket,
)
from lakestream.targets import Refused

if TYPE_CHECKING:
    import socket

    from lakestream.targets import Endpoint, HostPolicy


class Webhook:
    """Hands messages over by POST; one that is answered by a status from 200 to 299 is taken."""

    def __init__(self, url: str, policy: HostPolicy) -> None:
        self._url = url
        self._policy = policy

    def send(self, message: str) -> None:
        """Post a message; ``text`` says beside it what chats show. Raises DeliveryFailed."""
        document = json.loads(message)
        events = [event for stream in document["streams"] for event in stream["events"]]
        body = json.dumps({**document, "text": "\n".join(event["text"] for event in events)})
        try:
            status = self._answer(body.encode())
        except Refused as refused:
            raise DeliveryFailed(str(refused), lasting=True) from None
        except (OSError, HTTPException) as error:
            raise failed(error) from None
        if not 200 <= status < 300:
            raise DeliveryFailed(f"the server answers {status}", lasting=status not in PASSING_STATUSES)

    def close(self) -> None:
        """Nothing is kept open."""

    def _answer(self, body: bytes) -> int:
        endpoint = self._policy.check(self._url)
        parts = urlsplit(self._url)
        path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        with closing(HTTPConnection(endpoint.host, endpoint.port)) as connection:
            connection.sock = _encrypted(judged_socket(self._policy, endpoint), endpoint)
            connection.sock.settimeout(CONFIRM_SECONDS)
            headers = {"Content-Type": "application/json", "User-Agent": "lakestream"}
            connection.request("POST", path, body, headers)
            return connection.getresponse().status


def _encrypted(sock: socket.socket, endpoint: Endpoint) -> socket.socket:
    if not endpoint.secure:
        return sock
    return ssl.create_default_context().wrap_socket(sock, server_hostname=endpoint.host)
