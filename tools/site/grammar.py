"""Reads ``statements.ebnf``: the rules of statements as values, for diagrams and for sentences."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from collections.abc import Iterator

STATEMENTS = Path(__file__).with_name("statements.ebnf")
_TOKEN = re.compile(r'\(\*.*?\*\)|\s+|("[^"]*"|[\w-]+|[][(){}|=;])', re.DOTALL)


@dataclass(frozen=True)
class Word:
    """What stands as it is."""

    text: str


@dataclass(frozen=True)
class Name:
    """Another rule, or a place that something is put into."""

    text: str


@dataclass(frozen=True)
class Sequence:
    """One after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    """One or the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Optional:
    """It may be left out."""

    part: Node


@dataclass(frozen=True)
class Repeated:
    """It comes any number of times."""

    part: Node


Node = Union[Word, Name, Sequence, Choice, Optional, Repeated]  # noqa: UP007 - its parts are named above it


def rules() -> dict[str, Node]:
    """Return the rules by their names."""
    tokens = [found for found in _TOKEN.findall(STATEMENTS.read_text(encoding="utf-8")) if found]
    found = {}
    while tokens:
        name, is_rule = tokens.pop(0), tokens.pop(0)
        assert is_rule == "=", name
        found[name] = _choice(tokens)
        assert tokens.pop(0) == ";", name
    return found


def _choice(tokens: list[str]) -> Node:
    parts = [_sequence(tokens)]
    while tokens[0] == "|":
        tokens.pop(0)
        parts.append(_sequence(tokens))
    return parts[0] if len(parts) == 1 else Choice(tuple(parts))


def _sequence(tokens: list[str]) -> Node:
    parts = []
    while tokens[0] not in ("|", ")", "]", "}", ";"):
        parts.append(_one(tokens))
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts))


def _one(tokens: list[str]) -> Node:
    begin = tokens.pop(0)
    if begin not in ("(", "[", "{"):
        return Word(begin[1:-1]) if begin.startswith('"') else Name(begin)
    inner = _choice(tokens)
    tokens.pop(0)
    if begin == "[":
        return Optional(inner)
    return Repeated(inner) if begin == "{" else inner


def sentences(node: Node, known: dict[str, Node], places: dict[str, str]) -> Iterator[str]:
    """Yield sentences that take each way through a rule at least once; ``places`` says what stands in places.

    One that is shortest comes first; of the parts of a sequence one at a time takes its other ways.
    """
    if isinstance(node, Word):
        yield node.text
    elif isinstance(node, Name):
        yield from sentences(known[node.text], known, places) if node.text in known else [places[node.text]]
    elif isinstance(node, Choice):
        for part in node.parts:
            yield from sentences(part, known, places)
    elif isinstance(node, Sequence):
        ways = [[*sentences(part, known, places)] for part in node.parts]
        yield " ".join(way[0] for way in ways)
        for place, way in enumerate(ways):
            for other in way[1:]:
                yield " ".join(other if number == place else one[0] for number, one in enumerate(ways))
    else:
        yield ""
        yield from sentences(node.part, known, places)
