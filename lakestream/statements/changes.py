"""UPDATE and DELETE: rows of a table changed where a condition holds.

delta-rs does it, without Spark, where it computes all that is said as a query does; else Spark does.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from sqlglot import exp

from lakestream.compute.alike import MOMENT, is_alike
from lakestream.compute.changed import as_spark
from lakestream.compute.expressions.functions import duration_micros
from lakestream.compute.unknown import FUNCTIONS
from lakestream.engine.base.names import TBNAME, Names, visible_columns
from lakestream.engine.base.refused import failed, java_errors, refused, spark_errors
from lakestream.engine.base.result import Result
from lakestream.engine.planning.planner import table_size
from lakestream.errors import LakestreamError, NotSupportedError, Place, StatementError, did_you_mean
from lakestream.language.common.allowed import foreign_calls, names_of
from lakestream.language.common.dialect import DURATION_FUNCTION, NAME
from lakestream.language.common.functions import Meaning
from lakestream.language.common.templates import made
from lakestream.language.expressions.meaning import in_spark
from lakestream.language.expressions.parsing import TURNED, parse_expression, place_in
from lakestream.language.folders import UNTOLD, told_text
from lakestream.language.quoting import delta_name, delta_text, quoted, quoted_text
from lakestream.storage.columns.meant import text_folders
from lakestream.storage.delta import are_apart, delete_where, edited_by_spark, read_spark, update_where
from lakestream.storage.rows.reading import timestamp_literal
from lakestream.storage.sessions.plans import refuse_calls, refuse_plan
from lakestream.storage.sessions.session import check_error
from lakestream.storage.writes.values import convert, parse_time, spark_literal, sql_literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lakestream.language import model
    from lakestream.language.model import Fragment, TableName
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import Column, TableInfo
    from lakestream.storage.tables.table import Table


_NESTED = (">", "variant")
"""How types end that are not looked at."""


@dataclass(frozen=True)
class _Said:
    """An expression, and its tree as :meth:`RowChanges._read` returns it."""

    fragment: Fragment
    tree: exp.Expr


@dataclass(frozen=True)
class _Where:
    """Rows that are changed: of a table, or the subtable that was named, for which ``of`` holds."""

    info: TableInfo
    subtable: str | None
    of: _Said | None


@dataclass(frozen=True)
class RowChanges:
    """Changes rows of the tables of one lake; ``now_us`` is what NOW stands for.

    What delta-rs computes otherwise than a query is done by ``spark``, which is called then, and so is what
    makes rows equal to others, which tables up to ``small_bytes`` are looked at for.
    """

    catalog: Catalog
    zone: str
    now_us: int
    small_bytes: int
    spark: Callable[[], SparkSession]

    def delete(self, statement: model.Delete, database: str) -> Result:
        """DELETE FROM … WHERE …: one commit."""
        where = self._where(statement.table, statement.where, database)
        if self._is_alike(where, {}):
            count = delete_where(self._table(where.info), self._predicate(where))
        else:
            count = self._by_spark(where, {})
        return Result.of_rows("deleted", count)

    def update(self, statement: model.Update, database: str) -> Result:
        """UPDATE … SET … WHERE …: one commit."""
        where = self._where(statement.table, statement.where, database)
        columns = {
            where.info.column(name).name: self._read(fragment, where.info)
            for name, fragment in statement.assignments
        }
        if self._is_alike(where, columns) and self._stay_apart(where.info, columns):
            assignments = {
                name: self._assigned(said, where.info, where.info.column(name))
                for name, said in columns.items()
            }
            count = update_where(self._table(where.info), assignments, self._predicate(where))
        else:
            count = self._by_spark(where, columns)
        return Result.of_rows("updated", count)

    def _where(self, table: TableName, condition: Fragment | None, database: str) -> _Where:
        info, subtable = table_of(self.catalog, table, database)
        refuse_read_time(info)
        return _Where(info, subtable, None if condition is None else self._read(condition, info))

    def _table(self, info: TableInfo) -> Table:
        return self.catalog.handles.latest(info.path)

    # --- by delta-rs ---

    def _is_alike(self, where: _Where, columns: Mapping[str, _Said]) -> bool:
        """Return whether delta-rs makes of all expressions what a query makes of them."""
        kinds = _kinds(where.info)
        if where.of is not None and not is_alike(where.of.tree, kinds):
            return False
        return all(
            isinstance(said.tree, exp.Literal) or is_alike(said.tree, kinds, name)
            for name, said in columns.items()
        )

    def _stay_apart(self, info: TableInfo, columns: Mapping[str, _Said]) -> bool:
        """Return whether rows stay different from others when columns are set.

        Of a row that becomes equal to another one, delta-rs tells the change feed no more than what it was.
        """
        if info.key and not {*info.key} & {*columns}:
            return True
        table = self._table(info)
        if table_size(table, table.version).bytes > self.small_bytes:
            return False
        rest = [column for column in info.columns if column.name not in columns]
        return are_apart(table, [column.name for column in rest if not column.type.endswith(_NESTED)])

    def _predicate(self, where: _Where) -> str | None:
        only, of = where.subtable, where.of
        parts = [] if only is None else [f"{delta_name(TBNAME)} = {delta_text(only)}"]
        if of is not None:
            tree = as_spark(of.tree, of.fragment, _kinds(where.info))
            condition = self._written(tree, where.info)
            # To delta-rs a condition that comes to NULL before there is a row holds for every row.
            parts.append(f"coalesce({condition}, false)" if _makes_null(tree) else f"({condition})")
        return " AND ".join(parts) or None

    def _assigned(self, said: _Said, info: TableInfo, column: Column) -> str:
        if isinstance(said.tree, exp.Literal):
            return sql_literal(self._constant(said.tree, column), column)
        return self._written(as_spark(said.tree, said.fragment, _kinds(info)), info)

    def _constant(self, node: exp.Literal, column: Column) -> Any:  # noqa: ANN401
        return self._converted(node.name if node.is_string else _number(node), column)

    def _written(self, tree: exp.Expr, info: TableInfo) -> str:
        """Return an expression in delta-rs's SQL."""
        folders = text_folders(self._table(info))

        def resolve(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Anonymous) and node.name == MOMENT:
                return exp.Var(this=timestamp_literal(int(node.expressions[0].name)))
            if isinstance(node, exp.Column):
                sql = delta_name(node.name)
                is_text = node.name in folders and not _equals_text(node)
                return exp.Var(this=told_text(sql) if is_text else sql)
            return node

        return tree.transform(resolve).transform(_in_brackets).sql("postgres")

    # --- by Spark ---

    def _by_spark(self, where: _Where, columns: Mapping[str, _Said]) -> int:
        """Change rows by Spark's statement; raises QUERY_INVALID with what it says."""
        spark, table = self.spark(), self._table(where.info)
        values = {name: self._value(said, where.info.column(name)) for name, said in columns.items()}
        parts = [] if where.subtable is None else [f"{quoted(TBNAME)} = {quoted_text(where.subtable)}"]
        if where.of is not None:
            parts.append(f"({self._in_spark(where.of)})")
        condition = " AND ".join(parts) or "true"
        rows = read_spark(spark, table, table.version)
        for name, said in columns.items():
            _look(said.fragment, partial(rows.selectExpr, values[name]))
        if where.of is not None:
            _look(where.of.fragment, partial(rows.where, condition))
        first, *_ = (*columns.values(), *filter(None, [where.of]))
        with _refusals_of(first.fragment):
            return edited_by_spark(spark, table, condition, values or None)

    def _value(self, said: _Said, column: Column) -> str:
        """Return what a column is set to."""
        if isinstance(said.tree, exp.Literal):
            return spark_literal(self._constant(said.tree, column), column)
        return self._in_spark(said)

    def _in_spark(self, said: _Said) -> str:
        """Return an expression as a query computes it."""
        now = made(f"{MOMENT}({self.now_us}L)", {})
        tree = in_spark(said.tree.copy(), Meaning(self.zone, now), said.fragment)

        def resolve(node: exp.Expr) -> exp.Expr:
            return exp.column(node.name, quoted=True) if isinstance(node, exp.Column) else node

        return str(tree.transform(resolve).sql("spark"))

    # --- as they are read ---

    def _read(self, fragment: Fragment, info: TableInfo) -> _Said:
        """Read an expression: columns as the table spells them, times as instants."""
        shown = {name.lower(): name for name in visible_columns(info)}

        def resolve(node: exp.Expr) -> exp.Expr:
            moment = self._moment(node)
            if moment is not None:
                return _instant(moment)
            _refuse_unknown(fragment, node)
            if isinstance(node, exp.Column):
                name = node.name.lower()
                if name not in shown:
                    raise StatementError(
                        "COLUMN_NOT_FOUND",
                        f"{info.database}.{info.name} has no column {node.name}",
                        hint=did_you_mean(node.name, shown.values()),
                        place=place_in(fragment, node),
                    )
                node.this.set("this", shown[name])
            constant = _constant_of(node)
            if constant is not None and _beside_time(node, info):
                return _instant(self._converted(constant, info.column(info.time_column)))
            return node

        return _Said(fragment, parse_expression(fragment).transform(resolve))

    def _moment(self, node: exp.Expr) -> int | None:
        """Return the instant that NOW or TODAY is, or lies a duration from it (µs since 1970 UTC)."""
        node = node.unnest()
        name = node.meta.get(NAME)
        if name == "now":
            return self.now_us
        if name == "today":
            day = datetime.fromtimestamp(self.now_us // 1_000_000, ZoneInfo(self.zone)).date()
            return parse_time(day.isoformat(), zone=self.zone)
        if not isinstance(node, (exp.Add, exp.Sub)) or (base := self._moment(node.left)) is None:
            return None
        length = node.right.unnest()
        if not isinstance(length, exp.Anonymous) or length.name != DURATION_FUNCTION:
            return None
        micros = duration_micros(length)
        return base + (micros if isinstance(node, exp.Add) else -micros)

    def _converted(self, value: model.Value, column: Column) -> Any:  # noqa: ANN401
        return convert(value, column, now_us=self.now_us, zone=self.zone)


def table_of(catalog: Catalog, name: TableName, database: str) -> tuple[TableInfo, str | None]:
    """Return the table that a statement names, and the subtable where it is one; errors are placed there."""
    try:
        return Names(catalog, database).find(name.database or database, name.name)
    except LakestreamError as error:
        raise error.at(Place(name.line, name.column, len(name.name))) from None


def refuse_read_time(info: TableInfo) -> None:
    """Refuse to write where statements see another time than the table has."""
    if info.read_time is not None:
        raise NotSupportedError(
            f"writing into {info.database}.{info.name}, whose time is {info.read_time.description}",
            hint="whoever made the table writes it",
        )


def _equals_text(column: exp.Expr) -> bool:
    """Return whether a condition says that a column equals texts, none of UNTOLD, and nothing denies it.

    It then holds for none of UNTOLD either, and folders are found by it.
    """
    says = column.parent
    if not isinstance(says, (exp.EQ, exp.In)) or says.this is not column:
        return False
    texts = says.expressions if isinstance(says, exp.In) else [says.expression]
    around = says.parent
    while isinstance(around, (exp.And, exp.Or, exp.Paren)):
        around = around.parent
    if around is not None or not texts:
        return False
    return all(isinstance(one, exp.Literal) and one.name not in UNTOLD for one in texts)


def _constant_of(node: exp.Expr) -> model.Value:
    """Return a text or a whole number that is written, with its sign; None for anything else."""
    if isinstance(node, exp.Neg) and isinstance(number := _constant_of(node.this), int):
        return -number
    if not isinstance(node, exp.Literal) or not (node.is_string or node.is_int):
        return None
    return node.name if node.is_string else int(node.name)


def _number(node: exp.Expr) -> int | float:
    return int(node.name) if node.name.isdigit() else float(node.name)


def _kinds(info: TableInfo) -> dict[str, str]:
    """Return the types of columns by their names in lower case."""
    return {column.name.lower(): column.type for column in info.columns}


def _makes_null(condition: exp.Expr) -> bool:
    """Return whether a condition may come to NULL by what stands in it, whatever the row."""
    found = condition.find_all(exp.Null, exp.Nullif, exp.Case, exp.If)
    return any(not (isinstance(node, exp.Null) and isinstance(node.parent, exp.Is)) for node in found)


def _in_brackets(node: exp.Expr) -> exp.Expr:
    """Put brackets around CONCAT, written with ||, and <=>: delta-rs takes = and OR before."""
    return exp.paren(node, copy=True) if isinstance(node, exp.Concat | exp.NullSafeEQ) else node


def _look(fragment: Fragment, query: Callable[[], DataFrame]) -> None:
    """Look at an expression in a query, before it is let change anything."""
    try:
        frame = query()
        refuse_calls(frame.sparkSession, (name for name, _ in foreign_calls(parse_expression(fragment))))
    except spark_errors() as error:
        check_error(error)
        raise refused("QUERY_INVALID", "the expression", fragment, error) from None
    refuse_plan(frame, fragment.sql)


@contextmanager
def _refusals_of(fragment: Fragment) -> Iterator[None]:
    """Raise QUERY_INVALID with what Spark fails of over rows."""
    try:
        yield
    except java_errors() as error:
        check_error(error)
        failure = failed("QUERY_INVALID", "the expression", fragment, error)
        raise failure or refused("QUERY_INVALID", "the expression", fragment, error) from None


def _refuse_unknown(fragment: Fragment, node: exp.Expr) -> None:
    """Refuse what is no function at all."""
    is_call = isinstance(node, exp.Anonymous) and node.name != DURATION_FUNCTION
    if is_call and not FUNCTIONS.intersection(names_of(node)):
        raise StatementError(
            "EXPRESSION_INVALID",
            f"there is no function {node.name.lower()}",
            hint=did_you_mean(node.name, FUNCTIONS),
            place=place_in(fragment, node),
        )


def _instant(micros: int) -> exp.Expr:
    return exp.Anonymous(this=MOMENT, expressions=[exp.Literal.number(micros)])


def _beside_time(node: exp.Expr, info: TableInfo) -> bool:
    """Return whether a constant is compared with a timestamp column, or with one and a duration."""
    says: exp.Expr | None = node.parent
    while isinstance(says, (exp.Paren, exp.Tuple)):
        says = says.parent
    if says is None or type(says) not in (*TURNED, exp.Between, exp.In):
        return False
    times = {column.name.lower() for column in info.columns if column.type == "timestamp"}
    sides = [side for side in says.iter_expressions() if side.find(exp.Column) is not None]
    return any(
        column.name.lower() in times
        for side in sides
        if all(call.name == DURATION_FUNCTION for call in side.find_all(exp.Func))
        for column in side.find_all(exp.Column)
    )
