"""The changes of a version range, as rows: the one reader, in two ways of moving bytes."""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import TYPE_CHECKING

from lakestream.errors import StreamError
from lakestream.language.quoting import delta_name, quoted
from lakestream.storage.columns.meant import meant_arrow, meant_spark
from lakestream.storage.columns.times import stored_columns
from lakestream.storage.rows.reading import arrow_frame, constant, gathered, opened
from lakestream.storage.rows.written import added_rows
from lakestream.storage.tables.log import CommitInfo, read_commits
from lakestream.storage.tables.table import KeptRows, Table, first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

COMMIT_VERSION = "_commit_version"
CHANGE_TYPE = "_change_type"
_KEPT_BYTES = 4 << 20


def changes_arrow(table: Table | str, after: int, upto: int, columns: Sequence[str]) -> pa.Table:
    """Return the changed rows of ``(after, upto]``: the columns, ``_commit_version`` and ``_change_type``.

    ``_change_type`` is insert, delete, update_preimage or update_postimage. Rows come in no particular
    order. Raises StreamError CHANGES_LOST (a commit or a file of it is gone) or CHANGE_FEED_OFF.
    """
    table = opened(table)
    return _changes(table, checked_commits(table, after, upto), after, upto, columns)


def changes_arrow_or_none(table: Table, after: int, upto: int, columns: Sequence[str]) -> pa.Table | None:
    """Return what :func:`changes_arrow` does, None where delta-rs does not read the changes as they are.

    Of a file that was added or taken out with a deletion vector it gives other rows than those it holds.
    Times before 1678 or after 2261 that Spark wrote it takes for others. A folder with an encoded name (a
    slash or a colon in a partition's value) it does not find.
    """
    commits = checked_commits(table, after, upto)
    if any(commit.misread for commit in commits):
        return None
    return _changes(table, commits, after, upto, columns)


def _changes(
    table: Table, commits: list[CommitInfo], after: int, upto: int, columns: Sequence[str]
) -> pa.Table:
    if upto <= after:
        return _empty(table, columns)
    what = (table.version, after, upto, *(commit.digest for commit in commits))
    kept = table.kept_changes
    if kept is not None and kept.what == what and {*columns} <= {*kept.rows.column_names}:
        return kept.rows.select(_with_origin(columns))
    rows = _added(table, commits, columns)
    if rows is None:
        rows = _read_changes(table, commits, after, upto, columns)
    # Streams that follow one table read the same commits one after the other.
    table.kept_changes = KeptRows(what, rows) if rows.nbytes <= _KEPT_BYTES else None
    return rows


def _added(table: Table, commits: list[CommitInfo], columns: Sequence[str]) -> pa.Table | None:
    """Return the rows of commits that only added some, which costs less than the feed; None for others."""
    import pyarrow as pa

    stored = stored_columns(table.time, columns)
    found = added_rows(table, commits, stored)
    if not found:
        return None
    _check_versions(table.path, commits, {version for version, rows in found if rows.num_rows})
    parts = [rows.append_column(COMMIT_VERSION, constant(version, rows.num_rows)) for version, rows in found]
    rows = pa.concat_tables(parts)
    rows = rows.append_column(CHANGE_TYPE, constant("insert", rows.num_rows))
    return meant_arrow(table, rows, _with_origin(columns))


def _read_changes(
    table: Table, commits: list[CommitInfo], after: int, upto: int, columns: Sequence[str]
) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    # Unlike a scan, the feed reads a name as SQL: without quotes in lower case, and never a keyword.
    stored = stored_columns(table.time, columns)
    wanted = [delta_name(name) for name in (*stored, CHANGE_TYPE, COMMIT_VERSION)]
    spans = _telling(commits, after, upto)
    if not spans:
        return _empty(table, columns)
    try:
        with table.guard:
            feeds = [
                table.handle.load_cdf(starting_version=first + 1, ending_version=last, columns=wanted)
                for first, last in spans
            ]
        found = [gathered(feed).select(_with_origin(stored)) for feed in feeds]
        rows = pa.concat_tables(found) if len(found) > 1 else found[0]
    except Exception as error:
        # delta-rs raises DeltaError, and a bare Exception for a data file that is gone.
        raise _lost(table.path, after, upto, error) from error
    rows = meant_arrow(table, rows, _with_origin(columns))
    rows = rows.set_column(len(columns), COMMIT_VERSION, rows[COMMIT_VERSION].cast(pa.int64()))
    _check_versions(table.path, commits, set(pc.unique(rows[COMMIT_VERSION]).to_pylist()))
    return rows


def changes_spark(
    spark: SparkSession, table: Table | str, after: int, upto: int, columns: Sequence[str]
) -> DataFrame:
    """Return the changed rows of ``(after, upto]`` as a DataFrame, as :func:`changes_arrow` does.

    ``after < upto``. Spark reads the commits when the DataFrame is evaluated and passes over one that
    is gone by then: who evaluates it much later calls ``read_commits`` again afterwards.
    """
    table = opened(table)
    commits, stored = checked_commits(table, after, upto), stored_columns(table.time, columns)
    parts = [
        # A struct that a field was added to is another type; the time in it is the same.
        meant_spark(table, _feed(spark, table.path, *span, stored), _with_origin(columns))
        for telling in _telling(commits, after, upto)
        for span in _spans_of_one_schema(commits[telling[0] - after : telling[1] - after], *telling)
    ]
    if not parts:
        return arrow_frame(spark, _empty(table, columns))
    return functools.reduce(lambda left, right: left.unionAll(right), parts)


def _feed(spark: SparkSession, path: str, after: int, upto: int, columns: Sequence[str]) -> DataFrame:
    feed = (
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", after + 1)
        .option("endingVersion", upto)
        .load(path)
    )
    return feed.select(*map(quoted, _with_origin(columns)))


def _with_origin(columns: Sequence[str]) -> list[str]:
    """Return the columns, and those that say which commit a row is of and what it was."""
    return [*columns, COMMIT_VERSION, CHANGE_TYPE]


def _telling(commits: Sequence[CommitInfo], after: int, upto: int) -> list[tuple[int, int]]:
    """Return ``(after, upto]`` without the commits that wrote rows anew and changed none."""
    edges = [after, *(edge for c in commits if c.same_rows for edge in (c.version - 1, c.version)), upto]
    return [(first, last) for first, last in zip(edges[::2], edges[1::2], strict=True) if first < last]


def _spans_of_one_schema(commits: Sequence[CommitInfo], after: int, upto: int) -> list[tuple[int, int]]:
    """Cut ``(after, upto]`` before each commit that changes the columns.

    Spark refuses to read across a rename or a drop.
    """
    schemas = [commit for commit in commits if commit.schema_json is not None]
    changing = [now for before, now in pairwise(schemas) if before.schema_json != now.schema_json]
    cuts = [commit.version - 1 for commit in [*schemas[:1], *changing] if commit.version - 1 > after]
    return [*pairwise([after, *cuts, upto])]


def checked_commits(table: Table, after: int, upto: int) -> list[CommitInfo]:
    """Return the range's commits: every one is there, and the change feed was on for all of them.

    Spark refuses a range without the feed, delta-rs reads what it finds.
    """
    if table.version < upto:
        table.refresh()
    commits = read_commits(table.path, after, upto)
    switched = [commit for commit in commits if commit.change_feed is not None]
    before = table.has_change_feed if not switched else after < 0 or _was_on(table, after)
    if commits and not before:
        raise _off(table.path, after + 1)
    for commit in switched:
        if not commit.change_feed:
            raise _off(table.path, commit.version)
    return commits


def _was_on(table: Table, version: int) -> bool:
    """Return whether the change feed was on at an older version, opened for that."""
    properties = table.at(version).metadata().configuration
    return properties.get("delta.enableChangeDataFeed", "false").lower() == "true"


def _off(path: str, version: int) -> StreamError:
    return StreamError(
        "CHANGE_FEED_OFF",
        f"the change feed of {path} is off at version {version}",
        hint="ALTER TABLE … SET TBLPROPERTIES (delta.enableChangeDataFeed = true); then compute anew",
    )


def _check_versions(path: str, commits: list[CommitInfo], seen: set[int]) -> None:
    """Hold the versions of the rows against the log: each commit that appended rows must be among them."""
    expected = {commit.version for commit in commits if commit.append_only and commit.add_rows}
    known = {commit.version for commit in commits}
    for version in sorted((expected - seen) | (seen - known)):
        raise StreamError(
            "CHANGES_LOST", f"the change feed of {path} and its log differ at version {version}", hint=_HINT
        )


_HINT = "what was missed must be computed anew from the table as it is"


def _lost(path: str, after: int, upto: int, error: BaseException) -> StreamError:
    return StreamError(
        "CHANGES_LOST",
        f"the changes of {path} from version {after + 1} to {upto} cannot be read: {first_line(error)}",
        hint=_HINT,
    )


def _empty(table: Table, columns: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    schema = table.schema
    fields = [schema.field(name) for name in stored_columns(table.time, columns)]
    extra = [pa.field(COMMIT_VERSION, pa.int64()), pa.field(CHANGE_TYPE, pa.string())]
    return meant_arrow(table, pa.schema([*fields, *extra]).empty_table(), _with_origin(columns))
