"""Lengths of time as PostgreSQL and TimescaleDB write them (``1 day 02:03:04.5``), in a lake's words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNITS = (
    ("microsecond", r"us|usecs?|microseconds?|microsecs?"),
    ("millisecond", r"ms|msecs?|milliseconds?|millisecs?"),
    ("second", r"s|secs?|seconds?"),
    ("minute", r"m|mins?|minutes?"),
    ("hour", r"h|hrs?|hours?"),
    ("day", r"d|days?"),
    ("week", r"w|weeks?"),
    ("month", r"mons?|months?"),
    ("year", r"y|yrs?|years?"),
)
_PART = re.compile(r"(?<![\d.:])([+-]?\d++(?:\.\d++)?)\s*+([a-z]++)", re.IGNORECASE)
_CLOCK = re.compile(r"(?<![\d.:])([+-]?)(\d{1,9}+):([0-5]\d)(?::([0-5]\d(?:\.\d{1,6})?))?(?![\d.:])")
_DAYS = re.compile(r"[+-]?\d{1,9}")
_YEARS = re.compile(r"\s*([+-]?)(\d{1,9})-(\d{1,2})\s*")
_AGO = re.compile(r"\bago\s*\Z", re.IGNORECASE)
_PAIRS = re.compile(r"\s*(?:[+-]?\d++(?:\.\d++)?\s*+(?!ago\b)[a-z]++\s*)+", re.IGNORECASE)
_PLAIN = re.compile(rf"(\s*+[+-]?[\d.]++\s++({'|'.join(unit for unit, _ in _UNITS)})s?\b)+\s*", re.IGNORECASE)


def is_plain(text: str) -> bool:
    """Return whether a length is written as a lake has it."""
    return _PLAIN.fullmatch(text) is not None


def is_of_pairs(text: str) -> bool:
    """Return whether a length is nothing but numbers with their units."""
    return _PAIRS.fullmatch(text) is not None


def length(text: str) -> str | None:
    """Return a length of time in a lake's words; None for a text that is none.

    Parts that are nothing are left out, beside others: months and seconds go into no value of Spark together.

    >>> length("-1 days +02:03:04.5"), length("0 years 1 mons 0 days"), length("1 day ago")
    ('-1 days 2 hours 3 minutes 4.5 seconds', '1 months', '-1 days')
    """
    text = text.replace(",", " ")  # as Python writes one: 1 day, 2:00:00
    years = _YEARS.fullmatch(text)
    if years:
        return f"{years[1]}{years[2]} years {years[1]}{years[3]} months"
    ago = _AGO.search(text)
    found = [*_parts(text[: ago.start()] if ago else text)]
    if not found or not all(unit for _, unit in found):
        return None
    told = [one for one in found if float(one[0])] or found[-1:]
    return " ".join(f"{_turned(number) if ago else number} {unit}s" for number, unit in told)


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield the numbers of a text and their units, of which one that is none is empty."""
    for number, said in _PART.findall(text):
        yield number, next((unit for unit, form in _UNITS if re.fullmatch(form, said.lower())), "")
    rest, clock = _PART.sub("", text), _CLOCK.search(_PART.sub("", text))
    bare = (rest[: clock.start()] + rest[clock.end() :] if clock else rest).strip().removeprefix("@").strip()
    if bare:
        yield bare, "day" if clock and _DAYS.fullmatch(bare) else ""
    if clock:
        sign, *figures = clock.groups("0")
        for number, unit in zip(figures, ("hour", "minute", "second"), strict=True):
            plain = number.lstrip("0") or "0"
            yield f"{sign.strip('+0')}{'0' if plain.startswith('.') else ''}{plain}", unit


def _turned(number: str) -> str:
    return number[1:] if number.startswith("-") else f"-{number.removeprefix('+')}"
