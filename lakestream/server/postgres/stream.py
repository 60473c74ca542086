"""Messages of PostgreSQL's clients: how long they may be, and that they are what they say."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from pg_mimic import messages as said
from pg_mimic.stream import ConnectionClosed, PgStream
from pg_mimic.types import pack_int32, unpack_int32

from lakestream.server.api.guard import BODY_LIMIT
from lakestream.server.postgres.failing import refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from pg_mimic import PgError

_HEAD_LIMIT = 10_000
"""Most bytes of the message that a connection begins with, as PostgreSQL has it."""
_PROTOCOL = 3
_OFF = ("false", "off", "no", "0")
_READ: dict[bytes, Callable[[bytes], Any]] = {
    said.QUERY: said.parse_query,
    said.PARSE: said.parse_parse,
    said.BIND: said.parse_bind,
    said.DESCRIBE: said.parse_describe,
    said.EXECUTE: said.parse_execute,
    said.CLOSE: said.parse_close,
}
OF_COPYING = (said.COPY_DATA, said.COPY_DONE, said.COPY_FAIL)
"""What a client may still send after COPY was refused: PostgreSQL has it left unheard."""
UNREADABLE = (ValueError, IndexError, OverflowError, struct.error)
"""What reading something raises that is not what it says."""


class Stream(PgStream):
    """Messages of a client, none longer than it may be."""

    async def read_message(self) -> tuple[bytes, bytes]:
        """Return the next message. Raises ConnectionClosed for one that is too long."""
        head = await self._read_exactly(5)
        return head[:1], await self._body(unpack_int32(head, 1) - 4, BODY_LIMIT)

    async def read_startup_packet(self) -> tuple[int, bytes]:
        """Return what a connection begins with, its number and the rest of it; as :meth:`read_message`."""
        head = await self._read_exactly(8)
        return unpack_int32(head, 4), await self._body(unpack_int32(head, 0) - 8, _HEAD_LIMIT)

    async def _body(self, length: int, limit: int) -> bytes:
        if not 0 <= length <= limit:
            raise ConnectionClosed
        body: bytes = await self._read_exactly(length) if length else b""
        return body


def not_read(error: Exception, what: str) -> PgError:
    """Return the error of ``what`` that is not as it says, by what reading it raised."""
    if isinstance(error, UnicodeDecodeError):
        return refusal("22021", f"BAD_REQUEST: {what} is not UTF-8", "client_encoding UTF8")
    return refusal("08P01", f"BAD_REQUEST: {what} cannot be read")


def unreadable(tag: bytes, payload: bytes) -> PgError | None:
    """Return the error of a message that is not what its tag says, None for one that is."""
    read = _READ.get(tag)
    try:
        if read is not None:
            read(payload)
    except UNREADABLE as error:
        return not_read(error, "a message")
    return None


def startup(number: int, body: bytes) -> dict[str, str]:
    """Return what a client says of itself. Raises PgError for another protocol, or what cannot be read."""
    major, minor = number >> 16, number & 0xFFFF
    if major != _PROTOCOL:
        raise refusal("0A000", f"NOT_SUPPORTED: protocol {major}.{minor} is not spoken here", "protocol 3.0")
    try:
        begun: dict[str, str] = said.parse_startup_message(body)
    except UNREADABLE as error:
        raise not_read(error, "the first message") from None
    if begun.get("replication", "false").lower() not in _OFF:
        raise refusal(
            "0A000", "NOT_SUPPORTED: replication is not spoken here", "a stream, whose NOTIFY tells changes"
        )
    return begun


def agreed(number: int, begun: dict[str, str]) -> bytes:
    """Return what tells a client that asks for more than protocol 3.0 that this is what is spoken.

    Nothing is said where it asks for no more. The rule is that of PostgreSQL's NegotiateProtocolVersion.
    """
    unknown = [name for name in begun if name.startswith("_pq_.")]
    if not number & 0xFFFF and not unknown:
        return b""
    body = pack_int32(0) + pack_int32(len(unknown)) + b"".join(f"{name}\0".encode() for name in unknown)
    return b"v" + pack_int32(len(body) + 4) + body
