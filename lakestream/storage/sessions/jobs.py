"""Whose jobs Spark runs: threads of ticks have a pool each, those of statements beside them a tag too."""

from __future__ import annotations

import sys
from contextlib import suppress
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lakestream.storage.sessions.session import (
    check_reach,
    end_session,
    fit_cluster,
    is_remote,
    statement_session,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from lakestream.clock import Clock
    from lakestream.storage.places.layout import Layout

_STATEMENTS, _TICKS = "statements:", "ticks:"
_POOL = "spark.scheduler.pool"
_lanes = count(1)
_FOR_TICKS_SECONDS, _FOR_STATEMENTS_SECONDS = 1, 10
"""How long a statement's task runs before it is ended for a tick, and for another statement at first."""


class OwnSession:
    """The session of a thread that runs ticks beside others, made on its first need; its jobs have a pool.

    On a cluster it follows the number of executors, which are asked first whether they find the lake.
    """

    def __init__(self, shared: Callable[[], SparkSession], layout: Layout) -> None:
        self._shared, self._layout = shared, layout
        self._tag = f"lakestream-{uuid4()}"
        self._session: SparkSession | None = None
        self._of: SparkSession | None = None

    def get(self) -> SparkSession:
        """Return the session; raises LakeError LAKE_NOT_SHARED."""
        shared = self._shared()
        if self._session is None or self._of is not shared:
            check_reach(shared, self._layout)
            self._session, self._of = statement_session(shared, self._layout.handed), shared
            _tag_thread(self._session, self._tag, f"{_TICKS}{next(_lanes)}")
        fit_cluster(self._session)
        return self._session

    def interrupt(self) -> None:
        """Have the jobs fail that the thread waits for; called in another one."""
        if (session := self._session) is not None:
            cancel_jobs(session, self._tag)

    def close(self) -> None:
        """Give the session back."""
        if self._session is not None:
            end_session(self._session)
            self._session = None


def mark_thread(spark: SparkSession, tag: str) -> None:
    """Have the jobs that this thread begins from now on be those of statements, with a tag.

    A server of Spark Connect gives its slots as it is set to.
    """
    _tag_thread(spark, tag, _STATEMENTS + tag)


def _tag_thread(spark: SparkSession, tag: str, pool: str) -> None:
    if is_remote(spark):
        spark.addTag(tag)
        return
    context = spark.sparkContext
    context.setLocalProperty(_POOL, pool)
    context.setInterruptOnCancel(True)
    context.addJobTag(tag)


def cancel_jobs(spark: SparkSession, tag: str) -> None:
    """Have the running jobs of a tag fail; what their thread begins afterwards is not stopped."""
    from py4j.protocol import Py4JError

    if is_remote(spark):
        spark.interruptTag(tag)
        return
    with suppress(Py4JError, OSError, AttributeError):  # Spark has ended, and its jobs with it
        spark.sparkContext.cancelJobsWithTag(tag)


def hand_over_slots(clock: Clock) -> int:
    """End tasks of statements where a tick, or another statement, has no slot; return how many.

    Spark begins them anew once there are free slots. What has just begun, by the clock, goes on; what was
    ended for statements goes on for twice as long the next time. Nothing is done where no Spark runs.
    """
    if "pyspark" not in sys.modules:
        return 0
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    context = SparkContext._active_spark_context  # noqa: SLF001 - nothing public tells whether there is one
    if context is None or getattr(context, "_jsc", None) is None:  # which it has not while it starts
        return 0
    try:
        return _handed_over(context, clock)
    except (Py4JError, OSError):
        return 0  # Spark has ended, which is for the rounds to say


def _handed_over(context: SparkContext, clock: Clock) -> int:
    now, stages = clock.now().timestamp(), [*_each(_scala(context).statusStore().activeStages())]
    waiting = {str(stage.schedulingPool()) for stage in stages if _waits(stage)}
    return sum(
        _end(context, task)
        for stage in stages
        if _is_statement(stage.schedulingPool())
        for task in _running(context, stage)
        if now - task.launchTime().getTime() / 1000 > _patience(task, waiting - {stage.schedulingPool()})
    )


def _is_statement(pool: str) -> bool:
    return pool.startswith(_STATEMENTS)


def _waits(stage: Any) -> bool:  # noqa: ANN401 - Spark's StageData
    return bool(stage.numActiveTasks() == 0 and stage.numCompleteTasks() < stage.numTasks())


def _patience(task: Any, waiting: set[str]) -> float:  # noqa: ANN401 - Spark's TaskData
    """Return for how many seconds a task may run while some pools wait for a slot."""
    if not all(map(_is_statement, waiting)):
        return _FOR_TICKS_SECONDS
    return float(_FOR_STATEMENTS_SECONDS * 2 ** task.attempt()) if waiting else inf


def _running(context: SparkContext, stage: Any) -> Iterator[Any]:  # noqa: ANN401 - Spark's StageData
    tasks = _scala(context).statusStore().taskList(stage.stageId(), stage.attemptId(), stage.numTasks())
    return (task for task in _each(tasks) if task.status() == "RUNNING")


def _end(context: SparkContext, task: Any) -> bool:  # noqa: ANN401 - Spark's TaskData
    return bool(_scala(context).killTaskAttempt(task.taskId(), True, "another query has no slot"))


def _scala(context: SparkContext) -> Any:  # noqa: ANN401 - Spark's SparkContext
    return context._jsc.sc()  # noqa: SLF001 - Python's knows no tasks


def _each(sequence: Any) -> Iterator[Any]:  # noqa: ANN401 - Scala's Seq
    for at in range(sequence.size()):
        yield sequence.apply(at)
