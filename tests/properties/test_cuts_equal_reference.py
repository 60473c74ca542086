"""Windows that are cut by rows: however the input comes, the output is that of the reference."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import cycle
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from lakestream import Lake, Settings
from tests.reference import cut

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    Windows = Callable[[list[tuple[int, int | None]]], list[list[tuple[int, int | None]]]]

pytestmark = [pytest.mark.spark]

START = datetime(2025, 1, 1, tzinfo=UTC)
KINDS: dict[str, tuple[str, Windows]] = {
    "session": ("SESSION(ts, 4s)", lambda rows: cut.sessions(rows, 4)),
    "state": ("STATE_WINDOW(v)", cut.states),
    "long-state": ("STATE_WINDOW(v) TRUE_FOR(3s)", lambda rows: cut.states(rows, 3)),
    "event": (
        "EVENT_WINDOW(START WITH v >= 2 END WITH v = 0)",
        lambda rows: cut.events(rows, lambda v: v is not None and v >= 2, lambda v: v == 0),
    ),
    "count": ("COUNT_WINDOW(3)", lambda rows: cut.counts(rows, 3, 3)),
    "sliding-count": ("COUNT_WINDOW(4, 2)", lambda rows: cut.counts(rows, 4, 2)),
}
SECONDS, STATES, WATERMARK = 60, (0, 1, 2, 3, None), 5


class _World:
    """Two meters, one stream, and the rows that there are."""

    def __init__(self, folder: Path, spark: SparkSession, kind: str, options: str, transport: str) -> None:
        self._folder, self._spark, self._transport = folder, spark, transport
        self.rows: dict[tuple[str, int], int | None] = {}
        self.clause, self._windows = KINDS[kind]
        self._watermark = WATERMARK if "WATERMARK(5s)" in options else 0
        with self._opened() as lake:
            lake.sql("CREATE STABLE meters (ts TIMESTAMP, v INT) TAGS (loc VARCHAR(8))")
            lake.sql(
                f"CREATE STREAM s {self.clause} FROM meters PARTITION BY tbname STREAM_OPTIONS({options}) "
                "INTO o AS SELECT _twstart AS ws, _twend AS we, count(*) AS n, sum(v) AS total FROM %%trows"
            )

    def _opened(self) -> Lake:
        settings = Settings(transport=self._transport)
        return Lake(self._folder / "lake", spark=self._spark, settings=settings)

    def write(self, rows: dict[tuple[str, int], int | None]) -> None:
        """Insert or update rows."""
        self.rows |= rows
        with self._opened() as lake:
            lake.insert("meters", [_row(name, second, v) for (name, second), v in rows.items()])

    def delete(self, name: str, second: int) -> None:
        """Delete a row."""
        self.rows.pop((name, second), None)
        with self._opened() as lake:
            lake.sql(f"DELETE FROM meters WHERE tbname = '{name}' AND ts = '{_at(second).isoformat()}'")

    def run(self) -> None:
        """Run to idle by a lake that was opened anew, and compare."""
        with self._opened() as lake:
            failed = lake.run().failed
            assert not failed, failed[0].error
        found = DeltaTable(self._folder / "lake" / "main" / "o").to_pyarrow_table().to_pylist()
        assert (
            sorted((r["tag_tbname"], r["ws"], r["we"], r["n"], r["total"]) for r in found) == self._expected()
        )

    def resynchronise(self) -> None:
        """Take everything from the source as it is."""
        with self._opened() as lake:
            lake.recalculate("s", resync=True)

    def recalculate(self, since: int, until: int) -> None:
        """Compute windows of a range again."""
        with self._opened() as lake:
            lake.recalculate("s", _at(since).isoformat(), _at(until).isoformat())

    def verify(self) -> None:
        """VERIFY finds what the reference says."""
        with self._opened() as lake:
            assert lake.verify("s").holds

    def _expected(self) -> list[tuple[Any, ...]]:
        expected = []
        for name in {name for name, _ in self.rows}:
            seconds = sorted(second for other, second in self.rows if other == name)
            mark = seconds[-1] - self._watermark
            rows = [(second, self.rows[name, second]) for second in seconds if second <= mark]
            expected += [_result(name, window) for window in self._windows(rows)]
        return sorted(expected)


def _at(second: int) -> datetime:
    return START + timedelta(seconds=second)


def _row(name: str, second: int, v: int | None) -> dict[str, Any]:
    return {"tbname": name, "loc": "x", "ts": _at(second).isoformat(), "v": v}


def _result(name: str, window: list[tuple[int, int | None]]) -> tuple[Any, ...]:
    values = [v for _, v in window if v is not None]
    return (name, _at(window[0][0]), _at(window[-1][0]), len(window), sum(values) if values else None)


@pytest.mark.parametrize(("kind", "seed"), list(zip(KINDS, cycle([1, 2]), strict=False)))
def test_every_change_is_followed(tmp_path: Path, spark: SparkSession, kind: str, seed: int) -> None:
    random = Random(f"{kind} {seed}")
    options = "EXACT | WATERMARK(5s)" if seed == 2 else "EXACT"
    world = _World(tmp_path, spark, kind, options, "arrow" if seed == 1 else "spark")
    for _ in range(5):
        for _ in range(random.choice([1, 1, 2])):
            _change(world, random)
        world.run()
    world.verify()
    world.resynchronise()
    world.run()
    _change(world, random)
    world.run()


def _change(world: _World, random: Random) -> None:
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


@pytest.mark.parametrize(("kind", "transport"), list(zip(KINDS, cycle(["arrow", "spark"]), strict=False)))
def test_rows_in_order_give_the_same_however_they_are_cut(
    tmp_path: Path, spark: SparkSession, kind: str, transport: str
) -> None:
    random = Random(f"{kind} {transport}")
    world = _World(tmp_path, spark, kind, "WATERMARK(0s)", transport)
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
    world = _World(tmp_path, spark, "session", "WATERMARK(0s)", "arrow")
    world.write({("a", at): at for at in (0, 2, 10, 12, 30)})
    world.run()
    for view in spark.catalog.listTables():
        spark.catalog.dropTempView(view.name)
    world.recalculate(1, 11)
    world.run()
