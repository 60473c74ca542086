"""Messages of PostgreSQL's clients in odd orders, drawn by a seed, and what a server answers in short."""

from __future__ import annotations

import random
import re
import socket
import struct
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = "CREATE TABLE odd (ts TIMESTAMP, n INT)"
ROWS = [f"('2025-01-01 00:00:0{n}', {n})" for n in range(5)]
FILLED = f"INSERT INTO odd VALUES {', '.join(ROWS)}"
ALL = "SELECT n FROM odd ORDER BY n"
QUERIES = (
    ALL, ALL, "SELECT n FROM odd WHERE n > 100", "SELECT 1", "", "BEGIN", "COMMIT", "ROLLBACK",
    "SELECT nope FROM odd", "SELECT n FROM nowhere", "SELEC", "SHOW server_version_num",
    "SET application_name = 'x'", "DEALLOCATE ALL", f"DECLARE c CURSOR FOR {ALL}", "FETCH 2 FROM c",
    "FETCH ALL FROM c", "MOVE 1 FROM c", "CLOSE c", f"DECLARE h CURSOR WITH HOLD FOR {ALL}",
    "FETCH 3 FROM h", "CLOSE h", "CLOSE ALL",
)  # fmt: skip
SCRIPTS = (
    "SELECT 1; SELECT n FROM odd ORDER BY n", "SELECT 1; SELEC; SELECT 2",
    "SELECT 1; SELECT nope FROM odd; SELECT 2",
    "BEGIN; SELECT 1", "SELECT 1; COMMIT", ";;", "BEGIN; SELECT nope FROM odd; ROLLBACK",
    "COPY odd TO STDOUT", "COPY (SELECT n FROM odd) TO STDOUT", "COPY (SELECT nope FROM odd) TO STDOUT",
    "COPY odd (ts, n) FROM STDIN", "COPY odd (ts, n) FROM STDIN", "COPY nowhere FROM STDIN",
    "SELECT 1; COPY odd TO STDOUT; SELECT 2",
)  # fmt: skip
ASKING = "SELECT n FROM odd WHERE n > $1 ORDER BY n"
STATEMENTS, PORTALS = (b"", b"", b"", b"s", b"u"), (b"", b"", b"", b"p", b"q", b"c")
_END = struct.pack("!i", 196_608)


def message(tag: bytes, body: bytes = b"") -> bytes:
    """Return a message."""
    return tag + struct.pack("!i", len(body) + 4) + body


def parsed(name: bytes, sql: str) -> bytes:
    """Return the message that has a statement prepared; its parameter is a whole number."""
    kinds = struct.pack("!hi", 1, 23) if "$1" in sql else struct.pack("!h", 0)
    return message(b"P", name + b"\0" + sql.encode() + b"\0" + kinds)


def bound(portal: bytes, name: bytes, *values: bytes) -> bytes:
    """Return the message that gives a statement values, as texts."""
    told = b"".join(struct.pack("!i", len(value)) + value for value in values)
    counts = struct.pack("!hh", 0, len(values))
    return message(b"B", portal + b"\0" + name + b"\0" + counts + told + struct.pack("!h", 0))


def executed(portal: bytes, most: int) -> bytes:
    """Return the message that has some rows of a portal sent."""
    return message(b"E", portal + b"\0" + struct.pack("!i", most))


def queried(sql: str) -> bytes:
    """Return the message of a plain query."""
    return message(b"Q", sql.encode() + b"\0")


def drawn_messages(seed: int) -> list[bytes]:
    """Return what a client sends behind its first message."""
    drawn = random.Random(seed)
    sent: list[bytes] = []
    for _ in range(drawn.randint(2, 6)):
        match drawn.randrange(8):
            case 0 | 1:
                sent.append(queried(drawn.choice((*QUERIES, *SCRIPTS))))
            case 2:
                sent.append(queried(drawn.choice(SCRIPTS)))
                sent += [_of_copying(drawn) for _ in range(drawn.randint(0, 3))]
            case _:
                sent += _extended(drawn)
    return [*sent, message(b"X")]


def _of_copying(drawn: random.Random) -> bytes:
    tag = drawn.choice((b"d", b"d", b"c", b"f", b"H", b"S", b"Q"))
    body = {b"d": b"no time\t1\n", b"f": b"enough\0", b"Q": b"SELECT 1\0"}.get(tag, b"")
    return message(tag, body)


def _extended(drawn: random.Random) -> Iterator[bytes]:
    """Yield what prepares and runs a statement, with messages between that do not belong there."""
    name, portal = drawn.choice(STATEMENTS), drawn.choice(PORTALS)
    sql = drawn.choice((*QUERIES, ASKING, ASKING, ASKING))
    values = drawn.choice(((b"1",),) * 4 + ((), (b"x",), (b"1", b"2"))) if "$1" in sql else ()
    usual = [
        parsed(name, sql),
        *([message(b"D", b"S" + name + b"\0")] if drawn.random() < 0.3 else []),
        bound(portal, name, *values),
        *([message(b"D", b"P" + portal + b"\0")] if drawn.random() < 0.5 else []),
        *(executed(portal, drawn.choice((0, 0, 1, 2, 5, 100))) for _ in range(drawn.randint(1, 3))),
    ]
    for one in usual:
        if drawn.random() < 0.12:
            yield _odd(drawn)
        if drawn.random() > 0.07:
            yield one
    if drawn.random() < 0.9:
        yield message(b"S")


def _odd(drawn: random.Random) -> bytes:
    return drawn.choice(
        (
            message(b"S"),
            message(b"H"),
            message(b"C", b"S" + drawn.choice(STATEMENTS) + b"\0"),
            message(b"C", b"P" + drawn.choice(PORTALS) + b"\0"),
            executed(drawn.choice(PORTALS), drawn.choice((0, 1))),
            message(b"D", drawn.choice((b"S", b"P")) + drawn.choice(PORTALS) + b"\0"),
            message(b"d", b"1\n"),
            message(b"c"),
            message(b"f", b"no\0"),
            queried("SELECT 1"),
            queried(drawn.choice(("BEGIN", "COMMIT", "ROLLBACK"))),
        )
    )


def started(port: int, sent: list[bytes], database: str) -> socket.socket:
    """Return a connection over which a client has sent its messages, of which no answer was read."""
    begun = b"user\0postgres\0database\0" + database.encode() + b"\0\0"
    line = socket.create_connection(("127.0.0.1", port), timeout=30)
    line.sendall(struct.pack("!i", len(begun) + 8) + _END + begun + b"".join(sent))
    return line


def answer_of(port: int, sent: list[bytes], database: str) -> bytes:
    """Return all that a server answers to a client's messages, until it ends the connection."""
    with started(port, sent, database) as line:
        return b"".join(iter(lambda: line.recv(65_536), b""))


def in_short(answer: bytes) -> str:
    """Return an answer in short: its messages, without those that tell of settings and notices.

    Rows are counted, an error is its class, what a statement did is told in full.
    """
    told = [_told(tag, body) for tag, body in _messages(answer) if tag not in b"SNKR"]
    counted = ((one, len([*run])) for one, run in groupby(told))
    return " ".join(
        f"{count}{one}" if one in ("D", "d") else " ".join([one] * count) for one, count in counted
    )


def _messages(answer: bytes) -> Iterator[tuple[bytes, bytes]]:
    start = 0
    while start < len(answer):
        end = start + 1 + struct.unpack_from("!i", answer, start + 1)[0]
        yield answer[start : start + 1], answer[start + 5 : end]
        start = end


def _told(tag: bytes, body: bytes) -> str:
    match tag:
        case b"E":
            found = re.search(rb"\0C(.....)\0", b"\0" + body)
            assert found is not None
            return f"E{found[1].decode()}"
        case b"Z":
            return f"Z{body.decode()}"
        case b"C":
            return f"<{body[:-1].decode()}>"
        case _:
            return tag.decode()
