"""What streams say, from the rows that there are: each kind of window in a few lines, in plain Python.

A row is (second, group, state, value); an output row is (second of the window's start, rows, sum of values).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Row = tuple[int, int, int, int | None]
Result = tuple[int, int, int | None]

TRIGGERS = {
    "tumbling": "INTERVAL(10s) SLIDING(10s)",
    "sliding": "INTERVAL(20s) SLIDING(5s)",
    "session": "SESSION(ts, 7s)",
    "state": "STATE_WINDOW(k)",
    "count": "COUNT_WINDOW(3)",
    "event": "EVENT_WINDOW(START WITH k = 1 END WITH k = 3)",
}
OF_TIME = ("tumbling", "sliding")
_STEPS = {"tumbling": (10, 10), "sliding": (20, 5)}
_GAP, _COUNT, _BEGINS, _ENDS = 7, 3, 1, 3


def results(kind: str, rows: Sequence[Row], *, grouped: bool) -> list[tuple[int | None, ...]]:
    """Return the windows that have closed, each behind its group where there are groups, in order."""
    by_group: dict[int, list[Row]] = defaultdict(list)
    for row in sorted(rows):
        by_group[row[1] if grouped else 0].append(row)
    return sorted(
        (*([group] if grouped else []), *_result(start, held))
        for group, own in by_group.items()
        for start, held in _closed(kind, own)
    )


def _result(start: int, held: Sequence[Row]) -> Result:
    values = [value for *_, value in held if value is not None]
    return start, len(held), sum(values) if values else None


def _closed(kind: str, rows: Sequence[Row]) -> Iterator[tuple[int, Sequence[Row]]]:
    """Yield the windows of a group with their rows, which are in order: those that are over."""
    if kind in _STEPS:
        yield from _of_time(*_STEPS[kind], rows)
    elif kind == "session":
        yield from _runs(rows, [b[0] - a[0] > _GAP for a, b in pairwise(rows)])
    elif kind == "state":
        yield from _runs(rows, [a[2] != b[2] for a, b in pairwise(rows)])
    elif kind == "count":
        whole = len(rows) - len(rows) % _COUNT
        yield from ((rows[at][0], rows[at : at + _COUNT]) for at in range(0, whole, _COUNT))
    else:
        yield from _events(rows)


def _of_time(size: int, step: int, rows: Sequence[Row]) -> Iterator[tuple[int, Sequence[Row]]]:
    newest = rows[-1][0]
    starts = {at - at % step - back for at, *_ in rows for back in range(0, size, step)}
    for start in starts:
        held = [row for row in rows if start <= row[0] < start + size]
        if held and start + size <= newest:
            yield start, held


def _runs(rows: Sequence[Row], cuts: Sequence[bool]) -> Iterator[tuple[int, Sequence[Row]]]:
    """Yield the rows between cuts; those behind the last one are not over."""
    numbers = [0]
    for cut in cuts:
        numbers.append(numbers[-1] + cut)
    for number, run in groupby(zip(numbers, rows, strict=True), key=lambda pair: pair[0]):
        if number < numbers[-1]:
            held = [row for _, row in run]
            yield held[0][0], held


def _events(rows: Sequence[Row]) -> Iterator[tuple[int, Sequence[Row]]]:
    held: list[Row] = []
    for row in rows:
        if held or row[2] == _BEGINS:
            held.append(row)
        if held and row[2] == _ENDS:
            yield held[0][0], held
            held = []
