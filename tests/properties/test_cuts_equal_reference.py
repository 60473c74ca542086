"""Windows that are cut by rows: however the input comes, the output is that of the reference."""

from __future__ import annotations

from itertools import cycle
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.properties.meters import SECONDS, STATES, World, from_first_to_last
from tests.reference import cut
from tests.tiers import by_spark, leaving

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.properties.meters import Windows

pytestmark = [pytest.mark.spark]

KINDS: dict[str, tuple[str, Windows]] = {
    "session": ("SESSION(ts, 4s)", lambda rows: from_first_to_last(cut.sessions(rows, 4))),
    "state": ("STATE_WINDOW(v)", lambda rows: from_first_to_last(cut.states(rows))),
    "long-state": ("STATE_WINDOW(v) TRUE_FOR(3s)", lambda rows: from_first_to_last(cut.states(rows, 3))),
    "several-states": (
        "STATE_WINDOW(v, v % 2) ZEROTH_STATE(2, NO_ZEROTH) TRUE_FOR(3s)",
        lambda rows: from_first_to_last([w for w in cut.states(rows, 3) if w[0][1] != 2]),
    ),
    "states-forwards": ("STATE_WINDOW(v) EXTEND(1)", lambda rows: cut.extended_states(rows, 1)),
    "states-backwards": ("STATE_WINDOW(v) EXTEND(2)", lambda rows: cut.extended_states(rows, 2)),
    "zeroth-forwards": (
        "STATE_WINDOW(v, v % 2) EXTEND(1) ZEROTH_STATE(2, NO_ZEROTH) TRUE_FOR(3s)",
        lambda rows: cut.extended_states(rows, 1, 3, zeroth=[2]),
    ),
    "zeroth-backwards": (
        "STATE_WINDOW(v, 2, 1)",
        lambda rows: cut.extended_states(rows, 2, zeroth=[1]),
    ),
    "event": (
        "EVENT_WINDOW(START WITH v >= 2 END WITH v = 0)",
        lambda rows: from_first_to_last(
            cut.events(rows, lambda v: v is not None and v >= 2, lambda v: v == 0)
        ),
    ),
    "count": ("COUNT_WINDOW(3)", lambda rows: from_first_to_last(cut.counts(rows, 3, 3))),
    "sliding-count": ("COUNT_WINDOW(4, 2)", lambda rows: from_first_to_last(cut.counts(rows, 4, 2))),
}
WATERMARK = 5


def _world(folder: Path, spark: SparkSession, kind: str, options: str, transport: str) -> World:
    clause, windows = KINDS[kind]
    return World(
        folder,
        spark,
        f"CREATE STREAM s {clause} FROM meters PARTITION BY tbname STREAM_OPTIONS({options}) "
        "INTO o AS SELECT _twstart AS ws, _twend AS we, count(*) AS n, sum(v) AS total FROM %%trows",
        windows,
        transport,
        watermark=WATERMARK if "WATERMARK(5s)" in options else 0,
    )


@pytest.mark.parametrize(("kind", "seed"), list(zip(KINDS, cycle([1, 2]), strict=False)))
def test_every_change_is_followed(tmp_path: Path, spark: SparkSession, kind: str, seed: int) -> None:
    random = Random(f"{kind} {seed}")
    options = "EXACT | WATERMARK(5s)" if seed == 2 else "EXACT"
    world = _world(tmp_path, spark, kind, options, "arrow" if seed == 1 else "spark")
    for _ in range(5):
        for _ in range(random.choice([1, 1, 2])):
            _change(world, random)
        world.run()
    world.verify()
    world.resynchronise()
    world.run()
    _change(world, random)
    world.run()


def _change(world: World, random: Random) -> None:
    action = random.choice(["write", "write", "write", "update", "delete"])
    name = random.choice(["a", "b"])
    known = [second for other, second in world.rows if other == name]
    if action == "write" or not known:
        fresh = random.sample(range(SECONDS), 6)
        world.write({(random.choice(["a", "b"]), at): random.choice(STATES) for at in fresh})
    elif action == "update":
        world.write({(name, random.choice(known)): random.choice(STATES)})
    else:
        world.delete(name, random.choice([max(known), random.choice(known)]))


@pytest.mark.parametrize(
    ("kind", "transport"), leaving(zip(KINDS, cycle(["arrow", "spark"]), strict=False), by_spark)
)
def test_rows_in_order_give_the_same_however_they_are_cut(
    tmp_path: Path, spark: SparkSession, kind: str, transport: str
) -> None:
    random = Random(f"{kind} {transport}")
    world = _world(tmp_path, spark, kind, "WATERMARK(0s)", transport)
    seconds = sorted(random.sample(range(SECONDS), 24))
    while seconds:
        size = random.randint(1, 7)
        now, seconds = seconds[:size], seconds[size:]
        world.write({(name, at): random.choice(STATES) for at in now for name in ("a", "b")})
        if random.random() < 0.6:
            world.run()
    world.run()
    world.verify()


def test_a_recalculation_needs_no_tick_before_it(tmp_path: Path, spark: SparkSession) -> None:
    """As in a process that is new: nothing of an earlier tick is registered."""
    world = _world(tmp_path, spark, "session", "WATERMARK(0s)", "arrow")
    world.write({("a", at): at for at in (0, 2, 10, 12, 30)})
    world.run()
    for view in spark.sql("SHOW VIEWS").collect():
        spark.catalog.dropTempView(view.viewName)
    world.recalculate(1, 11)
    world.run()


@pytest.mark.parametrize(
    ("kind", "transport"),
    leaving([("state", "arrow"), ("long-state", "spark"), ("event", "arrow")], by_spark),
)
def test_expired_rows_cut_nothing(tmp_path: Path, spark: SparkSession, kind: str, transport: str) -> None:
    random = Random(f"expired {kind} {transport}")
    world = _world(tmp_path, spark, kind, "WATERMARK(5s) | EXPIRED_TIME(5s)", transport)
    taken: dict[str, dict[int, int | None]] = {"a": {}, "b": {}}
    for _ in range(9):
        for name, rows in taken.items():
            newest = max(rows, default=None)
            free = [
                second
                for second in range(SECONDS if newest is None else min(newest + 9, SECONDS))
                # A row at the limit is late and has not expired: it has closed windows computed again.
                if (name, second) not in world.rows and (newest is None or second != newest - WATERMARK)
            ]
            commit = {second: random.choice(STATES) for second in random.sample(free[-16:], 3)}
            world.write({(name, second): value for second, value in commit.items()})
            rows |= {
                second: value
                for second, value in commit.items()
                if newest is None or second >= newest - WATERMARK
            }
        if random.random() < 0.7:
            world.tick()
    world.tick()
    assert any(len(rows) < sum(other == name for other, _ in world.rows) for name, rows in taken.items())
    expected = []
    for name, rows in taken.items():
        cut_rows = [(second, rows[second]) for second in sorted(rows) if second <= max(rows) - WATERMARK]
        expected += [(name, low, high) for low, high, _ in KINDS[kind][1](cut_rows)]
    assert world.windows() == sorted(expected)
