"""Windows that are cut by what rows there are, as a loop over the rows of one group in order of time.

A row is (instant, value); a window is its rows. Only windows that have closed are listed, unless those that
are ``still_open`` are asked for too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Row = tuple[int, int | None]
    Window = list[Row]


def sessions(rows: Sequence[Row], gap: int, *, still_open: bool = False) -> list[Window]:
    """Rows at most ``gap`` apart; a row further on closes the session."""
    found: list[Window] = []
    opened: Window = []
    for row in rows:
        if opened and row[0] - opened[-1][0] > gap:
            found.append(opened)
            opened = []
        opened.append(row)
    return [*found, opened] if still_open and opened else found


def states(rows: Sequence[Row], at_least: int = 0, *, still_open: bool = False) -> list[Window]:
    """Runs of equal values; a row without a value belongs to a run that goes on behind it."""
    found: list[Window] = []
    opened: Window = []
    between: Window = []
    for row in rows:
        if row[1] is None:
            between.append(row)
            continue
        if opened and row[1] == opened[0][1]:
            opened += [*between, row]
        else:
            if opened:
                found.append(opened)
            opened = [row]
        between = []
    if still_open and opened:
        found.append(opened)
    return [window for window in found if window[-1][0] - window[0][0] >= at_least]


def events(
    rows: Sequence[Row],
    begins: Callable[[int | None], bool],
    ends: Callable[[int | None], bool],
    *,
    still_open: bool = False,
) -> list[Window]:
    """From a row that begins to the first one from there on that ends."""
    found: list[Window] = []
    opened: Window = []
    for row in rows:
        if opened or begins(row[1]):
            opened.append(row)
            if ends(row[1]):
                found.append(opened)
                opened = []
    return [*found, opened] if still_open and opened else found


def counts(rows: Sequence[Row], count: int, step: int, *, still_open: bool = False) -> list[Window]:
    """``count`` rows, a window every ``step`` rows."""
    last = len(rows) - (1 if still_open else count)
    return [list(rows[at : at + count]) for at in range(0, last + 1, step)]
