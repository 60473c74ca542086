"""What others write into outputs: seen wherever it comes between, and what of it does no harm; no Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from lakestream.engine.planning.checks import check_output, settled
from lakestream.errors import StreamError
from lakestream.lake import Lake
from lakestream.storage.records.registry import TablePosition
from lakestream.storage.tables.table import Table
from lakestream.storage.writes.commit import CommitTag, commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.faults

OF_MINUTE = (
    "INTERVAL(1m) SLIDING(1m) FROM a PARTITION BY tbname STREAM_OPTIONS(EXACT | IGNORE_NODATA_TRIGGER)"
)
TABLES = f"""
CREATE STABLE a (ts TIMESTAMP, v INT) TAGS (n INT);
CREATE TABLE theirs (w TIMESTAMP, s BIGINT);
CREATE STREAM x {OF_MINUTE} INTO both OUTPUT_SUBTABLE(concat('x_', tbname))
  AS SELECT _twstart AS w, sum(v) AS s FROM %%trows;
CREATE STREAM y {OF_MINUTE} INTO both OUTPUT_SUBTABLE(concat('y_', tbname))
  AS SELECT _twstart AS w, max(v) AS s FROM %%trows;
CREATE STREAM z INTERVAL(1m) SLIDING(1m) FROM a INTO theirs AS SELECT _twstart AS w, sum(v) AS s FROM %%trows
"""


class World:
    """Two streams that share an output, and one that writes into a table of the user's."""

    def __init__(self, root: Path) -> None:
        self.root, self.minutes = root, 0
        self.lake = Lake(root)
        self.lake.sql(TABLES)
        for _ in range(2):
            self.come()

    def come(self) -> None:
        """Let the rows of a minute come, and take them."""
        rows = [{"tbname": "t", "n": 1, "ts": f"2026-01-01 00:{self.minutes:02}:01", "v": self.minutes}]
        self.lake.insert("a", rows)
        self.minutes += 1
        self.lake.run()

    def path(self, table: str) -> str:
        return str(self.root / "main" / table)

    def states(self) -> dict[str, str]:
        return {
            one.name: f"{one.status} {(one.last_error or '').partition(':')[0]}".strip()
            for one in self.lake.streams()
        }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("touched") / "lake")
    yield world
    world.lake.close()


RUNNING = {"x": "Running", "y": "Running", "z": "Running"}


def keep_up(path: str) -> None:
    """Do to an output whatever changes no row."""
    table = DeltaTable(path)
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
    table.alter.set_table_description("of others")
    table.create_checkpoint()
    write_deltalake(path, DeltaTable(path).to_pyarrow_table().slice(0, 0), mode="append")


def test_streams_of_one_output_and_upkeep_by_others_disturb_nobody(world: World) -> None:
    for _ in range(2):
        keep_up(world.path("both"))
        world.come()
    assert world.states() == RUNNING


def test_a_table_of_the_users_takes_rows_of_others(world: World) -> None:
    row = {"w": [datetime(2025, 1, 1, tzinfo=UTC)], "s": [-1]}
    write_deltalake(world.path("theirs"), pa.table(row), mode="append")
    world.come()
    assert world.states() == RUNNING
    assert DeltaTable(world.path("theirs")).to_pyarrow_table()["s"].to_pylist().count(-1) == 1


def test_all_streams_of_an_output_stop_and_each_is_started_for_itself(world: World) -> None:
    DeltaTable(world.path("both")).delete("tbname = 'x_t'")
    world.come()
    touched = {**RUNNING, "x": "Failed OUTPUT_TOUCHED", "y": "Failed OUTPUT_TOUCHED"}
    assert world.states() == touched
    world.lake.sql("START STREAM y")
    world.come()
    world.come()
    assert world.states() == {**touched, "y": "Running"}
    world.lake.sql("RECALCULATE STREAM x RESYNC")
    world.lake.run()
    assert world.states() == RUNNING
    rows = DeltaTable(world.path("both")).to_pyarrow_table().to_pylist()
    assert sorted((row["tbname"], row["w"].minute, row["s"]) for row in rows) == [
        (f"{name}_t", minute, minute) for name in "xy" for minute in range(world.minutes - 1)
    ]
    assert [*world.lake.repair.check()] == []


# --- what comes between a tick's look and its commit ---


def foreign(path: str) -> None:
    write_deltalake(path, pa.table({"v": [0]}), mode="append")


def restored(path: str) -> None:
    DeltaTable(path).restore(1)


def of_another_stream(path: str) -> None:
    commit(Table.open(path), pa.table({"v": [5]}), CommitTag("lakestream:other:output", 7))


def of_another_program(path: str) -> None:
    properties = CommitProperties(custom_metadata={"userMetadata": "lakestream:"})
    write_deltalake(path, pa.table({"v": [0]}), mode="append", commit_properties=properties)


@pytest.mark.parametrize(
    ("between", "code"),
    [
        (foreign, "OUTPUT_TOUCHED"),
        (of_another_program, "OUTPUT_TOUCHED"),
        (restored, "OUTPUT_REWOUND"),
        (of_another_stream, None),
    ],
)
def test_what_came_between_is_seen_by_the_next_check(
    tmp_path: Path, between: Callable[[str], None], code: str | None
) -> None:
    path = str(tmp_path / "o")
    write_deltalake(path, pa.table({"v": [0]}))
    table = Table.open(path)
    for tick in (1, 2):
        mark = TablePosition.of(table)
        commit(table, pa.table({"v": [tick]}), CommitTag("lakestream:s:output", tick))
        assert settled(mark, table, table.version, is_own=True) == TablePosition.of(table)
    mark = TablePosition.of(table)
    between(path)
    result = commit(table, pa.table({"v": [3]}), CommitTag("lakestream:s:output", 3))
    then = settled(mark, table, result.version, is_own=True)
    if code is None:
        assert then == TablePosition.of(table)
        return
    assert then == mark
    with pytest.raises(StreamError, match=code):
        check_output(then, table, is_own=True)
    if code == "OUTPUT_TOUCHED":  # where rows of others may be, they are passed over for good
        assert settled(mark, table, result.version, is_own=False) == TablePosition.of(table)
