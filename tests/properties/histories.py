"""Random streams with random histories: what hypothesis draws, and what both sides make of it.

An :class:`Example` is told to lakestream as statements and commits (:mod:`tests.properties.driving`) and
to the reference as values (:func:`expected`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from tests.reference.aggregates import figures
from tests.reference.fold import Change, Stream, evaluate
from tests.reference.grid import NOTHING, Interval, Sliding, Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.reference.fold import Group, Row

Grouping = Literal["none", "table", "tag", "expression", "table and tag"]
Cell = dict[str, Any]

LOCATIONS = {"t1": "A", "t2": "B", "t3": "A"}
START = datetime(2025, 3, 29, 22, 59, 50, tzinfo=UTC)
"""Ten seconds before a midnight in Berlin that begins a day of 23 hours."""

FIGURES = [
    ("count", "*"),
    ("count", "v"),
    ("sum", "v"),
    ("min", "v"),
    ("max", "v"),
    ("avg", "x"),
    ("sum", "x"),
    ("first", "v"),
    ("last", "v"),
]

GROUPINGS: dict[Grouping, tuple[str, str, Callable[[Row], Group]]] = {
    "none": ("", "", lambda _row: ()),
    "table": ("PARTITION BY tbname", "tag_tbname", lambda row: (row["tbname"],)),
    "tag": ("PARTITION BY loc", "loc", lambda row: (row["loc"],)),
    "expression": ("PARTITION BY v % 2 AS parity", "parity", lambda row: (parity(row["v"]),)),
    "table and tag": ("PARTITION BY tbname, loc", "tag_tbname, loc", lambda r: (r["tbname"], r["loc"])),
}
"""The clause, the output columns that name the group, and the group of a row."""


def parity(value: int | None) -> int | None:
    """Return SQL's ``v % 2`` of a value that is not negative."""
    return None if value is None else value % 2


@dataclass(frozen=True)
class Scale:
    """Durations that belong together: rows lie up to twice ``steps`` of ``tick`` apart."""

    tick: timedelta
    steps: int
    triggers: tuple[Interval | Sliding, ...]
    watermarks: tuple[Span, ...]


def interval(length: str, step: str, offset: str = "0s") -> Interval:
    """Return ``INTERVAL(length, offset) SLIDING(step)``."""
    return Interval(Span.of(length), Span.of(step), Span.of(offset))


def sliding(step: str, offset: str = "0s") -> Sliding:
    """Return ``SLIDING(step, offset)``."""
    return Sliding(Span.of(step), Span.of(offset))


SECONDS = Scale(
    timedelta(milliseconds=500),
    16,
    (
        interval("10s", "10s"),
        interval("10s", "5s"),
        interval("10s", "3s"),
        interval("7s", "2s", "1s"),
        interval("10s", "10s", "2s"),
        interval("4s", "10s"),
        interval("1s", "1s", "500a"),
        interval("2500a", "1500a"),
        sliding("10s"),
        sliding("7s"),
        sliding("10s", "3s"),
        sliding("1500a"),
    ),
    (NOTHING, Span(1, "s"), Span(5, "s"), Span(12, "s")),
)
HOURS = Scale(
    timedelta(minutes=30),
    14,
    (
        interval("6h", "6h"),
        interval("5h", "2h", "1h"),
        interval("1d", "1d"),
        interval("2d", "1d"),
        interval("1d", "1d", "8h"),
        sliding("7h"),
        sliding("330m", "1m"),
        sliding("6h"),
        sliding("1d"),
    ),
    (NOTHING, Span(2, "h"), Span(90, "m")),
)
DAYS = Scale(
    timedelta(hours=6),
    60,
    (
        interval("1w", "1w"),
        interval("2w", "1w"),
        interval("3d", "3d"),
        interval("1n", "1n"),
        interval("3n", "1n"),
        interval("1y", "1y"),
        sliding("2d"),
        sliding("1w"),
    ),
    (NOTHING, Span(1, "d"), Span(12, "h")),
)


@dataclass(frozen=True)
class Example:
    """A stream and its history: ``commits`` of rows, the ticks and restarts between them."""

    trigger: Interval | Sliding
    grouping: Grouping
    watermark: Span
    pre_filter: bool
    ignore_nodata: bool
    zone: str
    commits: tuple[tuple[Cell, ...], ...]
    before: int
    """How many commits are there when the stream is created, FILL_HISTORY taking them in."""
    ticks: frozenset[int]
    reopens: frozenset[int]
    transport: Literal["arrow", "spark", "auto"] = "arrow"

    def __str__(self) -> str:
        lines = [f"{self.statement()}  -- {self.zone}, {self.transport}, created after {self.before} commits"]
        for number, commit in enumerate(self.commits):
            done = " tick" * (number in self.ticks) + " reopen" * (number in self.reopens)
            cells = (f"{r['tbname']} {r['ts']:%m-%d %H:%M:%S.%f} v={r['v']} x={r['x']}" for r in commit)
            lines.append(f"commit {number}: " + "; ".join(cells) + (f"  ->{done}" if done else ""))
        return "\n".join(lines)

    def statement(self) -> str:
        """Return the CREATE STREAM."""
        watermark = [f"WATERMARK({self.watermark})"] if self.watermark.value else []
        options = [
            *watermark,
            *["PRE_FILTER(v >= 10)"] * self.pre_filter,
            *["IGNORE_NODATA_TRIGGER"] * self.ignore_nodata,
            *["FILL_HISTORY"] * (self.before > 0),
        ]
        columns = ", ".join(f"{name}({column})" for name, column in FIGURES)
        names = ", ".join(f"f{n}" for n in range(len(FIGURES)))
        return (
            f"CREATE STREAM s {clause(self.trigger)} FROM meters {GROUPINGS[self.grouping][0]} "
            + (f"STREAM_OPTIONS({' | '.join(options)}) " if options else "")
            + f"INTO o (ts_end, ts_start, {names}) "
            + f"AS SELECT {bounds(self.trigger)}, {columns} FROM %%trows"
        )

    def query(self) -> str:
        """Return the SELECT that reads the output: group, start, end, figures."""
        group = GROUPINGS[self.grouping][1]
        names = ", ".join(f"f{n}" for n in range(len(FIGURES)))
        return f"SELECT {group + ', ' if group else ''}ts_start, ts_end, {names} FROM o"


def clause(trigger: Interval | Sliding) -> str:
    """Return a trigger as it is written in a statement."""
    offset = f", {trigger.offset}" if trigger.offset.value else ""
    if isinstance(trigger, Interval):
        return f"INTERVAL({trigger.length}{offset}) SLIDING({trigger.step})"
    return f"SLIDING({trigger.step}{offset})"


def bounds(trigger: Interval | Sliding) -> str:
    """Return the placeholders of a window's end and start: the end names a window, and comes first."""
    return "_twend, _twstart" if isinstance(trigger, Interval) else "_tcurrent_ts, _tprev_ts"


def expected(example: Example) -> list[tuple[Any, ...]]:
    """Return what the reference says the stream has written after the whole history."""
    stream = Stream(
        example.trigger,
        figures(*FIGURES),
        group=GROUPINGS[example.grouping][2],
        watermark=example.watermark.after(START) - START,
        admits=(lambda row: row["v"] is not None and row["v"] >= 10)
        if example.pre_filter
        else (lambda _: True),
        ignore_nodata=example.ignore_nodata,
        zone=ZoneInfo(example.zone),
    )
    changes = [[Change(row) for row in commit] for commit in example.commits]
    # History is the source as it is when the stream is created: of a key, what was written last.
    history = {stream.key(c.row): c for commit in changes[: example.before] for c in commit}
    return evaluate(stream, [list(history.values()), *changes[example.before :]])


@st.composite
def examples(draw: st.DrawFn, *, disorder: bool) -> Example:
    """Draw an example; without ``disorder`` no row is late and no key is written twice."""
    scale = draw(st.sampled_from((SECONDS, SECONDS, HOURS, DAYS)))
    grouping = draw(st.sampled_from(tuple(GROUPINGS)))
    watermark = draw(st.sampled_from(scale.watermarks))
    arriving = draw(arrivals(draw(rows_of(scale)), watermark.after(START) - START))
    if grouping in ("table", "table and tag"):
        arriving = draw(tables_apart(arriving))
    if disorder:
        arriving = draw(disordered(arriving))
    commits = draw(cut(arriving))
    numbers = range(len(commits))
    return Example(
        trigger=draw(st.sampled_from(scale.triggers)),
        grouping=grouping,
        watermark=watermark,
        pre_filter=draw(st.booleans()),
        ignore_nodata=draw(st.booleans()),
        zone=draw(st.sampled_from(("UTC", "Europe/Berlin", "America/New_York"))),
        commits=commits,
        before=draw(st.sampled_from((0, 0, 0, len(commits) // 2, len(commits)))),
        ticks=frozenset(draw(st.sets(st.sampled_from(numbers), max_size=4))),
        reopens=frozenset(draw(st.sets(st.sampled_from(numbers), max_size=1))),
    )


@st.composite
def rows_of(draw: st.DrawFn, scale: Scale) -> list[Cell]:
    """Draw rows of up to three tables in time order, no key twice."""
    at = START
    gaps = st.sampled_from((0, 1, 3, scale.steps // 4, scale.steps // 2, scale.steps, 2 * scale.steps))
    rows: dict[tuple[str, datetime], Cell] = {}
    for _ in range(draw(st.integers(4, 20))):
        at += scale.tick * draw(gaps)
        table = draw(st.sampled_from(tuple(LOCATIONS)))
        rows[table, at] = draw(cell(table, at))
    return list(rows.values())


@st.composite
def cell(draw: st.DrawFn, table: str, at: datetime) -> Cell:
    """Draw one row of a table at an instant."""
    value = draw(st.none() | st.integers(0, 99))
    share = draw(st.sampled_from((0.5, 0.1, 1e6, -3.25, None)))
    return {"tbname": table, "loc": LOCATIONS[table], "ts": at, "v": value, "x": share}


@st.composite
def tables_apart(draw: st.DrawFn, rows: list[Cell]) -> list[Cell]:
    """Move whole tables in time: where each is a group, only its own order counts."""
    span = max(row["ts"] for row in rows) - START
    shift = {table: span * draw(st.integers(-1, 1)) for table in LOCATIONS}
    return [{**row, "ts": row["ts"] + shift[row["tbname"]]} for row in rows]


@st.composite
def arrivals(draw: st.DrawFn, rows: list[Cell], watermark: timedelta) -> list[Cell]:
    """Put rows into an order of arrival in which none is late: each comes less than WATERMARK behind."""
    delays = [watermark * draw(st.integers(0, 7)) / 8 for _ in rows]
    order = sorted(range(len(rows)), key=lambda n: (rows[n]["ts"] + delays[n], n))
    return [rows[n] for n in order]


@st.composite
def disordered(draw: st.DrawFn, rows: list[Cell]) -> list[Cell]:
    """Let some rows come at any later time, and write some keys again with other values."""
    order = list(rows)
    for row in rows:
        if draw(st.integers(0, 3)) == 3:
            order.remove(row)
            order.insert(draw(st.integers(0, len(order))), row)
        if draw(st.integers(0, 5)) == 5:
            after = order.index(row) + 1
            order.insert(draw(st.integers(after, len(order))), draw(cell(row["tbname"], row["ts"])))
    return order


@st.composite
def cut(draw: st.DrawFn, rows: list[Cell]) -> tuple[tuple[Cell, ...], ...]:
    """Cut rows into commits, anywhere, but between two writes of one key."""
    commits: list[list[Cell]] = []
    for row in rows:
        keys = {(r["tbname"], r["ts"]) for r in commits[-1]} if commits else set()
        if not commits or (row["tbname"], row["ts"]) in keys or draw(st.booleans()):
            commits.append([])
        commits[-1].append(row)
    return tuple(tuple(commit) for commit in commits)
