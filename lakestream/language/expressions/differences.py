"""What two definitions of a stream say differently, clause by clause."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from lakestream.covered import redacted_text
from lakestream.language.common.source import Source
from lakestream.language.expressions.shown import trigger_text
from lakestream.language.model import (
    Duration,
    EventFunction,
    EventTrigger,
    Expectation,
    Fill,
    Fragment,
    GroupKey,
    StateTrigger,
    StreamOptions,
    TableName,
    TagDefinition,
    Trigger,
)
from lakestream.language.reading.words import Kind, Word, read_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakestream.language.model import StreamDefinition

LAYOUT = "PARTITIONED BY, CLUSTER BY, LOCATION or USING TABLE"

_ANY = re.compile(".", re.DOTALL)
"""What a word may hold: the text was read before, in its dialect."""

_OPERATORS = {*"<>=!|&:"}

_CLAUSES = {
    "trigger": "trigger",
    "source": "FROM",
    "partition_by": "PARTITION BY",
    "options": "STREAM_OPTIONS",
    "output": "INTO",
    "subtable": "OUTPUT_SUBTABLE",
    "columns": "columns",
    "composite_key": "COMPOSITE KEY",
    "layout": LAYOUT,
    "tags": "TAGS",
    "calculation": "AS",
    "notification": "NOTIFY",
    "expectations": "EXPECT",
    "functions": "functions of events",
}


def differences(before: StreamDefinition, after: StreamDefinition) -> list[tuple[str, str, str]]:
    """Return (clause, what it said, what it says) for each clause that differs.

    Blanks and comments do not count.
    """
    found = []
    for name, clause in _CLAUSES.items():
        parts = getattr(before, name), getattr(after, name)
        texts = _said(parts[0]), _said(parts[1])
        if texts[0] != texts[1]:
            shown = _shown(parts[0]), _shown(parts[1])
            one, other = texts if shown[0] == shown[1] else shown
            found.append((clause, redacted_text(one), redacted_text(other)))
    return found


def laid_out(text: str) -> str:
    """Return a text of a statement in one layout, without comments: texts that say the same are equal."""
    parts: list[str] = []
    before = None
    for word in read_words(Source(text), _ANY):
        if before is not None and not _adjoin(before, word):
            parts.append(" ")
        parts.append(text[word.start : word.end])
        before = word
    return "".join(parts)


def _adjoin(one: Word, other: Word) -> bool:
    """Return whether no blank is written between two words."""
    opens = other.is_symbol("(") and one.kind in (Kind.WORD, Kind.NAME)
    is_one = one.end == other.start and {one.text, other.text} <= _OPERATORS  # >= is two words
    return opens or is_one or one.text in ("(", ".") or other.text in (")", ",", ".", ";")


def _shown(value: object) -> str:
    """Return a part of a definition in the words of a statement; not all of it has a text of its own."""
    if isinstance(value, Trigger):
        least = value.true_for if isinstance(value, StateTrigger | EventTrigger) else None
        return " ".join(map(str, filter(None, (trigger_text(value), least))))
    if isinstance(value, StreamOptions):
        return " ".join(filter(None, _options(value)))
    if isinstance(value, GroupKey):
        text = laid_out(value.expression.sql)
        return text if value.is_tbname or value.name == text else f"{text} AS {value.name}"
    if isinstance(value, TagDefinition):
        kind = "" if value.type_name is None else f" {value.type_name}"
        return f"{value.name}{kind} AS {laid_out(value.expression.sql)}"
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    text = value.written if isinstance(value, EventFunction) else ""
    return laid_out(text) if text else "" if value is None else _said(value)


def _options(options: StreamOptions) -> Iterator[str]:
    """Yield what options say; those of the classic syntax stand in its query too."""
    if options.said is not None:
        yield laid_out(options.said.sql)
    if options.converts:
        yield f"WHERE {laid_out(options.pre_filter.sql)}" if options.pre_filter is not None else ""
        yield str(options.fill or "")


def _said(value: object) -> str:
    """Return a part of a definition as text, without its place in the statement."""
    if isinstance(value, Fragment):
        return laid_out(value.sql)
    if isinstance(value, Duration | Expectation | Fill | TableName):
        return str(value)
    if isinstance(value, tuple):
        return ", ".join(map(_said, value))
    if is_dataclass(value):
        own = {f.name: getattr(value, f.name) for f in fields(value) if f.compare}
        listed = [f"{name} {_said(part)}" for name, part in own.items() if part not in (None, False, ())]
        return f"{type(value).__name__.removesuffix('Trigger')}({', '.join(listed)})"
    return str(value)
