"""Expectations over random histories: output and quarantines equal those of the batch evaluation.

That is a stream over a table that has been made as the source is in the end. Both are computed without
Spark; that Spark gives the same is held by tests/contract/test_expectations.py.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake
from lakestream.errors import StatementError

if TYPE_CHECKING:
    from pathlib import Path

TRIGGERS = {
    "tumbling": "INTERVAL(1m) SLIDING(1m)",
    "hopping": "INTERVAL(2m) SLIDING(1m)",
    "sessions": "SESSION(ts, 20s)",
    "states": "STATE_WINDOW(state)",
    "events": "EVENT_WINDOW(START WITH state = 1 END WITH state = 2)",
    "counts": "COUNT_WINDOW(2)",
}
SOURCES = [
    "EXPECT a CHECK (v >= 0) ON VIOLATION QUARANTINE",
    "EXPECT a CHECK (v >= 0) ON VIOLATION DROP",
    (
        "EXPECT a CHECK (v >= 0) ON VIOLATION QUARANTINE EXPECT b CHECK (v < 9) ON VIOLATION QUARANTINE "
        "EXPECT c CHECK (v <> 4) ON VIOLATION DROP"
    ),
]
RESULTS = [
    "EXPECT r CHECK (total < 10) ON VIOLATION QUARANTINE",
    "EXPECT r CHECK (n <> 2) ON VIOLATION QUARANTINE EXPECT q CHECK (total > 0) ON VIOLATION DROP",
    "EXPECT r CHECK (n < 3) ON VIOLATION DROP",
]
TABLES = ("o", "s__quarantine", "s__quarantine_results")
KEPT = {(0, "tumbling"), (0, "sessions")}
"""Histories of make test; the others take as long each, and are left to the long ones."""
UNCOMPARED = ("quarantine_at", "quarantine_tick")

Row = tuple[int, int, str]


class World:
    """A lake with a source and a stream over it, and what the source has."""

    def __init__(self, root: Path, statement: str) -> None:
        self.lake = Lake(root)
        self.lake.sql("CREATE TABLE p (ts TIMESTAMP, v INT, state INT, g VARCHAR(4))")
        self.lake.sql(statement)
        self.rows: dict[str, Row] = {}

    def insert(self, rows: dict[str, Row]) -> None:
        """Write rows, in one commit; a key that is there is written anew."""
        self.rows |= rows
        values = ", ".join(f"('{key}', {v}, {state}, '{g}')" for key, (v, state, g) in rows.items())
        self.lake.sql(f"INSERT INTO p VALUES {values}")

    def change(self, drawn: random.Random) -> None:
        """Insert, update or delete some rows."""
        kind = drawn.random()
        if kind < 0.65 or not self.rows:
            self.insert({_key(drawn): _row(drawn) for _ in range(drawn.randrange(1, 4))})
            return
        key = drawn.choice([*self.rows])
        if kind < 0.8:
            del self.rows[key]
            self.lake.sql(f"DELETE FROM p WHERE ts = '{key}'")
            return
        value = drawn.randrange(-2, 11)
        self.rows[key] = (value, *self.rows[key][1:])
        self.lake.sql(f"UPDATE p SET v = {value} WHERE ts = '{key}'")

    def content(self) -> dict[str, list[Any]]:
        """Run the stream, and return what it has written."""
        self.lake.run()
        status = self.lake.streams()[0]
        assert status.status == "Running", status.last_error
        found = {table: self._rows(table) for table in TABLES}
        self.lake.close()
        return found

    def _rows(self, table: str) -> list[Any]:
        try:
            result = self.lake.sql(f"SELECT * FROM {table}")
        except StatementError:
            return []  # the stream has no such quarantine
        compared = [number for number, name in enumerate(result.columns) if name not in UNCOMPARED]
        return sorted([str(row[number]) for number in compared] for row in result.fetchall())


def _key(drawn: random.Random) -> str:
    return f"2025-01-01 00:0{drawn.randrange(3)}:{drawn.randrange(0, 60, 5):02d}"


def _row(drawn: random.Random) -> Row:
    return drawn.randrange(-2, 11), drawn.choice([1, 2]), drawn.choice("ab")


@pytest.mark.parametrize(
    ("seed", "trigger"),
    [
        pytest.param(number, trigger, marks=[] if (number, trigger) in KEPT else pytest.mark.long)
        for number in range(2)
        for trigger in TRIGGERS
    ],
)
def test_incremental_equals_batch(tmp_path: Path, seed: int, trigger: str) -> None:
    drawn = random.Random(f"{seed} {trigger}")
    source, results = drawn.choice(SOURCES), drawn.choice(RESULTS)
    statement = (
        f"CREATE STREAM s {TRIGGERS[trigger]} FROM p PARTITION BY g STREAM_OPTIONS(EXACT | FILL_HISTORY) "
        f"{source} INTO o {results} AS SELECT _twstart AS w, count(*) AS n, sum(v) AS total FROM %%trows"
    )
    world = World(tmp_path / "incremental", statement)
    for _ in range(drawn.randrange(3, 8)):
        world.change(drawn)
        if drawn.random() < 0.6:
            world.lake.run()
    written = world.content()
    batch = World(tmp_path / "batch", statement)
    if world.rows:
        batch.insert(world.rows)
    assert written == batch.content(), statement
