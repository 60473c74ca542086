"""UPDATE and DELETE: rows of a table changed where a condition holds, by delta-rs. No Spark, no JVM."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from sqlglot import exp

from lakestream.compute.changed import NUMBERS, as_spark
from lakestream.compute.expressions.functions import duration_micros
from lakestream.compute.unknown import FUNCTIONS
from lakestream.engine.base.names import TBNAME, Names, visible_columns
from lakestream.engine.base.result import Result
from lakestream.errors import LakestreamError, NotSupportedError, Place, StatementError, did_you_mean
from lakestream.language.common.allowed import names_of
from lakestream.language.common.dialect import DURATION_FUNCTION, NAME
from lakestream.language.expressions.parsing import parse_expression, place_in
from lakestream.language.folders import UNTOLD, told_text
from lakestream.language.quoting import delta_name, delta_text
from lakestream.storage.columns.meant import text_folders
from lakestream.storage.delta import delete_where, update_where
from lakestream.storage.rows.reading import timestamp_literal
from lakestream.storage.writes.values import convert, parse_time, sql_literal

if TYPE_CHECKING:
    from lakestream.language import model
    from lakestream.language.model import Fragment, TableName
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import Column, TableInfo

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ)


@dataclass(frozen=True)
class RowChanges:
    """Changes rows of the tables of one lake; ``now_us`` is what NOW stands for."""

    catalog: Catalog
    zone: str
    now_us: int

    def delete(self, statement: model.Delete, database: str) -> Result:
        """DELETE FROM … WHERE …: one commit."""
        info, only = table_of(self.catalog, statement.table, database)
        refuse_read_time(info)
        count = delete_where(
            self.catalog.handles.latest(info.path), self._predicate(statement.where, info, only)
        )
        return Result.of_rows("deleted", count)

    def update(self, statement: model.Update, database: str) -> Result:
        """UPDATE … SET … WHERE …: one commit."""
        info, only = table_of(self.catalog, statement.table, database)
        refuse_read_time(info)
        assignments = {
            info.column(name).name: self._assigned(fragment, info, info.column(name))
            for name, fragment in statement.assignments
        }
        table = self.catalog.handles.latest(info.path)
        count = update_where(table, assignments, self._predicate(statement.where, info, only))
        return Result.of_rows("updated", count)

    def _predicate(self, where: Fragment | None, info: TableInfo, only: str | None) -> str | None:
        parts = [] if only is None else [f"{delta_name(TBNAME)} = {delta_text(only)}"]
        if where is not None:
            tree = _as_spark(where, info)
            condition = self._written(tree, where, info)
            # To delta-rs a condition that comes to NULL before there is a row holds for every row.
            parts.append(f"coalesce({condition}, false)" if _makes_null(tree) else f"({condition})")
        return " AND ".join(parts) or None

    def _assigned(self, fragment: Fragment, info: TableInfo, column: Column) -> str:
        node = parse_expression(fragment)
        if isinstance(node, exp.Literal):
            value = node.name if node.is_string else _number(node)
            return sql_literal(self._converted(value, column), column)
        return self._written(_as_spark(fragment, info), fragment, info)

    def _written(self, tree: exp.Expr, fragment: Fragment, info: TableInfo) -> str:
        """Return an expression in delta-rs's SQL: columns quoted, texts beside times made times."""
        shown = {name.lower(): name for name in visible_columns(info)}
        folders = text_folders(self.catalog.handles.latest(info.path))

        def resolve(node: exp.Expr) -> exp.Expr:
            moment = self._moment(node)
            if moment is not None:
                return exp.Var(this=timestamp_literal(moment))
            _refuse_function(fragment, node, info)
            if isinstance(node, exp.Column):
                name = node.name.lower()
                if name not in shown:
                    raise StatementError(
                        "COLUMN_NOT_FOUND",
                        f"{info.database}.{info.name} has no column {node.name}",
                        hint=did_you_mean(node.name, shown.values()),
                        place=place_in(fragment, node),
                    )
                sql = delta_name(shown[name])
                is_text = shown[name] in folders and not _equals_text(node)
                return exp.Var(this=told_text(sql) if is_text else sql)
            if isinstance(node, exp.Literal) and node.is_string and _beside_time(node, info):
                column = info.column(info.time_column)
                return exp.Var(this=sql_literal(self._converted(node.name, column), column))
            return node

        return tree.transform(resolve).transform(_in_brackets).sql("postgres")

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


def _number(node: exp.Expr) -> int | float:
    return int(node.name) if node.name.isdigit() else float(node.name)


def _as_spark(fragment: Fragment, info: TableInfo) -> exp.Expr:
    return as_spark(parse_expression(fragment), fragment, _kinds(info))


def _kinds(info: TableInfo) -> dict[str, str]:
    """Return the types of columns by their names in lower case."""
    return {column.name.lower(): column.type for column in info.columns}


def _makes_null(condition: exp.Expr) -> bool:
    """Return whether a condition may come to NULL by what stands in it, whatever the row."""
    found = condition.find_all(exp.Null, exp.Nullif, exp.Case, exp.If)
    return any(not (isinstance(node, exp.Null) and isinstance(node.parent, exp.Is)) for node in found)


def _in_brackets(node: exp.Expr) -> exp.Expr:
    """Put brackets around CONCAT, which is written with ||: delta-rs takes = before that."""
    return exp.paren(node, copy=True) if isinstance(node, exp.Concat) else node


_ALIKE = frozenset({"ceil", "floor", "sqrt"})
"""Functions of TDengine that delta-rs, which changes rows, has with the same meaning."""


def _refuse_function(fragment: Fragment, node: exp.Expr, info: TableInfo) -> None:
    """Refuse what delta-rs has with another meaning than TDengine, and what is no function at all."""
    if isinstance(node, exp.Anonymous) and not FUNCTIONS.intersection(names_of(node)):
        raise StatementError(
            "EXPRESSION_INVALID",
            f"there is no function {node.name.lower()}",
            hint=did_you_mean(node.name, FUNCTIONS),
            place=place_in(fragment, node),
        )
    name = node.meta.get(NAME)
    if name is None or name in _ALIKE or _is_between_numbers(node, info):
        return
    raise NotSupportedError(
        f"the function {name.split()[-1]}() in UPDATE and DELETE",
        hint="compare columns with constants, and times with NOW - 1d",
        place=place_in(fragment, node),
    )


def _is_between_numbers(node: exp.Expr, info: TableInfo) -> bool:
    """Return whether it is a CAST of a number, or a column of numbers, to a number: that is cut off alike."""
    if not isinstance(node, exp.Cast) or not node.to.is_type(*exp.DataType.NUMERIC_TYPES):
        return False
    operand = node.this.unnest()
    if isinstance(operand, exp.Column):
        return _kinds(info).get(operand.name.lower(), "").partition("(")[0] in NUMBERS
    return isinstance(operand, exp.Literal) and not operand.is_string


def _beside_time(node: exp.Expr, info: TableInfo) -> bool:
    """Return whether it is a text that is compared with a timestamp column."""
    parent = node.parent
    while isinstance(parent, (exp.Paren, exp.Neg, exp.Tuple)):
        parent = parent.parent
    if not isinstance(parent, (*_COMPARISONS, exp.Between, exp.In)):
        return False
    times = {column.name.lower() for column in info.columns if column.type == "timestamp"}
    return any(column.name.lower() in times for column in parent.find_all(exp.Column))
