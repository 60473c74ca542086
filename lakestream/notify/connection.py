"""A websocket to one target: opened to an address that the policy has judged, every message confirmed."""

from __future__ import annotations

import logging
import socket
import ssl
import struct
from contextlib import ExitStack
from typing import TYPE_CHECKING

from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException
from websockets.sync.client import connect

from lakestream.targets import Refused

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

    from lakestream.clock import Clock
    from lakestream.targets import Endpoint, HostPolicy

OPEN_SECONDS = 10.0
CONFIRM_SECONDS = 20.0
"""How long a peer may take to answer; one that takes longer is taken for dead."""

_MAX_INBOUND = 64 * 1024
_LOOK_SECONDS = 0.005
PASSING_STATUSES = (408, 425, 429, 500, 502, 503, 504)

_log = logging.getLogger("lakestream.notify.websocket")
# At DEBUG the library writes handshakes, with their credentials, and parts of messages.
_log.setLevel(logging.WARNING)


class DeliveryFailed(Exception):  # noqa: N818 - what happened
    """A message could not be handed over. ``lasting``: trying again soon will not help."""

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        super().__init__(message)
        self.lasting = lasting


class Connection:
    """The websocket to one target; opened when it is needed, and again after a failure."""

    def __init__(self, url: str, policy: HostPolicy, clock: Clock) -> None:
        self._url = url
        self._policy = policy
        self._clock = clock
        self._stack = ExitStack()
        self._open: ClientConnection | None = None

    def send(self, message: str) -> None:
        """Send a message and wait until the peer has taken it off the wire. Raises DeliveryFailed.

        A pong behind the message is the proof: frames are taken in order.
        """
        try:
            connection = self._connected()
            connection.send(message)
            self._confirm(connection)
        except DeliveryFailed:
            self.close()
            raise
        except (OSError, ValueError, WebSocketException) as error:
            self.close()
            raise failed(error) from None

    def _confirm(self, connection: ClientConnection) -> None:
        pong = connection.ping()
        deadline = self._clock.monotonic() + CONFIRM_SECONDS
        while not pong.wait(_LOOK_SECONDS):
            self._discard(connection)
            if self._clock.monotonic() > deadline:
                raise DeliveryFailed(f"no answer within {CONFIRM_SECONDS:.0f} s")

    def close(self) -> None:
        """Close the websocket, if it is open."""
        self._open = None
        stack, self._stack = self._stack, ExitStack()
        try:
            stack.close()
        except (OSError, WebSocketException):
            _log.debug("the websocket was closed by the peer")

    def _discard(self, connection: ClientConnection) -> None:
        """Take what the peer says off the wire, so that its answer comes through."""
        try:
            while True:
                connection.recv(timeout=0)
        except TimeoutError:
            return

    def _connected(self) -> ClientConnection:
        if self._open is None:
            try:
                endpoint = self._policy.check(self._url)
                self._open = self._stack.enter_context(self._client(judged_socket(self._policy, endpoint)))
            except Refused as refused:
                raise DeliveryFailed(str(refused), lasting=True) from None
        return self._open

    def _client(self, sock: socket.socket) -> connect:  # type: ignore[valid-type]
        # With a socket of ours the library follows no redirect; it would know of no policy.
        return connect(
            self._url,
            sock=sock,
            proxy=None,
            open_timeout=OPEN_SECONDS,
            close_timeout=1.0,
            ping_interval=CONFIRM_SECONDS,
            ping_timeout=CONFIRM_SECONDS,
            max_size=_MAX_INBOUND,
            compression=None,
            user_agent_header="lakestream",
            logger=_log,
        )


def judged_socket(policy: HostPolicy, endpoint: Endpoint) -> socket.socket:
    """Connect to the first address that answers, once all have been judged. Raises Refused and OSError."""
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    addresses = dict.fromkeys(str(item[4][0]) for item in found)
    problem: OSError = OSError("the name has no address")
    for address in policy.allowed(endpoint, addresses):
        try:
            sock = socket.create_connection((address, endpoint.port), timeout=OPEN_SECONDS)
        except OSError as error:
            problem = error
            continue
        sock.settimeout(None)
        # A peer that reads nothing must not hold the sender for ever.
        limit = struct.pack("ll", int(CONFIRM_SECONDS), 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        return sock
    raise problem


def failed(error: Exception) -> DeliveryFailed:
    """Return what an error means, in words without the url."""
    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        return DeliveryFailed(f"the server answers {status}", lasting=status not in PASSING_STATUSES)
    if isinstance(error, ssl.SSLCertVerificationError):
        return DeliveryFailed(f"its certificate is not accepted: {error.verify_message}", lasting=True)
    if isinstance(error, socket.gaierror):
        return DeliveryFailed(f"the name is not known: {error.strerror}")
    if isinstance(error, ValueError):
        return DeliveryFailed("it leads on to another place, which is not followed", lasting=True)
    if isinstance(error, InvalidHandshake):
        return DeliveryFailed("it does not speak websocket", lasting=True)
    return DeliveryFailed(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
