"""What users write: tables made, rows inserted by key, updated, deleted. No transaction ids."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError

from lakestream.errors import StatementError, StorageError, StreamError
from lakestream.language.quoting import delta_name, quoted
from lakestream.storage.places import files
from lakestream.storage.places.attempts import attempted, is_conflict
from lakestream.storage.rows.reading import align, opened, timestamp_literal
from lakestream.storage.tables.durable import committing, force_commits
from lakestream.storage.tables.far_times import has_far_times
from lakestream.storage.tables.log import TIME_CUT_US, CommitInfo, read_commits
from lakestream.storage.tables.looks import look_anew
from lakestream.storage.tables.table import FAR_TIMES, Table, Tables, first_line, not_done
from lakestream.storage.writes.checkpointing import NO_HOOKS, keep_checkpoints
from lakestream.storage.writes.keys import compared, meets_keys, span_of
from lakestream.storage.writes.writing import write_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from deltalake import Field
    from pyspark.sql import SparkSession

    from lakestream.storage.names.table_info import TableInfo
    from lakestream.storage.writes.written import Written

_T = TypeVar("_T")
_P = ParamSpec("_P")

TABLE_PROPERTIES = {
    "delta.enableChangeDataFeed": "true",
    "delta.checkpointInterval": "10",
}
"""Properties of the tables that lakestream makes: no feature that delta-rs cannot write."""


def retried(edit: Callable[_P, _T]) -> Callable[_P, _T]:
    """Have an edit look anew and be done again where another commit came in between."""

    @wraps(edit)
    def asked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        return attempted(lambda: edit(*args, **kwargs), CommitFailedError, before_next=look_anew)

    return asked


def create(
    path: str,
    fields: Sequence[Field],
    *,
    properties: Mapping[str, str] | None = None,
    comment: str | None = None,
    partitioned_by: Sequence[str] = (),
) -> Table:
    """Make an empty Delta table with a change feed and return its handle.

    Raises StorageError TABLE_EXISTS when there is one, CREATE_FAILED otherwise.
    """
    configuration = {**TABLE_PROPERTIES, **(properties or {})}
    try:
        handle = DeltaTable.create(
            path,
            Schema(list(fields)),
            description=comment,
            configuration=configuration,
            partition_by=[*partitioned_by],
            raise_if_key_not_exists=False,
        )
    except (DeltaError, OSError) as error:
        files.remove_empty(f"{path}/_delta_log", path)
        code = "TABLE_EXISTS" if "already exists" in str(error) else "CREATE_FAILED"
        raise not_done(code, f"no table was made at {path}", error) from error
    force_commits(path, -1, 0)
    return Table(path, handle)


def append(table: Table | str, rows: pa.Table) -> int:
    """Append rows in one commit and return its version; columns that ``rows`` lack are NULL."""
    table = opened(table)
    with committing(table):
        table.refresh()
        aligned = align(rows, table.schema)
        retried(write_rows)(table, aligned)
        return table.version


def delete_where(table: Table | str, predicate: str | None, *, app: str | None = None) -> int:
    """Delete the rows that match a predicate of delta-rs's SQL (None: all), and return their number.

    ``app`` is the application id of the transaction that the commit is part of: a stream's.
    """
    table = opened(table)
    properties = None if app is None else CommitProperties(app_transactions=[Transaction(app, 1)])
    with committing(table):
        metrics = _delete(table, predicate, properties)
    return int(metrics.get("num_deleted_rows") or 0)


@retried
def _delete(table: Table, predicate: str | None, properties: CommitProperties | None) -> dict[str, int]:
    return _named(
        table,
        lambda: table.handle.delete(
            predicate, commit_properties=properties, post_commithook_properties=NO_HOOKS
        ),
    )


def update_where(table: Table | str, assignments: Mapping[str, str], predicate: str | None) -> int:
    """Set columns to expressions of delta-rs's SQL where the predicate holds; return the number of rows."""
    table = opened(table)
    with committing(table):
        metrics = _update(table, assignments, predicate)
    return int(metrics.get("num_updated_rows") or 0)


@retried
def _update(table: Table, assignments: Mapping[str, str], predicate: str | None) -> dict[str, int]:
    updates = {delta_name(name): text for name, text in assignments.items()}
    return _named(
        table,
        lambda: table.handle.update(
            updates=updates, predicate=predicate, post_commithook_properties=NO_HOOKS
        ),
    )


def edited_by_spark(
    spark: SparkSession, table: Table | str, condition: str, assignments: Mapping[str, str] | None = None
) -> int:
    """Set columns of the rows for which a condition holds, or delete these, and return their number.

    Expressions are Spark's SQL. Raises what Spark does, but for another commit that came in between, after
    which it is done again.
    """
    table = opened(table)
    with committing(table):
        before = table.refresh()
        changed = _by_spark(spark, table, condition, assignments)
        return changed if table.refresh() > before else 0


@retried
def _by_spark(
    spark: SparkSession, table: Table, condition: str, assignments: Mapping[str, str] | None
) -> int:
    from delta.tables import DeltaTable as SparkTable

    there = SparkTable.forPath(spark, table.path)
    try:
        if assignments is None:
            there.delete(condition)
        else:
            there.update(condition, {quoted(name): value for name, value in assignments.items()})
    except Exception as error:
        if is_conflict(error):
            raise CommitFailedError(first_line(error)) from error
        raise
    metrics = there.history(1).collect()[0]["operationMetrics"]
    return int(metrics.get("numDeletedRows" if assignments is None else "numUpdatedRows") or 0)


def _named(table: Table, action: Callable[[], _T]) -> _T:
    """Run an edit of a table as it is by now; what delta-rs refuses becomes a StorageError.

    A conflict stays to be retried.
    """
    before = table.refresh()
    if has_far_times(table):
        raise StorageError(
            "EDIT_FAILED",
            f"{table.path} was not changed: it holds {FAR_TIMES} as Spark writes them, "
            "which would become others in the files that are written anew",
            hint="whoever writes the table can change it by Spark",
        )
    try:
        done = action()
    except CommitFailedError:
        raise
    except DeltaError as error:
        raise not_done("EDIT_FAILED", f"{table.path} was not changed", error) from error
    keep_checkpoints(table, before)
    return done


@retried
def insert_rows(
    info: TableInfo,
    rows: pa.Table,
    *,
    tables: Tables,
    keep_old: bool = False,
    written: Written | None = None,
) -> int:
    """Insert rows by key in one commit and return its version (TDengine: an equal key is overwritten).

    Of rows with equal keys (``info.key``) the last one counts; a row whose key is in the table already
    replaces the old row, NULL in columns that ``rows`` lack; with ``keep_old`` a NULL leaves the old value
    (IoTDB). Rows that cannot meet an old key, by the table's newest time or by a look at the keys of their
    time range, are appended plainly; it is looked at anew where another commit came in between. A table
    without key takes every row. The commit says what it is a write of where that is given (``written``).
    Raises StatementError BAD_VALUE for a NULL in a key column.
    """
    table = tables.latest(info.path)
    with committing(table):
        aligned = align(rows, table.schema)
        if not info.key or not aligned.num_rows:
            return append(table, aligned) if aligned.num_rows else table.version
        _refuse_null_keys(info, aligned)
        unique = _last_of_each(aligned, info.key)
        first, last = span_of(unique, info.time_column)
        if lies_behind(table, info, first) or not meets_keys(table, unique, info.key, info.time_column):
            # Behind what was looked at, and not behind what others may have written since.
            write_rows(table, unique, commit_properties=_properties(written, rewrites=False))
            return table.version
        properties = _properties(written, rewrites=True)
        _merge(table, info, unique, (first, last), keep_old=keep_old, properties=properties)
        return table.version


def _properties(written: Written | None, *, rewrites: bool) -> CommitProperties | None:
    metadata = {} if written is None else written.metadata(rewrites=rewrites)
    return CommitProperties(custom_metadata={"userMetadata": json.dumps(metadata)}) if metadata else None


def lies_behind(table: Table, info: TableInfo, first: int) -> bool:
    """Return whether a time is later than all of the table's rows, by the statistics of its files."""
    return first > _newest(table, info.time_column)


def _refuse_null_keys(info: TableInfo, rows: pa.Table) -> None:
    for name in info.key:
        if rows[name].null_count:
            raise StatementError(
                "BAD_VALUE",
                f"column {name} of {info.database}.{info.name} is part of the key and cannot be NULL",
            )


def _last_of_each(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Keep the last of the rows with equal keys, in the order of the rows."""
    import pyarrow as pa

    numbered = compared(rows, key).append_column("_row", pa.array(range(rows.num_rows), pa.int64()))
    last = numbered.group_by(list(key)).aggregate([("_row", "max")])["_row_max"]
    if len(last) == rows.num_rows:
        return rows
    return rows.take(pa.array(sorted(last.to_pylist()), pa.int64()))


def _merge(
    table: Table,
    info: TableInfo,
    rows: pa.Table,
    span: tuple[int, int],
    *,
    keep_old: bool,
    properties: CommitProperties | None,
) -> None:
    first, last = span
    time = delta_name(info.time_column)
    equal = [f"t.{delta_name(name)} = s.{delta_name(name)}" for name in info.key]
    # The bounds let the merge pass over files of other times.
    bounds = [f"t.{time} >= {timestamp_literal(first - 1_000)}", f"t.{time} <= {timestamp_literal(last)}"]
    kept = [name for name in rows.column_names if name not in info.key] if keep_old else []
    updates = {delta_name(n): f"coalesce(s.{delta_name(n)}, t.{delta_name(n)})" for n in kept}
    _merge_once(table, rows, " AND ".join([*bounds, *equal]), updates, properties)


@retried
def _merge_once(
    table: Table,
    rows: pa.Table,
    predicate: str,
    updates: Mapping[str, str],
    properties: CommitProperties | None,
) -> None:
    """Merge rows; ``updates`` say what matched rows become, empty for all of the new row."""
    table.refresh()
    merger = table.handle.merge(
        rows,
        predicate,
        source_alias="s",
        target_alias="t",
        commit_properties=properties,
        post_commithook_properties=NO_HOOKS,
    )
    matched = merger.when_matched_update(dict(updates)) if updates else merger.when_matched_update_all()
    _named(table, matched.when_not_matched_insert_all().execute)


@dataclass
class _Newest:
    """An upper bound of a column's newest time as of a version; None where it cannot be told."""

    table_id: str
    version: int
    micros: int | None


_newest_known: WeakKeyDictionary[Table, dict[str, _Newest]] = WeakKeyDictionary()
_NEVER = -(2**63)
_ALWAYS = 2**63


def _newest(table: Table, column: str) -> int:
    """Return a time that no row of the table is newer than, from the statistics of its files.

    The files are looked at once, then only those of new commits: rows that went leave the bound too
    high, which only costs a look at the keys.
    """
    known = _newest_known.setdefault(table, {})
    bound = known.get(column)
    new = None if bound is None else _commits_since(table, bound)
    if bound is None or new is None:
        bound = known[column] = _Newest(table.table_id, table.version, _newest_of_all(table, column))
    for info in new or ():
        bound.micros = _later(bound.micros, info, column)
        bound.version = info.version
    return _ALWAYS if bound.micros is None else bound.micros


def _commits_since(table: Table, bound: _Newest) -> list[CommitInfo] | None:
    """Return the commits that a bound lacks, None where the table is another one or its log lacks them."""
    if bound.table_id != table.table_id or bound.version > table.version:
        return None
    try:
        return read_commits(table.path, bound.version, table.version)
    except StreamError:
        return None


def _newest_of_all(table: Table, column: str) -> int | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    actions = pa.table(table.handle.get_add_actions(flatten=True))
    if not actions.num_rows:
        return _NEVER
    name = f"max.{column}"
    if name not in actions.column_names or actions[name].null_count:
        return None
    return int(pc.max(actions[name].cast(pa.timestamp("us", "UTC")).cast(pa.int64())).as_py()) + TIME_CUT_US


def _later(micros: int | None, commit: CommitInfo, column: str) -> int | None:
    """Raise the bound by the statistics of a commit's files."""
    if micros is None or not commit.files:
        return micros
    ends = commit.times(column)
    return None if ends is None else max(micros, ends[1])
