"""Random histories of rows that arrive: what hypothesis draws, and what the reference makes of it.

An :class:`Example` is told to lakestream as statements and commits (:mod:`tests.properties.driving`) and
to the reference as values (:func:`expected`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hypothesis import strategies as st

from tests.properties.definitions import (
    DAYS,
    GROUPINGS,
    HOURS,
    LOCATIONS,
    SECONDS,
    START,
    ZONES,
    Definition,
    Scale,
    elapsed,
)
from tests.reference.fold import Change, evaluate

if TYPE_CHECKING:
    from datetime import datetime, timedelta

Cell = dict[str, Any]


@dataclass(frozen=True)
class Example:
    """A stream and its history: ``commits`` of rows, the ticks and restarts between them."""

    definition: Definition
    commits: tuple[tuple[Cell, ...], ...]
    before: int
    """How many commits are there when the stream is created, FILL_HISTORY taking them in."""
    ticks: frozenset[int]
    reopens: frozenset[int]
    transport: Literal["arrow", "spark", "auto"] = "arrow"

    def __str__(self) -> str:
        stream = self.definition
        lines = [
            f"{stream.statement()}  -- {stream.zone}, {self.transport}, created after {self.before} commits"
        ]
        for number, commit in enumerate(self.commits):
            done = " tick" * (number in self.ticks) + " reopen" * (number in self.reopens)
            cells = (f"{r['tbname']} {r['ts']:%m-%d %H:%M:%S.%f} v={r['v']} x={r['x']}" for r in commit)
            lines.append(f"commit {number}: " + "; ".join(cells) + (f"  ->{done}" if done else ""))
        return "\n".join(lines)


def expected(example: Example) -> list[tuple[Any, ...]]:
    """Return what the reference says the stream has written after the whole history."""
    stream = example.definition.stream()
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
    arriving = draw(arrivals(draw(rows_of(scale)), elapsed(watermark)))
    if grouping in ("table", "table and tag"):
        arriving = draw(tables_apart(arriving))
    if disorder:
        arriving = draw(disordered(arriving))
    commits = draw(cut(arriving))
    numbers = range(len(commits))
    before = draw(st.sampled_from((0, 0, 0, len(commits) // 2, len(commits))))
    return Example(
        Definition(
            trigger=draw(st.sampled_from(scale.triggers)),
            grouping=grouping,
            watermark=watermark,
            pre_filter=draw(st.booleans()),
            ignore_nodata=draw(st.booleans()),
            zone=draw(st.sampled_from(ZONES)),
            fill_history=before > 0,
        ),
        commits=commits,
        before=before,
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
