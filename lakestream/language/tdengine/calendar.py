"""Reader of ``CALENDAR(unit [FROM start])``, a trigger of lakestream's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.language.model import CALENDAR_UNITS, MONTHS, WEEKDAYS, CalendarTrigger
from lakestream.language.reading.words import Kind

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakestream.errors import StatementError
    from lakestream.language.reading.reader import Reader

_LAST_DAY = 28
"""The last day that every month has."""

_EXAMPLES = {
    "WEEK": "CALENDAR(WEEK FROM SUNDAY)",
    "MONTH": "CALENDAR(MONTH FROM 25)",
    "QUARTER": "CALENDAR(QUARTER FROM FEBRUARY)",
    "YEAR": "CALENDAR(YEAR FROM APRIL 6)",
}


def read_calendar(reader: Reader) -> CalendarTrigger:
    """Take ``unit [FROM start])``: a week from a weekday, a month from a day, a quarter or year from a month.

    A day may follow a year's month. Raises StatementError BAD_UNIT, and BAD_OFFSET for another start.
    """
    unit = _name(reader, CALENDAR_UNITS, "a unit of CALENDAR", "BAD_UNIT")
    weekday = month = day = None
    if reader.accept("FROM"):
        of_unit, example = f"in CALENDAR({unit} FROM …)", _EXAMPLES[unit]
        if unit == "WEEK":
            weekday = _name(reader, WEEKDAYS, f"a weekday {of_unit}", "BAD_OFFSET", example)
        if unit in ("QUARTER", "YEAR"):
            month = _name(reader, MONTHS, f"a month {of_unit}", "BAD_OFFSET", example)
        if unit == "MONTH" or (unit == "YEAR" and not reader.sees_symbol(")")):
            day = _day(reader, of_unit, example)
    if not reader.accept_symbol(")"):
        raise _refusal(reader, "the end of CALENDAR", "BAD_OFFSET", hint=_EXAMPLES[unit])
    return CalendarTrigger(unit, weekday, month, day)


def _name(reader: Reader, known: Collection[str], what: str, code: str, hint: str = "") -> str:
    word = reader.peek()
    name = word.text.upper()
    if word.kind is not Kind.WORD or name not in known:
        raise _refusal(reader, what, code, known, hint or f"one of {', '.join(known)}")
    reader.take()
    return name


def _day(reader: Reader, of_unit: str, example: str) -> int:
    word = reader.peek()
    # Two digits hold every day; int() of a huge text would be slow.
    is_number = word.kind is Kind.NUMBER and word.text.isdigit() and len(word.text) <= 2
    if not is_number or not 1 <= int(word.text) <= _LAST_DAY:
        hint = f"every month has the days 1 to {_LAST_DAY}: {example}"
        raise _refusal(reader, f"a day from 1 to {_LAST_DAY} {of_unit}", "BAD_OFFSET", hint=hint)
    return int(reader.take().text)


def _refusal(
    reader: Reader, what: str, code: str, known: Collection[str] = (), hint: str = ""
) -> StatementError:
    """Return the error for the next word: SYNTAX where nothing stands that could be meant."""
    error = reader.unexpected(what, known)
    if reader.peek().kind not in (Kind.SYMBOL, Kind.END):
        error.code = code
    error.hint = error.hint or hint
    return error
