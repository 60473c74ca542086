"""What the outbox says of windows in the end: the last of several closings, without what was taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakestream.notify.events import WINDOW_INVALIDATION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENT_TYPES = {"window_start": "timestamp", "trigger_id": "string", "event_type": "string", "event": "string"}
"""The columns of an event that are compared; the time that it was emitted at is none of it."""
EVENT_KEY = ("window_start", "trigger_id", "event_type")


def standing_events(events: DataFrame, stream_id: str) -> DataFrame:
    """Return the events of a stream that stand: which ones came before them depends on the ticks.

    Of each kind of event of a window the last one stands (with its twin, if it is there twice), and none of
    a window that was invalidated after it.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    number = F.substring_index("tick", ":", -1).cast("bigint")
    emitted = events.where(F.col("stream_id") == stream_id).withColumn(
        "_ls_place", F.struct("event_time", number.alias("number"), "seq")
    )
    of_window = Window.partitionBy("trigger_id")
    retracted = F.max(F.when(F.col("event_type") == WINDOW_INVALIDATION, F.col("_ls_place"))).over(of_window)
    last = F.max("_ls_place").over(Window.partitionBy("trigger_id", "event_type"))
    closed = F.max(F.when(F.col("event_type") != WINDOW_INVALIDATION, F.col("_ls_place"))).over(of_window)
    stands = emitted.select(
        "*", retracted.alias("_ls_retracted"), last.alias("_ls_last"), closed.alias("_ls_closed")
    )
    stands = stands.where(
        (F.col("event_type") != WINDOW_INVALIDATION)
        & (F.col("_ls_place") == F.col("_ls_last"))
        & (F.col("_ls_retracted").isNull() | (F.col("_ls_closed") > F.col("_ls_retracted")))
    )
    untimed = F.regexp_replace("event", '"eventTime":[0-9]+,', "")
    return stands.withColumn("event", untimed).select(*EVENT_TYPES, "window_end")
