"""Delta's commits read straight from the log, without listing it.

Each commit of a table is the file ``_delta_log/<20 digits>.json`` of one action a line (Delta
PROTOCOL.md, "Delta Log Entries"). Spark's batch reader of the change feed passes silently over a
commit file that is missing; :func:`read_commits` is the check against that, and is made for every
range that is read.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from lakestream.errors import StorageError, StreamError
from lakestream.storage.places import files
from lakestream.storage.tables import kept
from lakestream.storage.tables.looks import found, once

Action = dict[str, Any]

TIME_CUT_US = 1_000
"""Writers may cut the greatest time of a file's statistics to milliseconds: it may be that much later."""

FAR_US = (-9_214_560_000_000_000, 9_214_646_400_000_000)
"""From 1678 to the end of 2261, in microseconds since 1970 UTC: what nanoseconds in 64 bits hold for sure."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

OWN_APPS = "lakestream:"
"""What the application ids of all transactions of streams begin with."""

SAME_ROWS = json.dumps({"lakestream": "same rows"})
"""What the user metadata of a commit says that writes all rows anew, with other columns, and changes none."""


LAST_CHECKPOINT = "_delta_log/_last_checkpoint"
"""The file that names a table's last checkpoint, within its folder (Delta PROTOCOL.md)."""


@dataclass(frozen=True)
class AddedFile:
    """A data file that a commit added: its path as the log gives it (decoded), and its statistics.

    ``rows`` is None, ``minimum`` and ``maximum`` are empty where the writer kept no statistics;
    timestamps in them are texts, and may be cut to milliseconds.
    """

    path: str
    size: int
    rows: int | None
    minimum: dict[str, Any]
    maximum: dict[str, Any]

    @property
    def is_far(self) -> bool:
        """Whether its statistics tell of a time beyond ``FAR_US``."""
        return _is_far(self.minimum) or _is_far(self.maximum)

    def times(self, column: str) -> tuple[int, int] | None:
        """Return the oldest and the newest time (µs) in it, as :meth:`CommitInfo.times` does."""
        low, high = _micros(self.minimum.get(column)), _micros(self.maximum.get(column))
        return None if low is None or high is None else (low, high + TIME_CUT_US)


@dataclass(frozen=True)
class WrittenFile:
    """A file of rows that a commit wrote: its path (decoded), and the partition's values as texts.

    ``is_change_data``: its rows tell what became of them, in ``_change_type``. ``size`` is in bytes, None
    where it is not known.
    """

    path: str
    partition: dict[str, str | None]
    is_change_data: bool
    size: int | None = None


@dataclass(frozen=True)
class CommitInfo:
    """What one commit did.

    ``adds``, ``removes`` and ``cdc_files`` count file actions with data change; ``add_rows`` is their
    number of rows, None when a file carries no statistics; ``append_only`` says that the commit's
    changes are exactly the rows of the added files. ``schema_changed`` marks a commit that wrote the
    table's metadata (its schema, as JSON, is ``schema_json``), ``protocol_changed`` one that wrote its
    protocol; ``change_feed`` says whether the change
    feed was on after it, None when it left that alone. ``transactions`` are its (app, version) ids,
    ``files`` the data files put in, with or without data change; ``removed`` are the paths of those taken
    out. ``written`` are the files of the rows that were written, in the order of the log; None where a
    deletion vector says which rows of a file they are. ``masked`` says that its changes are rows of data
    files of which a deletion vector hides some, ``misread`` that delta-rs's change feed does not show them as
    they are: of such files, of times beyond ``FAR_US``, and of folders with an encoded name. ``same_rows``
    marks a commit that wrote all rows anew and says that it changed none: it has no data change, whatever its
    feed shows. ``engine`` is the program that wrote it, as it says itself. ``digest`` is that of its file:
    another one is another commit.
    """

    version: int
    adds: int
    removes: int
    cdc_files: int
    add_rows: int | None
    add_bytes: int
    data_change: bool
    append_only: bool
    schema_changed: bool
    schema_json: str | None
    change_feed: bool | None
    metadata_id: str | None
    operation: str | None
    user_metadata: str | None
    timestamp_ms: int
    transactions: tuple[tuple[str, int], ...]
    files: tuple[AddedFile, ...]
    removed: tuple[str, ...]
    written: tuple[WrittenFile, ...] | None
    masked: bool = False
    misread: bool = False
    same_rows: bool = False
    engine: str | None = None
    protocol_changed: bool = False
    digest: str = ""

    @property
    def is_foreign(self) -> bool:
        """Return whether it changed rows, and is part of no transaction of a stream of lakestream's."""
        return self.data_change and not any(app.startswith(OWN_APPS) for app, _ in self.transactions)

    @property
    def moves_rows(self) -> bool:
        """Return whether rows that were there may lie in another order than before.

        Where one file takes the place of one, they lie as they did.
        """
        return bool(self.removed and self.files) and (len(self.removed), len(self.files)) != (1, 1)

    def times(self, column: str) -> tuple[int, int] | None:
        """Return the oldest and the newest time (µs) in the rows that were added.

        A millisecond too much at the newest end; None where the statistics do not tell.
        """
        ends = [file.times(column) for file in self.files]
        known = [one for one in ends if one is not None]
        if not ends or len(known) < len(ends):
            return None
        return min(low for low, _ in known), max(high for _, high in known)


def commit_name(version: int) -> str:
    """Return the name of a commit's file within the table's folder."""
    return f"_delta_log/{version:020}.json"


def checkpoint_name(version: int) -> str:
    """Return the name of the file of a version's checkpoint, of one in a file."""
    return f"_delta_log/{version:020}.checkpoint.parquet"


def read_commits(path: str, after: int, upto: int) -> list[CommitInfo]:
    """Return what each commit of ``(after, upto]`` did, in order; none is left out.

    Reads one small file per commit (well under a millisecond on a local disk). Raises StreamError
    CHANGES_LOST with the missing version when a commit's file is gone, StorageError TABLE_UNREADABLE
    when it is damaged.
    """
    return [_read_commit(path, version) for version in range(after + 1, upto + 1)]


def commit_digest(path: str, version: int) -> str | None:
    """Return the digest of a commit's file; None where the log has it no more.

    Raises StorageError TABLE_UNREADABLE.
    """
    content = _content(path, version)
    return None if content is None else _digest(content)


def read_actions(path: str, version: int) -> list[Action] | None:
    """Return the actions of a commit; None where the log has it no more. Raises TABLE_UNREADABLE."""
    content = _content(path, version)
    return None if content is None else _actions(path, version, content)


class Checkpoints:
    """The checkpoints of a table's log, as far as was looked for them; ``last`` is the version of one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.last = -1

    def lack(self, version: int, commits: int) -> bool:
        """Return whether there was none for so many commits at a version; looks for one where that may be."""
        if not 0 <= version - self.last < commits:
            self.last = last_checkpoint(self._path)
        return version - self.last >= commits


def last_checkpoint(path: str) -> int:
    """Return the version of a table's last checkpoint, -1 where its log names none.

    Delta PROTOCOL.md, "Last Checkpoint File".
    """
    try:
        return int(json.loads(files.read_bytes(path, LAST_CHECKPOINT))["version"])
    except (FileNotFoundError, ValueError, KeyError):
        return -1


class Rewrites:
    """The commits of a table that took rows away or wrote them anew, as far as it was looked through.

    ``times`` are the first and the last time (µs) of the rows as they were before such a commit, by its
    version, where that is known; None where it took none away.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.times: dict[int, tuple[int, int] | None] = {}
        self._span: tuple[int, int] | None = None
        self._versions: list[int] = []

    def within(self, after: int, upto: int) -> list[int]:
        """Return their versions in ``(after, upto]``, in order; of commits that the log still has."""
        low, high = self._span or (upto, upto)
        self._versions = [*self._of(after, low), *self._versions, *self._of(high, upto)]
        self._span = min(low, after), max(high, upto)
        return [version for version in self._versions if after < version <= upto]

    def _of(self, after: int, upto: int) -> list[int]:
        found: list[int] = []
        for version in range(upto, after, -1):
            try:
                commit = _read_commit(self._path, version)
            except StreamError:
                break  # it and those before it are gone
            if commit.data_change and not commit.append_only:
                found.append(version)
        return found[::-1]


def _read_commit(path: str, version: int) -> CommitInfo:
    content = _content(path, version)
    if content is None:
        raise StreamError(
            "CHANGES_LOST",
            f"the changes of version {version} of {path} are gone: its commit is no longer in the log",
            hint="logs are kept for delta.logRetentionDuration; what was missed must be computed anew",
        )
    return _parsed(path, version, content)


def _parsed(path: str, version: int, content: bytes) -> CommitInfo:
    return (_small_commit if len(content) <= _SMALL_COMMIT else _commit)(path, version, content)


def _commit(path: str, version: int, content: bytes) -> CommitInfo:
    try:
        return _parse(version, _actions(path, version, content), _digest(content))
    except (ValueError, TypeError, LookupError, AttributeError):
        raise _damaged(path, version) from None  # it is JSON, and not what a commit says


def is_commit(content: bytes) -> bool:
    """Return whether the content of an entry of a log can be read."""
    try:
        _commit("", 0, content)
    except StorageError:
        return False
    return True


_SMALL_COMMIT = 16 << 10
_small_commit = lru_cache(maxsize=256)(_commit)
"""A tick asks several times what its commits did, and so do other streams on their table."""


def commit_at(path: str, version: int) -> CommitInfo | None:
    """Return what a commit did, None where the log has none of this version.

    Raises StorageError TABLE_UNREADABLE.
    """
    content = _content(path, version)
    return None if content is None else _parsed(path, version, content)


def known_commit(path: str, version: int, content: bytes) -> CommitInfo:
    """Return what a commit of ours did; the rest of this look asks for it no more."""
    found(_question(path, version), content)
    return _parsed(path, version, content)


def _content(path: str, version: int) -> bytes | None:
    name = commit_name(version)
    try:
        if files.is_uri(path):
            return once(_question(path, version), lambda: kept.read(path, name))
        return files.read_bytes(path, name)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError("TABLE_UNREADABLE", f"a commit of {path} cannot be read: {error}") from error


def _question(path: str, version: int) -> tuple[str, str]:
    return path, commit_name(version)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _actions(path: str, version: int, content: bytes) -> list[Action]:
    try:
        actions = [json.loads(line) for line in content.splitlines() if line.strip()]
    except ValueError:
        actions = []
    if not actions:
        raise _damaged(path, version)
    return actions


def _damaged(path: str, version: int) -> StorageError:
    return StorageError(
        "TABLE_UNREADABLE",
        f"the commit of version {version} of {path} is damaged or empty",
        hint=f"put {commit_name(version)} back from a copy of the table",
    )


def _parse(version: int, actions: list[Action], digest: str) -> CommitInfo:
    """Sum up the actions of one commit."""
    info: Action = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
    same_rows = info.get("userMetadata") == SAME_ROWS
    if same_rows:
        actions = [_without_change(action) for action in actions]
    adds = [a["add"] for a in actions if "add" in a]
    removes = [a["remove"] for a in actions if "remove" in a]
    changed = [a["cdc"] for a in actions if "cdc" in a]
    cdc_files = len(changed)
    masked = not changed and any(map(_is_masked, [*adds, *removes]))
    metadata = next((a["metaData"] for a in actions if "metaData" in a), None)
    added = tuple(_added_file(a) for a in adds)
    changing = [file for file, add in zip(added, adds, strict=True) if add.get("dataChange", True)]
    removing = sum(bool(r.get("dataChange", True)) for r in removes)
    rows = [file.rows for file in changing]
    return CommitInfo(
        version=version,
        adds=len(changing),
        removes=removing,
        cdc_files=cdc_files,
        add_rows=None if None in rows else sum(r for r in rows if r is not None),
        add_bytes=sum(file.size for file in changing),
        data_change=bool(changing or removing or cdc_files),
        append_only=bool(changing) and not removing and not cdc_files,
        schema_changed=metadata is not None,
        schema_json=metadata["schemaString"] if metadata else None,
        change_feed=_change_feed(metadata),
        metadata_id=metadata["id"] if metadata else None,
        operation=info.get("operation"),
        user_metadata=info.get("userMetadata"),
        timestamp_ms=_timestamp(info),
        transactions=tuple((a["txn"]["appId"], a["txn"]["version"]) for a in actions if "txn" in a),
        files=added,
        removed=tuple(unquote(remove["path"]) for remove in removes),
        written=_written(actions),
        masked=masked,
        misread=masked
        or any(file.is_far for file in (*added, *map(_added_file, removes)))
        or any("%" in file["path"] for file in [*adds, *removes, *changed]),
        same_rows=same_rows,
        engine=info.get("engineInfo"),
        protocol_changed=any("protocol" in action for action in actions),
        digest=digest,
    )


def _without_change(action: Action) -> Action:
    """Return an action on a file as one that changes no row."""
    return {
        kind: {**what, "dataChange": False} if kind in ("add", "remove") else what
        for kind, what in action.items()
    }


def _is_far(value: Any) -> bool:  # noqa: ANN401 - whatever a writer put there
    """Return whether statistics, of fields of structures too, tell of a time beyond ``FAR_US``."""
    if isinstance(value, dict):
        return any(map(_is_far, value.values()))
    micros = _micros(value)
    return micros is not None and not FAR_US[0] <= micros <= FAR_US[1]


def _is_masked(file: Action) -> bool:
    return bool(file.get("dataChange", True) and file.get("deletionVector"))


def _written(actions: list[Action]) -> tuple[WrittenFile, ...] | None:
    """Return the files that the feed of a commit is made of (Delta PROTOCOL.md, "Change Data Files")."""
    changed = [a["cdc"] for a in actions if "cdc" in a]
    files = changed or [a["add"] for a in actions if "add" in a and a["add"].get("dataChange", True)]
    if any(file.get("deletionVector") for file in files):
        return None
    return tuple(
        WrittenFile(unquote(file["path"]), file.get("partitionValues") or {}, bool(changed), file.get("size"))
        for file in files
    )


def _micros(text: Any) -> int | None:  # noqa: ANN401 - whatever a writer put there
    """Return a time of the statistics in microseconds since 1970 UTC."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def _timestamp(info: Action) -> int:
    """Milliseconds of the commit's own clock; 0 when the writer left no commit information."""
    return int(info.get("inCommitTimestamp") or info.get("timestamp") or 0)


def _change_feed(metadata: Action | None) -> bool | None:
    if metadata is None:
        return None
    return bool(
        metadata.get("configuration", {}).get("delta.enableChangeDataFeed", "false").lower() == "true"
    )


def _added_file(add: Action) -> AddedFile:
    stats = json.loads(add.get("stats") or "{}")
    return AddedFile(
        path=unquote(add["path"]),
        size=add.get("size") or 0,
        rows=stats.get("numRecords"),
        minimum=stats.get("minValues", {}),
        maximum=stats.get("maxValues", {}),
    )
