"""``COPY``: the rows of a table or a query as lines of text or CSV, and such lines as rows of a table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from pg_mimic.messages import _message as message
from pg_mimic.types import pack_int16

from lakestream.server.postgres.failing import refusal
from lakestream.server.postgres.rows.values import copied_rows, encoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa
    from pg_mimic import PgError

_TO = re.compile(
    r"copy\s++(?:\((?P<query>.+)\)|(?P<table>[^\s(]++)(?:\s*+\((?P<columns>[^)]*+)\))?)"
    r"\s++to\s++stdout\b\s*+(?P<options>.*)",
    re.IGNORECASE | re.DOTALL,
)
_FROM = re.compile(
    r"copy\s++(?P<target>(?P<table>(?:\"(?:[^\"]|\"\")*+\"|[^\s(\"])++)(?:\s*+\((?P<columns>[^)]*+)\))?)"
    r"\s++from\s++stdin\b\s*+(?P<options>.*)",
    re.IGNORECASE | re.DOTALL,
)
_OPTION = re.compile(
    r"(?P<flag>csv|binary|header)\b(?:\s+(?P<said>true|false|on|off|[01])\b)?"
    r"|(?P<name>[a-z_]+)(?:\s+(?:as\s+)?(?:(?P<escaped>e?)'(?P<text>(?:[^']|'')*)'|(?P<word>\w+)))?",
    re.IGNORECASE,
)
_IS_COPY = re.compile(r"copy\b", re.IGNORECASE)
_ESCAPES = {8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 92: "\\\\"}
_ESCAPED = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.)|$)", re.DOTALL)
_MEANT = {written[1]: chr(code) for code, written in _ESCAPES.items()}
_KNOWN = frozenset({"format", "header", "delimiter", "null"})
_END = re.compile(rb"^\\\.\r?$", re.MULTILINE)
"""The line that older clients send behind the last one."""
_OUT, _IN, _DATA, _DONE = b"H", b"G", b"d", b"c"

MOST_BYTES = 1 << 28
"""Most bytes of lines that one COPY takes: they are held in memory until they are written in one commit."""


class Binary:
    """How rows are written in the binary form of COPY, one time; its head goes with the first of them."""

    code = 1
    """What tells of it, as of the form of values."""

    def __init__(self) -> None:
        self._head = b"PGCOPY\n\xff\r\n\0" + bytes(8)

    def head(self, _: Sequence[str]) -> bytes:
        """Return nothing: no columns are named."""
        return b""

    def told(self, piece: pa.RecordBatch) -> bytes:
        """Return the messages of rows. Raises PgError for values that have no binary form."""
        return copied_rows(encoded(piece, [self.code]), piece.num_rows, self._taken())

    def foot(self) -> bytes:
        """Return the message that stands behind the rows."""
        return _copied([self._taken() + pack_int16(-1)])

    def _taken(self) -> bytes:
        head, self._head = self._head, b""
        return head


@dataclass(frozen=True)
class Form:
    """How values are written as lines: CSV or text, with the columns' names first or not."""

    code = 0
    is_csv: bool
    has_header: bool
    delimiter: str
    null: str

    def head(self, names: Sequence[str]) -> bytes:
        """Return the message of the line that names columns, nothing where there is none."""
        return _copied([self._line([*names])]) if self.has_header else b""

    def told(self, piece: pa.RecordBatch) -> bytes:
        """Return the messages of rows, a line each."""
        texts = (column.cast("string").to_pylist() for column in encoded(piece, []))
        return _copied(map(self._line, zip(*texts, strict=True)))

    def foot(self) -> bytes:
        """Return nothing: no line stands behind the rows."""
        return b""

    def rows(self, width: int, lines: bytes) -> list[tuple[str | None, ...]]:
        """Return the rows of lines, of so many texts each. Raises PgError for what cannot be read."""
        end = _END.search(lines)
        written = lines[: end.start()] if end else lines
        if not written:
            return []
        return self._of_csv(width, written) if self.is_csv else self._of_text(width, written)

    def _line(self, values: Sequence[str | None]) -> bytes:
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

    def _of_csv(self, width: int, lines: bytes) -> list[tuple[str | None, ...]]:
        import pyarrow as pa
        from pyarrow import csv

        names = [str(number) for number in range(width)]
        as_texts = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[self.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        try:
            table = csv.read_csv(
                pa.BufferReader(lines),
                csv.ReadOptions(
                    column_names=names,
                    skip_rows=int(self.has_header),
                    block_size=len(lines) + 1,
                    use_threads=False,  # its errors say the row
                ),
                csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, ignore_empty_lines=False),
                as_texts,
            )
        except pa.ArrowInvalid as error:
            raise _unreadable(str(error)) from None
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def _of_text(self, width: int, lines: bytes) -> list[tuple[str | None, ...]]:
        try:
            written = lines.decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            raise _unreadable("they are not UTF-8") from None
        marks = re.compile(rf"\\.|{re.escape(self.delimiter)}")
        rows = []
        for number, line in enumerate(written[int(self.has_header) :], 1):
            values = _cut(line, marks, self.delimiter) if "\\" in line else line.split(self.delimiter)
            if len(values) != width:
                raise _unreadable(f"row {number} has {len(values)} values, not {width}: {line[:80]}")
            rows.append(tuple(self._meant(one) for one in values))
        return rows

    def _meant(self, value: str) -> str | None:
        """Return a value of a line of text as it is meant, with what it escapes; None for NULL."""
        if value == self.null:
            return None
        return _ESCAPED.sub(_unescaped, value) if "\\" in value else value


def _cut(line: str, marks: re.Pattern[str], delimiter: str) -> list[str]:
    """Return the values of a line in which something is escaped, as they are written."""
    cuts = [mark.start() for mark in marks.finditer(line) if mark[0] == delimiter]
    return [line[start + 1 : end] for start, end in pairwise([-1, *cuts, len(line)])]


def _unescaped(found: re.Match[str]) -> str:
    octal, hexadecimal, sign = found.groups()
    if sign is not None:
        return _MEANT.get(sign, sign)
    number = int(octal or "0", 8) or int(hexadecimal or "0", 16)
    if not 0 < number < 128:
        raise _unreadable(f"{found[0]!r} is no character that is escaped")
    return chr(number)


def _unreadable(why: str) -> PgError:
    return refusal("22P04", f"BAD_VALUE: the lines cannot be read: {why}", "nothing was written")


@dataclass(frozen=True)
class CopyOut:
    """A query whose rows are written in a form."""

    query: str
    form: Form | Binary


@dataclass(frozen=True)
class CopyIn:
    """A table that rows are written to which come as lines, as it is named with its columns: ``written``."""

    written: str
    table: str
    columns: str
    form: Form

    @property
    def said(self) -> str:
        """The statement, as it is listed and noted."""
        return f"COPY {self.written} FROM STDIN"


def copy_statement(sql: str) -> CopyOut | CopyIn | None:
    """Return what a COPY does, None for another statement. Raises PgError for a COPY that is not done."""
    if not _IS_COPY.match(sql):
        return None
    if (into := _FROM.fullmatch(sql.strip())) is not None:
        return CopyIn(into["target"], into["table"], into["columns"] or "", _form(_options(into["options"])))
    found = _TO.fullmatch(sql.strip())
    if found is None:
        raise refusal(
            "0A000",
            "NOT_SUPPORTED: COPY is FROM STDIN or TO STDOUT",
            "psql's \\copy reads and writes files of its own; or a table of files (LOCATION)",
        )
    options = _options(found["options"])
    return CopyOut(found["query"] or _selected(found), Binary() if _is_binary(options) else _form(options))


def _selected(found: re.Match[str]) -> str:
    return f"SELECT {found['columns'] or '*'} FROM {found['table']}"  # noqa: S608 (the client's own statement)


def _options(said: str) -> dict[str, str]:
    """Return options by name, of both grammars: ``(FORMAT csv, HEADER)`` and ``WITH CSV HEADER``."""
    text = said.strip()
    text = text[4:].strip() if text.lower().startswith("with") else text
    options: dict[str, str] = {}
    for found in _OPTION.finditer(text.removeprefix("(").removesuffix(")")):
        name, text_of = (found["flag"] or found["name"]).lower(), found["text"]
        if name in ("csv", "binary"):
            options["format"] = name
        elif text_of is not None:
            plain = text_of.replace("''", "'")
            options[name] = _ESCAPED.sub(_unescaped, plain) if found["escaped"] else plain
        else:
            options[name] = found["said"] or found["word"] or "true"
    return options


def _is_binary(options: Mapping[str, str]) -> bool:
    return dict(options) == {"format": "binary"}


def _form(options: Mapping[str, str]) -> Form:
    unknown = sorted(options.keys() - _KNOWN)
    format_name = options.get("format", "text").lower()
    if unknown or format_name not in ("text", "csv"):
        said = unknown[0] if unknown else f"format {format_name}"
        raise refusal(
            "0A000",
            f"NOT_SUPPORTED: COPY with {said}",
            "known: FORMAT text or csv, HEADER, DELIMITER, NULL; FORMAT binary of what is read",
        )
    is_csv = format_name == "csv"
    delimiter = options.get("delimiter", "," if is_csv else "\t").replace("\\t", "\t")
    if len(delimiter) != 1:
        raise refusal("22023", "the delimiter of COPY is one character")
    has_header = options.get("header", "false").lower() in ("true", "on", "1")
    return Form(is_csv, has_header, delimiter, options.get("null", "" if is_csv else "\\N"))


def begun(columns: int, code: int = 0, *, inwards: bool = False) -> bytes:
    """Return the message that rows of so many columns begin with; ``inwards``: those of a client."""
    formats = pack_int16(columns) + pack_int16(code) * columns
    return message(_IN if inwards else _OUT, bytes([code]) + formats)


def _copied(lines: Iterable[bytes]) -> bytes:
    return b"".join(map(partial(message, _DATA), lines))


def ended() -> bytes:
    """Return the message after the last line."""
    return message(_DONE)
