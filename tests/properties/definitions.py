"""Random streams: what both sides make of one, as a statement and as a value of the reference."""

from __future__ import annotations

from calendar import day_name, month_name
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal
from zoneinfo import ZoneInfo

from tests.reference.aggregates import figures
from tests.reference.fold import Stream
from tests.reference.grid import NOTHING, Calendar, Interval, Sliding, Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.reference.fold import Group, Row
    from tests.reference.grid import Trigger

Grouping = Literal["none", "table", "tag", "expression", "table and tag"]

ZONES = ("UTC", "Europe/Berlin", "America/New_York")
LOCATIONS = {"t1": "A", "t2": "B", "t3": "A"}
START = datetime(2025, 3, 29, 22, 59, 50, tzinfo=UTC)
"""Ten seconds before a midnight in Berlin that begins a day of 23 hours."""

Figure = tuple[str, str]
COMBINED: tuple[Figure, ...] = (
    ("count", "*"),
    ("count", "v"),
    ("sum", "v"),
    ("min", "v"),
    ("max", "v"),
    ("avg", "x"),
    ("sum", "x"),
)
"""What a window can make of the figures of its parts."""
FIGURES: tuple[Figure, ...] = (*COMBINED, ("first", "v"), ("last", "v"))
WHOLE: tuple[Figure, ...] = (("count", "*"), ("count distinct", "v"), ("first", "v"), ("last", "v"))
"""What needs all rows of a window at once."""

AGGREGATES = {
    **{name: f"{name}({{}})" for name in ("count", "sum", "min", "max", "avg", "first", "last")},
    "count distinct": "count(DISTINCT {})",
}
"""How an aggregate of the reference is written."""

GROUPINGS: dict[Grouping, tuple[str, tuple[str, ...], Callable[[Row], Group]]] = {
    "none": ("", (), lambda _row: ()),
    "table": ("PARTITION BY tbname", ("tag_tbname",), lambda row: (row["tbname"],)),
    "tag": ("PARTITION BY loc", ("loc",), lambda row: (row["loc"],)),
    "expression": ("PARTITION BY v % 2 AS parity", ("parity",), lambda row: (parity(row["v"]),)),
    "table and tag": ("PARTITION BY tbname, loc", ("tag_tbname", "loc"), lambda r: (r["tbname"], r["loc"])),
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
    triggers: tuple[Trigger, ...]
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
        Calendar("WEEK", weekday=6),
        Calendar("MONTH", day=25),
        Calendar("QUARTER", month=2),
        Calendar("YEAR", month=4, day=6),
        sliding("2d"),
        sliding("1w"),
    ),
    (NOTHING, Span(1, "d"), Span(12, "h")),
)


@dataclass(frozen=True)
class Definition:
    """A stream ``s`` over ``meters`` into ``o``."""

    trigger: Trigger
    grouping: Grouping = "none"
    watermark: Span = NOTHING
    pre_filter: bool = False
    ignore_nodata: bool = False
    zone: str = "UTC"
    fill_history: bool = False
    ignore_disorder: bool = False
    expired_time: Span = NOTHING
    delete_recalc: bool = False
    exact: bool = False
    figures: tuple[Figure, ...] = FIGURES

    def statement(self) -> str:
        """Return the CREATE STREAM."""
        columns = ", ".join(AGGREGATES[name].format(column) for name, column in self.figures)
        options = " | ".join(self.options())
        return (
            f"CREATE STREAM s {clause(self.trigger)} FROM meters {GROUPINGS[self.grouping][0]} "
            + (f"STREAM_OPTIONS({options}) " if options else "")
            + f"INTO o (ts_end, ts_start, {self._names()}) "
            + f"AS SELECT {bounds(self.trigger)}, {columns} FROM %%trows"
        )

    def options(self) -> list[str]:
        """Return the STREAM_OPTIONS."""
        return [
            *[f"WATERMARK({self.watermark})"] * bool(self.watermark.value),
            *[f"EXPIRED_TIME({self.expired_time})"] * bool(self.expired_time.value),
            *["PRE_FILTER(v >= 10)"] * self.pre_filter,
            *["IGNORE_NODATA_TRIGGER"] * self.ignore_nodata,
            *["IGNORE_DISORDER"] * self.ignore_disorder,
            *["DELETE_RECALC"] * self.delete_recalc,
            *["EXACT"] * self.exact,
            *["FILL_HISTORY"] * self.fill_history,
        ]

    def query(self) -> str:
        """Return the SELECT that reads the output."""
        return f"SELECT {', '.join(self.columns())} FROM o"

    def columns(self) -> list[str]:
        """Return the output's columns in the order of the reference: group, start, end, figures."""
        return [*GROUPINGS[self.grouping][1], "ts_start", "ts_end", *self._names().split(", ")]

    def _names(self) -> str:
        return ", ".join(f"f{n}" for n in range(len(self.figures)))

    def uses(self) -> set[str]:
        """Return the columns that the statement uses: a change of another one is none."""
        computed = {column for _, column in self.figures if column != "*"}
        by_value = self.pre_filter or self.grouping == "expression"
        by_tag = self.grouping in ("tag", "table and tag")
        return {"tbname", "ts"} | computed | ({"v"} if by_value else set()) | ({"loc"} if by_tag else set())

    def stream(self) -> Stream:
        """Return the stream as the reference knows it."""
        return Stream(
            self.trigger,
            figures(*self.figures),
            group=GROUPINGS[self.grouping][2],
            watermark=elapsed(self.watermark),
            admits=(lambda row: row["v"] is not None and row["v"] >= 10)
            if self.pre_filter
            else (lambda _: True),
            ignore_nodata=self.ignore_nodata,
            zone=ZoneInfo(self.zone),
            ignore_disorder=self.ignore_disorder,
            expired_time=elapsed(self.expired_time) if self.expired_time.value else None,
            delete_recalc=self.delete_recalc,
            exact=self.exact,
        )


def elapsed(span: Span) -> timedelta:
    """Return the length of a span from the first row's time on."""
    return span.after(START) - START


def clause(trigger: Trigger) -> str:
    """Return a trigger as it is written in a statement."""
    if isinstance(trigger, Calendar):
        return f"CALENDAR({trigger.unit} FROM {start(trigger)})"
    offset = f", {trigger.offset}" if trigger.offset.value else ""
    if isinstance(trigger, Interval):
        return f"INTERVAL({trigger.length}{offset}) SLIDING({trigger.step})"
    return f"SLIDING({trigger.step}{offset})"


def start(trigger: Calendar) -> str:
    """Return where a unit of the calendar begins, as FROM names it."""
    month = month_name[trigger.month].upper()
    starts = {"WEEK": day_name[trigger.weekday].upper(), "MONTH": f"{trigger.day}", "QUARTER": month}
    return starts.get(trigger.unit, f"{month} {trigger.day}")


def bounds(trigger: Trigger) -> str:
    """Return the placeholders of a window's end and start: the end names a window, and comes first."""
    return "_tcurrent_ts, _tprev_ts" if isinstance(trigger, Sliding) else "_twend, _twstart"
