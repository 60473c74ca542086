"""Subtables as registered: names and tags that a lake keeps beside the rows of super tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakestream.storage.records.keyed import KeyedTable, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from lakestream.storage.places.layout import Layout

TBNAME = "tbname"


@dataclass(frozen=True)
class SubtableInfo:
    """A subtable: a value of ``tbname`` in its super table, and the values of its tags by name.

    Tag values are as ``values.convert`` gives them: times in microseconds since 1970 UTC.
    """

    name: str
    stable: str
    tags: dict[str, Any]


class RegisteredSubtables:
    """The subtables of one lake that have a row of their own under ``_lakestream``."""

    def __init__(self, layout: Layout) -> None:
        self._rows = KeyedTable(
            layout.system_path("subtables"),
            {"id": "string", "database": "string", "name": "string", "stable": "string", "tags": "string"},
            "id",
        )

    def find(self, database: str, name: str) -> SubtableInfo | None:
        """Return a subtable, None when none of that name is registered."""
        row = self._rows.rows().get(key_of(database, name))
        return None if row is None else _subtable(row)

    def keys(self) -> Collection[str]:
        """Return what ``key_of`` gives of all that are registered."""
        return self._rows.rows().keys()

    def of(self, database: str, stable: str) -> list[SubtableInfo]:
        """Return the registered subtables of a super table."""
        return [_subtable(row) for row in self._rows.rows().values() if _belongs(row, database, stable)]

    def put(self, database: str, subtables: Iterable[SubtableInfo]) -> None:
        """Register subtables, in one commit."""
        self._rows.put(_subtable_row(database, subtable) for subtable in subtables)

    def remove(self, database: str, name: str) -> None:
        """Drop a registration."""
        self._rows.remove([key_of(database, name)])

    def remove_all(self, database: str, stable: str) -> None:
        """Drop the registrations of a super table."""
        self._rows.remove(key for key, row in self._rows.rows().items() if _belongs(row, database, stable))


def _belongs(row: Mapping[str, Any], database: str, stable: str) -> bool:
    return bool(row["database"] == database and row["stable"] == stable)


def _subtable(row: Mapping[str, Any]) -> SubtableInfo:
    tags = {name: _from_json(value) for name, value in json.loads(row["tags"]).items()}
    return SubtableInfo(row["name"], row["stable"], tags)


def _subtable_row(database: str, subtable: SubtableInfo) -> dict[str, Any]:
    return {
        "id": key_of(database, subtable.name),
        "database": database,
        "name": subtable.name,
        "stable": subtable.stable,
        "tags": json.dumps(subtable.tags, default=_to_json),
    }


def _to_json(value: object) -> dict[str, str]:
    """Write a tag's value that JSON has no form for."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    return {"decimal" if isinstance(value, Decimal) else "date": str(value)}


def _from_json(value: object) -> object:
    """Read what ``_to_json`` wrote: tags are scalars, so an object is one of its forms."""
    if not isinstance(value, dict):
        return value
    [(kind, text)] = value.items()
    return _READERS[kind](text)


_READERS: dict[str, Callable[[str], object]] = {
    "bytes": bytes.fromhex,
    "decimal": Decimal,
    "date": date.fromisoformat,
}
