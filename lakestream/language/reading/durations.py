"""Durations: a whole number and a unit, with TDengine's units and lakestream's bounds."""

from __future__ import annotations

import re

from lakestream.errors import Place, StatementError
from lakestream.language.model import Duration

UNITS = "buasmhdwnqy"
_FORM = re.compile(r"([0-9]+)([A-Za-z_][A-Za-z0-9_]*)?")
_MAX_MICROS = 2**63 - 1
_MAX_MONTHS = 12 * 9_999
_WORDS = {"ms": "a", "us": "u", "ns": "b", "sec": "s", "min": "m", "hour": "h", "day": "d", "week": "w"} | {
    "month": "n",
    "mon": "n",
    "quarter": "q",
    "year": "y",
}
_MEANINGS = "b ns, u us, a ms, s, m, h, d, w, n month, q quarter, y year"


def read_duration(text: str, place: Place) -> Duration:
    """Return the duration that a text such as ``10s`` names; without unit it counts milliseconds (a).

    Raises StatementError(BAD_DURATION) for a fraction, an unknown unit, or one beyond 64 bits of
    microseconds (beyond the year 9999 for months, quarters and years).
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise StatementError(
            "BAD_DURATION",
            f"{_short(text)} is no duration",
            hint=f"a whole number and a unit ({_MEANINGS})",
            place=place,
        )
    unit = match[2] or "a"
    if unit not in UNITS or len(unit) != 1:
        raise _unknown_unit(text, unit, place)
    return _bounded(match[1], unit, place)


_PARTS = {"ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 10**6, "s": 10**9} | {
    "m": 60 * 10**9,
    "h": 3_600 * 10**9,
}
_PART = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,9}))?(ns|us|µs|μs|ms|s|m|h)")
_COMPOUND = re.compile(rf"(?:{_PART.pattern})+")


def read_compound(text: str) -> int:
    """Return the microseconds of a duration as Go writes it (eKuiper): ``1h30m``, ``1.5s``.

    Raises StatementError(BAD_DURATION); nanoseconds that make no whole microsecond are left out.
    """
    if len(text) > 60 or not _COMPOUND.fullmatch(text):
        raise StatementError(
            "BAD_DURATION", f"{_short(text)} is no duration", hint="such as '500ms', '5s', '1m30s'"
        )
    nanos = 0
    for whole, fraction, unit in _PART.findall(text):
        nanos += int(whole) * _PARTS[unit] + int(f"0{fraction}") * _PARTS[unit] // 10 ** len(fraction)
    if nanos // 1_000 > _MAX_MICROS:
        raise StatementError("BAD_DURATION", f"{_short(text)} is too long", hint="at most 9999 years")
    return nanos // 1_000


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


def _unknown_unit(text: str, unit: str, place: Place) -> StatementError:
    meant = _WORDS.get(unit.lower().removesuffix("s")) or _WORDS.get(unit.lower()) or unit.lower()
    hint = f"did you mean {meant}? " if len(meant) == 1 and meant in UNITS else ""
    return StatementError(
        "BAD_DURATION",
        f"{_short(text)}: unknown unit {_short(unit)}",
        hint=f"{hint}units: {_MEANINGS}",
        place=place,
    )


def _bounded(digits: str, unit: str, place: Place) -> Duration:
    # Nineteen digits are beyond 64 bits in every unit but ns; int() of a huge text would be slow.
    duration = Duration(int(digits), unit) if len(digits) <= 22 else None
    if duration is not None:
        within = (
            duration.months <= _MAX_MONTHS
            if duration.months
            else duration.is_of_months or duration.micros <= _MAX_MICROS
        )
        if within:
            return duration
    raise StatementError(
        "BAD_DURATION", f"{_short(digits + unit)} is too long", hint="at most 9999 years", place=place
    )
