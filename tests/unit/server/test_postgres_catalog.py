"""The system tables that PostgreSQL's clients ask: all of them, and the forms that their queries have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from lakestream.server.postgres.catalog.relations import SCHEMAS, columns_told, relations
from lakestream.server.postgres.catalog.tables import Seen, SystemTables, Visit
from lakestream.server.postgres.forms import types_told
from tests.unit.server.test_postgres import Served, lake_served

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBERED = {"oid", "xid", "regproc", "regtype"}
TABLES = "CREATE TABLE t (ts TIMESTAMP, n INT, d DECIMAL(20, 3)) COMMENT 'it';"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with lake_served(str(tmp_path_factory.mktemp("catalog") / "lake"), TABLES) as served:
        yield served


@pytest.fixture
def ada(served: Served) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with served.connect() as connection:
        yield connection


def test_every_relation_is_there_with_its_columns() -> None:
    """They are PostgreSQL's, in their order; numbers of objects have a type of their own."""
    tables = SystemTables(Visit("main", "ada", 1), Seen(("main",), ()))
    tables.need(relations())
    assert len(relations()) > 200
    for (schema, name), relation in relations().items():
        told = tables.engine.table(f"{SCHEMAS[schema]}.{name}")
        assert told.columns == [column for column, _ in relation.columns]
        for found, (_, kind) in zip(told.types, relation.columns, strict=True):
            assert (str(found) == "UINTEGER") == (kind.rstrip("!") in NUMBERED), name


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("SELECT 1, 'a', NULL, true, 1::text, 'a'::name, 1::bigint FROM pg_class", "????text name int8"),
        ("SELECT CASE WHEN true THEN relname ELSE format_type(23, NULL) END FROM pg_class", "format_type"),
        ("SELECT CASE WHEN true THEN relname END, (SELECT oid FROM pg_am) FROM pg_class", "case oid"),
        ("SELECT * FROM (SELECT current_database(), max(oid) FROM pg_am) q", "current_database max"),
        ("SELECT ctid, xmin, t.tableoid FROM pg_class t", "ctid xmin tableoid"),
        ("SELECT typinput, typsend FROM pg_type", "typinput typsend"),
        ("SELECT oid = 1, -relnatts, relname || 'x', upper(relname) = 'A' AND true FROM pg_class", "????"),
        ("SELECT oid IN (1), relname LIKE 'a', oid BETWEEN 1 AND 2, NOT true FROM pg_class", "????"),
        ('SELECT relname COLLATE "C", reloptions[1], relname IS NULL FROM pg_class', "relname reloptions ?"),
        ("SELECT CASE WHEN true THEN '' ELSE (SELECT amname AS d FROM pg_am) END FROM pg_class", "d"),
        ('SELECT RelName, oid AS OID, oid AS "Oid" FROM PG_CLASS C WHERE c.OID = 1259', "relname oid Oid"),
        ('SELECT RelName::text, (OID), "relname"::TEXT FROM pg_class', "relname oid relname"),
    ],
)
def test_columns_have_the_names_that_postgresql_gives(
    ada: psycopg.Connection[Any], asked: str, names: str
) -> None:
    told = ada.execute(f"{asked} LIMIT 1").description or ()
    assert [column.name for column in told] == names.replace("?", "?column? ").split()


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        # pgAdmin
        ("SELECT 'a' = ANY(ARRAY(SELECT relname FROM pg_class)) FROM pg_am", False),
        ("SELECT rolname FROM pg_roles r WHERE 'ada' = ANY(ARRAY(WITH RECURSIVE c AS (SELECT rolname, oid "  # noqa: ISC004
         "FROM pg_roles WHERE oid = r.oid UNION ALL SELECT m.rolname, a.roleid FROM c JOIN pg_auth_members a "
         "ON a.member = c.oid JOIN pg_roles m ON m.oid = a.roleid) SELECT rolname FROM c))", "ada"),
        ("SELECT count(*) FROM pg_am WHERE amname <> ALL(ARRAY(SELECT amname FROM pg_am))", 0),
        ("SELECT substring('a=1,b=23' FROM 'b=([0-9]*)') FROM pg_am", "23"),
        ("SELECT substring('a=1' FROM 'b=([0-9]*)') FROM pg_am", None),
        ("SELECT substring('abc' FROM 'b.') FROM pg_am", "bc"),
        ("SELECT st.setting FROM pg_show_all_settings() st WHERE st.name = 'bytea_output'", "hex"),
        ("SELECT count(d.grantee) FROM (SELECT aclexplode(relacl) AS d FROM pg_class) AS acls", 0),
        ("SELECT count(*) FROM pg_proc WHERE proargtypes = '2281 2281 3615'", 0),
        ("SELECT pg_catalog.to_char(TIMESTAMPTZ '2026-01-02 13:04:05Z', 'YYYY-MM-DD HH24:MI TZ') FROM pg_am",
         "2026-01-02 13:04 UTC"),
        ("SELECT count(*) FROM pg_available_extensions()", 0),
        ("SELECT datname FROM pg_database WHERE oid > 16383::oid", "main"),
        # pgcli, Npgsql, DataGrip, Grafana
        ("SELECT relname FROM pg_class WHERE relkind = ANY('{r,p}') AND relname = 't'", [("t",)]),
        ("SELECT relname FROM pg_class WHERE oid = ANY('{1259, 2601}') AND relname <> ALL('{pg_am}')",
         "pg_class"),
        ("SELECT p.proname FROM pg_type t JOIN pg_proc p ON p.oid = typreceive WHERE typname = '_int4'",
         "array_recv"),
        ("SELECT typname FROM pg_type WHERE typreceive = 'array_recv'::regproc AND typelem = 23", "_int4"),
        ("SELECT typinput FROM pg_type WHERE typoutput::text = 'numeric_out'", "numeric_in"),
        ("SELECT proname FROM pg_proc WHERE oid = 'pg_catalog.boolin'::regproc::oid", "boolin"),
        ("SELECT t.typname FROM pg_type t WHERE t.typsend::oid = 'boolsend'::regproc::oid", "bool"),
        ("SELECT prorettype::regtype[]::text[] FROM pg_proc WHERE false", []),
        ("SELECT (parse_ident('other.\"A b\"'))[2] FROM pg_am", "A b"),
        ("SELECT typname FROM pg_type WHERE oid = 705 AND typtype = 'p'", "unknown"),
        ("SELECT xmin::varchar::bigint, age(xmin) FROM pg_namespace WHERE nspname = 'main'", [(1, 1)]),
        ("SELECT table_type FROM information_schema.tables WHERE table_name = 'pg_roles'", "VIEW"),
        ("SELECT numeric_precision_radix, numeric_scale FROM information_schema.columns "  # noqa: ISC004
         "WHERE table_name = 't' AND column_name <> 'ts' ORDER BY numeric_precision", [(10, 3), (2, 0)]),
    ],
)  # fmt: skip
def test_what_clients_write_is_understood(
    ada: psycopg.Connection[Any], asked: str, given: str | int | list[tuple[Any, ...]] | None
) -> None:
    assert ada.execute(asked).fetchall() == (given if isinstance(given, list) else [(given,)])


def test_parameters_have_the_types_of_the_columns_beside_them() -> None:
    """As asyncpg asks for them, which encodes by them."""
    asked = "SELECT 1 FROM pg_class WHERE oid > $1 AND relnatts = $2 AND relname = $3 AND relhasrules = $4"
    assert types_told(asked, columns_told()) == {1: 26, 2: 21, 3: 25, 4: 16}


def test_a_relation_that_postgresql_has_none_of_is_named(ada: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable, match='relation "pg_nothing" does not exist'):
        ada.execute("SELECT * FROM pg_nothing")
