"""Checkpoints of a table's log: by delta-rs, in a store from the commits that this process knows already.

They are written behind a commit, not with it: one that cannot be written is no failure of the commit, which
is there. delta-rs reads each commit since the last checkpoint two to four times before it writes one. In a
store it therefore writes it in a mirror of the log: what a list of the log says is known here is not asked
for again.
"""

from __future__ import annotations

import json
import logging
import re
from contextlib import contextmanager
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
    if table.version // interval == before // interval:
        return
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
    if not (files.is_uri(table.path) and _was_mirrored(table)):
        table.handle.create_checkpoint()
    table.checkpoints.last = table.version


def _was_mirrored(table: Table) -> bool:
    """Write a checkpoint in a mirror of the log, and put it into the store; false: it is delta-rs's to do."""
    if "v2Checkpoint" in table.features:
        return False
    try:
        log = _since_checkpoint(table.path, table.version)
        if log is None:
            return False
        with TemporaryDirectory(dir=scratch_folder()) as folder:
            Path(folder, _LOG).mkdir()
            for name, tag in log.items():
                Path(folder, name).write_bytes(kept.read_as(table.path, name, tag))
            DeltaTable(folder).create_checkpoint()
            # Who finds the name of a checkpoint looks for the file.
            for name in (checkpoint_name(table.version), LAST_CHECKPOINT):
                kept.write(table.path, name, Path(folder, name).read_bytes())
    except FileNotFoundError:
        return False  # cleared away, or made anew meanwhile
    return True


def _since_checkpoint(path: str, upto: int) -> dict[str, str] | None:
    """Return the last checkpoint of a log and the commits from there up to a version, by their tags.

    None for a log that has anything else, or lacks something.
    """
    hint = kept.known(path, LAST_CHECKPOINT)
    for _ in range(2):
        version = _version(hint)
        if version is None or not upto - _MOST_COMMITS <= version < upto:
            return None
        log = files.tags(path, _LOG, f"{_LOG}{version:020}" if version >= 0 else _LOG)
        if hint == (hint := _named(path, log)):
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
