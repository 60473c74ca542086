"""Commits that are still there when the power comes back: their files are forced to the disk, in their order.

Neither delta-rs nor Hadoop's local file system does that: what they have written stays with the kernel for
some seconds. Each commit of lakestream's is forced before anything is done that builds on it, so that of a
table only the commits of the last call can be torn or lost, and nobody was told that they were made.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lakestream.errors import StorageError
from lakestream.storage.places.files import force, is_uri
from lakestream.storage.places.refusals import disk_remedy, system_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakestream.storage.tables.table import Table

_LOG = "_delta_log"
_AT_A_TIME = 8
_MOST = 4
"""As many commits as one write of ours makes, with what puts files together behind it."""

_left_to_the_kernel: set[str] = set()
"""The lakes of ``durability = "process"``, by their root."""


def leave_to_the_kernel(root: str, *, leave: bool) -> None:
    """Say whether commits below a folder are left to the kernel, which writes them within seconds."""
    if leave:
        _left_to_the_kernel.add(root)
    else:
        _left_to_the_kernel.discard(root)


@contextmanager
def committing(table: Table) -> Iterator[None]:
    """Hold a table's guard, and force to the disk what is committed meanwhile; StorageError IO_ERROR."""
    with table.guard:
        before = table.version
        yield
        force_commits(table.path, before, table.version)


def force_commits(table: str, after: int, upto: int) -> None:
    """Force the last commits of a table in ``(after, upto]``, and a checkpoint of them; local disks only.

    Raises StorageError IO_ERROR for what the disk does not take: the commit is made, and may not last.
    """
    if _is_forced(table):
        with _refusals_named(f"a commit to {table}"):
            for version in range(max(after, upto - _MOST) + 1, upto + 1):
                _force_commit(Path(table), version)


def force_checkpoint(table: str, version: int) -> None:
    """Force the checkpoint of a version that was committed before; raises as :func:`force_commits`."""
    if _is_forced(table):
        with _refusals_named(f"a checkpoint of {table}"):
            _force_together([*_with_checksums(_checkpoint(Path(table, _LOG), version)), Path(table, _LOG)])


def _is_forced(table: str) -> bool:
    return not is_uri(table) and not any(Path(table).is_relative_to(root) for root in _left_to_the_kernel)


@contextmanager
def _refusals_named(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        said = system_message(error)
        raise StorageError(
            "IO_ERROR", f"{what} was not forced to the disk: {said}", hint=disk_remedy(said)
        ) from error


def _checkpoint(log: Path, version: int) -> list[Path]:
    """Return the files of a version's checkpoint, none where it has none."""
    checkpoint = log / f"{version:020}.checkpoint.parquet"
    return [checkpoint, log / "_last_checkpoint"] if checkpoint.exists() else []


def _force_commit(table: Path, version: int) -> None:
    log = table / _LOG
    entry = log / f"{version:020}.json"
    names = [*data_files(entry)]
    _force_together([*_with_checksums(table / name for name in names), *_folders(table, names)])
    made = [table, *_holding(table)] if version == 0 else []
    summed = [entry.with_suffix(".crc")]  # what Spark says of the version, where it made it
    _force_together([*_with_checksums([entry, *_checkpoint(log, version), *summed]), log, *made])


def checksum_of(file: Path) -> Path:
    """Return the checksums that Hadoop writes beside a local file, and holds it against when it reads."""
    return file.with_name(f".{file.name}.crc")


def _with_checksums(files: Iterable[Path]) -> Iterator[Path]:
    for file in files:
        yield file
        if (checksum := checksum_of(file)).exists():
            yield checksum


def _holding(table: Path) -> list[Path]:
    """Return the folders that may have been made with a table: that of its database, and the lake's."""
    return [folder for folder in list(table.parents)[:2] if os.access(folder, os.R_OK)]


def _force_together(files: Sequence[Path]) -> None:
    """Force files at a time: a journal takes what waits for it together."""
    try:
        waiting = [_threads().submit(force, file) for file in files[1:]]
    except RuntimeError:  # the interpreter ends, and starts no threads
        waiting = []
        for file in files[1:]:
            force(file)
    for file in files[:1]:
        force(file)
    for one in waiting:
        one.result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_AT_A_TIME, "force")


# The threads of a pool are not in a process that was forked.
os.register_at_fork(after_in_child=_threads.cache_clear)


def data_files(entry: Path) -> Iterator[str]:
    """Yield the files that a commit put in, change data too, by their paths within the table."""
    with suppress(FileNotFoundError):  # cleared away since: it is in a checkpoint
        for line in entry.read_bytes().splitlines():
            action = json.loads(line)
            found = action.get("add") or action.get("cdc") or {}
            if "path" in found:
                yield unquote(found["path"])
            if (found.get("deletionVector") or {}).get("storageType") == "u":
                yield from (file.name for file in entry.parent.parent.glob("deletion_vector_*.bin"))


def _folders(table: Path, names: Iterable[str]) -> list[Path]:
    """Return the folders of a table that its files are in, those inside others first."""
    parents = set[Path]()
    for name in names:
        # Few tables have folders in them, and to take paths apart takes longer than all else here.
        within = (table / name).parents if "/" in name else (table,)
        parents.update(folder for folder in within if folder.is_relative_to(table))
    return sorted(parents, reverse=True)
