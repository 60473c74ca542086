"""Checkpoints of a table on a local disk, held against the log that they stand for.

Who opens a table takes its files from a checkpoint, and does not look for them in the commits before it
(Delta PROTOCOL.md, "Checkpoints"): one of other content makes another table of it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakestream.storage.places import files
from lakestream.storage.tables.log import read_actions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LOG = "_delta_log"
_NAME = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet")
_READ = (
    *("add.path", "add.size", "add.partitionValues", "add.deletionVector.storageType"),
    *("add.deletionVector.pathOrInlineDv", "add.deletionVector.offset", "metaData.id"),
    *("metaData.schemaString", "metaData.partitionColumns", "metaData.configuration"),
    *("txn.appId", "txn.version"),
)

_File = tuple[Any, ...]


def newest_checkpoint(path: str) -> list[Path]:
    """Return the files of a table's newest checkpoint; none where there is none, or one of another form."""
    found = _checkpoints(path)
    return found[max(found)] if found else []


def disagreement(path: str) -> str | None:
    """Return what a table's newest checkpoint has otherwise than its log, None for nothing.

    None too where nothing tells: the checkpoint before, or a commit since, is no longer there. Raises
    StorageError TABLE_UNREADABLE for a commit that is damaged.
    """
    found = _checkpoints(path)
    if not found:
        return None
    newest, *older = sorted(found, reverse=True)
    try:
        before = _Content.read(found[older[0]]) if older else _Content()
        for version in range(older[0] + 1 if older else 0, newest + 1):
            actions = read_actions(path, version)
            if actions is None:
                return None
            before.follow(actions)
        said = _Content.read(found[newest])
    except (OSError, ValueError):
        return None  # it was cleared meanwhile; or is damaged, which is said by who opens the table
    what = said.differs_from(before)
    return what and f"its checkpoint of version {newest} is not what its log says: {what}"


def exchanged(path: str) -> str | None:
    """Return what :func:`disagreement` does where the last checkpoint has another size than the log notes."""
    version, noted = _noted(path)
    try:
        size = Path(path, _LOG, f"{version:020}.checkpoint.parquet").stat().st_size
    except OSError:
        return None
    return disagreement(path) if noted not in (None, size) else None


def noted_checkpoint(path: str) -> int:
    """Return the version of the last checkpoint that a log on a local disk notes; -1: none."""
    return _noted(path)[0]


def _noted(path: str) -> tuple[int, int | None]:
    """Return the version and the size that a log notes of its last checkpoint; -1 for none, or in a store."""
    if files.is_uri(path):
        return -1, None
    try:
        noted = json.loads(Path(path, _LOG, "_last_checkpoint").read_bytes())
        return int(noted["version"]), noted.get("sizeInBytes")
    except (OSError, ValueError, KeyError, TypeError):
        return -1, None


def _checkpoints(path: str) -> dict[int, list[Path]]:
    """Return the files of the checkpoints by version, of those with all their parts.

    None where the newest one is of another form.
    """
    found: dict[tuple[int, int], list[Path]] = {}
    others = [-1]
    for file in sorted(Path(path, _LOG).glob("*.checkpoint*")):
        if (name := _NAME.fullmatch(file.name)) is not None:
            found.setdefault((int(name[1]), int(name[2] or 1)), []).append(file)
        elif file.name[:20].isdigit():
            others.append(int(file.name[:20]))
    whole = {
        version: listed
        for (version, parts), listed in sorted(found.items(), reverse=True)
        if len(listed) == parts
    }
    return whole if max(whole, default=-1) > max(others) else {}


@dataclass
class _Content:
    """What a table has at a version: what is said of each file, what it is, and transactions.

    ``twice``: how often a file is there that is there already, which doubles its rows.
    """

    files: dict[_File, _File] = field(default_factory=dict)
    table: tuple[str, ...] = ()
    transactions: dict[str, int] = field(default_factory=dict)
    twice: int = 0

    @classmethod
    def read(cls, parts: Iterable[Path]) -> _Content:
        """Read the parts of a checkpoint."""
        import pyarrow.parquet as pq

        content = cls()
        for part in parts:
            with pq.ParquetFile(part) as opened:
                content.follow(opened.read(columns=[*_READ]).to_pylist())
        return content

    def follow(self, actions: Iterable[Mapping[str, Any]]) -> None:
        """Do what the actions of a commit, or of a checkpoint, say."""
        listed = [*actions]
        for one in listed:
            if one.get("remove"):
                self.files.pop(_file(one["remove"]), None)
        added = [one["add"] for one in listed if one.get("add")]
        before = len(self.files)
        self.files |= {_file(add): _said(add) for add in added}
        self.twice += before + len(added) - len(self.files)
        self.transactions |= {one["txn"]["appId"]: one["txn"]["version"] for one in listed if one.get("txn")}
        for table in (one["metaData"] for one in listed if one.get("metaData")):
            columns = json.loads(table["schemaString"])["fields"]
            shape = [[column["name"], column["type"]] for column in columns]
            properties = sorted(dict(table.get("configuration") or ()).items())
            parts = shape, table["partitionColumns"], properties
            self.table = (table["id"], *(json.dumps(part, sort_keys=True) for part in parts))

    def differs_from(self, log: _Content) -> str | None:
        """Say how it differs from what the log has; transactions may have been forgotten."""
        if self.table != log.table:
            return "it is of another table, or has other columns or properties"
        lacks, more = len(log.files.keys() - self.files.keys()), len(self.files.keys() - log.files.keys())
        if lacks or more:
            return f"it lacks {lacks} files, and has {more} others"
        if self.twice:
            return f"it has {self.twice} files twice"
        if self.files != log.files:
            return "it says other things of files"
        return None if self.transactions.items() <= log.transactions.items() else "it has other transactions"


def _file(action: Mapping[str, Any]) -> _File:
    vector = action.get("deletionVector") or {}
    # Writers encode paths in the one and the other place.
    path = unquote(unquote(action["path"]))
    return path, *(vector.get(name) for name in ("storageType", "pathOrInlineDv", "offset"))


def _said(add: Mapping[str, Any]) -> _File:
    """Return the size of a file and the values of its rows in the columns that part the table."""
    values = dict(add.get("partitionValues") or ())
    return add["size"], *sorted((name, value or None) for name, value in values.items())
