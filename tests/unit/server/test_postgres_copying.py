"""What PostgreSQL's clients write as texts: lines of ``COPY … FROM STDIN``, and texts between dollars.

Nothing here starts Spark.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from lakestream.server.postgres.forms import in_lakes_words
from lakestream.server.postgres.wording import filled
from tests.unit.server.test_postgres import Served, lake_served

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = """
CREATE TABLE t (ts TIMESTAMP, n INT, ok BOOL, raw VARBINARY(9), d DECIMAL(9,2), note VARCHAR(20));
CREATE STABLE power (ts TIMESTAMP, watts DOUBLE) TAGS (hall VARCHAR(9));
CREATE TABLE drill USING power TAGS ('A');
CREATE TABLE `Odd one` (ts TIMESTAMP, `a-b` INT)
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with lake_served(str(tmp_path_factory.mktemp("copying") / "lake"), TABLES) as served:
        yield served


@pytest.fixture
def ada(served: Served) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with served.connect() as connection:
        connection.execute("DELETE FROM t WHERE n < 100")
        yield connection


def copy_in(connection: psycopg.Connection[Any], sql: str, *lines: str) -> int:
    with connection.cursor() as cursor:
        with cursor.copy(sql) as copy:
            for line in lines:
                copy.write(line)
        return cursor.rowcount


def day(number: int) -> datetime:
    return datetime(2025, 1, number, tzinfo=UTC)


@pytest.mark.parametrize(
    ("asked", "lines", "found"),
    [
        (
            "COPY t FROM STDIN",
            [
                "2025-01-01\t1\tt\t\\\\x00ff\t1.50\ta\\tb\\\\\\n\n2025-01-02 00:00:00+0",
                "0\t2\tf\t\\N\t-2\t\n",
            ],
            [(1, True, b"\x00\xff", Decimal("1.50"), "a\tb\\\n"), (2, False, None, Decimal(-2), "")],
        ),
        (
            'COPY t (n, "ts", note) FROM STDIN WITH (FORMAT csv, HEADER)',
            ['n,ts,note\r\n1,2025-01-01,"a ""b"",\nc"\r\n2,2025-01-02,\r\n3,2025-01-03,""\r\n'],
            [(1, None, None, None, 'a "b",\nc'), (2, None, None, None, None), (3, None, None, None, "")],
        ),
        (
            r"copy main.t(ts,n,note) from stdin with delimiter E'|' null as E'\\N'",
            ["2025-01-01|1|a\\|b\n2025-01-02|2|\\N\n", "\\.\n"],
            [(1, None, None, None, "a|b"), (2, None, None, None, None)],
        ),
        ("COPY t FROM STDIN CSV", [], []),
        (
            "COPY t (ts, n) FROM STDIN (DELIMITER ';', FORMAT csv)",
            ["2025-01-01;7"],
            [(7, None, None, None, None)],
        ),
    ],
)
def test_lines_are_rows(
    ada: psycopg.Connection[Any], asked: str, lines: list[str], found: list[tuple[Any, ...]]
) -> None:
    assert copy_in(ada, asked, *lines) == len(found)
    rows = ada.execute("SELECT ts, n, ok, raw, d, note FROM t ORDER BY n").fetchall()
    assert rows == [(day(number), *row) for number, row in enumerate(found, 1)]


def test_what_is_copied_out_is_copied_in(ada: psycopg.Connection[Any]) -> None:
    copy_in(
        ada, "COPY t (ts, n, ok, note) FROM STDIN", '2025-01-01\t1\tt\tq"\\\\,\\t\n2025-01-02\t2\tf\t\\N\n'
    )
    before = ada.execute("SELECT * FROM t ORDER BY n").fetchall()
    for form in ("", "WITH (FORMAT csv, HEADER)"):
        with ada.cursor() as cursor, cursor.copy(f"COPY t TO STDOUT {form}") as copy:
            lines = b"".join(bytes(part) for part in copy).decode()
        ada.execute("DELETE FROM t WHERE n < 100")
        assert copy_in(ada, f"COPY t FROM STDIN {form}", lines) == 2
        assert ada.execute("SELECT * FROM t ORDER BY n").fetchall() == before


def test_subtables_super_tables_and_quoted_names(ada: psycopg.Connection[Any]) -> None:
    assert copy_in(ada, "COPY drill FROM STDIN", "2025-01-01\t1.5\n") == 1
    assert copy_in(ada, "COPY power (tbname, ts, watts) FROM STDIN", "drill\t2025-01-02\t2\n") == 1
    rows = ada.execute("SELECT ts, watts, hall FROM power ORDER BY ts").fetchall()
    assert rows == [(day(1), 1.5, "A"), (day(2), 2.0, "A")]
    assert copy_in(ada, 'COPY "main"."Odd one" (ts, "a-b") FROM STDIN', "2025-01-01\t1\n") == 1
    assert ada.execute('SELECT "a-b" FROM "Odd one"').fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("asked", "lines", "said"),
    [
        ("COPY t (ts, n) FROM STDIN", "2025-01-01\t1\n2025-01-02\tmany\n", r"row 2.*cannot hold 'many'"),
        ("COPY t (ts, n) FROM STDIN", "2025-01-01\t1\n2025-01-02\n", "row 2 has 1 values, not 2"),
        (
            "COPY t (ts, n) FROM STDIN CSV",
            "2025-01-01,1\n2025-01-02,2,3\n",
            "Row #2: Expected 2 columns, got 3",
        ),
        ("COPY t (ts, note) FROM STDIN", "2025-01-01\ta\\\n", "no character that is escaped"),
        ("COPY nosuch FROM STDIN", "", "TABLE_NOT_FOUND"),
        ("COPY t (ts, nosuch) FROM STDIN", "", "COLUMN_NOT_FOUND"),
        ("COPY t (n) FROM STDIN", "", "BAD_VALUE: the columns lack ts"),
        ("COPY t (ts, FROM STDIN", "", "NOT_SUPPORTED"),
    ],
)
def test_lines_that_cannot_be_rows_leave_nothing(
    ada: psycopg.Connection[Any], asked: str, lines: str, said: str
) -> None:
    with pytest.raises(psycopg.Error, match=said):
        copy_in(ada, asked, lines)
    assert ada.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_client_that_gives_up_or_sends_too_much(
    ada: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TypeError):
        copy_in(ada, "COPY t (ts, n) FROM STDIN", "2025-01-01\t1\n", 1)  # type: ignore[arg-type]
    monkeypatch.setattr("lakestream.server.postgres.listener.MOST_BYTES", 10)
    with pytest.raises(psycopg.Error, match="TOO_LARGE"):
        copy_in(ada, "COPY t (ts, n) FROM STDIN", *["2025-01-01\t1\n"] * 100)
    assert ada.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_it_is_noted_as_it_was_said(ada: psycopg.Connection[Any]) -> None:
    assert copy_in(ada, "copy t (ts, n)\nfrom stdin csv", "2025-01-01,1\n") == 1
    noted = ada.execute(
        "SELECT did, outcome FROM information_schema.ins_audit ORDER BY at DESC LIMIT 1"
    ).fetchall()
    assert noted == [("COPY t (ts, n) FROM STDIN", "ok")]


def test_a_session_that_reads_does_not_copy_in(ada: psycopg.Connection[Any]) -> None:
    ada.execute("SET default_transaction_read_only = on")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        copy_in(ada, "COPY t FROM STDIN", "2025-01-01\n")


def test_texts_between_dollars(ada: psycopg.Connection[Any]) -> None:
    asked = r"""SELECT $$it's \ a;b$$ AS a, $x$a$$b$x$ AS b, '$$' AS c, 1 AS "$$" -- $$"""
    assert ada.execute(asked).fetchall() == [(r"it's \ a;b", "a$$b", "$$", 1)]
    ada.execute("INSERT INTO t (ts, n, note) VALUES (%s, 1, $$it's$$)", ["2025-01-01"])
    assert ada.execute("SELECT n FROM t WHERE note = $a$it's$a$").fetchall() == [(1,)]
    with pytest.raises(psycopg.errors.SyntaxError, match=r"UNCLOSED: the text behind \$a\$"):
        ada.execute("SELECT $a$it$$")
    with pytest.raises(psycopg.errors.UndefinedParameter):
        ada.execute("SELECT $1")


def test_texts_of_bytes(ada: psycopg.Connection[Any]) -> None:
    ada.execute(r"INSERT INTO t (ts, n, raw) VALUES ('2025-01-01', 1, '\x01ff'::bytea)")
    ada.execute(r"INSERT INTO t (ts, n, raw) VALUES ('2025-01-02', 2, E'\\x02'::bytea)")
    assert ada.execute("SELECT raw FROM t ORDER BY n").fetchall() == [(b"\x01\xff",), (b"\x02",)]
    ada.execute(r"UPDATE t SET raw = E'\\x0305'::bytea WHERE n = 1")
    ada.execute(r"UPDATE t SET raw = 'a\\b\001'::bytea WHERE n = 2")
    assert ada.execute("SELECT raw FROM t ORDER BY n").fetchall() == [(b"\x03\x05",), (b"a\\b\x01",)]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"SELECT '\x01'::bytea AS x, E'\\x02'::bytea AS y", "SELECT UNHEX('01') AS x, UNHEX('02') AS y"),
        ("SELECT n FROM t WHERE b = $1", "SELECT n FROM t WHERE b = UNHEX('01')"),
        ("UPDATE t SET b = $1 WHERE b = $1", r"UPDATE t SET b = '\\x01' WHERE b = UNHEX('01')"),
        ("DELETE FROM t WHERE b = 'a'::bytea", "DELETE FROM t WHERE b = UNHEX('61')"),
    ],
)
def test_bytes_are_compared_as_bytes(written: str, read: str) -> None:
    assert in_lakes_words(filled(written, [r"\x01"], [17]), "main") == read
