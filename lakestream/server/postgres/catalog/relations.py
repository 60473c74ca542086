"""The relations of PostgreSQL's system catalog and of its information schema, by ``catalog_relations.txt``.

A line of it has a relation's name, its number (0: none that is known), its kind, and its columns with their
types, each with ``!`` where it holds no NULL. They are those of the version that is spoken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from lakestream.observation.information import INFORMATION_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TABLES = "pg"
SCHEMAS = {"pg_catalog": TABLES, INFORMATION_SCHEMA: "info"}
"""Where the system tables are: DuckDB has some of its own by those names."""
FIRST_UNKNOWN = 13_000
"""The numbers of relations whose own are not known; those of users' tables are higher."""
_TEXT = "VARCHAR"
_KINDS = {
    "bool": "BOOLEAN",
    "bytea": "BLOB",
    "float4": "REAL",
    "float8": "DOUBLE",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "interval": "INTERVAL",
    "numeric": "DECIMAL(38, 0)",
    "oid": "UINTEGER",
    "regproc": "UINTEGER",
    "regtype": "UINTEGER",
    "timestamptz": "TIMESTAMPTZ",
    "xid": "UINTEGER",
}
"""Types of columns as there are; each other one is a text. Only numbers of objects have no sign."""
_TOLD = {
    "bool": "boolean",
    "float4": "float",
    "float8": "double",
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "oid": "oid",
    "timestamptz": "timestamp",
    "xid": "oid",
}
_VECTORS = {"int2vector": "_int2", "oidvector": "_oid"}
_NOTHING = {"BOOLEAN": "false", _TEXT: "''"}
"""What stands in a column that holds no NULL where nothing is said; for others 0."""


@dataclass(frozen=True)
class Relation:
    """A table or view: its schema and name, number, kind (``r`` or ``v``), columns with their types."""

    schema: str
    name: str
    number: int
    kind: str
    columns: tuple[tuple[str, str], ...]

    def made(self) -> str:
        """Return the statement that makes it, empty."""
        columns = ", ".join(f'"{name}" {_kind(kind)}' for name, kind in self.columns)
        return f"CREATE TABLE {SCHEMAS[self.schema]}.{self.name} ({columns})"


@cache
def relations() -> Mapping[tuple[str, str], Relation]:
    """Return all relations by schema and name."""
    lines = files(__package__).joinpath("catalog_relations.txt").read_text("ascii").splitlines()
    found = [_read(line, FIRST_UNKNOWN + at) for at, line in enumerate(lines)]
    return {(one.schema, one.name): one for one in found}


@cache
def columns_told() -> Mapping[tuple[str, str], Sequence[tuple[str, str]]]:
    """Return the columns of all relations, and their types by the names that a lake has for such."""
    told = {
        at: [(name, _TOLD.get(kind.rstrip("!"), "string")) for name, kind in one.columns]
        for at, one in relations().items()
    }
    return told | {("", name): columns for (schema, name), columns in told.items() if schema == "pg_catalog"}


@cache
def columns_of(kind: str) -> frozenset[str]:
    """Return the names of the columns of a type."""
    return frozenset(
        name for one in relations().values() for name, found in one.columns if found.rstrip("!") == kind
    )


def _read(line: str, number: int) -> Relation:
    whole, known, kind, *columns = line.split(" ")
    schema, _, name = whole.partition(".")
    pairs = (column.partition(":") for column in columns)
    return Relation(schema, name, int(known) or number, kind, tuple((column, of) for column, _, of in pairs))


def _kind(written: str) -> str:
    """Return a type of a column, with what stands in it where nothing is said."""
    name = written.rstrip("!")
    name = _VECTORS.get(name, name)
    if name.startswith("_"):
        return f"{_KINDS.get(name[1:], _TEXT)}[]"
    kind = _KINDS.get(name, _TEXT)
    return f"{kind} DEFAULT {_NOTHING.get(kind, '0')}" if written.endswith("!") else kind
