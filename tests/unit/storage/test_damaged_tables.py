"""A table that is damaged is named, and read again when it is whole."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakestream.errors import StorageError
from lakestream.storage.tables.log import commit_name, read_commits
from lakestream.storage.tables.table import Table, first_line, refusals_named
from lakestream.storage.writes.mending import recover

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of two commits."""
    for value in (1, 2):
        write_deltalake(str(tmp_path / "t"), pa.table({"a": [value]}), mode="append")
    return tmp_path / "t"


def unreadable(path: Path, match: str) -> None:
    with pytest.raises(StorageError, match=match) as refused:
        Table.open(str(path))
    assert refused.value.code == "TABLE_UNREADABLE"


def test_of_a_table_that_was_being_made_no_folder_is_left(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    assert len(recover(str(tmp_path / "t"), str(tmp_path / "aside"), -1)) == 1
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(("known", "checkpoint"), [(-1, None), (1, None), (-1, 1)])
@pytest.mark.parametrize("torn", [None, b"", b'{"add'])
def test_what_follows_on_a_commit_that_a_power_cut_lost_goes_too(
    path: Path, torn: bytes | None, known: int, checkpoint: int | None
) -> None:
    for value in (3, 4, 5):
        if checkpoint == Table.open(str(path)).version:
            Table.open(str(path)).handle.create_checkpoint()
            (path / commit_name(0)).unlink()
        write_deltalake(str(path), pa.table({"a": [value]}), mode="append")
    lost = path / commit_name(2)
    lost.unlink() if torn is None else lost.write_bytes(torn)
    recover(str(path), str(path.with_name("aside")), known)
    assert Table.open(str(path)).version == 1
    write_deltalake(str(path), pa.table({"a": [6]}), mode="append")
    assert len(Table.open(str(path)).handle.file_uris()) == 3


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("parts", [0, 1 / 2])
def test_a_torn_checkpoint_goes_whether_it_has_been_named_or_not(
    path: Path, parts: float, *, named: bool
) -> None:
    Table.open(str(path)).handle.create_checkpoint()
    checkpoint = path / "_delta_log" / f"{1:020}.checkpoint.parquet"
    checkpoint.write_bytes(checkpoint.read_bytes()[: int(checkpoint.stat().st_size * parts)])
    if not named:
        (path / "_delta_log" / "_last_checkpoint").unlink()
    assert len(recover(str(path), str(path.with_name("aside")), 1)) == 1 + named
    assert len(Table.open(str(path)).handle.file_uris()) == 2


def test_a_commit_that_was_known_and_is_gone_is_damage(path: Path) -> None:
    (path / commit_name(0)).unlink()
    assert recover(str(path), str(path.with_name("aside")), -1) == []
    assert (path / commit_name(1)).exists()


def test_an_empty_commit_is_no_commit(path: Path) -> None:
    (path / commit_name(1)).write_bytes(b"")
    unreadable(path, "the commit of version 1 is an empty file")
    with pytest.raises(StorageError, match=r"version 1 of .* is damaged or empty") as error:
        read_commits(str(path), 0, 1)
    assert error.value.hint == f"put {commit_name(1)} back from a copy of the table"


@pytest.mark.parametrize(("checkpoint", "refused"), [(None, True), (1, True), (2, False), (3, False)])
def test_an_empty_commit_amid_others_is_no_commit_either(
    path: Path, checkpoint: int | None, *, refused: bool
) -> None:
    """To delta-rs it is one without rows; what a checkpoint stands for is not read."""
    for value in (3, 4, 5):
        if checkpoint == Table.open(str(path)).version:
            Table.open(str(path)).handle.create_checkpoint()
        write_deltalake(str(path), pa.table({"a": [value]}), mode="append")
    (path / commit_name(2)).write_bytes(b"")
    if refused:
        unreadable(path, "the commit of version 2 is an empty file")
    else:
        assert len(Table.open(str(path)).handle.file_uris()) == 5


def test_a_kept_handle_waits_for_an_empty_commit_to_be_put_back(path: Path) -> None:
    table = Table.open(str(path))
    write_deltalake(str(path), pa.table({"a": [3]}), mode="append")
    whole = (path / commit_name(2)).read_bytes()
    (path / commit_name(2)).write_bytes(b"")
    for _ in range(2):
        with pytest.raises(StorageError, match="the commit of version 2 is an empty file"):
            table.refresh()
    assert table.version == 1
    (path / commit_name(2)).write_bytes(whole)
    assert table.refresh() == 2
    assert len(table.handle.file_uris()) == 3


@pytest.mark.parametrize("content", [b"\0" * 50, b'{"add"', b"\xff\xfe", b"\n\n"])
def test_a_commit_that_is_no_json_is_damaged(path: Path, content: bytes) -> None:
    (path / commit_name(1)).write_bytes(content)
    with pytest.raises(StorageError, match="damaged or empty") as refused:
        read_commits(str(path), 0, 1)
    assert refused.value.code == "TABLE_UNREADABLE"


FULL = "Generic LocalFileSystem error\n \x1b[31m↳\x1b[0m Unable to copy\n ↳ No space left on device"


@pytest.mark.parametrize(
    ("error", "said", "hint"),
    [
        (
            OSError(FULL),
            "Generic LocalFileSystem error: Unable to copy: No space left on device",
            "make room on that disk",
        ),
        (OSError(28, "No space left on device"), "No space left on device", "make room on that disk"),
        (
            PermissionError(13, "Permission denied", "/x"),
            "/x: Permission denied",
            "let the user of this process read and write there",
        ),
        (
            OSError(24, "Too many open files"),
            "Too many open files",
            "allow the process more open files: ulimit -n",
        ),
        (OSError(5, "Input/output error"), "Input/output error", ""),
        (
            OSError(28, "No space left on device", "/a", None, "/b"),
            "/a -> /b: No space left on device",
            "make room on that disk",
        ),
    ],
)
def test_what_a_disk_refuses_is_said_in_a_line_with_what_to_do(error: OSError, said: str, hint: str) -> None:
    with pytest.raises(StorageError) as caught, refusals_named():
        raise error
    assert (caught.value.code, caught.value.message, caught.value.hint) == ("IO_ERROR", said, hint)


def test_what_the_disk_refuses_is_named(path: Path) -> None:
    (path / commit_name(1)).unlink()
    (path / commit_name(1)).mkdir()
    with pytest.raises(StorageError, match="Is a directory") as refused:
        read_commits(str(path), 0, 1)
    assert refused.value.code == "TABLE_UNREADABLE"
    shutil.rmtree(path / "_delta_log")
    (path / "_delta_log").write_text("no folder")
    unreadable(path, "Not a directory")


def test_the_causes_of_an_error_are_told() -> None:
    error = OSError("Kernel error\n\x1b[31m  ↳\x1b[0m Unable to open f\n  ↳ No such file\n\n   0: address")
    assert first_line(error) == "Kernel error: Unable to open f: No such file"


class PanicException(BaseException):
    """A panic, as it comes out of a library in Rust."""


def test_a_panic_of_a_library_is_an_error_of_the_storage() -> None:
    with (
        pytest.raises(StorageError, match="IO_ERROR: the storage's library gave up: no more threads"),
        refusals_named(),
    ):
        raise PanicException("no more threads")
    with pytest.raises(KeyboardInterrupt), refusals_named():
        raise KeyboardInterrupt
