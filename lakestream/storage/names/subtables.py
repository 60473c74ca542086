"""The subtables of super tables: registered ones, and values of ``tbname`` among the rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from deltalake import QueryBuilder

from lakestream.errors import StatementError, did_you_mean
from lakestream.language.quoting import delta_name, delta_text
from lakestream.sorting import natural
from lakestream.storage.names.registered import TBNAME, SubtableInfo
from lakestream.storage.records.keyed import key_of, rows_of
from lakestream.storage.writes import edits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakestream.storage.names.catalog import Catalog
    from lakestream.storage.names.table_info import TableInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Subtables:
    """The subtables of the super tables of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._registered = catalog.registered

    def create(
        self, database: str, subtables: Sequence[SubtableInfo], *, if_not_exists: bool = False
    ) -> list[SubtableInfo]:
        """Register subtables in one commit and return the new ones. Raises TABLE_EXISTS, TAG_NOT_FOUND."""
        registered, new = self._registered.keys(), []
        for subtable in subtables:
            stable = self._catalog.table(database, subtable.stable)
            _check_tags(stable, subtable.tags)
            is_registered = key_of(database, subtable.name) in registered
            if is_registered or self._is_table(database, subtable.name):
                if if_not_exists:
                    continue
                raise StatementError("TABLE_EXISTS", f"there is a table {database}.{subtable.name}")
            new.append(subtable)
        self._registered.put(database, new)
        return new

    def _is_table(self, database: str, name: str) -> bool:
        return name.lower() in (known.lower() for known in self._catalog.table_names(database))

    def find(self, database: str, name: str) -> SubtableInfo | None:
        """Return a subtable: a registered one, else a value of ``tbname`` among a super table's rows."""
        registered = self._registered.find(database, name)
        if registered is not None:
            return registered
        for stable in self._super_tables(database):
            found = self._from_rows(stable, f"{delta_name(TBNAME)} = {delta_text(name)}")
            if found:
                return found[0]
        return None

    def of(self, database: str, stable: str) -> list[SubtableInfo]:
        """Return a super table's subtables by name, those included that only its rows name."""
        info = self._catalog.table(database, stable)
        found = {sub.name: sub for sub in self._from_rows(info, None)}
        registered = {sub.name: sub for sub in self._registered.of(database, stable)}
        return sorted({**found, **registered}.values(), key=lambda sub: natural(sub.name))

    def set_tag(
        self, database: str, name: str, tags: Mapping[str, Any], literals: Mapping[str, str]
    ) -> SubtableInfo:
        """Change tags of a subtable, in its registration and in its rows (``literals``: SQL of each value).

        Raises StatementError TABLE_NOT_FOUND or TAG_NOT_FOUND.
        """
        old = self.find(database, name)
        if old is None:
            full = f"{database}.{name}"
            raise StatementError("TABLE_NOT_FOUND", f"there is no subtable {full}", missing=full)
        stable = self._catalog.table(database, old.stable)
        _check_tags(stable, tags)
        new = replace(old, tags={**old.tags, **tags})
        edits.update_where(
            self._catalog.handle(stable), literals, f"{delta_name(TBNAME)} = {delta_text(name)}"
        )
        self._registered.put(database, [new])
        return new

    def drop(self, database: str, name: str) -> bool:
        """Drop a subtable with its rows; False when there is none."""
        old = self.find(database, name)
        if old is None:
            return False
        stable = self._catalog.table(database, old.stable)
        edits.delete_where(self._catalog.handle(stable), f"{delta_name(TBNAME)} = {delta_text(name)}")
        self._registered.remove(database, name)
        return True

    def _super_tables(self, database: str) -> list[TableInfo]:
        if database not in self._catalog.databases:
            return []
        return [
            info
            for info in self._catalog.tables(database)
            if info.kind != "quarantine" and any(column.name == TBNAME for column in info.columns)
        ]

    def _from_rows(self, stable: TableInfo, where: str | None) -> list[SubtableInfo]:
        """Return the subtables that rows name, each with the tags of its newest row."""
        names = [column.name for column in stable.tags]
        time = delta_name(stable.time_column)
        newest = [f"last_value({delta_name(n)} ORDER BY {time}) AS {delta_name(n)}" for n in names]
        condition = f" AND {where}" if where else ""
        query = (
            f"SELECT {', '.join([TBNAME, *newest])} FROM rows WHERE {TBNAME} IS NOT NULL{condition}"  # noqa: S608
            f" GROUP BY {TBNAME} ORDER BY {TBNAME}"
        )
        table = self._catalog.handles.latest(stable.path)
        with table.guard:
            rows = rows_of(QueryBuilder().register("rows", table.handle).execute(query))
        return [SubtableInfo(row.pop(TBNAME), stable.name, _without_moments(row)) for row in rows]


def _without_moments(tags: dict[str, Any]) -> dict[str, Any]:
    """Give times as microseconds since 1970 UTC."""
    return {
        name: (value - _EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value
        for name, value in tags.items()
    }


def _check_tags(stable: TableInfo, tags: Mapping[str, Any]) -> None:
    known = [column.name for column in stable.tags]
    for name in tags:
        if name not in known:
            raise StatementError(
                "TAG_NOT_FOUND",
                f"{stable.database}.{stable.name} has no tag {name}",
                hint=did_you_mean(name, known),
            )
