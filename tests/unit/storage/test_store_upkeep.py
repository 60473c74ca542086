"""Checkpoints and compaction of tables in a store, of what is known here: as by delta-rs. No Spark."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from lakestream.storage.places import files
from lakestream.storage.tables import ahead
from lakestream.storage.tables.log import LAST_CHECKPOINT, checkpoint_name, commit_name, read_commits
from lakestream.storage.tables.mirror import count_files, rows_there, small_files
from lakestream.storage.tables.table import Table
from lakestream.storage.writes import checkpointing
from lakestream.storage.writes.checkpointing import drop_files, write_checkpoint
from lakestream.storage.writes.commit import CommitTag, commit
from lakestream.storage.writes.owed import Owed, owe
from lakestream.storage.writes.upkeep import drop_old
from lakestream.storage.writes.writing import all_rows, put_together, replace_rows
from tests.store_server import BUCKET, StoreServer, store_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROWS = pa.table({"k": [1, 2], "v": ["a b", None]})
PROPERTIES = {"delta.checkpointInterval": "5"}


@pytest.fixture(scope="module")
def server() -> Iterator[StoreServer]:
    with store_server() as server:
        yield server


@dataclass
class Followed:
    """A table in a store, and who writes to it by a kept handle; ticks are numbered on."""

    path: str
    table: Table
    tick: int = 0

    def write(self, *, replace: str | None = None) -> None:
        self.tick += 1
        commit(
            self.table,
            ROWS.slice(1) if replace else ROWS,
            CommitTag("lakestream:s", self.tick),
            replace=replace,
        )

    def said(self) -> list[str]:
        """Return the actions of the checkpoint of the version seen last, in an order of their own."""
        content = files.read_bytes(self.path, checkpoint_name(self.table.version))
        return sorted(
            json.dumps(row, sort_keys=True) for row in pq.read_table(io.BytesIO(content)).to_pylist()
        )


@pytest.fixture
def followed(
    server: StoreServer, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Followed]:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    files.store_of.cache_clear()
    path = f"s3://{BUCKET}/{request.node.name.translate(str.maketrans('[]', '--'))}"
    write_deltalake(path, ROWS, configuration=PROPERTIES)
    yield Followed(path, Table.open(path))
    files.store_of.cache_clear()


def put(followed: Followed, *actions: dict[str, Any]) -> None:
    """Make a commit of another writer of these actions."""
    entry = "".join(f"{json.dumps(action)}\n" for action in actions).encode()
    assert files.write_new(followed.path, commit_name(followed.table.refresh() + 1), entry) is not None


def appended(followed: Followed) -> None:
    followed.write()
    followed.write()


def replaced_rows(followed: Followed) -> None:
    for turn in range(7):
        followed.write(replace="k = 2" if turn % 2 else None)


def others_between(followed: Followed) -> None:
    followed.write()
    write_deltalake(followed.path, ROWS, mode="append")
    followed.table.refresh()
    followed.write()


def more_columns(followed: Followed) -> None:
    followed.write()
    wider = ROWS.append_column("w", pa.array([1.5, 2.5]))
    write_deltalake(followed.path, wider, mode="append", schema_mode="merge")
    followed.table.refresh()
    followed.write(replace="k = 2")


def made_anew(followed: Followed) -> None:
    """Another table is at the path, with as many commits: what is known of the log is of the old one."""
    for _ in range(3):
        followed.write()
    files.remove_folder(followed.path, "")
    write_deltalake(followed.path, pa.table({"other": [1]}), configuration=PROPERTIES)
    for other in range(3):
        write_deltalake(followed.path, pa.table({"other": [other]}), mode="append")


def cleared(followed: Followed) -> None:
    """The commits before the last checkpoint are gone, and so is the one that is known."""
    for _ in range(6):
        followed.write()
    write_deltalake(followed.path, ROWS, mode="append")
    DeltaTable(followed.path).create_checkpoint()
    upto = followed.table.refresh()
    with files.store_answers(followed.path) as store:
        store.delete([*map(commit_name, range(upto)), checkpoint_name(5)])
    followed.write()


def deletion_vectors(followed: Followed) -> None:
    """Rows of a file are hidden by a vector, of the form that the protocol shows."""
    taken = pa.table(DeltaTable(followed.path).get_add_actions(flatten=True)).to_pylist()[0]
    file = {"path": taken["path"], "partitionValues": {}, "size": taken["size_bytes"], "modificationTime": 0}
    features = ["deletionVectors"]
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}
    put(
        followed,
        {"commitInfo": {"timestamp": 0}},
        {"protocol": {**versions, "readerFeatures": features, "writerFeatures": features}},
        {"remove": {**file, "deletionTimestamp": 4102444800000, "dataChange": True}},
        {"add": {**file, "dataChange": True, "deletionVector": {**vector, "cardinality": 1}}},
    )
    followed.table.refresh()


def mapped_columns(followed: Followed) -> None:
    fields = [
        {
            "name": name,
            "type": kind,
            "nullable": True,
            "metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name},
        }
        for number, (name, kind) in enumerate([("k", "long"), ("v", "string")], 1)
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    configuration = {**PROPERTIES, "delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    put(
        followed,
        {"commitInfo": {"timestamp": 0}},
        {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
        {
            "metaData": {
                "id": followed.table.table_id,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": [],
                "configuration": configuration,
            }
        },
    )
    followed.table.refresh()


HISTORIES = [
    appended,
    replaced_rows,
    others_between,
    more_columns,
    made_anew,
    cleared,
    deletion_vectors,
    mapped_columns,
]


@pytest.mark.parametrize("history", HISTORIES)
def test_it_says_what_the_one_of_delta_rs_does(
    followed: Followed, history: Callable[[Followed], None]
) -> None:
    history(followed)
    assert checkpointing._since_checkpoint(followed.path, followed.table.version) is not None
    write_checkpoint(followed.table)
    ours = followed.said()
    at = DeltaTable(followed.path, version=followed.table.version)
    files_then = sorted(DeltaTable(followed.path).file_uris())
    at.create_checkpoint()
    assert followed.said() == ours
    assert sorted(DeltaTable(followed.path).file_uris()) == files_then
    named = json.loads(files.read_bytes(followed.path, LAST_CHECKPOINT))
    assert named["version"] == followed.table.version


def test_what_is_known_is_not_asked_for(followed: Followed, server: StoreServer) -> None:
    """A list, the checkpoint and its name; of another writer's commits each one that was not read."""
    for _ in range(3):
        followed.write()
    write_checkpoint(followed.table)
    for _ in range(3):
        followed.write()
    server.asked()
    write_checkpoint(followed.table)
    assert [(one.method, one.kind) for one in server.asked()] == [("GET", "list"), ("PUT", ""), ("PUT", "")]
    followed.table.handle.load_as_version(followed.table.version)
    write_deltalake(followed.path, ROWS, mode="append")
    followed.table.reopen()
    server.asked()
    write_checkpoint(followed.table)
    assert [one.method for one in server.asked()] == ["GET", "GET", "PUT", "PUT"]


@pytest.mark.parametrize("strange", ["parts", "v2Checkpoint", "sidecars", "compacted", "gap"])
def test_a_log_of_another_form_is_left_to_delta_rs(followed: Followed, strange: str) -> None:
    for _ in range(6):
        followed.write()
    hint = json.loads(files.read_bytes(followed.path, LAST_CHECKPOINT))
    if strange in ("parts", "v2Checkpoint"):
        content = json.dumps({**hint, strange: 2 if strange == "parts" else {}}).encode()
        files.write_tagged(followed.path, LAST_CHECKPOINT, content)
    elif strange == "gap":
        with files.store_answers(followed.path) as store:
            store.delete([commit_name(6)])
    else:
        name = {"sidecars": "_sidecars/a.parquet", "compacted": f"{6:020}.{7:020}.compacted.json"}[strange]
        files.write_tagged(followed.path, f"_delta_log/{name}", b"{}")
    assert checkpointing._since_checkpoint(followed.path, followed.table.version) is None


def rows_of(path: str) -> list[tuple[int, str]]:
    found = pa.table(DeltaTable(path).scan())
    return sorted((row["k"], row["v"] or "") for row in found.to_pylist())


@pytest.mark.parametrize("history", [appended, replaced_rows, others_between, more_columns, cleared])
def test_small_files_are_put_together_in_a_commit_that_changes_no_row(
    followed: Followed, history: Callable[[Followed], None]
) -> None:
    history(followed)
    followed.write()
    before, columns = rows_of(followed.path), followed.table.schema
    assert len(DeltaTable(followed.path).file_uris()) > 1
    assert put_together(followed.table, 1 << 20)
    opened = Table.open(followed.path)
    assert len(opened.handle.file_uris()) == 1
    assert rows_of(followed.path) == before
    assert opened.schema == columns
    [entry] = read_commits(followed.path, opened.version - 1, opened.version)
    assert not entry.data_change
    followed.write()
    assert len(rows_of(followed.path)) == len(before) + ROWS.num_rows


def test_of_files_that_were_written_here_none_is_asked_for(followed: Followed, server: StoreServer) -> None:
    for _ in range(4):
        followed.write()
    server.asked()
    assert put_together(followed.table)
    asked = [(one.method, one.kind) for one in server.asked() if "_delta_log" not in one.path]
    assert asked == [("GET", ""), ("PUT", "")]  # that of another writer, and what became of all


@pytest.mark.parametrize(
    "history", [appended, replaced_rows, others_between, more_columns, cleared, deletion_vectors]
)
def test_rows_come_in_the_place_of_all(followed: Followed, history: Callable[[Followed], None]) -> None:
    history(followed)
    followed.table.refresh()
    rows = pa.table({name: pa.nulls(3, kind) for name, kind in zip(*columns_of(followed.table), strict=True)})
    replace_rows(followed.table, rows)
    opened = Table.open(followed.path)
    assert opened.version == followed.table.version
    assert len(opened.handle.file_uris()) == 1
    assert opened.schema == rows.schema
    assert all_rows(followed.table).to_pylist() == all_rows(opened).to_pylist() == rows.to_pylist()


def columns_of(table: Table) -> tuple[list[str], list[pa.DataType]]:
    return table.schema.names, table.schema.types


def test_rows_come_in_the_place_of_all_by_two_requests(followed: Followed, server: StoreServer) -> None:
    for _ in range(4):
        followed.write()
    write_deltalake(followed.path, ROWS, mode="append")
    followed.table.refresh()
    server.asked()
    assert all_rows(followed.table).num_rows == 12
    assert [one.method for one in server.asked()] == ["GET", "GET"]  # those of other writers
    replace_rows(followed.table, ROWS)
    assert [one.method for one in server.asked() if "checkpoint" not in one.path] == ["PUT", "PUT"]
    assert rows_of(followed.path) == [(1, "a b"), (2, "")]


def test_rows_do_not_come_in_the_place_of_what_was_written_meanwhile(followed: Followed) -> None:
    write_deltalake(followed.path, ROWS, mode="append")
    with pytest.raises(CommitFailedError):
        replace_rows(followed.table, ROWS)
    assert len(rows_of(followed.path)) == 4


def test_files_are_not_put_together_over_a_commit_that_took_one_away(followed: Followed) -> None:
    followed.write()
    DeltaTable(followed.path).delete("k = 2")
    with pytest.raises(CommitFailedError):
        put_together(followed.table)
    assert rows_of(followed.path) == [(1, "a b"), (1, "a b")]
    followed.write()
    assert put_together(followed.table)
    assert rows_of(followed.path) == [(1, "a b"), (1, "a b"), (1, "a b"), (2, "")]


def test_a_log_that_was_cleared_behind_a_handle_is_noticed(followed: Followed, server: StoreServer) -> None:
    """Its next commit is gone: each hundredth look lists the log instead of asking for the next commit."""
    table = followed.table
    server.asked()
    for _ in range(100):
        assert table.refresh() == 0
    assert len(server.asked()) == 100
    for _ in range(6):
        write_deltalake(followed.path, ROWS, mode="append")
    with files.store_answers(followed.path) as store:
        store.delete([*map(commit_name, range(5))])
    seen = {table.refresh() for _ in range(100)}
    assert seen == {0, 6}


def names_in(path: str) -> set[str]:
    """Return what a store has of a table."""
    return {name for name, _ in files.written_at(path)}


@pytest.mark.parametrize("history", [replaced_rows, others_between, cleared])
def test_files_that_no_version_has_go_as_by_delta_rs(
    followed: Followed, history: Callable[[Followed], None]
) -> None:
    history(followed)
    followed.write(replace="k = 2")
    put_together(followed.table)
    files.write_bytes(followed.path, "part-of-a-killed-process.parquet", b"")
    by_delta_rs = DeltaTable(followed.path).vacuum(0, enforce_retention_duration=False, full=True)
    before = names_in(followed.path)
    drop_files(followed.table, timedelta(hours=1))
    assert names_in(followed.path) == before
    drop_files(followed.table, timedelta())
    assert names_in(followed.path) == before - {*by_delta_rs}
    assert len(by_delta_rs) > 1
    assert rows_of(followed.path)


def test_what_a_checkpoint_has_forgotten_goes_on_a_disk_too(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, ROWS, configuration={"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    for _ in range(3):
        write_deltalake(path, ROWS, mode="append")
    table = Table.open(path)
    assert put_together(table)
    write_checkpoint(table)
    table.reopen()
    drop_files(table, timedelta())
    assert len([*(tmp_path / "t").glob("*.parquet")]) == 1


def test_old_entries_of_a_log_go_up_to_a_checkpoint(followed: Followed, server: StoreServer) -> None:
    for _ in range(7):
        followed.write()
    drop_old(followed.table)
    assert commit_name(0) in names_in(followed.path)  # kept for thirty days
    followed.table.handle.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
    followed.table.reopen()
    server.asked()
    drop_old(followed.table)
    assert len(server.asked()) <= 6
    left = sorted(name for name in names_in(followed.path) if name.startswith("_delta_log/0"))
    assert left[:2] == [checkpoint_name(5), commit_name(5)]
    assert len(rows_of(followed.path)) == 8 * ROWS.num_rows


@pytest.mark.parametrize("history", [appended, replaced_rows, others_between])
def test_many_commits_ahead_of_a_handle_are_summed_up(
    followed: Followed, history: Callable[[Followed], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "_MOST", 2)
    opened = followed.table.ahead.handle.version()
    for _ in range(3):
        history(followed)
        put_together(followed.table)
        followed.write()
    assert followed.table.ahead.handle.version() == opened or history is others_between
    fresh = Table.open(followed.path)
    assert small_files(followed.table) == small_files(fresh)
    assert count_files(followed.table) == len(fresh.handle.file_uris())
    assert rows_there(followed.table) == len(rows_of(followed.path))
    assert followed.table.ahead.transaction("lakestream:s") == followed.tick


def test_a_step_is_put_off_in_a_store_and_keeps_its_place() -> None:
    owed, done = Owed(), []

    def step(name: str) -> Callable[[], None]:
        return lambda: done.append(name)

    with owed.put_off():
        owe("/local", "checkpoint", step("at once"))
        owe("s3://b/t", "checkpoint", step("old"))
        owe("s3://b/u", "checkpoint", step("second"))
        owe("s3://b/t", "checkpoint", step("first"))
        assert done == ["at once"]
        owed.pay(1)
        assert done == ["at once", "first"]
    owe("s3://b/t", "checkpoint", step("beside"))
    owed.pay()
    assert done == ["at once", "first", "beside", "second"]
