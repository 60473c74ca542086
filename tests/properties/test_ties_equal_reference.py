"""Rows of equal time in windows that are cut by rows: their order is none of the input's business."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake
from tests.reference import cut

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    Row = tuple[int, int | None]
    Windows = Callable[[list[Row]], list[list[Row]]]

pytestmark = [pytest.mark.spark]

START = datetime(2025, 1, 1, tzinfo=UTC)
STATES = (0, 1, 2, 3, None)


def _begins(v: int | None) -> bool:
    return v is not None and v >= 2


def _ends(v: int | None) -> bool:
    return v in (0, 3)


def _by_state(row: Row) -> tuple[int, int]:
    return row[0], -1 if row[1] is None else row[1]


def _by_conditions(row: Row) -> tuple[int, bool, bool]:
    return row[0], _begins(row[1]), _ends(row[1])


# The clause, the order of rows, the cut, and a row that would close what is open.
KINDS: dict[str, tuple[str, Callable[[Row], Any], Windows, Row]] = {
    "state": ("STATE_WINDOW(v)", _by_state, cut.states, (10**6, 9)),
    "event": (
        "EVENT_WINDOW(START WITH v >= 2 END WITH v IN (0, 3))",
        _by_conditions,
        lambda rows: cut.events(rows, _begins, _ends),
        (10**6, 0),
    ),
}


class _World:
    """A Delta table without a key, written past lakestream, a stream on it, and the rows that there are."""

    def __init__(self, folder: Path, spark: SparkSession, kind: str) -> None:
        self.path, self._spark = folder / "plain", spark
        self._folder, self.rows = folder, list[tuple[str, int, int | None]]()
        clause, self._order, self._cut, self._last = KINDS[kind]
        self.write([("a", 0, None), ("b", 0, None)])
        with self._opened() as lake:
            lake.sql(f"CREATE TABLE plain LOCATION '{self.path}' TIMESTAMP BY ts")
            lake.sql(
                f"CREATE STREAM s {clause} FROM plain PARTITION BY g "
                "STREAM_OPTIONS(EXACT | FILL_HISTORY_FIRST) INTO o "
                "AS SELECT _twstart AS ws, _twend AS we, count(*) AS n, sum(v) AS total FROM %%trows"
            )

    def _opened(self) -> Lake:
        return Lake(self._folder / "lake", spark=self._spark)

    def write(self, rows: list[tuple[str, int, int | None]]) -> None:
        """Append rows as they stand here."""
        self.rows += rows
        names, seconds, values = zip(*rows, strict=True)
        table = pa.table(
            {
                "ts": pa.array([_at(second) for second in seconds], pa.timestamp("us", "UTC")),
                "g": pa.array(names),
                "v": pa.array(values, pa.int32()),
            }
        )
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(self.path, table, mode="append", configuration=feed)

    def delete(self, name: str, second: int) -> None:
        """Delete all rows of an instant."""
        self.rows = [row for row in self.rows if row[:2] != (name, second)]
        with self._opened() as lake:
            lake.sql(f"DELETE FROM plain WHERE g = '{name}' AND ts = '{_at(second).isoformat()}'")

    def run(self) -> None:
        """Run to idle by a lake that was opened anew, and compare."""
        with self._opened() as lake:
            failed = lake.run().failed
            assert not failed, failed[0].error
        found = DeltaTable(self._folder / "lake" / "main" / "o").to_pyarrow_table().to_pylist()
        expected = [row for name in ("a", "b") for row in self._expected(name)]
        assert sorted((r["g"], r["ws"], r["we"], r["n"], r["total"]) for r in found) == expected

    def verify(self) -> None:
        """VERIFY finds what the reference says."""
        with self._opened() as lake:
            assert lake.verify("s").holds

    def _expected(self, name: str) -> list[tuple[Any, ...]]:
        """The windows that have closed with the rows of their span; of those of one start the last."""
        rows = sorted(((second, v) for other, second, v in self.rows if other == name), key=self._order)
        closed, every = self._cut(rows), self._cut([*rows, self._last])
        following = [*(window[0][0] for window in every[1:]), None]
        return [
            _result(name, window, rows)
            for window, after in zip(closed, following, strict=False)
            if after != window[0][0]
        ]


def _at(second: int) -> datetime:
    return START + timedelta(seconds=second)


def _result(name: str, window: list[Row], rows: list[Row]) -> tuple[Any, ...]:
    first, last = window[0][0], window[-1][0]
    inside = [v for second, v in rows if first <= second <= last]
    values = [v for v in inside if v is not None]
    return (name, _at(first), _at(last), len(inside), sum(values) if values else None)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_equal_time_are_cut_the_same_however_they_come(
    tmp_path: Path, spark: SparkSession, kind: str
) -> None:
    random = Random(kind)
    world = _World(tmp_path, spark, kind)
    since = 1
    for _ in range(7):
        # In order, but for the ties with what was written before; sometimes a row that is late.
        instants = random.choices(range(since, since + 4), k=10)
        since = max(since, max(instants) - random.choice([0, 0, 1]))
        rows = [(random.choice("ab"), second, random.choice(STATES)) for second in instants]
        world.write([*rows, *((random.choice("ab"), since - 1, v) for v in random.sample(STATES, 1))])
        if random.random() < 0.7:
            world.run()
    world.delete(random.choice("ab"), since - 2)
    world.run()
    world.verify()
