"""Readers of the statements about databases, tables and rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakestream.errors import did_you_mean
from lakestream.language.common.time_formats import ISO8601, unclear
from lakestream.language.expressions.checks import check_expression, check_query, check_row_expression
from lakestream.language.model import (
    TIME_UNITS,
    AddColumn,
    ColumnDefinition,
    CreateDatabase,
    CreateSubtables,
    CreateTable,
    CreateTableAs,
    Delete,
    Describe,
    DescribeHistory,
    DropDatabase,
    DropTable,
    Insert,
    InsertQuery,
    InsertTarget,
    KillQuery,
    Location,
    SetComment,
    SetTag,
    ShowCreateStream,
    ShowDatabases,
    ShowProperties,
    ShowQueries,
    ShowSnodes,
    ShowStreams,
    ShowTables,
    SubtableSpec,
    TableName,
    TimeBy,
    Update,
    UseDatabase,
    Value,
)
from lakestream.language.reading.identifiers import (
    refuse_duplicate,
    take_catalog_name,
    take_column_name,
    take_column_of_table,
    take_database_name,
    take_distinct_names,
    take_identifier,
    take_table_name,
)
from lakestream.language.reading.literals import take_string, take_value
from lakestream.language.reading.words import Kind
from lakestream.language.tdengine.foreign import foreign_show, refuse_change, refuse_description, refuse_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.errors import StatementError
    from lakestream.language.model import Fragment, Statement
    from lakestream.language.reading.reader import Reader
    from lakestream.language.reading.words import Word

_PLAIN_TYPES = frozenset(
    {"TIMESTAMP", "BOOL", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE"}
    | {"STRING", "DATE"}
)
_SIZED_TYPES = frozenset({"VARCHAR", "NCHAR", "BINARY", "VARBINARY", "DECIMAL", "NUMERIC"})
_UNSIGNABLE = frozenset({"TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT"})
_UNBUILT_TYPES = frozenset(
    {"JSON", "JSONB", "GEOMETRY", "BLOB", "MEDIUMBLOB", "TIME", "UUID", "INTERVAL", "SERIAL", "BIGSERIAL"}
)
_STANDARD_TYPES = {
    "TEXT": "STRING",
    "REAL": "FLOAT",
    "FLOAT4": "FLOAT",
    "FLOAT8": "DOUBLE",
    "INT2": "SMALLINT",
    "INT4": "INT",
    "INT8": "BIGINT",
    "BYTEA": "VARBINARY",
}
"""Types by names that TDengine does not have, which tools write in CREATE TABLE."""
_MICROSECONDS = 6
_FLOAT_BITS = 24
"""The most digits of FLOAT(n) that are four bytes; more are a DOUBLE."""
_RETURNING_HINT = "leave it out, and SELECT what was written"
_OTHERS_HINTS = {
    "UPDATE": "INSERT the rows as they are to be: a row replaces the one of its key",
    "DELETE": "WHERE, with the table's own columns",
}
_LEAVE_OUT = "leave it out: files, copies and caches are the storage's affair"
_DATABASE_HINTS = {
    "KEEP": "DELETE takes old rows away, and VACUUM their files",
    "PRECISION": "leave it out: times are kept in microseconds, and whole numbers count milliseconds",
    "COMMENT": "leave it out: COMMENT ON TABLE and COMMENT ON COLUMN are there",
}
"""What stands in the place of options of CREATE DATABASE."""
_DROP_HINT = "leave it out: the table's files go with it"
_OPTION_HINTS = {
    "NOT": "EXPECT says what rows are to meet, such as CHECK (n IS NOT NULL)",
    "DEFAULT": "write the value in INSERT; what is left out is NULL",
}
_COLUMN_OPTIONS = ("ENCODE", "COMPRESS", "LEVEL", "NOT", "DEFAULT")
_TABLE_OPTIONS = ("TTL", "SMA", "KEEP", "VIRTUAL", "FILE", "ROLLUP", "MAX_DELAY", "WATERMARK")


# --- databases -----------------------------------------------------------------------------------


def create_database(reader: Reader) -> CreateDatabase:
    """Read what follows ``CREATE DATABASE``."""
    if_not_exists = reader.if_not_exists()
    name = take_database_name(reader)
    if reader.peek().kind is Kind.WORD:
        option = reader.peek().text.upper()
        raise reader.unsupported(
            f"the database option {option}", hint=_DATABASE_HINTS.get(option, _LEAVE_OUT)
        )
    return CreateDatabase(name, if_not_exists)


def drop_database(reader: Reader) -> DropDatabase:
    """Read what follows ``DROP DATABASE``."""
    if_exists = reader.if_exists()
    return DropDatabase(take_database_name(reader), if_exists, force=reader.accept("FORCE"))


def use(reader: Reader) -> UseDatabase:
    """Read what follows ``USE``; a database may be named as the word before a name is."""
    if (reader.sees("DATABASE") or reader.sees("SCHEMA")) and _names(reader.peek(1)):
        reader.take()
    return UseDatabase(take_database_name(reader))


# --- tables --------------------------------------------------------------------------------------


def type_name(reader: Reader) -> str:
    """Take a TDengine type, such as ``INT UNSIGNED`` or ``VARCHAR(16)``; upper case, without blanks."""
    word = reader.peek()
    if word.kind is not Kind.WORD:
        raise reader.unexpected("a type")
    other = _standard_type(reader)
    if other:
        return other
    base = reader.take().text.upper()
    if base in _UNBUILT_TYPES:
        raise reader.unsupported(f"the type {base}", word=word, hint="STRING, or a number")
    if base not in _PLAIN_TYPES | _SIZED_TYPES:
        hint = did_you_mean(base, _PLAIN_TYPES | _SIZED_TYPES)
        raise reader.error("UNKNOWN_TYPE", f"there is no type {word.text}", word=word, hint=hint)
    if base in _UNSIGNABLE and reader.accept("UNSIGNED"):
        return f"{base} UNSIGNED"
    if base in _SIZED_TYPES and reader.sees_symbol("("):
        return f"{base}({','.join(str(size) for size in reader.list_of(lambda: _size(reader)))})"
    return base


def _standard_type(reader: Reader) -> str:
    """Take a type by the name that standard SQL or PostgreSQL has for it; empty where none follows."""
    if reader.accept("DOUBLE", "PRECISION"):
        return "DOUBLE"
    if reader.accept("TIMESTAMPTZ") or (_is_timestamp(reader) and reader.accept("TIMESTAMP")):
        return _timestamp(reader)
    if reader.accept("CHARACTER", "VARYING") or reader.accept("CHARACTER") or reader.accept("CHAR"):
        return f"VARCHAR({_one_size(reader)})" if reader.sees_symbol("(") else "VARCHAR"
    if reader.sees("FLOAT") and reader.peek(1).is_symbol("("):
        reader.take()
        return "FLOAT" if _one_size(reader) <= _FLOAT_BITS else "DOUBLE"
    word = reader.peek()
    meant = _STANDARD_TYPES.get(word.text.upper(), "")
    if meant:
        reader.take()
    return meant


def _is_timestamp(reader: Reader) -> bool:
    return reader.sees("TIMESTAMP") and (reader.peek(1).is_symbol("(") or _has_zone(reader, 1))


def _has_zone(reader: Reader, ahead: int) -> bool:
    return any(reader.peek(ahead).is_word(word) for word in ("WITH", "WITHOUT"))


def _timestamp(reader: Reader) -> str:
    """Take what stands behind TIMESTAMP: with and without a zone it is an instant, in microseconds."""
    word = reader.peek()
    if reader.sees_symbol("(") and _one_size(reader) != _MICROSECONDS:
        hint = "leave the number out: times have microseconds"
        raise reader.unsupported("TIMESTAMP of other digits than 6", word=word, hint=hint)
    if _has_zone(reader, 0):
        reader.take()
        reader.expect("TIME", "ZONE")
    return "TIMESTAMP"


def _one_size(reader: Reader) -> int:
    reader.expect_symbol("(")
    size = _size(reader)
    reader.expect_symbol(")")
    return size


def _size(reader: Reader) -> int:
    word = reader.peek()
    if word.kind is not Kind.NUMBER or not word.text.isdigit() or len(word.text) > 9:
        raise reader.unexpected("a whole number")
    return int(reader.take().text)


def _column(reader: Reader) -> ColumnDefinition:
    if reader.sees("PRIMARY", "KEY"):
        hint = "the first column is the key, with the second one where COMPOSITE KEY stands behind it"
        raise reader.unsupported("PRIMARY KEY (…)", hint=hint)
    name = take_column_name(reader)
    if reader.sees_symbol("."):
        hint = "a column of its own, or a STRING of JSON"
        raise reader.unsupported("a column within another one", hint=hint)
    kind = type_name(reader)
    if reader.sees_symbol("["):
        raise reader.unsupported("a column of arrays", hint="a column for each value, or a STRING of JSON")
    composite = reader.accept("COMPOSITE", "KEY") or reader.accept("PRIMARY", "KEY")
    for option in _COLUMN_OPTIONS:
        if reader.sees(option):
            raise reader.unsupported(f"the column option {option}", hint=_OPTION_HINTS.get(option, ""))
    return ColumnDefinition(name, kind, _comment(reader), composite)


def _comment(reader: Reader) -> str | None:
    """Take ``[COMMENT 'text']``."""
    return take_string(reader, "a comment") if reader.accept("COMMENT") else None


def _columns(
    reader: Reader, taken: tuple[ColumnDefinition, ...] = (), *, keyed: bool = True
) -> tuple[ColumnDefinition, ...]:
    columns: list[ColumnDefinition] = []
    names = {column.name.lower() for column in taken}

    def one() -> None:
        word = reader.peek()
        column = _column(reader)
        refuse_duplicate(reader, column.name, names, word)
        if column.name.lower() == "tbname":
            raise reader.error(
                "BAD_NAME", "tbname is the name of the subtable, in every super table", word=word
            )
        if column.composite_key and (taken or len(columns) != 1):
            raise reader.error(
                "COMPOSITE_KEY", "only the second column may be COMPOSITE KEY, next to the time", word=word
            )
        columns.append(column)

    first = reader.peek(1)
    reader.list_of(one)
    if keyed and not taken and columns[0].type_name != "TIMESTAMP":
        raise _no_time_first(reader, columns, first)
    return tuple(columns)


def _no_time_first(reader: Reader, columns: Sequence[ColumnDefinition], word: Word) -> StatementError:
    """Return the error of columns whose first one is no time, with what to write where another one is."""
    times = [column.name for column in columns if column.type_name == "TIMESTAMP"]
    hint = f"put {' or '.join(times)} first (of pandas: make it the index)" if times else ""
    return reader.error(
        "FIRST_COLUMN_NOT_TIME",
        f"the first column, {columns[0].name}, must be a TIMESTAMP, by which rows are kept",
        word=word,
        hint=hint or "put a TIMESTAMP first: a row replaces the one of the same time",
    )


def create_table(reader: Reader, *, stable: bool) -> CreateTable | CreateTableAs | CreateSubtables:
    """Read what follows ``CREATE TABLE`` or ``CREATE STABLE``."""
    if_not_exists = reader.if_not_exists()
    name = take_table_name(reader)
    if _sees_catalog(reader) and not stable:
        reader.expect("USING", "TABLE")
        return _cataloged(reader, name, if_not_exists=if_not_exists)
    if reader.sees("USING", "DELTA") and reader.peek(2).is_word("AS"):
        refuse_table(reader)
    if reader.sees("USING") and not stable:
        return _subtables(reader, name, if_not_exists=if_not_exists)
    if reader.accept("LOCATION"):
        return _located(reader, name, if_not_exists=if_not_exists)
    if not stable:
        if _sees_query(reader):
            return _table_as(reader, name, if_not_exists=if_not_exists)
        refuse_table(reader)
    # eKuiper's tables are streams of events: no row replaces another one.
    keyed = stable or reader.dialect != "ekuiper"
    columns = _columns(reader, keyed=keyed)
    tags = _columns(reader, columns) if reader.accept("TAGS") else ()
    if stable and not tags:
        raise reader.unexpected("TAGS (a super table has tags)")
    comment = _comment(reader)
    for option in _TABLE_OPTIONS:
        if reader.sees(option):
            raise reader.unsupported(f"the table option {option}")
    refuse_table(reader)
    return CreateTable(name, columns, tags, if_not_exists, keyed=keyed or bool(tags), comment=comment)


def _sees_query(reader: Reader) -> bool:
    """Return whether ``[COMMENT 'text'] AS`` follows."""
    return reader.peek(2 if reader.sees("COMMENT") else 0).is_word("AS")


def _table_as(reader: Reader, name: TableName, *, if_not_exists: bool) -> CreateTableAs:
    comment = _comment(reader)
    reader.expect("AS")
    return CreateTableAs(name, check_query(reader.rest("a query")), if_not_exists, comment)


def read_location(reader: Reader) -> Location:
    """Take the location of a Delta table; raises StatementError BAD_LOCATION for an empty one."""
    word = reader.peek()
    location = take_string(reader, "the location of a Delta table in quotes")
    if not location.strip():
        raise reader.error("BAD_LOCATION", "the location is empty", word=word)
    return Location(location, reader.place(word))


def _located(reader: Reader, name: TableName, *, if_not_exists: bool) -> CreateTable:
    """Take what follows ``LOCATION``."""
    location = read_location(reader)
    return _timed(reader, CreateTable(name, (), (), if_not_exists, location))


def _cataloged(reader: Reader, name: TableName, *, if_not_exists: bool) -> CreateTable:
    """Take what follows ``USING TABLE``."""
    catalog_name = take_catalog_name(reader)
    return _timed(reader, CreateTable(name, (), (), if_not_exists, catalog_name=catalog_name))


def _timed(reader: Reader, statement: CreateTable) -> CreateTable:
    """Take ``[TIMESTAMP BY column [unit]]`` of a table that is there."""
    return replace(statement, time=_time_by(reader)) if reader.accept("TIMESTAMP", "BY") else statement


def _sees_catalog(reader: Reader) -> bool:
    """Tell whether ``USING TABLE name`` follows, and no super table that is called ``table``."""
    behind = reader.peek(2)
    is_super_table = (
        behind.is_symbol("(")
        or behind.is_symbol(".")
        or (behind.is_word("TAGS") and reader.peek(3).is_symbol("("))
    )
    return reader.sees("USING", "TABLE") and not is_super_table


def _time_by(reader: Reader) -> TimeBy:
    """Take what stands behind ``TIMESTAMP BY``."""
    first, word = reader.at, reader.peek()
    expression = _time_expression(reader) if reader.sees_symbol("(") else None
    path = _path(reader) if expression is None else ()
    unit = next((unit for unit in TIME_UNITS if reader.accept(unit)), None)
    form = _format(reader) if unit is None and reader.accept("FORMAT") else None
    if expression is not None and form is not None:
        raise reader.error(
            "SYNTAX", "FORMAT reads a column", word=word, hint="(to_timestamp(expression, 'yyyy-mm-dd'))"
        )
    written = reader.fragment(first, reader.at).sql
    name = take_column_name(reader) if reader.accept("AS") else None
    return TimeBy(path, expression, unit, form, name, written, reader.place(word))


def _path(reader: Reader) -> tuple[str, ...]:
    """Take a column's name, and those of fields that lead into a struct."""
    path = [take_identifier(reader, "a column's name, or an expression in brackets")[0]]
    while reader.accept_symbol("."):
        path.append(take_identifier(reader, "a field's name")[0])
    return tuple(path)


def _time_expression(reader: Reader) -> Fragment:
    if reader.dialect == "ekuiper":
        raise reader.unsupported(
            "TIMESTAMP BY (expression) in eKuiper's dialect", hint="write the statement in TDengine's"
        )
    return check_row_expression(reader.in_brackets("an expression"), "TIMESTAMP BY")


def _format(reader: Reader) -> str:
    """Take ``ISO8601``, or a format of TO_TIMESTAMP that names a date without doubt."""
    if reader.accept(ISO8601):
        return ISO8601
    word = reader.peek()
    form = take_string(reader, f"{ISO8601}, or a format such as 'yyyy-mm-dd hh24:mi:ss'")
    reason = unclear(form)
    if reason:
        raise reader.error("TIME_FORMAT", reason, word=word, hint=f"'yyyy-mm-dd hh24:mi:ss.ms', {ISO8601}")
    return form


def _using(reader: Reader, name: TableName) -> SubtableSpec:
    """Take ``USING stable [(tag, …)] TAGS (value, …)`` of a subtable."""
    reader.expect("USING")
    stable = take_table_name(reader, "a super table's name")
    names = take_distinct_names(reader, "a tag's name") if reader.sees_symbol("(") else ()
    reader.expect("TAGS")
    word = reader.peek()
    values = tuple(reader.list_of(lambda: take_value(reader)))
    if names and len(names) != len(values):
        raise reader.error(
            "VALUE_COUNT", f"{len(names)} tags are named, {len(values)} values given", word=word
        )
    return SubtableSpec(name, stable, names, values)


def _subtables(reader: Reader, name: TableName, *, if_not_exists: bool) -> CreateSubtables:
    specs = [_using(reader, name)]
    while not reader.done:
        # TDengine repeats IF NOT EXISTS before each name; it holds for all of them here.
        if_not_exists = reader.if_not_exists() or if_not_exists
        specs.append(_using(reader, take_table_name(reader, "a subtable's name")))
    return CreateSubtables(tuple(specs), if_not_exists)


def drop_table(reader: Reader) -> DropTable:
    """Read what follows ``DROP TABLE`` or ``DROP STABLE``."""
    if_exists = reader.if_exists()
    name = take_table_name(reader)
    if reader.sees_symbol(","):
        raise reader.unsupported("dropping several tables in one statement", hint="one DROP TABLE for each")
    for word in ("PURGE", "CASCADE", "RESTRICT"):
        if reader.sees(word):
            raise reader.unsupported(f"DROP TABLE … {word}", hint=_DROP_HINT)
    return DropTable(name, if_exists)


def alter_table(reader: Reader) -> AddColumn | SetComment | SetTag:
    """Read what follows ``ALTER TABLE`` or ``ALTER STABLE``."""
    table = take_table_name(reader)
    if reader.accept("COMMENT"):
        return SetComment(table, None, take_string(reader, "a comment"))
    if reader.accept("ALTER"):
        reader.accept("COLUMN")
        column = take_column_name(reader)
        if any(reader.sees(word) for word in ("TYPE", "SET", "DROP", "SYNC", "FIRST", "AFTER")):
            raise reader.unsupported(f"ALTER COLUMN … {reader.peek().text.upper()}")
        reader.expect("COMMENT")
        return SetComment(table, column, take_string(reader, "a comment"))
    if reader.accept("ADD"):
        is_tag = reader.accept("TAG")
        if not is_tag:
            refuse_change(reader, "ADD")
            if not _names_column(reader):
                reader.expect("COLUMN")
        return AddColumn(table, _added_column(reader), is_tag)
    if reader.accept("SET", "TAG"):
        return SetTag(table, _tag_values(reader))
    refuse_change(reader, "")
    raise reader.unexpected(
        "ADD COLUMN, ADD TAG, SET TAG, COMMENT or ALTER COLUMN", ("ADD", "SET", "COMMENT", "ALTER")
    )


def comment_on(reader: Reader) -> SetComment:
    """Read what follows ``COMMENT ON``."""
    if reader.accept("TABLE"):
        table, column = take_table_name(reader), None
    else:
        if any(reader.sees(word) for word in ("DATABASE", "SCHEMA", "CATALOG", "VIEW")):
            raise reader.unsupported(f"COMMENT ON {reader.peek().text.upper()}")
        reader.expect("COLUMN")
        table, column = take_column_of_table(reader)
    reader.expect("IS")
    text = "" if reader.accept("NULL") else take_string(reader, "a comment, or NULL")
    return SetComment(table, column, text)


def _names_column(reader: Reader) -> bool:
    """Return whether a column follows at once: a name, and its type, or what stands in another column."""
    behind = reader.peek(1)
    return (
        behind.is_symbol(".") or behind.text.upper() in _PLAIN_TYPES | _SIZED_TYPES | _STANDARD_TYPES.keys()
    )


def _added_column(reader: Reader) -> ColumnDefinition:
    word = reader.peek()
    column = _column(reader)
    if column.composite_key:
        raise reader.error("COMPOSITE_KEY", "a key is fixed when the table is made", word=word)
    return column


def _tag_values(reader: Reader) -> tuple[tuple[str, Value], ...]:
    tags: list[tuple[str, Value]] = []
    taken: set[str] = set()
    while True:
        word = reader.peek()
        name = take_column_name(reader, "a tag's name")
        refuse_duplicate(reader, name, taken, word)
        reader.expect_symbol("=")
        tags.append((name, take_value(reader)))
        if not reader.accept_symbol(","):
            return tuple(tags)


def _names(word: Word) -> bool:
    return word.kind in (Kind.WORD, Kind.NAME)


def _begins_rows(word: Word) -> bool:
    return any(word.is_word(one) for one in ("VALUES", "USING", "SELECT", "WITH", "FILE", "REPLACE"))


def describe(reader: Reader) -> Describe | DescribeHistory:
    """Read what follows ``DESCRIBE`` or ``DESC``; a table may be named as the words before a name are."""
    if reader.sees("HISTORY") and _names(reader.peek(1)):
        reader.take()
        table = take_table_name(reader)
        return DescribeHistory(table, _size(reader) if reader.accept("LIMIT") else None)
    while any(reader.sees(word) for word in ("TABLE", "EXTENDED", "FORMATTED")) and _names(reader.peek(1)):
        reader.take()
    refuse_description(reader)
    table = take_table_name(reader)
    reader.accept("EXTENDED")
    return Describe(table)


_SHOWN = ("DATABASES", "TABLES", "STABLES", "STREAMS", "QUERIES")


def show(reader: Reader) -> Statement:
    """Read what follows ``SHOW``."""
    database = None
    if reader.peek(1).is_symbol("."):
        database = take_database_name(reader)
        reader.expect_symbol(".")
    if database is None and (reader.accept("DATABASES") or reader.accept("SCHEMAS")):
        return ShowDatabases()
    for stables, word in ((False, "TABLES"), (True, "STABLES")):
        if reader.accept(word):
            return ShowTables(database, stables)
    if reader.accept("STREAMS"):
        like = take_string(reader, "a pattern in quotes") if reader.accept("LIKE") else None
        return ShowStreams(database, like)
    if database is None and (found := _show_other(reader)) is not None:
        return found
    if error := foreign_show(reader):
        raise error
    raise reader.unexpected("DATABASES, TABLES, STABLES, STREAMS or QUERIES", _SHOWN)


def _show_other(reader: Reader) -> Statement | None:
    """Read what SHOW lists that is of no database, None for another word."""
    if reader.accept("SNODES") or reader.accept("SNODE"):
        return ShowSnodes()
    if reader.accept("QUERIES"):
        return ShowQueries()
    if reader.accept("CREATE", "STREAM"):
        return ShowCreateStream(take_table_name(reader, "a stream's name"))
    if reader.accept("TBLPROPERTIES"):
        return ShowProperties(take_table_name(reader), _key(reader))
    return None


def _key(reader: Reader) -> str | None:
    """Take ``[('key')]``."""
    if not reader.sees_symbol("("):
        return None
    reader.expect_symbol("(")
    key = take_string(reader, "the name of a property in quotes")
    reader.expect_symbol(")")
    return key


def kill_query(reader: Reader) -> KillQuery:
    """Read what follows ``KILL QUERY``."""
    if reader.peek().kind is Kind.NUMBER:
        hint = "an id in quotes, as SHOW QUERIES lists it"
        raise reader.error("SYNTAX", "a query is known by a text, not by a number", hint=hint)
    return KillQuery(take_string(reader, "an id in quotes, as SHOW QUERIES lists it"))


# --- rows ----------------------------------------------------------------------------------------


def insert(reader: Reader) -> Insert | InsertQuery:
    """Read what follows ``INSERT INTO``."""
    if reader.sees("TABLE") and _names(reader.peek(1)) and not _begins_rows(reader.peek(1)):
        reader.take()
    table = take_table_name(reader)
    using = _using(reader, table) if reader.sees("USING") else None
    columns = take_distinct_names(reader, "a column's name") if reader.sees_symbol("(") else ()
    if using is None and (reader.sees("SELECT") or reader.sees("WITH")):
        return InsertQuery(table, columns, check_query(reader.rest("a query")))
    targets = [_target(reader, table, using, columns)]
    while not reader.done:
        _refuse_behind_rows(reader)
        reader.accept_symbol(",")
        targets.append(_target(reader, take_table_name(reader)))
    return Insert(tuple(targets))


def _target(
    reader: Reader, table: TableName, using: SubtableSpec | None = None, columns: tuple[str, ...] = ()
) -> InsertTarget:
    # The column list may stand before or behind USING.
    if using is None and reader.sees_symbol("("):
        columns = take_distinct_names(reader, "a column's name")
    if using is None and reader.sees("USING"):
        using = _using(reader, table)
    if not columns and reader.sees_symbol("("):
        columns = take_distinct_names(reader, "a column's name")
    if reader.sees("FILE"):
        raise reader.unsupported("INSERT … FILE")
    if reader.sees("REPLACE", "WHERE") or reader.sees("REPLACE", "USING"):
        raise reader.unsupported("INSERT … REPLACE", hint="DELETE FROM, then INSERT INTO")
    reader.expect("VALUES")
    return InsertTarget(table, using, columns, _rows(reader, len(columns)))


def _refuse_behind_rows(reader: Reader) -> None:
    """Refuse by name what PostgreSQL has behind the rows of an INSERT."""
    if reader.sees("ON", "CONFLICT") or reader.sees("ON", "DUPLICATE"):
        hint = "leave it out: a row replaces the one of its time, subtable and composite key"
        raise reader.unsupported(f"INSERT … ON {reader.peek(1).text.upper()}", hint=hint)
    # A table may have the name.
    if reader.sees("RETURNING") and not reader.peek(1).is_word("VALUES"):
        raise reader.unsupported("INSERT … RETURNING", hint=_RETURNING_HINT)


def _rows(reader: Reader, width: int) -> tuple[tuple[Value, ...], ...]:
    rows: list[tuple[Value, ...]] = []
    while not rows or reader.sees_symbol("(") or (reader.sees_symbol(",") and reader.peek(1).is_symbol("(")):
        reader.accept_symbol(",")
        word = reader.peek()
        row = tuple(reader.list_of(lambda: take_value(reader)))
        width = width or len(row)
        if len(row) != width:
            raise reader.error("VALUE_COUNT", f"the row has {len(row)} values, {width} are wanted", word=word)
        rows.append(row)
    return tuple(rows)


def update(reader: Reader) -> Update:
    """Read what follows ``UPDATE``."""
    table = take_table_name(reader)
    _refuse_others(reader, "UPDATE", "SET")
    reader.expect("SET")
    assignments: list[tuple[str, Fragment]] = []
    taken: set[str] = set()
    while True:
        word = reader.peek()
        name = take_column_name(reader)
        refuse_duplicate(reader, name, taken, word)
        reader.expect_symbol("=")
        value = reader.until(lambda: _ends_assignment(reader), "an expression")
        assignments.append((name, check_expression(value, "UPDATE … SET")))
        if not reader.accept_symbol(","):
            if _sees_from(reader):
                raise reader.unsupported("UPDATE … FROM", hint=_OTHERS_HINTS["UPDATE"])
            return Update(table, tuple(assignments), _where(reader, "UPDATE … WHERE"))


def _ends_assignment(reader: Reader) -> bool:
    return reader.sees_symbol(",") or reader.sees("WHERE") or _sees_returning(reader) or _sees_from(reader)


def _sees_from(reader: Reader) -> bool:
    """Return whether FROM follows, and none of ``IS DISTINCT FROM``."""
    return reader.sees("FROM") and not reader.peek(-1).is_word("DISTINCT")


def _refuse_others(reader: Reader, verb: str, *ends: str) -> None:
    """Refuse by name what others have behind the table whose rows are changed: a name, other tables."""
    word = reader.peek()
    if (
        word.is_symbol(",")
        or word.is_word("USING")
        or (word.is_word("JOIN") and reader.peek(1).kind is Kind.WORD)
    ):
        raise reader.unsupported(f"{verb} with other tables", hint=_OTHERS_HINTS[verb])
    is_name = word.kind in (Kind.WORD, Kind.NAME) and not any(map(word.is_word, ends))
    if is_name and not _sees_returning(reader):
        raise reader.unsupported(
            f"{verb} of a table by another name", hint="leave it out, and write columns without it"
        )


def delete(reader: Reader) -> Delete:
    """Read what follows ``DELETE FROM``."""
    table = take_table_name(reader)
    _refuse_others(reader, "DELETE", "WHERE", "LIMIT", "ORDER")
    return Delete(table, _where(reader, "DELETE … WHERE"))


def _where(reader: Reader, clause: str) -> Fragment | None:
    if not reader.accept("WHERE"):
        _refuse_returning(reader, clause)
        return None
    condition = reader.until(lambda: _sees_returning(reader), "a condition")
    _refuse_returning(reader, clause)
    return check_expression(condition, clause)


def _refuse_returning(reader: Reader, clause: str) -> None:
    if _sees_returning(reader):
        raise reader.unsupported(f"{clause.split(maxsplit=1)[0]} … RETURNING", hint=_RETURNING_HINT)


def _sees_returning(reader: Reader) -> bool:
    """Return whether RETURNING follows with what is to be returned; a column may have the name."""
    behind = reader.peek(1)
    return reader.sees("RETURNING") and (behind.kind in (Kind.WORD, Kind.NAME) or behind.is_symbol("*"))
