"""PostgreSQL's system tables over a lake's tables, which its clients ask for databases, tables and columns.

DuckDB answers in this process: it has the tables of ``catalog.sql``, filled with what the lake has, and
nothing else in reach.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import sqlglot
from pg_mimic import ARRAY_OID
from pg_mimic import types as pg
from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.parsers.postgres import PostgresParser

from lakestream import __version__
from lakestream.lake import workspace_of
from lakestream.language.common.allowed import names_of
from lakestream.language.common.spark_parser import ShortIntervals
from lakestream.observation.information import INFORMATION_SCHEMA
from lakestream.server.postgres.failing import refusal
from lakestream.server.postgres.values import type_number
from lakestream.storage.columns.types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakestream.lake import Lake
    from lakestream.storage.names.table_info import Column, TableInfo
    from lakestream.storage.records.tokens import Principal

VERSION = "16.0"
"""The version of PostgreSQL whose tables these are, as clients ask for it."""

_TABLES = "pg"
_SCHEMAS = {"pg_catalog": _TABLES, INFORMATION_SCHEMA: "info"}
"""Where the system tables are: DuckDB has some of its own by those names."""
_OWN_TABLES = "ins_"
"""How the lake's own tables in ``information_schema`` begin."""
_FIRST = 16_384
"""The number of the first table; PostgreSQL's own have lower ones."""
_SYSTEM = {"pg_catalog": 11, INFORMATION_SCHEMA: 13_000}
_SYSTEM_TABLES = {
    "pg_type": 1247,
    "pg_attribute": 1249,
    "pg_proc": 1255,
    "pg_class": 1259,
    "pg_database": 1262,
    "pg_namespace": 2615,
    "pg_description": 2609,
    "pg_constraint": 2606,
    "pg_roles": 12_000,
}
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
}
"""Types by number: name, name in words, category, size in bytes."""
_ARRAY_INPUT = "array_in"
_INPUTS = frozenset({_ARRAY_INPUT, *(f"{name}in" for name, *_ in _TYPES.values())})
"""The functions that read values of types, by which clients ask whether a type is an array."""
_KINDS = {"name": "VARCHAR", "char": "VARCHAR", "text": "VARCHAR", "oid": "BIGINT", "xid": "BIGINT"}
_RENAMED = {"user": "current_user", "json_build_object": "json_object"}
_AS_WORD = re.compile(r"\bas\s+(select|insert|update|delete)(?=\s*(,|\)|$|from\b))", re.IGNORECASE)
"""A name of a column that sqlglot takes for a statement."""
OIDS = re.compile(r"::\s*oid\s*\[\s*\]", re.IGNORECASE)
"""A cast to an array of numbers of types, which sqlglot does not know: clients ask by it what types are."""
_CALL = re.compile(r"(\w+)\(")
_REGISTERED = {"regclass": "regclass_name", "regtype": "regtype_name"}
_NUMBERED = {"regclass": "to_regclass", "regtype": "to_regtype"}
"""What a number, and a name, is made by that is cast to one of these types."""
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
_FUNCTIONS = frozenset(files(__package__).joinpath("catalog_functions.txt").read_text("ascii").split())
"""What queries may call of DuckDB's functions: others tell of the process, run texts or take its memory."""
_MOST_OF_SERIES = 100_000
"""The numbers that a series may have: DuckDB makes them at once."""
_MOST_BYTES = 64 << 20
_PIECE_ROWS = 8_192


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
    tables = _tables(tree)
    if any(map(_is_system, tables)):
        return True
    return not any(table.name for table in tables) and any(map(_asks_session, tree.walk()))


def _tables(tree: exp.Query) -> list[exp.Table]:
    """Return the tables of a query, and the functions that give some, less its common table expressions."""
    known = {cte.alias for cte in tree.find_all(exp.CTE)}
    return [table for table in tree.find_all(exp.Table) if table.db or table.name not in known]


def _is_system(table: exp.Table) -> bool:
    if table.db.lower() == INFORMATION_SCHEMA:
        return not table.name.lower().startswith(_OWN_TABLES)
    return table.db.lower() == "pg_catalog" or (not table.db and table.name.lower().startswith("pg_"))


def _asks_session(node: exp.Expr) -> bool:
    if isinstance(node, exp.Cast) and _kind_of(node.to).startswith("reg"):
        return True
    if isinstance(node, exp.Dot) and node.this.name.lower() == "pg_catalog":
        return True
    name = _function(node)
    return name in _SESSION or name.startswith(("pg_", "has_"))


def _function(node: exp.Expr) -> str:
    """Return the name of the function that a node calls, else nothing."""
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    if isinstance(node, exp.Column) and not node.table and not node.this.args.get("quoted"):
        return node.name.lower() if node.name.lower() in {"user", "session_user"} else ""
    if isinstance(node, exp.CurrentVersion):
        return "version"
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


@dataclass(frozen=True)
class State:
    """What a connection is at: its current database, its settings, and the rows of ``pg_cursors``."""

    database: str
    settings: Mapping[str, str]
    cursors: list[dict[str, object]]


class Catalog:
    """The system tables for one connection; ``seconds`` is how long a query of them may take, 0: any time."""

    def __init__(self, visit: Visit, seconds: float) -> None:
        self._visit, self._seconds = visit, seconds
        self._seen: Seen | None = None
        self._engine: duckdb.DuckDBPyConnection | None = None
        self._functions: frozenset[str] = frozenset()

    async def ask(self, tree: exp.Query, state: State, seen: Seen) -> pa.Table:
        """Return the rows of a query. Raises PgError."""
        engine = await asyncio.to_thread(self._filled, seen, state)
        self._refuse_others(tree)
        sql = self._rewritten(as_named(tree)).sql(dialect="duckdb")
        running = asyncio.ensure_future(asyncio.to_thread(_rows, engine, sql))
        try:
            return await asyncio.wait_for(asyncio.shield(running), self._seconds or None)
        except TimeoutError:
            raise refusal("57014", f"the query has not ended in {self._seconds:g} s") from None
        except duckdb.Error as error:
            said = str(error).splitlines()[0]
            raise refusal("0A000", f"the system tables cannot answer this: {said}") from None
        finally:
            if not running.done():
                engine.interrupt()
                await asyncio.gather(running, return_exceptions=True)

    def _refuse_others(self, tree: exp.Query) -> None:
        """Refuse what is neither of the system tables nor known to do nothing but compute."""
        if tree.find(exp.Into):
            raise refusal("0A000", "NOT_SUPPORTED: SELECT … INTO of system tables")
        for table in _tables(tree):
            if table.name and not _is_system(table):
                raise refusal("42P01", f'relation "{table.name}" is no system table')
        for call in tree.find_all(exp.Func):
            names = {_function(call), *names_of(call)}
            if not names & (_FUNCTIONS | self._functions):
                raise refusal("42883", f"function {_name_of(call) or min(names)} does not exist")

    def _filled(self, seen: Seen, state: State) -> duckdb.DuckDBPyConnection:
        if self._engine is None or seen != self._seen:
            self.close()
            self._engine, self._seen = _engine(self._visit, seen), seen
            found = self._engine.execute(
                "SELECT DISTINCT function_name FROM duckdb_functions() WHERE schema_name = ?", [_TABLES]
            ).fetchall()
            self._functions = frozenset(name for (name,) in found)
        self._engine.execute("SET VARIABLE here = ?", [state.database])
        settings = state.settings
        rows: list[dict[str, object]] = [
            {"name": name, "setting": value, "reset_val": value} for name, value in settings.items()
        ]
        _fill(self._engine, "pg_settings", rows)
        _fill(self._engine, "pg_cursors", state.cursors)
        self._engine.execute("SET VARIABLE settings = MAP(?, ?)", [[*settings], [*settings.values()]])
        return self._engine

    def close(self) -> None:
        """Forget the tables."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _rewritten(self, tree: exp.Query) -> exp.Expr:
        """Return a query of PostgreSQL's as one of the tables and functions that there are."""
        return _with_table_numbers(tree.copy()).transform(self._renamed)

    def _renamed(self, node: exp.Expr) -> exp.Expr:
        match node:
            case exp.Table():
                return self._table(node)
            case exp.Column() if node.db.lower() in _SCHEMAS:
                node.set("db", exp.to_identifier(_SCHEMAS[node.db.lower()]))
            case exp.Collate():
                node = node.this.transform(self._renamed)
            case exp.Operator():
                node = _operation(node).transform(self._renamed)
            case exp.GenerateSeries() | exp.ExplodingGenerateSeries():
                node = _bounded(self._called(node))
            case exp.Cast():
                node = self._cast(node)
            case exp.Dot() if node.this.name.lower() in _SCHEMAS:
                node = node.expression.transform(self._renamed)
            case _:
                node = self._called(node)
        return node

    def _table(self, node: exp.Table) -> exp.Expr:
        if isinstance(node.this, exp.Func):
            return self._function_table(node)
        if _is_system(node):
            node.set("db", exp.to_identifier(_SCHEMAS.get(node.db.lower(), _TABLES)))
            node.set("catalog", None)
        return node

    def _function_table(self, node: exp.Table) -> exp.Expr:
        """Return what a function gives as a table; its column has the name that the table has."""
        node.set("db", exp.to_identifier(_TABLES) if _function(node.this) in self._functions else None)
        alias = node.args.get("alias")
        if alias is None:
            return node
        if not isinstance(node.this, exp.Explode | exp.Unnest | exp.ExplodingGenerateSeries | exp.Anonymous):
            value = node.this.transform(self._renamed)
            return exp.select(exp.alias_(value, alias.name)).subquery(alias.name)
        if not alias.columns:
            alias.set("columns", [alias.this.copy()])
        return node

    def _called(self, node: exp.Expr) -> exp.Expr:
        name = _RENAMED.get(_function(node), _function(node))
        if isinstance(node, exp.Anonymous) and name in _RENAMED.values():
            node.set("this", name)
        if name not in self._functions or isinstance(node.parent, exp.Dot | exp.Table):
            return node
        given = node.expressions if isinstance(node, exp.Anonymous) else [*node.iter_expressions()]
        if isinstance(node, exp.Column):
            given = []
        arguments = [one.transform(self._renamed) for one in given]
        return exp.Dot(
            this=exp.to_identifier(_TABLES), expression=exp.Anonymous(this=name, expressions=arguments)
        )

    def _cast(self, node: exp.Cast) -> exp.Expr:
        kind, value = _kind_of(node.to), node.this
        text = value.name if isinstance(value, exp.Literal) and value.is_string else None
        inner = _kind_of(value.to) if isinstance(value, exp.Cast) else ""
        if kind in ("regproc", "regprocedure") and text is not None:
            if text.removeprefix("pg_catalog.") not in _INPUTS:
                raise refusal("42883", f'function "{text}" does not exist')
            return exp.Literal.string(text.removeprefix("pg_catalog."))
        if kind in _NUMBERED and text is not None:
            return _own_call(_NUMBERED[kind], value)
        if kind == "oid" and inner in _REGISTERED:
            return _own_call(f"{inner}_number", value.this.transform(self._renamed))
        if kind in _REGISTERED:
            return _own_call(_REGISTERED[kind], value.transform(self._renamed))
        if node.to.is_type("array"):
            return self._array(node, text)
        return self._plain_cast(node, "VARCHAR" if kind.startswith("reg") else _type_meant(node.to))

    def _array(self, node: exp.Cast, text: str | None) -> exp.Expr:
        element: exp.DataType = node.to.expressions[0]
        element = _type_meant(element) or element
        if text is not None:
            return elements(text, element)
        return self._plain_cast(node, exp.DataType(this=exp.DType.ARRAY, expressions=[element], nested=True))

    def _plain_cast(self, node: exp.Cast, kind: str | exp.DataType | None) -> exp.Expr:
        return node if kind is None else exp.cast(node.this.transform(self._renamed), kind)


def _bounded(series: exp.Expr) -> exp.Expr:
    """Return a series that fails where it would have very many numbers."""
    start, end = series.args["start"].copy(), series.args["end"].copy()
    many = exp.GT(
        this=exp.Abs(this=exp.paren(end) - exp.paren(start)), expression=exp.convert(_MOST_OF_SERIES)
    )
    error = exp.Anonymous(this="error", expressions=[exp.Literal.string("a series of too many numbers")])
    series.set("end", exp.Case(ifs=[exp.If(this=many, true=error)], default=end))
    return series


def elements(text: str, kind: exp.DataType) -> exp.Expr:
    """Return the array that a text of PostgreSQL's is (``{a,b}``), of elements of a kind."""
    inner = text.strip().removeprefix("{").removesuffix("}")
    values = [part.strip().strip('"') for part in inner.split(",")] if inner.strip() else []
    return exp.Array(expressions=[exp.cast(exp.Literal.string(value), kind.copy()) for value in values])


def as_named(tree: exp.Query) -> exp.Query:
    """Return a query whose columns have the names that PostgreSQL gives them."""
    named = tree.copy()
    for one in named.selects:
        if not isinstance(one, exp.Alias | exp.Column | exp.Star) or _function(one):
            one.replace(exp.alias_(one.copy(), _name_of(one) or "?column?", quoted=True))
    return named


def _name_of(node: exp.Expr) -> str:
    """Return what PostgreSQL calls a column: its function, or what a cast is of; empty for nothing."""
    match node:
        case exp.Cast():
            return _name_of(node.this) or _kind_of(node.to)
        case exp.Paren() | exp.Window() | exp.Filter() | exp.WithinGroup():
            return _name_of(node.this)
        case exp.Dot():
            return _name_of(node.expression)
        case _:
            return _called(node) or node.alias_or_name


def _called(node: exp.Expr) -> str:
    """Return the name that PostgreSQL writes a function with."""
    written = _CALL.match(node.sql(dialect="postgres")) if isinstance(node, exp.Func) else None
    return written[1].lower() if written else _function(node)


def _with_table_numbers(tree: exp.Query) -> exp.Query:
    """Put the number of its table in the place of each ``tableoid``, which every table has there."""
    for column in [column for column in tree.find_all(exp.Column) if column.name.lower() == "tableoid"]:
        select = column.find_ancestor(exp.Select)
        tables = select.find_all(exp.Table) if select is not None else ()
        names = [table.name for table in tables if column.table in ("", table.alias_or_name)]
        column.replace(exp.Literal.number(_SYSTEM_TABLES.get(names[0].lower(), 0) if names else 0))
    return tree


def _own_call(name: str, argument: exp.Expr) -> exp.Expr:
    return exp.Dot(
        this=exp.to_identifier(_TABLES), expression=exp.Anonymous(this=name, expressions=[argument])
    )


def _kind_of(kind: exp.Expr | None) -> str:
    """Return the name of a type, without the schema that it is written with."""
    return "" if kind is None else kind.sql(dialect="postgres").lower().rpartition(".")[2].strip('"')


def _type_meant(kind: exp.DataType) -> exp.DataType | None:
    """Return a type as there is one, without a schema before it; None where it is one as it is written."""
    name = _kind_of(kind)
    if name in _KINDS:
        return exp.DataType.build(_KINDS[name])
    return exp.DataType.build(name, dialect="postgres") if "." in kind.sql(dialect="postgres") else None


def _operation(node: exp.Operator) -> exp.Expr:
    """Return ``a OPERATOR(pg_catalog.~) b`` as ``a ~ b``."""
    operator = str(node.args["operator"]).rpartition(".")[2].strip()
    return sqlglot.parse_one(
        f"{node.this.sql('postgres')} {operator} {node.expression.sql('postgres')}", read="postgres"
    )


def _rows(engine: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    """Return the rows of a query, as far as they take no more memory than may be. Raises PgError."""
    reader = engine.sql(sql).to_arrow_reader(_PIECE_ROWS)
    pieces, taken = [], 0
    for piece in reader:
        taken += piece.nbytes
        if taken > _MOST_BYTES:
            raise refusal(
                "54000", f"RESULT_TOO_LARGE: more than {_MOST_BYTES:,} bytes of system tables", "LIMIT"
            )
        pieces.append(piece)
    return pa.Table.from_batches(pieces, reader.schema)


def _engine(visit: Visit, seen: Seen) -> duckdb.DuckDBPyConnection:
    engine = duckdb.connect(config={"threads": 1, "memory_limit": "512MB", "temp_directory": ""})
    engine.execute(files(__package__).joinpath("catalog.sql").read_text(encoding="utf-8"))
    spoken = f"PostgreSQL {VERSION} (lakestream {__version__})"
    for name, value in (("who", visit.user), ("version", spoken), ("pid", visit.number)):
        engine.execute(f"SET VARIABLE {name} = ?", [value])
    spaces = {name: number for number, name in enumerate(seen.databases, _FIRST)} | _SYSTEM
    _fill(
        engine,
        "pg_namespace",
        [{"oid": number, "nspname": name, "nspowner": 10} for name, number in spaces.items()],
    )
    _fill(engine, "pg_database", [{"oid": 5, "datname": visit.database}])
    _fill(engine, "pg_roles", [{"oid": 10, "rolname": visit.user}])
    _fill(engine, "pg_type", [*_type_rows()])
    first = _FIRST + len(seen.databases)
    tables = [*enumerate(seen.tables, first)]
    _fill(engine, "pg_class", [*_table_rows(tables, spaces)])
    _fill(engine, "pg_attribute", [row for number, info in tables for row in _column_rows(number, info)])
    _fill(engine, "pg_description", [row for number, info in tables for row in _comment_rows(number, info)])
    engine.execute(
        "SET integer_division = true; SET enable_external_access = false; SET lock_configuration = true"
    )
    return engine


def _fill(engine: duckdb.DuckDBPyConnection, table: str, rows: list[dict[str, object]]) -> None:
    """Put rows (of the same columns) in the place of those of a table."""
    engine.execute(f"DELETE FROM {_TABLES}.{table}")  # noqa: S608 (a table of this module)
    if not rows:
        return
    names = ", ".join(rows[0])
    given = pa.Table.from_pylist(rows)
    engine.register("given", given)
    engine.execute(f"INSERT INTO {_TABLES}.{table} ({names}) SELECT {names} FROM given")  # noqa: S608 (as above)
    engine.unregister("given")


def _type_rows() -> Iterator[dict[str, object]]:
    for number, (name, words, category, size) in _TYPES.items():
        array = ARRAY_OID.get(number, 0)
        row = {"oid": number, "typname": name, "words": words, "typcategory": category, "typlen": size}
        yield {**row, "typelem": 0, "typarray": array, "typinput": f"{name}in"}
        if array:
            row = {
                "oid": array,
                "typname": f"_{name}",
                "words": f"{words}[]",
                "typcategory": "A",
                "typlen": -1,
            }
            yield {**row, "typelem": number, "typarray": 0, "typinput": _ARRAY_INPUT}


def _table_rows(
    tables: list[tuple[int, TableInfo]], spaces: Mapping[str, int]
) -> Iterator[dict[str, object]]:
    for name, number in _SYSTEM_TABLES.items():
        yield {
            "oid": number,
            "relname": name,
            "relnamespace": _SYSTEM["pg_catalog"],
            "relkind": "r",
            "relnatts": 0,
        }
    for number, info in tables:
        space, count = spaces[info.database], len(_columns(info))
        yield {"oid": number, "relname": info.name, "relnamespace": space, "relkind": "r", "relnatts": count}


def _columns(info: TableInfo) -> list[Column]:
    return [column for column in info.columns if column.name not in info.hidden]


def _column_rows(table: int, info: TableInfo) -> Iterator[dict[str, object]]:
    for at, column in enumerate(_columns(info), 1):
        kind = arrow_type(column.type)
        number = type_number(kind)
        modifier = (kind.precision << 16 | kind.scale) + 4 if pa.types.is_decimal(kind) else -1
        row = {"attrelid": table, "attname": column.name, "atttypid": number, "attnum": at}
        yield {**row, "atttypmod": modifier, "attndims": int(pa.types.is_list(kind))}


def _comment_rows(table: int, info: TableInfo) -> Iterator[dict[str, object]]:
    for at, text in enumerate([info.comment, *(column.comment for column in _columns(info))]):
        if text:
            row = {"objoid": table, "classoid": _SYSTEM_TABLES["pg_class"]}
            yield {**row, "objsubid": at, "description": text}
