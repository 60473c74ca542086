"""Literals among a statement's words: texts, numbers, points in time, durations."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING

from lakestream.errors import StatementError
from lakestream.language.model import Duration, Now, Value
from lakestream.language.reading.durations import read_duration
from lakestream.language.reading.words import Kind, Word

if TYPE_CHECKING:
    from lakestream.language.reading.reader import Reader

_MAX_NUMBER = 60
_MAX_INSTANT = 18
_TYPED = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE")


def take_string(reader: Reader, what: str) -> str:
    """Take a quoted string."""
    if reader.peek().kind is not Kind.STRING:
        raise reader.unexpected(what)
    return reader.take().text


def take_instant(reader: Reader, what: str) -> str:
    """Take a point in time, an ISO text in quotes or milliseconds since 1970 UTC; as written.

    A text without an offset is in the lake's time zone.
    """
    word = reader.peek()
    if word.kind is Kind.NUMBER and word.text.isdigit() and len(word.text) <= _MAX_INSTANT:
        return reader.take().text
    text = take_string(reader, f"{what} in quotes")
    try:
        datetime.fromisoformat(text)
    except ValueError:
        hint = "such as '2025-01-01 00:00:00.000'"
        raise reader.error("BAD_TIMESTAMP", f"{what} is no time", word=word, hint=hint) from None
    return text


def refuse_unit(
    reader: Reader, what: str, duration: Duration, units: str, word: Word, *, code: str = "BAD_DURATION"
) -> None:
    """Raise StatementError with the code where a duration is in a unit that a clause does not take."""
    if duration.unit not in units:
        hint = f"one of {', '.join(units)}"
        raise reader.error(code, f"{what} takes no unit {duration.unit}", word=word, hint=hint)


def take_duration(reader: Reader, what: str) -> tuple[Duration, Word]:
    """Take a duration such as ``10s``; returns it with its word for later checks.

    Raises StatementError(BAD_DURATION) naming the clause, also for a sign and a blank before the unit.
    """
    word = reader.peek()
    if word.is_symbol("-") or word.is_symbol("+"):
        raise reader.error("BAD_DURATION", f"{what} takes a duration without a sign")
    if word.kind is not Kind.NUMBER:
        raise reader.unexpected(f"a duration such as 10s in {what}")
    reader.take()
    unit = reader.peek()
    if unit.kind is Kind.WORD and len(unit.text) == 1:
        raise reader.error(
            "BAD_DURATION", f"{what}: no blank between number and unit", hint=f"{word.text}{unit.text}"
        )
    try:
        return read_duration(word.text, reader.place(word)), word
    except StatementError as error:
        raise StatementError(
            error.code, f"{what}: {error.message}", hint=error.hint, place=error.place
        ) from None


def take_value(reader: Reader) -> Value:
    """Take a literal: number, string, TRUE, FALSE, NULL, ``NOW [± duration …]``, or Spark's typed times.

    ``TIMESTAMP '…'``, ``TIMESTAMP_NTZ '…'`` and ``DATE '…'`` are their text, which the column's type reads.
    Raises StatementError(BAD_TIMESTAMP) where such a text is no time.
    """
    word = reader.peek()
    if word.kind is Kind.STRING:
        return reader.take().text
    if word.kind is Kind.NUMBER or word.text in ("-", "+", "."):
        return _number(reader)
    if word.kind is Kind.WORD:
        constants: dict[str, Value] = {"TRUE": True, "FALSE": False, "NULL": None}
        if word.text.upper() in constants:
            return constants[reader.take().text.upper()]
        if reader.accept("NOW"):
            return _now(reader)
        if word.text.upper() in _TYPED and reader.peek(1).kind is Kind.STRING:
            return take_instant(reader, reader.take().text)
    raise reader.unexpected("a value", ("NULL", "TRUE", "FALSE", "NOW") if word.kind is Kind.WORD else ())


def _number(reader: Reader) -> int | float | Decimal:
    first = reader.peek()
    sign = "-" if reader.accept_symbol("-") else ""
    if not sign:
        reader.accept_symbol("+")
    point = "." if reader.accept_symbol(".") else ""
    word = reader.peek()
    if word.kind is not Kind.NUMBER or (point and not word.text.isdigit()):
        raise reader.unexpected("a number")
    text = f"{sign}{point}{word.text}"
    if len(text) > _MAX_NUMBER:
        raise reader.error(
            "BAD_NUMBER", "the number is too long", hint=f"at most {_MAX_NUMBER} characters", word=first
        )
    try:
        number = _to_number(text)
    except (ValueError, ArithmeticError):
        raise reader.error("BAD_NUMBER", f"{text} is no number", hint="strings stand in quotes") from None
    reader.take()
    return number


def _now(reader: Reader) -> Now:
    if reader.accept_symbol("("):
        reader.expect_symbol(")")
    micros = 0
    while reader.sees_symbol("+") or reader.sees_symbol("-"):
        sign = 1 if reader.take().text == "+" else -1
        duration, word = take_duration(reader, "NOW")
        if duration.is_of_months:
            raise reader.error("BAD_DURATION", "NOW takes no months or years", word=word)
        micros += sign * duration.micros
    return Now(micros)


def _to_number(text: str) -> int | float | Decimal:
    if "e" in text.lower():
        number = float(text)
        if not isfinite(number):
            raise ValueError(text)
        return number
    return Decimal(text) if "." in text else int(text)
