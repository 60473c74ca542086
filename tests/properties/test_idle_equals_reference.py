"""Groups that fall idle equal the reference, however rows come, the clock moves and processes end."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from unittest.mock import patch

from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from lakestream import Lake, ManualClock, Settings
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from lakestream.storage.delta import is_table
from lakestream.storage.sessions import session
from tests.properties.driving import fresh_folder
from tests.properties.profiles import number
from tests.reference.idle import Look, events

NOW = datetime(2025, 1, 1, tzinfo=UTC)
TIMEOUT = 10
GROUPS = ("a", "b", "c")
TRIGGERS = (
    "INTERVAL(1m) SLIDING(1m)",
    "SLIDING(1s)",
    "SESSION(ts, 5s)",
    "STATE_WINDOW(v)",
    "EVENT_WINDOW(START WITH v > 0 END WITH v > 1)",
    "COUNT_WINDOW(2)",
)
POINTS = ("C1", "C2", "C3", "C4", "C5", "C6a", "C6b", "C7")

KINDS = {
    "rows": 5,
    "left out": 1,
    "deleted": 1,
    "advance": 5,
    "set back": 1,
    "run": 4,
    "run in parts": 1,
    "crash": 2,
    "reopen": 1,
}
"""What happens, and how often."""


@dataclass
class World:
    """A lake with such a stream, and the looks that it should have had."""

    path: str
    random: Random
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    commits: int = 1_000
    looks: list[Look] = field(default_factory=list)
    came: set[str] = field(default_factory=set)
    number: int = 0

    def __post_init__(self) -> None:
        self.lake = self.opened()

    def opened(self) -> Lake:
        settings = Settings(notify_hosts=("localhost",), max_commits_per_tick=self.commits)
        return Lake(self.path, clock=self.clock, settings=settings)

    def reopen(self) -> None:
        self.lake.close()
        self.lake = self.opened()

    def limit(self, commits: int) -> None:
        """Have ticks take so many commits at most."""
        if commits != self.commits:
            self.commits = commits
            self.reopen()

    @property
    def second(self) -> int:
        return int((self.clock.now() - NOW).total_seconds())

    def write(self, groups: frozenset[str], value: int = 1) -> None:
        self.number += 1
        time = (NOW - timedelta(seconds=self.number % 7, milliseconds=self.number)).isoformat()
        self.lake.insert("m", [{"ts": time, "v": value, "tbname": one} for one in sorted(groups)])
        if value:
            self.came |= groups

    def move(self) -> None:
        """Draw what happens next, and have it happen."""
        draw = self.random
        match draw.choices([*KINDS], [*KINDS.values()])[0]:
            case "rows":
                self.write(frozenset(draw.sample(GROUPS, draw.randint(1, 3))))
            case "left out":
                self.write(frozenset(draw.sample(GROUPS, 1)), 0)
            case "deleted":
                self.lake.sql(f"DELETE FROM m WHERE tbname = '{draw.choice(GROUPS)}' AND v = 0")
            case "advance":
                seconds = draw.choice([1, 3, TIMEOUT - 1, TIMEOUT, TIMEOUT, 3 * TIMEOUT])
                self.clock.advance(timedelta(seconds=seconds))
            case "set back":
                self.clock = ManualClock(self.clock.now() - timedelta(seconds=draw.randint(1, 25)))
                self.reopen()
            case "run":
                self.run(1_000)
            case "run in parts":
                self.run(1)
            case "crash":
                self.crash(draw.choice(POINTS))
            case _:
                self.reopen()

    def look(self) -> None:
        self.looks.append(Look(self.second, frozenset(self.came)))
        self.came.clear()

    def run(self, commits: int) -> None:
        """Run to idle, by ticks of so many commits."""
        self.limit(commits)
        assert not self.lake.run(until="idle").failed
        self.look()

    def crash(self, point: str) -> None:
        """End a tick of all there is in its middle: what was planned counts as of then."""
        self.limit(1_000)
        try:
            with crash_at(point):
                assert not self.lake.run(until="idle").failed
        except SimulatedCrash:
            if point != "C1":
                self.look()
        else:
            self.look()
        self.lake = self.opened()


def create(lake: Lake, trigger: str) -> None:
    lake.sql("CREATE STABLE m (ts TIMESTAMP, v INT) TAGS (loc INT)")
    lake.sql(
        f"CREATE STREAM s {trigger} FROM m PARTITION BY tbname "
        f"STREAM_OPTIONS(IDLE_TIMEOUT({TIMEOUT}s) | EVENT_TYPE(IDLE | RESUME) | PRE_FILTER(v > 0)) "
        "NOTIFY('ws://localhost:9/n') ON (IDLE | RESUME) "
        "INTO o (e, b) AS SELECT CAST(_tidleend / 1000000 AS TIMESTAMP), _tidlestart"
    )


def refused(*_arguments: object) -> None:
    raise AssertionError("Spark is asked")


@number(4)
@given(seed=st.integers(0, 2**32))
def test_groups_that_fall_idle_equal_the_reference(seed: int) -> None:
    draw = Random(seed)
    with fresh_folder() as path, patch.object(session, "spark_session", refused):
        world = World(f"{path}/lake", draw)
        create(world.lake, draw.choice(TRIGGERS))
        for _ in range(draw.randint(12, 24)):
            world.move()
        world.run(1_000)
        check(world)
        world.lake.close()


def check(world: World) -> None:
    """Hold output and outbox to what happened: each event once, all of a silence under one id."""
    wanted = [*events(TIMEOUT, world.looks)]
    rows = world.lake.sql("SELECT tag_tbname, tbname, b, e FROM o").fetchall()
    # Of two events of one instant the later one is written over the other.
    stored = {(one.group, _nanos(one.end)): _nanos(one.start) for one in wanted}
    assert {(group, int(end.timestamp()) * 10**9): start for group, _, start, end in rows} == stored
    outbox = f"{world.path}/_lakestream/outbox"
    texts = DeltaTable(outbox).to_pyarrow_table()["event"].to_pylist() if is_table(outbox) else []
    told = [json.loads(event) for event in texts]
    tables = {table: group for group, table, *_ in rows}
    found = [(tables[one["tableName"]], one["eventType"], one["idleStart"], one["idleEnd"]) for one in told]
    assert sorted(found) == sorted((e.group, e.kind, _nanos(e.start), _nanos(e.end)) for e in wanted)
    ids = {(one["tableName"], one["idleStart"], one["triggerId"]) for one in told}
    assert len(ids) == len({one["triggerId"] for one in told}) == len({(e.group, e.start) for e in wanted})


def _nanos(second: int) -> int:
    return (int(NOW.timestamp()) + second) * 10**9
