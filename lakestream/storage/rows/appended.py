"""Rows that commits only added, read by Spark from their data files: three times as fast as the feed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.errors import StreamError
from lakestream.storage.places import files
from lakestream.storage.rows.changes import CHANGE_TYPE, COMMIT_VERSION, changes_spark, checked_commits
from lakestream.storage.rows.reading import opened, rows_of_files
from lakestream.storage.tables.datafiles import has_plain_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lakestream.storage.tables.table import Table


def appended_spark(
    spark: SparkSession, table: Table | str, after: int, upto: int, columns: Sequence[str], *, versions: bool
) -> DataFrame:
    """Return the rows that append-only commits of ``(after, upto]`` added, as ``changes_spark`` does.

    Without ``versions`` all of them are said to be of the commit ``upto``. Raises StreamError as
    ``changes_arrow`` does.
    """
    table = opened(table)
    commits = checked_commits(table, after, upto)
    if versions or not has_plain_files(table) or any(commit.masked for commit in commits):
        return changes_spark(spark, table, after, upto, columns)
    names = [file.path for commit in commits if commit.append_only for file in commit.files]
    for name in names:
        if not files.exists(table.path, name):
            raise StreamError(
                "CHANGES_LOST",
                f"the data file {name} of {table.path} is gone",
                hint="what was missed must be computed anew from the table as it is",
            )
    added = [f"CAST({upto} AS BIGINT) AS {COMMIT_VERSION}", f"'insert' AS {CHANGE_TYPE}"]
    return rows_of_files(spark, table, names, columns).selectExpr("*", *added)
