"""Rows of far years, numbers that are none and rows without a time: no stream stops for them.

Each kind of window runs over two groups, one of which gets such a row; what it gives is worked out here in
plain Python.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, ManualClock, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
TEN = 10 * SECOND


def at(*moment: int) -> int:
    """Return an instant as microseconds since 1970 UTC."""
    return (datetime(*moment, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)  # type: ignore[misc, arg-type]


START = at(2025, 1, 1)


@dataclass(frozen=True)
class Row:
    """A row: its time (µs; None: none), its group, a state of 1 or 2, and a number."""

    at: int
    group: int
    state: int
    number: float
    has_time: bool = True


Rows = list[Row]
Window = tuple[int, int]
"""The start of a window (µs) and how many rows it holds."""


def good(*rows: tuple[int, int, int]) -> Rows:
    return [Row(START + second * SECOND, group, state, second) for second, group, state in rows]


FIRST = good((1, 1, 1), (2, 1, 2), (5, 1, 1), (6, 2, 1), (12, 1, 2), (13, 2, 2), (23, 1, 1), (24, 2, 1))
THEN = good((41, 1, 1), (42, 2, 1), (55, 1, 2), (56, 2, 2), (71, 1, 1), (72, 2, 1))
NOW = START + 33 * SECOND
STRANGE = {
    "the first year": Row(at(1, 1, 1), 1, 2, 0.5),
    "the year 1600": Row(at(1600, 5, 5), 1, 2, 0.5),
    "the year 2300": Row(at(2300, 5, 5), 1, 2, 0.5),
    "the last second": Row(at(9999, 12, 31, 23, 59, 59), 1, 2, 0.5),
    "not a number": Row(NOW, 1, 2, float("nan")),
    "infinity": Row(NOW, 1, 2, float("inf")),
    "less than all": Row(NOW, 1, 2, float("-inf")),
    "no time": Row(0, 1, 2, 0.5, has_time=False),
}


# --- what there should be: windows of a group's rows, in the order of time ---


def tumbling(rows: Rows) -> list[Window]:
    found = groupby(rows, lambda row: row.at - row.at % TEN)
    return [(start, len([*held])) for start, held in found if rows[-1].at - start >= TEN]


def years(rows: Rows) -> list[Window]:
    """Every year from the first row's on, up to that of the last row, which has not ended."""
    held = {year: len([*found]) for year, found in groupby(rows, year_of)}
    every = range(year_of(rows[0]), year_of(rows[-1]))
    return [(at(year, 1, 1), held.get(year, 0)) for year in every]


def year_of(row: Row) -> int:
    return (EPOCH + timedelta(microseconds=row.at)).year


def instants(rows: Rows) -> list[Window]:
    """Each instant that has rows of the ten seconds up to it, by the start of these."""
    found = groupby(rows, lambda row: (row.at - 1) - (row.at - 1) % TEN)
    return [(start, len([*held])) for start, held in found if rows[-1].at >= start + TEN]


def runs(rows: Rows, ends: Callable[[Row, Row], bool]) -> list[Window]:
    found: list[Rows] = [[rows[0]]]
    for one, other in pairwise(rows):
        if ends(one, other):
            found.append([])
        found[-1].append(other)
    return [(run[0].at, len(run)) for run in found[:-1]]


def sessions(rows: Rows) -> list[Window]:
    return runs(rows, lambda one, other: other.at - one.at > 5 * SECOND)


def states(rows: Rows) -> list[Window]:
    return runs(rows, lambda one, other: one.state != other.state)


def events(rows: Rows) -> list[Window]:
    """From a row of state 1 to the next one of state 2."""
    found: list[Window] = []
    opened: Rows = []
    for row in rows:
        if opened or row.state == 1:
            opened.append(row)
        if opened and row.state == 2:
            found.append((opened[0].at, len(opened)))
            opened = []
    return found


def counts(rows: Rows) -> list[Window]:
    return [(one.at, 2) for one, _ in zip(rows[::2], rows[1::2], strict=False)]


KINDS: dict[str, tuple[str, Callable[[Rows], list[Window]]]] = {
    "tumbling": ("INTERVAL(10s) SLIDING(10s)|IGNORE_NODATA_TRIGGER", tumbling),
    "years": ("INTERVAL(1y) SLIDING(1y)", years),
    "instants": ("SLIDING(10s)|IGNORE_NODATA_TRIGGER", instants),
    "sessions": ("SESSION(at, 5s)", sessions),
    "states": ("STATE_WINDOW(s)", states),
    "events": ("EVENT_WINDOW(START WITH s = 1 END WITH s = 2)", events),
    "counts": ("COUNT_WINDOW(2)", counts),
}
"""The trigger, with an option behind it, and the windows of a group."""


def expected(kind: str, rows: Rows, groups: tuple[int, ...]) -> list[tuple[int, ...]]:
    found = []
    for group in groups:
        own = sorted((row for row in rows if row.group == group and row.has_time), key=lambda row: row.at)
        found += [(group, *window) for window in KINDS[kind][1](own)]
    return sorted(found)


# --- the streams ---


def append(path: str, rows: Rows) -> None:
    table = pa.table(
        {
            "at": pa.array([row.at if row.has_time else None for row in rows], pa.timestamp("us", "UTC")),
            "g": pa.array([row.group for row in rows], pa.int32()),
            "s": pa.array([row.state for row in rows], pa.int32()),
            "x": pa.array([row.number for row in rows], pa.float64()),
        }
    )
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(path, table, mode="append", configuration=feed)


RESULTS = "count(*) AS n, sum(x) AS total, max(x) AS most, last(x) AS latest FROM %%trows"
OTHERS = {
    "classic": "CREATE STREAM classic FILL_HISTORY 1 INTO o_classic "
    "AS SELECT _wstart AS w, count(*) AS n, sum(x) AS total FROM t PARTITION BY g INTERVAL(10s)",
    "by_clock": "CREATE STREAM by_clock PERIOD(10s) FROM t INTO o_by_clock "
    "AS SELECT CAST(_tlocaltime/1000000 AS TIMESTAMP) AS w, count(*) AS n, max(x) AS most FROM %%trows",
    "dropping": "TUMBLINGWINDOW(ss, 10)",
    "dropping_gaps": "SESSIONWINDOW(ss, 60, 5)",
}
"""Streams by other rules, which VERIFY alone looks at: classic, by the clock, eKuiper's by their window."""


def create(lake: Lake, name: str) -> None:
    """Create a stream: a kind, one with ``_exact`` behind it, or another one."""
    kind, _, _ = name.partition("_exact")
    if kind in KINDS:
        trigger, *more = KINDS[kind][0].split("|")
        options = "|".join(["FILL_HISTORY", *more, *(["EXACT"] if name != kind else [])])
        start = "_tprev_ts" if kind == "instants" else "_twstart"
        lake.sql(
            f"CREATE STREAM {name} {trigger} FROM t PARTITION BY g STREAM_OPTIONS({options}) "
            f"INTO o_{name} AS SELECT {start} AS w, {RESULTS}"
        )
    elif name.startswith("dropping"):
        lake.sql(
            f"CREATE STREAM {name} WITH (TIMESTAMP='at') INTO o_{name} "
            f"AS SELECT g, count(*) AS n, sum(x) AS total FROM t GROUP BY g, {OTHERS[name]}",
            dialect="ekuiper",
        )
    else:
        lake.sql(OTHERS[name])


@dataclass
class Story:
    """A table in which a strange row comes and goes, and the streams over it."""

    lake: Lake
    clock: ManualClock
    path: str
    rows: Rows = field(default_factory=list)

    def append(self, rows: Rows) -> None:
        append(self.path, rows)
        self.rows = [*self.rows, *rows]

    def begin(self, streams: list[str]) -> None:
        self.lake.sql(f"CREATE TABLE t LOCATION '{self.path}' TIMESTAMP BY at")
        for stream in streams:
            create(self.lake, stream)
        self.run()

    def run(self) -> None:
        self.lake.run()
        self.clock.advance(timedelta(seconds=10))
        self.lake.run()

    def delete_strange(self) -> None:
        DeltaTable(self.path).delete("at IS NULL OR x = 0.5 OR isnan(x) OR x > 1000 OR x < -1000")
        self.rows = [*FIRST, *THEN]

    def check(self) -> None:
        """No stream has stopped, VERIFY finds nothing, and the rows that can be told are right."""
        statuses = self.lake.streams()
        assert [(s.name, s.last_error) for s in statuses if s.status != "Running"] == []
        for name in (status.name for status in statuses):
            found = self.lake.verify(name)
            assert (found.differing, found.left_out_rows) == ((), 0), name
            kind, _, _ = name.partition("_exact")
            if kind in KINDS:
                groups = (2,) if name == kind else (1, 2)
                rows = [row for row in self.found(name) if row[0] in groups]
                assert rows == expected(kind, self.rows, groups), name

    def found(self, name: str, where: str = "true") -> list[tuple[Any, ...]]:
        return sorted(self.lake.sql(f"SELECT g, unix_micros(w), n FROM o_{name} WHERE {where}").fetchall())


@pytest.fixture
def story(tmp_path: Path, spark: SparkSession) -> Iterator[Story]:
    clock = ManualClock(EPOCH + timedelta(microseconds=START, minutes=5))
    with Lake(tmp_path / "lake", spark=spark, settings=Settings(), clock=clock) as lake:
        story = Story(lake, clock, str(tmp_path / "elsewhere"))
        story.append(FIRST)
        yield story


EVERY = [*KINDS, *(f"{kind}_exact" for kind in KINDS), *OTHERS]
HOW = ("comes", "is there")


def in_turn(number: int, how: str) -> list[str]:
    """Return the streams that a row comes to, or is there for: each one meets each row, by turns."""
    return [name for at, name in enumerate(EVERY) if (at + number + HOW.index(how)) % 2 == 0]


SHORT = [
    ("the first year", "comes", ["tumbling", "counts_exact", "years_exact"]),
    ("the first year", "is there", ["counts"]),
    ("the last second", "comes", ["sessions_exact", "instants_exact", "dropping"]),
    ("no time", "is there", ["states", "tumbling_exact", "dropping_gaps"]),
]


@pytest.mark.parametrize(
    ("name", "how", "streams"),
    [
        *SHORT,
        *(
            pytest.param(name, how, in_turn(number, how), marks=pytest.mark.long)
            for number, name in enumerate(STRANGE)
            for how in HOW
        ),
    ],
)
def test_a_strange_row_comes_and_goes(story: Story, name: str, how: str, streams: list[str]) -> None:
    if how == "is there":
        story.append([STRANGE[name]])
        story.begin(streams)
    else:
        story.begin(streams)
        story.append([STRANGE[name]])
    story.run()
    story.append(THEN)
    story.run()
    story.check()
    story.delete_strange()
    story.run()
    story.check()


@pytest.mark.parametrize("name", ["the first year", "the last second"])
def test_too_many_windows_of_all_rows_stop_one_stream_before_any_is_computed(story: Story, name: str) -> None:
    lake = story.lake
    story.begin(["tumbling_exact"])
    lake.sql(
        "CREATE STREAM every INTERVAL(10s) SLIDING(10s) FROM t "
        "STREAM_OPTIONS(FILL_HISTORY|EXACT) INTO o_every AS SELECT _twstart AS w, count(*) AS n FROM %%trows"
    )
    story.run()
    output = story.path.replace("elsewhere", "lake/main/o_every")
    before = DeltaTable(output).version()
    story.append([STRANGE[name]])
    story.run()
    story.append(THEN)
    story.run()
    statuses = {status.name: status for status in lake.streams()}
    assert (statuses["every"].status, statuses["tumbling_exact"].status) == ("Failed", "Running")
    assert (statuses["every"].last_error or "").startswith("TOO_MANY_WINDOWS: ")
    assert DeltaTable(output).version() == before
    assert lake.verify("every").holds
    assert story.found("tumbling_exact") == expected("tumbling", story.rows, (1, 2))
    story.delete_strange()
    lake.sql("START STREAM every")
    story.run()
    story.check()
    assert lake.verify("every").holds
    found = lake.sql("SELECT 0, unix_micros(w), n FROM o_every WHERE n > 0 ORDER BY w").fetchall()
    assert found == expected("tumbling", [replace(row, group=0) for row in story.rows], (0,))
