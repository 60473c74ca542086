"""Reader of EXPECT, in every syntax: before INTO it is about rows of the source, behind it about results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.errors import did_you_mean
from lakestream.language.model import DROP, FAIL, QUARANTINE, WARN, Expectation
from lakestream.language.reading.identifiers import take_column_name
from lakestream.language.reading.words import Kind

if TYPE_CHECKING:
    from lakestream.language.reading.reader import Reader
    from lakestream.language.tdengine.draft import Draft

_ACTIONS = (WARN, DROP, FAIL, QUARANTINE)


def sees_expectation(reader: Reader) -> bool:
    """Return whether an expectation follows, and no column of that name."""
    named = reader.peek(1).kind in (Kind.WORD, Kind.NAME)
    return reader.sees("EXPECT") and named and reader.peek(2).is_word("CHECK")


def read_expectation(reader: Reader, draft: Draft) -> None:
    """Take ``EXPECT name CHECK (condition) [ON VIOLATION action]``."""
    draft.words.setdefault("EXPECT", reader.peek())
    reader.expect("EXPECT")
    word = reader.peek()
    name = take_column_name(reader, "the name of an expectation")
    if name.lower() in {known.name.lower() for known in draft.expectations}:
        raise reader.error(
            "DUPLICATE_EXPECTATION",
            f"there are two expectations called {name}",
            word=word,
            hint="counts go by the name: give each expectation one of its own",
        )
    reader.expect("CHECK")
    condition = reader.in_brackets("a condition")
    action = _action(reader) if reader.accept("ON") else WARN
    draft.expectations.append(Expectation(name, condition, action, "INTO" in draft.words))


def _action(reader: Reader) -> str:
    reader.expect("VIOLATION")
    word = reader.peek()
    action = word.text.upper()
    if word.kind is not Kind.WORD or action not in _ACTIONS:
        hint = did_you_mean(word.text, _ACTIONS)
        raise reader.error(
            "UNKNOWN_ACTION",
            f"ON VIOLATION takes no {word.text or 'empty action'}",
            word=word,
            hint=hint or f"ON VIOLATION {' | '.join(_ACTIONS)}",
        )
    reader.take()
    return action
