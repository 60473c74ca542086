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


def states(rows: Sequence[Row], at_least: float = 0, *, still_open: bool = False) -> list[Window]:
    """Runs of equal values; a row without a value belongs to a run that goes on behind it."""
    found: list[tuple[float, float, Window]] = [(run[0][0], run[-1][0], run) for run in _runs(rows)]
    return [window for _, _, window in _lasting(found, at_least, still_open=still_open)]


def extended_states(
    rows: Sequence[Row],
    extend: int,
    at_least: float = 0,
    *,
    zeroth: Sequence[int] = (),
    still_open: bool = False,
) -> list[tuple[float, float, Window]]:
    """Runs of equal values with where they begin and end, which reach to each other.

    ``extend`` 1: a window ends a millisecond before the next one begins, and has the rows without a value
    behind its own; 2: it begins a millisecond behind the last one's end, and has those before its own, the
    first window too; 0: neither. Windows of the states ``zeroth`` give nothing, and still end others.
    """
    runs = _runs(rows)
    found: list[tuple[float, float, Window]] = []
    for number, run in enumerate(runs):
        low: float = run[0][0]
        high: float = run[-1][0]
        if extend == 1:
            following = runs[number + 1][0][0] if number + 1 < len(runs) else None
            run = [row for row in rows if row[0] >= low and (following is None or row[0] < following)]  # noqa: PLW2901
            high = run[-1][0] if following is None else max(run[-1][0], following - MILLISECOND)
        if extend == 2:
            before = runs[number - 1][-1][0] if number else None
            run = [row for row in rows if (before is None or row[0] > before) and row[0] <= high]  # noqa: PLW2901
            low = run[0][0] if before is None else min(run[0][0], before + MILLISECOND)
        found.append((low, high, run))
    lasting = _lasting(found, at_least, still_open=still_open)
    return [window for window in lasting if next(v for _, v in window[2] if v is not None) not in zeroth]


MILLISECOND = 0.001


def _lasting(
    windows: list[tuple[float, float, Window]], at_least: float, *, still_open: bool
) -> list[tuple[float, float, Window]]:
    closed = windows if still_open else windows[:-1]
    return [window for window in closed if window[1] - window[0] >= at_least]


def _runs(rows: Sequence[Row]) -> list[Window]:
    found: list[Window] = []
    between: Window = []
    for row in rows:
        if row[1] is None:
            between.append(row)
            continue
        if found and row[1] == found[-1][0][1]:
            found[-1] += [*between, row]
        else:
            found.append([row])
        between = []
    return found


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
