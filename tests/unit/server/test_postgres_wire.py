"""What PostgreSQL's clients may send of any shape: messages drawn at random, and settings of a session."""

from __future__ import annotations

import random
import socket
import struct
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.unit.server.test_postgres import Served, ada, open_served, root

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ada", "open_served", "root"]

CONNECTIONS = 60
STATEMENTS = (
    "SELECT 1", "SELECT * FROM power", "SELECT $1", "SELECT * FROM power WHERE n = $1",
    "COPY (SELECT 1) TO STDOUT", "COPY power FROM STDIN", "BEGIN", "ROLLBACK", "COMMIT", "", "; ;",
    "SELECT $99999", "SELECT $0", "DECLARE c CURSOR FOR SELECT * FROM power", "FETCH 2 FROM c", "CLOSE c",
    "SHOW server_version", "SET x = 1", "SELECT 'é'", "SELECT * FROM pg_catalog.pg_type WHERE oid = $1",
    "SELECT '", "SELECT $$a$$", "EXECUTE x", "SELECT $1, $1, $2", "FETCH BACKWARD 3 FROM c",
    "DROP TABLE nope", "SET TRANSACTION READ ONLY",
)  # fmt: skip
KINDS = (0, 16, 17, 20, 21, 23, 25, 700, 701, 1043, 1082, 1114, 1184, 1700, 2950, 114, 3802, 1007, 4294967295)
VALUES = (
    None, b"", b"1", b"abc", b"\0\0\0\1", b"\xff" * 8, b"2025-01-01", b"{1,2}", b"NaN", b"9" * 400,
    b"\xc3\x28", b"\x7f" + b"\xff" * 7, b"1e400",
)  # fmt: skip
NAMES = (b"", b"", b"", b"a", "é".encode(), b"x" * 300)
FRAMES = b"RSKZEITtnND12sC3HdcG"


def message(tag: bytes, body: bytes) -> bytes:
    return tag + struct.pack("!i", len(body) + 4) + body


def text(value: bytes | str) -> bytes:
    return (value.encode() if isinstance(value, str) else value) + b"\0"


def numbers(form: str, values: list[int]) -> bytes:
    return struct.pack("!h", len(values)) + b"".join(struct.pack(form, value) for value in values)


def parse(drawn: random.Random) -> bytes:
    kinds = [drawn.choice(KINDS) for _ in range(drawn.choice((0, 0, 1, 2)))]
    return message(b"P", text(drawn.choice(NAMES)) + text(drawn.choice(STATEMENTS)) + numbers("!I", kinds))


def bind(drawn: random.Random) -> bytes:
    values = [drawn.choice(VALUES) for _ in range(drawn.choice((0, 1, 1, 2)))]
    told = [struct.pack("!i", -1 if one is None else len(one)) + (one or b"") for one in values]
    formats = [drawn.choice((0, 1, 1, 2)) for _ in range(drawn.choice((0, 1, 2)))]
    asked = [drawn.choice((0, 1, 3)) for _ in range(drawn.choice((0, 1, 9)))]
    names = text(drawn.choice(NAMES)) + text(drawn.choice(NAMES))
    count = struct.pack("!h", len(told))
    return message(b"B", names + numbers("!h", formats) + count + b"".join(told) + numbers("!h", asked))


def spoilt(drawn: random.Random) -> bytes:
    """Return a message that is not what it says: bytes of it changed, or its end lacking."""
    whole = bytearray(drawn.choice((parse, bind))(drawn))
    if drawn.random() < 0.5:
        return message(bytes(whole[:1]), bytes(whole[5 : drawn.randint(5, len(whole) - 1)]))
    for _ in range(drawn.randint(1, 3)):
        whole[drawn.randrange(5, len(whole))] = drawn.randrange(256)
    return bytes(whole)


MESSAGES = (
    parse,
    parse,
    bind,
    bind,
    spoilt,
    lambda drawn: message(b"D", drawn.choice((b"S", b"P", b"X", b"")) + text(drawn.choice(NAMES))),
    lambda drawn: message(b"E", text(drawn.choice(NAMES)) + struct.pack("!i", drawn.choice((0, 1, -1)))),
    lambda drawn: message(b"Q", text(drawn.choice(STATEMENTS))),
    lambda drawn: message(b"S", b"") + message(b"C", b"S" + text(drawn.choice(NAMES))),
    lambda drawn: message(bytes([drawn.randrange(256)]), drawn.randbytes(drawn.randint(0, 30))),
)


def first_message(drawn: random.Random) -> bytes:
    good = text("user") + text("ada") + text("database") + text("main")
    number, body = struct.pack("!i", 196_608), good + b"\0"
    match drawn.randrange(12):
        case 0:
            number = struct.pack("!i", drawn.choice((131_072, 0, -1, 80_877_102, 80_877_103, 80_877_104)))
        case 1:
            body = drawn.randbytes(drawn.randint(0, 60))
        case 2:
            number, body = struct.pack("!i", 80_877_102), drawn.randbytes(drawn.choice((0, 4)))
        case 3:
            body = good + text("options") + text("-c statement_timeout=never") + b"\0"
    return struct.pack("!i", len(body) + 8) + number + body


def answered(port: int, sent: list[bytes]) -> bytes:
    """Return all that a server answers to what is sent, until it or we end the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
        try:
            line.sendall(b"".join(sent))
            line.shutdown(socket.SHUT_WR)
        except OSError:
            return b""  # it has hung up before it had heard all
        got = b""
        try:
            while part := line.recv(65_536):
                got += part
        except ConnectionResetError:
            pass
        return got


def frames(answer: bytes) -> Iterator[tuple[bytes, bytes]]:
    if answer[:1] == b"N" and answer[1:2] in (b"", b"R", b"E"):
        answer = answer[1:]  # no encryption, said in one byte
    while len(answer) >= 5:
        end = 1 + struct.unpack("!i", answer[1:5])[0]
        assert end >= 5
        assert answer[:1] in FRAMES + b"v", answer[:40]
        yield answer[:1], answer[5:end]
        answer = answer[end:]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_a_client_sends_is_answered_or_refused(
    open_served: Served, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    drawn, codes = random.Random(seed), Counter[bytes]()
    for _ in range(CONNECTIONS):
        sent = [first_message(drawn), *(drawn.choice(MESSAGES)(drawn) for _ in range(drawn.randint(1, 10)))]
        for tag, body in frames(answered(open_served.port, [*sent, message(b"S", b""), message(b"X", b"")])):
            if tag == b"E":
                codes.update(part[1:] for part in body.split(b"\0") if part[:1] == b"C")
    assert b"XX000" not in codes
    assert {b"08P01", b"26000"} <= set(codes)
    assert not caplog.records
    with closing(open_served.connect()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_text_that_is_not_utf_8_is_refused_as_such(ada: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.Error) as refused:
        ada.execute(b"SELECT '\xe9'")
    assert refused.value.sqlstate == "22021"
    assert ada.execute("SELECT 'é'").fetchone() == ("é",)


@pytest.mark.parametrize(
    ("number", "extra", "answer"),
    [
        (0x30000, b"", b"R"),
        (0x30002, b"", b"v"),
        (0x30000, text("_pq_.new") + text("on"), b"v"),
        (0x20000, b"", b"E"),
        (0x40000, b"", b"E"),
    ],
)
def test_what_protocol_is_spoken_is_agreed_on(
    open_served: Served, number: int, extra: bytes, answer: bytes
) -> None:
    body = (
        struct.pack("!i", number)
        + text("user")
        + text("ada")
        + text("database")
        + text("main")
        + extra
        + b"\0"
    )
    first = struct.pack("!i", len(body) + 4) + body
    told = answered(open_served.port, [first, message(b"X", b"")])
    assert told[:1] == answer
    if answer == b"v":
        assert struct.unpack("!ii", told[5:13]) == (0, extra.count(b"_pq_"))


@pytest.mark.parametrize(
    "begun",
    [
        "SET default_transaction_read_only = on",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "BEGIN READ ONLY",
        "START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY",
    ],
)
def test_a_session_that_only_reads_does_not_write(ada: psycopg.Connection[Any], begun: str) -> None:
    ada.execute(begun)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match="only reads"):
        ada.execute("INSERT INTO other.priced VALUES ('2025-01-01', 1)")
    ada.execute("ROLLBACK")
    ada.execute("RESET ALL")
    ada.execute("INSERT INTO other.priced VALUES ('2025-01-01', 1)")


def test_a_transaction_may_write_where_a_session_reads(open_served: Served) -> None:
    with closing(open_served.connect(options="-c default_transaction_read_only=on")) as connection:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TABLE w (ts TIMESTAMP)")
        connection.execute("BEGIN READ WRITE")
        connection.execute("INSERT INTO other.priced VALUES ('2025-01-01', 1)")
        connection.execute("COMMIT")
        assert connection.execute("SHOW transaction_read_only").fetchone() == ("off",)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("DELETE FROM other.priced")


@pytest.mark.parametrize("unit", ["30", "30ms"])
def test_a_statement_takes_no_longer_than_its_client_says(ada: psycopg.Connection[Any], unit: str) -> None:
    ada.execute(f"SET statement_timeout = '{unit}'")
    crossed = ", ".join(f"power p{number}" for number in range(26))
    for query in ("SELECT pg_sleep(5)", f"SELECT count(*) FROM {crossed}"):
        with pytest.raises(psycopg.errors.QueryCanceled, match="STATEMENT_TIMEOUT"):
            ada.execute(query)
    ada.execute("RESET statement_timeout")
    assert ada.execute("SELECT 1").fetchone() == (1,)


def test_what_is_local_ends_with_its_transaction(ada: psycopg.Connection[Any]) -> None:
    ada.execute("SET statement_timeout = '1min'")
    ada.execute("BEGIN")
    ada.execute("SET LOCAL statement_timeout = '2min'")
    assert ada.execute("SHOW statement_timeout").fetchone() == ("2min",)
    ada.execute("COMMIT")
    assert ada.execute("SHOW statement_timeout").fetchone() == ("1min",)
    ada.execute("DISCARD ALL")
    assert ada.execute("SHOW statement_timeout").fetchone() == ("0",)


CALLS = ["set_config({})", "pg_catalog.set_config({})", "set_config({})::text AS now"]
SET_SO = {"statement_timeout": "2min", "application_name": "a b", "search_path": "other", "jit": "off"}


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", SET_SO)
def test_a_setting_that_a_select_sets_holds(
    ada: psycopg.Connection[Any], name: str, call: str, prepared: bool
) -> None:
    value = SET_SO[name]
    null, local = f"'{name}', NULL, false", f"'{name}', '{value}', true"
    given = "%s, %s::text, false" if prepared else f"'{name}', '{value}', false"
    values = [name, value] if prepared else None
    before = ada.execute(f"SHOW {name}").fetchone()
    assert before is not None
    called = ada.execute(f"SELECT current_setting('{name}', true), {call.format(given)}", values)
    assert called.fetchone() in [(before[0], value), (before[0] or None, value)]
    assert ada.execute(f"SHOW {name}").fetchone() == (value,)
    ada.execute(f"SELECT {call.format(null)}")
    assert ada.execute(f"SHOW {name}").fetchone() == before
    ada.execute(f"SELECT {call.format(local)}")  # of no transaction
    assert ada.execute(f"SHOW {name}").fetchone() == before
    ada.execute("BEGIN")
    ada.execute(f"SELECT {call.format(local)}")
    assert ada.execute(f"SHOW {name}").fetchone() == (value,)
    ada.execute("COMMIT")
    assert ada.execute(f"SHOW {name}").fetchone() == before


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT set_config('jit', relname, false) FROM pg_class", "0A000"),
        ("SELECT CASE WHEN true THEN set_config('jit', 'off', false) END", "0A000"),
        ("SELECT 1 WHERE set_config('jit', 'off', false) = 'off'", "0A000"),
        ("SELECT x FROM (SELECT set_config('jit', 'off', false) AS x) AS t", "0A000"),
        ("SELECT set_config('jit', 'off', false) UNION SELECT 'on'", "0A000"),
        ("SELECT set_config('jit', current_user, false)", "0A000"),
        ("SELECT set_config('jit', 'off')", "42883"),
        ("SELECT set_config('client_encoding', 'LATIN1', false)", "0A000"),
        ("SELECT set_config('statement_timeout', 'soon', false)", "22023"),
    ],
)
def test_what_a_select_cannot_set_is_refused(ada: psycopg.Connection[Any], query: str, code: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        ada.execute(query)
    assert refused.value.sqlstate == code
    assert ada.execute("SHOW jit").fetchone() == ("on",)


@pytest.mark.parametrize(("name", "value"), [("jit", "off"), ("nosuch", "on")])
@pytest.mark.parametrize("relation", ["pg_show_all_settings()", "pg_settings AS s"])
def test_a_select_sets_where_it_has_a_row(
    ada: psycopg.Connection[Any], relation: str, name: str, value: str
) -> None:
    ada.execute(f"SELECT set_config('jit', 'off', false) FROM {relation} WHERE name = '{name}'")
    assert ada.execute("SHOW jit").fetchone() == (value,)


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ("client_encoding TO 'LATIN1'", "0A000"),
        ("NAMES 'latin1'", "0A000"),
        ("DateStyle = 'German'", "0A000"),
        ("standard_conforming_strings = off", "0A000"),
        ("bytea_output = 'escape'", "0A000"),
        ("statement_timeout = 'soon'", "22023"),
    ],
)
def test_what_has_no_other_value_is_refused(ada: psycopg.Connection[Any], setting: str, code: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        ada.execute(f"SET {setting}")
    assert refused.value.sqlstate == code


def test_what_has_no_effect_is_said(ada: psycopg.Connection[Any]) -> None:
    notices: list[str | None] = []
    ada.add_notice_handler(lambda said: notices.append(said.message_primary))
    for words in ("TimeZone = 'Europe/Berlin'", "TIME ZONE 'Europe/Berlin'"):
        ada.execute(f"SET {words}")
        assert ada.execute("SHOW timezone").fetchone() == ("Europe/Berlin",)
    ada.execute("SET client_encoding = 'UTF8'")
    ada.execute("SET datestyle TO ISO, MDY")
    assert len(notices) == 2
    assert all("has no effect" in str(said) for said in notices)


def test_what_a_pool_resets_a_connection_by_is_done(ada: psycopg.Connection[Any]) -> None:
    ada.execute("SET statement_timeout = '1min'")
    ada.execute("SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL;")
    assert ada.execute("SHOW statement_timeout").fetchone() == ("0",)
