"""What is measured, by which systems: each entry runs once in a folder and returns figures by metric.

Whatever a system computed is held against what it had to compute before its figures count.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from threading import Thread
from typing import TYPE_CHECKING
from uuid import uuid4

from deltalake import DeltaTable

from lakestream.engine.base.instants import to_micros
from lakestream.storage.places.layout import Layout
from lakestream.storage.records.registry import Registry
from scheduler.watch import watch
from tests.benchmarks import data, streaming
from tests.benchmarks.data import SECOND_US, START_US
from tests.benchmarks.notifying import Hearing, Notified
from tests.benchmarks.output import Output, counted, require
from tests.benchmarks.process import CLOCK, Program, cpu_seconds, peak_mib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from lakestream import Lake
    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.errors import LakestreamError

    Figures = dict[str, list[float]]
    Run = Callable[[Path, float], Figures]

WARM_ROUNDS = 5
"""Catch-ups of the measured size before the one that is measured: compilers are done by then."""

WARM_BURSTS = 4
"""Bursts before the one that is measured."""


@dataclass(frozen=True)
class Scenario:
    """Systems that do the same work; ``start`` names the preparation that their folder is a copy of."""

    systems: Mapping[str, Run]
    start: str | None = None


@dataclass(frozen=True)
class Preparation:
    """A folder that several runs start from, made from that of another preparation or from nothing."""

    make: Callable[[Path, float], None]
    start: str | None = None


@dataclass(frozen=True)
class Window:
    """Windows of a length, one every step, in seconds."""

    length: int
    step: int

    def clause(self) -> str:
        """Return the trigger of a stream."""
        return f"INTERVAL({self.length}s) SLIDING({self.step}s)"

    def durations(self) -> tuple[str, ...]:
        """Return the arguments of Spark's ``window``."""
        return tuple(f"{part} seconds" for part in dict.fromkeys((self.length, self.step)))

    def closed(self, first: int, newest: int) -> int:
        """Return how many windows have closed when the rows' seconds go from ``first`` to ``newest``."""
        earliest = (first - self.length) // self.step + 1
        return (newest - self.length) // self.step - earliest + 1


TUMBLING, HOPPING = Window(10, 10), Window(60, 5)


@dataclass(frozen=True)
class Cut:
    """Windows cut by rows, each of a run of them; one closes with its last row or with the next run."""

    clause: str
    by_itself: bool

    def closed(self, runs: int) -> int:
        """Return how many windows of a device have closed after some runs."""
        return runs if self.by_itself else runs - 1


GAP_SECONDS = 30
CUTS = {
    "session": Cut(f"SESSION(ts, {GAP_SECONDS}s)", by_itself=False),
    "state": Cut("STATE_WINDOW(state)", by_itself=False),
    "event": Cut("EVENT_WINDOW(START WITH phase = 0 END WITH phase = 9)", by_itself=True),
    "count": Cut(f"COUNT_WINDOW({data.RUN_ROWS})", by_itself=True),
}


# --- lakestream ----------------------------------------------------------------------------------


def _source(folder: Path) -> Path:
    return folder / "lake" / "main" / "source"


def _target(folder: Path) -> Path:
    return folder / "lake" / "main" / "target"


def _open(folder: Path) -> Lake:
    from lakestream import Lake

    return Lake(folder / "lake")


def _new_source(folder: Path) -> Path:
    """Make a lake with an empty source; needs no Spark."""
    with _open(folder) as lake:
        lake.sql("CREATE STABLE source (ts TIMESTAMP, v DOUBLE) TAGS (g INT)")
    return _source(folder)


def _new_runs(folder: Path) -> Path:
    """Make a lake with an empty source for rows in runs."""
    with _open(folder) as lake:
        lake.sql("CREATE STABLE source (ts TIMESTAMP, v DOUBLE, state INT, phase INT) TAGS (g INT)")
    return _source(folder)


def _stream(
    clause: str,
    *,
    name: str = "s",
    output: str = "target",
    options: str = "",
    notified: str = "",
    mean: str = "avg(v)",
) -> str:
    return (
        f"CREATE STREAM {name} {clause} FROM source PARTITION BY tbname {options} {notified} INTO {output} "
        f"AS SELECT _twstart AS start, {mean} AS mean, max(v) AS top, count(*) AS n FROM %%trows"
    )


def _run(lake: Lake) -> float:
    """Run the streams until nothing is left to do and return the seconds that it took."""
    started = CLOCK.monotonic()
    failed = lake.run().failed
    seconds = CLOCK.monotonic() - started
    require([tick.error for tick in failed], [], "ticks that failed")
    return seconds


def _command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "lakestream", "--lake", str(folder / "lake"), *arguments]


def _called(folder: Path, *arguments: str) -> float:
    """Run the command line in a process of its own and return the seconds that it took."""
    started = CLOCK.monotonic()
    subprocess.run(_command(folder, *arguments), check=True, stdout=subprocess.DEVNULL)
    return CLOCK.monotonic() - started


def _watch(folder: Path) -> Program:
    return Program(_command(folder, "run", "--watch"), folder / "watch.log")


# --- catching up with what is there --------------------------------------------------------------

CATCH_UP_DEVICES, CATCH_UP_COMMITS, COMMIT_ROWS = 1_000, 20, 250_000


def _commit_rows(scale: float, whole: int) -> int:
    return max(whole, round(COMMIT_ROWS * scale) // whole * whole)


def _processed(count: int, seconds: float) -> Figures:
    return {
        "seconds": [seconds],
        "rows_per_second": [count / seconds],
        "peak_mib": [peak_mib(os.getpid())],
    }


@dataclass(frozen=True)
class _CatchUp:
    """Rows that arrive while nothing runs, in rounds: those of the warm-up, then those that are measured."""

    source: Path
    size: int
    writer: Callable[..., None] = data.write_rows

    @property
    def rows(self) -> int:
        return self.size * CATCH_UP_COMMITS

    @property
    def runs(self) -> int:
        """Runs of each device in all."""
        return self.rows * (WARM_ROUNDS + 1) // CATCH_UP_DEVICES // data.RUN_ROWS

    @property
    def warm_seconds(self) -> int:
        """Seconds of event time in the warm-up."""
        return self.rows * WARM_ROUNDS // CATCH_UP_DEVICES

    @property
    def seconds(self) -> int:
        """Seconds of event time in all."""
        return self.warm_seconds + self.rows // CATCH_UP_DEVICES

    def measured(self, process: Callable[[], float]) -> float:
        """Write and process round after round and return the seconds of the last one."""
        seconds = 0.0
        for number in range(WARM_ROUNDS + 1):
            self.write(number)
            seconds = process()
        return seconds

    def write(self, number: int) -> None:
        """Write the rows of a round."""
        self._write(self.rows * number, CATCH_UP_COMMITS)

    def _write(self, first: int, commits: int) -> None:
        data.write_apart(
            self.writer,
            path=str(self.source),
            first=first,
            sizes=[self.size] * commits,
            devices=CATCH_UP_DEVICES,
        )

    def check_runs(self, closed: int, target: Path) -> None:
        found, rows = counted(target, START_US, data.run_us(self.runs))
        windows = closed * CATCH_UP_DEVICES
        require((found, rows), (windows, windows * data.RUN_ROWS), "windows in the output and their rows")

    def check(self, window: Window, target: Path) -> None:
        windows = window.closed(0, self.seconds - 1) * CATCH_UP_DEVICES
        found, _ = counted(target, START_US - window.length * SECOND_US, START_US + self.seconds * SECOND_US)
        require(found, windows, "windows in the output")


def _catch_up_lakestream(window: Window) -> Run:
    def run(folder: Path, scale: float) -> Figures:
        arriving = _CatchUp(_new_source(folder), _commit_rows(scale, CATCH_UP_DEVICES))
        with _open(folder) as lake:
            lake.sql(_stream(window.clause()))
            figures = _processed(arriving.rows, arriving.measured(lambda: _run(lake)))
        arriving.check(window, _target(folder))
        return figures

    return run


def _catch_up_cut(cut: Cut) -> Run:
    def run(folder: Path, scale: float) -> Figures:
        size = _commit_rows(scale, CATCH_UP_DEVICES * data.RUN_ROWS)
        arriving = _CatchUp(_new_runs(folder), size, data.write_runs)
        with _open(folder) as lake:
            lake.sql(_stream(cut.clause))
            figures = _processed(arriving.rows, arriving.measured(lambda: _run(lake)))
        arriving.check_runs(cut.closed(arriving.runs), _target(folder))
        return figures

    return run


def _catch_up_sessions_streaming(folder: Path, scale: float) -> Figures:
    size = _commit_rows(scale, CATCH_UP_DEVICES * data.RUN_ROWS)
    arriving = _CatchUp(_new_runs(folder), size, data.write_runs)
    spark = streaming.session()

    def process() -> float:
        started = CLOCK.monotonic()
        what_is_there, gap = {"availableNow": True}, (f"{GAP_SECONDS} seconds",)
        query = streaming.start_query(spark, arriving.source, folder, gap, what_is_there, sessions=True)
        query.awaitTermination()
        return CLOCK.monotonic() - started

    figures = _processed(arriving.rows, arriving.measured(process))
    arriving.check_runs(arriving.runs - 1, folder / "target")
    return figures


def _catch_up_streaming(window: Window) -> Run:
    def run(folder: Path, scale: float) -> Figures:
        arriving = _CatchUp(_new_source(folder), _commit_rows(scale, CATCH_UP_DEVICES))
        spark = streaming.session()

        def process() -> float:
            started = CLOCK.monotonic()
            what_is_there = {"availableNow": True}
            query = streaming.start_query(spark, arriving.source, folder, window.durations(), what_is_there)
            query.awaitTermination()
            return CLOCK.monotonic() - started

        figures = _processed(arriving.rows, arriving.measured(process))
        arriving.check(window, folder / "target")
        return figures

    return run


def _catch_up_duckdb(window: Window) -> Run:
    """One query over the same files, its result written as a Parquet file: no stream, but the floor."""

    def run(folder: Path, scale: float) -> Figures:
        arriving = _CatchUp(_new_source(folder), _commit_rows(scale, CATCH_UP_DEVICES))
        for number in range(WARM_ROUNDS):
            arriving.write(number)
        warm = DeltaTable(arriving.source).file_uris()
        _batch(window, warm, folder / "warm.parquet")
        arriving.write(WARM_ROUNDS)
        measured = [file for file in DeltaTable(arriving.source).file_uris() if file not in warm]
        started = CLOCK.monotonic()
        written = _batch(window, measured, folder / "target.parquet")
        figures = _processed(arriving.rows, CLOCK.monotonic() - started)
        closed = window.closed(arriving.warm_seconds, arriving.seconds - 1)
        require(written, closed * CATCH_UP_DEVICES, "windows in the output")
        return figures

    return run


def _batch(window: Window, files: Sequence[str], target: Path) -> int:
    """Write the closed windows of the files' rows and return how many there are."""
    import duckdb

    duckdb.execute("SET threads = 2")
    duckdb.execute("SET TimeZone = 'UTC'")
    written = duckdb.execute(
        "COPY (SELECT make_timestamptz(start) AS start, tbname, mean, top, n FROM ("
        "  SELECT (epoch_us(ts) // $step - pane) * $step AS start, tbname, avg(v) AS mean, max(v) AS top,"
        "    count(*) AS n FROM read_parquet($files), range($panes) panes(pane) GROUP BY ALL)"
        " WHERE start + $length <= (SELECT epoch_us(max(ts)) FROM read_parquet($files))"
        f") TO '{target}' (FORMAT parquet)",
        {
            "step": window.step * SECOND_US,
            "length": window.length * SECOND_US,
            "panes": window.length // window.step,
            "files": list(files),
        },
    ).fetchone()
    return int(written[0]) if written else 0


# --- one small commit after another --------------------------------------------------------------

BASE_ROWS, TICK_ROWS = 100_000, 1_000
TICKS, WARM_TICKS = 30, 20
STREAMING_SHARE = 0.2
"""Of the ticks: Structured Streaming takes seconds for each."""
PAUSE_SECONDS = 0.3
"""Between two ticks: what a system still does after its rows are there is not part of the next one."""


def _scaled(count: int, scale: float, least: int) -> int:
    return max(least, round(count * scale))


def _ticks(
    program: Program, source: Path, output: Output, commits: Iterable[tuple[pa.Table, int]], warm: int
) -> Figures:
    """Measure from a commit being visible to the rows of the window that it closes or changes."""
    table, figures = DeltaTable(source), []
    for rows, start_us in commits:
        CLOCK.sleep(PAUSE_SECONDS)
        output.skip()
        data.append(table, rows)
        started = CLOCK.monotonic()
        output.wait_for(start_us, program)
        figures.append(CLOCK.monotonic() - started)
    return {"seconds": figures[warm:], "peak_mib": [program.peak_mib()]}


def _last_closed(rows: int) -> int:
    """Return the start of the newest window that the first rows of a hundred devices close."""
    newest = rows // data.LARGE_DEVICES - 1
    return START_US + (newest // TUMBLING.length - 1) * TUMBLING.length * SECOND_US


def _new_rows(rows_before: int, scale: float) -> tuple[list[tuple[pa.Table, int]], int]:
    """Return commits of a window each, with the window that each of them closes; how many are warm-up."""
    warm = _scaled(WARM_TICKS, scale, 2)
    commits = []
    for number in range(warm + _scaled(TICKS, scale, 3)):
        first = rows_before + number * TICK_ROWS
        rows = data.rows(first, TICK_ROWS, data.LARGE_DEVICES)
        commits.append((rows, _last_closed(first + TICK_ROWS)))
    return commits, warm


def _check_ticks(target: Path, commits: Sequence[tuple[pa.Table, int]]) -> None:
    """The first window may have begun before the query."""
    closed = [start for _, start in commits][1:]
    expected = (len(closed) * data.LARGE_DEVICES, len(closed) * TICK_ROWS)
    require(counted(target, closed[0], closed[-1] + 1), expected, "windows and rows of the ticks")


def _base(folder: Path, scale: float) -> int:
    """Write the rows that are there before the first tick and return their number."""
    count = _scaled(BASE_ROWS // TICK_ROWS, scale, 3) * TICK_ROWS
    path = str(_source(folder))
    data.write_apart(data.write_rows, path=path, first=0, sizes=[count], devices=data.LARGE_DEVICES)
    return count


def _small_tick_lakestream(folder: Path, scale: float) -> Figures:
    source = _new_source(folder)
    _called(folder, "sql", _stream(TUMBLING.clause()))
    before = _base(folder, scale)
    commits, warm = _new_rows(before, scale)
    output = Output(_target(folder))
    with _watch(folder) as program:
        output.wait_for(_last_closed(before), program)
        figures = _ticks(program, source, output, commits, warm)
    _check_ticks(_target(folder), commits)
    return figures


def _small_tick_cut(cut: Cut) -> Run:
    """Each commit brings a run of every device, which closes a window of each."""

    def run(folder: Path, scale: float) -> Figures:
        source = _new_runs(folder)
        _called(folder, "sql", _stream(cut.clause))
        before = _scaled(BASE_ROWS // TICK_ROWS, scale, 3)
        path, devices = str(source), data.LARGE_DEVICES
        data.write_apart(data.write_runs, path=path, first=0, sizes=[before * TICK_ROWS], devices=devices)
        warm = _scaled(WARM_TICKS, scale, 2)
        last = [before + n for n in range(warm + _scaled(TICKS, scale, 3))]
        commits = [
            (data.runs(n * TICK_ROWS, TICK_ROWS, devices), data.run_us(cut.closed(n + 1) - 1)) for n in last
        ]
        output = Output(_target(folder))
        with _watch(folder) as program:
            output.wait_for(data.run_us(cut.closed(before) - 1), program)
            return _ticks(program, source, output, commits, warm)

    return run


def _small_tick_streaming(folder: Path, scale: float) -> Figures:
    source = _new_source(folder)
    before = _base(folder, scale)
    commits, warm = _new_rows(before, scale * STREAMING_SHARE)
    output = Output(folder / "target")
    with _query(folder) as program:
        output.wait_for(_last_closed(before), program)
        figures = _ticks(program, source, output, commits, warm)
    _check_ticks(folder / "target", commits)
    return figures


def _query(folder: Path, *version: str) -> Program:
    """Run the streaming query as a program of its own, as it would be deployed."""
    module = [sys.executable, "-m", "tests.benchmarks.streaming"]
    return Program([*module, str(_source(folder)), str(folder), *version], folder / "query.log")


def _large_source_lakestream(folder: Path, scale: float) -> Figures:
    commits, warm = _new_rows(data.large_shape(scale)[0], scale)
    with _watch(folder) as program:
        figures = _ticks(program, _source(folder), Output(_target(folder)), commits, warm)
    _check_ticks(_target(folder), commits)
    return figures


def _large_source_streaming(folder: Path, scale: float) -> Figures:
    """The query starts with the newest commit: it does not have to take the ten million rows first."""
    commits, warm = _new_rows(data.large_shape(scale)[0], scale * STREAMING_SHARE)
    newest = DeltaTable(_source(folder)).version()
    with _query(folder, str(newest)) as program:
        figures = _ticks(program, _source(folder), Output(folder / "target"), commits, warm)
    _check_ticks(folder / "target", commits)
    return figures


def _late_row(folder: Path, scale: float) -> Figures:
    """Each tick brings a row of another device for its first window."""
    warm = _scaled(WARM_TICKS, scale, 2)
    late = warm + _scaled(TICKS, scale, 3)
    commits = [(data.burst(START_US, 0, number, 1), START_US) for number in range(late)]
    with _watch(folder) as program:
        figures = _ticks(program, _source(folder), Output(_target(folder)), commits, warm)
    windows = data.LARGE_DEVICES
    expected = (windows, windows * TUMBLING.length + late)
    require(counted(_target(folder), START_US, START_US + 1), expected, "the oldest windows and their rows")
    return figures


# --- a burst of late rows, and the same rows as new ones -----------------------------------------

BURST_COMMITS, BURST_WINDOWS = 4, 10


@dataclass(frozen=True)
class _Burst:
    """Rows that fill ten windows of each of a hundred devices evenly."""

    path: Path
    size: int

    @property
    def rows(self) -> int:
        return self.size * BURST_COMMITS

    @property
    def span_us(self) -> int:
        """Event time of the rows that are measured."""
        return BURST_WINDOWS * TUMBLING.length * SECOND_US

    def write(self, start_us: int, commits: int, closed_us: int = 0) -> None:
        """Write rows from an instant on; with ``closed_us``, a row of every device then."""
        data.write_apart(
            data.write_burst,
            path=str(self.path),
            start_us=start_us,
            step_us=self.span_us // (self.rows // data.LARGE_DEVICES),
            first=0,
            sizes=[self.size] * commits,
            closed_us=closed_us,
        )

    def check(self, target: Path, start_us: int, rows_before: int) -> None:
        expected = (data.LARGE_DEVICES * BURST_WINDOWS, rows_before + self.rows)
        require(counted(target, start_us, start_us + self.span_us), expected, "windows and rows of the burst")


def _burst(folder: Path, scale: float) -> _Burst:
    return _Burst(_source(folder), _commit_rows(scale, data.LARGE_DEVICES))


def _late_burst(folder: Path, scale: float) -> Figures:
    """The warm-up are bursts into the windows behind the oldest ones."""
    burst = _burst(folder, scale)
    with _open(folder) as lake:
        for number in range(WARM_BURSTS, -1, -1):
            burst.write(START_US + number * burst.span_us, BURST_COMMITS)
            seconds = _run(lake)
        figures = _processed(burst.rows, seconds)
    burst.check(_target(folder), START_US, data.LARGE_DEVICES * burst.span_us // SECOND_US)
    return figures


def _same_rows(folder: Path, scale: float) -> Figures:
    """The burst's rows behind the newest ones; a row of every device closes the last window."""
    burst = _burst(folder, scale)
    start_us = START_US + data.large_shape(scale)[0] // data.LARGE_DEVICES * SECOND_US
    with _open(folder) as lake:
        for number in range(WARM_BURSTS + 1):
            start_us += (burst.span_us + TUMBLING.length * SECOND_US) if number else 0
            burst.write(start_us, BURST_COMMITS, start_us + burst.span_us)
            seconds = _run(lake)
        figures = _processed(burst.rows, seconds)
    burst.check(_target(folder), start_us, 0)
    return figures


# --- nothing to do -------------------------------------------------------------------------------

POLLS = 500


def _idle_poll(folder: Path, scale: float) -> Figures:
    commits, warm = _new_rows(data.large_shape(scale)[0], scale)
    source = DeltaTable(_source(folder))
    with _open(folder) as lake:
        for rows, _ in commits[:warm]:
            data.append(source, rows)
            _run(lake)
        jobs = _spark_jobs(lake)
        figures = []
        for _ in range(_scaled(POLLS, scale, 20)):
            started = CLOCK.monotonic()
            reports = lake.tick_once()
            figures.append(CLOCK.monotonic() - started)
            require(reports, [], "ticks of an idle stream")
        require(_spark_jobs(lake), jobs, "Spark jobs after polling an idle stream")
        return {"seconds": figures, "peak_mib": [peak_mib(os.getpid())]}


def _spark_jobs(lake: Lake) -> int:
    """Return how many jobs Spark has run so far."""
    return int(lake.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


# --- a thousand streams and a thousand continuous queries that wait for the clock -----------------

SCHEDULED, DUE_TICKS, IDLE_SECONDS = 1_000, 10, 30
DUE_EVERY_US = 4 * SECOND_US
QUERY_PHASE_US = DUE_EVERY_US // 2
"""How much later than the stream the continuous query is due."""


def _make_scheduled(folder: Path, scale: float) -> None:
    """Make a lake of streams with PERIOD and continuous queries of which none is due for years."""
    count = _scaled(SCHEDULED, scale, 2)
    with _open(folder) as lake:
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


def _due_instant(folder: Path, scale: float) -> Figures:
    """Have one stream and one query among them all due every few seconds; from due to begun."""
    warm, count = _scaled(DUE_TICKS, scale, 2), _scaled(DUE_TICKS, scale, 2)
    every = f"{DUE_EVERY_US // SECOND_US}s"
    with _open(folder) as lake:
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


def _idle_scheduler(folder: Path, scale: float) -> Figures:
    """Watch while nothing is due, Spark being there; seconds of a processor a second."""
    idle = _Idle(max(5.0, IDLE_SECONDS * scale))
    with _open(folder) as lake:
        _spark_jobs(lake)
        watch(lake, idle, poll_seconds=lake.settings.poll_seconds)
    return {"seconds": [idle.share]}


# --- the daemon, and many streams on one source ---------------------------------------------------

MANY, MANY_ROUNDS = 100, 5


def _serve_notify_lakestream(folder: Path, scale: float) -> Figures:
    """Measure from a commit being visible to a websocket's client hearing of the window that it closes."""
    source = _new_source(folder)
    before = _base(folder, scale)
    commits, warm = _new_rows(before, scale)
    with Hearing() as hearing:
        notified = f"NOTIFY('{hearing.url}') ON (WINDOW_CLOSE)"
        allowed = ("--set", "notify_hosts=127.0.0.1")
        _called(folder, *allowed, "sql", _stream(TUMBLING.clause(), options=HISTORY, notified=notified))
        with Program(_command(folder, *allowed, *_FREE_PORTS, "serve"), folder / "serve.log") as program:
            Output(_target(folder)).wait_for(_last_closed(before), program)
            figures = _heard(program, source, hearing, commits, warm)
    _check_ticks(_target(folder), commits)
    return figures


def _serve_notify_streaming(folder: Path, scale: float) -> Figures:
    """Measure the same of a query that sends what a batch has written."""
    source = _new_source(folder)
    before = _base(folder, scale)
    commits, warm = _new_rows(before, scale * STREAMING_SHARE)
    with Hearing() as hearing, _query(folder, hearing.url) as program:
        hearing.wait_for(_last_closed(before), program)
        figures = _heard(program, source, hearing, commits, warm)
    _check_ticks(folder / "target", commits)
    return figures


def _heard(
    program: Program, source: Path, hearing: Hearing, commits: Iterable[tuple[pa.Table, int]], warm: int
) -> Figures:
    table, figures = DeltaTable(source), []
    for rows, start_us in commits:
        CLOCK.sleep(PAUSE_SECONDS)
        data.append(table, rows)
        started = CLOCK.monotonic()
        hearing.wait_for(start_us, program)
        figures.append(CLOCK.monotonic() - started)
    return {"seconds": figures[warm:], "peak_mib": [program.peak_mib()]}


_FREE_PORTS = ("--set", "server_port=0", "--set", "connect_port=0")
HISTORY = "STREAM_OPTIONS(FILL_HISTORY)"

NOTIFIED_COMMITS, NOTIFIED_EVENTS = 300, 1_000
AWAY_SECONDS, AWAY_EVENTS, AWAY_LOOKS = 3_600, 1_000_000, 60


def _notify_throughput(folder: Path, scale: float) -> Figures:
    """Send the events of an outbox to one listener; the first quarter is the warm-up."""
    commits = _scaled(NOTIFIED_COMMITS, scale, 4)
    notified = Notified(folder)
    with notified.listening():
        for number in range(commits):
            notified.put(NOTIFIED_EVENTS)
            if number == commits // 4:
                notified.send()
        seconds = notified.send()
    notified.close()
    return _processed((commits - commits // 4 - 1) * NOTIFIED_EVENTS, seconds)


def _notify_outage(folder: Path, scale: float) -> Figures:
    """Have a listener away for an hour of the lake's clock, with events every second; then it comes back."""
    away, events = _scaled(AWAY_SECONDS, scale, 4), _scaled(AWAY_EVENTS, scale, 4)
    notified = Notified(folder)
    for second in range(away):
        notified.put(events * (second + 1) // away - events * second // away)
        if second % AWAY_LOOKS == 0:
            notified.follow()
    with notified.listening():
        seconds = notified.send()
    notified.close()
    return _processed(events, seconds)


def _alike(number: int) -> str:
    """Return one of many streams that differ in their windows and filters."""
    length = 5 + number % 20
    options = f"STREAM_OPTIONS(PRE_FILTER(v > {number % 15 - 10}))"
    return _stream(Window(length, length).clause(), name=f"s{number}", output=f"t{number}", options=options)


def _apart(number: int) -> str:
    """Return one of many streams that differ in what they calculate."""
    return _stream(TUMBLING.clause(), name=f"s{number}", output=f"t{number}", mean=f"avg(v) + {number}")


def _many_streams(statement: Callable[[int], str]) -> Run:
    """Measure until many streams have all taken a thousand new rows of their source."""

    def run(folder: Path, scale: float) -> Figures:
        source = DeltaTable(_new_source(folder))
        count = _scaled(MANY, scale, 2)
        warm = _scaled(WARM_ROUNDS, scale, 1)
        figures = []
        with _open(folder) as lake:
            for number in range(count):
                lake.sql(statement(number))
            for number in range(warm + _scaled(MANY_ROUNDS, scale, 2)):
                data.append(source, data.rows(number * TICK_ROWS, TICK_ROWS, data.LARGE_DEVICES))
                figures.append(_run(lake))
            lags = [status.lag for status in lake.streams()]
            require(lags, [0] * count, "commits that streams lag")
        return {"seconds": figures[warm:], "peak_mib": [peak_mib(os.getpid())]}

    return run


# --- many groups, of which few change -------------------------------------------------------------

TOUCHED_GROUPS, GROUP_TICKS = 100, 20


def _known_groups(groups: int) -> Run:
    """Measure ticks that touch a hundred groups where many more are known."""

    def run(folder: Path, scale: float) -> Figures:
        source, count = DeltaTable(_new_source(folder)), _scaled(groups, scale, TOUCHED_GROUPS)
        warm = _scaled(WARM_ROUNDS, scale, 1)
        ticks = warm + _scaled(GROUP_TICKS, scale, 2)
        with _open(folder) as lake:
            lake.sql(_stream(TUMBLING.clause()))
            data.write_apart(
                data.write_rows, path=str(_source(folder)), first=0, sizes=[count], devices=count
            )
            _run(lake)
            seconds = []
            for number in range(1, ticks + 1):
                data.append(source, data.first_devices(number * TUMBLING.step, TOUCHED_GROUPS, count))
                seconds.append(_run(lake))
        require(DeltaTable(_target(folder)).count(), ticks * TOUCHED_GROUPS, "windows that the ticks closed")
        return {"seconds": seconds[warm:], "peak_mib": [peak_mib(os.getpid())]}

    return run


# --- the command line ----------------------------------------------------------------------------

CALLS, STREAMS = 5, 100


def _cli_help(folder: Path, scale: float) -> Figures:
    return _calls(folder, scale, "--help")


def _cli_run(folder: Path, scale: float) -> Figures:
    """Measure scheduled jobs: each call takes a thousand new rows in a process that begins with nothing."""
    source = DeltaTable(_new_source(folder))
    _called(folder, "sql", _stream(TUMBLING.clause()))
    seconds = []
    for number in range(1 + _scaled(CALLS, scale, 2)):
        data.append(source, data.rows(number * TICK_ROWS, TICK_ROWS, data.LARGE_DEVICES))
        seconds.append(_called(folder, "run"))
    newest = (number + 1) * TICK_ROWS // data.LARGE_DEVICES - 1
    windows = TUMBLING.closed(0, newest) * data.LARGE_DEVICES
    require(DeltaTable(_target(folder)).count(), windows, "windows that the jobs closed")
    return {"seconds": seconds[1:]}


def _cli_status(folder: Path, scale: float) -> Figures:
    source = _new_source(folder)
    names = [f"s{number}" for number in range(_scaled(STREAMS, scale, 2))]
    streams = [_stream(TUMBLING.clause(), name=name, output=f"{name}_output") for name in names]
    _called(folder, "sql", ";\n".join(streams))
    data.append(DeltaTable(source), data.rows(0, 3_000, data.LARGE_DEVICES))
    _called(folder, "run")
    return _calls(folder, scale, "status")


def _calls(folder: Path, scale: float, command: str) -> Figures:
    """Measure calls of a command; the first one, which fills the file cache, is left out."""
    _called(folder, command)
    return {"seconds": [_called(folder, command) for _ in range(_scaled(CALLS, scale, 2))]}


# --- what several runs start from ----------------------------------------------------------------


def _make_large(folder: Path, scale: float) -> None:
    data.write_apart(data.write_large, path=str(_new_source(folder)), scale=scale)


def _make_caught_up(folder: Path, scale: float) -> None:
    with _open(folder) as lake:
        lake.sql(_stream(TUMBLING.clause(), options="STREAM_OPTIONS(FILL_HISTORY)"))
        _run(lake)
    count = data.large_shape(scale)[0]
    seconds = count // data.LARGE_DEVICES
    windows = TUMBLING.closed(0, seconds - 1) * data.LARGE_DEVICES
    expected = (windows, windows * TUMBLING.length)
    require(
        counted(_target(folder), START_US, START_US + seconds * SECOND_US), expected, "windows of the source"
    )


# --- windows around rows -------------------------------------------------------------------------

AROUND_DEVICES, AROUND_ROWS, AROUND_SECONDS, AROUND_ROUNDS = 100, 1_000_000, 60, 3


def _around_rows(folder: Path, scale: float) -> Figures:
    """Give every row of a commit a window that reaches back a minute; the last round is measured."""
    source, count = _new_source(folder), _scaled(AROUND_ROWS, scale, AROUND_DEVICES)
    seconds = 0.0
    with _open(folder) as lake:
        lake.sql(
            "CREATE STREAM s WITH (TIMESTAMP='ts') INTO target AS "
            "SELECT tbname, window_end() AS until, avg(v) AS mean, max(v) AS top FROM source "
            f"GROUP BY tbname, SLIDINGWINDOW(ss, {AROUND_SECONDS}) OVER (PARTITION BY tbname)"
        )
        for number in range(AROUND_ROUNDS):
            data.write_apart(
                data.write_rows,
                path=str(source),
                first=number * count,
                sizes=[count],
                devices=AROUND_DEVICES,
            )
            seconds = _run(lake)
    written = DeltaTable(_target(folder)).count()
    require(written, count * AROUND_ROUNDS, "windows in the output")
    return _processed(count, seconds)


def _cut_systems(kind: str, cut: Cut) -> dict[str, Run]:
    systems: dict[str, Run] = {"lakestream": _catch_up_cut(cut)}
    if kind == "session":
        systems["structured_streaming"] = _catch_up_sessions_streaming
    return systems


PREPARATIONS = {
    "large": Preparation(_make_large),
    "caught_up": Preparation(_make_caught_up, start="large"),
    "scheduled": Preparation(_make_scheduled),
}

SCENARIOS = {
    "catchup_tumbling": Scenario(
        {
            "lakestream": _catch_up_lakestream(TUMBLING),
            "structured_streaming": _catch_up_streaming(TUMBLING),
            "duckdb": _catch_up_duckdb(TUMBLING),
        }
    ),
    "small_tick": Scenario(
        {"lakestream": _small_tick_lakestream, "structured_streaming": _small_tick_streaming}
    ),
    "catchup_hopping": Scenario(
        {
            "lakestream": _catch_up_lakestream(HOPPING),
            "structured_streaming": _catch_up_streaming(HOPPING),
            "duckdb": _catch_up_duckdb(HOPPING),
        }
    ),
    "small_tick_large_source": Scenario(
        {"lakestream": _large_source_lakestream, "structured_streaming": _large_source_streaming}, "caught_up"
    ),
    "late_row": Scenario({"lakestream": _late_row}, "caught_up"),
    "late_burst": Scenario({"lakestream": _late_burst}, "caught_up"),
    "catchup_same_rows": Scenario({"lakestream": _same_rows}, "caught_up"),
    **{f"catchup_{kind}": Scenario(_cut_systems(kind, cut)) for kind, cut in CUTS.items()},
    **{f"small_tick_{kind}": Scenario({"lakestream": _small_tick_cut(cut)}) for kind, cut in CUTS.items()},
    "around_rows": Scenario({"lakestream": _around_rows}),
    "idle_poll": Scenario({"lakestream": _idle_poll}, "caught_up"),
    "idle_scheduler": Scenario({"lakestream": _idle_scheduler}, "scheduled"),
    "due_instant": Scenario({"lakestream": _due_instant}, "scheduled"),
    "serve_notify": Scenario(
        {"lakestream": _serve_notify_lakestream, "structured_streaming": _serve_notify_streaming}
    ),
    "notify_throughput": Scenario({"lakestream": _notify_throughput}),
    "notify_outage": Scenario({"lakestream": _notify_outage}),
    "many_streams": Scenario({"lakestream": _many_streams(_alike)}),
    "many_streams_apart": Scenario({"lakestream": _many_streams(_apart)}),
    "known_groups_1k": Scenario({"lakestream": _known_groups(1_000)}),
    "known_groups_1m": Scenario({"lakestream": _known_groups(1_000_000)}),
    "cli_run": Scenario({"lakestream": _cli_run}),
    "cli_status": Scenario({"lakestream": _cli_status}),
    "cli_help": Scenario({"lakestream": _cli_help}),
}
