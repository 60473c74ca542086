"""Bounds of INTERVAL(length, offset) SLIDING(step), wherever it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.errors import StatementError
from lakestream.language.model import MICROS

if TYPE_CHECKING:
    from lakestream.errors import Place
    from lakestream.language.model import Duration

SHORTEST_MONTH = 28 * MICROS["d"]
"""Microseconds of a February."""


def check_positive(duration: Duration, clause: str, place: Place) -> None:
    """Raise StatementError BAD_DURATION for a duration that comes to no microsecond."""
    if duration.months or (not duration.is_of_months and duration.micros):
        return
    raise StatementError(
        "BAD_DURATION", f"{clause}({duration}) must be longer than nothing", hint="at least 1u", place=place
    )


def check_step(length: Duration, step: Duration, place: Place) -> None:
    """Raise StatementError BAD_DURATION where only one of the two counts months (TDengine)."""
    if bool(length.months) == bool(step.months):
        return
    raise StatementError(
        "BAD_DURATION",
        f"INTERVAL({length}) with SLIDING({step}): one counts months, the other does not",
        hint="both in n and y, or neither",
        place=place,
    )


def check_no_gaps(length: Duration, step: Duration, place: Place, hint: str = "") -> None:
    """Raise StatementError BAD_DURATION where there would be gaps between windows (TDengine's queries)."""
    if step.months > length.months if length.months else step.micros > length.micros:
        raise StatementError(
            "BAD_DURATION",
            f"SLIDING({step}) is longer than INTERVAL({length})",
            hint=hint,
            place=place,
        )


def check_offset(length: Duration, step: Duration, offset: Duration, place: Place) -> None:
    """Raise StatementError BAD_OFFSET for an offset that is not below the longer of length and step."""
    if offset.months:
        fits = bool(length.months) and offset.months < max(length.months, step.months)
    elif length.months:
        fits = offset.is_of_months or offset.micros < max(length.months, step.months) * SHORTEST_MONTH
    else:
        fits = offset.is_of_months or offset.micros < max(length.micros, step.micros)
    if not fits:
        raise StatementError(
            "BAD_OFFSET",
            f"the offset {offset} is not shorter than INTERVAL({length}) or its step",
            place=place,
        )
