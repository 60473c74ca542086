"""Large results of PostgreSQL's clients: cursors, and COPY … TO STDOUT. Nothing here starts Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.unit.server.test_postgres import Served, lake_served

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = """
CREATE TABLE t (ts TIMESTAMP, n INT, note VARCHAR(20));
INSERT INTO t VALUES ('2025-01-01', 1, 'a,b'), ('2025-01-02', 2, NULL), ('2025-01-03', 3, ''),
  ('2025-01-04', 4, 'q"\t\\\\'), ('2025-01-05', 5, 'e')
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with lake_served(str(tmp_path_factory.mktemp("reading") / "lake"), TABLES) as served:
        yield served


@pytest.fixture
def ada(served: Served) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with served.connect() as connection:
        yield connection


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_a_named_cursor_reads_part_by_part(served: Served, *, size: int, binary: bool) -> None:
    with served.connect(autocommit=False) as connection:
        for low in (0, 3):
            with connection.cursor('Of "n', binary=binary) as cursor:
                cursor.execute("SELECT n FROM t WHERE n > %s ORDER BY n", (low,))
                assert [column.name for column in cursor.description or ()] == ["n"]
                parts = []
                while part := cursor.fetchmany(size):
                    parts.append(part)
            assert [row for part in parts for row in part] == [(n,) for n in range(low + 1, 6)]
            assert max(map(len, parts)) <= size


def test_a_cursor_skips_and_ends(ada: psycopg.Connection[Any]) -> None:
    ada.execute("DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT n FROM t ORDER BY n")
    assert ada.execute("FETCH c").fetchall() == [(1,)]
    assert ada.execute("MOVE FORWARD 2 IN c").rowcount == 2
    assert ada.execute("FETCH 0 FROM c").fetchall() == []
    assert ada.execute("FETCH ALL FROM c").fetchall() == [(4,), (5,)]
    assert ada.execute("FETCH NEXT FROM c").fetchall() == []
    ada.execute("CLOSE c")
    with pytest.raises(psycopg.errors.InvalidCursorName):
        ada.execute("FETCH c")
    ada.execute("CLOSE ALL")


def test_a_cursor_ends_with_its_transaction(ada: psycopg.Connection[Any]) -> None:
    declared = "DECLARE c CURSOR FOR SELECT n FROM t"
    with pytest.raises(psycopg.errors.NoActiveSqlTransaction):
        ada.execute(declared)
    for end in ("COMMIT", "ROLLBACK", "fails"):
        ada.execute("BEGIN")
        ada.execute(declared)
        ada.execute("DECLARE held CURSOR WITH HOLD FOR SELECT n FROM t ORDER BY n")
        if end == "fails":
            with pytest.raises(psycopg.errors.DuplicateCursor):
                ada.execute(declared)
        assert ada.execute("COMMIT" if end == "fails" else end).statusmessage == end.replace(
            "fails", "ROLLBACK"
        )
        with pytest.raises(psycopg.errors.InvalidCursorName):
            ada.execute("FETCH c")
        if end == "COMMIT":
            assert ada.execute("FETCH held").fetchall() == [(1,)]
            ada.execute("CLOSE held")
        with pytest.raises(psycopg.errors.InvalidCursorName):
            ada.execute("FETCH held")


def test_open_cursors_are_listed(ada: psycopg.Connection[Any]) -> None:
    listed = "SELECT name, statement, is_holdable FROM pg_catalog.pg_cursors WHERE creation_time <= now()"
    ada.execute("BEGIN")
    ada.execute("DECLARE c CURSOR WITH HOLD FOR SELECT n FROM t")
    ada.execute("DECLARE d CURSOR FOR SELECT n FROM t")
    assert ada.execute(listed).fetchall() == [("c", "SELECT n FROM t", True), ("d", "SELECT n FROM t", False)]
    ada.execute("COMMIT")
    assert ada.execute(listed).fetchall() == [("c", "SELECT n FROM t", True)]
    ada.execute("CLOSE c")
    assert ada.execute("SELECT name FROM pg_cursors").fetchall() == []


@pytest.mark.parametrize("asked", ["FETCH PRIOR FROM c", "FETCH BACKWARD 2 FROM c", "MOVE ABSOLUTE 1 FROM c"])
def test_a_cursor_goes_forward_only(ada: psycopg.Connection[Any], asked: str) -> None:
    ada.execute("DECLARE c CURSOR WITH HOLD FOR SELECT n FROM t")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="forward only"):
        ada.execute(asked)


def copied(connection: psycopg.Connection[Any], sql: str) -> str:
    with connection.cursor() as cursor, cursor.copy(sql) as copy:
        return b"".join(bytes(part) for part in copy).decode()


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("COPY t (n, note) TO STDOUT", '1\ta,b\n2\t\\N\n3\t\n4\tq"\\t\\\\\n5\te\n'),
        (
            "COPY (SELECT n, note FROM t ORDER BY n) TO STDOUT WITH (FORMAT csv, HEADER)",
            'n,note\n1,"a,b"\n2,\n3,""\n4,"q""\t\\"\n5,e\n',
        ),
        ("COPY (SELECT n, note FROM t WHERE n < 3) TO STDOUT WITH CSV HEADER", 'n,note\n1,"a,b"\n2,\n'),
        ("COPY (SELECT n, note FROM t WHERE n < 3) TO STDOUT (DELIMITER ',', NULL 'no')", "1,a\\,b\n2,no\n"),
    ],
)
def test_rows_are_copied_as_lines(ada: psycopg.Connection[Any], asked: str, given: str) -> None:
    assert sorted(copied(ada, asked).splitlines()) == sorted(given.splitlines())
    assert ada.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("asked", ["(FORMAT binary)", "WITH BINARY"])
def test_rows_are_copied_in_binary_form(ada: psycopg.Connection[Any], asked: str) -> None:
    query = "SELECT n, note, ts, n / 2 AS half FROM t ORDER BY n"
    with ada.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT {asked}") as copy:
        copy.set_types(["int4", "text", "timestamptz", "float8"])
        rows = [*copy.rows()]
    assert rows == ada.execute(query).fetchall()


def test_copied_rows_come_as_values(ada: psycopg.Connection[Any]) -> None:
    with ada.cursor() as cursor, cursor.copy("COPY (SELECT note FROM t WHERE n = 4) TO STDOUT") as copy:
        assert [*copy.rows()] == [('q"\t\\',)]


@pytest.mark.parametrize(
    "asked",
    [
        "LISTEN news",
        "LOCK TABLE t",
        "PREPARE p AS SELECT 1",
        "DO $$ BEGIN END $$",
        "CREATE TEMP TABLE x (a INT)",
        "SELECT age(ts) FROM t",
        "COPY t FROM STDIN (FORMAT binary)",
        "COPY t FROM STDIN WHERE n > 1",
        "COPY t FROM '/tmp/file'",
        "COPY t TO '/tmp/file'",
        "COPY t FROM STDIN WITH BINARY",
        "COPY t TO STDOUT (FORMAT binary, HEADER)",
        "COPY t TO STDOUT (FORMAT csv, FORCE_QUOTE note)",
    ],
)
def test_what_a_lake_has_nothing_for_is_refused_by_name(ada: psycopg.Connection[Any], asked: str) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="NOT_SUPPORTED"):
        ada.execute(asked)
    assert ada.execute("SELECT 1").fetchone() == (1,)


def test_a_prepared_copy_is_refused_by_name(ada: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="prepared"):
        ada.execute("COPY t TO STDOUT", prepare=True)


def test_too_many_rows_are_not_copied_in_part(ada: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.Error, match="RESULT_TOO_LARGE"):
        copied(ada, "COPY (SELECT a.n FROM t a CROSS JOIN t b) TO STDOUT")
