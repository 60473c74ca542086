"""Streams that leave late rows out: however commits become ticks, the windows are the reference's."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake, Settings
from tests.reference.admitted import Grid, Latest, Row, Rule, Session, Slide, Span, written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

HALVES = 2
"""Times of the reference are in half seconds."""

BEGIN = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp()) * HALVES
TOLERANCE = 3 * HALVES
KEYS = "abcdefgh"
FIGURES = "k, count(*) AS n, sum(x) AS s, max(x) AS m, window_start() AS ws, window_end() AS we"
BY_ROW = f"{FIGURES}, count(DISTINCT x) AS d"


def s(seconds: int) -> int:
    return seconds * HALVES


KINDS: dict[str, tuple[str, str, Callable[[], Rule]]] = {
    "tumbling": (FIGURES, "TUMBLINGWINDOW(ss, 7)", lambda: Grid(s(7), s(7))),
    "hopping": (FIGURES, "HOPPINGWINDOW(ss, 10, 4)", lambda: Grid(s(10), s(4))),
    "holes": (FIGURES, "HOPPINGWINDOW(ss, 3, 5)", lambda: Grid(s(3), s(5))),
    "sliding": (FIGURES, "SLIDINGWINDOW(ss, 5) OVER (PARTITION BY k)", lambda: Slide(s(5))),
    "sliding_rows": (BY_ROW, "SLIDINGWINDOW(ss, 5) OVER (PARTITION BY k)", lambda: Slide(s(5))),
    "delayed": (
        FIGURES,
        "SLIDINGWINDOW(ss, 5, 3) OVER (PARTITION BY k WHEN x > 5)",
        lambda: Slide(s(5), s(3), lambda row: row.x > 5),
    ),
    "delayed_rows": (
        BY_ROW,
        "SLIDINGWINDOW(ss, 5, 3) OVER (PARTITION BY k WHEN x > 5)",
        lambda: Slide(s(5), s(3), lambda row: row.x > 5),
    ),
    "session": (FIGURES, "SESSIONWINDOW(ss, 10, 4) OVER (PARTITION BY k)", lambda: Session(s(10), s(4))),
    "short_session": (
        FIGURES,
        "SESSIONWINDOW(ss, 3, 8) OVER (PARTITION BY k)",
        lambda: Session(s(3), s(8)),
    ),
    "count": (FIGURES, "COUNTWINDOW(3) OVER (PARTITION BY k)", lambda: Latest(3, 3)),
    "latest": (FIGURES, "COUNTWINDOW(5, 2) OVER (PARTITION BY k)", lambda: Latest(5, 2)),
    "state": (
        FIGURES,
        "STATEWINDOW(x > 5, x < 4 OR x = 7) OVER (PARTITION BY k)",
        lambda: Span(lambda row: row.x > 5, lambda row: row.x < 4 or row.x == 7),
    ),
    "single_state": (
        FIGURES,
        "STATEWINDOW(x > 7) OVER (PARTITION BY k)",
        lambda: Span(lambda row: row.x > 7),
    ),
    "row_by_row": (
        "k, 1 AS n, x + 1 AS y INVISIBLE, y - 1 AS s, x AS m, window_start() AS ws, window_end() AS we",
        "",
        lambda: Latest(1, 1),
    ),
}


def history(seed: int, *, ties: bool) -> list[list[Row]]:
    """Return commits of rows about in order, some late or just at the mark.

    ``ties``: keys have rows of one time in a commit, which count in the order in which they stand there.
    """
    rng = random.Random(seed)
    commits, at = [], BEGIN
    for _ in range(24):
        at += rng.choice([0, 0, 1, 3, 8, 20, 45])
        times = [(key, at - rng.choice([0, 0, 1, 2, 4, 6, 7, 12])) for key in rng.choices(KEYS, k=10)]
        if not ties:
            times = sorted(set(times))
        commits.append([Row(ts, key, rng.randint(0, 10)) for key, ts in times])
    return commits


def instant(ts: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(seconds=ts / HALVES)


def expected(kind: str, commits: list[list[Row]], *, flushed: bool = True) -> Counter[tuple[Any, ...]]:
    """Return the rows of the output; windows of time alone are of all keys, so their rows are split."""
    found: Counter[tuple[Any, ...]] = Counter()
    for window in written(commits, TOLERANCE, KINDS[kind][2], flushed=flushed):
        xs = [row.x for row in window.rows]
        figures = (window.rows[0].key, len(xs), sum(xs), max(xs))
        found[*figures, instant(window.start), instant(window.end)] += 1
    return found


PARTS = {"time": [*KINDS][:3], "around_rows": [*KINDS][3:7], "cut_by_rows": [*KINDS][7:]}


@pytest.mark.parametrize(("part", "seed"), [*zip(PARTS, (1, 2, 1), strict=True)])
def test_windows_are_those_of_the_reference(
    part: str, seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    commits, rng = history(seed, ties=True), random.Random(seed)
    with Lake(tmp_path / "lake", spark=spark, settings=Settings()) as lake:
        lake.sql("CREATE TABLE ev (ts TIMESTAMP, k STRING, x INT)", dialect="ekuiper")
        for name in PARTS[part]:
            figures, window, _ = KINDS[name]
            lake.sql(
                f"CREATE STREAM {name} WITH (TIMESTAMP='ts', TIMEZONE='UTC', LATE_TOLERANCE='3s') "
                f"INTO out_{name} AS SELECT {figures} FROM ev {f'GROUP BY k, {window}' if window else ''}",
                dialect="ekuiper",
            )
        for number, commit in enumerate(commits):
            lake.insert("ev", [{"ts": instant(r.ts), "k": r.key, "x": r.x} for r in commit])
            if number == 3 or rng.random() < 0.1:
                assert not lake.run().failed
        for name in PARTS[part]:
            lake.sql(f"FLUSH STREAM {name}")
            rows = lake.sql(f"SELECT k, n, s, m, ws, we FROM out_{name}").fetchall()
            assert Counter(rows) == expected(name, commits), name


def change(rng: random.Random, table: dict[tuple[str, int], Row], lake: Lake, commit: list[Row]) -> None:
    """Write rows of new keys; now and then update or delete some that are there."""
    fresh = [row for row in commit if (row.key, row.ts) not in table]
    if fresh:
        lake.insert("ev", [{"ts": instant(r.ts), "k": r.key, "x": r.x} for r in fresh])
    table.update({(row.key, row.ts): row for row in fresh})
    for verb in rng.choices(["UPDATE", "DELETE", ""], [1, 1, 8]):
        key, ts = rng.choice([*table][-30:])
        where = f"WHERE k = '{key}' AND ts = '{instant(ts).isoformat()}'"
        if verb == "UPDATE":
            lake.sql(f"UPDATE ev SET x = 6 {where}")
            table[key, ts] = Row(ts, key, 6)
        elif verb == "DELETE":
            lake.sql(f"DELETE FROM ev {where}")
            del table[key, ts]


@pytest.mark.parametrize("part", PARTS)
def test_exact_windows_are_those_of_the_rows_there_are(
    part: str, spark: SparkSession, tmp_path: Path
) -> None:
    commits, rng = history(3, ties=False)[:16], random.Random(3)
    table: dict[tuple[str, int], Row] = {}
    with Lake(tmp_path / "lake", spark=spark, settings=Settings()) as lake:
        lake.sql("CREATE TABLE ev (ts TIMESTAMP, k STRING, x INT)", dialect="ekuiper")
        for name in PARTS[part]:
            figures, window, _ = KINDS[name]
            lake.sql(
                f"CREATE STREAM {name} "
                "WITH (TIMESTAMP='ts', TIMEZONE='UTC', LATE_TOLERANCE='3s', EXACT=true) "
                f"INTO out_{name} AS SELECT {figures} FROM ev {f'GROUP BY k, {window}' if window else ''}",
                dialect="ekuiper",
            )
        for number, commit in enumerate(commits):
            change(rng, table, lake, commit)
            if number % 8 != 7 and rng.random() < 0.85:
                continue
            assert not lake.run().failed
            for name in PARTS[part]:
                rows = lake.sql(f"SELECT k, n, s, m, ws, we FROM out_{name}").fetchall()
                assert Counter(rows) == expected(name, [[*table.values()]], flushed=False), name
        for name in PARTS[part]:
            assert lake.verify(name).holds, name
