"""The order in which people expect names to stand."""

from __future__ import annotations

import re

_NUMBERS = re.compile(r"([0-9]+)")


def natural(name: str) -> tuple[tuple[int | str, ...], str]:
    """Return the key by which people sort names: numbers by their size, letters without their case.

    So ``hourly_2`` stands before ``hourly_10``.
    """
    # Of the parts every second one is a number: those of two names can be held against each other.
    parts = _NUMBERS.split(name.lower())
    return tuple(int(part) if at % 2 else part for at, part in enumerate(parts)), name
