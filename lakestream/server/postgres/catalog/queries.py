"""What is asked of system tables: queries as trees, whether they are about these, and names of columns."""

from __future__ import annotations

import re

import sqlglot
from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.parsers.postgres import PostgresParser

from lakestream.language.common.spark_parser import ShortIntervals
from lakestream.observation.information import INFORMATION_SCHEMA

_OWN_TABLES = "ins_"
"""How the lake's own tables in ``information_schema`` begin."""
"""How the lake's own tables in ``information_schema`` begin."""
_AS_WORD = re.compile(r"\bas\s+(select|insert|update|delete)(?=\s*(,|\)|$|from\b))", re.IGNORECASE)
"""A name of a column that sqlglot takes for a statement."""
OIDS = re.compile(r"::\s*(oid|reg\w+)\s*\[\s*\]", re.IGNORECASE)
"""A cast to an array of numbers of types, which sqlglot does not know: clients ask by it what types are."""
_CALL = re.compile(r"(\w+)\(")
_SESSION = frozenset(
    {
        "version",
        "current_database",
        "current_catalog",
        "current_schema",
        "current_schemas",
        "current_user",
        "session_user",
        "user",
        "current_setting",
        "set_config",
        "inet_server_addr",
        "inet_server_port",
        "txid_current",
        "quote_ident",
    }
)
"""Functions that tell of a connection; those that begin with ``pg_`` or ``has_`` are further ones."""


class _Asked(Postgres):
    """PostgreSQL's own grammar."""

    class Parser(ShortIntervals, PostgresParser):
        """Its parser."""


def parsed(sql: str) -> exp.Query | None:
    """Return a query as a tree, None for what is none, or none of PostgreSQL's."""
    try:
        tree = sqlglot.parse_one(_AS_WORD.sub(r'as "\1"', OIDS.sub("::bigint[]", sql)), read=_Asked)
    except SqlglotError:
        return None
    return tree if isinstance(tree, exp.Query) else None


def is_about_catalog(tree: exp.Query) -> bool:
    """Return whether a query is about system tables, or about the connection only."""
    tables = tables_of(tree)
    if any(map(is_system, tables)):
        return True
    return not any(table.name for table in tables) and any(map(_asks_session, tree.walk()))


def tables_of(tree: exp.Query) -> list[exp.Table]:
    """Return the tables of a query, and the functions that give some, less its common table expressions."""
    known = {cte.alias for cte in tree.find_all(exp.CTE)}
    return [table for table in tree.find_all(exp.Table) if table.db or table.name not in known]


def is_system(table: exp.Table) -> bool:
    """Return whether a table is one of the system's: the lake's own in ``information_schema`` are not."""
    if table.db.lower() == INFORMATION_SCHEMA:
        return not table.name.lower().startswith(_OWN_TABLES)
    return table.db.lower() == "pg_catalog" or (not table.db and table.name.lower().startswith("pg_"))


def schema_of(table: exp.Table) -> str:
    """Return the schema of a system table."""
    return table.db.lower() or "pg_catalog"


def _asks_session(node: exp.Expr) -> bool:
    if isinstance(node, exp.Cast) and kind_of(node.to).startswith("reg"):
        return True
    if isinstance(node, exp.Dot) and node.this.name.lower() == "pg_catalog":
        return True
    name = function(node)
    return name in _SESSION or name.startswith(("pg_", "has_"))


def function(node: exp.Expr) -> str:
    """Return the name of the function that a node calls, else nothing."""
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    if isinstance(node, exp.Column) and not node.table and not node.this.args.get("quoted"):
        return node.name.lower() if node.name.lower() in {"user", "session_user"} else ""
    if isinstance(node, exp.CurrentVersion):
        return "version"
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def elements(text: str, kind: exp.DataType) -> exp.Expr:
    """Return the array that a text of PostgreSQL's is (``{a,b}``), of elements of a kind."""
    inner = text.strip().removeprefix("{").removesuffix("}")
    values = [part.strip().strip('"') for part in inner.split(",")] if inner.strip() else []
    return exp.Array(expressions=[exp.cast(exp.Literal.string(value), kind.copy()) for value in values])


def as_named(tree: exp.Query) -> exp.Query:
    """Return a query whose columns have the names that PostgreSQL gives them."""
    named = tree.copy()
    for one in [one for query in named.find_all(exp.Select) for one in query.expressions]:
        if not isinstance(one, exp.Alias | exp.Aliases | exp.Column | exp.Star) or function(one):
            one.replace(exp.alias_(one.copy(), name_of(one) or "?column?", quoted=True))
    return named


_WITHOUT_NAME = (exp.Literal, exp.Null, exp.Boolean, exp.Binary, exp.Unary, exp.In, exp.Between)
"""What has no name in PostgreSQL, where it is not written as the call of a function."""


def name_of(node: exp.Expr) -> str:
    """Return what PostgreSQL calls a column: its function, or what a cast is of; empty for nothing."""
    match node:
        case exp.Cast():
            return name_of(node.this) or _type_named(node.to)
        case (
            exp.Dot()
            | exp.Paren()
            | exp.Window()
            | exp.Filter()
            | exp.WithinGroup()
            | exp.Collate()
            | exp.Bracket()
        ):
            return name_of(node.expression if isinstance(node, exp.Dot) else node.this)
        case exp.Case():
            default = node.args.get("default")
            named = isinstance(default, exp.Column | exp.Dot | exp.Func | exp.Subquery) and name_of(default)
            return named or "case"
        case exp.Subquery():
            return name_of(node.selects[0]) if node.selects else ""
        case exp.Condition() if isinstance(node, _WITHOUT_NAME):
            return _written(node)
        case _:
            return _called(node) or node.alias_or_name


def _type_named(kind: exp.DataType) -> str:
    """Return the name that PostgreSQL itself has for a type."""
    name = kind_of(kind).partition("(")[0].removesuffix("[]")
    return _OWN_NAMES.get(name, name)


_OWN_NAMES = {
    "bigint": "int8",
    "boolean": "bool",
    "char": "bpchar",
    "decimal": "numeric",
    "double precision": "float8",
    "int": "int4",
    "real": "float4",
    "smallint": "int2",
}


def _called(node: exp.Expr) -> str:
    """Return the name that PostgreSQL writes a function with."""
    return _written(node) or function(node)


def _written(node: exp.Expr) -> str:
    """Return the name of a function that PostgreSQL writes as a call, empty for an operator."""
    is_call = isinstance(node, exp.Func) and not isinstance(node, exp.Connector)
    written = _CALL.match(node.sql(dialect="postgres")) if is_call else None
    return written[1].lower() if written else ""


def kind_of(kind: exp.Expr | None) -> str:
    """Return the name of a type, without the schema that it is written with."""
    return "" if kind is None else kind.sql(dialect="postgres").lower().rpartition(".")[2].strip('"')
