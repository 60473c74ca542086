"""Nothing to do: on a large source, and among a thousand streams and queries that wait for the clock."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING
from uuid import uuid4

from deltalake import DeltaTable

from lakestream.engine.base.instants import to_micros
from lakestream.scheduler.watch import watch
from lakestream.storage.places.layout import Layout
from lakestream.storage.records.registry import Registry
from tests.benchmarks import data
from tests.benchmarks.data import SECOND_US
from tests.benchmarks.output import require
from tests.benchmarks.process import CLOCK, cpu_seconds, spent
from tests.benchmarks.scenarios.lakes import open_lake, run_all, source_of, spark_jobs
from tests.benchmarks.scenarios.model import repeated, scaled
from tests.benchmarks.scenarios.ticks import new_rows

if TYPE_CHECKING:
    from pathlib import Path

    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.errors import LakestreamError
    from tests.benchmarks.scenarios.model import Figures

POLLS = 500


def idle_poll(folder: Path, scale: float) -> Figures:
    commits, warm = new_rows(data.large_shape(scale)[0], scale)
    source = DeltaTable(source_of(folder))
    with open_lake(folder) as lake:
        for rows, _ in commits[:warm]:
            data.append(source, rows)
            run_all(lake)
        jobs = spark_jobs(lake)
        reports: list[TickReport] = []
        polls = scaled(POLLS, scale, 20)
        figures = repeated(spent(lambda: reports.extend(lake.tick_once())) for _ in range(polls))
        require(reports, [], "ticks of an idle stream")
        require(spark_jobs(lake), jobs, "Spark jobs after polling an idle stream")
        return figures


SCHEDULED, DUE_TICKS, IDLE_SECONDS = 1_000, 10, 30
DUE_EVERY_US = 4 * SECOND_US
QUERY_PHASE_US = DUE_EVERY_US // 2
"""How much later than the stream the continuous query is due."""


def make_scheduled(folder: Path, scale: float) -> None:
    """Make a lake of streams with PERIOD and continuous queries of which none is due for years."""
    count = scaled(SCHEDULED, scale, 2)
    with open_lake(folder) as lake:
        lake.sql(f"CREATE STREAM wait_0 PERIOD(3650d) INTO target AS {_AT}")
        lake.sql("CREATE DATABASE root.b; CREATE TIMESERIES root.b.d.v WITH DATATYPE=DOUBLE", "iotdb")
        for number in range(count):
            lake.sql(_continuous(f"wait_{number}", "3650d", boundary=4_102_444_800_000 + number), "iotdb")
    registry = Registry(Layout(str(folder / "lake")))
    [first] = registry.streams()
    for number in range(1, count):
        name = f"wait_{number}"
        sql = first.sql.replace("STREAM wait_0", f"STREAM {name}")
        registry.add(replace(first, uuid=uuid4().hex, name=name, sql=sql))


_AT = "SELECT CAST(_tlocaltime / 1000000 AS TIMESTAMP) AS at, 1 AS n"


def _continuous(name: str, every: str, boundary: int = 0) -> str:
    return (
        f"CREATE CQ {name} RESAMPLE EVERY {every} BOUNDARY {boundary} BEGIN "
        f"SELECT count(v) INTO root.b.o({name}) FROM root.b.d GROUP BY({every}) END"
    )


class _Watched:
    """Hears what a watch does, and ends it."""

    def started(self) -> None: ...

    def began(self) -> None: ...

    def ended(self) -> None: ...

    def ticked(self, report: TickReport) -> None:
        require(report.error, None, f"error of {report.stream}")

    def failed(self, error: LakestreamError) -> None:
        raise error

    def stopping(self) -> None: ...

    def end(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


class _Dues(_Watched):
    """Takes the seconds from each due instant to the start of its execution."""

    def __init__(self, count: int) -> None:
        self.seconds: list[float] = []
        self._left = count

    def ticked(self, report: TickReport) -> None:
        super().ticked(report)
        started_us = to_micros(CLOCK.now()) - round(report.seconds * SECOND_US)
        phase_us = QUERY_PHASE_US if report.kind == "cq" else 0
        self.seconds.append((started_us - phase_us) % DUE_EVERY_US / SECOND_US)
        self._left -= 1
        if not self._left:
            self.end()


def due_instant(folder: Path, scale: float) -> Figures:
    """Have one stream and one query among them all due every few seconds; from due to begun."""
    warm, count = scaled(DUE_TICKS, scale, 2), scaled(DUE_TICKS, scale, 2)
    every = f"{DUE_EVERY_US // SECOND_US}s"
    with open_lake(folder) as lake:
        lake.sql(f"CREATE STREAM due PERIOD({every}) INTO due_output AS {_AT}")
        lake.sql(_continuous("due", every, boundary=QUERY_PHASE_US // 1_000), "iotdb")
        dues = _Dues(2 * (warm + count))
        watch(lake, dues, poll_seconds=lake.settings.poll_seconds)
    return {"seconds": dues.seconds[2 * warm :]}


class _Idle(_Watched):
    """Takes the processor time of a while in which nothing is due."""

    def __init__(self, seconds: float) -> None:
        self.share = 0.0
        self._seconds = seconds
        self._measuring = Thread(target=self._measure)

    def started(self) -> None:
        self._measuring.start()

    def _measure(self) -> None:
        CLOCK.sleep(self._seconds)  # the first round reads all definitions
        before, since = cpu_seconds(os.getpid()), CLOCK.monotonic()
        CLOCK.sleep(self._seconds)
        self.share = (cpu_seconds(os.getpid()) - before) / (CLOCK.monotonic() - since)
        self.end()


def idle_scheduler(folder: Path, scale: float) -> Figures:
    """Watch while nothing is due, Spark being there; seconds of a processor a second."""
    idle = _Idle(max(5.0, IDLE_SECONDS * scale))
    with open_lake(folder) as lake:
        spark_jobs(lake)
        watch(lake, idle, poll_seconds=lake.settings.poll_seconds)
    return {"seconds": [idle.share]}
