"""Checksums that Spark leaves beside files of a commit: forced with them, put aside where they are torn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakestream.storage.tables import durable
from lakestream.storage.tables.durable import checksum_of, data_files, force_commits
from lakestream.storage.tables.log import commit_name
from lakestream.storage.writes.mending import recover

if TYPE_CHECKING:
    from pathlib import Path

PART = 512


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of two commits, with checksums beside their files as Hadoop writes them."""
    table = tmp_path / "t"
    for value in (1, 2):
        write_deltalake(str(table), pa.table({"a": [value]}), mode="append")
    for file in files(table):
        sums = -(-file.stat().st_size // PART)
        checksum_of(file).write_bytes(b"crc\0" + PART.to_bytes(4) + bytes(4 * sums))
    return table


def files(table: Path, version: int = 1) -> list[Path]:
    entry = table / commit_name(version)
    return [entry, *(table / name for name in data_files(entry))]


def test_they_are_forced_with_their_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[Path] = []
    monkeypatch.setattr(durable, "force", forced.append)
    force_commits(str(path), 0, 1)
    assert {checksum_of(file) for file in files(path)} <= {*forced}


@pytest.mark.parametrize("left", [0, 6, 9])
@pytest.mark.parametrize("number", [0, 1])
def test_torn_ones_are_put_aside(path: Path, tmp_path: Path, number: int, left: int) -> None:
    torn = checksum_of(files(path)[number])
    torn.write_bytes(torn.read_bytes()[:left])
    assert len(recover(str(path), str(tmp_path / "aside"), -1)) == 1
    assert not torn.exists()
    assert checksum_of(files(path)[1 - number]).exists()
    assert recover(str(path), str(tmp_path / "aside"), -1) == []


def test_those_of_a_torn_commit_go_with_it(path: Path, tmp_path: Path) -> None:
    entry = path / commit_name(1)
    entry.write_bytes(b"")
    assert len(recover(str(path), str(tmp_path / "aside"), -1)) == 1
    assert not checksum_of(entry).exists()


def test_what_a_cut_left_whole_stays(path: Path, tmp_path: Path) -> None:
    assert recover(str(path), str(tmp_path / "aside"), -1) == []
    assert all(checksum_of(file).exists() for file in files(path))
