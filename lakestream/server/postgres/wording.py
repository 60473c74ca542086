"""What a client of PostgreSQL writes, in the words of a lake: names, strings, and values of parameters.

Such a client encloses names in double quotes and strings in single ones, in which a backslash is itself; a
lake takes both quotes for strings, back-ticks for names, and a backslash for an escape.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pg_mimic.arrays import ELEMENT_OID

from lakestream.language.quoting import quoted
from lakestream.server.postgres.failing import refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Value = str | list[str | None] | None
    """A parameter's value as its text; of an array, the texts of its elements."""

_PARTS = re.compile(
    r"""
    (?P<escaped> [eE]'(?:[^'\\]|\\.|'')*' )
  | (?P<string> '(?:[^']|'')*' )
  | (?P<path> (?: "(?:[^"]|"")*" \. ){2} "(?:[^"]|"")*" )
  | (?P<name> "(?:[^"]|"")*" )
  | (?P<own> `(?:[^`]|``)*` )
  | (?P<comment> --[^\n]* | /\*(?:.*?\*/|.*) )
  | (?P<parameter> \$\d+ )
  | (?P<dollar> (?<![\w$])\$ (?P<tag> (?: [^\W\d]\w* )? ) \$ (?P<inner> .*? ) (?: \$(?P=tag)\$ | \Z ) )
  | (?P<end> ; )
    """,
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(r'"((?:[^"]|"")*)"')
_NUMBER = re.compile(r"[+-]?(\d++\.?\d*+|\.\d++)([eE][+-]?\d++)?")
_HEX = re.compile(r"\\x([0-9a-fA-F]{2})*+")
_HEXED = re.compile(r"unhex\('(.*)'\)")
_WRITES = re.compile(r"\s*+(insert|update)\b", re.IGNORECASE)
"""What has bytes written as texts."""
_BOOLEANS = {"t": "TRUE", "true": "TRUE", "f": "FALSE", "false": "FALSE"}
_BOOL, _NUMBERS = 16, frozenset({20, 21, 23, 26, 700, 701, 1700})
_BYTES, _INSTANT = 17, 1184
_TIMES = {1082: "DATE", 1114: "TIMESTAMP_NTZ", 1184: "TIMESTAMP", 1186: "INTERVAL"}
"""The types of parameters whose values are no texts, by PostgreSQL's numbers."""
_ABORT = re.compile(r"\A\s*+abort\b", re.IGNORECASE)
_MOST_PARAMETERS, _DIGITS = 65_535, 20


def in_plain_words(sql: str) -> str:
    """Return a statement that ends a transaction by the word that others end one by, each other as it is."""
    return _ABORT.sub("ROLLBACK", sql, count=1)


def with_plain_texts(sql: str) -> str:
    """Return a statement with single quotes around the texts that stand between dollars (``$$it's$$``).

    Raises PgError for one that has no end.
    """

    def plain(part: re.Match[str]) -> str:
        if part.lastgroup != "dollar":
            return part[0]
        mark = f"${part['tag']}$"
        if not part[0].endswith(mark, len(mark)):
            raise refusal("42601", f"UNCLOSED: the text behind {mark} has no end", f"close it with {mark}")
        return "'" + part["inner"].replace("'", "''") + "'"

    return _PARTS.sub(plain, sql) if "$" in sql else sql


def split(sql: str) -> list[str]:
    """Return the statements of a script, without the semicolons between them."""
    cuts = [0]
    for part in _PARTS.finditer(sql):
        if part.lastgroup == "end":
            cuts += [part.start(), part.end()]
    parts = [sql[start:end] for start, end in zip(cuts[::2], [*cuts[1::2], len(sql)], strict=True)]
    return [part for part in parts if part.strip()]


def parameters(sql: str) -> int:
    """Return how many parameters a statement has: the highest number of one."""
    numbers = (_number(part[0]) for part in _PARTS.finditer(sql) if part.lastgroup == "parameter")
    return max(numbers, default=0)


NAMED = "p"
"""What stands before the number of a parameter that is named."""


def parameters_named(sql: str) -> str:
    """Return a statement with ``@p1`` for ``$1``, which may be read as a quote of another one: ``$1,$``."""
    return _PARTS.sub(
        lambda part: f"@{NAMED}{part[0][1:]}" if part.lastgroup == "parameter" else part[0], sql
    )


def _number(parameter: str) -> int:
    if len(parameter) > _DIGITS or (number := int(parameter[1:])) > _MOST_PARAMETERS:
        raise refusal("54000", f"a statement has at most {_MOST_PARAMETERS:,} parameters")
    return number


def worded(sql: str, values: Sequence[Value], types: Sequence[int | None], connected_to: str = "") -> str:
    """Return a statement as a lake reads it, with values (as texts) in the place of parameters.

    A client may name a table by three names, the first of which is what it is ``connected_to``.
    """
    return "".join(_worded(sql, _literals(sql, values, types, "\\"), connected_to))


def filled(sql: str, values: Sequence[Value], types: Sequence[int | None]) -> str:
    """Return a statement in PostgreSQL's own words, with values in the place of parameters."""
    literals = _literals(sql, values, types, "")

    def fill(part: re.Match[str]) -> str:
        return _value(part[0], literals) if part.lastgroup == "parameter" else part[0]

    return _PARTS.sub(fill, sql)


def _worded(sql: str, literals: Sequence[str], connected_to: str) -> Iterator[str]:
    done = 0
    for part in _PARTS.finditer(sql):
        yield sql[done : part.start()]
        done = part.end()
        text = part[0]
        match part.lastgroup:
            case "escaped":
                yield text[1:]
            case "string":
                yield text.replace("\\", "\\\\")
            case "path" | "name":
                names = [name.replace('""', '"') for name in _NAME.findall(text)]
                whole = len(names) == 1 or names[0] != connected_to
                yield ".".join(map(quoted, names if whole else names[1:]))
            case "parameter":
                yield _value(text, literals)
            case _:
                yield text
    yield sql[done:]


def _value(parameter: str, literals: Sequence[str]) -> str:
    number = _number(parameter)
    if not 1 <= number <= len(literals):
        raise refusal("42P02", f"there is no value for the parameter {parameter}")
    return literals[number - 1]


def _literals(sql: str, values: Sequence[Value], types: Sequence[int | None], escape: str) -> list[str]:
    kinds = [*types, *[None] * len(values)]
    literals = [_literal(value, kind, escape) for value, kind in zip(values, kinds, strict=False)]
    if _BYTES in kinds and _WRITES.match(sql):
        return [_HEXED.sub(rf"'{escape}{escape}\\x\1'", one) for one in literals]
    return literals


def _in_utc(instant: str) -> str:
    """Return an instant by its time in UTC, which is a session's zone; a text that is none as it is."""
    try:
        moment = datetime.fromisoformat(instant)
    except ValueError:
        return instant
    moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    return moment.isoformat(" ")


def _listed(values: list[str | None], kind: int | None, escape: str) -> str:
    if any(isinstance(one, list) for one in values):
        raise refusal("0A000", "NOT_SUPPORTED: a parameter that is an array of arrays")
    return f"ARRAY[{', '.join(_literal(one, ELEMENT_OID.get(kind or 0), escape) for one in values)}]"


def _literal(value: Value, kind: int | None, escape: str) -> str:
    """Return a value as a literal of a lake, where ``escape`` stands before a backslash, or PostgreSQL's."""
    if value is None:
        return "NULL"
    if not isinstance(value, str):
        return _listed(value, kind, escape)
    if kind in _NUMBERS:
        if not _NUMBER.fullmatch(value):
            raise refusal("22P02", f"{value!r} is no number")
        return f"({value})" if value.startswith("-") else value
    if kind == _BOOL:
        if value.lower() not in _BOOLEANS:
            raise refusal("22P02", f"{value!r} is neither true nor false")
        return _BOOLEANS[value.lower()]
    if kind == _BYTES:
        if not _HEX.fullmatch(value):
            raise refusal("22P02", "bytes are written as hexadecimal digits behind \\x")
        return f"unhex('{value[2:]}')" if escape else f"'{value}'::bytea"
    if kind == _INSTANT:
        value = _in_utc(value)
    text = "'" + value.replace("'", "''").replace("\\", escape + "\\") + "'"
    return f"{_TIMES[kind]} {text}" if kind in _TIMES else text
