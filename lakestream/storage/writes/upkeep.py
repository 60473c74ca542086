"""Upkeep of one Delta table: small files put together, old ones deleted, its log kept short.

No row changes: compaction commits with ``dataChange=false``, which streams pass over.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from deltalake.exceptions import DeltaError

from lakestream.clock import SystemClock
from lakestream.errors import StorageError
from lakestream.storage.places import files
from lakestream.storage.sessions.altering import run_on
from lakestream.storage.tables.durable import committing, force_checkpoint, force_commits
from lakestream.storage.tables.log import checkpoint_name
from lakestream.storage.tables.table import capabilities, first_line
from lakestream.storage.writes.checkpointing import behind_commit, drop_files, write_checkpoint
from lakestream.storage.writes.edits import retried
from lakestream.storage.writes.owed import owe
from lakestream.storage.writes.writing import put_together

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from lakestream.storage.tables.table import Table

FILE_BYTES = 2 * 1024 * 1024
"""About the size of the files that ticks write, and of those that are put together of them: a row that takes
the place of another one costs its whole file."""

_log = logging.getLogger(__name__)
_INTERVAL_PART = re.compile(r"(?<!\d)(\d++)\s*+(week|day|hour|minute|second|millisecond|microsecond)s?\b\s*+")
_OWN_FILES_KEPT = timedelta(hours=1)
_LOG_ENTRY = re.compile(r"_delta_log/(\d{20})\.(json|crc|(checkpoint.*)\.parquet)")
_ENTRIES = 1_000
_FILES_KEPT = ("delta.deletedFileRetentionDuration", "7 days")
_LOG_KEPT = ("delta.logRetentionDuration", "30 days")
_SPARK_ONLY = frozenset({"columnMapping", "deletionVectors"})
"""Features of tables that delta-rs appends to, and does not rewrite."""


@dataclass(frozen=True)
class Upkeep:
    """What was done to a table's files; in a dry run what would be, and ``files_after`` is not known.

    ``deleted`` counts files that no version within the retention needs, ``bytes_freed`` their size.
    """

    files_before: int
    files_after: int | None
    deleted: int = 0
    bytes_freed: int = 0


@dataclass(frozen=True)
class Rules:
    """How a table is kept: compacted from ``least_files`` on; ``deletes``: old files and log entries go.

    ``rewritten``: ticks write rows of it anew, so that its files stay as small as they write them.
    ``spark`` is called for tables that delta-rs cannot rewrite.
    """

    least_files: int
    deletes: bool
    dry_run: bool
    rewritten: bool
    spark: Callable[[], SparkSession]


def retention(table: Table) -> timedelta:
    """Return how long a table keeps what readers of older versions need: files and log, the shorter one.

    Raises StorageError RETENTION_UNREADABLE for a table property that is no duration.
    """
    return min(_duration(table, *_FILES_KEPT), _duration(table, *_LOG_KEPT))


def _duration(table: Table, name: str, default: str) -> timedelta:
    """Read a duration as Delta writes it: ``interval 7 days``."""
    text = table.properties.get(name, default)
    parts = text.lower().removeprefix("interval ")
    counts = {unit: int(count) for count, unit in _INTERVAL_PART.findall(parts)}
    if not counts or _INTERVAL_PART.sub("", parts).strip():
        raise _unreadable(table, name, text)
    try:
        return timedelta(**{f"{unit}s": count for unit, count in counts.items()})
    except OverflowError:
        raise _unreadable(table, name, text) from None


def _unreadable(table: Table, name: str, text: str) -> StorageError:
    return StorageError(
        "RETENTION_UNREADABLE", f"{name} of {table.path} is {text!r}", hint="write it like interval 7 days"
    )


def keep_up(table: Table, rules: Rules) -> Upkeep:
    """Compact a table, write a checkpoint of its log, and delete what is older than its own retention.

    Each step leaves a table that is whole: one that did not come is made up for the next time. What takes the
    place of files is on the disk before they go. Raises StorageError UPKEEP_FAILED.
    """
    with committing(table):
        table.refresh()
        try:
            return _by_spark(table, rules) if _needs_spark(table) else _by_arrow(table, rules)
        except DeltaError as error:
            raise StorageError("UPKEEP_FAILED", f"{table.path}: {first_line(error)}") from error
        finally:
            # What is kept in memory of older versions may name files that are gone.
            table.reopen()


def compact(table: Table) -> None:
    """Put the small files of a table together between two ticks, and clear its log, where delta-rs can.

    A commit to a table costs more with each file that it has, and with each entry of its log. What fails is
    left to the next time, or to :func:`keep_up`.
    """
    owe(table.path, "small files", partial(_compacted, table))


def _compacted(table: Table) -> None:
    with committing(table):
        before = table.version
        try:
            if not _needs_spark(table):
                _compact(table, FILE_BYTES, in_parts=True)
                force_commits(table.path, before, table.version)
                owe(table.path, "old entries", partial(_clear_log, table))
        except DeltaError:
            _log.warning("the files of %s were not put together", table.path, exc_info=True)
        table.was_compacted()


def put_own_together(table: Table) -> None:
    """Put the small files of a table of lakestream's own together, and drop what is old, behind a commit."""
    with behind_commit(table.path), committing(table):
        put_together(table, FILE_BYTES, in_parts=True)
    drop_old(table)


def drop_old(table: Table) -> None:
    """Delete files that a table of lakestream's own has not had for an hour, and old entries of its log."""
    owe(table.path, "old files", partial(_drop_files, table))
    owe(table.path, "old entries", partial(_clear_log, table))


def _drop_files(table: Table) -> None:
    with behind_commit(table.path), table.guard:
        drop_files(table, _OWN_FILES_KEPT)


def _clear_log(table: Table) -> None:
    """Delete old entries of a table's log; in a store the first thousand at most, which are the oldest.

    Those before a checkpoint that is as old: readers of versions that are kept begin there.
    """
    with behind_commit(table.path), table.guard:
        if not files.is_uri(table.path):
            table.handle.cleanup_metadata()
            return
        before = SystemClock().now() - _duration(table, *_LOG_KEPT)
        found = files.written_at(table.path, "_delta_log/", most=_ENTRIES)
        entries = [(name, entry) for name, written in found if written < before and (entry := _entry(name))]
        checkpoints = [version for _, (version, is_checkpoint) in entries if is_checkpoint]
        first = max(checkpoints, default=0)
        files.delete(table.path, [name for name, (version, _) in entries if version < first])


def _entry(name: str) -> tuple[int, bool] | None:
    """Return the version of an entry of a log, and whether it is a checkpoint in one file."""
    entry = _LOG_ENTRY.fullmatch(name)
    return entry and (int(entry[1]), entry[3] == "checkpoint")


def shorten_log(table: Table, commits: int) -> None:
    """Write a checkpoint between two ticks where there was none for so many commits, and delta-rs can.

    A table's writers may leave that out; to go to its next version costs more with each commit behind the
    last one. What fails is left to the next time, or to :func:`keep_up`.
    """
    if table.checkpoints.lack(table.version, commits):
        owe(table.path, "checkpoint", partial(_shortened, table))


def _shortened(table: Table) -> None:
    with committing(table):
        try:
            if not _needs_spark(table):
                _checkpoint(table)
        except DeltaError:
            _log.warning("no checkpoint of %s was written", table.path, exc_info=True)
        # In a store the handle is opened anew where it is needed.
        table.checkpoints.last = table.version if files.is_uri(table.path) else table.reopen()


def _needs_spark(table: Table) -> bool:
    return not capabilities(table).arrow_writes or bool(table.features & _SPARK_ONLY)


def _by_arrow(table: Table, rules: Rules) -> Upkeep:
    before, version = _count(table), table.version
    if not rules.dry_run:
        if before >= rules.least_files:
            _compact(table, FILE_BYTES if rules.rewritten else None)
            force_commits(table.path, version, table.version)
        _checkpoint(table)
    old = _vacuum(table, dry_run=True) if rules.deletes else []
    freed = files.size(table.path, old)
    if rules.dry_run:
        return Upkeep(before, None, len(old), freed)
    if old:
        _vacuum(table, dry_run=False)
    if rules.deletes:
        table.handle.cleanup_metadata()
    return Upkeep(before, _count(table), len(old), freed)


def _count(table: Table) -> int:
    return len(table.handle.file_uris())


@retried
def _compact(table: Table, target_bytes: int | None, *, in_parts: bool = False) -> None:
    table.refresh()
    put_together(table, target_bytes, in_parts=in_parts)


def _checkpoint(table: Table) -> None:
    """Write a checkpoint of the log unless the last one is of this version."""
    if not files.exists(table.path, checkpoint_name(table.version)):
        write_checkpoint(table)
        force_checkpoint(table.path, table.version)


def _vacuum(table: Table, *, dry_run: bool) -> Sequence[str]:
    """Delete files by the table's own retention: change data and what crashes left behind too (full)."""
    return table.handle.vacuum(dry_run=dry_run, full=True)


def _by_spark(table: Table, rules: Rules) -> Upkeep:
    """Leave a table to Spark, which writes the checkpoints itself and does not say what a VACUUM frees."""
    before, version = _count(table), table.version
    if rules.dry_run:
        return Upkeep(before, None)
    if before >= rules.least_files:
        run_on(rules.spark(), "OPTIMIZE", table.path)
        force_commits(table.path, version, table.refresh())
    if rules.deletes:
        run_on(rules.spark(), "VACUUM", table.path)
    table.refresh()
    return Upkeep(before, _count(table))
