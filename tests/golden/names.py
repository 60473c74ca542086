"""What differs from run to run, replaced by what is the same: paths, identities, the wall clock."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_DAY = 86_400
_IDENTITY = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b")
_FOLDER = re.compile(
    r"/[\w./-]*?/(?:(?:pytest-of-\w+/pytest-\d+/|(?=popen-gw\d+/|test_\w+\d/))(?:popen-gw\d+/)?|tmp\w{8}/)"
)
"""Folders of pytest, wherever they lie (``--basetemp``), and temporary ones."""
_NUMBER = re.compile(r"\b\d{10,19}(?=L?\b)")
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?\b")


def steady(lines: Iterable[str], now: float) -> list[str]:
    """Return lines in which runs of one test agree; ``now`` is when it ran (seconds since 1970 UTC)."""
    known: dict[str, str] = {}
    return [_steady(line, now, known) for line in lines]


def _steady(line: str, now: float, known: dict[str, str]) -> str:
    line = _FOLDER.sub("<folder>/", line)
    line = _IDENTITY.sub(lambda found: known.setdefault(found[0], f"<id {len(known)}>"), line)
    line = _NUMBER.sub(lambda found: _clock(found[0], now), line)
    return _MOMENT.sub(lambda found: _day(found[0], now), line)


def _clock(number: str, now: float) -> str:
    """Return ``<now>`` for a number that is a time of the run, in seconds, ms, µs or ns."""
    unit = 10 ** (len(number) - 10)
    return "<now>" if len(number) % 3 == 1 and abs(int(number) / unit - now) < _DAY else number


def _day(moment: str, now: float) -> str:
    from datetime import UTC, datetime

    found = datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()
    return "<now>" if abs(found - now) < _DAY else moment
