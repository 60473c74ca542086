"""``COPY … TO STDOUT``: the rows of a table or a query as lines of text or CSV."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pg_mimic.messages import _message as message
from pg_mimic.types import pack_int16

from lakestream.server.postgres.failing import refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_COPY = re.compile(
    r"copy\s++(?:\((?P<query>.+)\)|(?P<table>[^\s(]++)(?:\s*+\((?P<columns>[^)]*+)\))?)"
    r"\s++to\s++stdout\b\s*+(?P<options>.*)",
    re.IGNORECASE | re.DOTALL,
)
_OPTION = re.compile(
    r"(?P<flag>csv|header)\b(?:\s+(?P<said>true|false|on|off|[01])\b)?"
    r"|(?P<name>[a-z_]+)(?:\s+(?:as\s+)?(?:e?'(?P<text>(?:[^']|'')*)'|(?P<word>\w+)))?",
    re.IGNORECASE,
)
_IS_COPY = re.compile(r"copy\b", re.IGNORECASE)
_ESCAPES = {8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 92: "\\\\"}
_KNOWN = frozenset({"format", "header", "delimiter", "null"})
_OUT, _DATA, _DONE = b"H", b"d", b"c"


@dataclass(frozen=True)
class Copied:
    """A query whose rows are written as lines: CSV or text, with the columns' names first or not."""

    query: str
    is_csv: bool
    has_header: bool
    delimiter: str
    null: str

    def lines(self, names: Sequence[str], rows: Iterator[list[bytes | None]]) -> Iterator[bytes]:
        """Yield a line for each row, of values as texts (None: NULL)."""
        if self.has_header:
            yield self._line(list(names))
        for row in rows:
            yield self._line([None if value is None else value.decode() for value in row])

    def _line(self, values: list[str | None]) -> bytes:
        written = [self.null if value is None else self._value(value) for value in values]
        return (self.delimiter.join(written) + "\n").encode()

    def _value(self, value: str) -> str:
        if not self.is_csv:
            escaped = value.translate(_ESCAPES)
            return (
                escaped if self.delimiter == "\t" else escaped.replace(self.delimiter, "\\" + self.delimiter)
            )
        is_plain = value != self.null and not any(mark in value for mark in (self.delimiter, '"', "\n", "\r"))
        return value if is_plain else '"' + value.replace('"', '""') + '"'


def copy_statement(sql: str) -> Copied | None:
    """Return what a COPY writes, None for another statement. Raises PgError for a COPY that is not done."""
    if not _IS_COPY.match(sql):
        return None
    found = _COPY.fullmatch(sql.strip())
    if found is None:
        raise refusal(
            "0A000", "NOT_SUPPORTED: COPY writes TO STDOUT only", "INSERT, or a table of files (LOCATION)"
        )
    return _copied(found["query"] or _selected(found), _options(found["options"]))


def _selected(found: re.Match[str]) -> str:
    return f"SELECT {found['columns'] or '*'} FROM {found['table']}"  # noqa: S608 (the client's own statement)


def _options(said: str) -> dict[str, str]:
    """Return options by name, of both grammars: ``(FORMAT csv, HEADER)`` and ``WITH CSV HEADER``."""
    text = said.strip()
    text = text[4:].strip() if text.lower().startswith("with") else text
    options: dict[str, str] = {}
    for found in _OPTION.finditer(text.removeprefix("(").removesuffix(")")):
        name, text_of = (found["flag"] or found["name"]).lower(), found["text"]
        if name == "csv":
            options["format"] = "csv"
        elif text_of is not None:
            options[name] = text_of.replace("''", "'")
        else:
            options[name] = found["said"] or found["word"] or "true"
    return options


def _copied(query: str, options: Mapping[str, str]) -> Copied:
    unknown = sorted(options.keys() - _KNOWN)
    format_name = options.get("format", "text").lower()
    if unknown or format_name not in ("text", "csv"):
        said = unknown[0] if unknown else f"format {format_name}"
        raise refusal(
            "0A000", f"NOT_SUPPORTED: COPY with {said}", "known: FORMAT text or csv, HEADER, DELIMITER, NULL"
        )
    is_csv = format_name == "csv"
    delimiter = options.get("delimiter", "," if is_csv else "\t").replace("\\t", "\t")
    if len(delimiter) != 1:
        raise refusal("22023", "the delimiter of COPY is one character")
    has_header = options.get("header", "false").lower() in ("true", "on", "1")
    return Copied(query, is_csv, has_header, delimiter, options.get("null", "" if is_csv else "\\N"))


def begun(columns: int) -> bytes:
    """Return the message that lines of so many columns begin with."""
    formats = pack_int16(columns) + pack_int16(0) * columns
    return message(_OUT, b"\0" + formats)


def copied_line(line: bytes) -> bytes:
    """Return the message of a line."""
    return message(_DATA, line)


def ended() -> bytes:
    """Return the message after the last line."""
    return message(_DONE)
