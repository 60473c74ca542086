"""Upkeep between two ticks: logs stay short, and the files of an output are of a bounded size."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from deltalake import PostCommitHookProperties, write_deltalake

from lakestream.errors import StorageError
from lakestream.storage.delta import (
    CommitTag,
    Rules,
    Table,
    commit,
    compact,
    keep_up,
    read_arrow,
    read_commits,
    shorten_log,
)
from lakestream.storage.tables.log import last_checkpoint
from lakestream.storage.writes.upkeep import FILE_BYTES, retention

if TYPE_CHECKING:
    from pathlib import Path

NO_UPKEEP = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
ROWS = 600_000


def rows(first: int, count: int) -> pa.Table:
    """Rows in the order of n, of values that compress badly."""
    numbers = np.arange(first, first + count)
    return pa.table({"n": numbers, "v": np.random.default_rng(first).random(count)})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    write_deltalake(tmp_path, rows(0, 1))
    return Table.open(str(tmp_path))


def sizes(table: Table) -> list[int]:
    table.reopen()
    return sorted(pa.table(table.handle.get_add_actions())["size_bytes"].to_pylist())


def rules(*, rewritten: bool) -> Rules:
    def no_spark() -> None:
        raise AssertionError

    return Rules(2, deletes=False, dry_run=False, rewritten=rewritten, spark=no_spark)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("interval 7 days", timedelta(days=7)),
        ("INTERVAL 1 week", timedelta(weeks=1)),
        ("1 day 12 hours", timedelta(days=1, hours=12)),
        ("interval 0 seconds", timedelta()),
        ("interval of a week", None),
        ("interval 7", None),
        ("interval 99999999999 days", None),
    ],
)
def test_how_long_files_are_kept(table: Table, written: str, meant: timedelta | None) -> None:
    table.handle.alter.set_table_properties({"delta.deletedFileRetentionDuration": written})
    table.reopen()
    if meant is not None:
        assert retention(table) == meant
        return
    with pytest.raises(StorageError, match="RETENTION_UNREADABLE"):
        retention(table)


def test_a_checkpoint_is_written_where_there_was_none_for_long(table: Table) -> None:
    found = []
    for number in range(1, 6):
        write_deltalake(table.path, rows(number, 1), mode="append", post_commithook_properties=NO_UPKEEP)
        table.refresh()
        shorten_log(table, 3)
        found.append(last_checkpoint(table.path))
    assert found == [-1, 2, 2, 2, 5]


def test_a_checkpoint_of_its_writer_is_left_alone(table: Table) -> None:
    for number in range(1, 5):
        write_deltalake(table.path, rows(number, 1), mode="append", post_commithook_properties=NO_UPKEEP)
        if number == 3:
            table.reopen()
            table.handle.create_checkpoint()
        table.refresh()
        shorten_log(table, 4)
    assert last_checkpoint(table.path) == 3


def test_old_entries_of_a_log_go_with_compaction(table: Table, tmp_path: Path) -> None:
    table.handle.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
    table.reopen()
    for number in range(4):
        commit(table, rows(number, 1), CommitTag("app", number))
    table.handle.create_checkpoint()
    before = {file.name for file in (tmp_path / "_delta_log").glob("*.json")}
    compact(table)
    left = {file.name for file in (tmp_path / "_delta_log").glob("*.json")}
    assert len(before) == 6
    assert len(before & left) < 3
    assert Table.open(table.path).version == table.version


def test_a_replaced_row_costs_one_small_file(table: Table) -> None:
    """Of as large an output as there may be; after compaction by either way too."""
    commit(table, rows(1, ROWS), CommitTag("app", 1))
    whole = sizes(table)
    assert len(whole) > 3
    assert max(whole) <= 1.2 * FILE_BYTES
    compact(table)
    keep_up(table, rules(rewritten=True))
    for tick in (2, 3):
        result = commit(table, rows(ROWS // 2, 1), CommitTag("app", tick), replace=f"n = {ROWS // 2}")
        [info] = read_commits(table.path, result.version - 1, result.version)
        assert len(info.removed) == 1
        assert info.add_bytes <= 1.2 * FILE_BYTES
    assert read_arrow(table).num_rows == ROWS + 1


def test_a_table_that_is_only_added_to_has_large_files(table: Table) -> None:
    commit(table, rows(1, ROWS), CommitTag("app", 1))
    keep_up(table, rules(rewritten=False))
    assert len(sizes(table)) == 1
