"""What two definitions of a stream say differently, clause by clause."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from lakestream.covered import redacted_text
from lakestream.language.common.source import Source
from lakestream.language.model import Duration, Expectation, Fill, Fragment, TableName
from lakestream.language.reading.words import Kind, Word, read_words

if TYPE_CHECKING:
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
}


def differences(before: StreamDefinition, after: StreamDefinition) -> list[tuple[str, str, str]]:
    """Return (clause, what it said, what it says) for each clause that differs.

    Blanks and comments do not count.
    """
    found = []
    for name, clause in _CLAUSES.items():
        texts = _said(getattr(before, name)), _said(getattr(after, name))
        if texts[0] != texts[1]:
            found.append((clause, redacted_text(texts[0]), redacted_text(texts[1])))
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
