"""Small histories of two meters, and what a stream over them must have written, in plain Python."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakestream import Lake, Settings
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from lakestream.storage.tables.log import read_commits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.statements.status import StreamStatus

    Cell = tuple[str, int]
    """Whose reading, and when: seconds since :data:`START`."""

    Row = tuple[str, int, int, int | None]
    """A row of the output: meter, instant in seconds, number of readings, their sum."""

START = datetime(2025, 1, 1, tzinfo=UTC)
STREAM, NEIGHBOUR = "s", "z"
"""The neighbour ticks behind the stream: a crash of the stream's tick comes before it."""


@dataclass(frozen=True)
class Trigger:
    """A trigger as written, and its windows: ``length`` seconds each, every ``step`` seconds."""

    clause: str
    length: int
    step: int
    options: str = ""

    @property
    def is_instants(self) -> bool:
        """Whether its windows are known by their ends, which belong to them."""
        return self.clause.startswith("SLIDING")

    def statement(self, query: str | None = None, name: str = STREAM, output: str = "o") -> str:
        """Return the CREATE STREAM; ``query`` is its calculation where it is another."""
        at = "_tcurrent_ts" if self.is_instants else "_twstart"
        options = f"STREAM_OPTIONS({self.options})" if self.options else ""
        query = query or f"SELECT {at} AS at, count(*) AS n, sum(v) AS total FROM %%trows"
        return (
            f"CREATE STREAM {name} {self.clause} FROM meters PARTITION BY tbname {options} "
            f"INTO {output} AS {query}"
        )

    def windows(self, first: int, mark: int) -> Iterator[tuple[int, range]]:
        """Yield what each window that has fired is known by, and its seconds."""
        start = (first - 1 if self.is_instants else first - self.length) // self.step * self.step
        for low in range(start, mark - self.length + 1, self.step):
            window = (
                range(low + 1, low + self.length + 1) if self.is_instants else range(low, low + self.length)
            )
            if window[-1] >= first:
                yield (low + self.length if self.is_instants else low), window


@dataclass(frozen=True)
class Cut:
    """A trigger whose windows are cut by rows, and how: from (second, value) of one meter in order."""

    clause: str
    windows: Callable[[Sequence[tuple[int, int | None]]], Sequence[Sequence[tuple[int, int | None]]]]

    def statement(self, name: str, output: str) -> str:
        """Return the CREATE STREAM of an exact stream."""
        return Trigger(self.clause, 0, 0, "EXACT").statement(name=name, output=output)

    def expected(self, readings: Mapping[Cell, int]) -> list[Row]:
        """Return the batch evaluation over readings."""
        rows: list[Row] = []
        for name in {name for name, _ in readings}:
            own = sorted((at, value) for (meter, at), value in readings.items() if meter == name)
            rows += [
                (name, window[0][0], len(window), sum(value or 0 for _, value in window))
                for window in self.windows(own)
            ]
        return sorted(rows)


TUMBLING = Trigger("INTERVAL(10s) SLIDING(10s)", 10, 10)
HOPPING = Trigger("INTERVAL(10s) SLIDING(5s)", 10, 5)
EXACT = Trigger("INTERVAL(10s) SLIDING(10s)", 10, 10, "EXACT")
INSTANTS = Trigger("SLIDING(10s)", 10, 10, "EXACT")


def expected(trigger: Trigger, readings: Mapping[Cell, int]) -> list[Row]:
    """Return the batch evaluation over readings: what an exact stream has written."""
    rows: list[Row] = []
    for name in {name for name, _ in readings}:
        own = {at: value for (system_clock, at), value in readings.items() if system_clock == name}
        for at, window in trigger.windows(min(own), max(own)):
            held = [value for second, value in own.items() if second in window]
            rows.append((name, at, len(held), sum(held) if held else None))
    return sorted(rows)


@dataclass
class Story:
    """A lake with a stream and a neighbour, opened anew again and again, and the readings in its source."""

    root: Path
    spark: SparkSession
    trigger: Trigger
    transport: str = "arrow"
    checkpoint_ticks: int = 1
    readings: dict[Cell, int] = field(default_factory=dict)
    steps: int = 0

    def begin(self, query: str | None = None) -> Story:
        """Make the tables and the two streams."""
        with self.opened() as lake:
            lake.sql("CREATE STABLE meters (ts TIMESTAMP, v INT, w INT) TAGS (loc INT)")
            lake.sql("CREATE TABLE steps (ts TIMESTAMP, n INT)")
            lake.sql(self.trigger.statement(query))
            lake.sql(
                f"CREATE STREAM {NEIGHBOUR} INTERVAL(1s) SLIDING(1s) FROM steps INTO oz AS "
                "SELECT _twstart AS at, sum(n) AS n FROM %%trows"
            )
        return self

    def opened(self) -> Lake:
        """Open the lake as a process that has just started would."""
        settings = Settings(
            transport=self.transport,
            checkpoint_ticks=self.checkpoint_ticks,
            sink_commits_per_second=0,
        )
        return Lake(self.root, spark=self.spark, settings=settings)

    # --- what happens to the source ---

    def write(self, *readings: tuple[str, int, int]) -> None:
        """Write readings (meter, second, value) in one commit; one that is there already is an update."""
        rows = [
            {"tbname": name, "loc": 1, "ts": moment(at), "v": value, "w": value}
            for name, at, value in readings
        ]
        with self.opened() as lake:
            lake.insert("meters", rows)
        self.readings.update({(name, at): value for name, at, value in readings})

    def delete(self, name: str, at: int) -> None:
        """Delete a reading."""
        with self.opened() as lake:
            lake.sql(f"DELETE FROM meters WHERE tbname = '{name}' AND ts = '{moment(at):%Y-%m-%d %H:%M:%S}'")
        del self.readings[name, at]

    def step(self) -> None:
        """Give the neighbour something to do."""
        with self.opened() as lake:
            lake.insert("steps", [{"ts": moment(self.steps), "n": self.steps}])
        self.steps += 1

    # --- what must have come out ---

    @property
    def source(self) -> str:
        """The path of the source."""
        return str(self.root / "main" / "meters")

    @property
    def output(self) -> str:
        """The path of the stream's output."""
        return str(self.root / "main" / "o")

    @property
    def neighbours(self) -> str:
        """The path of the neighbour's output."""
        return str(self.root / "main" / "oz")

    def run(self) -> list[TickReport]:
        """Run to idle in a lake opened for it."""
        with self.opened() as lake:
            return lake.run().ticks

    def crash(self, point: str) -> None:
        """Run until the point is reached; nothing is closed then, and nothing saved."""
        lake = self.opened()
        with pytest.raises(SimulatedCrash), crash_at(point):
            lake.run()

    def status(self, stream: str = STREAM) -> StreamStatus:
        """Return a stream as SHOW STREAMS has it."""
        with self.opened() as lake:
            return next(status for status in lake.streams() if status.name == stream)

    def check(self) -> None:
        """Hold both outputs against the readings, and every tick against its commits."""
        same(rows_of(self.output), expected(self.trigger, self.readings))
        if self.steps > 1:
            same(read(self.neighbours, "n")["n"].to_pylist(), [*range(self.steps - 1)])
        for path in (self.output, self.neighbours):
            ticks = commits_by_tick(path)
            assert len(ticks) == len(set(ticks)), f"a tick was committed twice to {path}: {ticks}"
        for stream in (STREAM, NEIGHBOUR):
            status = self.status(stream)
            assert (status.status, status.last_error, status.lag) == ("Running", None, 0)

    def verify(self) -> bool:
        """Return whether VERIFY holds of the stream."""
        with self.opened() as lake:
            return lake.verify(STREAM).holds


def same(got: Iterable[Any], wanted: Iterable[Any]) -> None:
    """Hold rows against those that should be there, each as often as it should be."""
    found, due = Counter(got), Counter(wanted)
    assert found == due, (
        f"only expected: {sorted((due - found).elements())}, only found: {sorted((found - due).elements())}"
    )


def moment(seconds: int) -> datetime:
    """Return an instant of the histories."""
    return START + timedelta(seconds=seconds)


def rows_of(path: str) -> list[Row]:
    """Return the rows of an output, every one: a row that is there twice is twice in the list."""
    rows = read(path, "tag_tbname", "at", "n", "total").to_pylist()
    return sorted(
        (row["tag_tbname"], int((row["at"] - START).total_seconds()), row["n"], row["total"]) for row in rows
    )


def read(path: str, *columns: str) -> pa.Table:
    """Return columns of a table's rows."""
    return pa.table(DeltaTable(path).scan(columns=[*columns]))


def commits_by_tick(path: str) -> list[tuple[str, int]]:
    """Return the transaction of every commit that a table's log holds, in order."""
    return [tx for commit in read_commits(path, -1, DeltaTable(path).version()) for tx in commit.transactions]


def commit_files(path: str) -> Iterable[Path]:
    """Return the files of a table's commits, in order."""
    return sorted(Path(path, "_delta_log").glob("*.json"))
