"""An engine with PostgreSQL's system tables, filled with a lake's databases, tables and columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from pg_mimic import ARRAY_OID
from pg_mimic import types as pg

from lakestream import __version__
from lakestream.lake import workspace_of
from lakestream.observation.information import INFORMATION_SCHEMA
from lakestream.server.postgres.catalog.relations import FIRST_UNKNOWN, SCHEMAS, TABLES, relations
from lakestream.server.postgres.rows.values import type_number
from lakestream.storage.columns.types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lakestream.lake import Lake
    from lakestream.storage.names.table_info import Column, TableInfo
    from lakestream.storage.records.tokens import Principal

VERSION = "16.0"
"""The version of PostgreSQL whose tables these are, as clients ask for it."""
_FIRST = 16_384
"""The number of the first table; PostgreSQL's own have lower ones."""
_SYSTEM = {"pg_catalog": 11, INFORMATION_SCHEMA: FIRST_UNKNOWN - 1}
_OWNER = 10
_FILLED = {
    "pg_catalog": (
        *("pg_am", "pg_attribute", "pg_authid", "pg_class", "pg_cursors", "pg_database", "pg_description"),
        *("pg_namespace", "pg_proc", "pg_roles", "pg_settings", "pg_shadow", "pg_stat_all_tables"),
        *("pg_stat_user_tables", "pg_tables", "pg_tablespace", "pg_type", "pg_user", "pg_views"),
    ),
    INFORMATION_SCHEMA: (
        *("character_sets", "column_privileges", "columns", "enabled_roles", "schemata", "table_privileges"),
        *("information_schema_catalog_name", "role_column_grants", "role_table_grants", "tables", "views"),
    ),
}
"""The relations that have rows; each other one is empty."""
_UNDERSCORED = frozenset({"date", "interval", "json", "numeric", "time", "timestamp", "timestamptz", "array"})
"""The types whose functions have a ``_`` between the type's name and what they do."""
_FIRST_FUNCTION = 12_000
_TYPES = {
    pg.BOOL: ("bool", "boolean", "B", 1),
    pg.BYTEA: ("bytea", "bytea", "U", -1),
    pg.INT2: ("int2", "smallint", "N", 2),
    pg.INT4: ("int4", "integer", "N", 4),
    pg.INT8: ("int8", "bigint", "N", 8),
    pg.TEXT: ("text", "text", "S", -1),
    pg.OID: ("oid", "oid", "N", 4),
    pg.NAME: ("name", "name", "S", 64),
    pg.VARCHAR: ("varchar", "character varying", "S", -1),
    pg.JSON: ("json", "json", "U", -1),
    pg.FLOAT4: ("float4", "real", "N", 4),
    pg.FLOAT8: ("float8", "double precision", "N", 8),
    pg.DATE: ("date", "date", "D", 4),
    pg.TIME: ("time", "time without time zone", "D", 8),
    pg.TIMESTAMP: ("timestamp", "timestamp without time zone", "D", 8),
    pg.TIMESTAMPTZ: ("timestamptz", "timestamp with time zone", "D", 8),
    pg.INTERVAL: ("interval", "interval", "T", 16),
    pg.NUMERIC: ("numeric", "numeric", "N", -1),
    705: ("unknown", "unknown", "X", -2),
    2249: ("record", "record", "P", -1),
    2278: ("void", "void", "P", 4),
}
"""Types by number: name, name in words, category, size in bytes."""
_PSEUDO = ("P", "X")
"""The categories of types that no column has."""


@dataclass(frozen=True)
class Seen:
    """What somebody sees of a lake: its databases, and their tables."""

    databases: tuple[str, ...]
    tables: tuple[TableInfo, ...]


@dataclass(frozen=True)
class Visit:
    """A connection, as the system tables tell of it: its ``database`` is the one that clients connect to."""

    database: str
    user: str
    number: int


def seen(lake: Lake, principal: Principal) -> Seen:
    """Return what somebody sees of a lake."""
    lake.restrict(principal.databases)
    catalog = workspace_of(lake).catalog
    databases = tuple(name for name in catalog.databases.names() if principal.reaches(name))
    return Seen(databases, tuple(info for name in databases for info in catalog.tables(name)))


class SystemTables:
    """The system tables of one connection: a relation is made when somebody asks for it."""

    def __init__(self, visit: Visit, seen: Seen) -> None:
        self.engine = duckdb.connect(config={"threads": 1, "memory_limit": "512MB", "temp_directory": ""})
        self._made: set[tuple[str, str]] = set()
        for schema in SCHEMAS.values():
            self.engine.execute(f"CREATE SCHEMA {schema}")
        self.need((schema, name) for schema, names in _FILLED.items() for name in names)
        spoken = f"PostgreSQL {VERSION} (lakestream {__version__})"
        for name, value in (("who", visit.user), ("version", spoken), ("pid", visit.number)):
            self.engine.execute(f"SET VARIABLE {name} = ?", [value])
        self._fill_all(visit, seen)
        self.engine.execute(files(__package__).joinpath("catalog.sql").read_text(encoding="utf-8"))
        self.engine.execute(
            "SET integer_division = true; SET enable_external_access = false; SET lock_configuration = true"
        )

    def _fill_all(self, visit: Visit, seen: Seen) -> None:
        spaces = {name: number for number, name in enumerate(seen.databases, _FIRST)} | _SYSTEM
        tables = [*enumerate(seen.tables, _FIRST + len(seen.databases))]
        rows: dict[str, Iterable[dict[str, object]]] = {
            "pg_namespace": (
                {"oid": number, "nspname": name, "nspowner": _OWNER} for name, number in spaces.items()
            ),
            "pg_database": [
                {
                    "oid": _FIRST,
                    "datname": visit.database,
                    "datdba": _OWNER,
                    "encoding": 6,
                    "datallowconn": True,
                }
                | {"datlocprovider": "c", "datconnlimit": -1, "dattablespace": 1663}
                | {"datcollate": "C", "datctype": "C"}
            ],
            "pg_authid": [
                {"oid": _OWNER, "rolname": visit.user, "rolinherit": True, "rolcanlogin": True}
                | {"rolconnlimit": -1}
            ],
            "pg_type": _type_rows(),
            "pg_proc": _function_rows(),
            "pg_class": _table_rows(tables, spaces),
            "pg_attribute": (row for number, info in tables for row in _column_rows(number, info)),
            "pg_description": (row for number, info in tables for row in _comment_rows(number, info)),
        }
        for table, found in rows.items():
            self.fill(table, [*found])
        self.engine.execute(
            f"CREATE TABLE {TABLES}.ls_types (ls_number UINTEGER, ls_name TEXT, ls_words TEXT)"
        )
        self.fill("ls_types", [*_word_rows()])

    def need(self, asked: Iterable[tuple[str, str]]) -> None:
        """Have relations there, by their schemas and names, where PostgreSQL has such."""
        for one in asked:
            if one in relations() and one not in self._made:
                self.engine.execute(relations()[one].made())
                self._made.add(one)

    def fill(self, table: str, rows: list[dict[str, object]]) -> None:
        """Put rows (of the same columns) in the place of those of a table."""
        self.engine.execute(f"DELETE FROM {TABLES}.{table}")  # noqa: S608 (a table of this module)
        if not rows:
            return
        names = ", ".join(rows[0])
        given = pa.Table.from_pylist(rows)
        self.engine.register("given", given)
        self.engine.execute(f"INSERT INTO {TABLES}.{table} ({names}) SELECT {names} FROM given")  # noqa: S608 (as above)
        self.engine.unregister("given")


def _function(name: str, does: str) -> str:
    """Return the name of the function by which a type ``does`` something: ``in`` or ``send``."""
    return f"{name}{'_' if name in _UNDERSCORED else ''}{does}"


@cache
def functions() -> Mapping[str, int]:
    """Return the numbers of the functions of types, by which clients ask whether a type is an array."""
    names = sorted(
        _function(name, does)
        for name in ("array", *(name for name, *_ in _TYPES.values()))
        for does in ("in", "out", "recv", "send")
    )
    return {name: number for number, name in enumerate(names, _FIRST_FUNCTION)}


def _function_rows() -> Iterator[dict[str, object]]:
    for name, number in functions().items():
        row = {"oid": number, "proname": name, "pronamespace": _SYSTEM["pg_catalog"], "proowner": _OWNER}
        yield row | {"prolang": 12, "prokind": "f", "provolatile": "s", "proparallel": "s", "prosrc": name}


def _word_rows() -> Iterator[dict[str, object]]:
    for number, (name, words, *_) in _TYPES.items():
        yield {"ls_number": number, "ls_name": name, "ls_words": words}
        if number in ARRAY_OID:
            yield {"ls_number": ARRAY_OID[number], "ls_name": f"_{name}", "ls_words": f"{words}[]"}


def _type_rows() -> Iterator[dict[str, object]]:
    """Yield what there is to say of types, and of arrays of them."""
    for number, (name, _, category, size) in _TYPES.items():
        array = ARRAY_OID.get(number, 0)
        yield _type_row(number, name, name, size) | {
            "typcategory": category,
            "typtype": "p" if category in _PSEUDO else "b",
            "typelem": 0,
            "typarray": array,
        }
        if array:
            kinds = {"typcategory": "A", "typtype": "b", "typelem": number, "typarray": 0}
            yield _type_row(array, f"_{name}", "array", -1) | kinds


def _type_row(number: int, name: str, read_as: str, size: int) -> dict[str, object]:
    row: dict[str, object] = {"oid": number, "typname": name, "typnamespace": _SYSTEM["pg_catalog"]}
    row |= {"typowner": _OWNER, "typlen": size, "typisdefined": True, "typdelim": ",", "typtypmod": -1}
    row |= {"typalign": "i", "typstorage": "p"}
    said = (("typinput", "in"), ("typoutput", "out"), ("typreceive", "recv"), ("typsend", "send"))
    return row | {column: functions()[_function(read_as, does)] for column, does in said}


def _table_rows(
    tables: list[tuple[int, TableInfo]], spaces: Mapping[str, int]
) -> Iterator[dict[str, object]]:
    always = {"relowner": _OWNER, "relpersistence": "p", "relispopulated": True, "relreplident": "n"}
    always |= {"reltuples": -1.0}
    for one in relations().values():
        row = {"oid": one.number, "relname": one.name, "relnamespace": _SYSTEM[one.schema]}
        yield {**row, "relkind": one.kind, "relnatts": 0, "relam": 2 if one.kind == "r" else 0, **always}
    for number, info in tables:
        row = {"oid": number, "relname": info.name, "relnamespace": spaces[info.database]}
        yield {**row, "relkind": "r", "relnatts": len(_columns(info)), "relam": 2, **always}


def _columns(info: TableInfo) -> list[Column]:
    return [column for column in info.columns if column.name not in info.hidden]


def _column_rows(table: int, info: TableInfo) -> Iterator[dict[str, object]]:
    for at, column in enumerate(_columns(info), 1):
        kind = arrow_type(column.type)
        number = type_number(kind)
        modifier = (kind.precision << 16 | kind.scale) + 4 if pa.types.is_decimal(kind) else -1
        row = {"attrelid": table, "attname": column.name, "atttypid": number, "attnum": at}
        row |= {"atttypmod": modifier, "attndims": int(pa.types.is_list(kind)), "attislocal": True}
        row |= {"attlen": _TYPES[number][-1] if number in _TYPES else -1, "attcacheoff": -1}
        yield {**row, "attstattarget": -1, "attalign": "i", "attstorage": "p"}


def _comment_rows(table: int, info: TableInfo) -> Iterator[dict[str, object]]:
    for at, text in enumerate([info.comment, *(column.comment for column in _columns(info))]):
        if text:
            row = {"objoid": table, "classoid": relations()["pg_catalog", "pg_class"].number}
            yield {**row, "objsubid": at, "description": text}
