"""The formats of TO_CHAR and TO_TIMESTAMP (TDengine) as Spark SQL over a time and over a text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lakestream.errors import StatementError
from lakestream.language.quoting import quoted_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMED = {"month": ("MMMM", 9), "mon": ("MMM", 0), "day": ("EEEE", 9), "dy": ("EEE", 0)}
"""Fields that are words: Spark's pattern, and the width that they are filled up to with blanks."""

_NUMBERS = {
    "yyyy": "date_format(_l1, 'yyyy')",
    "yyy": "right(date_format(_l1, 'yyyy'), 3)",
    "yy": "date_format(_l1, 'yy')",
    "y": "right(date_format(_l1, 'yyyy'), 1)",
    "mm": "date_format(_l1, 'MM')",
    "ddd": "date_format(_l1, 'DDD')",
    "dd": "date_format(_l1, 'dd')",
    "d": "CAST(dayofweek(_l1) AS STRING)",
    "hh24": "date_format(_l1, 'HH')",
    "hh12": "date_format(_l1, 'hh')",
    "hh": "date_format(_l1, 'hh')",
    "mi": "date_format(_l1, 'mm')",
    "ss": "date_format(_l1, 'ss')",
    "ms": "date_format(_l1, 'SSS')",
    "us": "date_format(_l1, 'SSSSSS')",
    "ns": "concat(date_format(_l1, 'SSSSSS'), '000')",
    "tzh": "format_string('%s%02d', CASE WHEN _o1 < 0 THEN '-' ELSE '+' END, abs(_o1) div 60)",
}
_HALVES = {"a.m.": ("A.M.", "P.M."), "p.m.": ("A.M.", "P.M."), "am": ("AM", "PM"), "pm": ("AM", "PM")}

_FIELD = re.compile(
    "|".join(sorted((*_NUMBERS, *map(re.escape, _HALVES), *_NAMED), key=len, reverse=True)), re.IGNORECASE
)

_QUOTED, _ESCAPED = re.compile(r'"((?:\\.|[^"\\])*)"', re.DOTALL), re.compile(r"\\(.)", re.DOTALL)
"""A literal text of a format, and what a backslash in it takes as it is."""


def _pieces(pattern: str) -> Iterator[tuple[str, str]]:
    """Yield (field, as written) and ("", literal text) of a format, from left to right."""
    at = 0
    while at < len(pattern):
        char = pattern[at]
        words = _QUOTED.match(pattern, at)
        found = _FIELD.match(pattern, at)
        if char == "\\" and at + 1 < len(pattern):
            yield "", pattern[at + 1]
            at += 2
        elif words:
            yield "", _ESCAPED.sub(r"\1", words[1])
            at = words.end()
        elif found and _is_field(found[0]):
            yield found[0].lower(), found[0]
            at = found.end()
        else:
            yield "", char
            at += 1


def _is_field(written: str) -> bool:
    """Words are fields in three spellings: MONTH, Month, month; halves of a day in two."""
    if written.lower() in _NUMBERS:
        return True
    return written in (written.upper(), written.lower()) or (
        written.lower() in _NAMED and written == written.capitalize()
    )


_OF_TDENGINE = re.compile("mi|hh12|hh24|tzh", re.IGNORECASE)
_OF_SPARK = re.compile(r"(?=.*mm)(?=.*(MM|HH))|(?=.*HH)(?=.*[yd])|.*(SSS|'T')", re.DOTALL)


def is_of_spark(pattern: str) -> bool:
    """Return whether a format is one of Spark's: minutes are ``mm`` beside ``MM`` or ``HH``, as in Java.

    TDengine's have the same fields in small and capital letters, and ``mi`` for minutes.
    """
    return _OF_TDENGINE.search(pattern) is None and _OF_SPARK.match(pattern) is not None


def _names_zone(pattern: str) -> bool:
    return re.search("[XxZzVO]", re.sub("'[^']*'", "", pattern)) is not None


def shown_time(pattern: str) -> str:
    """Return SQL of a local time ``_l1``, ``_o1`` minutes before UTC, in a format of TO_CHAR.

    In a format of Spark's that has a zone it is the instant ``_t1`` in UTC.
    """
    if is_of_spark(pattern):
        return f"date_format({'_t1' if _names_zone(pattern) else '_l1'}, {quoted_text(pattern)})"
    parts = [_shown(field, written) for field, written in _pieces(pattern)]
    return f"concat({', '.join(parts or [quoted_text('')])}, left(CAST(_l1 AS STRING), 0))"


def _shown(field: str, written: str) -> str:
    if not field:
        return quoted_text(written)
    if field in _NUMBERS:
        return _NUMBERS[field]
    if field in _HALVES:
        morning, evening = _HALVES[field]
        text = f"CASE WHEN hour(_l1) < 12 THEN '{morning}' ELSE '{evening}' END"
        return text if written.isupper() else f"lower({text})"
    spark, width = _NAMED[field]
    text = f"date_format(_l1, '{spark}')"
    text = f"upper({text})" if written.isupper() else f"lower({text})" if written.islower() else text
    return f"rpad({text}, {width}, ' ')" if width else text


_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october"),
    *("november", "december"),
)
_READ = {
    "yyyy": "[0-9]{4}",
    "yyy": "[0-9]{1,3}",
    "y": "[0-9]",
    "d": "[1-7]",
    "ms": "[0-9]{1,3}",
    "us": "[0-9]{1,6}",
    "ns": "[0-9]{1,9}",
    "tzh": "[+-][0-9]{1,2}",
    "month": f"(?i:{'|'.join(_MONTHS)})",
    "mon": f"(?i:{'|'.join(month[:3] for month in _MONTHS)})",
    "day": "[A-Za-z]{6,9}",
    "dy": "[A-Za-z]{3}",
    **dict.fromkeys(("yy", "mm", "dd", "hh24", "hh12", "hh", "mi", "ss"), "[0-9]{1,2}"),
    **dict.fromkeys(_HALVES, r"[AaPp]\.?[Mm]\.?"),
}
"""What a field may look like in a text: digits may be fewer than the format has."""


def read_time(pattern: str) -> str:
    """Return SQL of the instant that a text ``_1`` names in a format of TO_TIMESTAMP.

    Blanks do not count. What the text ends before is that of 1970-01-01 00:00:00; of a field that is there
    twice the last counts (TDengine). ``_zone`` is the time zone where the format has none. A text of another
    form gives NULL. Formats of Spark's are read as Spark does. Raises StatementError WRONG_ARGUMENTS for a
    day of the year.
    """
    if is_of_spark(pattern):
        read = f"try_to_timestamp(_1, {quoted_text(pattern)})"
        return read if _names_zone(pattern) else f"to_utc_timestamp({read}, _zone)"
    pieces = [piece for piece in _pieces(pattern) if not piece[1].isspace()]
    if any(field == "ddd" for field, _ in pieces):
        raise StatementError("WRONG_ARGUMENTS", "to_timestamp() reads no day of the year", hint="yyyy-mm-dd")
    parts = [f"({_READ[field]})" if field else f"(?:{re.escape(text)})?" for field, text in pieces]
    opened = "(?:\\s*".join(parts) + ")?" * max(0, len(parts) - 1)
    return _Read(f"^\\s*{opened}", [field for field, _ in pieces if field]).instant()


ISO8601 = "ISO8601"
"""The format of texts such as 2025-01-01T08:00:00.5+01:00."""

_FARTHEST = 17
"""No zone is as many hours from UTC."""

_ISO = (
    r"^\s*([0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?)?)"
    r"\s*([zZ]|[+-](?:0[0-9]|1[0-7])(?::?[0-5][0-9])?)?\s*$"
)


def read_iso_time() -> str:
    """Return SQL of the instant that a text ``_1`` names in ISO 8601, by its date and the time of the day.

    Without an offset it is a time of the zone ``_zone``. A text of another form, or of a date that there
    is not, gives NULL; Spark's own cast would take the current day for a text without a date.
    """
    form = quoted_text(_ISO)
    local = f"CAST(regexp_extract(_1, {form}, 1) AS TIMESTAMP)"
    zone = f"coalesce(nullif(upper(regexp_extract(_1, {form}, 2)), ''), _zone)"
    return f"CASE WHEN _1 RLIKE {form} THEN to_utc_timestamp({local}, {zone}) END"


_DATE = {"a year": ("yyyy", "yyy", "yy", "y"), "a month": ("mm", "month", "mon"), "a day": ("dd",)}
_MINUTES = " (minutes are mi)"


def unclear(pattern: str) -> str:
    """Return why a format of TO_TIMESTAMP does not tell which day and time a text means, empty if it does.

    TO_TIMESTAMP itself takes any: a field that is there twice counts once, one that is missing is that of
    1970-01-01 00:00:00.
    """
    fields = [field for field, _ in _pieces(pattern) if field]
    twice = next((field for field in fields if fields.count(field) > 1), None)
    if twice is not None:
        return f"the format has {twice} twice{_MINUTES if twice == 'mm' else ''}"
    missing = next((what for what, names in _DATE.items() if not set(names) & set(fields)), None)
    if missing is not None:
        return f"the format lacks {missing}"
    if "ddd" in fields:
        return "the format has a day of the year (ddd), which is not read"
    if {"hh", "hh12"} & set(fields) and not _HALVES.keys() & set(fields):
        return "the format has an hour of 12 (hh) without am or pm; one of 24 is hh24"
    return ""


class _Read:
    """The fields of a text by the groups of a regular expression."""

    def __init__(self, regex: str, fields: list[str]) -> None:
        self.regex = quoted_text(regex)
        self.groups = {field: number for number, field in enumerate(fields, 1)}

    def instant(self) -> str:
        """Return SQL of the instant, NULL where the text does not match."""
        date = f"{self._year()}, {self._month()}, {self._number('dd', otherwise=1)}"
        minutes = f"{self._number('mi', otherwise=0)}, {self._number('ss', otherwise=0)}"
        local = f"unix_micros(make_timestamp({date}, {self._hour()}, {minutes}))"
        zone = f"coalesce(nullif({self._text('tzh')}, ''), _zone)" if "tzh" in self.groups else "_zone"
        moved = f"to_utc_timestamp(timestamp_micros({local}{self._fraction()}), {zone})"
        # Spark fails at a zone that is none.
        known = f" AND abs({self._number('tzh', otherwise=0)}) <= {_FARTHEST}" if "tzh" in self.groups else ""
        return f"CASE WHEN _1 RLIKE {self.regex}{known} THEN {moved} END"

    def _last(self, *fields: str) -> str | None:
        """Return which of some fields stands last."""
        return max((f for f in fields if f in self.groups), key=self.groups.__getitem__, default=None)

    def _text(self, field: str) -> str:
        return f"regexp_extract(_1, {self.regex}, {self.groups[field]})"

    def _number(self, field: str, *, otherwise: int) -> str:
        if field not in self.groups:
            return str(otherwise)
        return f"coalesce(CAST({self._text(field)} AS INT), {otherwise})"

    def _year(self) -> str:
        """Years of fewer than four digits lie around 2020 (PostgreSQL, TDengine)."""
        field = self._last("yyyy", "yyy", "yy", "y")
        if field is None:
            return "1970"
        year = f"CAST({self._text(field)} AS INT)"
        limits = ((70, 2000), (100, 1900), (520, 2000))
        whens = " ".join(f"WHEN {year} < {below} THEN {begins}" for below, begins in limits)
        century = f"CASE {whens} ELSE 1000 END"
        return f"coalesce({year}{'' if field == 'yyyy' else f' + {century}'}, 1970)"

    def _month(self) -> str:
        field = self._last("mm", "month", "mon")
        if field in (None, "mm"):
            return self._number("mm", otherwise=1)
        begins = "".join(month[:3] for month in _MONTHS)
        found = f"instr('{begins}', nullif(lower(left({self._text(field)}, 3)), ''))"
        return f"coalesce(({found} + 2) div 3, 1)"

    def _hour(self) -> str:
        field = self._last("hh24", "hh12", "hh")
        if field in (None, "hh24"):
            return self._number("hh24", otherwise=0)
        half = self._last(*_HALVES)
        later = f" + CASE WHEN lower({self._text(half)}) LIKE 'p%' THEN 12 ELSE 0 END" if half else ""
        hour = f"CAST({self._text(field)} AS INT)"
        return f"CASE WHEN {hour} BETWEEN 1 AND 12 THEN {hour} % 12{later} WHEN {hour} IS NULL THEN 0 END"

    def _fraction(self) -> str:
        """Milli-, micro- and nanoseconds add up; below microseconds nothing is kept."""
        units = (("ms", 3, "* 1000"), ("us", 6, "* 1"), ("ns", 9, "div 1000"))
        return "".join(
            f" + CAST(rpad({self._text(field)}, {digits}, '0') AS BIGINT) {factor}"
            for field, digits, factor in units
            if field in self.groups
        )
