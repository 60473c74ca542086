"""Rows of a stream's output that others wrote: the stream answers for its own.

A row that has a place for its window and names none is not a stream's. A table that the user made has no
such place: there the log tells, by the transactions of the commits, who wrote what since the stream was
created; what was there before is the owner's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.errors import LakestreamError
from lakestream.language.quoting import quoted
from lakestream.storage.delta import changes_spark, read_commits, read_spark
from lakestream.storage.sessions.session import checkpointed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from lakestream.output.columns import Provenance
    from lakestream.storage.delta import Table
    from lakestream.storage.records.registry import StreamRecord


def own_rows(found: DataFrame, provenance: Provenance, own: str) -> tuple[DataFrame, int]:
    """Return the rows of an output that name their window and are the stream's, and how many are not.

    ``own`` is SQL of what tells them from rows of other streams, empty where nothing does.
    """
    held = f"{provenance.group} IS NOT NULL"
    if own:
        held += f" AND coalesce({own}, false)"
    others = found.where(f"NOT ({held})").count()
    return (found.where(held) if others else found), others


def without_theirs(
    found: DataFrame, expected: DataFrame, theirs: DataFrame, key: Sequence[str]
) -> tuple[DataFrame, int]:
    """Return the rows of an output without those of others, and how many these are.

    Of a key that is expected every row is the stream's to answer for, whoever wrote it.
    """
    others = (
        theirs.select(found.columns)
        .alias("t")
        .join(
            expected.select(*key).distinct().alias("e"),
            [_column("t", name).eqNullSafe(_column("e", name)) for name in key],
            "left_anti",
        )
    )
    own = found.exceptAll(others)
    return own, found.count() - own.count()


def _column(relation: str, name: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(f"{relation}.{quoted(name)}")


def written_by_others(
    spark: SparkSession, record: StreamRecord, output: Table, version: int, columns: Sequence[str]
) -> DataFrame | None:
    """Return the rows that others wrote into an output of theirs up to a version, gone or not.

    None where nothing tells any more: a version or its changes cannot be read, or the stream was created by
    a lakestream that did not note where it began.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    begun = record.output_version
    if begun is None:
        return None
    try:
        rows = read_spark(spark, output, begun, columns=columns)
        for low, high in _spans(record, output, begun, version):
            changes = changes_spark(spark, output, low, high, columns)
            written = changes.where("_change_type IN ('insert', 'update_postimage')")
            rows = rows.unionAll(written.select(rows.columns))
        return checkpointed(spark, rows)  # read now: files may be gone
    except (LakestreamError, PySparkException, Py4JError):
        return None


def _spans(record: StreamRecord, output: Table, after: int, upto: int) -> list[tuple[int, int]]:
    """Return the ranges of commits ``(low, high]`` that changed rows and are not the stream's."""
    own = f"lakestream:{record.uuid}:"
    spans: list[tuple[int, int]] = []
    for commit in read_commits(output.path, after, upto):
        if not commit.data_change or any(app.startswith(own) for app, _ in commit.transactions):
            continue
        before = commit.version - 1
        low = spans.pop()[0] if spans and spans[-1][1] == before else before
        spans.append((low, commit.version))
    return spans
