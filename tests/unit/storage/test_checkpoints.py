"""A checkpoint that is whole, and says otherwise than the log: not believed, and put aside."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream.errors import StorageError
from lakestream.storage.tables.checkpoints import disagreement
from lakestream.storage.tables.table import Table
from lakestream.storage.writes.commit import CommitTag, commit
from lakestream.storage.writes.edits import append
from lakestream.storage.writes.mending import damage_of, mend

if TYPE_CHECKING:
    from collections.abc import Callable

    Change = Callable[[pa.Table], pa.Table]


def table_at(path: Path, commits: int = 12) -> Path:
    """Return a table of so many commits of streams, with a checkpoint of each fifth; and one of the end."""
    rows = pa.table({"k": ["a b/%é", None], "v": [1, 2]})
    write_deltalake(
        path, rows, partition_by=["k"], configuration={"delta.checkpointInterval": "5"}, mode="append"
    )
    table = Table.open(str(path))
    for tick in range(1, commits):
        rewrites = tick % 4 == 0
        written = rows.slice(1) if rewrites else rows
        commit(table, written, CommitTag("lakestream:s", tick), replace="v = 2" if rewrites else None)
    DeltaTable(path).create_checkpoint()
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return table_at(tmp_path_factory.mktemp("made") / "t")


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "t"))


def newest(path: Path) -> Path:
    return max((path / "_delta_log").glob("*.checkpoint.parquet"))


def changed(path: Path, change: Change) -> None:
    """Write the newest checkpoint anew, with other actions."""
    pq.write_table(change(pq.read_table(newest(path))), newest(path))


def without(action: str) -> Change:
    def change(actions: pa.Table) -> pa.Table:
        lost = next(n for n, found in enumerate(actions[action].to_pylist()) if found is not None)
        return actions.take([n for n in range(actions.num_rows) if n != lost])

    return change


def other_transaction(actions: pa.Table) -> pa.Table:
    at, known = actions.schema.get_field_index("txn"), actions["txn"].to_pylist()
    other = [txn and {**txn, "version": 99} for txn in known]
    return actions.set_column(at, actions.schema.field(at), pa.array(other, actions.schema.field(at).type))


def test_a_checkpoint_agrees_with_its_log(path: Path) -> None:
    assert disagreement(str(path)) is None
    assert damage_of(str(path), deep=True) is None
    for commits in (1, 3):  # without one before, and with none that is whole
        assert disagreement(str(table_at(path.parent / f"of {commits}", commits))) is None


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (without("add"), "it lacks 1 files, and has 0 others"),
        (without("metaData"), "it is of another table, or has other columns"),
        (other_transaction, "it has other transactions"),
    ],
)
def test_one_of_other_content_is_named_and_put_aside(path: Path, change: Change, what: str) -> None:
    rows = DeltaTable(path).to_pyarrow_table().num_rows
    changed(path, change)
    with pytest.raises(StorageError, match="TABLE_UNREADABLE"):
        Table.open(str(path))
    assert what in (disagreement(str(path)) or "")
    assert damage_of(str(path), deep=False) is not None
    exchanged = newest(path).name
    mend(str(path), str(path.parent / "aside"), rewinds=False)
    assert (path.parent / "aside" / exchanged).exists()
    assert Table.open(str(path)).handle.to_pyarrow_table().num_rows == rows
    assert disagreement(str(path)) is None


def test_that_of_another_table_is_named_whatever_the_log_notes_of_it(path: Path, tmp_path: Path) -> None:
    other = table_at(tmp_path / "other")
    shutil.copy(newest(other), newest(path))
    shutil.copy(other / "_delta_log/_last_checkpoint", path / "_delta_log/_last_checkpoint")
    assert "another table" in (disagreement(str(path)) or "")
    assert "another table" in (damage_of(str(path), deep=False) or "")


def test_of_a_log_that_begins_with_it_nothing_is_said(path: Path) -> None:
    changed(path, without("add"))
    for file in (path / "_delta_log").glob("[0-9]*"):
        if int(file.name[:20]) < 11:
            file.unlink()
    assert disagreement(str(path)) is None
    Table.open(str(path))


@pytest.mark.parametrize(("interval", "version"), [("3", 9), ("0", None), ("-1", None), ("many", None)])
def test_they_are_written_as_often_as_a_table_says(
    tmp_path: Path, interval: str, version: int | None
) -> None:
    path = tmp_path / "t"
    write_deltalake(path, pa.table({"a": [0]}))
    made = path / "_delta_log" / f"{0:020}.json"
    said = f'"configuration":{{"delta.checkpointInterval":"{interval}"}}'
    made.write_text(made.read_text().replace('"configuration":{}', said))
    for value in range(10):
        append(str(path), pa.table({"a": [value]}))
    assert Table.open(str(path)).version == 10
    written = sorted(int(file.name[:20]) for file in (path / "_delta_log").glob("*.checkpoint.parquet"))
    assert written[-1:] == ([] if version is None else [version])


def test_one_that_lacks_a_part_counts_for_nothing(path: Path) -> None:
    log = path / "_delta_log"
    part = log / f"{11:020}.checkpoint.{1:010}.{2:010}.parquet"
    newest(path).rename(part)
    assert disagreement(str(path)) is None
    pq.write_table(pq.read_table(part).slice(0, 0), log / f"{11:020}.checkpoint.{2:010}.{2:010}.parquet")
    assert disagreement(str(path)) is None
    pq.write_table(without("add")(pq.read_table(part)), part)
    assert "it lacks 1 files" in (disagreement(str(path)) or "")
