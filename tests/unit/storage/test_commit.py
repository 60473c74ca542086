from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from lakestream.errors import StorageError, StreamError
from lakestream.storage.delta import (
    Change,
    CommitTag,
    Table,
    align,
    changes_arrow,
    commit,
    commit_made,
    read_arrow,
    read_commits,
    timestamp_literal,
)
from lakestream.storage.writes import writing as module

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.storage.names.table_info import TableInfo

Rows = "Callable[..., pa.Table]"
S = 1_000_000


def tag(tick: int, epoch: int = 1) -> CommitTag:
    return CommitTag("lakestream:u1:out", tick, {"epoch": epoch, "tick": tick})


def values(table: Table) -> list[float]:
    table.refresh()
    return sorted(read_arrow(table, columns=["v"])["v"].to_pylist())


@pytest.fixture
def table(meters: TableInfo) -> Table:
    return Table.open(meters.path)


def test_a_tick_is_written_once_with_its_metadata(table: Table, rows: Callable[..., pa.Table]) -> None:
    assert commit(table, rows((1, 1.0)), tag(1)).version == 1
    again = commit(table, rows((1, 1.0)), tag(1))
    assert (again.version, again.replayed) == (1, True)
    assert values(table) == [1.0]
    [info] = read_commits(table.path, 0, 1)
    assert info.transactions == (("lakestream:u1:out", 1),)
    assert json.loads(info.user_metadata or "") == {"epoch": 1, "tick": 1}
    assert (info.append_only, info.add_rows, info.adds) == (True, 1, 1)


def test_a_replay_is_seen_on_a_new_handle_and_after_a_restart(
    table: Table, rows: Callable[..., pa.Table]
) -> None:
    commit(table, rows((1, 1.0)), tag(1))
    commit(table, rows((2, 2.0)), tag(2))
    fresh = Table.open(table.path)
    assert commit(fresh, rows((1, 1.0)), tag(1, epoch=2)).version == 1
    assert commit(fresh, rows((2, 2.0)), tag(2, epoch=2)).replayed
    assert values(fresh) == [1.0, 2.0]


def test_a_tick_without_rows_still_has_its_number(table: Table, rows: Callable[..., pa.Table]) -> None:
    assert commit(table, None, tag(1)).version == 1
    assert commit(table, rows(), tag(2)).version == 2
    assert table.transaction_version(tag(1).app) == 2
    assert changes_arrow(table, 0, 2, ["v"]).num_rows == 0


def test_a_rewrite_is_one_commit(table: Table, rows: Callable[..., pa.Table]) -> None:
    commit(table, rows((1, 1.0), (2, 2.0), (3, 3.0)), tag(1))
    predicate = f"ts >= {timestamp_literal(2 * S)} AND ts < {timestamp_literal(3 * S)}"
    assert commit(table, rows((2, 9.0)), tag(2), replace=predicate).version == 2
    assert commit(table, rows((2, 9.0)), tag(2), replace=predicate).replayed
    assert values(table) == [1.0, 3.0, 9.0]
    changed = changes_arrow(table, 1, 2, ["v"]).to_pylist()
    net = {(r["v"], r["_change_type"]) for r in changed if r["v"] in {2.0, 9.0}}
    assert net == {(2.0, "delete"), (9.0, "insert")}
    assert commit(table, None, tag(3), replace=predicate).version == 3
    assert values(table) == [1.0, 3.0]


def test_a_stale_handle_goes_on_from_the_latest_version(table: Table, rows: Callable[..., pa.Table]) -> None:
    other = Table.open(table.path)
    commit(other, rows((1, 1.0)), CommitTag("another", 1))
    assert commit(table, rows((2, 2.0)), tag(1)).version == 2


def _failing(times: int, error: Exception, *, write_first: bool = False) -> Callable[..., None]:
    left = [times]

    def write(*args: Any, **kwargs: Any) -> None:
        if left[0] and not write_first:
            left[0] -= 1
            raise error
        write_deltalake(*args, **kwargs)
        if left[0]:
            left[0] -= 1
            raise error

    return write


def test_a_change_is_made_anew_of_what_others_wrote_in_between(
    table: Table, rows: Callable[..., pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "write_deltalake", _failing(1, CommitFailedError("conflict")))
    seen = []

    def laid() -> Change:
        seen.append(values(table))
        if len(seen) == 1:
            write_deltalake(table.path, align(rows((1, 7.0)), table.schema), mode="append")
        return Change(rows((2, sum(seen[-1]))), metadata={"tries": len(seen)})

    assert commit_made(table, laid, tag(1)).version == 2
    assert seen == [[], [7.0]]
    assert values(table) == [7.0, 7.0]
    [info] = read_commits(table.path, 1, 2)
    assert json.loads(info.user_metadata or "") == {"epoch": 1, "tick": 1, "tries": 2}


def test_a_lost_answer_is_recognised(
    table: Table, rows: Callable[..., pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "write_deltalake", _failing(1, OSError("connection lost"), write_first=True))
    result = commit(table, rows((1, 1.0)), tag(1))
    assert (result.version, result.recovered, result.replayed) == (1, True, False)
    assert values(table) == [1.0]


def test_a_conflict_is_tried_again_and_bounded(
    table: Table, rows: Callable[..., pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "write_deltalake", _failing(2, CommitFailedError("conflict")))
    assert commit(table, rows((1, 1.0)), tag(1)).version == 1
    monkeypatch.setattr(module, "write_deltalake", _failing(99, CommitFailedError("conflict")))
    with pytest.raises(StorageError) as caught:
        commit(table, rows((1, 1.0)), tag(2))
    assert caught.value.code == "COMMIT_CONFLICT"
    assert values(table) == [1.0]


def test_any_other_failure_is_named(
    table: Table, rows: Callable[..., pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "write_deltalake", _failing(1, DeltaError("No space left\n at frame 0")))
    with pytest.raises(StorageError, match="No space left") as caught:
        commit(table, rows((1, 1.0)), tag(1))
    assert caught.value.code == "COMMIT_FAILED"
    assert "frame" not in caught.value.message


def test_a_rival_with_the_same_tick_fences_us(
    table: Table, rows: Callable[..., pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes pass the first look together: the rival commits just before our write."""
    rival = Table.open(table.path)

    def late(*args: Any, **kwargs: Any) -> None:
        monkeypatch.setattr(module, "write_deltalake", write_deltalake)
        commit(rival, rows((1, 5.0)), tag(1, epoch=2))
        write_deltalake(*args, **kwargs)

    monkeypatch.setattr(module, "write_deltalake", late)
    with pytest.raises(StreamError) as caught:
        commit(table, rows((1, 1.0)), tag(1, epoch=1))
    assert caught.value.code == "FENCED"
    assert values(table) == [5.0]


def test_a_later_epoch_fences_a_replay(table: Table, rows: Callable[..., pa.Table]) -> None:
    commit(table, rows((1, 1.0)), tag(1, epoch=2))
    with pytest.raises(StreamError, match="FENCED"):
        commit(table, rows((1, 1.0)), tag(1, epoch=1))


def test_a_rewrite_against_a_concurrent_append_sees_it(
    table: Table, rows: Callable[..., pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(table, rows((1, 1.0)), tag(1))
    rival = Table.open(table.path)

    def late(*args: Any, **kwargs: Any) -> None:
        monkeypatch.setattr(module, "write_deltalake", write_deltalake)
        commit(rival, rows((1, 5.0)), CommitTag("another", 1))
        write_deltalake(*args, **kwargs)

    monkeypatch.setattr(module, "write_deltalake", late)
    commit(table, rows((1, 2.0)), tag(2), replace=f"ts = {timestamp_literal(S)}")
    assert values(table) == [2.0]


def test_missing_columns_are_null_and_unknown_ones_refused(
    table: Table, rows: Callable[..., pa.Table]
) -> None:
    commit(table, rows((1, 1.0)), tag(1))
    assert read_arrow(table, columns=["n", "loc"]).to_pylist() == [{"n": None, "loc": None}]
    with pytest.raises(StorageError, match="no column x"):
        commit(table, rows((1, 1.0)).append_column("x", pa.array([1])), tag(2))


def test_a_missing_commit_is_never_passed_over(table: Table, rows: Callable[..., pa.Table]) -> None:
    for tick in range(1, 4):
        commit(table, rows((tick, 1.0)), tag(tick))
    Path(table.path, "_delta_log", f"{2:020}.json").unlink()
    with pytest.raises(StreamError, match="version 2") as caught:
        changes_arrow(table, 0, 3, ["v"])
    assert caught.value.code == "CHANGES_LOST"
    assert changes_arrow(table, 2, 3, ["v"]).num_rows == 1


def test_a_missing_data_file_is_named(table: Table, rows: Callable[..., pa.Table]) -> None:
    commit(table, rows((1, 1.0)), tag(1))
    for file in Path(table.path).glob("*.parquet"):
        file.unlink()
    with pytest.raises(StreamError, match="CHANGES_LOST"):
        changes_arrow(table, 0, 1, ["v"])
    with pytest.raises(StorageError, match="READ_FAILED"):
        read_arrow(table)
