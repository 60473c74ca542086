"""What a stream of TDengine's must have written, whatever its trigger, its way of emitting and its policy.

A history is commits, and instants at which the stream is run. The rules, as they stand in the documents:

- A commit is a set of changes, each the row before and the row after it. Groups have timelines of their
  own: ``newest`` is a group's newest event time, ``mark`` = newest - WATERMARK. Rows up to the mark are
  evaluated, and cut into windows in the order of time; a window of a grid closes when the mark reaches its
  end, others with the row that ends them.
- Of a written row is asked, judged by its group before the commit: has it expired (ts < newest -
  EXPIRED_TIME)? is it late (ts <= mark)?
- What a policy follows (late rows, updates, deletes) is cut and computed again: the windows that a changed
  row falls into, or that are cut otherwise because of it, from the source as it is. All others stay.
- What a policy ignores changes no window that has closed. What is open holds what the source holds when
  it closes; a late row before an open session and within its gap joins it. What COUNT_WINDOW has counted
  stays counted, whatever becomes of the row.
- EXACT: the output is that of the source as it is, taken as one commit.
- AT_ONCE shows every window as its rows are, rows within the watermark too; MAX_DELAY does when the
  delay has passed. An EVENT_WINDOW that nothing has ended gives nothing.
- IGNORE UPDATE 1 takes each rewritten row for one row more.

Times are whole seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Row = Mapping[str, Any]
Key = tuple[Any, ...]
Group = tuple[Any, ...]
Figures = tuple[Any, ...]
Span = tuple[float, float]
"""The first and the last second of a window's rows; of a window of a grid its start and its end."""


@dataclass(frozen=True)
class Grid:
    """``INTERVAL(length) SLIDING(step)``: ``[k * step, k * step + length)``."""

    length: int
    step: int


@dataclass(frozen=True)
class Instants:
    """``SLIDING(step)``: ``(k * step - step, k * step]``."""

    step: int


@dataclass(frozen=True)
class Session:
    """Rows at most ``gap`` apart."""

    gap: int


@dataclass(frozen=True)
class State:
    """A run of equal ``v``; rows without a value between two of them belong to it.

    ``extend`` 1: a run has the rows without a value behind its own, and ends a millisecond before the next
    one begins; 2: it has those before its own, and begins a millisecond behind the last one's end. Runs of
    the value ``zeroth`` give nothing.
    """

    extend: int = 0
    zeroth: int | None = None


@dataclass(frozen=True)
class Event:
    """From a row with ``v = 1`` to the first one from there on with ``v = 2``."""


@dataclass(frozen=True)
class Count:
    """``count`` rows, a window every ``step`` rows."""

    count: int
    step: int


@dataclass(frozen=True)
class Period:
    """Instants of the wall clock, every so many seconds."""

    every: int


@dataclass(frozen=True)
class EachRow:
    """A query without a window."""


Trigger = Grid | Instants | Session | State | Event | Count | Period | EachRow
Emission = Literal["close", "open", "open and close", "at once", "max delay", "by the clock", "periodic"]


@dataclass(frozen=True)
class Change:
    """A row as it was and as it is; None where there was none, or is none any more."""

    old: Row | None
    new: Row | None


@dataclass(frozen=True)
class Run:
    """The stream is run to idle, at an instant of the wall clock."""

    now: int


History = Sequence[Sequence[Change] | Run]


@dataclass(frozen=True)
class Stream:
    """A stream: what triggers it, when it emits, what it follows, and what it makes of a window's rows."""

    trigger: Trigger
    calculate: Callable[[list[Row]], Figures]
    emission: Emission = "close"
    watermark: int = 0
    follows_late: bool = True
    follows_updates: bool = True
    follows_deletes: bool = False
    exact: bool = False
    expiry: int | None = None
    counts_rewritten: bool = False
    group: Callable[[Row], Group] = lambda _row: ()
    admits: Callable[[Row], bool] = lambda _row: True
    drops_empty: bool = False
    """Whether windows of a grid without rows give nothing."""
    fill: Literal["null", "value", "prev"] | None = None
    classic: bool = False
    """The classic syntax: a session ends when its gap is over, and what has expired is a row of a closed
    window, whatever the mark."""

    @property
    def is_by_time(self) -> bool:
        """Whether windows follow from time alone."""
        return isinstance(self.trigger, Grid | Instants)


def key_of(row: Row) -> Key:
    """Return what tells rows apart; ``version`` does where a rewritten row is one row more."""
    return row["tbname"], row["ts"], row.get("k"), row.get("version", 0)


class Undetermined(Exception):  # noqa: N818 - no error: the documents leave this history open
    """What the documents leave open."""


# --- cutting -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """A window as it is cut: its span, and whether it has closed."""

    span: Span
    closed: bool
    fires: bool = True


def sessions(rows: Sequence[Row], gap: int) -> list[list[Row]]:
    """Rows at most ``gap`` apart; the last one is open."""
    found: list[list[Row]] = []
    for row in rows:
        if found and row["ts"] - found[-1][-1]["ts"] <= gap:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def states(rows: Sequence[Row]) -> list[list[Row]]:
    """Runs of equal values; the last one is open."""
    found: list[list[Row]] = []
    between: list[Row] = []
    for row in rows:
        if row["v"] is None:
            between.append(row)
            continue
        if found and found[-1][0]["v"] == row["v"]:
            found[-1] += [*between, row]
        else:
            found.append([row])
        between = []
    return found


MILLISECOND = 0.001
FOREVER = float("inf")


def pieces_of_states(trigger: State, rows: Sequence[Row], known: float | None) -> list[Piece]:
    """Runs of equal values as far as they reach; the first one begins where that is ``known``."""
    runs = states(rows)
    if trigger.extend == 2 and rows and not runs:
        return [Piece((rows[0]["ts"] if known is None else known, rows[-1]["ts"]), closed=False, fires=False)]
    found: list[Piece] = []
    at = -1
    for number, run in enumerate(runs):
        before, at = at, max(place for place, row in enumerate(rows) if row is run[-1])
        low, high = run[0]["ts"], run[-1]["ts"]
        if trigger.extend == 1:
            following = runs[number + 1][0] if number + 1 < len(runs) else None
            ends = len(rows) if following is None else next(i for i, r in enumerate(rows) if r is following)
            high = rows[ends - 1]["ts"]
            high = high if following is None else max(high, following["ts"] - MILLISECOND)
        if trigger.extend == 2:
            low = rows[before + 1]["ts"]
            low = min(low, rows[before]["ts"] + MILLISECOND) if number else low if known is None else known
        found.append(Piece((low, high), number + 1 < len(runs), run[0]["v"] != trigger.zeroth))
    return found


def events(rows: Sequence[Row]) -> tuple[list[list[Row]], list[Row]]:
    """From a row that begins to the first one from there on that ends; and what is open."""
    found: list[list[Row]] = []
    opened: list[Row] = []
    for row in rows:
        if opened or row["v"] == 1:
            opened = [*opened, row]
            if row["v"] == 2:
                found.append(opened)
                opened = []
    return found, opened


def order(trigger: Trigger) -> Callable[[Row], Any]:
    """Return the order in which rows are cut: by time, composite key, and then by what cuts."""
    if isinstance(trigger, Event):
        return lambda row: (row["ts"], row.get("k") or 0, row["v"] == 1, row["v"] == 2)
    return lambda row: (row["ts"], row.get("k") or 0, -1 if row["v"] is None else row["v"])


def cut(trigger: Trigger, rows: Sequence[Row], known: float | None = None) -> list[Piece]:
    """Cut a group's rows into windows. Of those that begin at one instant the last one counts.

    ``known`` is where the first one begins, where its rows do not tell.
    """
    rows = sorted(rows, key=order(trigger))
    if isinstance(trigger, State):
        return last_of_each_start(pieces_of_states(trigger, rows, known))
    if isinstance(trigger, Session):
        parts, is_open = sessions(rows, trigger.gap), True
    elif isinstance(trigger, Event):
        parts, rest = events(rows)
        parts, is_open = [*parts, rest] if rest else parts, bool(rest)
    else:
        assert isinstance(trigger, Count)
        starts = range(0, len(rows), trigger.step)
        parts, is_open = [rows[at : at + trigger.count] for at in starts], False
    pieces = [Piece((part[0]["ts"], part[-1]["ts"]), closed=True) for part in parts]
    if is_open and pieces:
        pieces[-1] = Piece(pieces[-1].span, closed=False)
    if isinstance(trigger, Count):
        pieces = [Piece(p.span, len(part) == trigger.count) for p, part in zip(pieces, parts, strict=True)]
    return last_of_each_start(pieces)


def last_of_each_start(pieces: list[Piece]) -> list[Piece]:
    """Leave out windows that begin where the next one does."""
    following = [*(piece.span[0] for piece in pieces[1:]), None]
    return [piece for piece, after in zip(pieces, following, strict=False) if after != piece.span[0]]


def grid(trigger: Trigger, first: int, last: int) -> list[Span]:
    """Return the windows from the earliest that ends after ``first`` on that begin up to ``last``."""
    if isinstance(trigger, Instants):
        begin = -(-first // trigger.step) * trigger.step
        return [(at - trigger.step, at) for at in range(begin, last + trigger.step, trigger.step)]
    assert isinstance(trigger, Grid)
    start = first // trigger.step * trigger.step
    while start - trigger.step + trigger.length > first:
        start -= trigger.step
    while start + trigger.length <= first:
        start += trigger.step
    return [(at, at + trigger.length) for at in range(start, last + 1, trigger.step)]


def holds(trigger: Trigger, span: Span, ts: int) -> bool:
    """Return whether an instant is in a window."""
    if isinstance(trigger, Instants):
        return span[0] < ts <= span[1]
    return span[0] <= ts < span[1] if isinstance(trigger, Grid) else span[0] <= ts <= span[1]


# --- one group -----------------------------------------------------------------------------------


@dataclass
class Touched:
    """What a commit did to one group: rows that came, those they replaced, and those that went."""

    came: list[Change] = field(default_factory=list)
    replaced: list[Row] = field(default_factory=list)
    deleted: list[Row] = field(default_factory=list)


@dataclass
class Timeline:
    """A group: how far it has come, its closed windows with the rows they were computed over."""

    stream: Stream
    newest: int | None = None
    first: int | None = None
    shown: dict[Span, list[Row]] = field(default_factory=dict)
    ignored: set[Key] = field(default_factory=set)
    """Rows that do not cut: they had expired, or were late and ignored."""
    counted: dict[Key, Row] = field(default_factory=dict)
    """Rows that were counted and that are there no more, or are others now."""
    before: int | None = None
    """The mark before the commit."""
    silent: set[Span] = field(default_factory=set)
    """Windows among those shown that give nothing."""
    opened: float | None = None
    """Where what is open begins; None before the first row."""
    known: list[Row] = field(default_factory=list)
    """The group's rows before the commit."""

    @property
    def mark(self) -> int | None:
        """Up to where rows are evaluated."""
        return None if self.newest is None else self.newest - self.stream.watermark

    def take(self, touched: Touched, rows: list[Row]) -> None:
        """Take a commit; ``rows`` are the group's rows after it."""
        stream, mark = self.stream, self.mark
        if isinstance(stream.trigger, Count) and not stream.classic:
            self.keep_counted([*touched.replaced, *touched.deleted])
        came = [change for change in touched.came if not self.has_expired(change.new)]
        expired = {key_of(change.new) for change in touched.came if change not in came and change.new}
        self.ignored |= expired
        self.ignored -= {key_of(change.new) for change in came if change.new}
        late = [change for change in came if change.new and mark is not None and change.new["ts"] <= mark]
        again = [
            change.new["ts"]
            for change in late
            if change.new and (stream.follows_updates if change.old else stream.follows_late)
        ]
        again += [
            row["ts"] for row in touched.replaced if stream.follows_updates and not self.has_expired(row)
        ]
        again += [row["ts"] for row in touched.deleted if stream.follows_deletes]
        left = [change.new for change in late if change.new and change.new["ts"] not in again]
        fresh = [change.new["ts"] for change in came if change.new and change.new not in left]
        newest = [*([] if self.newest is None else [self.newest])]
        self.before = mark
        self.newest = max([*newest, *(change.new["ts"] for change in came if change.new)], default=None)
        if self.newest is None:
            return
        if stream.is_by_time:
            self.by_time(rows, [*fresh, *self.opening(left)], again)
        else:
            self.by_rows(rows, left, again, expired)
        self.known = rows

    def keep_counted(self, gone: list[Row]) -> None:
        """Keep the rows that were counted: where no change is followed, a window goes on by them."""
        for row in gone:
            if self.mark is not None and row["ts"] <= self.mark and key_of(row) not in self.ignored:
                self.counted.setdefault(key_of(row), row)

    def has_expired(self, row: Row | None) -> bool:
        """Return whether a row is too old, as the group was before the commit."""
        expiry = self.stream.expiry
        return (
            row is not None
            and self.newest is not None
            and expiry is not None
            and (row["ts"] < self.newest - expiry)
        )

    # windows that follow from time

    def opening(self, left: list[Row]) -> list[int]:
        """Return from when on windows are there because of late rows: those that had not closed (classic)."""
        if not self.stream.classic or self.before is None or not left:
            return []
        start = grid(self.stream.trigger, self.before, self.before)[0][0]
        return [self.before] if any(row["ts"] >= start for row in left) else []

    def by_time(self, rows: list[Row], fresh: list[int], again: list[int]) -> None:
        """Fire what is due, and compute again what changes touch."""
        trigger, mark = self.stream.trigger, self.mark
        if self.stream.follows_deletes and self.first in again and self.stream.emission != "periodic":
            self.first = min((row["ts"] for row in rows if row["ts"] >= (self.first or 0)), default=None)
        self.first = min([*([] if self.first is None else [self.first]), *fresh], default=None)
        before, self.shown = self.shown, {}
        if self.first is None or mark is None:
            return
        for span in grid(trigger, self.first, mark):
            if span[1] <= mark:
                stays = span in before and not any(holds(trigger, span, ts) for ts in again)
                self.shown[span] = before[span] if stays else self.within(span, rows)

    def within(self, span: Span, rows: list[Row]) -> list[Row]:
        """Return the rows of a window."""
        return [row for row in rows if holds(self.stream.trigger, span, row["ts"])]

    # windows that are cut by rows

    def by_rows(self, rows: list[Row], left: list[Row], again: list[int], expired: set[Key]) -> None:
        """Cut what is open, and cut anew where changes that are followed touch."""
        self.leave(rows, left)
        if again:
            self.cut_again(rows, again, expired)
        evaluated = self.evaluated(rows)
        going_on = [row for row in evaluated if self.opened is None or row["ts"] >= self.opened]
        pieces = cut(self.stream.trigger, going_on, self.opened)
        for piece in pieces:
            if piece.closed and piece.span not in self.shown:
                self.show(piece, rows)
        still = [piece.span[0] for piece in pieces if not piece.closed]
        if still:
            self.opened = still[0]
        elif evaluated:
            self.opened = max(row["ts"] for row in evaluated) + MILLISECOND

    def show(self, piece: Piece, rows: list[Row]) -> None:
        """Note a window that has closed, with the rows it is computed over."""
        self.shown[piece.span] = self.content(piece.span, rows)
        self.silent -= {piece.span}
        self.silent |= set() if piece.fires else {piece.span}

    def evaluated(self, rows: list[Row]) -> list[Row]:
        """Return the rows that cut."""
        mark = self.mark
        cutting = self.cutting(rows)
        return [row for row in cutting if mark is not None and row["ts"] <= mark]

    def cutting(self, rows: list[Row]) -> list[Row]:
        """Return the rows that cut, or are going to: with those that were counted, as they were then."""
        there = [row for row in rows if key_of(row) not in self.ignored | set(self.counted)]
        return sorted([*there, *self.counted.values()], key=in_time)

    def content(self, span: Span, rows: list[Row]) -> list[Row]:
        """Return what the source holds in a window's span."""
        return self.within(span, rows)

    def leave(self, rows: list[Row], left: list[Row]) -> None:
        """Leave late rows out that are ignored, but for those of what is open."""
        if isinstance(self.stream.trigger, Count) and not self.stream.classic:
            self.ignored |= {key_of(row) for row in left}
            return
        if not left:
            return
        if not self.stream.classic:
            self.ignored |= {key_of(row) for row in left if self.opened is None or row["ts"] < self.opened}
            return
        before = {key_of(row) for row in left}
        fresh = [row for row in rows if self.before is not None and row["ts"] > self.before]
        gone = self.ignored | {key_of(row) for row in fresh}
        closed = max((span[1] for span in self.shown), default=None)
        there = [row for row in rows if (closed is None or row["ts"] > closed) and key_of(row) not in gone]
        pieces = cut(self.stream.trigger, there, None if closed is None else closed + MILLISECOND)
        open_from = [piece.span[0] for piece in pieces if not piece.closed]
        for row in left:
            is_open = any(p.span[0] <= row["ts"] <= p.span[1] for p in pieces if not p.closed)
            if not is_open and (self.opened is None or row["ts"] < self.opened or not open_from):
                self.ignored.add(key_of(row))
        if open_from and any(key in before for key in before - self.ignored):
            self.opened = min(open_from[0], open_from[0] if self.opened is None else self.opened)

    def cut_again(self, rows: list[Row], again: list[int], expired: set[Key]) -> None:
        """Cut the windows anew that changes fall into, or that are cut otherwise because of them.

        That is from the last window on that ends before them. What is cut otherwise is told by the source's
        rows before the commit and behind it, but for what has ``expired`` of this: what was left out earlier
        makes no difference now. What had expired when it came does not cut what was open.
        """
        told = [span[0] for span in self.shown if span[1] < min(again) and span not in self.silent]
        since = max(told, default=None)
        was = set(self.shown)
        if self.opened is not None and self.before is not None and self.opened <= self.before:
            was.add((self.opened, FOREVER))
        ahead = {key for key in self.ignored if self.opened is not None and key[1] >= self.opened}
        there = [row for row in rows if key_of(row) not in ahead]
        known = [row for row in self.known if key_of(row) not in ahead]
        counting = [row for row in there if key_of(row) not in expired]
        now = self.spans_of(there, self.mark, since)
        moved = self.spans_of(known, self.before, since) ^ self.spans_of(counting, self.mark, since)
        if isinstance(self.stream.trigger, Count):
            moved = set()
        region: set[Span] = {(ts, ts) for ts in again} | moved
        while more := {s for s in (now | was) - region if any(overlap(s, o) for o in region)}:
            region |= more
        opened = self.opened
        self.ignored -= {
            key_of(row)
            for row in rows
            if any(s[0] <= row["ts"] <= s[1] for s in region) and (opened is None or row["ts"] < opened)
        }
        self.counted = {
            key: row
            for key, row in self.counted.items()
            if not any(s[0] <= row["ts"] <= s[1] for s in region)
        }
        for span in [span for span in self.shown if span in region]:
            del self.shown[span]
        evaluated = [row for row in there if self.mark is not None and row["ts"] <= self.mark]
        evaluated = [row for row in evaluated if since is None or row["ts"] >= since]
        if isinstance(self.stream.trigger, Count):
            evaluated, since = self.evaluated(rows), None
        pieces = cut(self.stream.trigger, evaluated, since)
        for piece in pieces:
            if piece.closed and any(overlap(piece.span, s) for s in region):
                self.show(piece, rows)
        opening = [(piece.span[0], FOREVER) for piece in pieces if not piece.closed]
        still = [span[0] for span in opening if any(overlap(span, s) for s in region)]
        if still:
            self.opened = still[0]
        elif self.opened is not None and any(s[1] >= self.opened for s in region):
            last = max((span[1] for span in self.shown), default=None)
            self.opened = None if last is None else last + MILLISECOND

    def spans_of(self, rows: list[Row], mark: int | None, since: float | None) -> set[Span]:
        """Return the windows of all rows there are up to a mark; one that is open goes on for ever."""
        there = [
            r for r in rows if mark is not None and r["ts"] <= mark and (since is None or r["ts"] >= since)
        ]
        pieces = cut(self.stream.trigger, there, since)
        return {piece.span if piece.closed else (piece.span[0], FOREVER) for piece in pieces}

    # windows that are open

    def open_windows(self, rows: list[Row]) -> dict[Span, list[Row]]:
        """Return the windows that are open, as they stand."""
        if self.newest is None:
            return {}
        trigger = self.stream.trigger
        # In the classic syntax rows within the watermark open windows too, and an event window is not shown
        # without its end.
        ahead = self.stream.classic and self.stream.emission in ("at once", "max delay")
        last = self.newest if ahead else self.mark
        if self.stream.is_by_time:
            spans = grid(trigger, self.first, last) if self.first is not None and last is not None else []
            opened = [span for span in spans if span[0] <= (last or 0) and span not in self.shown]
            return {span: self.within(span, rows) for span in opened}
        if last is None:
            return {}
        upto = self.newest if self.stream.emission in ("at once", "max delay") else last
        cutting = [
            row
            for row in self.cutting(rows)
            if row["ts"] <= upto and (self.opened is None or row["ts"] >= self.opened)
        ]
        pieces = cut(trigger, cutting, self.opened)
        pieces = [p for p in pieces if p.fires and (p.closed or not (ahead and isinstance(trigger, Event)))]
        pieces = [p for p in pieces if p.span[0] <= last and p.span not in self.shown]
        shown = {}
        for start, end in (piece.span for piece in pieces):
            held = self.content((start, end), rows)
            # A row that was counted and went is not the last one of what is open.
            seen = max((row["ts"] for row in held), default=start)
            shown[start, seen if isinstance(trigger, Count) else end] = held
        return shown


def overlap(one: Span, other: Span) -> bool:
    """Return whether two spans have an instant in common."""
    return one[0] <= other[1] and other[0] <= one[1]


def touch(one: Span, other: Span) -> bool:
    """Return whether one of two spans begins where the other has ended."""
    return min(abs(one[0] - other[1]), abs(other[0] - one[1])) < 1.5 * MILLISECOND


# --- a whole stream ------------------------------------------------------------------------------


def written(stream: Stream, history: History, not_taken: Sequence[Row] = ()) -> list[tuple[Any, ...]]:
    """Return the output's rows after a history: group, start, end, figures. Raises Undetermined.

    ``not_taken`` are the rows before the stream's creation that it does not fill in.
    """
    source = Source(stream, not_taken)
    refuse_undetermined(stream, history)
    if stream.emission == "periodic":
        # What it leaves out at first, the next recalculation follows, as the source is: expired rows too.
        stream = replace(stream, follows_late=True, follows_updates=True, follows_deletes=True, expiry=None)
    if isinstance(stream.trigger, Period):
        return by_period(stream, source, history)
    if isinstance(stream.trigger, EachRow):
        return by_row(stream, source, history)
    if stream.emission == "by the clock":
        return by_the_clock(stream, source, history)
    timelines: defaultdict[Group, Timeline] = defaultdict(lambda: Timeline(stream))
    for event in history:
        if not isinstance(event, Run):
            touched = source.take(event)
            for group, changes in touched.items():
                timelines[group].take(changes, source.rows(group))
    if stream.exact:
        timelines = at_one_blow(stream, source)
    return [
        row
        for group, timeline in timelines.items()
        for row in emitted(stream, group, timeline, source.rows(group))
    ]


def emitted(stream: Stream, group: Group, timeline: Timeline, rows: list[Row]) -> list[tuple[Any, ...]]:
    """Return the output's rows of a group by the way of emitting."""
    closed = {span: held for span, held in timeline.shown.items() if span not in timeline.silent}
    opened = timeline.open_windows(rows)
    if stream.emission in ("at once", "max delay"):
        return results(stream, group, closed | opened)
    if stream.emission == "open":
        return results(stream, group, closed | opened, opening=True)
    if stream.emission == "open and close":
        return results(stream, group, closed) + results(stream, group, opened, opening=True)
    return results(stream, group, closed)


def refuse_undetermined(stream: Stream, history: History) -> None:
    """Raise Undetermined for what no document says."""
    deletes = any(change.new is None for event in history if not isinstance(event, Run) for change in event)
    if not deletes or stream.exact or stream.follows_deletes or stream.emission == "periodic":
        return
    # At a closing a window holds what there is, and what is cut as it comes is cut as it goes.
    if stream.emission != "close" or isinstance(stream.trigger, Count | Period | EachRow):
        raise Undetermined("a delete that triggers nothing, in a window that is open or was shown before")


def at_one_blow(stream: Stream, source: Source) -> defaultdict[Group, Timeline]:
    """Return the groups of a source whose rows came by one commit."""
    timelines: defaultdict[Group, Timeline] = defaultdict(lambda: Timeline(stream))
    for group in source.groups():
        rows = source.rows(group)
        timelines[group].take(Touched([Change(None, row) for row in rows]), rows)
    return timelines


class Source:
    """The rows there are, of which a stream takes those that its condition admits."""

    def __init__(self, stream: Stream, not_taken: Sequence[Row]) -> None:
        self.stream = stream
        self.not_taken = {key_of(row): row for row in not_taken}
        self.all: dict[Key, Row] = {**self.not_taken}
        self.versions = 0

    def takes(self, row: Row) -> bool:
        """Return whether a row is the stream's."""
        return self.stream.admits(row) and self.not_taken.get(key_of(row)) != row

    def take(self, commit: Sequence[Change]) -> dict[Group, Touched]:
        """Put a commit into the source; return what it did to each group."""
        touched: defaultdict[Group, Touched] = defaultdict(Touched)
        stream = self.stream
        for change in commit:
            old, new = change.old, change.new
            if stream.counts_rewritten and old is not None and new is not None:
                self.versions += 1
                old, new = None, {**new, "version": self.versions}
            if old is not None:
                self.all.pop(key_of(old), None)
            if new is not None:
                self.all[key_of(new)] = new
            if old is not None and self.takes(old):
                into = touched[stream.group(old)]
                (into.replaced if new is not None else into.deleted).append(old)
            if new is not None and self.takes(new):
                touched[stream.group(new)].came.append(Change(old, new))
        return touched

    def rows(self, group: Group) -> list[Row]:
        """Return a group's rows in the order of time."""
        rows = (row for row in self.all.values() if self.takes(row))
        return sorted((r for r in rows if self.stream.group(r) == group), key=in_time)

    def groups(self) -> set[Group]:
        """Return the groups that have rows."""
        return {self.stream.group(row) for row in self.all.values() if self.takes(row)}


def in_time(row: Row) -> Any:
    """Return the order of rows: of one time in that of their tables."""
    return row["ts"], row["tbname"], row.get("k") or 0


def results(
    stream: Stream, group: Group, shown: Mapping[Span, list[Row]], *, opening: bool = False
) -> list[tuple[Any, ...]]:
    """Return the output's rows of a group's windows; at the ``opening`` a window ends where it starts."""
    found: list[tuple[Any, ...]] = []
    gap = stream.trigger.gap if stream.classic and isinstance(stream.trigger, Session) else 0
    last: Figures | None = None
    nothing: Figures = tuple(None for _ in stream.calculate([]))
    for (start, end), rows in sorted(shown.items()):
        figures: Figures | None = stream.calculate(rows)
        if not rows:
            filled = {"null": nothing, "value": tuple(7 for _ in nothing), "prev": last}
            figures = filled[stream.fill] if stream.fill else None if stream.drops_empty else figures
        if rows:
            last = figures
        if figures is not None:
            found.append((*group, start, start if opening else end + gap, *figures))
    return found


# --- the wall clock ------------------------------------------------------------------------------


def by_the_clock(stream: Stream, source: Source, history: History) -> list[tuple[Any, ...]]:
    """FORCE_WINDOW_CLOSE: each window is computed once, at the first run at or behind its end."""
    shown: defaultdict[Group, dict[Span, list[Row]]] = defaultdict(dict)
    firsts: dict[Group, int] = {}
    before = 0
    for event in history:
        if not isinstance(event, Run):
            source.take(event)
            continue
        for group in source.groups():
            rows = source.rows(group)
            first = firsts.setdefault(group, rows[0]["ts"])
            for span in grid(stream.trigger, first, event.now):
                if before < span[1] <= event.now:
                    shown[group][span] = [row for row in rows if holds(stream.trigger, span, row["ts"])]
        before = event.now
    return [row for group, windows in shown.items() for row in results(stream, group, windows)]


def by_period(stream: Stream, source: Source, history: History) -> list[tuple[Any, ...]]:
    """PERIOD: at each instant what was written since the one before; of several passed, the last."""
    assert isinstance(stream.trigger, Period)
    every = stream.trigger.every
    since, before = set[Key](), 0
    groups: set[Group] = set()
    found: list[tuple[Any, ...]] = []
    for event in history:
        if not isinstance(event, Run):
            source.take(event)
            wrote = {key_of(change.new) for change in event if change.new is not None}
            gone = {key_of(change.old) for change in event if change.old is not None} - wrote
            if wrote & since or gone & since or any(change.new is None for change in event):
                raise Undetermined("a row written twice, or written and taken away, between two instants")
            since |= wrote
            continue
        instant = event.now // every * every
        if instant > before:
            groups |= source.groups()
            for group in groups:
                rows = [row for row in source.rows(group) if key_of(row) in since]
                if rows or not stream.drops_empty:
                    found.append((*group, instant, instant, *stream.calculate(rows)))
            since, before = set(), instant
    return found


def by_row(stream: Stream, source: Source, history: History) -> list[tuple[Any, ...]]:
    """Each row by itself: an update replaces it, a delete leaves what was written."""
    shown: dict[tuple[Group, Key], Row] = {}
    for event in history:
        for group, touched in ({} if isinstance(event, Run) else source.take(event)).items():
            for old in touched.replaced:
                shown.pop((group, key_of(old)), None)
            for change in touched.came:
                if change.new is not None:
                    shown[group, key_of(change.new)] = change.new
    if len({(group, row["ts"]) for (group, _), row in shown.items()}) < len(shown):
        raise Undetermined("rows of one time in one table, whose key is the time")
    return [(*group, row["ts"], row["ts"], *stream.calculate([row])) for (group, _), row in shown.items()]
