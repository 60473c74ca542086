"""The one function that writes a stream's output: idempotent by transaction id, on both ways.

The rules are Delta's transaction identifiers (PROTOCOL.md) and what the two writers make of them:
Spark passes silently over a write whose version is at or below the recorded one, delta-rs writes
again. So the recorded version is looked at on a handle, and the commit is made with that handle: a
rival with the same id then fails instead of doubling rows.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltalake import CommitProperties, Transaction

from lakestream.errors import LakestreamError, StorageError, StreamError
from lakestream.storage.places.attempts import attempted, is_conflict
from lakestream.storage.rows.reading import align
from lakestream.storage.tables.durable import committing
from lakestream.storage.tables.log import SAME_ROWS, CommitInfo, read_commits
from lakestream.storage.tables.looks import look_anew
from lakestream.storage.tables.table import first_line, not_done
from lakestream.storage.writes.upkeep import FILE_BYTES
from lakestream.storage.writes.writing import write_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from lakestream.storage.tables.table import Table

_FILE_CELLS = 300_000
"""Values in a file of about ``FILE_BYTES``, as Spark counts rows only."""
_ATTEMPTS = 5
_SEARCHED = 1_000
# Spark says of rows that break a constraint, and are to replace others, that they are not those to write.
_VIOLATED = ("failed validation check", "DELTA_VIOLATE_CONSTRAINT", "DELTA_REPLACE_WHERE_MISMATCH")
_NULL_IN = re.compile(
    r"Column '(?P<arrow>.+)' is declared as non-nullable|"
    r"NOT NULL constraint violated for column: (?P<spark>.+)\.|"
    r"Column (?P<missing>.+), which has a NOT NULL constraint, is missing"
)
"""How delta-rs and Delta (Spark) name a column that takes no NULL and was to get one."""


@dataclass(frozen=True)
class CommitTag:
    """Whose commit it is: application id, tick (rising for ever), and what its userMetadata says.

    ``metadata["epoch"]`` is the number of the writing process's turn: it tells a lost answer from a
    rival. Values are JSON.
    """

    app: str
    tick: int
    metadata: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class CommitResult:
    """The version that holds the tick; ``replayed`` when it was there before this call.

    ``recovered`` marks a commit that was made although its writer was told that it failed. The version
    of a replay whose commit is no longer in the log is the table's latest.
    """

    version: int
    replayed: bool = False
    recovered: bool = False


@dataclass(frozen=True)
class Change:
    """Rows to write, and the predicate of those that they come in the place of; ``metadata`` is added."""

    rows: pa.Table | DataFrame | None
    replace: str | None = None
    metadata: dict[str, object] = field(default_factory=dict)


class _Conflict(Exception):  # noqa: N818  (never leaves this module)
    """Another commit came in between; the write may be tried again."""


def commit(
    table: Table, rows: pa.Table | DataFrame | None, tag: CommitTag, *, replace: str | None = None
) -> CommitResult:
    """Write a tick's rows in one commit, at most once per ``(tag.app, tag.tick)``.

    Without ``replace`` the rows are appended. With it, rows that match the predicate (a Delta
    predicate; write times by ``timestamp_literal``) go and ``rows`` come in the same commit; rows must
    match the predicate themselves. An Arrow table goes through delta-rs, a DataFrame through Spark;
    None or no rows, and no predicate, commits the transaction id alone. Columns that ``rows`` lack are
    NULL. A conflict is retried up to 5 times on a fresh handle.

    Raises StreamError FENCED when another epoch committed the tick (or a later epoch did before),
    OUTPUT_CONSTRAINT for rows that do not meet a constraint of the table,
    StorageError COMMIT_CONFLICT after the last attempt, COMMIT_FAILED for anything else.
    """
    change = Change(rows, replace)
    return commit_made(table, lambda: change, tag)


def commit_made(table: Table, make: Callable[[], Change], tag: CommitTag) -> CommitResult:
    """Write a change as :func:`commit` does; it is made for each attempt, of the table as it is seen then.

    For rows that depend on those which others may have written in between.
    """
    with committing(table):
        start = table.refresh()
        known = table.transaction_version(tag.app)
        if known is not None and known >= tag.tick:
            return _replayed(table, tag)
        return _retried(table, make, tag, start)


def rewrite(table: Table, rows: DataFrame) -> int:
    """Put rows in the place of all there are, by Spark, with their columns, and return how many they are.

    The commit says that they are those that there were: readers of changes pass it over. Raises StorageError
    COMMIT_FAILED.
    """
    with committing(table):
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer = writer.option("userMetadata", SAME_ROWS).partitionBy(*table.partition_columns)
        try:
            writer.save(table.path)
        except Exception as error:
            # Spark and Delta have no common kind of error.
            raise not_done("COMMIT_FAILED", f"{table.path} was not written", error) from error
        version = table.reopen()
    commit = read_commits(table.path, version - 1, version)[0]
    return sum(file.rows or 0 for file in commit.files)


def _retried(table: Table, make: Callable[[], Change], tag: CommitTag, start: int) -> CommitResult:
    try:
        return attempted(lambda: _attempt(table, make(), tag, start), _Conflict, attempts=_ATTEMPTS)
    except _Conflict as error:
        raise StorageError(
            "COMMIT_CONFLICT",
            f"{table.path} was changed by others at each of {_ATTEMPTS} attempts to write it: {error}",
            hint="stop what rewrites the table, or run it at another time",
        ) from error


def _refuse_violation(table: Table, error: Exception) -> None:
    """Raise StreamError OUTPUT_CONSTRAINT where a write failed of a constraint that the table has."""
    null = _NULL_IN.search(str(error))
    broken = [f"{null[null.lastgroup or 0]} NOT NULL"] if null else []
    if not null and any(sign in str(error) for sign in _VIOLATED):
        broken = _checks(table)
    if broken:
        raise StreamError(
            "OUTPUT_CONSTRAINT", f"rows for {table.path} do not meet its constraints: {', '.join(broken)}"
        ) from error


def _checks(table: Table) -> list[str]:
    prefix = "delta.constraints."
    properties = sorted(table.properties.items())
    return [f"{key[len(prefix) :]} CHECK ({sql})" for key, sql in properties if key.startswith(prefix)]


def _attempt(table: Table, change: Change, tag: CommitTag, start: int) -> CommitResult:
    """Try once; after any failure look first whether the tick is committed all the same."""
    said = dataclasses.replace(tag, metadata={**tag.metadata, **change.metadata})
    try:
        _write(table, change.rows, said, change.replace)
    except Exception as error:
        look_anew()
        table.refresh()
        if _has(table, tag):
            return dataclasses.replace(_committed(table, tag, start), recovered=True)
        if isinstance(error, LakestreamError):
            raise
        if is_conflict(error):
            raise _Conflict(first_line(error)) from error
        _refuse_violation(table, error)
        raise not_done("COMMIT_FAILED", f"{table.path} was not written", error) from error
    table.refresh()
    found = _committed(table, tag, start)
    if found.version == table.version:
        table.last_transaction = (table.version, tag.app), tag.tick
    return found


def _has(table: Table, tag: CommitTag) -> bool:
    known = table.transaction_version(tag.app)
    return known is not None and known >= tag.tick


def _committed(table: Table, tag: CommitTag, after: int) -> CommitResult:
    """Return the version after ``after`` that holds our tick.

    Raises StreamError FENCED when a rival went past it, StorageError COMMIT_FAILED when no version has it.
    """
    for info in reversed(read_commits(table.path, after, table.version)):
        if (tag.app, tag.tick) in info.transactions:
            _refuse_rival(table, tag, info)
            theirs = _metadata(info).get("epoch")
            return CommitResult(info.version, replayed=theirs != tag.metadata.get("epoch"))
    if _has(table, tag):
        raise _fenced(table, tag, None)
    raise StorageError("COMMIT_FAILED", f"{table.path} does not hold tick {tag.tick} after it was written")


def was_last_written_by(table: Table, apps: str) -> bool:
    """Return whether the last commit that changed rows is of an application whose id begins so.

    False where it is not found, as far back as it is looked for.
    """
    info = _found(table, lambda one: one.data_change or _is_of(one, apps))
    return info is not None and _is_of(info, apps)


def _is_of(info: CommitInfo, apps: str) -> bool:
    return any(app.startswith(apps) for app, _ in info.transactions)


def said_by(table: Table, app: str, tick: int) -> dict[str, object]:
    """Return what the commit of a tick says in its userMetadata; nothing where the log no longer has it."""
    info = _commit_of(table, app, tick)
    return {} if info is None else _metadata(info)


def _commit_of(table: Table, app: str, tick: int) -> CommitInfo | None:
    """Return the commit of a tick, as far back as it is looked for."""
    return _found(table, lambda one: (app, tick) in one.transactions)


def _found(table: Table, is_it: Callable[[CommitInfo], bool]) -> CommitInfo | None:
    """Return the newest commit of which something holds, as far back as it is looked for."""
    version = table.version
    for candidate in range(version, max(-1, version - _SEARCHED), -1):
        try:
            info = read_commits(table.path, candidate - 1, candidate)[0]
        except StreamError:
            break
        if is_it(info):
            return info
    return None


def _replayed(table: Table, tag: CommitTag) -> CommitResult:
    """Return where an earlier run committed the tick; FENCED when a rival did."""
    info = _commit_of(table, tag.app, tag.tick)
    if info is None:
        return CommitResult(table.version, replayed=True)
    _refuse_rival(table, tag, info)
    return CommitResult(info.version, replayed=True)


def _refuse_rival(table: Table, tag: CommitTag, info: CommitInfo) -> None:
    """Raise FENCED for a tick of a later epoch, or of another plan.

    What a process that is gone left behind, perhaps only now, is the tick itself: its plan was ours.
    """
    theirs, ours = _metadata(info), tag.metadata
    if any(theirs.get(name) != ours.get(name) for name in ("after", "upto")) or _is_later(theirs, ours):
        raise _fenced(table, tag, theirs.get("epoch"))


def _is_later(theirs: Mapping[str, object], ours: Mapping[str, object]) -> bool:
    """Return whether a commit's epoch is not ours and not an earlier one."""
    epoch, own = theirs.get("epoch"), ours.get("epoch")
    return epoch != own and not (isinstance(epoch, int) and isinstance(own, int) and epoch < own)


def _metadata(info: CommitInfo) -> dict[str, object]:
    try:
        metadata = json.loads(info.user_metadata or "{}")
    except ValueError:
        return {}
    return metadata if isinstance(metadata, dict) else {}


def _fenced(table: Table, tag: CommitTag, epoch: object) -> StreamError:
    return StreamError(
        "FENCED",
        f"tick {tag.tick} of {tag.app} was committed to {table.path} by another process (epoch {epoch})",
        hint="another lakestream has taken over; this one must stop",
    )


def _write(table: Table, rows: pa.Table | DataFrame | None, tag: CommitTag, replace: str | None) -> None:
    import pyarrow as pa

    # A frame of Spark Connect has any attribute: it takes it for a column.
    if rows is None or isinstance(rows, pa.Table):
        _write_arrow(table, rows, tag, replace)
    else:
        _write_spark(table.path, rows, tag, replace)


def _write_arrow(table: Table, rows: pa.Table | None, tag: CommitTag, replace: str | None) -> None:
    properties = CommitProperties(
        app_transactions=[Transaction(tag.app, tag.tick)],
        custom_metadata={"userMetadata": json.dumps(tag.metadata, sort_keys=True)},
    )
    write_rows(
        table,
        table.schema.empty_table() if rows is None else align(rows, table.schema),
        replace=replace,
        commit_properties=properties,
        target_file_size=FILE_BYTES,
    )


def _write_spark(path: str, rows: DataFrame, tag: CommitTag, replace: str | None) -> None:
    writer = (
        rows.write.format("delta")
        .mode("append" if replace is None else "overwrite")
        .option("txnAppId", tag.app)
        .option("txnVersion", tag.tick)
        .option("userMetadata", json.dumps(tag.metadata, sort_keys=True))
        .option("maxRecordsPerFile", max(1, _FILE_CELLS // len(rows.columns)))
    )
    if replace is not None:
        writer = writer.option("replaceWhere", replace)
    writer.save(path)
