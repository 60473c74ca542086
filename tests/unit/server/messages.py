"""Messages of PostgreSQL's clients in odd orders, drawn by a seed, and what a server answers in short.

What PostgreSQL 15 answers is kept in a file, which is written anew, of a server that has a superuser postgres
and takes no password, by ``python -m tests.unit.server.messages PORT``.
"""

from __future__ import annotations

import json
import random
import re
import socket
import struct
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = "CREATE TABLE odd (ts TIMESTAMP, n INT)"
ROWS = [f"('2025-01-01 00:00:0{n}', {n})" for n in range(5)]
FILLED = f"INSERT INTO odd VALUES {', '.join(ROWS)}"
ALL = "SELECT n FROM odd ORDER BY n"
QUERIES = (
    ALL, ALL, "SELECT n FROM odd WHERE n > 100", "SELECT 1", "", "BEGIN", "COMMIT", "ROLLBACK",
    "SELEC", "SHOW server_version_num", "SET application_name = 'x'", "DEALLOCATE ALL",
    f"DECLARE c CURSOR FOR {ALL}", "FETCH 2 FROM c", "FETCH ALL FROM c", "MOVE 1 FROM c", "CLOSE c",
    f"DECLARE h CURSOR WITH HOLD FOR {ALL}", "FETCH 3 FROM h", "CLOSE h", "CLOSE ALL",
)  # fmt: skip
WRONG = ("SELECT nope FROM odd", "SELECT n FROM nowhere")
SCRIPTS = (
    "SELECT 1; SELECT n FROM odd ORDER BY n", "SELECT 1; SELEC; SELECT 2",
    "SELECT 1; SELECT nope FROM odd; SELECT 2",
    "BEGIN; SELECT 1", "SELECT 1; COMMIT", ";;", "BEGIN; SELECT nope FROM odd; ROLLBACK",
    "COPY odd TO STDOUT", "COPY (SELECT n FROM odd) TO STDOUT", "COPY (SELECT nope FROM odd) TO STDOUT",
    "SELECT 1; COPY odd TO STDOUT; SELECT 2",
)  # fmt: skip
ASKING = "SELECT n FROM odd WHERE n > $1 ORDER BY n"
STATEMENTS, PORTALS = (b"", b"", b"", b"s", b"u"), (b"", b"", b"", b"p", b"q", b"c")
KEPT, SEEDS = Path(__file__).parent / "messages.json", 150
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
                sent.append(queried(drawn.choice((*QUERIES, *WRONG, *SCRIPTS))))
            case 2:
                sent += _copied(drawn)
            case _:
                sent += _extended(drawn)
    return [*sent, message(b"X")]


def _copied(drawn: random.Random) -> Iterator[bytes]:
    """Yield COPY FROM STDIN with lines, and messages between that are passed over, to its end."""
    yield queried(drawn.choice(("COPY odd (ts, n) FROM STDIN", "COPY nowhere FROM STDIN")))
    yield from (message(drawn.choice((b"H", b"S"))) for _ in range(drawn.randint(0, 2)))
    lines = [message(b"d", b"no time\t1\n"), message(b"c")]
    yield from drawn.choice((lines, [message(b"f", b"enough\0")]))


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

    Rows are counted, an error is its code, one of data its class, what a statement did is told in full.
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
            code = found[1].decode()
            return f"E{code[:2] if code.startswith('22') else code}"
        case b"Z":
            return f"Z{body.decode()}"
        case b"C":
            return f"<{body[:-1].decode()}>"
        case _:
            return tag.decode()


def kept() -> list[str]:
    """Return what PostgreSQL answers to what is drawn by each seed."""
    answers: list[str] = json.loads(KEPT.read_text())
    return answers


def keep(port: int) -> None:
    """Ask a PostgreSQL, and keep what it answers."""
    import psycopg

    with psycopg.connect(host="127.0.0.1", port=port, user="postgres", autocommit=True) as admin:
        for sql in ("DROP TABLE IF EXISTS odd", TABLE, FILLED):
            admin.execute(sql)
    answers = [in_short(answer_of(port, drawn_messages(seed), "postgres")) for seed in range(SEEDS)]
    KEPT.write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    keep(int(sys.argv[1]))
