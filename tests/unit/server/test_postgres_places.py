"""Where errors stand in what PostgreSQL's clients write, whatever a lake makes of it."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.unit.server.test_postgres import Served, ada, open_served, root

__all__ = ["ada", "open_served", "root"]


@pytest.mark.parametrize(
    "written",
    [
        "SELECT n, ^nosuch FROM power",
        "  SELECT n,\n    ^nosuch\nFROM power",
        "SELECT 'grün☃', \"n\", ^nosuch FROM power",
        'SELECT "hall", "^nosuch" FROM power',
        "SELECT 'n'::text, ^nosuch FROM power WHERE note = 'n'",
        "SELECT ARRAY[n], ^nosuch FROM main.power",
        "SELECT 1; SELECT ^nosuch FROM power; SELECT 2",
        "SELECT * FROM ^nothing",
        "^selct 1",
        "COPY (SELECT ^nosuch FROM power) TO STDOUT",
        "COPY power (ts, ^nosuch) FROM STDIN",
        "SELECT 1; COPY ^nosuch FROM STDIN",
        "DECLARE c CURSOR WITH HOLD FOR SELECT ^nosuch FROM power",
        "UPDATE power SET ^nosuch = 1",
        "SHOW ^streamz",
    ],
)
def test_an_error_is_where_it_was_written(ada: psycopg.Connection[Any], written: str) -> None:
    with pytest.raises(psycopg.Error) as error:
        ada.execute(written.replace("^", ""))
    assert error.value.diag.statement_position == str(written.index("^") + 1)
    assert error.value.diag.message_detail is None


def test_a_place_among_parameters_is_that_of_the_text(ada: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.Error) as error:
        ada.execute("SELECT %s, nosuch FROM power", ["nothing such"], prepare=True)
    assert error.value.diag.statement_position == "12"


@pytest.mark.parametrize("written", ["SELECT nosuch FROM power", "COPY nosuch TO STDOUT"])
def test_what_is_found_nowhere_has_no_place(
    ada: psycopg.Connection[Any], written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakestream.server.postgres.failing._position", lambda *_: 0)
    with pytest.raises(psycopg.Error, match="nosuch") as error:
        ada.execute(written)
    assert error.value.diag.statement_position is None
    assert "^" in str(error.value.diag.message_detail)


def test_what_another_server_asks_with_is_understood(open_served: Served) -> None:
    # As postgres_fdw does for a foreign table, and when its own transaction fails.
    with open_served.connect() as connection:
        for word in ("SET search_path = pg_catalog", "SET timezone = 'GMT'", "SET extra_float_digits = 3"):
            connection.execute(word)
        connection.execute("START TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("DECLARE c1 CURSOR FOR\nSELECT n FROM main.power WHERE ((n = 2))")
        assert connection.execute("FETCH 100 FROM c1").fetchall() == [(2,)]
        connection.execute("CLOSE c1")
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT nosuch FROM main.power")
        connection.execute("ABORT TRANSACTION")
        assert connection.execute("SELECT max(n) FROM power").fetchone() == (2,)


def test_a_time_may_have_a_short_offset(ada: psycopg.Connection[Any]) -> None:
    changed = ada.execute("UPDATE power SET n = 1 WHERE ts = '2025-01-01 10:10:00+02' AND tbname = 'drill'")
    assert changed.rowcount == 1


def test_settings_are_shown_or_unknown(ada: psycopg.Connection[Any]) -> None:
    settings = ada.execute("SHOW ALL").fetchall()
    assert ("server_encoding", "UTF8", "") in settings
    for name, value, _ in settings:
        assert ada.execute(f"SHOW {name}").fetchone() == (value,)
    with pytest.raises(psycopg.errors.SyntaxError, match="work_mem"):
        ada.execute("SHOW work_mem")


@pytest.mark.parametrize("connect", ["database", "true", "1"])
def test_replication_is_refused_by_name(open_served: Served, connect: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="replication is not spoken"):
        open_served.connect(replication=connect)


@pytest.mark.parametrize(
    "form", ["SELECT '{}'", "SELECT ('{}')", "SELECT CASE WHEN TRUE THEN '{}' END", "SELECT '{}'::text"]
)
def test_a_long_text_is_no_interval(form: str, ada: psycopg.Connection[Any]) -> None:
    long = "a" * 300
    assert ada.execute(form.format(long)).fetchone() == (long,)
