"""Streams and views of every kind over rows with long texts, where nothing large may pass the driver.

Usage: ``python -m tests.cluster.crossing FOLDER KIND``. A result of a query that gathers more than
``MOST_BYTES`` fails by Spark's own limit; what is handed to Spark, or read here by delta-rs, is looked at. Of
a window the driver may know its numbers, of the rows and results of a large tick nothing: their texts alone
are twice as long as what may pass. Prints what failed, a JSON list.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings
from lakestream.clock import ManualClock
from lakestream.engine.reading import transport
from lakestream.errors import LakestreamError
from lakestream.storage.rows import reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS, GROUPS, TEXT = 60_000, 40, 200
MOST_BYTES = ROWS * TEXT // 2
_FIRST = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
_ROW_US, _PAUSE_US, _PAUSED = 25_000, 11_000_000, 997

_W = "count(*) AS n, sum(v) AS total, avg(v) AS mean, max(note) AS note FROM %%trows"
_ROW_WINDOWS = f"_twstart AS w, _twend AS e, {_W}"
KINDS = {
    "tumbling": ("INTERVAL(1s) SLIDING(1s)", f"_twstart AS w, {_W}"),
    "hopping": ("INTERVAL(4s) SLIDING(2s)", f"_twstart AS w, {_W}"),
    "sliding": ("SLIDING(1s)", f"_tcurrent_ts AS w, {_W}"),
    "session": ("SESSION(ts, 500a)", _ROW_WINDOWS),
    "state": ("STATE_WINDOW(k)", _ROW_WINDOWS),
    "event": ("EVENT_WINDOW(START WITH k = 1 END WITH v > 500)", _ROW_WINDOWS),
    "count": ("COUNT_WINDOW(3)", _ROW_WINDOWS),
    "overlapping counts": ("COUNT_WINDOW(4, 2)", _ROW_WINDOWS),
    "median": (
        "INTERVAL(1s) SLIDING(1s)",
        "_twstart AS w, percentile(v, 0.5) AS middle, max(note) AS note FROM %%trows",
    ),
    "joined": (
        "INTERVAL(1s) SLIDING(1s)",
        (
            "_twstart AS w, count(*) AS n, max(p.note) AS note FROM t r JOIN t p "
            "ON p.g = r.g AND p.ts = r.ts WHERE r.ts >= _twstart AND r.ts < _twend AND r.g = %%1"
        ),
    ),
    "rows": (
        "INTERVAL(1s) SLIDING(1s)",
        "_twstart AS w, ts AS at, v AS v, note AS note FROM %%trows",
    ),
    "each row": ("COUNT_WINDOW(1)", "_twstart AS w, v + 1 AS v, note AS note FROM %%trows"),
}
"""Triggers and what they compute, by name."""

MODES = ("FILL_HISTORY", "EXACT", "DELETE_RECALC")
_LEAVE_DELETES = ("sliding", "count", "overlapping counts")
"""Kinds that have no DELETE_RECALC."""
_COLUMNS = {"rows": " (w, at COMPOSITE KEY, v, note)"}
VIEWS = (
    "SELECT g, v, count(*) AS n, max(note) AS note FROM t GROUP BY g, v",
    "SELECT ts, g, v + 1 AS w, note FROM t WHERE k < 3",
    "SELECT a.ts, a.g, a.v, b.note FROM t a JOIN t b ON a.ts = b.ts AND a.g = b.g",
    "SELECT g, v, percentile(k, 0.5) AS m, max(note) AS note FROM t GROUP BY g, v",
    (
        "SELECT g, window(ts, '1 second').start AS w, max(note) AS note FROM t "
        "GROUP BY g, window(ts, '1 second')"
    ),
    "SELECT ts, g, note, row_number() OVER (PARTITION BY g ORDER BY ts) AS r FROM t",
)
VIEWED = "views"
"""The name of the kind that the views are."""


def rows_of(first: int, end: int, *, late: bool = False) -> pa.Table:
    """Return rows of some numbers; or one that comes late beside every second of them."""
    numbers = np.arange(first, end, 2 if late else 1)
    times = _FIRST + numbers * _ROW_US + numbers // _PAUSED * _PAUSE_US + late
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "g": pa.array(numbers % GROUPS, pa.int32()),
            "v": numbers * 7919 % 1021,
            "k": pa.array(numbers // (GROUPS * 3) % 5, pa.int32()),
            "note": [f"{number:0{TEXT}}" for number in numbers],
        }
    )


class Passed:
    """What passes the driver otherwise than as a query's result: how much at most, and where from."""

    def __init__(self) -> None:
        self.most: dict[str, int] = {}
        self._watch("handed", lambda given, _: given[1].nbytes)
        self._watch("gathered", lambda _, found: found.nbytes)

    def _watch(self, name: str, size: Callable[[tuple[Any, ...], Any], int]) -> None:
        inner = getattr(reading, name)

        def watched(*given: Any) -> Any:
            found = inner(*given)
            self.most[name] = max(self.most.get(name, 0), size(given, found))
            return found

        setattr(reading, name, watched)


class Story:
    """A stream or view over one source, and what is done to both."""

    def __init__(self, lake: Lake, clock: ManualClock, passed: Passed) -> None:
        self._lake, self._clock, self._passed = lake, clock, passed
        self._table = f"{lake.root}/main/t"

    def told(self, create: str, *statements: str) -> Iterator[str]:
        """Yield what failed, or what was large that passed the driver."""
        steps: dict[str, Callable[[], object]] = {
            "creation": lambda: self._lake.sql(create),
            "catch-up": lambda: self._append(rows_of(ROWS // 2, ROWS)),
            "late rows": lambda: self._append(rows_of(ROWS // 2, ROWS, late=True)),
            "changes": self._change,
            **{statement: partial(self._ask, statement) for statement in statements},
        }
        self._lake.sql("CREATE TABLE t (ts TIMESTAMP, g INT, v BIGINT, k INT, note VARCHAR(200))")
        self._append(rows_of(0, ROWS // 2))
        for name, step in steps.items():
            self._passed.most.clear()
            try:
                step()
                self._clock.advance(timedelta(hours=1))
                yield from (f"{create}: {name}: {failed.error}" for failed in self._lake.run().failed)
            except LakestreamError as error:
                yield f"{create}: {name}: {error}"
            large = {way: size for way, size in self._passed.most.items() if size > MOST_BYTES}
            sys.stderr.write(f"{create[:60]}: {name}: {self._passed.most}\n")
            if large:
                yield f"{create}: {name}: {large} bytes pass the driver"

    def _append(self, rows: pa.Table) -> None:
        write_deltalake(self._table, rows, mode="append")

    def _change(self) -> None:
        DeltaTable(self._table).update({"v": "v + 5000"}, predicate="g % 2 = 1 AND k = 2")
        DeltaTable(self._table).delete("g % 4 = 2 AND k = 3")

    def _ask(self, statement: str) -> None:
        found = self._lake.sql(statement).fetchall()
        if statement.startswith("VERIFY") and int(dict(found)["differing rows"]):
            raise LakestreamError("DIFFERS", f"{statement}: {found}")


def stories(kind: str) -> Iterator[tuple[str, ...]]:
    """Yield the statements of each story of a kind."""
    if kind == VIEWED:
        for query in VIEWS:
            yield f"CREATE MATERIALIZED VIEW s AS {query}", "REFRESH MATERIALIZED VIEW s"
        return
    trigger, query = KINDS[kind]
    end = " TO '2025-01-01 00:20:00'" if "COUNT" in trigger else ""  # rows are counted up to an end
    again = f"RECALCULATE STREAM s FROM '2025-01-01'{end}"
    of_table = f"INTO o{_COLUMNS.get(kind, '')} AS SELECT {query}"
    for mode in MODES[: 2 if kind in _LEAVE_DELETES else 3]:
        created = f"CREATE STREAM s {trigger} FROM t PARTITION BY g STREAM_OPTIONS({mode}) {of_table}"
        yield created, again, "VERIFY STREAM s"


def main(folder: str, kind: str) -> None:
    """Tell all stories of a kind, each in a lake of its own."""
    # A result that is counted as small is as small as the others here.
    transport.MAX_HANDED_CELLS = 20_000
    passed, failed = Passed(), list[str]()
    settings = Settings(
        master="local[2]",
        driver_memory="1g",
        transport="spark",
        durability="process",
        sink_commits_per_second=0,
        spark_conf={"spark.driver.maxResultSize": str(MOST_BYTES)},
    )
    for number, statements in enumerate(stories(kind)):
        clock = ManualClock(datetime(2025, 3, 1, tzinfo=UTC))
        with Lake(Path(folder) / str(number), settings=settings, clock=clock) as lake:
            failed += Story(lake, clock, passed).told(*statements)
    print(json.dumps(failed))  # noqa: T201 - the parent reads it


if __name__ == "__main__":
    main(*sys.argv[1:])
