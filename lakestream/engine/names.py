"""Names that a stream's expressions may use, resolved against the lake's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.compute.calculation import Relation
from lakestream.errors import StatementError, did_you_mean

if TYPE_CHECKING:
    from lakestream.storage.catalog import Catalog, TableInfo

TBNAME = "tbname"


def visible_columns(info: TableInfo) -> tuple[str, ...]:
    """Return the table's columns without the provenance that lakestream keeps in outputs."""
    return tuple(column.name for column in info.columns if column.name not in info.hidden)


def has_subtables(info: TableInfo) -> bool:
    """Return whether a row's subtable stands in ``tbname``: in super tables and grouped outputs."""
    return any(column.name == TBNAME for column in info.columns)


def relation_of(info: TableInfo, only: str | None) -> Relation:
    """Return a table as calculations see it; rows of equal time are ordered by the rest of the key."""
    ties = tuple(name for name in info.key if name != info.time_column)
    key = f"{info.database}.{info.name}"
    return Relation(key, visible_columns(info), info.time_column, has_subtables(info), only, ties)


class Names:
    """Finds tables by the names in a statement; a subtable stands for its rows of the super table."""

    def __init__(self, catalog: Catalog, database: str) -> None:
        self.catalog = catalog
        self.database = database
        self.tables: dict[str, TableInfo] = {}

    def relation(self, database: str | None, name: str) -> Relation:
        """Return what a calculation sees under a name; StatementError TABLE_NOT_FOUND."""
        info, only = self.find(database or self.database, name)
        self.tables[f"{info.database}.{info.name}"] = info
        return relation_of(info, only)

    def find(self, database: str, name: str) -> tuple[TableInfo, str | None]:
        """Return the table of a name, and the subtable where the name is one."""
        info = self.catalog.find_table(database, name)
        if info is not None:
            return info, None
        subtable = self.catalog.subtable(database, name)
        if subtable is not None:
            return self.catalog.table(database, subtable.stable), subtable.name
        self.catalog.require_database(database)
        raise StatementError(
            "TABLE_NOT_FOUND",
            f"there is no table {database}.{name}",
            hint=did_you_mean(name, self.catalog.table_names(database)),
        )
