"""Time travel: the version of a table that a query names, by number or by an instant (Delta's rules).

An instant stands for the newest commit that is not later. Numbers beyond the newest commit, and instants
later than it, name no version: what they would give changes with the next commit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakestream.engine.base.instants import from_micros, parse_instant
from lakestream.errors import LakestreamError, StatementError
from lakestream.storage.delta import read_commits

if TYPE_CHECKING:
    from lakestream.compute.windows.calculation import Relation
    from lakestream.language.expressions.versions import AsOf
    from lakestream.storage.delta import Table, Tables
    from lakestream.storage.names.table_info import TableInfo


def at_version(handles: Tables, info: TableInfo, relation: Relation, asked: AsOf, zone: str) -> Relation:
    """Return a relation as it was at a version; instants without a zone are in ``zone``.

    Raises StatementError VERSION_NOT_FOUND for a version that is not there (any more).
    """
    table = handles.latest(info.path)
    name = f"{info.database}.{info.name}"
    if asked.instant is None:
        version = asked.version or 0
    else:
        version = _version_at(table, name, parse_instant(asked.instant, zone) // 1_000)
    columns = _columns(table, name, version)
    kept = tuple(column for column in relation.columns if column in columns)
    return replace(relation, key=f"{relation.key}@v{version}", columns=kept, version=version)


def _columns(table: Table, name: str, version: int) -> frozenset[str]:
    if version > table.version:
        raise _not_found(f"{name} has no version {version}", table)
    try:
        return frozenset(table.columns(version))
    except LakestreamError:
        raise _not_found(f"{name} has no version {version} any more", table) from None


def _version_at(table: Table, name: str, millis: int) -> int:
    """Return the newest version that was there at an instant, by a search through the log."""
    newest = table.version
    last = _millis(table, newest)
    if last is not None and millis > last:
        raise _not_found(f"the instant is later than the newest version of {name}", table)
    low, high = -1, newest
    while low + 1 < high:
        middle = (low + high) // 2
        written = _millis(table, middle)
        low, high = (middle, high) if written is None or written <= millis else (low, middle)
    for version in (high, low):
        written = _millis(table, version) if version >= 0 else None
        if written is not None and written <= millis:
            return version
    raise _not_found(f"{name} has no version that was there at that instant", table)


def _millis(table: Table, version: int) -> int | None:
    """Return when a version was committed, in milliseconds since 1970 UTC; None where the log is gone."""
    try:
        return read_commits(table.path, version - 1, version)[0].timestamp_ms
    except LakestreamError:
        return None


def _not_found(message: str, table: Table) -> StatementError:
    last = _millis(table, table.version)
    when = f" of {from_micros(last * 1_000).isoformat()}" if last else ""
    return StatementError("VERSION_NOT_FOUND", message, hint=f"the newest is version {table.version}{when}")
