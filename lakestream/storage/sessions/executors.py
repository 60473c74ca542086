"""The executors of a cluster: a query that none comes for fails by a name, instead of waiting for ever."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lakestream.clock import SystemClock
from lakestream.errors import BusyError
from lakestream.storage.sessions.cluster import Executor, is_standalone, room_said, workers_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_SAID = re.compile(r"\(no executors: (.*?) ;\)", re.DOTALL)
"""What is said of a job that is ended, by which its error is known."""
_LOOK_SECONDS = 0.5
_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class _Watched:
    """How a Spark of a cluster was started, and how many seconds its executors are waited for."""

    conf: Mapping[str, str]
    seconds: float

    @property
    def asks_on_demand(self) -> bool:
        """Whether Spark asks for executors when it has work (dynamic allocation)."""
        return self.conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true"

    def reason(self) -> str:
        """Say that no executor came, what was asked for, and what there is."""
        master = self.conf["spark.master"]
        room = f"; {room_said(workers_of(master, self.conf))}" if is_standalone(master) else ""
        needed = Executor.of(self.conf)
        return f"no executor came from {master} within {self.seconds:g} s: each needs {needed}{room}"


_WATCHED: WeakKeyDictionary[SparkContext, _Watched] = WeakKeyDictionary()
"""The Spark of a cluster that lakestream has started."""


def watch_executors(spark: SparkSession, conf: Mapping[str, str], wait_seconds: float) -> None:
    """From now on have queries of a cluster's Spark fail that have had no executor for so long.

    ``conf`` is what it was started with.
    """
    context, watched = spark.sparkContext, _Watched(conf, wait_seconds)
    _WATCHED[context] = watched
    threading.Thread(target=_watch, args=(context, watched), name="lakestream-executors", daemon=True).start()


def runs_elsewhere(spark: SparkSession) -> bool:
    """Return whether a session is of a Spark that lakestream has started on a cluster."""
    return spark.sparkContext in _WATCHED


def await_executors(spark: SparkSession) -> None:
    """Wait for the first executor of a cluster; raises BusyError NO_EXECUTORS when none comes in time.

    Where Spark asks for executors on demand there may rightly be none yet.
    """
    context = spark.sparkContext
    watched = _WATCHED.get(context)
    if watched is None or watched.asks_on_demand:
        return
    clock = SystemClock()
    end = clock.monotonic() + watched.seconds
    while not _executors(context):
        if clock.monotonic() >= end:
            raise _no_executors(watched.reason())
        clock.sleep(_LOOK_SECONDS)


def fit_partitions(spark: SparkSession) -> None:
    """Have the shuffles of a session be of twice as many parts as the cluster has cores now, unless set.

    What is kept for several queries keeps its parts, however little it is: a fixed number of them, enough for
    any cluster, would be tasks of milliseconds. Where Spark asks for executors on demand nobody knows.
    """
    context = spark.sparkContext
    watched = _WATCHED.get(context)
    if watched is not None and _PARTITIONS not in watched.conf and not watched.asks_on_demand:
        spark.conf.set(_PARTITIONS, str(2 * context.defaultParallelism))


def lonely(error: BaseException) -> BusyError | None:
    """Return BusyError NO_EXECUTORS for an error by which a query was ended that no executor came for."""
    said = _SAID.search(f"{error} {error.__cause__}")
    return None if said is None else _no_executors(said.group(1))


def _no_executors(reason: str) -> BusyError:
    return BusyError(
        "NO_EXECUTORS",
        reason,
        hint="make room, or ask for less by spark.executor.memory and spark.executor.cores in spark_conf; "
        "executor_wait_seconds is how long they are waited for",
    )


def _watch(context: SparkContext, watched: _Watched) -> None:
    """End the jobs of a Spark that has had no executor for so long, until it is stopped."""
    from py4j.protocol import Py4JError

    clock = SystemClock()
    since = clock.monotonic()
    while context._jsc is not None:  # noqa: SLF001 - nothing public tells
        clock.sleep(_LOOK_SECONDS)
        try:
            jobs = [*_scala(context).statusTracker().getActiveJobIds()]
            if _executors(context) or (watched.asks_on_demand and not jobs):
                since = clock.monotonic()
            elif jobs and clock.monotonic() - since >= watched.seconds:
                reason = f"(no executors: {watched.reason()} ;)"
                for job in jobs:
                    _scala(context).cancelJob(job, reason)
        except (Py4JError, OSError, AttributeError):
            continue  # Spark is ending: the loop's condition says when


def _executors(context: SparkContext) -> int:
    """Return how many executors there are; the driver is in the list too."""
    return len([*_scala(context).statusTracker().getExecutorInfos()]) - 1


def _scala(context: SparkContext) -> Any:  # noqa: ANN401 - Spark's SparkContext
    return context._jsc.sc()  # noqa: SLF001 - Python's knows no executors
