"""Checkpoints of a table's log: by delta-rs, in a store from the commits that this process knows already.

They are written behind a commit, not with it: one that cannot be written is no failure of the commit, which
is there. delta-rs reads each commit since the last checkpoint two to four times before it writes one. In a
store it therefore writes it in a mirror of the log: what a list of the log says is known here is not asked
for again.
"""

from __future__ import annotations

import json
import logging
import os
import re
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from deltalake import DeltaTable, PostCommitHookProperties
from deltalake.exceptions import CommitFailedError

from lakestream.errors import LakestreamError
from lakestream.storage.places import files
from lakestream.storage.places.scratch import scratch_folder
from lakestream.storage.tables import kept
from lakestream.storage.tables.log import LAST_CHECKPOINT, checkpoint_name, commit_name
from lakestream.storage.tables.table import first_line, refusals_named
from lakestream.storage.writes.owed import owe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakestream.storage.tables.table import Table

_LOG = "_delta_log/"
_MOST_COMMITS = 200
"""More are left to delta-rs, which asks for several at a time."""
_UNDERSTOOD = re.compile(r"_delta_log/(\d{20}\.(json|crc|checkpoint\.parquet)|_last_checkpoint)")
"""What a log has whose last checkpoint is one file, and whose commits are all in it."""


NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""A commit is all that a call of delta-rs does: to look for old entries of the log costs 10 µs for each one
that there is, so that upkeep does it now and then."""
_INTERVAL = 100
"""The commits between checkpoints where a table says no number: as delta-rs has it."""
_log = logging.getLogger(__name__)


def keep_checkpoints(table: Table, before: int) -> None:
    """Write a checkpoint where the commits behind the version ``before`` have come to one.

    None is made of a log with an empty commit, whose rows it would take away for good.
    """
    said = table.properties.get("delta.checkpointInterval", "")
    interval = int(said) if said.isdecimal() and int(said) else _INTERVAL
    if table.version // interval != before // interval:
        owe_checkpoint(table)


def owe_checkpoint(table: Table) -> None:
    """Write a checkpoint behind a commit, now or in one of the next rounds."""
    owe(table.path, "checkpoint", partial(_written_behind_commit, table))


def _written_behind_commit(table: Table) -> None:
    with behind_commit(table.path):
        table.commit_files.refuse_empty_before(table.version)
        write_checkpoint(table)


@contextmanager
def behind_commit(path: str) -> Iterator[None]:
    """Say in the log what keeps a table from being kept up behind a commit: that one is there."""
    try:
        with refusals_named():
            yield
    except (LakestreamError, CommitFailedError, OSError) as error:
        _log.warning("%s was not kept up behind a commit: %s", path, first_line(error))


def write_checkpoint(table: Table) -> None:
    """Write a checkpoint of the version that a table was seen at last."""
    with _log_mirrored(table) as folder:
        if folder is not None:
            _put_checkpoint(table.path, folder)
    if folder is None:
        if files.is_uri(table.path):
            table.reopen()  # what is there by now may be another table
        table.handle.create_checkpoint()
    table.checkpoints.last = table.version


def _put_checkpoint(path: str, folder: str) -> None:
    """Put a checkpoint of a log, which a folder has, into a store; another writer may have done so."""
    mirror = DeltaTable(folder)
    checkpoint = checkpoint_name(mirror.version())
    if not Path(folder, checkpoint).exists():
        mirror.create_checkpoint()
        # Who finds the name of a checkpoint looks for the file.
        for name in (checkpoint, LAST_CHECKPOINT):
            kept.write(path, name, Path(folder, name).read_bytes())


def drop_files(table: Table, kept_for: timedelta) -> None:
    """Delete the files of a table of lakestream's own that no version of the last hours or so has.

    A checkpoint forgets what was taken away so long ago: all that the log does not name are old files.
    """

    def old_files(handle: DeltaTable, *, dry_run: bool) -> list[str]:
        hours = int(kept_for / timedelta(hours=1))
        return handle.vacuum(hours, dry_run, enforce_retention_duration=False, full=True)

    with _log_mirrored(table) as folder:
        if folder is not None:
            for name, written in files.written_at(table.path, after=f"{_LOG}~"):
                stand_in = Path(folder, name)
                stand_in.touch()
                os.utime(stand_in, (written.timestamp(),) * 2)
            files.delete(table.path, old_files(DeltaTable(folder), dry_run=True))
    if folder is None:
        old_files(table.handle, dry_run=False)


@contextmanager
def _log_mirrored(table: Table) -> Iterator[str | None]:
    """Give a folder with the log of a table in a store from its last checkpoint on; None: it is delta-rs's.

    So it is on a local disk, and where the log has a form that is not known here.
    """
    if not files.is_uri(table.path) or "v2Checkpoint" in table.features:
        yield None
        return
    with TemporaryDirectory(dir=scratch_folder()) as folder:
        yield folder if _is_copied(table, folder) else None


def _is_copied(table: Table, folder: str) -> bool:
    """Copy a log; false: it has another form, or was cleared away or made anew meanwhile."""
    Path(folder, _LOG).mkdir()
    try:
        log = _since_checkpoint(table.path, table.version)
        for name, tag in (log or {}).items():
            Path(folder, name).write_bytes(kept.read_as(table.path, name, tag))
    except FileNotFoundError:
        return False
    return log is not None


def _since_checkpoint(path: str, upto: int) -> dict[str, str] | None:
    """Return the last checkpoint of a log and the commits from there up to a version, if any, by their tags.

    None for a log that has anything else, or lacks something.
    """
    # Of a short log a list tells whether there is one.
    hint = kept.known(path, LAST_CHECKPOINT) if upto >= _MOST_COMMITS else kept.held(path, LAST_CHECKPOINT)
    for _ in range(2):
        begun = _version(hint)
        if begun is None or begun < upto - _MOST_COMMITS:
            return None
        log = files.tags(path, _LOG, f"{_LOG}{begun:020}" if begun >= 0 else _LOG)
        version = _version(hint := _named(path, log))
        if version is None:
            return None
        if version >= begun:
            break
    else:
        return None
    wanted = [commit_name(one) for one in range(version + 1, upto + 1)]
    wanted += [checkpoint_name(version), LAST_CHECKPOINT] if version >= 0 else []
    if not all(map(_UNDERSTOOD.fullmatch, log)) or not {*wanted} <= {*log}:
        return None
    return {name: log[name] for name in wanted}


def _named(path: str, log: dict[str, str]) -> bytes | None:
    """Return what names the last checkpoint of a log, None where nothing does."""
    return kept.read_as(path, LAST_CHECKPOINT, log[LAST_CHECKPOINT]) if LAST_CHECKPOINT in log else None


def _version(hint: bytes | None) -> int | None:
    """Return the version of a checkpoint in one file, -1 where there is none; None for another form."""
    if hint is None:
        return -1
    try:
        said = json.loads(hint)
        return None if "parts" in said or "v2Checkpoint" in said else int(said["version"])
    except (ValueError, KeyError, TypeError):
        return None
