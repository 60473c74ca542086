"""Rows with their place: that of their file among those of the table, and their own in the file.

A commit writes its rows into files, in their order, and names the files in order. So the place of a row is
the commit that wrote it, the number of its file there, and the row's in the file. A file that takes the
place of one has its place; files that several were rewritten to (OPTIMIZE) have that of the first of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from lakestream.errors import StreamError
from lakestream.language.quoting import quoted
from lakestream.storage.columns.meant import meant_arrow, meant_spark
from lakestream.storage.columns.times import stored_columns
from lakestream.storage.places import files
from lakestream.storage.rows.changes import CHANGE_TYPE, COMMIT_VERSION, checked_commits
from lakestream.storage.rows.reading import TooManyRowsError, align, arrow_frame, opened
from lakestream.storage.rows.written import found_in_file, is_mapped, stored_schema, with_missing
from lakestream.storage.tables.datafiles import data_files, is_elsewhere
from lakestream.storage.tables.log import CommitInfo, WrittenFile, commit_name, read_commits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakestream.storage.tables.table import Table

    Rank = tuple[int, ...]

POSITION = "_commit_position"
"""A row's place in its commit (BIGINT): the number of its file, and in 32 bits its own in the file."""

_IN_FILE = 32
_WRITTEN = ("insert", "update_postimage")


@dataclass(frozen=True)
class _Placed:
    """A file with its commit and its number among those of the commit."""

    file: WrittenFile
    version: int
    number: int


def arrivals_arrow(table: Table | str, after: int, upto: int, columns: Sequence[str]) -> pa.Table | None:
    """Return the rows that the commits of ``(after, upto]`` wrote, as ``changes_arrow``, with their place.

    None where the files do not tell (deletion vectors, renamed columns). Raises StreamError CHANGES_LOST
    for a file or a commit that is gone, CHANGE_FEED_OFF.
    """
    import pyarrow as pa

    table = opened(table)
    placed = _written(checked_commits(table, after, upto))
    if placed is None or is_mapped(table):
        return None
    schema = stored_schema(table, stored_columns(table.time, columns))
    parts = [_rows_of(table, one, schema) for one in placed]
    rows = pa.concat_tables(parts) if parts else _with_place(schema.empty_table(), 0, 0, "insert")
    return meant_arrow(table, rows, [*columns, COMMIT_VERSION, CHANGE_TYPE, POSITION])


def arrivals_spark(
    spark: SparkSession, table: Table | str, after: int, upto: int, columns: Sequence[str]
) -> DataFrame | None:
    """Return what :func:`arrivals_arrow` does, read by Spark; None for an object store besides."""
    table = opened(table)
    placed = _written(checked_commits(table, after, upto))
    if not placed or is_mapped(table) or is_elsewhere(table):
        return None
    parts, stored = [], stored_columns(table.time, columns)
    for changed in (False, True):
        own = [one for one in placed if one.file.is_change_data is changed]
        if own:
            _refuse_lost(table, own)
            kind = CHANGE_TYPE if changed else f"'insert' AS {CHANGE_TYPE}"
            rows = _rows_of_files(spark, table, own, stored, [CHANGE_TYPE] if changed else [])
            rows = rows.selectExpr(*map(quoted, stored), COMMIT_VERSION, POSITION, kind)
            parts.append(rows.where(f"{CHANGE_TYPE} IN {_WRITTEN}"))
    rows = parts[0].unionByName(parts[1]) if len(parts) > 1 else parts[0]
    return meant_spark(table, rows, [*columns, COMMIT_VERSION, POSITION, CHANGE_TYPE])


def _written(commits: Iterable[CommitInfo]) -> list[_Placed] | None:
    """Return the files that commits wrote rows to, None where one does not tell."""
    placed: list[_Placed] = []
    for commit in commits:
        if commit.written is None:
            return None
        placed += [_Placed(file, commit.version, number) for number, file in enumerate(commit.written)]
    return placed


def _with_place(rows: pa.Table, version: int, number: int, kind: str | pa.ChunkedArray) -> pa.Table:
    import pyarrow as pa

    count = rows.num_rows
    first = number << _IN_FILE
    values = {
        COMMIT_VERSION: pa.repeat(pa.scalar(version, pa.int64()), count),
        CHANGE_TYPE: pa.repeat(pa.scalar(kind), count) if isinstance(kind, str) else kind,
        POSITION: pa.array(range(first, first + count), pa.int64()),
    }
    for name, value in values.items():
        rows = rows.append_column(name, value)
    return rows


def _rows_of(table: Table, placed: _Placed, schema: pa.Schema) -> pa.Table:
    """Return the rows of a file that were written, with their place."""
    import pyarrow as pa
    import pyarrow.compute as pc

    more = [CHANGE_TYPE] if placed.file.is_change_data else []
    rows, found = _read(table, placed, schema, more)
    if not more:
        return _with_place(rows, placed.version, placed.number, "insert")
    kinds = found[CHANGE_TYPE].cast(pa.string())
    changed = _with_place(rows, placed.version, placed.number, kinds)
    return changed.filter(pc.is_in(kinds, pa.array(_WRITTEN)))


def _read(
    table: Table, placed: _Placed, schema: pa.Schema, more: Sequence[str] = ()
) -> tuple[pa.Table, pa.Table]:
    """Return the columns of a file, and the same with ``more`` as they lie there."""
    try:
        found, count = found_in_file(table, placed.file, (*schema.names, *more))
    except FileNotFoundError:
        raise _gone(table, placed) from None
    return align(with_missing(found, placed.file, schema, count), schema), found


def _gone(table: Table, placed: _Placed) -> StreamError:
    return StreamError(
        "CHANGES_LOST",
        f"the data file {placed.file.path} of version {placed.version} of {table.path} is gone",
        hint="what was missed must be computed anew from the table as it is",
    )


def _refuse_lost(table: Table, placed: Iterable[_Placed]) -> None:
    for one in placed:
        if not files.exists(table.path, one.file.path):
            raise _gone(table, one)


def _rows_of_files(
    spark: SparkSession, table: Table, placed: Sequence[_Placed], columns: Sequence[str], more: Sequence[str]
) -> DataFrame:
    """Return columns of data files as a DataFrame, with the commit and place of each row."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructType

    schema = StructType.fromJson(json.loads(table.handle.schema().to_json()))
    by_partition = [name for name in columns if name in table.partition_columns]
    chosen = StructType([schema[name] for name in columns if name not in by_partition])
    for name in more:
        chosen = chosen.add(name, StringType())
    paths = [files.join(table.path, one.file.path) for one in placed]
    rows = spark.read.schema(chosen).parquet(*paths).select("*", "_metadata.file_name", "_metadata.row_index")
    typed = [
        F.col(quoted(name)).cast(schema[name].dataType).alias(name)
        if name in by_partition
        else F.col(quoted(name))
        for name in columns
    ]
    return _with_places(rows, placed, by_partition).select(*typed, *more, COMMIT_VERSION, POSITION)


def _with_places(rows: DataFrame, placed: Sequence[_Placed], by_partition: Sequence[str] = ()) -> DataFrame:
    """Return rows that have file_name and row_index with their commit, place and partition's values."""
    import pyarrow as pa
    from pyspark.sql import functions as F  # noqa: N812

    values = {
        "file_name": pa.array([_name(one.file) for one in placed], pa.string()),
        COMMIT_VERSION: pa.array([one.version for one in placed], pa.int64()),
        "_ls_first": pa.array([one.number << _IN_FILE for one in placed], pa.int64()),
        **{
            name: pa.array([one.file.partition.get(name) for one in placed], pa.string())
            for name in by_partition
        },
    }
    named = arrow_frame(rows.sparkSession, pa.table(values))
    joined = rows.join(F.broadcast(named), "file_name", "left")
    return joined.withColumn(POSITION, F.col("_ls_first") + F.col("row_index"))


def _name(file: WrittenFile) -> str:
    return file.path.rpartition("/")[2]


# --- rows of a table as it is ---


def placed_rows_arrow(
    table: Table | str,
    version: int,
    columns: Sequence[str],
    time: str,
    spans: Sequence[tuple[int, int]],
    most: int | None = None,
) -> pa.Table | None:
    """Return the rows at a version whose ``time`` lies in one of the spans (µs), with commit and place.

    An empty ``time``: all rows. None where the files do not tell (deletion vectors, renamed columns).
    Raises TooManyRowsError where the files that may have some have more than ``most``.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    table = opened(table)
    if is_mapped(table) or "deletionVectors" in table.features:
        return None
    found = [set(data_files(table, version, time, *span)["path"].to_pylist()) for span in spans if time]
    paths, count = {unquote(path) for names in found for path in names}, 0
    asked = list(dict.fromkeys([*columns, *([time] if time else [])]))
    schema = stored_schema(table, stored_columns(table.time, asked))
    parts = [_with_place(schema.empty_table(), 0, 0, "insert")]
    for placed in _files_in_order(table, version):
        if not time or placed.file.path in paths:
            rows, _ = _read(table, placed, schema)
            parts.append(_with_place(rows, placed.version, placed.number, "insert"))
            count += rows.num_rows
            if most is not None and count > most:
                raise TooManyRowsError
    rows = meant_arrow(table, pa.concat_tables(parts), [*asked, COMMIT_VERSION, POSITION])
    if not time:
        return rows.select([*columns, COMMIT_VERSION, POSITION])
    micros = rows[time].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    inside = [pc.and_(pc.greater_equal(micros, low), pc.less(micros, high)) for low, high in spans]
    return rows.filter(reduce(pc.or_, inside)).select([*columns, COMMIT_VERSION, POSITION])


def placed_rows_spark(
    spark: SparkSession,
    table: Table | str,
    version: int,
    columns: Sequence[str],
    time: str,
    span: tuple[int, int],
) -> DataFrame:
    """Return the rows at a version of one span of ``time`` (µs), read by Spark, with commit and place.

    An empty ``time``: all rows.
    """
    table = opened(table)
    asked = [*dict.fromkeys([*columns, *([time] if time else [])])]
    placed, stored = _files_in_order(table, version), stored_columns(table.time, asked)
    if is_mapped(table) or is_elsewhere(table) or "deletionVectors" in table.features or not placed:
        rows = _with_places(_numbered(spark, table, version, stored), placed)
    else:
        rows = _rows_of_files(spark, table, placed, stored, [])
    rows = meant_spark(table, rows, [*asked, COMMIT_VERSION, POSITION])
    at = f"unix_micros(CAST({quoted(time)} AS TIMESTAMP))"
    inside = rows.where(f"{at} >= {span[0]}L AND {at} < {span[1]}L") if time else rows
    return inside.select(*map(quoted, columns), COMMIT_VERSION, POSITION)


def _numbered(spark: SparkSession, table: Table, version: int, columns: Sequence[str]) -> DataFrame:
    """Return all rows as Delta reads them, each with its number in its file: it reads a file in order."""
    rows = spark.read.format("delta").option("versionAsOf", version).load(table.path)
    metadata = ["_metadata.file_name", "_metadata.file_block_start AS _ls_block"]
    read = rows.selectExpr(*map(quoted, columns), *metadata, "monotonically_increasing_id() AS _ls_read")
    number = "row_number() OVER (PARTITION BY file_name ORDER BY _ls_block, _ls_read)"
    return read.selectExpr(*map(quoted, columns), "file_name", f"{number} - 1L AS row_index")


def _files_in_order(table: Table, version: int) -> list[_Placed]:
    """Return the data files at a version in their order, numbered by commit."""
    import pyarrow as pa

    actions = pa.table(table.at(version).get_add_actions(flatten=True))
    partitions = [name for name in actions.column_names if name.startswith("partition.")]
    known = _ranks(table, version)
    written = actions.select(["path", "modification_time", *partitions]).to_pylist()
    files_there = [
        (
            known.get(unquote(row["path"]), (0, -1, row["modification_time"])),
            WrittenFile(
                unquote(row["path"]),
                {name.partition(".")[2]: _text(row[name]) for name in partitions},
                is_change_data=False,
            ),
        )
        for row in written
    ]
    numbers: dict[int, int] = {}
    placed = []
    for rank, file in sorted(files_there, key=lambda one: (one[0], one[1].path)):
        number = numbers[rank[0]] = numbers.get(rank[0], -1) + 1
        placed.append(_Placed(file, rank[0], number))
    return placed


def _text(value: object) -> str | None:
    return None if value is None else str(value)


@dataclass
class _Ranks:
    """The order of a table's files as of a version, as far as its log tells."""

    table_id: str
    version: int
    ranks: dict[str, Rank]


_known: WeakKeyDictionary[Table, _Ranks] = WeakKeyDictionary()


def _ranks(table: Table, version: int) -> dict[str, Rank]:
    """Return what puts the files in order: their commit and number there; each commit is read once."""
    known = _known.get(table)
    if known is None or known.table_id != table.table_id or known.version > version:
        known = _known[table] = _Ranks(table.table_id, _log_begins(table, version) - 1, {})
    for commit in read_commits(table.path, known.version, version):
        _take(known.ranks, commit)
        known.version = commit.version
    return known.ranks


def _take(ranks: dict[str, Rank], commit: CommitInfo) -> None:
    """Let a commit's files take the places of those that it removed, else new ones behind all others."""
    gone = [ranks.pop(path) for path in commit.removed if path in ranks]
    one_for_one = len(commit.removed) == len(commit.files) == 1
    for number, file in enumerate(commit.files):
        own = (commit.version, number)
        if gone:
            ranks[file.path] = min(gone) if one_for_one else (*min(gone), *own)
        elif not commit.removed:
            ranks[file.path] = own
        # What takes the place of files from before the log is one of those.


def _log_begins(table: Table, version: int) -> int:
    """Return the first version whose commit is in the log with all that follow, up to ``version``."""
    low, high = 0, version
    while low < high:
        middle = (low + high) // 2
        if files.exists(table.path, commit_name(middle)):
            high = middle
        else:
            low = middle + 1
    return low
