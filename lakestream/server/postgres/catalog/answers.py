"""PostgreSQL's system tables over a lake's tables: queries of them, answered.

DuckDB answers in this process: it has these tables, filled with what the lake has, and nothing else in reach.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, cast

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from lakestream.language.common.allowed import names_of
from lakestream.server.postgres.catalog.queries import (
    as_named,
    elements,
    function,
    is_system,
    kind_of,
    name_of,
    schema_of,
    tables_of,
)
from lakestream.server.postgres.catalog.relations import SCHEMAS, TABLES, columns_of, relations
from lakestream.server.postgres.catalog.tables import SystemTables, functions
from lakestream.server.postgres.failing import refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakestream.server.postgres.catalog.tables import Seen, Visit

_KINDS = {"name": "VARCHAR", "char": "VARCHAR", "text": "VARCHAR", "oid": "UINTEGER", "xid": "UINTEGER"}
_RENAMED = {"user": "current_user", "json_build_object": "json_object"}
_REGISTERED = {"regclass": "regclass_name", "regtype": "regtype_name", "regproc": "regproc_name"}
_NUMBERED = {"regclass": "to_regclass", "regtype": "to_regtype"}
"""What a number, and a name, is made by that is cast to one of these types."""
_OF_TEXT = ("text", "varchar", "name")
_FUNCTIONS = frozenset(files(__package__).joinpath("catalog_functions.txt").read_text("ascii").split())
"""What queries may call of DuckDB's functions: others tell of the process, run texts or take its memory."""
_MOST_OF_SERIES = 100_000
"""The numbers that a series may have: DuckDB makes them at once."""
_MOST_BYTES = 64 << 20
_PIECE_ROWS = 8_192


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
        self._tables: SystemTables | None = None
        self._functions: frozenset[str] = frozenset()
        self._of_tables: frozenset[str] = frozenset()

    async def ask(self, tree: exp.Query, state: State, seen: Seen) -> pa.Table:
        """Return the rows of a query. Raises PgError."""
        tables = await asyncio.to_thread(self._filled, seen, state)
        self._refuse_others(tree)
        engine = tables.engine
        tables.need((schema_of(table), table.name.lower()) for table in tables_of(tree))
        sql = self._rewritten(as_named(_folded(tree.copy()))).sql(dialect="duckdb")
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
        for table in tables_of(tree):
            if table.name and not is_system(table):
                raise refusal("42P01", f'relation "{table.name}" is no system table')
            if table.name and (schema_of(table), table.name.lower()) not in relations():
                raise refusal("42P01", f'relation "{table.name}" does not exist')
        for call in tree.find_all(exp.Func):
            names = {function(call), *names_of(call)}
            if not names & (_FUNCTIONS | self._functions):
                raise refusal("42883", f"function {name_of(call) or min(names)} does not exist")

    def _filled(self, seen: Seen, state: State) -> SystemTables:
        tables = self._tables
        if tables is None or seen != self._seen:
            self.close()
            tables = self._tables = SystemTables(self._visit, seen)
            self._seen = seen
            found = tables.engine.execute(
                "SELECT DISTINCT function_name, function_type FROM duckdb_functions() WHERE schema_name = ?",
                [TABLES],
            ).fetchall()
            self._functions = frozenset(name for name, _ in found)
            self._of_tables = frozenset(name for name, kind in found if kind == "table_macro")
        tables.engine.execute("SET VARIABLE here = ?", [state.database])
        settings = state.settings
        rows: list[dict[str, object]] = [
            {"name": name, "setting": value, "reset_val": value} for name, value in settings.items()
        ]
        tables.fill("pg_settings", rows)
        tables.fill("pg_cursors", state.cursors)
        tables.engine.execute("SET VARIABLE settings = MAP(?, ?)", [[*settings], [*settings.values()]])
        return tables

    def close(self) -> None:
        """Forget the tables."""
        if self._tables is not None:
            self._tables.engine.close()
            self._tables = None

    def _rewritten(self, tree: exp.Query) -> exp.Expr:
        """Return a query of PostgreSQL's as one of the tables and functions that there are."""
        return _with_system_columns(tree).transform(self._renamed)

    def _renamed(self, node: exp.Expr) -> exp.Expr:
        match node:
            case exp.Table():
                return self._table(node)
            case exp.Column():
                return _column(node)
            case exp.Any() | exp.Anonymous() if (among := _quantified(node)) is not None:
                node = self._among(node, among)
            case exp.Substring() | exp.EQ() | exp.NEQ():
                node = self._of_text(node)
            case exp.Collate() | exp.Operator():
                inner = node.this if isinstance(node, exp.Collate) else _operation(node)
                node = inner.transform(self._renamed)
            case exp.GenerateSeries() | exp.ExplodingGenerateSeries():
                node = _bounded(self._called(node))
            case exp.Cast():
                node = self._cast(node)
            case exp.Dot() if node.this.name.lower() in SCHEMAS:
                node = node.expression.transform(self._renamed)
            case _:
                node = self._called(node)
        return node

    def _among(self, node: exp.Any | exp.Anonymous, among: exp.Expr) -> exp.Expr:
        """Return ANY or ALL of an array: one that is written as a text, or made of a query's rows."""
        first = among.expressions[0] if isinstance(among, exp.Array) and among.expressions else None
        if isinstance(first, exp.Query):
            # DuckDB's ANY takes what is an array by its form for one element, and a query for its rows.
            rows = exp.paren(first.transform(self._renamed))
            return (exp.Any if isinstance(node, exp.Any) else exp.All)(this=rows)
        if isinstance(among, exp.Literal) and among.is_string:
            among.replace(elements(among.name, exp.DataType.build(_kind_of_array(among.name))))
        return self._called(node)

    def _of_text(self, node: exp.Substring | exp.EQ | exp.NEQ) -> exp.Expr:
        """Return the part of a text that a pattern finds, or numbers compared with a text of such."""
        if isinstance(node, exp.Substring):
            pattern = node.args.get("start")
            if pattern is None or not pattern.is_string:
                return self._called(node)
            return _own_call("substring_by", node.this.transform(self._renamed), pattern.copy())
        if _is_vector(node.left) and node.right.is_string:
            numbers = f"{{{','.join(node.right.name.split())}}}"
            node.right.replace(elements(numbers, exp.DataType.build("bigint")))
        return node

    def _table(self, node: exp.Table) -> exp.Expr:
        if isinstance(node.this, exp.Func):
            return self._function_table(node)
        if is_system(node):
            node.set("db", exp.to_identifier(SCHEMAS.get(node.db.lower(), TABLES)))
            node.set("catalog", None)
        return node

    def _function_table(self, node: exp.Table) -> exp.Expr:
        """Return what a function gives as a table; its column has the name that the table has."""
        node.set("db", exp.to_identifier(TABLES) if function(node.this) in self._functions else None)
        alias = node.args.get("alias")
        if alias is None or function(node.this) in self._of_tables:
            return node
        if not isinstance(node.this, exp.Explode | exp.Unnest | exp.ExplodingGenerateSeries | exp.Anonymous):
            value = node.this.transform(self._renamed)
            return exp.select(exp.alias_(value, alias.name)).subquery(alias.name)
        if not alias.columns:
            alias.set("columns", [alias.this.copy()])
        return node

    def _called(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.CurrentTimestamp):  # as a word it would be the column of that name
            return exp.Anonymous(this="now")
        name = _RENAMED.get(function(node), function(node))
        if isinstance(node, exp.Anonymous) and name in _RENAMED.values():
            node.set("this", name)
        if name not in self._functions or isinstance(node.parent, exp.Dot | exp.Table):
            return node
        given = node.expressions if isinstance(node, exp.Anonymous) else [*node.iter_expressions()]
        if isinstance(node, exp.Column):
            given = []
        arguments = [one.transform(self._renamed) for one in given]
        return exp.Dot(
            this=exp.to_identifier(TABLES), expression=exp.Anonymous(this=name, expressions=arguments)
        )

    def _cast(self, node: exp.Cast) -> exp.Expr:
        kind, text = kind_of(node.to), node.this.name if node.this.is_string else None
        named = self._object(kind, node.this, text)
        if named is not None:
            return named
        if node.to.is_type("array"):
            return self._array(node, text)
        return self._plain_cast(node, "VARCHAR" if kind.startswith("reg") else _type_meant(node.to))

    def _object(self, kind: str, value: exp.Expr, text: str | None) -> exp.Expr | None:
        """Return the name, or the number, of an object that is cast to one; None for another cast."""
        if kind in ("regproc", "regprocedure") and text is not None:
            return exp.Literal.string(_function_named(text))
        if kind in _NUMBERED and text is not None:
            return _own_call(_NUMBERED[kind], value)
        if kind in _REGISTERED:
            given = value.copy() if _is_function(value) else value.transform(self._renamed)
            return _own_call(_REGISTERED[kind], given)
        if kind == "oid" and _is_function(value):
            return exp.cast(value.copy(), _KINDS[kind], dialect="duckdb")
        inner = kind_of(value.to) if isinstance(value, exp.Cast) else ""
        called = None
        if kind in _OF_TEXT and inner in _NUMBERED and value.this.is_string:
            called = _own_call(_REGISTERED[inner], _own_call(_NUMBERED[inner], value.this))
        elif kind == "oid" and inner in _REGISTERED:
            named = value if value.this.is_string else value.this
            called = _own_call(f"{inner}_number", named.transform(self._renamed))
        return called

    def _array(self, node: exp.Cast, text: str | None) -> exp.Expr:
        element: exp.DataType = node.to.expressions[0]
        element = _type_meant(element) or element
        if text is not None:
            return elements(text, element)
        return self._plain_cast(node, exp.DataType(this=exp.DType.ARRAY, expressions=[element], nested=True))

    def _plain_cast(self, node: exp.Cast, kind: str | exp.DataType | None) -> exp.Expr:
        return node if kind is None else exp.cast(node.this.transform(self._renamed), kind)


def _quantified(node: exp.Any | exp.Anonymous) -> exp.Expr | None:
    """Return what stands in ANY or ALL, None for another function."""
    if isinstance(node, exp.Any):
        return cast("exp.Expr", node.this).unnest()
    return node.expressions[0] if node.name.lower() == "all" and node.expressions else None


def _function_named(text: str) -> str:
    """Return the plain name of a function. Raises PgError for one that there is none of."""
    name = text.removeprefix("pg_catalog.")
    if name not in functions():
        raise refusal("42883", f'function "{text}" does not exist')
    return name


def _kind_of_array(text: str) -> str:
    """Return the type of the elements of an array that is written as a text, of which nothing else tells."""
    return "bigint" if re.fullmatch(r"\{[\d\s,]+\}", text) else "text"


def _is_function(node: exp.Expr) -> bool:
    """Return whether a node is a column with the number of a function."""
    return isinstance(node, exp.Column) and node.name.lower() in columns_of("regproc")


def _is_vector(node: exp.Expr) -> bool:
    """Return whether a node is a column of several numbers, which PostgreSQL compares with a text."""
    return isinstance(node, exp.Column) and node.name.lower() in columns_of("oidvector")


def _column(node: exp.Column) -> exp.Expr:
    """Return a column; of the number of a function its name, but beside what is a number."""
    if node.db.lower() in SCHEMAS:
        node.set("db", exp.to_identifier(SCHEMAS[node.db.lower()]))
    above = node.parent
    if not _is_function(node):
        return node
    if isinstance(above, exp.Binary) and isinstance(above.left, exp.Column) == isinstance(
        above.right, exp.Column
    ):
        return node
    named = _own_call("regproc_name", node.copy())
    return exp.alias_(named, node.name, quoted=True) if isinstance(above, exp.Select) else named


def _bounded(series: exp.Expr) -> exp.Expr:
    """Return a series that fails where it would have very many numbers."""
    start, end = series.args["start"].copy(), series.args["end"].copy()
    many = exp.GT(
        this=exp.Abs(this=exp.paren(end) - exp.paren(start)), expression=exp.convert(_MOST_OF_SERIES)
    )
    error = exp.Anonymous(this="error", expressions=[exp.Literal.string("a series of too many numbers")])
    series.set("end", exp.Case(ifs=[exp.If(this=many, true=error)], default=end))
    return series


def _folded(tree: exp.Query) -> exp.Query:
    """Put names without quotes in lower case, as PostgreSQL does: clients find columns by them."""
    for name in tree.find_all(exp.Identifier):
        if not name.args.get("quoted"):
            name.set("this", name.name.lower())
    return tree


def _with_system_columns(tree: exp.Query) -> exp.Query:
    """Put values in the place of the columns that every table of PostgreSQL has beside its own."""
    for column in [column for column in tree.find_all(exp.Column) if column.name.lower() in _SYSTEM_COLUMNS]:
        name = column.name.lower()
        value: exp.Expr = exp.convert(_SYSTEM_COLUMNS[name])
        if name == "tableoid":
            value = exp.convert(_table_number(column))
        column.replace(exp.alias_(value, name) if isinstance(column.parent, exp.Select) else value)
    return tree


_SYSTEM_COLUMNS = {"tableoid": 0, "ctid": "(0,1)", "xmin": 1, "xmax": 0, "cmin": 0, "cmax": 0}


def _table_number(column: exp.Column) -> int:
    """Return the number of the table that a column is of."""
    select = column.find_ancestor(exp.Select)
    tables = select.find_all(exp.Table) if select is not None else ()
    names = [table.name.lower() for table in tables if column.table in ("", table.alias_or_name)]
    found = relations().get(("pg_catalog", names[0])) if names else None
    return found.number if found else 0


def _own_call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Dot(
        this=exp.to_identifier(TABLES), expression=exp.Anonymous(this=name, expressions=[*arguments])
    )


def _type_meant(kind: exp.DataType) -> exp.DataType | None:
    """Return a type as there is one, without a schema before it; None where it is one as it is written."""
    name = "oid" if kind_of(kind).startswith("reg") else kind_of(kind)
    if name in _KINDS:
        return exp.DataType.build(_KINDS[name], dialect="duckdb")
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
