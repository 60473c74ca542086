"""Which columns of which tables the columns of a stream's output are made of, from its definition.

A column is made of those that its expression names, through subqueries too; rows that conditions choose by
other columns are not told of. ``count(*)`` is made of no column; what the window or a group gives is made of
the source's time, or of what the group is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.lineage import Node
from sqlglot.lineage import lineage as lineage_of

from lakestream.compute.windows.calculation import ALIAS
from lakestream.compute.windows.window_rows import TRIGGER_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakestream.engine.streams.stream import Stream
    from lakestream.output.columns import OutputColumn, OutputShape


@dataclass(frozen=True, order=True)
class Origin:
    """A column of a table (``database.name``)."""

    table: str
    column: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column}"


@dataclass(frozen=True)
class ColumnLineage:
    """A column of an output, and what it is made of.

    ``origins`` is None where that cannot be told. ``copied``: it is the one origin as it is.
    """

    column: str
    origins: tuple[Origin, ...] | None
    copied: bool = False


def columns_of_stream(stream: Stream, shape: OutputShape) -> tuple[ColumnLineage, ...]:
    """Return what each column of an output of this shape is made of."""
    results = _Results(stream)
    return tuple(_column(results, column) for column in shape.columns)


def _column(results: _Results, column: OutputColumn) -> ColumnLineage:
    tree = parse_one(column.sql, dialect="spark")
    numbered = tree.name if isinstance(tree, exp.Column) else ""
    if not column.of_group and numbered.startswith("c") and numbered[1:].isdigit():
        return results.of(int(numbered[1:]) - 1, column.name)
    origins = tuple(sorted({*results.of_names(tree)}))
    return ColumnLineage(column.name, origins, copied=isinstance(tree, exp.Column) and len(origins) == 1)


def _is_plain(tree: exp.Expr) -> bool:
    """Return whether a step of a column's way is that column as it is; what the window gives is not."""
    inner = tree.unalias()
    if isinstance(inner, exp.Column):
        return not inner.name.startswith("_t")
    return isinstance(inner, exp.Table | exp.Placeholder)


class _Results:
    """The results of a stream's calculation, as it is computed: over views of the tables."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        info = stream.source.info
        self._source = f"{info.database}.{info.name}"
        reads = stream.calculation.reads
        self._tables = {TRIGGER_ROWS: self._source, **{read.view: read.relation.key for read in reads}}
        columns = {TRIGGER_ROWS: [*stream.source.columns, "_ls_gid", "_ls_k"]}
        columns |= {read.view: [*read.relation.columns] for read in reads}
        self._schema = {view: dict.fromkeys(names, "string") for view, names in columns.items()}
        tree = parse_one(stream.calculation.query.sql("spark"), dialect="spark")
        for table in tree.find_all(exp.Table):
            rows = table.find_ancestor(exp.Select)
            if table.name == TRIGGER_ROWS and rows is not None:
                rows.set("where", None)  # which of the rows are a window's says nothing of columns
        self._query = tree.sql("spark")
        self._selects = tree.selects if isinstance(tree, exp.Query) else []

    def of(self, number: int, name: str) -> ColumnLineage:
        """Return what a result is made of; its name is that of the output."""
        item = self._selects[number] if number < len(self._selects) else None
        if item is None or not item.alias_or_name:
            return ColumnLineage(name, None)
        try:
            node = lineage_of(
                exp.to_identifier(item.alias_or_name, quoted=True).sql("spark"),
                self._query,
                schema=self._schema,
                dialect="spark",
                validate_qualify_columns=False,
            )
        except (SqlglotError, ValueError, KeyError):
            return ColumnLineage(name, None)
        origins = tuple(sorted({*self._origins(node)}))
        plain = all(_is_plain(step.expression) for step in node.walk())
        return ColumnLineage(name, origins, copied=plain and len(origins) == 1)

    def _origins(self, node: Node) -> Iterator[Origin]:
        for step in node.walk():
            yield from self.of_names(step.expression, only_windows=True)
            if isinstance(step.expression, exp.Placeholder):
                continue  # a column of a window: its name was looked at where it is used
            if isinstance(step.expression, exp.Table):
                table = self._tables.get(step.expression.name)
                if table is not None:
                    yield Origin(table, exp.to_column(step.name).name)

    def of_names(self, tree: exp.Expr, *, only_windows: bool = False) -> Iterator[Origin]:
        """Give what columns of windows and groups in an expression are made of."""
        for column in tree.find_all(exp.Column):
            if only_windows and column.table != ALIAS:
                continue
            name = column.name
            if name in self._stream.group_columns:
                group = self._stream.groups[self._stream.group_columns.index(name)]
                for part in parse_one(group, dialect="spark").find_all(exp.Column):
                    yield Origin(self._source, part.name)
            elif name.startswith("_t") and name != "_tgrpid" and self._stream.source.info.time_column:
                yield Origin(self._source, self._stream.source.info.time_column)
