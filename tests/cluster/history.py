"""What is done on a cluster and here alike: streams of all kinds over a table of others, in some steps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.schema import PrimitiveType

from lakestream import Lake, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cluster.driver import Driver

_FIRST = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
_ROW_US = 250_000
_DOUBLE = PrimitiveType("double")
GROUPS = 20

WINDOWS = "count(*) AS n, sum(v) AS total, min(v) AS least, avg(v) AS mean FROM %%trows"
STREAMS = {
    "tumbling": f"INTERVAL(10s) SLIDING(10s) FROM t PARTITION BY g STREAM_OPTIONS(FILL_HISTORY) INTO {{o}} "
    f"AS SELECT _twstart AS w, {WINDOWS}",
    "hopping": f"INTERVAL(60s) SLIDING(20s) FROM t INTO {{o}} AS SELECT _twstart AS w, {WINDOWS}",
    "sliding": "SLIDING(60s) FROM t INTO {o} AS SELECT _tcurrent_ts AS w, count(*) AS n, sum(v) AS total "
    "FROM %%trows",
    "session": f"SESSION(ts, 7s) FROM t PARTITION BY g STREAM_OPTIONS(FILL_HISTORY) INTO {{o}} "
    f"AS SELECT _twstart AS w, _twend AS e, {WINDOWS}",
    "state": "STATE_WINDOW(k) FROM t PARTITION BY g INTO {o} "
    f"AS SELECT _twstart AS w, _twend AS e, {WINDOWS}",
    "event": "EVENT_WINDOW(START WITH k = 1 END WITH k = 3) FROM t PARTITION BY g INTO {o} "
    f"AS SELECT _twstart AS w, _twend AS e, {WINDOWS}",
    "counted": f"COUNT_WINDOW(7) FROM t PARTITION BY g INTO {{o}} AS SELECT _twstart AS w, {WINDOWS}",
    "median": "INTERVAL(30s) SLIDING(30s) FROM t PARTITION BY g INTO {o} "
    "AS SELECT _twstart AS w, percentile(v, 0.5) AS middle FROM %%trows",
    "joined": "INTERVAL(60s) SLIDING(60s) FROM t INTO {o} AS SELECT _twstart AS w, count(*) AS n, "
    "count_if(p.place = 'p1') AS ones, sum(r.v) AS total FROM t r JOIN places p ON p.g = r.g "
    "WHERE r.ts >= _twstart AND r.ts < _twend",
    "exact": f"INTERVAL(10s) SLIDING(10s) FROM t PARTITION BY g STREAM_OPTIONS(EXACT) INTO {{o}} "
    f"AS SELECT _twstart AS w, {WINDOWS}",
    "exact_session": f"SESSION(ts, 7s) FROM t PARTITION BY g STREAM_OPTIONS(EXACT) INTO {{o}} "
    f"AS SELECT _twstart AS w, _twend AS e, {WINDOWS}",
    "beats": "PERIOD(1h) INTO {o} (at, rows) AS SELECT CAST(_tlocaltime / 1000000 AS TIMESTAMP) AS at, "
    "count(*) AS rows FROM places",
}
"""A stream of each kind of trigger, with joins and corrections, by name."""

ONCE = (
    "CREATE STREAM once WITH (TIMESTAMP='ts', LATE_TOLERANCE='5s') INTO o_once AS SELECT g, count(*) AS n, "
    "sum(v) AS total, window_end() AS e FROM t GROUP BY g, TUMBLINGWINDOW(ss, 20)"
)
SHORT = ("tumbling", "session", "exact_session", "joined")
"""The streams of the shortest run."""


@dataclass(frozen=True)
class History:
    """The steps over one lake: ``rows`` of the source in all, of some groups, for some of the streams.

    A group has a row each five seconds, however many groups there are.
    """

    root: Path
    rows: int
    streams: tuple[str, ...]
    groups: int = GROUPS

    def make(self) -> None:
        """Make the lake with its tables, and the rows that are there before the streams."""
        with Lake(self.root, settings=Settings()) as lake:
            lake.sql("CREATE TABLE t (ts TIMESTAMP, g INT, v BIGINT, k INT)")
            lake.sql("CREATE TABLE places (ts TIMESTAMP, g INT, place VARCHAR(8))")
            places = [{"ts": at * 1000, "g": at, "place": f"p{at % 3}"} for at in range(GROUPS)]
            lake.insert("places", places)
        self._append(0, self.rows // 2)

    def steps(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """Give what others do to the source, one after the other, with a name."""
        half, most = self.rows // 2, self.rows * 9 // 10
        yield "catch-up", lambda: self._append(half, most)
        yield "in order", lambda: self._append(most, self.rows)
        yield "late burst", lambda: self._append(half, most, late=True)
        yield "updates and deletes", self._change

    def create(self, driver: Driver) -> None:
        """Create the streams."""
        for name in self.streams:
            if name == "once":
                driver.ask(ONCE)
            else:
                driver.ask(f"CREATE STREAM {name} {STREAMS[name].format(o=f'o_{name}')}")

    @property
    def _dense(self) -> int:
        """Return how many rows there are where there is one of few groups."""
        return self.groups // GROUPS

    def _us(self, rows: int) -> int:
        """Return the event time (µs) that so many rows take."""
        return rows * _ROW_US // self._dense

    @property
    def middle(self) -> str:
        """An event time among the rows of the catch-up, which every group has passed."""
        return datetime.fromtimestamp((_FIRST + self._us(self.rows * 3 // 4)) / 1_000_000, UTC).isoformat()

    def plans(self) -> int:
        """Return how many commits of plans of ticks there are."""
        return len([*(self.root / "_lakestream" / "plans" / "_delta_log").glob("*.json")])

    def outputs(self) -> dict[str, DeltaTable]:
        """Return each output as it is now; what is written later does not change it."""
        return {name: self._table(f"o_{name}") for name in self.streams}

    def _table(self, name: str) -> DeltaTable:
        return DeltaTable(self.root / "main" / name)

    def _append(self, first: int, end: int, *, late: bool = False) -> None:
        """Append the rows of some numbers; or, of every 49th of them, one that comes late beside it."""
        numbers = pa.array(range(first, end, 49 if late else 1), pa.int64())
        micros = pc.add(pc.divide(pc.multiply(numbers, _ROW_US), self._dense), _FIRST + (1 if late else 0))
        # A pause now and then, so that sessions end.
        pauses = pc.multiply(pc.divide(numbers, 997 * self._dense), 11_000_000)
        group = pc.subtract(numbers, pc.multiply(pc.divide(numbers, self.groups), self.groups))
        rounds = pc.divide(numbers, self.groups * 3)
        kind = pc.subtract(rounds, pc.multiply(pc.divide(rounds, 5), 5))
        values = pc.bit_wise_xor(pc.multiply(numbers, 7919), 4242)
        rows = pa.table(
            {
                "ts": pc.add(micros, pauses).cast(pa.timestamp("us", "UTC")),
                "g": group.cast(pa.int32()),
                "v": pc.bit_wise_and(values, 1023),
                "k": kind.cast(pa.int32()),
            }
        )
        write_deltalake(self._table("t"), rows, mode="append")

    def _change(self) -> None:
        """Change some rows of the last third, and delete others."""
        end = self._table("t").to_pyarrow_table(columns=["ts"])["ts"]
        edge = pc.subtract(pc.max(end).cast(pa.int64()), self._us(self.rows * 3 // 10)).as_py()
        since = f"ts > arrow_cast({edge}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
        self._table("t").update({"v": "v + 5000"}, predicate=f"{since} AND g = 3")
        self._table("t").delete(f"{since} AND g = 4")


def differing(wanted: DeltaTable, found: DeltaTable) -> str:
    """Return in what two outputs differ, with some of the rows; nothing where they do not."""
    with duckdb.connect() as db:
        for name, table in (("wanted", wanted), ("found", found)):
            db.register(f"{name}_files", table.to_pyarrow_dataset())
            db.sql(f"CREATE VIEW {name} AS SELECT {_compared(table)} FROM {name}_files")
        missing, beyond = (
            db.sql(f"FROM {one} EXCEPT ALL FROM {other} LIMIT 3").fetchall()
            for one, other in (("wanted", "found"), ("found", "wanted"))
        )
        if not missing and not beyond:
            return ""
        rows = [db.sql(f"SELECT count(*) FROM {name}").fetchall()[0][0] for name in ("wanted", "found")]
    return f"{rows[1]} rows, not the {rows[0]}; missing {missing}, not to be there {beyond}"


def _compared(table: DeltaTable) -> str:
    """Return the columns that are compared: floats to nine digits."""
    return ", ".join(
        f'format(\'{{:.9g}}\', "{column.name}") AS "{column.name}"'
        if column.type == _DOUBLE
        else f'"{column.name}"'
        for column in table.schema().fields
        if not column.name.startswith("_ls_")
    )
