"""From a script to statements: splitting at semicolons, and the first words of each statement."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lakestream.errors import StatementError
from lakestream.language import streams
from lakestream.language.common.source import Source
from lakestream.language.ekuiper.statements import window_called
from lakestream.language.expressions.checks import check_query
from lakestream.language.iotdb.heads import is_iotdb
from lakestream.language.model import ExplainQuery, Query
from lakestream.language.reading.reader import Reader
from lakestream.language.reading.words import Kind, Word, read_words, split_words
from lakestream.language.tdengine import tables, views
from lakestream.language.tdengine.foreign import foreign_query, foreign_statement

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.language.iotdb.values import TreeStatement
    from lakestream.language.model import Statement

_STATEMENTS: dict[tuple[str, ...], Callable[[Reader], Statement]] = {
    ("CREATE", "DATABASE"): tables.create_database,
    ("CREATE", "TABLE"): lambda reader: tables.create_table(reader, stable=False),
    ("CREATE", "STABLE"): lambda reader: tables.create_table(reader, stable=True),
    ("CREATE", "STREAM"): streams.create_stream,
    ("CREATE", "OR", "REPLACE", "STREAM"): lambda reader: streams.create_stream(reader, or_replace=True),
    ("CREATE", "MATERIALIZED", "VIEW"): views.create_view,
    ("CREATE", "OR", "REPLACE", "MATERIALIZED", "VIEW"): lambda reader: views.create_view(
        reader, or_replace=True
    ),
    ("REFRESH", "MATERIALIZED", "VIEW"): views.refresh_view,
    ("DROP", "MATERIALIZED", "VIEW"): views.drop_view,
    ("EXPLAIN", "MATERIALIZED", "VIEW"): streams.explain_stream,
    ("DESCRIBE", "MATERIALIZED", "VIEW"): tables.describe,
    ("DESC", "MATERIALIZED", "VIEW"): tables.describe,
    ("DROP", "DATABASE"): tables.drop_database,
    ("DROP", "TABLE"): tables.drop_table,
    ("DROP", "STABLE"): tables.drop_table,
    ("DROP", "STREAM"): streams.drop_stream,
    ("ALTER", "TABLE"): tables.alter_table,
    ("ALTER", "STABLE"): tables.alter_table,
    ("COMMENT", "ON"): tables.comment_on,
    ("START", "STREAM"): streams.start_stream,
    ("STOP", "STREAM"): streams.stop_stream,
    ("FLUSH", "STREAM"): streams.flush_stream,
    ("PAUSE", "STREAM"): streams.stop_stream,
    ("RESUME", "STREAM"): streams.start_stream,
    ("RECALCULATE", "STREAM"): streams.recalculate_stream,
    ("VERIFY", "STREAM"): streams.verify_stream,
    ("EXPLAIN", "STREAM"): streams.explain_stream,
    ("INSERT", "INTO"): tables.insert,
    ("DELETE", "FROM"): tables.delete,
    ("UPDATE",): tables.update,
    ("DESCRIBE",): tables.describe,
    ("DESC",): tables.describe,
    ("SHOW",): tables.show,
    ("KILL", "QUERY"): tables.kill_query,
    ("USE",): tables.use,
}
_QUERIES = ("SELECT", "WITH", "VALUES")
_FIRST_WORDS = sorted({words[0] for words in _STATEMENTS} | set(_QUERIES))


_TREE = re.compile(r"\broot\s*\.", re.IGNORECASE)
_UNREAD = ("SYNTAX", "BAD_CHARACTER", "BAD_NUMBER", "FORBIDDEN")


def parse_script(text: str, *, dialect: str, file: str | None = None) -> list[Statement | TreeStatement]:
    """Return the statements of a script; see :func:`lakestream.language.parse_script`.

    One that can only be IoTDB's is read as such; where that cannot be told, an error says how to.
    """
    source = Source(text, file=file)
    try:
        return [
            _statement(Reader(source, words, dialect), number)
            for number, words in enumerate(split_words(read_words(source)))
        ]
    except StatementError as error:
        if dialect != "iotdb" and error.code in _UNREAD and _TREE.search(text):
            error.hint = "; ".join(filter(None, (error.hint, "IoTDB's paths are read with --dialect iotdb")))
        raise


_RULE = (
    "its SELECT stands as it is behind CREATE STREAM name WITH (TIMESTAMP = 'column') INTO table AS: "
    "`lakestream docs ekuiper`"
)


def _refuse_rules(reader: Reader) -> None:
    """Refuse what is a rule in eKuiper: a stream here."""
    if reader.sees("CREATE", "RULE"):
        raise reader.unsupported("CREATE RULE", hint=_RULE)
    window = window_called(reader) if reader.sees("SELECT") else None
    if window is not None:
        raise reader.unsupported(f"{window.text} in a query outside of a stream", word=window, hint=_RULE)


def _statement(reader: Reader, number: int) -> Statement | TreeStatement:
    if is_iotdb(reader):
        from lakestream.language.iotdb.statements import read_one

        return read_one(reader.source, number)
    begins = reader.peek(2) if reader.peek(1).is_symbol("(") else reader.peek(1)
    is_explained = reader.sees("EXPLAIN") and _begins_query(begins)
    if is_explained:
        reader.take()
    _refuse_rules(reader)
    if error := foreign_query(reader):
        raise error
    if is_explained or _begins_query(reader.peek()):
        query = check_query(reader.rest("a query"))
        return ExplainQuery(query) if is_explained else Query(query)
    if error := foreign_statement(reader):
        raise error
    for words, read in _STATEMENTS.items():
        if reader.accept(*words):
            statement = read(reader)
            reader.expect_end()
            return statement
    raise _unknown(reader)


def _begins_query(word: Word) -> bool:
    """Return whether a query, or its bracket, begins with a word."""
    return word.is_symbol("(") or any(word.is_word(one) for one in _QUERIES)


def _unknown(reader: Reader) -> StatementError:
    """Return what might stand where a statement begins to be none."""
    known: list[tuple[str, ...]] = [*_STATEMENTS]
    taken: list[str] = []
    while reader.peek().kind is Kind.WORD:
        begun = [*taken, reader.peek().text.upper()]
        further = [words for words in known if [*words[: len(begun)]] == begun]
        if not further:
            break
        known, taken = further, begun
        reader.take()
    if not taken:
        return reader.unexpected("a statement", _FIRST_WORDS)
    following = list(dict.fromkeys(words[len(taken)] for words in known if len(words) > len(taken)))
    return reader.unexpected(" or ".join(following), following)
