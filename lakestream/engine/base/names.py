"""Names that a stream's expressions may use, resolved against the lake's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from lakestream.compute.windows.calculation import Relation
from lakestream.engine.base.versions import at_version
from lakestream.language.expressions.parsing import parse_expression, parse_query
from lakestream.storage.names.subtables import Subtables
from lakestream.triggers.kinds import fragments_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakestream.language.expressions.versions import AsOf
    from lakestream.language.model import StreamDefinition
    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import TableInfo

TBNAME = "tbname"


def visible_columns(info: TableInfo) -> tuple[str, ...]:
    """Return the table's columns without the provenance that lakestream keeps in outputs."""
    return tuple(column.name for column in info.columns if column.name not in info.hidden)


def has_subtables(info: TableInfo) -> bool:
    """Return whether a row's subtable stands in ``tbname``: in super tables and grouped outputs."""
    return any(column.name == TBNAME for column in info.columns)


def trees_of(definition: StreamDefinition) -> list[exp.Expr]:
    """Return the trees of a stream's calculation, and of all expressions over rows of its source."""
    fragments = [key.expression for key in definition.partition_by]
    fragments += [definition.options.pre_filter] if definition.options.pre_filter else []
    fragments += [one.condition for one in definition.expected(of_results=False)]
    time_column = definition.options.late.time_column
    fragments += [time_column] if time_column else []
    fragments += fragments_of(definition.trigger)
    fragments += [fragment for function in definition.functions for fragment in function.fragments]
    return [parse_query(definition.calculation), *map(parse_expression, fragments)]


def names_used(definition: StreamDefinition) -> frozenset[str] | None:
    """Return every name that may be a column's in a stream's expressions, in lower case.

    None: a star or a natural join names all columns there are.
    """
    trees = trees_of(definition)
    if any(_names_all(tree) for tree in trees):
        return None
    return frozenset(
        name.name.lower() for tree in trees for name in tree.find_all(exp.Identifier) if not _is_alias(name)
    )


def _is_alias(name: exp.Identifier) -> bool:
    """Return whether a result is given the name, which says nothing of a column of that name."""
    return isinstance(name.parent, exp.Alias) and name.arg_key == "alias"


def _names_all(tree: exp.Expr) -> bool:
    """Return whether columns are meant without their names; in ``count(*)`` a star stands for rows."""
    stars = any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))
    return stars or any(join.method == "NATURAL" for join in tree.find_all(exp.Join))


def used_columns(info: TableInfo, used: frozenset[str] | None) -> tuple[str, ...]:
    """Return the visible columns that a stream reads: those of the names, and what every row needs."""
    if used is None:
        return visible_columns(info)
    always = {info.time_column, TBNAME, *info.key}
    found = tuple(name for name in visible_columns(info) if name in always or name.lower() in used)
    return found or visible_columns(info)[:1]  # rows of a table without a time are counted all the same


def relation_of(
    info: TableInfo,
    only: str | None,
    used: frozenset[str] | None = None,
    columns_then: Mapping[str, Sequence[str]] | None = None,
) -> Relation:
    """Return a table as calculations see it; rows of equal time are ordered by the rest of the key.

    ``columns_then`` are those that ``*`` stands for, of the tables (``database.name``) of which it is known.
    """
    ties = tuple(name for name in info.key if name != info.time_column)
    key = f"{info.database}.{info.name}"
    tags = frozenset(tag.name for tag in info.tags)
    types = {column.name.lower(): column.type.lower() for column in info.columns}
    then = (columns_then or {}).get(key)
    columns, own = used_columns(info, used) if then is None else tuple(then), has_subtables(info)
    return Relation(key, columns, info.time_column, own, only, ties, types=types, tags=tags)


class Names:
    """Finds tables by the names in a statement; a subtable stands for its rows of the super table.

    ``used`` are the names of columns that the statement reads, None for all columns, which are then
    ``columns_then`` where these are known; ``zone`` is the time zone of instants without one of their own.
    """

    def __init__(
        self,
        catalog: Catalog,
        database: str,
        used: frozenset[str] | None = None,
        zone: str = "UTC",
        columns_then: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.catalog = catalog
        self.database = database
        self.used = used
        self.columns_then = columns_then
        self.zone = zone
        self.tables: dict[str, TableInfo] = {}

    def relation(self, database: str | None, name: str, version: AsOf | None = None) -> Relation:
        """Return what a calculation sees under a name; StatementError TABLE_NOT_FOUND, VERSION_NOT_FOUND."""
        info, only = self.find(database or self.database, name)
        relation = relation_of(info, only, self.used, self.columns_then)
        if version is not None:
            relation = at_version(self.catalog.handles, info, relation, version, self.zone)
        self.tables[relation.key] = info
        return relation

    def find(self, database: str, name: str) -> tuple[TableInfo, str | None]:
        """Return the table of a name, and the subtable where the name is one."""
        info = self.catalog.find_table(database, name)
        if info is not None:
            return info, None
        subtable = Subtables(self.catalog).find(database, name)
        if subtable is not None:
            return self.catalog.table(database, subtable.stable), subtable.name
        self.catalog.databases.require(database)
        raise self.catalog.not_found(database, name)
