"""What a stream must have written after a history of commits: one fold, commit by commit.

The rules (INTERVAL and SLIDING, default policies):

- A commit is a set of changes. A group is the rows with one value of the grouping; it has its own
  time. ``mark`` = newest event time seen - WATERMARK.
- A window fires when ``mark`` reaches its end, also without rows (unless IGNORE_NODATA_TRIGGER).
- A row at or before the mark its group had *before the commit* is late. INTERVAL computes the closed
  windows it falls into again, and opens earlier ones when it lies before the first; SLIDING ignores it.
- An update counts like a row that arrives; a delete changes the source and fires nothing.
- A window's content is what the source holds in its range as of the commit that fired it last.
- Rows that PRE_FILTER refuses do not exist for any of this.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import takewhile
from typing import Any, Literal

from tests.reference.grid import Interval, Sliding, Window, windows

Row = Mapping[str, Any]
Group = tuple[Any, ...]
Figures = tuple[Any, ...]


@dataclass(frozen=True)
class Change:
    """A row written (by its key: a new one or an update) or removed; ``ts`` is aware, in UTC."""

    row: Row
    kind: Literal["write", "delete"] = "write"


Commit = Sequence[Change]


@dataclass(frozen=True)
class Stream:
    """A stream: its trigger, its groups, its options and what it computes over a window's rows."""

    trigger: Interval | Sliding
    calculate: Callable[[list[Row]], Figures]
    group: Callable[[Row], Group] = lambda _row: ()
    watermark: timedelta = timedelta(0)
    admits: Callable[[Row], bool] = lambda _row: True
    ignore_nodata: bool = False
    zone: tzinfo = UTC
    key: Callable[[Row], tuple[Any, ...]] = lambda row: (row.get("tbname"), row["ts"])


@dataclass
class Progress:
    """What a group has seen and written: O(windows), which a reference may be."""

    newest: datetime | None = None
    first: datetime | None = None
    fired: dict[Window, Figures | None] = field(default_factory=dict)


def evaluate(stream: Stream, commits: Iterable[Commit]) -> list[tuple[Any, ...]]:
    """Return the rows the stream has written: (group…, start, end, figures…), in no order that counts.

    SLIDING's start and end are the instant before and the instant itself.
    """
    source: dict[tuple[Any, ...], Row] = {}
    groups: dict[Group, Progress] = defaultdict(Progress)
    for commit in commits:
        for group, times in apply(stream, source, commit).items():
            rows = [r for r in source.values() if stream.admits(r) and stream.group(r) == group]
            advance(stream, groups[group], times, rows)
    return [
        (*group, window.start, window.end, *figures)
        for group, progress in groups.items()
        for window, figures in progress.fired.items()
        if figures is not None
    ]


def apply(stream: Stream, source: dict[tuple[Any, ...], Row], commit: Commit) -> dict[Group, set[datetime]]:
    """Put a commit into the source; return the times of the written rows that count, by group."""
    touched: dict[Group, set[datetime]] = defaultdict(set)
    for change in commit:
        key = stream.key(change.row)
        before = source.pop(key, None)
        if change.kind == "delete":
            continue
        source[key] = change.row
        for row in (before, change.row):
            if row is not None and stream.admits(row):
                touched[stream.group(row)].add(row["ts"])
    return touched


def advance(stream: Stream, group: Progress, times: set[datetime], rows: list[Row]) -> None:
    """Fire what a commit makes due in one group: ``times`` were written, ``rows`` is the group now."""
    mark = None if group.newest is None else group.newest - stream.watermark
    late = {ts for ts in times if mark is not None and ts <= mark}
    recalculates = isinstance(stream.trigger, Interval)
    opening = times if recalculates else times - late
    group.first = min(opening | ({group.first} if group.first else set()))
    group.newest = max(times | ({group.newest} if group.newest else set()))
    mark = group.newest - stream.watermark
    closed = takewhile(lambda w: w.end <= mark, windows(stream.trigger, group.first, stream.zone))
    for window in closed:
        changed = recalculates and any(window.holds(ts) for ts in late)
        if window not in group.fired or changed:
            group.fired[window] = fire(stream, window, rows)


def fire(stream: Stream, window: Window, rows: list[Row]) -> Figures | None:
    """Compute a window over its rows in the order (ts, tbname); None where it writes nothing."""
    held = sorted(
        (r for r in rows if window.holds(r["ts"])), key=lambda r: (r["ts"], str(r.get("tbname") or ""))
    )
    return None if stream.ignore_nodata and not held else stream.calculate(held)
