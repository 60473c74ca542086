"""Names, paths, durations and points in time, taken from a reader of the IoTDB dialect."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lakestream.errors import StatementError
from lakestream.language.common.source import Source
from lakestream.language.iotdb.paths import (
    ANY_NODE,
    ANY_NODES,
    FOREIGN,
    PLACEHOLDER,
    ROOT,
    Path,
    has_placeholder,
    name_of,
    node_of,
)
from lakestream.language.iotdb.values import Instant, Span
from lakestream.language.model import Now
from lakestream.language.reading.reader import Reader
from lakestream.language.reading.words import Kind, read_words

if TYPE_CHECKING:
    from lakestream.language.reading.words import Word

NODE_CHARACTERS = "@#$:"
"""What the name of a node may hold besides letters, digits and ``_``."""

WORD_CHARACTERS = re.compile(f"[{NODE_CHARACTERS}{FOREIGN}]")
"""What a word of a statement may hold besides letters, digits and ``_``."""

_NODE_SYMBOLS = f"*{NODE_CHARACTERS}{{}}"
_PART = re.compile(r"(\d{1,18})(ns|us|ms|mo|[smhdwy])", re.IGNORECASE)
_DURATION = re.compile(rf"(?:{_PART.pattern})+", re.IGNORECASE)
_MOMENT = re.compile(
    r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?))?"
    r"([Zz]|[+-]\d{2}:\d{2})?"
)
_NANOS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
    "w": 604_800_000_000_000,
}
_MONTHS = {"mo": 1, "y": 12}
_MAX_YEARS = 1_000


# --- paths ----------------------------------------------------------------------------------------


def read_node(reader: Reader, what: str, *, wildcards: bool = False, placeholders: bool = False) -> str:
    """Take one node of a path: a quoted name, or letters, digits and ``_:@#$`` without a blank between.

    Raises StatementError SERIES_PATH for what is no node, and for wildcards and placeholders that may not
    stand here.
    """
    first = reader.peek()
    if first.kind is Kind.NAME:
        return node_of(reader.take().text)
    words = [reader.take()] if _is_part(first) else []
    while words and _is_part(reader.peek()) and reader.peek().start == words[-1].end:
        words.append(reader.take())
    if not words:
        raise reader.unexpected(what)
    return _checked(reader, first, "".join(word.text for word in words), wildcards, placeholders)


def is_before_star(word: Word) -> bool:
    """Return whether a word may be a part of a node, and is no star."""
    return _is_part(word) and not word.is_symbol("*")


def _is_part(word: Word) -> bool:
    if word.kind is Kind.SYMBOL:
        return word.text in _NODE_SYMBOLS
    return word.kind in (Kind.WORD, Kind.NUMBER)


def _checked(reader: Reader, first: Word, node: str, wildcards: bool, placeholders: bool) -> str:
    if node.isdigit() or "." in node:
        hint = f"a node of digits stands in back-ticks: `{node}`"
        raise reader.error("SERIES_PATH", f"{node} is no node of a path", word=first, hint=hint)
    if ANY_NODE in node:
        if not wildcards:
            raise reader.error("SERIES_PATH", f"{node}: no wildcard may stand here", word=first)
        if ANY_NODES in node and node != ANY_NODES:
            hint = "** is a node of its own"
            raise reader.error("SERIES_PATH", f"{node} is no node of a path", word=first, hint=hint)
    if has_placeholder(node) and not placeholders:
        raise reader.error("SERIES_PATH", f"{node}: placeholders belong to INTO", word=first)
    if set("{}") & set(PLACEHOLDER.sub("", node)):
        hint = "${1} is node 1 of the source"
        raise reader.error("SERIES_PATH", f"{node} is no placeholder", word=first, hint=hint)
    return node


def read_path(
    reader: Reader, what: str, *, wildcards: bool = False, placeholders: bool = False, least: int = 2
) -> Path:
    """Take a path of at least so many nodes that begins with ``root``. Raises StatementError SERIES_PATH."""
    first = reader.peek()
    nodes = [read_node(reader, what, wildcards=wildcards, placeholders=placeholders)]
    while reader.accept_symbol("."):
        nodes.append(read_node(reader, "a node", wildcards=wildcards, placeholders=placeholders))
    own_device = placeholders and nodes == ["::"]
    if not own_device and (nodes[0] != ROOT or len(nodes) < least):
        hint = "paths begin with root, such as root.ln.d1"
        raise reader.error("SERIES_PATH", f"{'.'.join(nodes)} is no path of the tree", word=first, hint=hint)
    return Path(tuple(nodes))


def device_path(text: str) -> Path:
    """Return a device as Python names it. Raises StatementError SERIES_PATH or SYNTAX."""
    source = Source(text)
    reader = Reader(source, read_words(source, WORD_CHARACTERS))
    path = read_path(reader, "a device such as root.ln.d")
    reader.expect_end()
    return path


def measurement_node(text: str) -> str:
    """Return a measurement as Python names it, as it is or as paths write it, as a node.

    >>> measurement_node("a b"), measurement_node("`a b`"), measurement_node("s1")
    ('`a b`', '`a b`', 's1')
    """
    return node_of(name_of(text))


def written_device(text: str) -> Path | None:
    """Return the device that a text is, written as the tree writes it; None for any other text.

    >>> written_device("root.ln.7"), str(written_device("root.ln.`7`"))
    (None, 'root.ln.`7`')
    """
    nodes = text.split(".")
    if len(nodes) < 2 or nodes[0] != ROOT:
        return None
    if all(node_of(node) == node and not has_placeholder(node) for node in nodes):
        return Path(tuple(nodes))
    try:
        path = device_path(text)
    except StatementError:
        return None
    return path if str(path) == text else None


# --- durations and instants -------------------------------------------------------------------------


def read_span(reader: Reader, clause: str) -> Span:
    """Take a duration such as ``1h30m``. Raises StatementError BAD_DURATION naming the clause."""
    word = reader.peek()
    if word.is_symbol("-") or word.is_symbol("+"):
        raise reader.error("BAD_DURATION", f"{clause} takes a duration without a sign")
    if word.kind is not Kind.NUMBER:
        raise reader.unexpected(f"a duration such as 10s in {clause}")
    span = span_of(word.text)
    if span is None:
        hint = "a whole number and a unit: ns, us, ms, s, m, h, d, w, mo, y; such as 1h30m"
        raise reader.error("BAD_DURATION", f"{clause}: {word.text} is no duration", hint=hint)
    reader.take()
    return span


def span_of(text: str) -> Span | None:
    """Return a duration as written, None when it is none: of whole microseconds, up to 1,000 years.

    >>> span_of("1h30m").micros
    5400000000
    """
    if not _DURATION.fullmatch(text):
        return None
    months = nanos = 0
    for number, unit in _PART.findall(text):
        months += int(number) * _MONTHS.get(unit.lower(), 0)
        nanos += int(number) * _NANOS.get(unit.lower(), 0)
    if nanos % 1_000 or nanos > _MAX_YEARS * 366 * _NANOS["d"] or months > _MAX_YEARS * 12:
        return None
    return Span(months, nanos // 1_000, text)


def read_instant(reader: Reader, what: str) -> Instant | Now:
    """Take milliseconds since 1970 UTC, a time (quoted or not), or ``now() ± duration``.

    Raises StatementError SYNTAX or BAD_TIMESTAMP.
    """
    word = reader.peek()
    if reader.accept("NOW"):
        reader.expect_symbol("(")
        reader.expect_symbol(")")
        return Now(_shift(reader))
    if word.kind is Kind.STRING:
        moment = moment_of(word.text)
        if moment is None:
            hint = "such as 2025-01-01T00:00:00.000+00:00"
            raise reader.error("BAD_TIMESTAMP", f"{what} is no time", hint=hint)
        reader.take()
        return moment[0]
    if word.kind is not Kind.NUMBER and not word.is_symbol("-"):
        raise reader.unexpected(f"{what}: milliseconds since 1970, a time, or now()")
    written = written_moment(reader)
    if written is not None:
        return written
    sign = -1 if reader.accept_symbol("-") else 1
    number = reader.peek()
    if number.kind is not Kind.NUMBER or not number.text.isdigit() or len(number.text) > 18:
        raise reader.unexpected(f"{what}: milliseconds since 1970, a time, or now()")
    return sign * int(reader.take().text)


def _shift(reader: Reader) -> int:
    micros = 0
    while reader.sees_symbol("+") or reader.sees_symbol("-"):
        sign = 1 if reader.take().text == "+" else -1
        word = reader.peek()
        span = read_span(reader, "now()")
        if span.months:
            raise reader.error("BAD_DURATION", "now() takes no months or years", word=word)
        micros += sign * span.micros
    return micros


def written_moment(reader: Reader) -> str | None:
    """Take a time that stands without quotes, when one follows; as ISO text."""
    found = moment_of(reader.source.text, reader.peek().start)
    if found is None:
        return None
    text, end = found
    while not reader.done and reader.peek().start < end:
        reader.take()
    return text


def moment_of(text: str, start: int | None = None) -> tuple[str, int] | None:
    """Return a time in ISO form with its end: the whole text, or what stands at an offset of it."""
    found = _MOMENT.fullmatch(text.strip()) if start is None else _MOMENT.match(text, start)
    if found is None:
        return None
    year, _, month, day, clock, zone = found.groups()
    iso = f"{year}-{int(month):02}-{int(day):02}T{clock or '00:00:00'}{(zone or '').upper()}"
    return iso, found.end()
