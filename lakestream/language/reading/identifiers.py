"""Names among a statement's words: of tables, databases, columns and tables in catalogs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.language.model import CatalogName, ColumnName, TableName
from lakestream.language.names import (
    check_catalog_name,
    check_column_name,
    check_database_name,
    check_name,
)
from lakestream.language.reading.words import Kind, Word

if TYPE_CHECKING:
    from lakestream.language.reading.reader import Reader

_CATALOG_PARTS = 3


def take_identifier(reader: Reader, what: str) -> tuple[str, Word]:
    """Take a name, quoted or not, unchecked."""
    word = reader.peek()
    if word.kind not in (Kind.WORD, Kind.NAME):
        hint = "strings stand in quotes, names in back-ticks" if word.kind is Kind.STRING else ""
        error = reader.unexpected(what)
        error.hint = error.hint or hint
        raise error
    return reader.take().text, word


def take_table_name(reader: Reader, what: str = "a table's name") -> TableName:
    """Take ``[database.]name``."""
    first, word = take_identifier(reader, what)
    line, column = reader.source.position(word.start)
    if not reader.accept_symbol("."):
        return TableName(None, check_name(first, reader.place(word)), line, column)
    check_database_name(first, reader.place(word))
    second, word = take_identifier(reader, what)
    if reader.sees_symbol("."):
        error = reader.unexpected("at most database.name")
        error.hint = "a name in a catalog stands behind USING TABLE, and gets one of the lake's"
        raise error
    return TableName(first, check_name(second, reader.place(word)), line, column)


def take_column_of_table(reader: Reader) -> tuple[TableName, str]:
    """Take ``[database.]table.column``."""
    database = None
    if reader.peek(3).is_symbol("."):
        database = take_database_name(reader)
        reader.expect_symbol(".")
    name, word = take_identifier(reader, "a table's name")
    table = TableName(database, check_name(name, reader.place(word)), *reader.source.position(word.start))
    reader.expect_symbol(".")
    return table, take_column_name(reader)


def take_catalog_name(reader: Reader) -> CatalogName:
    """Take ``[[catalog.]schema.]table``, a table's name in a catalog of Spark's."""
    first = reader.peek()
    parts = [take_identifier(reader, "a table's name in a catalog")]
    while reader.accept_symbol("."):
        if len(parts) == _CATALOG_PARTS:
            raise reader.unexpected("at most catalog.schema.table")
        parts.append(take_identifier(reader, "a name"))
    check_catalog_name([name for name, _ in parts], [reader.place(word) for _, word in parts])
    place = reader.source.place(first.start, parts[-1][1].end)
    return CatalogName(tuple(name for name, _ in parts), place)


def take_database_name(reader: Reader) -> str:
    """Take a database's name."""
    name, word = take_identifier(reader, "a database's name")
    return check_database_name(name, reader.place(word))


def take_column_name(reader: Reader, what: str = "a column's name") -> ColumnName:
    """Take the name of a column or tag, which knows where it stands."""
    name, word = take_identifier(reader, what)
    place = reader.place(word)
    return ColumnName(check_column_name(name, place), place)


def take_distinct_names(reader: Reader, what: str) -> tuple[str, ...]:
    """Take ``(name, …)``, no name twice."""
    taken: set[str] = set()

    def one() -> str:
        word = reader.peek()
        name = take_column_name(reader, what)
        refuse_duplicate(reader, name, taken, word)
        return name

    return tuple(reader.list_of(one))


def refuse_duplicate(reader: Reader, name: str, taken: set[str], word: Word) -> None:
    """Add a column's name to those taken; DUPLICATE_COLUMN when it is there in any case (as in Spark)."""
    if name.lower() in taken:
        raise reader.error("DUPLICATE_COLUMN", f"column {name} is given twice", word=word)
    taken.add(name.lower())
