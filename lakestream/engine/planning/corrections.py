"""Periodic recalculation (TDengine's CONTINUOUS_WINDOW_CLOSE): late changes are corrected at set instants.

Between the instants windows are computed when they close and stay as they are. At an instant the changes
since the one before are looked through for those behind the newest row of their time, and what they
touched is recalculated as RECALCULATE STREAM would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from lakestream.engine.base.instants import latest
from lakestream.storage.delta import changes_spark, read_commits
from lakestream.storage.records.registry import Corrected, Recalculation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from lakestream.engine.streams.stream import Stream
    from lakestream.storage.delta import CommitInfo, Table


def last_due(stream: Stream, created_us: int, now_us: int) -> int | None:
    """Return the last instant (µs) at which changes are corrected; None where none ever is.

    Instants are whole periods after the stream's creation.
    """
    every = stream.emission.recalculate_every
    if every is None:
        return None
    return created_us + (now_us - created_us) // every.micros * every.micros


def next_due(stream: Stream, created_us: int, now_us: int) -> int | None:
    """Return the first instant (µs) after now at which changes are corrected; None where none is."""
    every, last = stream.emission.recalculate_every, last_due(stream, created_us, now_us)
    return None if every is None or last is None else last + every.micros


def correct(
    spark: SparkSession, stream: Stream, source: Table, known: Corrected, due_us: int, upto: int
) -> tuple[Corrected, Recalculation | None]:
    """Look through the changes up to a version; return how far they are corrected, and by which job.

    Raises StreamError when the changes cannot be read.
    """
    commits = read_commits(source.path, known.version, upto)
    late, newest = _late(commits, stream.logged_time, known.newest_us)
    corrected = Corrected(due_us, upto, newest)
    span = _span(spark, stream, source, known.version, upto, late) if late else None
    if span is None:
        return corrected, None
    # Later windows without rows may hold the values of those of the span.
    end = None if stream.calculation.carried else span[1] + 1
    return corrected, Recalculation(str(uuid4()), stream.uuid, span[0], end, False, "Waiting", due_us)


def _late(commits: Iterable[CommitInfo], time: str, newest: int | None) -> tuple[list[int], int | None]:
    """Return the commits with rows that are not newer than all before, and the newest time after them."""
    late = []
    for commit in commits:
        if not commit.data_change:
            continue
        ends = commit.times(time)
        if not commit.append_only or ends is None or newest is None or ends[0] <= newest:
            late.append(commit.version)
        if ends is not None:
            newest = latest(newest, ends[1])
    return late, newest


def _span(
    spark: SparkSession, stream: Stream, source: Table, after: int, upto: int, late: list[int]
) -> tuple[int, int] | None:
    """Return the oldest and the newest time (µs) of a changed row of some commits."""
    time = f"unix_micros({stream.source.time})"
    changed = changes_spark(spark, source, after, upto, [stream.source.info.time_column])
    row = (
        changed.where(f"_commit_version IN ({', '.join(map(str, late))})")
        .selectExpr(f"min({time}) AS low", f"max({time}) AS high")
        .head()
    )
    return None if row is None or row["low"] is None else (row["low"], row["high"])
