"""Windows that are cut by what rows there are, as a loop over the rows of one group in order of time.

A row is (instant, value); a window is its rows. Only windows that have closed are listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Row = tuple[int, int | None]
    Window = list[Row]


def sessions(rows: Sequence[Row], gap: int) -> list[Window]:
    """Rows at most ``gap`` apart; a row further on closes the session."""
    found: list[Window] = []
    opened: Window = []
    for row in rows:
        if opened and row[0] - opened[-1][0] > gap:
            found.append(opened)
            opened = []
        opened.append(row)
    return found


def states(rows: Sequence[Row], at_least: int = 0) -> list[Window]:
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
    return [window for window in found if window[-1][0] - window[0][0] >= at_least]


def events(
    rows: Sequence[Row], begins: Callable[[int | None], bool], ends: Callable[[int | None], bool]
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
    return found


def counts(rows: Sequence[Row], count: int, step: int) -> list[Window]:
    """``count`` rows, a window every ``step`` rows."""
    return [list(rows[at : at + count]) for at in range(0, len(rows) - count + 1, step)]
