"""A random killer: a child runs the streams of a lake that this process writes to, and is killed at any time.

The child works on the Spark of this process (see :mod:`tests.faults.attach`), so that a cycle takes no
start of a JVM. All that is random comes from the seed, except what the scheduler of the machine makes of it.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable

from lakestream import Lake, Settings
from lakestream.clock import SystemClock
from tests.faults.attach import child, gateway_of
from tests.faults.meters import (
    EXACT,
    HOPPING,
    INSTANTS,
    START,
    Cut,
    commits_by_tick,
    expected,
    moment,
    rows_of,
    same,
)
from tests.reference.cut import counts, events, sessions, states
from tests.reference.fold import Change, Stream, evaluate
from tests.reference.grid import Interval, Span

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from tests.faults.meters import Cell, Row, Trigger
    from tests.reference.fold import Commit

    Tell = Callable[[str], None]
    """Hears how it goes."""
    Kill = Callable[[Path, int, str, Tell], int]
    """Kills in a lake so many times, by a seed, and returns the commits that were written."""

CHECKED_EVERY = 5
MAX_SECONDS = 4.0
"""A child is killed between nothing and so many seconds after it was ready."""
CURRENT_SECONDS = 900.0
"""How long a child may take to start Spark, to take all that there is, and to hold the lake's lock."""


def _by_state(rows: Sequence[tuple[int, int | None]]) -> list[list[tuple[int, int | None]]]:
    """Return windows of equal remainders, with the values that they are of."""
    values = dict(rows)
    cut = states([(at, None if value is None else value % 3) for at, value in rows])
    return [[(at, values[at]) for at, _ in window] for window in cut]


METERS = ("a", "b", "c")
PERIODIC, PERIOD_SECONDS = "periodic", 1.0
"""The stream that says at instants of the wall clock what was written since the one before."""
STREAMS: dict[str, Trigger | Cut] = {
    "hopping": HOPPING,
    "exact": EXACT,
    "instants": INSTANTS,
    "sessions": Cut("SESSION(ts, 4s)", lambda rows: sessions(rows, 4)),
    "states": Cut("STATE_WINDOW(v % 3)", _by_state),
    "events": Cut(
        "EVENT_WINDOW(START WITH v >= 60 END WITH v < 30)",
        lambda rows: events(rows, lambda v: v is not None and v >= 60, lambda v: v is not None and v < 30),
    ),
    "counts": Cut("COUNT_WINDOW(4, 2)", lambda rows: counts(rows, 4, 2)),
}
KINDS = (*STREAMS, PERIODIC)


@dataclass
class Workload:
    """A lake with a stream of each kind over one table, and the commits that were written to the table."""

    random: random.Random
    root: Path = Path()
    spark: SparkSession | None = None
    transport: str = "auto"
    kinds: Sequence[str] = KINDS
    commits: list[Commit] = field(default_factory=list)
    readings: dict[Cell, int] = field(default_factory=dict)
    front: int = 0

    def begin(self) -> Workload:
        """Make the lake."""
        with self.opened() as lake:
            lake.sql("CREATE STABLE meters (ts TIMESTAMP, v INT) TAGS (loc INT)")
            for name in self.kinds:
                lake.sql(_statement(name))
        return self

    def resumed(self) -> Workload:
        """Take the lake up again: what was written to it is what the change feed of its source says."""
        changes = pa.table(DeltaTable(self.source).load_cdf()).select(
            ["_commit_version", "_change_type", "tbname", "ts", "v"]
        )
        commits: defaultdict[int, list[Change]] = defaultdict(list)
        for version, kind, name, ts, value in sorted(zip(*changes.to_pydict().values(), strict=True)):
            cell = (name, int((ts - START).total_seconds()))
            if kind == "delete":
                del self.readings[cell]
                commits[version].append(Change(_row(cell, value), "delete"))
            elif kind != "update_preimage":
                self.readings[cell] = value
                commits[version].append(Change(_row(cell, value)))
        self.commits = [*commits.values()]
        self.front = max((second for _, second in self.readings), default=0)
        return self

    def opened(self) -> Lake:
        """Open the lake as a process that has just started would."""
        settings = Settings(transport=self.transport, checkpoint_ticks=3, lock_wait_seconds=CURRENT_SECONDS)
        return Lake(self.root, spark=self.spark, settings=settings)

    # --- what is written ---

    def path(self, table: str) -> str:
        """Return where a table lies."""
        return str(self.root / "main" / table)

    @property
    def source(self) -> str:
        """The path of the table that the streams read."""
        return self.path("meters")

    def write(self, lake: Lake) -> None:
        """Make one commit: mostly rows at the front, now and then late ones, updates and deletes.

        One of three is made by another tool, which knows of no lake.
        """
        chosen = self.random.random()
        if chosen < 0.6 or len(self.readings) < 5:
            self.front += self.random.randint(1, 25)
            cells = {(self.random.choice(METERS), self.front - self.random.randint(0, 3)) for _ in range(3)}
        elif chosen < 0.75:
            cells = {(self.random.choice(METERS), self.random.randint(0, self.front))}
        elif chosen < 0.9:
            cells = {self.random.choice([*self.readings])}
        else:
            return self._delete(lake, self.random.choice([*self.readings]))
        return self._write(lake, {cell: self.random.randint(0, 99) for cell in sorted(cells)})

    def _write(self, lake: Lake, readings: dict[Cell, int]) -> None:
        rows = [
            {"tbname": name, "loc": 1, "ts": moment(at), "v": value} for (name, at), value in readings.items()
        ]
        if self._is_foreign():
            self._merge(rows)
        else:
            lake.insert("meters", rows)
        self.readings.update(readings)
        self.commits.append([Change(_row(cell, value)) for cell, value in readings.items()])

    def _delete(self, lake: Lake, cell: Cell) -> None:
        name, at = cell
        condition = f"tbname = '{name}' AND ts = '{moment(at):%Y-%m-%dT%H:%M:%S}Z'"
        if self._is_foreign():
            DeltaTable(self.source).delete(condition)
        else:
            lake.sql(f"DELETE FROM meters WHERE {condition}")
        value = self.readings.pop(cell)
        self.commits.append([Change(_row(cell, value), "delete")])

    def _is_foreign(self) -> bool:
        return self.random.random() < 1 / 3

    def _merge(self, rows: list[dict[str, Any]]) -> None:
        """Write rows as delta-rs alone does: in place of those of their keys."""
        table = DeltaTable(self.source)
        schema = pa.schema(table.schema().to_arrow())
        (
            table.merge(
                pa.Table.from_pylist(rows, schema=schema),
                "t.tbname = s.tbname AND t.ts = s.ts",
                source_alias="s",
                target_alias="t",
            )
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )

    # --- what must have come out ---

    def check(self) -> None:
        """Run to idle; hold every output against the reference, and every tick against its commits."""
        if PERIODIC in self.kinds:
            SystemClock().sleep(PERIOD_SECONDS)  # there is an instant behind all that was written
        with self.opened() as lake:
            failed = lake.run().failed
            assert not failed, failed[0].error
            for status in lake.streams():
                assert (status.status, status.lag) == ("Running", 0), status
        for name in self.kinds:
            output = self.path(f"o_{name}")
            if name == PERIODIC:
                self._check_periodic(rows_of(output))
            else:
                same(rows_of(output), self._expected(STREAMS[name]))
            ticks = commits_by_tick(output)
            assert len(ticks) == len(set(ticks)), f"a tick was committed twice to {output}: {ticks}"

    def _check_periodic(self, said: Sequence[Row]) -> None:
        """Hold what instants said against what was written: each writing of one of them, in order."""
        for meter in METERS:
            written = [
                change.row["v"]
                for commit in self.commits
                for change in commit
                if change.kind == "write" and change.row["tbname"] == meter
            ]
            counts = [*accumulate(n for name, _, n, _ in said if name == meter)]
            totals = [*accumulate(total or 0 for name, _, _, total in said if name == meter)]
            assert max(counts, default=0) == len(written), (meter, counts, written)
            sums = [*accumulate(written)]
            assert totals == [sums[count - 1] for count in counts], (meter, counts, totals, written)

    def verify(self) -> None:
        """Let VERIFY hold every output against the batch evaluation."""
        with self.opened() as lake:
            for name in self.kinds:
                found = lake.verify(name)
                assert found.holds, found.differing

    def _expected(self, trigger: Trigger | Cut) -> list[Row]:
        if isinstance(trigger, Cut):
            return trigger.expected(self.readings)
        return self._default() if trigger is HOPPING else expected(trigger, self.readings)

    def _default(self) -> list[Row]:
        """Return what a stream with default policies has written, which depends on the order of commits."""
        stream = Stream(
            Interval(Span(HOPPING.length, "s"), Span(HOPPING.step, "s")),
            calculate=lambda rows: (len(rows), sum(row["v"] for row in rows) if rows else None),
            group=lambda row: (row["tbname"],),
        )
        rows = evaluate(stream, self.commits)
        return sorted(
            (name, int((start - START).total_seconds()), n, total) for name, start, _, n, total in rows
        )


def _statement(name: str) -> str:
    """Return the CREATE STREAM of a kind."""
    if name != PERIODIC:
        return STREAMS[name].statement(name=name, output=f"o_{name}")
    return (
        f"CREATE STREAM {name} PERIOD({PERIOD_SECONDS:.0f}s) FROM meters PARTITION BY tbname "
        f"STREAM_OPTIONS(IGNORE_NODATA_TRIGGER) INTO o_{name} AS "
        "SELECT CAST(_tlocaltime / 1000000 AS TIMESTAMP) AS at, count(*) AS n, sum(v) AS total FROM %%trows"
    )


def _row(cell: Cell, value: int) -> dict[str, Any]:
    return {"tbname": cell[0], "ts": moment(cell[1]), "v": value}


def run(
    root: Path,
    spark: SparkSession,
    *,
    cycles: int,
    seed: str,
    transport: str = "auto",
    tell: Tell = lambda _text: None,
) -> int:
    """Kill a child ``cycles`` times while rows are written, and check now and then; return the commits.

    Raises AssertionError as soon as an output is not what it should be.
    """
    drawn = random.Random(seed)
    clock = SystemClock()
    load = Workload(drawn, root, spark, transport).begin()
    for cycle in range(1, cycles + 1):
        deadline = drawn.uniform(0, MAX_SECONDS)
        arguments = (str(load.root), transport, "--watch")
        with (
            child("tests.faults.child", *arguments, **gateway_of(spark)) as process,
            load.opened() as lake,
        ):
            load.write(lake)
            await_ready(process)
            deadline += clock.monotonic()
            while clock.monotonic() < deadline:
                load.write(lake)
                clock.sleep(drawn.uniform(0, 0.3))
            assert process.poll() is None, process.communicate()[1]
        spark.catalog.clearCache()
        if cycle % CHECKED_EVERY == 0 or cycle == cycles:
            load.check()
            tell(f"cycle {cycle}: {len(load.commits)} commits, all is well")
    load.verify()
    return len(load.commits)


def await_ready(process: subprocess.Popen[str]) -> None:
    """Wait until a child is ready to tick."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()[1]


def await_current(lake: Lake, process: subprocess.Popen[Any]) -> None:
    """Wait until the streams of a process have taken all that there is."""
    clock = SystemClock()
    deadline = clock.monotonic() + CURRENT_SECONDS
    while {(status.status, status.lag) for status in lake.streams()} != {("Running", 0)}:
        assert process.poll() is None, process.communicate()[1]
        assert clock.monotonic() < deadline, lake.streams()
        clock.sleep(0.2)


def command(kill: Kill, seed: str, cycles: int, of_one: int) -> int:
    """Kill ``cycles`` times, ``of_one`` of them in each lake: the reference goes over its whole history.

    Returns exit status 1 when an output was not what it should be; its lake stays then.
    """

    def tell(text: str) -> None:
        sys.stdout.write(f"seed {seed}: {text}\n")
        sys.stdout.flush()

    for number, done in enumerate(range(0, cycles, of_one)):
        folder = Path(tempfile.mkdtemp(prefix="lakestream-faults-"))
        try:
            kill(folder / "lake", min(of_one, cycles - done), f"{seed}-{number}", tell)
        except AssertionError as error:
            tell(f"lake {number}: {error}\nit is in {folder}")
            return 1
        shutil.rmtree(folder)
    return 0
