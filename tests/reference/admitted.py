"""What a stream that leaves late rows out must have written: row by row, as eKuiper goes about it.

A commit's rows are judged against the mark before it: newest time seen - tolerance. One that is older is
gone for good. The others wait until the mark moves to or past them, and are then handed to their key's
window in order of time (rows of one time: those of earlier commits first). The rules of the windows stand
with each. Times are whole numbers of any unit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

END = 10**15
"""A mark that no row comes after: FLUSH STREAM."""


@dataclass(frozen=True)
class Row:
    """A row: its time, key and value."""

    ts: int
    key: str
    x: int


@dataclass(frozen=True)
class Window:
    """A window that was output: its bounds as its functions tell them, and its rows."""

    start: int
    end: int
    rows: tuple[Row, ...]


class Rule(ABC):
    """The windows of one key."""

    @abstractmethod
    def take(self, row: Row) -> Iterator[Window]:
        """Take the next row in order; give the windows that it ends."""

    @abstractmethod
    def move(self, mark: int) -> Iterator[Window]:
        """Move the mark; give the windows that are over by it. All rows up to the mark have been taken."""


def written(
    commits: Sequence[Sequence[Row]], tolerance: int, make: Callable[[], Rule], *, flushed: bool = True
) -> list[Window]:
    """Return all windows of a history, with those that FLUSH STREAM ends if it was ``flushed``."""
    rules: dict[str, Rule] = {}
    waiting: list[Row] = []
    newest: int | None = None
    found: list[Window] = []

    def advance(mark: int) -> None:
        ready = sorted((row for row in waiting if row.ts <= mark), key=lambda row: row.ts)
        waiting[:] = [row for row in waiting if row.ts > mark]
        for row in ready:
            found.extend(rules.setdefault(row.key, make()).take(row))
        for rule in rules.values():
            found.extend(rule.move(mark))

    for commit in commits:
        waiting += [row for row in commit if newest is None or row.ts >= newest - tolerance]
        before, newest = newest, max([row.ts for row in commit] + ([] if newest is None else [newest]))
        if newest != before:
            advance(newest - tolerance)
    if flushed:
        advance(END)
    return found


@dataclass
class Grid(Rule):
    """``[end - length, end)`` for every multiple ``end`` of ``step``; over when the mark reaches the end."""

    length: int
    step: int
    rows: list[Row] = field(default_factory=list)
    done: set[int] = field(default_factory=set)

    def take(self, row: Row) -> Iterator[Window]:
        self.rows.append(row)
        yield from ()

    def move(self, mark: int) -> Iterator[Window]:
        ends = {
            end
            for row in self.rows
            for end in range(row.ts // self.step * self.step + self.step, row.ts + self.length + 1, self.step)
        }
        for end in sorted(ends - self.done):
            if end <= mark:
                inside = tuple(row for row in self.rows if end - self.length <= row.ts < end)
                self.done.add(end)
                yield Window(end - self.length, end, inside)


@dataclass
class Slide(Rule):
    """For each row that triggers ``[t - length, t]``, or with a delay ``[t - length, t + delay)``."""

    length: int
    delay: int = 0
    triggers: Callable[[Row], bool] = lambda _row: True
    rows: list[Row] = field(default_factory=list)
    pending: list[Row] = field(default_factory=list)

    def take(self, row: Row) -> Iterator[Window]:
        self.rows.append(row)
        if self.triggers(row):
            self.pending.append(row)
        yield from ()

    def move(self, mark: int) -> Iterator[Window]:
        over = [row for row in self.pending if row.ts + self.delay <= mark]
        self.pending = [row for row in self.pending if row.ts + self.delay > mark]
        for row in over:
            start, end = row.ts - self.length, row.ts + self.delay
            last = end - 1 if self.delay else end
            yield Window(start, end, tuple(r for r in self.rows if start <= r.ts <= last))


@dataclass
class Session(Rule):
    """Gaps up to ``timeout``; cut at the first multiple of ``longest`` at which it is older than that."""

    longest: int
    timeout: int
    rows: list[Row] = field(default_factory=list)

    def _close(self) -> Window:
        window = Window(self.rows[0].ts, min(self._limit, self.rows[-1].ts + self.timeout), tuple(self.rows))
        self.rows = []
        return window

    @property
    def _limit(self) -> int:
        start = self.rows[0].ts
        limit = start // self.longest * self.longest
        while limit - start <= self.longest:
            limit += self.longest
        return limit

    def take(self, row: Row) -> Iterator[Window]:
        if self.rows and (row.ts - self.rows[-1].ts > self.timeout or row.ts >= self._limit):
            yield self._close()
        self.rows.append(row)

    def move(self, mark: int) -> Iterator[Window]:
        if self.rows and (mark > self.rows[-1].ts + self.timeout or mark >= self._limit):
            yield self._close()


def _between(rows: Sequence[Row]) -> Window:
    return Window(rows[0].ts, rows[-1].ts, tuple(rows))


@dataclass
class Latest(Rule):
    """Every ``step`` rows the latest ``count``, once there are so many; at the end those since then.

    Start and end are when it is output: at the time of its last row.
    """

    count: int
    step: int
    rows: list[Row] = field(default_factory=list)

    def take(self, row: Row) -> Iterator[Window]:
        self.rows.append(row)
        if len(self.rows) % self.step == 0 and len(self.rows) >= self.count:
            yield self._output(self.rows[-self.count :])

    def _output(self, rows: Sequence[Row]) -> Window:
        return Window(rows[-1].ts, rows[-1].ts, tuple(rows))

    def move(self, mark: int) -> Iterator[Window]:
        total = len(self.rows)
        if mark == END and (total % self.step or total < self.count):
            following = max(total // self.step + 1, -(-self.count // self.step)) * self.step
            if rest := self.rows[max(following - self.count, 0) :]:
                yield self._output(rest)


@dataclass
class Span(Rule):
    """From a row that begins to the first later one that ends, or to before the next that begins.

    It ends at the time of the row that ends it, which is the first of the next one in the second case.
    """

    begins: Callable[[Row], bool]
    ends: Callable[[Row], bool] | None = None
    rows: list[Row] = field(default_factory=list)

    def take(self, row: Row) -> Iterator[Window]:
        if self.ends is None:
            if self.begins(row) and self.rows:
                yield Window(self.rows[0].ts, row.ts, tuple(self.rows))
                self.rows = []
        elif self.rows and self.ends(row):
            yield _between([*self.rows, row])
            self.rows = []
            return
        if self.rows or self.begins(row):
            self.rows.append(row)

    def move(self, mark: int) -> Iterator[Window]:
        if mark == END and self.rows:
            yield _between(self.rows)
            self.rows = []
