"""Continuous queries over the tree equal their reference, whatever happens between their executions.

Random queries (raw, aggregates, sessions; by device, by time, by LEVEL; FILL, HAVING, WHERE, LIMIT, ranges
that overlap or leave gaps, both policies) over random histories: late, rewritten and deleted points, new
devices, restarts, pauses of several executions. An AFTER trigger hears of every point that is written.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings
from lakestream.clock import ManualClock
from tests import triggers
from tests.properties import profiles
from tests.reference.series import Points, Query, Running, first_due

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
START = 1_700_000_000 - 1_700_000_000 % 60
QUERIES, STEPS = 4, 4
AGGREGATES = ("count", "sum", "avg", "first_value", "last_value", "max_value", "mode")
FILLS = {
    "": "",
    "previous": "FILL(PREVIOUS)",
    "previous 5": "FILL(PREVIOUS, 5s)",
    "linear": "FILL(LINEAR)",
    "7": "FILL(7)",
}


def query_of(random: Random) -> Query:
    """Return a query, all of whose clauses go together."""
    align = random.choice(["device", "device", "time", "level"])
    raw = align != "level" and random.random() < 0.4
    every = random.choice([4, 6, 10])
    windows: dict[str, int] = {}
    if not raw:
        gap = random.choice([2, 3]) if align == "device" and random.random() < 0.3 else 0
        interval = random.choice([2, 3, every])
        windows = {"gap": gap} if gap else {"interval": interval, "step": random.choice([interval, 2])}
    least = 0 if raw or align == "time" else random.choice([0, 0, 1, 2])
    names = random.sample(["s", "s + 1", "diff"] if raw else AGGREGATES, 2 if align != "level" else 1)
    limited = random.random() < 0.3
    end = random.choice([0, 0, 1, 3])
    return Query(
        align,
        tuple(names if align == "device" else names[:1]),
        every,
        random.choice([every, 2 * every, max(windows.get("interval", 1), every - 1)]) + end,
        end,
        **windows,
        fill="" if raw or windows.get("gap") else random.choice(list(FILLS)),
        least=least,
        where=random.choice([None, None, -1]),
        limit=random.choice([1, 3]) if limited else None,
        offset=random.choice([0, 1]) if limited else 0,
        discard=random.random() < 0.3,
    )


def text_of(query: Query, number: int, devices: list[str]) -> str:
    """Return the CREATE CQ of a query; it writes below ``root.o{number}``."""
    names = [name if name in ("s", "s + 1") else f"{name}(s)" for name in query.functions]
    columns = ", ".join(f"x{place}" for place in range(len(names)))
    if query.align == "device":
        into = f"root.o{number}.::({columns})"
    else:
        width = len(devices) if query.align == "time" else 1
        into = ", ".join(f"root.o{number}.column{place}(x0)" for place in range(width))
    sources = ", ".join(f"root.g.{device}" for device in devices) if query.align == "time" else "root.g.*"
    clauses = [f"SELECT {', '.join(names)} INTO {into} FROM {sources}"]
    if query.where is not None:
        clauses.append(f"WHERE s >= {query.where}")
    if query.gap:
        clauses.append(f"GROUP BY SESSION({query.gap}s)")
    elif query.interval:
        level = ", LEVEL = 1" if query.align == "level" else ""
        clauses.append(f"GROUP BY ({query.interval}s, {query.step}s){level}")
    clauses.append(f"HAVING count(s) >= {query.least}" if query.least else "")
    clauses.append(FILLS[query.fill])
    clauses.append(f"LIMIT {query.limit} OFFSET {query.offset}" if query.limit is not None else "")
    clauses.append("ALIGN BY DEVICE" if query.align == "device" else "")
    reach = f"RANGE {query.start}s, {query.end}s" if query.end else f"RANGE {query.start}s"
    policy = "TIMEOUT POLICY DISCARD" if query.discard else ""
    return f"CREATE CQ q{number} RESAMPLE EVERY {query.every}s {reach} {policy} BEGIN {' '.join(clauses)} END"


class World:
    """A lake with queries, and what the reference says of it."""

    def __init__(self, root: Path, spark: SparkSession, random: Random) -> None:
        self.root, self.spark, self.random = root, spark, random
        self.clock = ManualClock(datetime.fromtimestamp(START + 1, UTC))
        self.now = START + 1
        self.points: Points = {}
        self.lake = self.open()
        triggers.tablets.clear()
        for device in ("b", "a"):
            self.insert(device)
        self.sql("CREATE STATELESS TRIGGER t AFTER INSERT ON root.** AS 'tests.triggers.Keeper'")
        self.queries = [self.created(number) for number in range(QUERIES)]

    def open(self) -> Lake:
        """Open the lake, anew."""
        settings = Settings(trigger_modules=("tests.triggers",))
        return Lake(self.root, clock=self.clock, spark=self.spark, settings=settings)

    def sql(self, text: str) -> list[tuple[object, ...]]:
        """Run a statement of the tree."""
        return self.lake.sql(text, dialect="iotdb").fetchall()

    def created(self, number: int) -> Running:
        """Create a query over the devices there are."""
        query = query_of(self.random)
        self.sql(text_of(query, number, list(self.points)))
        return Running(query, first_due(query, self.now))

    def insert(self, device: str) -> None:
        """Write some points of a device: new, late, or again, some as they are."""
        times = self.random.sample(range(self.now - 12, self.now), 5)
        values = {time: float(self.random.randint(-3, 3)) for time in times}
        self.points.setdefault(device, {}).update(values)
        rows = [{"ts": time * 1000, "s": value} for time, value in values.items()]
        self.lake.insert(f"root.g.{device}", rows)

    def delete(self) -> None:
        """Delete the older points of a device."""
        device = self.random.choice(list(self.points))
        before = self.now - self.random.randint(2, 8)
        self.points[device] = {time: v for time, v in self.points[device].items() if time >= before}
        at = datetime.fromtimestamp(before, UTC).strftime("%Y-%m-%d %H:%M:%S")
        self.lake.sql(f"DELETE FROM root.g WHERE device = 'root.g.{device}' AND ts < '{at}'")

    def step(self, number: int) -> None:
        """Let something happen, and time go on."""
        for _ in range(2):
            what = self.random.choice(["insert", "insert", "delete", "restart"])
            if what == "insert":
                self.insert(self.random.choice(list(self.points)))
            elif what == "delete":
                self.delete()
            else:
                self.lake = self.open()
        # A new device joins wildcards; the columns of the others are as they were created.
        if number == 1:
            self.insert("c")
        seconds = self.random.choice([3, 7, 14])
        self.now += seconds
        self.clock.advance(timedelta(seconds=seconds))
        report = self.lake.run()
        assert not report.failed, [tick.error for tick in report.ticks if tick.error]
        for running in self.queries:
            seen = self.points
            if running.query.align == "time":
                seen = {device: own for device, own in seen.items() if device != "c"}
            running.advance(self.now, seen)

    def written(self, number: int) -> dict[tuple[str, int, int], float]:
        """Return what a query has written, by target, time and column."""
        found = {}
        if not any(name == (f"root.o{number}",) for name in self.sql("SHOW DATABASES")):
            return {}
        series = self.sql(f"SHOW TIMESERIES root.o{number}.**")
        for name in dict.fromkeys(str(path).rsplit(".", 1)[0] for path, *_ in series):
            target = name.rsplit(".", 1)[1].replace("column", "column ")
            found_rows = self.lake.sql(f"SELECT * FROM root.o{number} WHERE device = '{name}'")
            rows = found_rows.to_arrow().to_pylist()
            for row in rows:
                time = int(row["ts"].timestamp())
                for place in range(2):
                    if row.get(f"x{place}") is not None:
                        found[target, time, place] = float(row[f"x{place}"])
        return found

    def heard(self, number: int) -> list[tuple[str, int]]:
        """Return what the trigger saw of a query: each tablet's target and its number of points."""
        found = []
        for tablet in triggers.tablets:
            if tablet.device.startswith(f"root.o{number}."):
                target = tablet.device.rsplit(".", 1)[1].replace("column", "column ")
                found.append((target, triggers.points_of(tablet)))
        return found


@pytest.mark.parametrize("seed", range(3 * max(profiles.SEARCH, 1)))
def test_queries_write_what_their_reference_says(seed: int, tmp_path: Path, spark: SparkSession) -> None:
    world = World(tmp_path / "lake", spark, Random(seed))
    for number in range(STEPS):
        world.step(number)
        for place, running in enumerate(world.queries):
            said = f"seed {seed}, step {number}, {text_of(running.query, place, ['b', 'a'])}"
            assert world.written(place) == pytest.approx(running.written), said
    for place, running in enumerate(world.queries):
        said = f"seed {seed}, {text_of(running.query, place, ['b', 'a'])}"
        wanted = [(target, n) for counts in running.writes for target, n in sorted(counts.items())]
        assert sorted(world.heard(place)) == sorted(wanted), said
