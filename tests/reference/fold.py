"""What a stream must have written after a history: one fold, event by event.

An event is a commit of the source, a RECALCULATE or a RESYNC. The rules (INTERVAL, CALENDAR and SLIDING):

- A commit is a set of changes. A group is the rows with one value of the grouping; it has its own
  time. ``newest`` is its newest event time seen, ``mark`` = newest - WATERMARK, ``first`` its first row.
- A window fires when ``mark`` reaches its end, also without rows (unless IGNORE_NODATA_TRIGGER).
- Of a written row is asked, in this order: does PRE_FILTER admit it? has it expired? is it late? The
  last two are judged by the group *before the commit*. A row at or before the mark is late.
- INTERVAL and CALENDAR compute the fired windows of late rows and of updates (old and new row) again, and
  open earlier ones for a late row before the first. SLIDING and IGNORE_DISORDER do neither.
- EXPIRED_TIME: a row older than newest - EXPIRED_TIME triggers nothing.
- A delete triggers nothing. DELETE_RECALC computes the fired windows of the row again; when the first
  row goes, ``first`` moves up to the next one, and windows before it are gone.
- A window holds what the source holds in its range as of the commit that computed it last.
- RECALCULATE computes the fired windows that overlap its range again. Where late rows are left out, it
  begins with those of its range that lie before the first window, or goes on from the window before it.
  RESYNC forgets everything, and takes the source as it is for one batch. So does EXACT after every event.
- Rows that were there before the stream and are not filled in are not the stream's, as long as they are
  as they were then. RESYNC does not know them any more: no row up to the newest of them is the stream's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import takewhile
from typing import Any, Literal

from tests.reference.grid import Sliding, Trigger, Window, windows

Row = Mapping[str, Any]
Group = tuple[Any, ...]
Figures = tuple[Any, ...]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Change:
    """A row written (by its key: a new one or an update) or removed; ``ts`` is aware, in UTC.

    ``was`` is the row that an update of its key has replaced.
    """

    row: Row
    kind: Literal["write", "delete"] = "write"
    was: Row | None = None


Commit = Sequence[Change]
"""Changes of different keys."""


@dataclass(frozen=True)
class Recalculate:
    """RECALCULATE of ``[start, end)``, up to the mark without ``end``."""

    start: datetime
    end: datetime | None = None


@dataclass(frozen=True)
class Resync:
    """RECALCULATE … RESYNC."""


Event = Commit | Recalculate | Resync


@dataclass(frozen=True)
class Stream:
    """A stream: its trigger, its groups, its options and what it computes over a window's rows."""

    trigger: Trigger
    calculate: Callable[[list[Row]], Figures]
    group: Callable[[Row], Group] = lambda _row: ()
    watermark: timedelta = timedelta(0)
    admits: Callable[[Row], bool] = lambda _row: True
    ignore_nodata: bool = False
    zone: tzinfo = UTC
    key: Callable[[Row], Key] = lambda row: (row.get("tbname"), row["ts"])
    ignore_disorder: bool = False
    expired_time: timedelta | None = None
    delete_recalc: bool = False
    exact: bool = False

    @property
    def counts_days(self) -> bool:
        """Whether the instants are counted from the day of a group's first row."""
        if not isinstance(self.trigger, Sliding):
            return False
        step = self.trigger.step
        return step.is_calendar or step.elapsed >= timedelta(days=1)

    @property
    def recalculates(self) -> bool:
        """Whether late rows and updates have their windows computed again."""
        return not isinstance(self.trigger, Sliding) and not self.ignore_disorder


@dataclass
class Progress:
    """What a group has seen and written: O(windows), which a reference may be."""

    newest: datetime | None = None
    first: datetime | None = None
    fired: dict[Window, Figures | None] = field(default_factory=dict)

    def closed(self, stream: Stream) -> list[Window]:
        """List the windows that fire, from the first row's on up to the mark, in time order."""
        if self.first is None or self.newest is None:
            return []
        mark = self.newest - stream.watermark
        return list(takewhile(lambda w: w.end <= mark, windows(stream.trigger, self.first, stream.zone)))

    def before_first(self, stream: Stream) -> dict[Window, Figures | None]:
        """Return what RECALCULATE has written of windows before those of the first row."""
        if self.first is None:
            return {}
        start = next(windows(stream.trigger, self.first, stream.zone)).start
        return {window: figures for window, figures in self.fired.items() if window.start < start}


@dataclass
class Touched:
    """Times of a commit in one group: of rows that arrived, of those they replaced, of deleted ones."""

    arrived: set[datetime] = field(default_factory=set)
    replaced: set[datetime] = field(default_factory=set)
    deleted: set[datetime] = field(default_factory=set)


def evaluate(stream: Stream, events: Iterable[Event], not_taken: Iterable[Row] = ()) -> list[tuple[Any, ...]]:
    """Return the rows the stream has written: (group…, start, end, figures…), in no order that counts.

    ``not_taken`` are the rows before the stream's creation that it does not fill in. SLIDING's start and
    end are the instant before and the instant itself.
    """
    fold = Fold(stream, {stream.key(row): row for row in not_taken})
    for event in events:
        fold.take(event)
    return [
        (*group, window.start, window.end, *figures)
        for group, progress in fold.groups.items()
        for window, figures in progress.fired.items()
        if figures is not None
    ]


class Fold:
    """A stream after some events: the source, the rows of it that are not taken, and the groups."""

    def __init__(self, stream: Stream, not_taken: dict[Key, Row]) -> None:
        self.stream = stream
        self.not_taken = not_taken
        self.floor: datetime | None = None
        self.source = dict(not_taken)
        self.groups: defaultdict[Group, Progress] = defaultdict(Progress)

    def take(self, event: Event) -> None:
        """Let one event happen."""
        if isinstance(event, Recalculate):
            self.recalculate(event)
        elif isinstance(event, Resync):
            self.floor = max((row["ts"] for row in self.not_taken.values()), default=self.floor)
            self.not_taken = {}
            self.batch()
        else:
            self.commit(event)
        if self.stream.exact:
            self.batch()

    def commit(self, commit: Commit) -> None:
        """Put a commit into the source, then fire what it makes due."""
        touched: defaultdict[Group, Touched] = defaultdict(Touched)
        for change in commit:
            old = self.source.pop(self.stream.key(change.was or change.row), None)
            if change.kind == "write":
                self.source[self.stream.key(change.row)] = change.row
            if change.kind == "write" and change.row != old:
                self.note(change.row, old, touched)
            elif change.kind == "delete" and old is not None and self.takes(old):
                touched[self.stream.group(old)].deleted.add(old["ts"])
        for group, times in touched.items():
            self.advance(group, times)

    def note(self, row: Row, old: Row | None, touched: defaultdict[Group, Touched]) -> None:
        """Note which times a written row touches, and the one it replaces."""
        if self.counts(row):
            touched[self.stream.group(row)].arrived.add(row["ts"])
        if old is not None and self.counts(old):
            touched[self.stream.group(old)].replaced.add(old["ts"])

    def takes(self, row: Row) -> bool:
        """Return whether a row is the stream's."""
        is_old = self.floor is not None and row["ts"] <= self.floor
        return self.stream.admits(row) and not is_old and self.not_taken.get(self.stream.key(row)) != row

    def counts(self, row: Row) -> bool:
        """Return whether a written row is the stream's and has not expired."""
        newest, limit = self.groups[self.stream.group(row)].newest, self.stream.expired_time
        expired = newest is not None and limit is not None and row["ts"] < newest - limit
        return self.takes(row) and not expired

    def advance(self, group: Group, times: Touched) -> None:
        """Fire what is due in one group, and compute again what late rows, updates and deletes touch."""
        stream, progress, rows = self.stream, self.groups[group], self.rows(group)
        taken_in = progress.before_first(stream)
        gone = (times.replaced if stream.recalculates else set()) | (
            times.deleted if stream.delete_recalc else set()
        )
        again = gone | (times.arrived if stream.recalculates else set())
        self.move(progress, times.arrived, gone, rows)
        before, progress.fired = progress.fired, taken_in
        for window in progress.closed(stream):
            keeps = window in before and not any(window.holds(ts) for ts in again)
            progress.fired[window] = before[window] if keeps else fire(stream, window, rows)

    def move(self, progress: Progress, arrived: set[datetime], gone: set[datetime], rows: list[Row]) -> None:
        """Move a group's first and newest row."""
        first, newest = known(progress.first), known(progress.newest)
        late = {ts for ts in arrived for before in newest if ts <= before - self.stream.watermark}
        if self.stream.delete_recalc and any(ts <= old for ts in gone for old in first):
            first = {row["ts"] for row in rows if row["ts"] >= min(first)}
        opening = arrived if self.stream.recalculates else arrived - late
        progress.first = min(first | opening, default=None)
        progress.newest = max(newest | arrived, default=None)

    def recalculate(self, range_: Recalculate) -> None:
        """Compute the fired windows of the range again, in every group."""
        for group, progress in self.groups.items():
            rows = self.rows(group)
            begun = replace(progress, first=self.begins(progress, range_, rows))
            for window in begun.closed(self.stream):
                if window.overlaps(range_.start, range_.end):
                    progress.fired[window] = fire(self.stream, window, rows)

    def begins(self, progress: Progress, range_: Recalculate, rows: list[Row]) -> datetime | None:
        """Return when a group begins for a range: with what was left out before its first row, too."""
        if self.stream.recalculates or self.stream.counts_days or progress.first is None:
            return progress.first
        overlapping = takewhile(
            lambda w: w.overlaps(range_.start, range_.end),
            windows(self.stream.trigger, range_.start, self.stream.zone),
        )
        low = next(overlapping, None)
        if low is None or low.start >= progress.first:
            return progress.first
        if self.goes_on(progress, low):
            return low.end if low.includes_end else low.start
        until = [low, *takewhile(lambda w: w.start < (progress.first or w.end), overlapping)]
        left_out = {row["ts"] for row in rows for window in until if window.holds(row["ts"])}
        return min(left_out | {progress.first})

    def goes_on(self, progress: Progress, low: Window) -> bool:
        """Return whether the window before a range's first one has been written."""
        written = [w for w, figures in progress.fired.items() if figures is not None and w.start < low.start]
        last = max(written, key=lambda w: w.start, default=None)
        if last is None:
            return False
        first = last.end if last.includes_end else last.start
        until = takewhile(
            lambda w: w.start <= low.start, windows(self.stream.trigger, first, self.stream.zone)
        )
        return [w for w in until if w.start >= last.start] == [last, low]

    def batch(self) -> None:
        """Take the source as it is for the first and only commit."""
        self.groups.clear()
        for group in {self.stream.group(row) for row in self.source.values() if self.takes(row)}:
            rows = self.rows(group)
            times = [row["ts"] for row in rows]
            progress = self.groups[group] = Progress(max(times), min(times))
            progress.fired = {w: fire(self.stream, w, rows) for w in progress.closed(self.stream)}

    def rows(self, group: Group) -> list[Row]:
        """List the rows of a group that are the stream's."""
        return [row for row in self.source.values() if self.takes(row) and self.stream.group(row) == group]


def known(at: datetime | None) -> set[datetime]:
    """Return the instants there are."""
    return set() if at is None else {at}


def fire(stream: Stream, window: Window, rows: list[Row]) -> Figures | None:
    """Compute a window over its rows in the order (ts, tbname); None where it writes nothing."""
    held = sorted(
        (r for r in rows if window.holds(r["ts"])), key=lambda r: (r["ts"], str(r.get("tbname") or ""))
    )
    return None if stream.ignore_nodata and not held else stream.calculate(held)
