"""PostgreSQL's protocol over a small lake, asked by psycopg; nothing here starts Spark."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from pg_mimic import ARRAY_OID
from pg_mimic import types as pg

from lakestream.clock import SystemClock
from lakestream.lake import Lake
from lakestream.server.api.asking import Service
from lakestream.server.api.guard import Keys
from lakestream.server.news.live import Live, Rates
from lakestream.server.postgres.listener import Terms, answering
from lakestream.server.postgres.rows.values import encoded, result_columns
from lakestream.server.postgres.wording import split, worded
from lakestream.server.process.statements import Statements
from lakestream.server.shown.reader import Reader
from lakestream.settings import Settings
from lakestream.storage.places.layout import Layout
from lakestream.storage.records.audit import Audit
from lakestream.storage.records.tokens import Scope, Tokens
from tests.certificates import certificate

if TYPE_CHECKING:
    from collections.abc import Iterator

OF_DUCKDB = (
    "read_text('/etc/hostname')",
    "read_csv('/etc/hostname')",
    "duckdb_settings()",
    "query('SELECT 1')",
    "getvariable('here')",
    "current_query()",
    "write_log('x')",
    "checkpoint()",
    "repeat('a', 2000000000)",
    "range(1000000000)",
)
TABLES = """
CREATE STABLE power (ts TIMESTAMP, watts DOUBLE COMMENT 'in W', n INT, note VARCHAR(20), fine BOOL)
  TAGS (hall VARCHAR(10)) COMMENT 'of the plant';
INSERT INTO drill USING power TAGS ('A')
  VALUES ('2025-01-01 08:10:00', 700, 1, 'a\\\\b', true)
         ('2025-01-01 08:50:00', 740.5, 2, 'it''s', NULL);
CREATE DATABASE other;
CREATE TABLE other.Mixed (ts TIMESTAMP, `Big` BIGINT);
CREATE TABLE other.priced (ts TIMESTAMP, total DECIMAL(10,2))
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = str(tmp_path_factory.mktemp("postgres") / "lake")
    with Lake(root, settings=Settings()) as lake:
        lake.sql(TABLES)
    return root


class Served:
    """A lake served to PostgreSQL's clients, on a loop in a thread of its own."""

    def __init__(self, root: str, keys: Keys, rows: int, tls: ssl.SSLContext | None) -> None:
        first = Lake(root, settings=Settings(jars=Path(root)), create=False)  # no jars, no Spark
        clock = SystemClock()
        self.audit = Audit(Layout(root), clock)
        self.statements = Statements(first.another, 0, first.queries)
        reader = Reader(first.another(), Rates(clock.monotonic), dict)
        service = Service(reader, self.statements, Live(), self.audit, lambda: b"", lambda: "ok")
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        self.ended, begun = asyncio.Event(), threading.Event()
        runner = asyncio.Runner()
        self.loop = runner.get_loop()

        async def serve() -> None:
            async with answering(service, Terms(keys, 10, rows, 10.0, tls), listening):
                begun.set()
                await self.ended.wait()

        def serve_all() -> None:
            with runner:
                runner.run(serve())

        self.thread = threading.Thread(target=serve_all, daemon=True)
        self.thread.start()
        begun.wait()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.ended.set)
        self.thread.join()
        self.statements.close()

    def connect(self, **given: Any) -> psycopg.Connection[tuple[Any, ...]]:
        told = {"user": "ada", "dbname": "main", "password": "none", "autocommit": True}
        given = {**told, "connect_timeout": 60, **given}
        return psycopg.connect(host="127.0.0.1", port=self.port, **given)


@contextmanager
def lake_served(root: str, tables: str) -> Iterator[Served]:
    """Serve a lake of some tables to who has no token; five rows go at a time."""
    with Lake(root, settings=Settings()) as lake:
        lake.sql(tables)
    served = Served(root, Keys(), 5, None)
    yield served
    served.close()


@pytest.fixture(scope="module")
def open_served(root: str) -> Iterator[Served]:
    """The lake without tokens; of a result there are at most four rows."""
    served = Served(root, Keys(), 4, None)
    yield served
    served.close()


@pytest.fixture
def ada(open_served: Served) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with closing(open_served.connect()) as connection:
        yield connection


def test_a_clients_words_become_the_lakes() -> None:
    sql = """SELECT "a""b", 'x\\y', E'z\\n', `t` FROM "T" WHERE a = $2 AND b = $1 /* "c" $3 */ -- 'd'"""
    assert worded(sql, ["it's \\", "-5"], [None, 20]) == (
        """SELECT `a"b`, 'x\\\\y', 'z\\n', `t` FROM `T` WHERE a = (-5) AND b = 'it''s \\\\' """
        """/* "c" $3 */ -- 'd'"""
    )
    assert split("SELECT ';' AS \"a;\"; ;SELECT 2 -- ;") == ["SELECT ';' AS \"a;\"", "SELECT 2 -- ;"]
    assert worded("$1 $2 $3", ["2025-01-01 00:00:00+02", None, "t"], [1184, 25, 16]) == (
        "TIMESTAMP '2024-12-31 22:00:00+00:00' NULL TRUE"
    )
    assert worded("$1", ["2025-01-01 00:00:00"], [1184]) == "TIMESTAMP '2025-01-01 00:00:00+00:00'"
    assert worded("SELECT $1", ["\\x01ff"], [17]) == "SELECT unhex('01ff')"
    assert worded("INSERT INTO t VALUES ($1)", ["\\x01ff"], [17]) == r"INSERT INTO t VALUES ('\\x01ff')"
    with pytest.raises(Exception, match="hexadecimal"):
        worded("SELECT $1", ["\\x1"], [17])
    with pytest.raises(Exception, match="no number"):
        worded("SELECT $1", ["1; DROP TABLE t"], [23])
    with pytest.raises(Exception, match="no value"):
        worded("SELECT $2", ["1"], [None])


@pytest.mark.parametrize("binary", [False, True])
def test_rows_have_the_types_that_the_table_has(ada: psycopg.Connection[Any], *, binary: bool) -> None:
    rows = ada.execute('SELECT "ts", watts, n, note, fine FROM power ORDER BY ts', binary=binary)
    assert rows.fetchall() == [
        (datetime(2025, 1, 1, 8, 10, tzinfo=UTC), 700.0, 1, "a\\b", True),
        (datetime(2025, 1, 1, 8, 50, tzinfo=UTC), 740.5, 2, "it's", None),
    ]


def test_what_postgresql_lacks_is_json_or_text() -> None:
    far = pa.array([300_000_000_000_000_000], pa.timestamp("us", "UTC"))
    table = pa.table(
        {
            "d": pa.array([Decimal("1.5")]),
            "l": pa.array([[1, 2]]),
            "s": pa.array([{"a": [1]}]),
            "far": far,
            "big": pa.array([2**63], pa.uint64()),
        }
    )
    kinds = {"d": pg.NUMERIC, "l": ARRAY_OID[pg.INT8], "s": pg.JSON, "far": pg.TIMESTAMPTZ, "big": pg.NUMERIC}
    assert {column.name: column.oid for column in result_columns(table.schema)} == kinds
    told = [column.to_pylist() for column in encoded(table.to_batches()[0], [])]
    far_off, large = b"11476-08-15 05:20:00+00", b"9223372036854775808"
    assert told == [[b"1.5"], [b"{1,2}"], [b'{"a": [1]}'], [far_off], [large]]


def test_a_statement_with_parameters_runs_again_with_others(ada: psycopg.Connection[Any]) -> None:
    asked = "SELECT n FROM power WHERE watts > %s AND note = %s"
    for note, found in (("it's", [(2,)]), ("a\\b", [(1,)]), ("'; DROP TABLE power --", [])):
        assert ada.execute(asked, (1.5, note), prepare=True).fetchall() == found


def test_statements_of_a_lake_say_what_they_did(ada: psycopg.Connection[Any]) -> None:
    said: list[str] = []
    ada.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
    ada.execute("CREATE TABLE made (ts TIMESTAMP, v INT); INSERT INTO made VALUES ('2026-01-01', 1), (1, 2)")
    assert said == ["created table main.made", "inserted 2 rows"]
    assert ada.execute("SELECT sum(v) FROM made").fetchone() == (3,)
    assert [row[0] for row in ada.execute("SHOW TABLES").fetchall()] == ["drill", "made"]
    ada.execute("USE other")
    assert ada.execute("SELECT count(*) FROM Mixed").fetchone() == (0,)
    ada.execute("SET search_path = main")
    ada.execute("DROP TABLE made")


@pytest.mark.parametrize("prepare", [False, True])
def test_a_statement_that_writes_says_how_many_rows(ada: psycopg.Connection[Any], *, prepare: bool) -> None:
    ada.execute("CREATE TABLE counted (ts TIMESTAMP, v INT)")
    for sql, count in (
        ("INSERT INTO counted VALUES ('2026-01-01', 1), ('2026-01-02', 2), ('2026-01-03', 3)", 3),
        ("INSERT INTO counted SELECT ts, n FROM power", 2),
        ("UPDATE counted SET v = 9 WHERE v > 1 AND ts > '2026-01-01'", 2),
        ("DELETE FROM counted WHERE v = 7", 0),
        ("DELETE FROM counted WHERE v = 9", 2),
    ):
        assert ada.execute(sql, prepare=prepare).rowcount == count
    ada.execute("DROP TABLE counted")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT main.power.n FROM main.power WHERE main.power.n > 1",
        "SELECT max(main.power.n) AS n FROM main.power GROUP BY main.power.note ORDER BY n DESC LIMIT 1",
        "SELECT max(x) FROM (SELECT main.power.n AS x FROM main.power) AS q",
    ],
)
def test_a_column_may_be_named_with_its_database(ada: psycopg.Connection[Any], sql: str) -> None:
    assert ada.execute(sql).fetchone() == (2,)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT timezone('UTC', now()) = now() AS x",
        "SELECT now() AT TIME ZONE 'UTC' = now() AS x",
        "SELECT count(*) = 1 AS x FROM power WHERE ts AT TIME ZONE 'UTC' = '2025-01-01 08:10:00'",
        "SELECT max(ts) AT TIME ZONE 'utc' < '2026-01-01' AS x FROM power",
        "SELECT date_trunc('day', now() AT TIME ZONE 'UTC') <= now() AS x",
    ],
)
def test_times_in_utc_are_asked_of_nobody(ada: psycopg.Connection[Any], sql: str) -> None:
    assert ada.execute(sql).fetchone() == (True,)


def test_a_table_whose_first_column_is_no_time_says_what_to_do(ada: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.Error, match="FIRST_COLUMN_NOT_TIME") as error:
        ada.execute("CREATE TABLE frame (index BIGINT, ts TIMESTAMP WITHOUT TIME ZONE, v FLOAT(53))")
    assert error.value.diag.message_hint == "put ts first (of pandas: make it the index)"


def test_errors_have_postgresqls_codes_and_ours(ada: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable, match="TABLE_NOT_FOUND") as error:
        ada.execute("SELECT * FROM nothing")
    assert error.value.diag.statement_position == "15"
    with pytest.raises(psycopg.errors.SyntaxError, match="SYNTAX"):
        ada.execute("INSERT nothing")
    assert ada.execute("SELECT 1").fetchone() == (1,)


def test_what_was_written_is_not_rolled_back_in_silence(open_served: Served) -> None:
    with open_served.connect(autocommit=False) as connection:
        connection.execute("SELECT 1")
        connection.rollback()
        connection.execute("CREATE TABLE stays (ts TIMESTAMP, v INT)")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="1 statement since BEGIN"):
            connection.rollback()
        connection.execute("DROP TABLE stays")
        connection.commit()
        connection.rollback()


def test_a_result_that_is_too_large_is_an_error_and_no_part_of_it(ada: psycopg.Connection[Any]) -> None:
    rows = "SELECT a.n FROM power AS a CROSS JOIN power AS b"
    assert len(ada.execute(rows).fetchall()) == 4
    with pytest.raises(psycopg.DatabaseError, match="RESULT_TOO_LARGE: the result has more than 4 rows"):
        ada.execute(f"{rows} UNION ALL SELECT 1")


TABLES_OF_ALL = """
SELECT table_schema, table_name FROM information_schema.tables
WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2
"""
COLUMNS = """
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_attribute a
WHERE a.attrelid IN ('power'::regclass, 'other.priced'::regclass) AND a.attnum IN (2, 3) ORDER BY 1
"""
AS_PSQL = """
SELECT n.nspname, c.relname FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_toast' AND pg_catalog.pg_table_is_visible(c.oid)
  AND c.relname OPERATOR(pg_catalog.~) '^(power)$' COLLATE pg_catalog.default
"""
AS_SQLALCHEMY = """
SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class
JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p']) AND pg_catalog.pg_namespace.nspname = 'other'
"""
AS_GRAFANA = """
SELECT quote_ident(table_name) FROM information_schema.tables WHERE table_schema IN (
  SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
  FROM generate_series(
    array_lower(string_to_array(current_setting('search_path'), ','), 1),
    array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
    string_to_array(current_setting('search_path'), ',') s)
"""
OF_POWER = """
SELECT objsubid, description FROM pg_catalog.pg_description
WHERE objoid = 'power'::regclass ORDER BY objsubid
"""
AS_METABASE = """
SELECT c.table_name, col_description(
  CAST(CAST(FORMAT('%I.%I', CAST(c.table_schema AS TEXT), CAST(c.table_name AS TEXT)) AS REGCLASS) AS OID),
  c.ordinal_position)
FROM information_schema.columns c WHERE c.ordinal_position = 2 AND c.column_name IN ('watts', 'total')
ORDER BY 1
"""
AS_PSQL_OF_SERVERS = """
SELECT s.srvname, f.fdwname, s.srvtype, CASE WHEN srvoptions IS NULL THEN '' ELSE '(' ||
  array_to_string(ARRAY(
  SELECT pg_catalog.quote_ident(option_name) || ' ' || pg_catalog.quote_literal(option_value)
  FROM pg_catalog.pg_options_to_table(srvoptions)), ', ') || ')' END
FROM pg_catalog.pg_foreign_server s JOIN pg_catalog.pg_foreign_data_wrapper f ON f.oid = s.srvfdw
"""
AS_GDESC = """
SELECT name AS "Column", pg_catalog.format_type(tp, tpm) AS "Type"
FROM (VALUES ('a', '23'::pg_catalog.oid, -1), ('ts', '1184'::pg_catalog.oid, -1)) s(name, tp, tpm)
"""
AS_JDBC = "SELECT (information_schema._pg_expandarray(i.indkey)).n FROM pg_catalog.pg_index i"


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("SELECT current_database(), current_schema, current_user", [("main", "main", "ada")]),
        ("SELECT substr(pg_catalog.version(), 1, 13)", [("PostgreSQL 16",)]),
        ("SELECT '{1,2}'::pg_catalog.int2[], '3'::pg_catalog.int4 + 1 FROM pg_database", [([1, 2], 4)]),
        ("SHOW transaction isolation level", [("read committed",)]),
        (TABLES_OF_ALL, [("main", "power"), ("other", "Mixed"), ("other", "priced")]),
        (
            COLUMNS,
            [("n", "integer"), ("total", "numeric(10,2)"), ("watts", "double precision")],
        ),
        (AS_PSQL, [("main", "power")]),
        (AS_SQLALCHEMY, [("Mixed",), ("priced",)]),
        (AS_GRAFANA, [("power",)]),
        (OF_POWER, [(0, "of the plant"), (2, "in W")]),
        (AS_JDBC, []),
        ("SELECT count(*) > 9 FROM pg_get_keywords() WHERE word <> ALL ('{a,abs}'::text[])", [(True,)]),
        ("SELECT typname FROM pg_type WHERE typname = ANY('{bool,x}'::name[])", [("bool",)]),
        ("SELECT count(*) FROM pg_stat_user_tables WHERE schemaname = 'other'", [(2,)]),
        (AS_METABASE, [("power", "in W"), ("priced", None)]),
        ("SELECT has_any_column_privilege('power', 'update') as update, 1 as select", [(True, 1)]),
        ("SELECT to_regtype('bigint'), 'int8'::regtype::oid, 'int8'::regtype", [(20, 20, 20)]),
        ("SELECT current_setting('server_version_num')::int/100", [(1600,)]),
        # What psql asks for its commands do, dC, des+, dew, dy, dRp, dRs, dc, ddp, deu, df+, dX, dFd
        ("SELECT o.oprname FROM pg_catalog.pg_operator o WHERE pg_catalog.pg_operator_is_visible(o.oid)", []),
        ("SELECT castsource FROM pg_catalog.pg_cast LEFT JOIN pg_catalog.pg_proc p ON castfunc = p.oid", []),
        (AS_PSQL_OF_SERVERS, []),
        ("SELECT fdwname, fdwhandler::pg_catalog.regproc FROM pg_catalog.pg_foreign_data_wrapper", []),
        ("SELECT evtname, evtevent, evtenabled, evttags FROM pg_catalog.pg_event_trigger", []),
        ("SELECT pubname, pubinsert, pubviaroot FROM pg_catalog.pg_publication", []),
        ("SELECT subname, subenabled, subpublications FROM pg_catalog.pg_subscription", []),
        ("SELECT conname, condefault FROM pg_catalog.pg_conversion", []),
        ("SELECT defaclobjtype, defaclacl FROM pg_catalog.pg_default_acl", []),
        ("SELECT srvname, usename FROM pg_catalog.pg_user_mappings", []),
        (
            "SELECT prosecdef, pg_catalog.pg_get_function_sqlbody(oid) FROM pg_proc WHERE proname = 'boolin'",
            [(False, None)],
        ),
        (
            "SELECT stxname FROM pg_catalog.pg_statistic_ext WHERE pg_statistics_obj_is_visible(oid)",
            [],
        ),
        ("SELECT dictname FROM pg_catalog.pg_ts_dict WHERE pg_catalog.pg_ts_dict_is_visible(oid)", []),
        ("SELECT boot_val, extra_desc, pending_restart FROM pg_catalog.pg_settings WHERE name = ''", []),
        ("SELECT c.tableoid FROM pg_catalog.pg_class c WHERE c.relname = 'power'", [(1259,)]),
        (
            "SELECT pg_catalog.array_remove(ARRAY[1, 2], 1), pg_catalog.quote_literal('a''b')",
            [([2], "'a''b'")],
        ),
        (
            "SELECT datname, spcname FROM pg_database d JOIN pg_tablespace t ON d.dattablespace = t.oid",
            [("main", "pg_default")],
        ),
        (
            "SELECT collname FROM pg_collation WHERE pg_char_to_encoding(getdatabaseencoding()) = 0",
            [],
        ),
        (
            "SELECT typname FROM pg_type WHERE typinput='pg_catalog.array_in'::regproc AND typelem = 23",
            [("_int4",)],
        ),
        (
            f"SELECT count(*) > 9 FROM pg_get_keywords() WHERE word <> ALL ('{{{'a,' * 200}abs}}'::text[])",
            [(True,)],
        ),
        (
            "SELECT 'pg_depend'::regclass::text, 'power'::regclass::varchar, 'int4'::regtype::text",
            [("pg_depend", "power", "integer")],
        ),
        (AS_GDESC, [("a", "integer"), ("ts", "timestamp with time zone")]),
        (
            "SELECT privilege_type FROM information_schema.table_privileges WHERE table_name = 'Mixed'",
            [("SELECT",), ("INSERT",), ("UPDATE",), ("DELETE",)],
        ),
    ],
)
def test_clients_find_the_tables(ada: psycopg.Connection[Any], asked: str, given: list[tuple[Any]]) -> None:
    assert ada.execute(asked).fetchall() == given
    assert ada.execute(asked, prepare=True).fetchall() == given


def test_a_function_has_no_source(ada: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.UndefinedFunction, match='function "version" does not exist'):
        ada.execute("SELECT 'version'::pg_catalog.regproc::pg_catalog.oid")


def test_an_index_is_taken_and_a_unique_one_refused(ada: psycopg.Connection[Any]) -> None:
    notices: list[str | None] = []
    ada.add_notice_handler(lambda told: notices.append(told.message_primary))
    ada.execute("CREATE INDEX ix_power_n ON power (n)")
    assert notices == ["a lake has no indexes: none is made, and queries give the same without it"]
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="UNIQUE"):
        ada.execute("CREATE UNIQUE INDEX ix_power_n ON power (n)")


def test_the_lakes_own_tables_are_asked_of_the_lake(ada: psycopg.Connection[Any]) -> None:
    assert ada.execute("SELECT count(*) FROM information_schema.ins_streams").fetchone() == (0,)


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        (f"SELECT ${'9' * 5000}", "54000"),
        ("SELECT $99999999999", "54000"),
        (f"FETCH {'9' * 5000} FROM a", "22003"),
        (f"SELECT round(watts, {'9' * 5000}) FROM power", "42000"),
        (f"SELECT {'9' * 5000}", "42000"),
    ],
)
def test_numbers_of_very_many_digits_are_refused(
    ada: psycopg.Connection[Any], asked: str, refused: str
) -> None:
    with pytest.raises(psycopg.Error) as error:
        ada.execute(asked)
    assert error.value.sqlstate == refused


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        *((f"SELECT * FROM pg_catalog.pg_class, {one}", "42883") for one in OF_DUCKDB),
        *((f"SELECT {one} FROM pg_catalog.pg_class", "42883") for one in OF_DUCKDB),
        ("SELECT * FROM pg_catalog.pg_class, '/etc/hostname'", "42P01"),
        ("SELECT * FROM pg_catalog.pg_class, sqlite_master", "42P01"),
        ("SELECT * FROM pg_catalog.pg_class, pg.pg_class AS p", "42P01"),
        ("WITH a AS (SELECT * FROM duckdb_tables) SELECT * FROM a, pg_catalog.pg_class", "42P01"),
        ("SELECT oid INTO x FROM pg_catalog.pg_class", "0A000"),
        ("SELECT * FROM pg_catalog.pg_nothing", "42P01"),
        ("SELECT generate_series(1, 1000 * 1000 * 1000) FROM pg_catalog.pg_class", "0A000"),
        ("SELECT oid FROM pg_catalog.pg_class, generate_series(1, 9000000)", "0A000"),
        ("SELECT a.* FROM pg_type a, pg_type b, pg_type c, pg_type d", "54000"),
    ],
)
def test_system_tables_reach_nothing_else(ada: psycopg.Connection[Any], asked: str, refused: str) -> None:
    """DuckDB's files, settings, texts that it runs, and the process's memory are out of reach."""
    with pytest.raises(psycopg.Error) as error:
        ada.execute(asked)
    assert error.value.sqlstate == refused


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ('SELECT p."n" FROM "main"."main"."power" p ORDER BY 1', [(1,), (2,)]),
        ('SELECT count(*) FROM "main"."other"."Mixed"', [(0,)]),
    ],
)
def test_a_table_may_have_three_names(
    ada: psycopg.Connection[Any], asked: str, given: list[tuple[int]]
) -> None:
    assert ada.execute(asked).fetchall() == given
    with pytest.raises(psycopg.DatabaseError):
        ada.execute('SELECT * FROM "nowhere"."main"."power"')


def test_an_unknown_database_is_refused(open_served: Served) -> None:
    with pytest.raises(psycopg.OperationalError, match="there is no database nowhere"):
        open_served.connect(dbname="nowhere")


def test_a_message_that_is_too_long_ends_the_connection(ada: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.OperationalError):
        ada.execute("SELECT '" + "x" * 1024**2 + "'")


def test_a_token_lets_in_and_does_what_its_scope_does(root: str, tmp_path: Path) -> None:
    tokens = Tokens(Layout(root))
    reads = tokens.issue("grafana", Scope.READ, ("other",), 0)
    cert, key = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    served = Served(root, Keys("s" * 16, tokens), 100, tls)
    connect = partial(served.connect, sslmode="require")
    try:
        for given in ("", "wrong", "s" * 15):
            with pytest.raises(psycopg.OperationalError, match="TOKEN_NEEDED"):
                connect(password=given or "-")
        with pytest.raises(psycopg.OperationalError, match="there is no database main"):
            connect(password=reads)
        with pytest.raises(psycopg.OperationalError, match="encrypted connections only"):
            served.connect(password=reads, dbname="other", sslmode="disable")
        with connect(password=reads, dbname="other") as grafana:
            found = grafana.execute("SELECT relname FROM pg_class WHERE relnamespace > 14000").fetchall()
            assert found == [("Mixed",), ("priced",)]
            for refused in ("SELECT * FROM main.power", "INSERT INTO Mixed VALUES (1, 1)"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="FORBIDDEN"):
                    grafana.execute(refused)
        with connect(password="s" * 16, dbname="other") as owner:
            owner.execute("INSERT INTO Mixed VALUES (1, 1)")
    finally:
        tokens.revoke("grafana")
        served.close()
    noted = {(row["who"], row["did"], row["outcome"]) for row in served.audit.rows().to_pylist()}
    written = "INSERT INTO Mixed VALUES (1, 1)"
    assert {("grafana", written, "FORBIDDEN"), ("server_token", written, "ok")} <= noted
