"""Tables and subtables of the files held against those of the lake: what can be added, and what differs."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from lakestream.errors import StatementError
from lakestream.language import model
from lakestream.language.quoting import quoted, quoted_path, quoted_text
from lakestream.statements.edits import columns_of
from lakestream.storage.names.subtables import Subtables
from lakestream.storage.writes.values import convert

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakestream.statements.workspace import Workspace
    from lakestream.storage.names.table_info import Column, TableInfo

_HINT = "DROP TABLE and apply again loses its rows; or give the new one another name"


def changes_of_table(statement: model.CreateTable, info: TableInfo) -> list[str]:
    """Return what ALTER TABLE is to do for a table of the lake to be as a statement says.

    Columns and tags that it lacks are added, and comments that the statement has are given. Raises
    StatementError TABLE_DIFFERS for all that cannot be added.
    """
    name = f"{info.database}.{info.name}"
    wanted = columns_of(statement)
    known = {column.name.lower(): column for column in info.columns}
    differing = [*_differing(statement, info)]
    for column in wanted:
        there = known.pop(column.name.lower(), None)
        if there is not None and _shape(there) != _shape(column):
            differing.append(f"{column.name} is {_said(there)} there and {_said(column)} in the file")
        if there is None and column.composite_key:
            differing.append(f"{column.name} is not part of its key there")
    differing += [f"it has {column.name}, which is not in the file" for column in known.values()]
    if differing:
        raise StatementError("TABLE_DIFFERS", f"{name} is another table: {'; '.join(differing)}", hint=_HINT)
    return [*_added(statement, info), *_commented(statement, info)]


def _added(statement: model.CreateTable, info: TableInfo) -> Iterator[str]:
    names = {column.name.lower() for column in info.columns}
    for word, columns in (("COLUMN", statement.columns), ("TAG", statement.tags)):
        for column in columns:
            if column.name.lower() not in names:
                comment = f" COMMENT {quoted_text(column.comment)}" if column.comment else ""
                yield f"ADD {word} {quoted(column.name)} {column.type_name}{comment}"


def _commented(statement: model.CreateTable, info: TableInfo) -> Iterator[str]:
    """Give the comments that a statement says and the table does not; one that it leaves out may be there."""
    if statement.comment and statement.comment != info.comment:
        yield f"COMMENT {quoted_text(statement.comment)}"
    there = {column.name.lower(): column for column in info.columns}
    for column in (*statement.columns, *statement.tags):
        known = there.get(column.name.lower())
        if known is not None and column.comment and column.comment != known.comment:
            yield f"ALTER COLUMN {quoted(known.name)} COMMENT {quoted_text(column.comment)}"


def _differing(statement: model.CreateTable, info: TableInfo) -> Iterator[str]:
    if info.external:
        yield f"it is the Delta table at {info.path}"
    if bool(statement.tags) != (info.kind == "stable"):
        yield "one of both has tags"
    if statement.keyed != bool(info.key):
        yield "one of both has no key"


def _shape(column: Column) -> tuple[str, bool, bool]:
    return column.type, column.is_tag, column.composite_key


def _said(column: Column) -> str:
    kinds = ["a tag"] * column.is_tag + ["part of the key"] * column.composite_key
    return " and ".join([column.type.upper(), *kinds])


def subtable_changes(
    statement: model.CreateSubtables, at: Workspace, database: str
) -> tuple[list[str], list[str]]:
    """Return the subtables of a statement that are not there, and ALTER TABLE for those with other tags.

    Raises StatementError TABLE_DIFFERS for one of another super table.
    """
    missing: list[str] = []
    changed: list[str] = []
    for spec in statement.subtables:
        name = spec.name.within(database)
        place = name.database or ""
        is_there = place in at.catalog.databases
        known = Subtables(at.catalog).find(place, name.name) if is_there else None
        if known is None:
            missing.append(str(name))
            continue
        if known.stable.lower() != spec.stable.name.lower():
            raise StatementError("TABLE_DIFFERS", f"{name} is a subtable of {known.stable}")
        stable = at.catalog.table(place, known.stable)
        names = spec.tag_names or tuple(tag.name for tag in stable.tags)
        sets = [
            f"{quoted(tag)} = {_literal(value)}"
            for tag, value in zip(names, spec.tag_values, strict=False)
            if not isinstance(value, model.Now) and _converted(at, stable, tag, value) != known.tags.get(tag)
        ]
        if sets:
            changed.append(f"ALTER TABLE {quoted_path(place, name.name)} SET TAG {', '.join(sets)}")
    return missing, changed


def _converted(at: Workspace, stable: TableInfo, tag: str, value: model.Value) -> object:
    return convert(value, stable.column(tag), now_us=0, zone=at.timezone)


def _literal(value: model.Value) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    return str(value) if isinstance(value, (int, float, Decimal)) else quoted_text(str(value))
