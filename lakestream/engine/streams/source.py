"""The trigger table of a stream, and expressions over its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.expressions.levels import TIME_PSEUDO_COLUMNS
from lakestream.engine.base.names import TBNAME, has_subtables, visible_columns
from lakestream.errors import StatementError, did_you_mean
from lakestream.language.common.functions import Meaning
from lakestream.language.expressions.meaning import in_spark
from lakestream.language.expressions.parsing import parse_expression, place_in
from lakestream.language.quoting import quoted, quoted_text

if TYPE_CHECKING:
    from lakestream.language.model import Fragment
    from lakestream.storage.names.table_info import TableInfo


@dataclass(frozen=True)
class Source:
    """The trigger table of a stream: all of a table, or the rows of one subtable."""

    info: TableInfo
    subtable: str | None
    computed: tuple[str, ...] = ()
    """Columns that rows have of functions of the stream, beside the table's."""

    @property
    def time(self) -> str:
        """The event time as SQL."""
        return quoted(self.info.time_column)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that streams see."""
        return visible_columns(self.info)

    def tbname(self) -> str:
        """Return SQL for the name of the table that a row belongs to."""
        return quoted(TBNAME) if has_subtables(self.info) else quoted_text(self.info.name)


def path_of(node: exp.Column, source: Source) -> tuple[str, list[str]]:
    """Return the table that a column is said to be of, its name, and those of the fields in it.

    So ``t.customer.id`` is of t, and ``customer.id`` of no table (an empty text).
    """
    nested = {column.name.lower() for column in source.info.columns if "<" in column.type}
    qualifier, names = "", [part.name for part in node.parts]
    while len(names) > 1 and names[0].lower() not in nested:
        qualifier = names.pop(0)
    return qualifier, names


def row_expression(fragment: Fragment, source: Source, zone: str) -> str:
    """Return an expression over the trigger table's rows (PARTITION BY, PRE_FILTER) as Spark SQL."""
    known = {name.lower(): name for name in source.columns}
    tables = {"", source.info.name.lower(), (source.subtable or "").lower()}

    def resolve(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        qualifier, (written, *fields) = path_of(node, source)
        name = written.lower()
        if qualifier.lower() not in tables:
            raise StatementError(
                "COLUMN_NOT_FOUND",
                f"{qualifier}.{written} is no column of {source.info.database}.{source.info.name}",
                hint=written,
                place=place_in(fragment, node),
            )
        if name == TBNAME:
            return exp.Var(this=source.tbname())
        if name in TIME_PSEUDO_COLUMNS:
            return exp.column(source.info.time_column, quoted=True)
        if name in source.computed:
            return exp.column(name)
        if name not in known:
            raise StatementError(
                "COLUMN_NOT_FOUND",
                f"{source.info.database}.{source.info.name} has no column {written}",
                hint=did_you_mean(written, source.columns),
                place=place_in(fragment, node),
            )
        found: exp.Expr = exp.column(known[name], quoted=True)
        for field in fields:
            found = exp.Dot(this=found, expression=exp.to_identifier(field, quoted=True))
        return found

    times = TIME_PSEUDO_COLUMNS | {one.name.lower() for one in source.info.columns if one.type == "timestamp"}
    tree = in_spark(parse_expression(fragment), Meaning(zone), fragment, times)
    return str(tree.transform(resolve).sql("spark"))
