"""Readers of the statements about streams, above all CREATE STREAM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.language.common.source import Source
from lakestream.language.ekuiper.statements import is_ekuiper, read_ekuiper, window_called
from lakestream.language.expressions.shown import trigger_text
from lakestream.language.model import (
    CreateStream,
    DropStream,
    ExplainStream,
    FlushStream,
    RecalculateStream,
    StartStream,
    StopStream,
    VerifyStream,
)
from lakestream.language.reading.identifiers import take_table_name
from lakestream.language.reading.literals import take_instant
from lakestream.language.reading.reader import Reader
from lakestream.language.reading.words import read_words
from lakestream.language.tdengine.classic import CLASSIC_WORDS, read_classic
from lakestream.language.tdengine.clauses import read_clauses
from lakestream.language.tdengine.draft import Draft, definition
from lakestream.language.tdengine.triggers import read_trigger

if TYPE_CHECKING:
    from lakestream.language.model import StreamDefinition


def create_stream(reader: Reader, *, or_replace: bool = False) -> CreateStream:
    """Read what follows ``CREATE [OR REPLACE] STREAM``: the trigger first, the classic syntax, or eKuiper's.

    Rules of the documentation come before "not supported", so that a wrong statement is told what is
    wrong with it. Raises StatementError and NotSupportedError.
    """
    if_not_exists = not or_replace and reader.if_not_exists()
    name = take_table_name(reader, "a stream's name")
    if is_ekuiper(reader):
        draft = read_ekuiper(reader, name)
    elif any(map(reader.sees, CLASSIC_WORDS)):
        draft = read_classic(reader)
    else:
        draft = Draft(read_trigger(reader))
        read_clauses(reader, draft)
    return CreateStream(definition(reader, name, draft), if_not_exists, or_replace)


def trigger_of(definition: StreamDefinition) -> str:
    """Return what triggers a stream as one line, in the words of the dialect it was written in."""
    source = Source(definition.text)
    reader = Reader(source, read_words(source))
    if (called := window_called(reader)) is None:
        return trigger_text(definition.trigger)
    reader.at = reader.words.index(called) + 1
    return f"{called.text.upper()}({' '.join(reader.in_brackets('a window').sql.split())})"


# --- other statements ----------------------------------------------------------------------------


def drop_stream(reader: Reader) -> DropStream:
    """Read what follows ``DROP STREAM``."""
    if_exists = reader.if_exists()
    names = [take_table_name(reader, "a stream's name")]
    while reader.accept_symbol(","):
        names.append(take_table_name(reader, "a stream's name"))
    return DropStream(tuple(names), if_exists)


def start_stream(reader: Reader) -> StartStream:
    """Read what follows ``START STREAM``; IGNORE UNTREATED may stand on either side of IF EXISTS."""
    ignore = reader.accept("IGNORE", "UNTREATED")
    if_exists = reader.if_exists()
    ignore = reader.accept("IGNORE", "UNTREATED") or ignore
    return StartStream(take_table_name(reader, "a stream's name"), if_exists, ignore)


def stop_stream(reader: Reader) -> StopStream:
    """Read what follows ``STOP STREAM``."""
    if_exists = reader.if_exists()
    return StopStream(take_table_name(reader, "a stream's name"), if_exists)


def flush_stream(reader: Reader) -> FlushStream:
    """Read what follows ``FLUSH STREAM``, which is lakestream's own."""
    return FlushStream(take_table_name(reader, "a stream's name"))


_RANGES = "FROM 'begin' [TO 'end'], of event time; or RESYNC: everything from the source as it is"


def recalculate_stream(reader: Reader) -> RecalculateStream:
    """Read what follows ``RECALCULATE STREAM``; RESYNC is lakestream's own."""
    name = take_table_name(reader, "a stream's name")
    if reader.accept("RESYNC"):
        return RecalculateStream(name)
    if not reader.accept("FROM"):
        error = reader.unexpected("FROM or RESYNC", ("FROM", "RESYNC"))
        error.hint = error.hint or _RANGES
        raise error
    start = take_instant(reader, "the start")
    return RecalculateStream(name, start, take_instant(reader, "the end") if reader.accept("TO") else None)


def verify_stream(reader: Reader) -> VerifyStream:
    """Read what follows ``VERIFY STREAM``."""
    name = take_table_name(reader, "a stream's name")
    if not reader.accept("FROM"):
        return VerifyStream(name)
    start = take_instant(reader, "the start")
    reader.expect("TO")
    return VerifyStream(name, start, take_instant(reader, "the end"))


def explain_stream(reader: Reader) -> ExplainStream:
    """Read what follows ``EXPLAIN STREAM``."""
    return ExplainStream(take_table_name(reader, "a stream's name"))
