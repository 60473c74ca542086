"""Readers of the statements about streams, above all CREATE STREAM."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakestream.errors import StatementError, did_you_mean
from lakestream.language.checks import StreamFacts, check_stream
from lakestream.language.model import (
    CreateStream,
    DropStream,
    ExplainStream,
    Fragment,
    GroupKey,
    RecalculateStream,
    StartStream,
    StopStream,
    StreamDefinition,
    TableName,
    TagDefinition,
    VerifyStream,
)
from lakestream.language.options import Options, read_options
from lakestream.language.tables import type_name
from lakestream.language.triggers import ReadTrigger, read_trigger
from lakestream.language.words import Kind

if TYPE_CHECKING:
    from lakestream.errors import NotSupportedError
    from lakestream.language.reader import Reader
    from lakestream.language.words import Word

_CLASSIC = ("TRIGGER", "WATERMARK", "IGNORE", "DELETE_MARK", "FILL_HISTORY", "INTO", "SUBTABLE", "AS")
_CLAUSES = ("FROM", "PARTITION BY", "STREAM_OPTIONS", "NOTIFY", "INTO", "OUTPUT_SUBTABLE", "TAGS", "AS")
_EVENTS = ("WINDOW_OPEN", "WINDOW_CLOSE", "ON_TIME")
_NOTIFY_OPTIONS = ("NOTIFY_HISTORY", "ON_FAILURE_PAUSE")


@dataclass
class _Draft:
    """What has been read of a CREATE STREAM so far; ``words`` holds the first word of each clause."""

    trigger: ReadTrigger
    source: TableName | None = None
    partition_by: tuple[GroupKey, ...] = ()
    options: Options = field(default_factory=Options)
    output: TableName | None = None
    subtable: Fragment | None = None
    columns: tuple[str, ...] = ()
    composite_key: bool = False
    tags: tuple[TagDefinition, ...] | None = None
    calculation: Fragment | None = None
    notify_where: Fragment | None = None
    words: dict[str, Word] = field(default_factory=dict)
    unbuilt: list[NotSupportedError] = field(default_factory=list)


def create_stream(reader: Reader) -> CreateStream:
    """Read what follows ``CREATE STREAM``.

    Rules of the documentation come before "not supported", so that a wrong statement is told what is
    wrong with it. Raises StatementError and NotSupportedError.
    """
    if_not_exists = reader.if_not_exists()
    name = reader.table_name("a stream's name")
    if reader.peek().kind is Kind.WORD and reader.peek().text.upper() in _CLASSIC:
        raise reader.unsupported(
            "CREATE STREAM without a trigger before FROM (the classic syntax)",
            hint="CREATE STREAM s INTERVAL(…) SLIDING(…) FROM t INTO o AS SELECT …",
        )
    draft = _Draft(read_trigger(reader))
    _read_clauses(reader, draft)
    definition = _definition(reader, name, draft)
    return CreateStream(definition, if_not_exists)


# --- clauses -------------------------------------------------------------------------------------


def _read_clauses(reader: Reader, draft: _Draft) -> None:
    while not reader.done:
        clause = _next_clause(reader)
        word = reader.peek()
        if clause in draft.words:
            raise reader.error("CLAUSE_TWICE", f"{clause} is given twice")
        draft.words[clause] = word
        _READERS[clause](reader, draft)


def _next_clause(reader: Reader) -> str:
    if reader.sees("PARTITION", "BY"):
        return "PARTITION BY"
    if reader.sees_symbol("("):
        return "columns"
    for clause in _CLAUSES:
        if reader.sees(clause):
            return clause
    if reader.sees("TRUE_FOR"):
        raise reader.error("TRUE_FOR", "TRUE_FOR goes with STATE_WINDOW and EVENT_WINDOW, directly behind it")
    raise reader.unexpected("a clause of CREATE STREAM", _CLAUSES)


def _from(reader: Reader, draft: _Draft) -> None:
    reader.expect("FROM")
    if reader.sees_symbol("(") or reader.peek().kind is Kind.PLACEHOLDER:
        raise reader.error(
            "TRIGGER_TABLE", "the trigger table is a table by name", hint="not a query, not a view"
        )
    draft.source = reader.table_name("the trigger table")
    database = (draft.source.database or "").lower()
    if database in ("information_schema", "performance_schema"):
        raise reader.error(
            "TRIGGER_TABLE", "a system table cannot trigger a stream", word=draft.words["FROM"]
        )


def _partition_by(reader: Reader, draft: _Draft) -> None:
    reader.expect("PARTITION", "BY")
    keys: list[GroupKey] = []
    taken: set[str] = set()
    while not keys or reader.accept_symbol(","):
        word = reader.peek()
        keys.append(_group_key(reader))
        reader.refuse_duplicate(keys[-1].name, taken, word)
    draft.partition_by = tuple(keys)


def _group_key(reader: Reader) -> GroupKey:
    first = reader.peek()
    begin = reader.at
    expression = reader.until(lambda: _ends_key(reader), "a column of PARTITION BY")
    words = reader.words[begin : reader.at]
    alias = reader.column_name("an alias") if _has_alias(reader) and reader.accept("AS") else None
    plain = _plain_column(words)
    if plain is not None and plain.lower() == "tbname":
        return GroupKey(expression, alias or "tag_tbname", is_tbname=True)
    if alias is None and plain is None:
        raise reader.error(
            "ALIAS_MISSING",
            "an expression in PARTITION BY needs an alias, which becomes the tag's name",
            word=first,
            hint=f"PARTITION BY {expression.sql} AS name",
        )
    return GroupKey(expression, alias or plain or "")


def _plain_column(words: list[Word]) -> str | None:
    """Return the name when the words are ``column`` or ``table.column``."""
    names = words[0], words[-1]
    shape = len(words) == 1 or (len(words) == 3 and words[1].is_symbol("."))
    return words[-1].text if shape and all(w.kind in (Kind.WORD, Kind.NAME) for w in names) else None


def _ends_key(reader: Reader) -> bool:
    return reader.sees_symbol(",") or reader.sees("AS") or any(reader.sees(clause) for clause in _CLAUSES)


def _has_alias(reader: Reader) -> bool:
    """Tell an alias's AS from the AS of the calculation."""
    following = reader.peek(1)
    query = following.is_symbol("(") or any(following.is_word(w) for w in ("SELECT", "WITH", "VALUES"))
    return reader.sees("AS") and not query


def _stream_options(reader: Reader, draft: _Draft) -> None:
    reader.expect("STREAM_OPTIONS")
    draft.options = read_options(reader, draft.trigger)
    draft.unbuilt += draft.options.unbuilt


def _notify(reader: Reader, draft: _Draft) -> None:
    draft.unbuilt.append(reader.unsupported("NOTIFY"))
    reader.expect("NOTIFY")
    reader.list_of(lambda: reader.string("a url in quotes"))
    if reader.accept("ON"):
        reader.expect_symbol("(")
        _bars(reader, _EVENTS, "an event")
        reader.expect_symbol(")")
    elif draft.trigger.is_window:
        raise reader.error(
            "NOTIFY_EVENTS",
            f"NOTIFY of {draft.trigger.name} must name its events",
            word=draft.words["NOTIFY"],
            hint="NOTIFY(…) ON (WINDOW_OPEN | WINDOW_CLOSE)",
        )
    if reader.accept("WHERE"):
        draft.notify_where = reader.until(lambda: _ends_notify(reader), "a condition")
    if reader.accept("NOTIFY_OPTIONS"):
        reader.expect_symbol("(")
        _bars(reader, _NOTIFY_OPTIONS, "an option of NOTIFY")
        reader.expect_symbol(")")


def _ends_notify(reader: Reader) -> bool:
    return reader.sees("NOTIFY_OPTIONS") or any(reader.sees(clause) for clause in _CLAUSES)


def _bars(reader: Reader, known: tuple[str, ...], what: str) -> None:
    """Take names joined by ``|`` (or commas and in quotes, as older examples have them)."""
    while True:
        word = reader.take()
        if word.text.upper() not in known:
            hint = did_you_mean(word.text, known)
            raise reader.error(
                "UNKNOWN_EVENT", f"{word.text or 'nothing'} is not {what}", word=word, hint=hint
            )
        if not (reader.accept_symbol("|") or reader.accept_symbol(",")):
            return


def _into(reader: Reader, draft: _Draft) -> None:
    reader.expect("INTO")
    draft.output = reader.table_name("the output table")


def _subtable(reader: Reader, draft: _Draft) -> None:
    reader.expect("OUTPUT_SUBTABLE")
    draft.subtable = reader.in_brackets("the name of the output subtable")


def _output_columns(reader: Reader, draft: _Draft) -> None:
    if draft.output is None:
        raise reader.error("INTO_MISSING", "output columns need INTO table before them")
    names: list[str] = []
    taken: set[str] = set()

    def one() -> None:
        word = reader.peek()
        name = reader.column_name("an output column")
        reader.refuse_duplicate(name, taken, word)
        if name.lower() == "tbname":
            raise reader.error("BAD_NAME", "tbname is the name of the output subtable", word=word)
        names.append(name)
        if reader.accept("COMPOSITE", "KEY") or reader.accept("PRIMARY", "KEY"):
            if len(names) != 2:
                raise reader.error("COMPOSITE_KEY", "only the second column may be COMPOSITE KEY", word=word)
            draft.composite_key = True

    reader.list_of(one)
    draft.columns = tuple(names)


def _tags(reader: Reader, draft: _Draft) -> None:
    reader.expect("TAGS")
    tags: list[TagDefinition] = []
    taken: set[str] = set()

    def one() -> None:
        word = reader.peek()
        name = reader.column_name("a tag's name")
        reader.refuse_duplicate(name, taken, word)
        kind = type_name(reader)
        comment = reader.string("a comment") if reader.accept("COMMENT") else None
        reader.expect("AS")
        ends = reader.until(lambda: reader.sees_symbol(",") or reader.sees_symbol(")"), "an expression")
        tags.append(TagDefinition(name, kind, comment, ends))

    reader.list_of(one)
    draft.tags = tuple(tags)


def _calculation(reader: Reader, draft: _Draft) -> None:
    reader.expect("AS")
    draft.calculation = reader.rest("a query")


_READERS = {
    "FROM": _from,
    "PARTITION BY": _partition_by,
    "STREAM_OPTIONS": _stream_options,
    "NOTIFY": _notify,
    "INTO": _into,
    "OUTPUT_SUBTABLE": _subtable,
    "columns": _output_columns,
    "TAGS": _tags,
    "AS": _calculation,
}


# --- the whole -----------------------------------------------------------------------------------


def _definition(reader: Reader, name: TableName, draft: _Draft) -> StreamDefinition:
    _check_clauses(reader, draft)
    facts = StreamFacts(
        trigger=draft.trigger.name,
        output=draft.output,
        partition_by=draft.partition_by,
        columns=draft.columns,
        tags=draft.tags or (),
        subtable=draft.subtable,
        calculation=draft.calculation,
        pre_filter=draft.options.values.pre_filter,
        notify_where=draft.notify_where,
        fires_at_open=draft.options.fires_at_open,
    )
    check_stream(facts)
    unbuilt = draft.trigger.unbuilt + draft.unbuilt
    if unbuilt:
        raise min(unbuilt, key=lambda e: (e.place.line, e.place.column) if e.place else (0, 0))
    if draft.output is None or draft.calculation is None:
        missing = "INTO" if draft.output is None else "AS"
        raise _missing(reader, missing)
    if draft.trigger.value is None or draft.source is None:  # only kinds that are not built lack them
        raise reader.unsupported(draft.trigger.name, word=draft.trigger.word)
    first, last = reader.words[0], reader.words[-1]
    return StreamDefinition(
        name=name,
        trigger=draft.trigger.value,
        source=draft.source,
        partition_by=draft.partition_by,
        options=replace(draft.options.values),
        output=draft.output,
        subtable=draft.subtable,
        columns=draft.columns,
        composite_key=draft.composite_key,
        tags=draft.tags,
        calculation=draft.calculation,
        text=reader.source.text[first.start : last.end],
    )


def _missing(reader: Reader, clause: str) -> StatementError:
    what = {"INTO": "INTO with the output table is missing", "AS": "AS with the query is missing"}[clause]
    return reader.error(f"{clause}_MISSING", what, hint="… INTO table AS SELECT …")


def _check_clauses(reader: Reader, draft: _Draft) -> None:
    if draft.source is None and draft.trigger.name != "PERIOD":
        raise reader.error(
            "TRIGGER_TABLE",
            f"FROM with the trigger table is missing: {draft.trigger.name} needs one",
            word=draft.words.get("INTO") or draft.words.get("AS"),
            hint=f"{draft.trigger.name}(…) FROM table",
        )
    for clause in ("OUTPUT_SUBTABLE", "TAGS"):
        if clause in draft.words and not draft.partition_by:
            raise reader.error(
                f"{clause}_WITHOUT_GROUPS",
                f"{clause} needs groups",
                word=draft.words[clause],
                hint="add PARTITION BY, for example PARTITION BY tbname",
            )
    _check_output(reader, draft)


def _check_output(reader: Reader, draft: _Draft) -> None:
    if draft.output is None:
        return
    if draft.source is not None and _same(draft.output, draft.source):
        raise reader.error(
            "OUTPUT_IS_SOURCE",
            f"INTO {draft.output}: the output cannot be the trigger table",
            word=draft.words["INTO"],
        )
    tags = [t.name for t in draft.tags] if draft.tags is not None else [k.name for k in draft.partition_by]
    taken = {column.lower() for column in draft.columns}
    for tag in tags:
        if tag.lower() in taken:
            raise reader.error(
                "DUPLICATE_COLUMN",
                f"{tag} is both an output column and a tag",
                word=draft.words.get("columns"),
                hint="rename the column, or the tag with TAGS (…)",
            )


def _same(one: TableName, other: TableName) -> bool:
    # Without a database both stand in the current one; other mixtures are for the lake to compare.
    return str(one).lower() == str(other).lower()


# --- other statements ----------------------------------------------------------------------------


def drop_stream(reader: Reader) -> DropStream:
    """Read what follows ``DROP STREAM``."""
    if_exists = reader.if_exists()
    name = reader.table_name("a stream's name")
    if reader.sees_symbol(","):
        raise reader.unsupported("dropping several streams in one statement", hint="one DROP STREAM for each")
    return DropStream(name, if_exists)


def start_stream(reader: Reader) -> StartStream:
    """Read what follows ``START STREAM``; IGNORE UNTREATED may stand on either side of IF EXISTS."""
    ignore = reader.accept("IGNORE", "UNTREATED")
    if_exists = reader.if_exists()
    ignore = reader.accept("IGNORE", "UNTREATED") or ignore
    return StartStream(reader.table_name("a stream's name"), if_exists, ignore)


def stop_stream(reader: Reader) -> StopStream:
    """Read what follows ``STOP STREAM``."""
    if_exists = reader.if_exists()
    return StopStream(reader.table_name("a stream's name"), if_exists)


def recalculate_stream(reader: Reader) -> RecalculateStream:
    """Read what follows ``RECALCULATE STREAM``; RESYNC is lakestream's own."""
    name = reader.table_name("a stream's name")
    if reader.accept("RESYNC"):
        return RecalculateStream(name)
    if not reader.accept("FROM"):
        raise reader.unexpected("FROM or RESYNC", ("FROM", "RESYNC"))
    start = reader.instant("the start")
    return RecalculateStream(name, start, reader.instant("the end") if reader.accept("TO") else None)


def verify_stream(reader: Reader) -> VerifyStream:
    """Read what follows ``VERIFY STREAM``."""
    name = reader.table_name("a stream's name")
    if not reader.accept("FROM"):
        return VerifyStream(name)
    start = reader.instant("the start")
    reader.expect("TO")
    return VerifyStream(name, start, reader.instant("the end"))


def explain_stream(reader: Reader) -> ExplainStream:
    """Read what follows ``EXPLAIN STREAM``."""
    return ExplainStream(reader.table_name("a stream's name"))
