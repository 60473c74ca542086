"""What a table is to statements: its columns, its event time, its key, and how it says so itself.

The Delta property ``lakestream.table`` holds what Delta's schema does not say (JSON), so a copied folder
keeps it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from lakestream.errors import StatementError, StorageError, did_you_mean
from lakestream.language.model import ColumnName
from lakestream.storage.columns.times import kept_time, read_time
from lakestream.storage.columns.types import spark_type_of, type_within

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from deltalake import Field

    from lakestream.storage.columns.times import ReadTime
    from lakestream.storage.tables.table import Table

PROPERTY = "lakestream.table"
Kind = Literal["table", "stable", "output", "quarantine"]
_DESCRIPTION_VERSION = 1


@dataclass(frozen=True)
class Column:
    """A column: its Spark SQL type, and whether it is a tag or the second part of a composite key."""

    name: str
    type: str
    comment: str | None = None
    is_tag: bool = False
    composite_key: bool = False


@dataclass(frozen=True)
class TableInfo:
    """A table of the lake.

    ``columns`` are in the table's order: time, measures, and for a super table ``tbname`` and its tags.
    ``time_column`` is the event time, ``key`` what INSERT upserts by; empty for none. ``hidden`` names
    the columns of an output that hold its windows' provenance; ``writer`` is the id of the stream that
    writes it.
    """

    database: str
    name: str
    path: str
    kind: Kind
    columns: tuple[Column, ...]
    time_column: str
    key: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    external: bool = False
    writer: str | None = None
    read_time: ReadTime | None = None
    """How the event time is read where it is something else than a timestamp; no statement writes there."""
    catalog_name: str | None = None
    """The name in a catalog of Spark's by which the table was found, in full."""
    comment: str | None = None

    @property
    def full_name(self) -> str:
        """The name with its database."""
        return f"{self.database}.{self.name}"

    def type_at(self, path: Sequence[str]) -> str | None:
        """Return the Spark SQL type of a column, or of a field in a struct; None where there is none."""
        kind = next((column.type for column in self.columns if column.name == path[0]), None)
        return None if kind is None else type_within(kind, path[1:])

    @property
    def tags(self) -> tuple[Column, ...]:
        """The tag columns, in order."""
        return tuple(column for column in self.columns if column.is_tag)

    def column(self, name: str) -> Column:
        """Return a column; StatementError COLUMN_NOT_FOUND with the closest names, where the name stands."""
        for column in self.columns:
            if column.name == name:
                return column
        known = [column.name for column in self.columns if column.name not in self.hidden]
        raise StatementError(
            "COLUMN_NOT_FOUND",
            f"{self.database}.{self.name} has no column {name}",
            hint=did_you_mean(name, known),
            place=name.place if isinstance(name, ColumnName) else None,
        )


@dataclass(frozen=True)
class External:
    """A Delta table outside the lake under a name here.

    ``said`` is as its schema has it, its event time the first timestamp column as it is; ``known`` is the
    table that the name stands for already.
    """

    said: TableInfo
    known: TableInfo | None = None


def refuse_other_time(known: TableInfo, said: TableInfo) -> None:
    """Raise TABLE_EXISTS where a table that is there has another event time, or unit of it, than is said."""
    if (known.time_column, known.read_time) == (said.time_column, said.read_time):
        return
    raise StatementError(
        "TABLE_EXISTS",
        f"the event time of {known.database}.{known.name} is {_time_text(known)}, not {_time_text(said)}",
        hint="leave TIMESTAMP BY out, or drop it first: DROP TABLE leaves the table as it is",
    )


def _time_text(info: TableInfo) -> str:
    time, name = info.read_time, info.time_column or "none"
    if time is not None and time.expression:
        return f"{time.written} AS {name}"
    return f"{name}{f' in {time.unit.lower()}' if time is not None and time.unit else ''}"


def check_columns(columns: Sequence[Column]) -> None:
    """Raise StatementError DUPLICATE_COLUMN or BAD_NAME for columns that no table may have."""
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise StatementError("DUPLICATE_COLUMN", f"the column {column.name} is there twice")
        if column.name.lower() in {"_change_type", "_commit_version", "_commit_timestamp"}:
            raise StatementError("BAD_NAME", f"{column.name} is a column of Delta's change feed")
        seen.add(column.name.lower())


def description(info: TableInfo) -> str:
    """Return what a table's property says: JSON."""
    return json.dumps(
        {
            "version": _DESCRIPTION_VERSION,
            "kind": info.kind,
            "time": info.time_column,
            "key": info.key,
            "tags": [column.name for column in info.columns if column.is_tag],
            "composite": [column.name for column in info.columns if column.composite_key],
            "hidden": info.hidden,
            "writer": info.writer,
            **_kept_by(info.read_time),
            **({"catalog_name": info.catalog_name} if info.catalog_name else {}),
        }
    )


def _kept_by(time: ReadTime | None) -> dict[str, Any]:
    if time is None:
        return {}
    unit = {"unit": time.unit} if time.unit else {}
    return {**unit, "by": time.kept()} if time.parts else unit


def with_time_column(info: TableInfo, column: str, zone: str, unit: str | None) -> TableInfo:
    """Return a table whose event time is a column, empty for none; ``unit`` is what one of integers counts.

    Dates and times without a zone are in ``zone``. Raises StatementError COLUMN_NOT_FOUND, TIME_COLUMN_TYPE.
    """
    if not column:
        return info
    time = read_time(column, info.column(column).type, zone, unit)
    return replace(info, time_column=column) if time is None else with_read_time(info, time)


def with_read_time(info: TableInfo, time: ReadTime) -> TableInfo:
    """Return a table with an event time that is made of its columns, a timestamp to all who read it.

    It takes the place of the column that it alone is made of where that has its name, else it comes before
    all others. Raises StatementError DUPLICATE_COLUMN where another column has its name.
    """
    columns = info.columns
    if all(part.path == (time.column,) for part in time.parts):
        columns = tuple(
            replace(column, type="timestamp") if column.name == time.column else column for column in columns
        )
    else:
        _refuse_taken(info, time.column)
        columns = (Column(time.column, "timestamp"), *columns)
    return replace(info, columns=columns, time_column=time.column, read_time=time)


def _refuse_taken(info: TableInfo, name: str) -> None:
    taken = next((column.name for column in info.columns if column.name.lower() == name.lower()), None)
    if taken is not None:
        raise StatementError(
            "DUPLICATE_COLUMN",
            f"{info.database}.{info.name} has a column {taken} beside its event time of that name",
            hint="TIMESTAMP BY … AS another_name",
        )


def with_kept_time(info: TableInfo, zone: str, kept: Mapping[str, Any]) -> TableInfo:
    """Return a table with the time it was attached by; without one where its owner changed what makes it."""
    try:
        if "by" not in kept:
            return with_time_column(info, info.time_column, zone, kept.get("unit"))
        time = kept_time(info.time_column, zone, kept.get("unit"), kept["by"])
        if all(info.type_at(part.path) == part.type for part in time.parts):
            return with_read_time(info, time)
    except StatementError:
        pass
    return replace(info, time_column="")


def described(database: str, name: str, handle: Table, text: str | None, *, external: bool) -> TableInfo:
    """Read a table's description together with its schema, which has the last word on columns."""
    fields = handle.fields
    data = json.loads(text) if text else _defaultdescription(fields)
    following = data.get("following")
    if following and {*following["hidden"]} <= {field.name for field in fields}:
        data = following
    if data["version"] > _DESCRIPTION_VERSION:
        raise StorageError("TABLE_TOO_NEW", f"{database}.{name} was made by a newer lakestream")
    columns = tuple(_column(field, data) for field in fields)
    return TableInfo(
        database=database,
        name=name,
        path=handle.path,
        kind=data["kind"],
        columns=columns,
        time_column=data["time"],
        key=tuple(data["key"]),
        hidden=tuple(data["hidden"]),
        external=external,
        writer=data["writer"],
        catalog_name=data.get("catalog_name"),
        comment=handle.handle.metadata().description or None,
    )


def _defaultdescription(fields: Sequence[Field]) -> dict[str, Any]:
    """Describe a table that lakestream did not make: its first timestamp is the event time."""
    times = [field.name for field in fields if spark_type_of(field) in {"timestamp", "timestamp_ntz"}]
    empty: dict[str, Any] = {"key": [], "tags": [], "composite": [], "hidden": [], "writer": None}
    return {"version": _DESCRIPTION_VERSION, "kind": "table", "time": times[0] if times else "", **empty}


def _column(field: Field, data: Mapping[str, Any]) -> Column:
    return Column(
        name=field.name,
        type=spark_type_of(field),
        comment=(field.metadata or {}).get("comment") or None,
        is_tag=field.name in data["tags"],
        composite_key=field.name in data["composite"],
    )
