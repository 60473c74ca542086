"""Readers of the clauses of CREATE STREAM; each takes one clause into a draft."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakestream.language.model import LAYOUT_CLAUSES, Fragment, GroupKey, TagDefinition
from lakestream.language.names import stored_name
from lakestream.language.reading.identifiers import (
    refuse_duplicate,
    take_catalog_name,
    take_column_name,
    take_distinct_names,
    take_table_name,
)
from lakestream.language.reading.literals import take_string
from lakestream.language.reading.words import Kind
from lakestream.language.tdengine.expectations import read_expectation, sees_expectation
from lakestream.language.tdengine.notification import read_notify
from lakestream.language.tdengine.options import read_options
from lakestream.language.tdengine.tables import read_location, type_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.language.reading.reader import Reader
    from lakestream.language.reading.words import Word
    from lakestream.language.tdengine.draft import Draft

_CLAUSES = (
    *("FROM", "PARTITION BY", "STREAM_OPTIONS", "EXPECT", "NOTIFY"),
    *("INTO", *LAYOUT_CLAUSES, "OUTPUT_SUBTABLE", "TAGS", "AS"),
)


def read_clauses(reader: Reader, draft: Draft) -> None:
    """Take all clauses behind the trigger, in whatever order they stand."""
    while not reader.done:
        _read_clause(reader, draft, _next_clause(reader))


def _read_clause(reader: Reader, draft: Draft, clause: str) -> None:
    if clause in draft.words and clause != "EXPECT":
        raise reader.error("CLAUSE_TWICE", f"{clause} is given twice")
    draft.words.setdefault(clause, reader.peek())
    _READERS[clause](reader, draft)


def _next_clause(reader: Reader) -> str:
    if reader.sees_symbol("("):
        return "columns"
    for clause in _CLAUSES:
        if reader.sees(*clause.split()):
            return clause
    if reader.sees("TRUE_FOR"):
        raise reader.error("TRUE_FOR", "TRUE_FOR goes with STATE_WINDOW and EVENT_WINDOW, directly behind it")
    if reader.sees("EXTEND") or reader.sees("ZEROTH_STATE"):
        message = "EXTEND and ZEROTH_STATE go with STATE_WINDOW, in this order, before TRUE_FOR"
        raise reader.error("EXTEND", message)
    word = reader.peek().text.upper()
    if word in _FOREIGN:
        raise reader.unsupported(f"{word} of a stream", hint=_FOREIGN[word])
    raise reader.unexpected("a clause of CREATE STREAM", _CLAUSES)


_FOREIGN = {
    "ROLLUP": "a stream for each level: PARTITION BY substring_index(tag, '.', 1) AS area",
}
"""Clauses that TDengine has behind a trigger, and what stands in their place."""


def _from(reader: Reader, draft: Draft) -> None:
    reader.expect("FROM")
    if reader.sees_symbol("(") or reader.peek().kind is Kind.PLACEHOLDER:
        raise reader.error(
            "TRIGGER_TABLE", "the trigger table is a table by name", hint="not a query, not a view"
        )
    draft.source = take_table_name(reader, "the trigger table")
    database = (draft.source.database or "").lower()
    if database in ("information_schema", "performance_schema"):
        raise reader.error(
            "TRIGGER_TABLE", "a system table cannot trigger a stream", word=draft.words["FROM"]
        )


def _partition_by(reader: Reader, draft: Draft) -> None:
    reader.expect("PARTITION", "BY")
    read_group_keys(reader, draft, _group_key)


def read_group_keys(reader: Reader, draft: Draft, one: Callable[[Reader], GroupKey]) -> None:
    """Take the items of PARTITION BY, each by ``one``; no name twice."""
    keys: list[GroupKey] = []
    taken: set[str] = set()
    while not keys or reader.accept_symbol(","):
        word = reader.peek()
        keys.append(one(reader))
        refuse_duplicate(reader, keys[-1].name, taken, word)
    draft.partition_by = tuple(keys)


def _group_key(reader: Reader) -> GroupKey:
    first = reader.peek()
    begin = reader.at
    # A key has to stand here: a column may be called like a clause, as `location` often is.
    is_column = reader.sees("TAGS") or reader.sees("LOCATION")
    ends = lambda: _ends_key(reader) and not (is_column and reader.at == begin)  # noqa: E731
    expression = reader.until(ends, "a column of PARTITION BY")
    words = reader.words[begin : reader.at]
    alias = take_column_name(reader, "an alias") if _has_alias(reader) and reader.accept("AS") else None
    plain = _plain_column(words)
    if plain is not None and plain.lower() == "tbname":
        return GroupKey(expression, alias or "tag_tbname", is_tbname=True)
    if alias is None and plain is None:
        raise reader.misspelt(begin + 1) or reader.error(
            "ALIAS_MISSING",
            "an expression in PARTITION BY needs an alias, which becomes the tag's name",
            word=first,
            hint=f"PARTITION BY {expression.sql} AS name",
        )
    return GroupKey(expression, alias or stored_name(plain or ""))


def _plain_column(words: list[Word]) -> str | None:
    """Return the name when the words are ``column`` or ``table.column``."""
    names = words[0], words[-1]
    shape = len(words) == 1 or (len(words) == 3 and words[1].is_symbol("."))
    return words[-1].text if shape and all(w.kind in (Kind.WORD, Kind.NAME) for w in names) else None


def _ends_key(reader: Reader) -> bool:
    return (
        reader.sees_symbol(",")
        or reader.sees("AS")
        or sees_expectation(reader)
        or any(reader.sees(*clause.split()) for clause in _CLAUSES if clause != "EXPECT")
    )


def _has_alias(reader: Reader) -> bool:
    """Tell an alias's AS from the AS of the calculation."""
    following = reader.peek(1)
    query = following.is_symbol("(") or any(following.is_word(w) for w in ("SELECT", "WITH", "VALUES"))
    return reader.sees("AS") and not query


def _stream_options(reader: Reader, draft: Draft) -> None:
    reader.expect("STREAM_OPTIONS")
    draft.options = read_options(reader, draft.trigger)


def read_into(reader: Reader, draft: Draft) -> None:
    """Take ``INTO table``."""
    reader.expect("INTO")
    draft.output = take_table_name(reader, "the output table")


def read_layout(reader: Reader, draft: Draft) -> bool:
    """Take a clause of where and how the output lies, if one stands here; return whether one did."""
    for clause in LAYOUT_CLAUSES:
        if reader.sees(*clause.split()):
            _read_clause(reader, draft, clause)
            return True
    return False


def _laid_out(reader: Reader, draft: Draft) -> None:
    """Take ``PARTITIONED BY (column, …)`` or ``CLUSTER BY (column, …)``."""
    word = reader.take()
    reader.expect("BY")
    if draft.layout.named:
        raise reader.error(
            "PARTITIONED_AND_CLUSTERED", "a table is partitioned or clustered, not both (Delta)", word=word
        )
    line, column = reader.source.position(word.start)
    clause = Fragment(f"{word.text.upper()} BY", line, column, reader.source.text)
    names = take_distinct_names(reader, "a column of the output")
    layout = replace(draft.layout, clause=clause)
    is_clustered = word.is_word("CLUSTER")
    draft.layout = (
        replace(layout, clustered_by=names) if is_clustered else replace(layout, partitioned_by=names)
    )


def _location(reader: Reader, draft: Draft) -> None:
    _refuse_two_places(reader, draft)
    reader.expect("LOCATION")
    draft.layout = replace(draft.layout, location=read_location(reader))


def _cataloged(reader: Reader, draft: Draft) -> None:
    _refuse_two_places(reader, draft)
    reader.expect("USING", "TABLE")
    draft.layout = replace(draft.layout, catalog_name=take_catalog_name(reader))


def _refuse_two_places(reader: Reader, draft: Draft) -> None:
    if draft.layout.location or draft.layout.catalog_name:
        raise reader.unsupported(
            "LOCATION and USING TABLE of one output",
            hint=f"make it there, then CREATE TABLE {draft.output} USING TABLE …, and INTO {draft.output}",
        )


def _subtable(reader: Reader, draft: Draft) -> None:
    reader.expect("OUTPUT_SUBTABLE")
    draft.subtable = reader.in_brackets("the name of the output subtable")


def read_output_columns(reader: Reader, draft: Draft) -> None:
    """Take ``(column, column [COMPOSITE KEY], …)`` behind INTO."""
    if draft.output is None:
        raise reader.error("INTO_MISSING", "output columns need INTO table before them")
    names: list[str] = []
    taken: set[str] = set()

    def one() -> None:
        word = reader.peek()
        name = take_column_name(reader, "an output column")
        refuse_duplicate(reader, name, taken, word)
        if name.lower() == "tbname":
            raise reader.error("BAD_NAME", "tbname is the name of the output subtable", word=word)
        names.append(name)
        if reader.accept("COMPOSITE", "KEY") or reader.accept("PRIMARY", "KEY"):
            if len(names) != 2:
                raise reader.error("COMPOSITE_KEY", "only the second column may be COMPOSITE KEY", word=word)
            draft.composite_key = True

    reader.list_of(one)
    draft.columns = tuple(names)


def _tags(reader: Reader, draft: Draft) -> None:
    reader.expect("TAGS")
    tags: list[TagDefinition] = []
    taken: set[str] = set()

    def one() -> None:
        word = reader.peek()
        name = take_column_name(reader, "a tag's name")
        refuse_duplicate(reader, name, taken, word)
        kind = type_name(reader)
        comment = take_string(reader, "a comment") if reader.accept("COMMENT") else None
        reader.expect("AS")
        ends = reader.until(lambda: reader.sees_symbol(",") or reader.sees_symbol(")"), "an expression")
        tags.append(TagDefinition(name, kind, comment, ends))

    reader.list_of(one)
    draft.tags = tuple(tags)


def _calculation(reader: Reader, draft: Draft) -> None:
    reader.expect("AS")
    draft.calculation = reader.rest("a query")


_READERS = {
    "FROM": _from,
    "PARTITION BY": _partition_by,
    "STREAM_OPTIONS": _stream_options,
    "EXPECT": read_expectation,
    "NOTIFY": lambda reader, draft: read_notify(reader, draft, _CLAUSES),
    "INTO": read_into,
    "PARTITIONED BY": _laid_out,
    "CLUSTER BY": _laid_out,
    "LOCATION": _location,
    "USING TABLE": _cataloged,
    "OUTPUT_SUBTABLE": _subtable,
    "columns": read_output_columns,
    "TAGS": _tags,
    "AS": _calculation,
}
