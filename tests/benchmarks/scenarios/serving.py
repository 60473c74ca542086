"""The daemon, and events sent to those who listen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalake import DeltaTable

from tests.benchmarks import data
from tests.benchmarks.notifying import Hearing, Notified
from tests.benchmarks.output import Output, require
from tests.benchmarks.process import Program, spent
from tests.benchmarks.scenarios.lakes import called, command, new_source, open_lake, stream, target_of
from tests.benchmarks.scenarios.many import apart
from tests.benchmarks.scenarios.model import processed, repeated, scaled
from tests.benchmarks.scenarios.ticks import (
    STREAMING_SHARE,
    TICK_ROWS,
    base,
    check_ticks,
    last_closed,
    new_rows,
    streaming_query,
    ticks,
)
from tests.benchmarks.scenarios.windows import TUMBLING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.benchmarks.scenarios.model import Figures

_FREE_PORTS = ("--set", "server_port=0", "--set", "connect_port=0")
HISTORY = "STREAM_OPTIONS(FILL_HISTORY)"

TAKEN_OVER, TAKEN_BEFORE = 100, 3

NOTIFIED_COMMITS, NOTIFIED_EVENTS = 300, 1_000
AWAY_SECONDS, AWAY_EVENTS, AWAY_LOOKS = 3_600, 1_000_000, 60


def serve_notify_lakestream(folder: Path, scale: float) -> Figures:
    """Measure from a commit being visible to a websocket's client hearing of the window that it closes."""
    source = new_source(folder)
    before = base(folder, scale)
    commits, warm = new_rows(before, scale)
    with Hearing() as hearing:
        notified = f"NOTIFY('{hearing.url}') ON (WINDOW_CLOSE)"
        allowed = ("--set", "notify_hosts=127.0.0.1")
        called(folder, *allowed, "sql", stream(TUMBLING.clause(), options=HISTORY, notified=notified))
        with Program(command(folder, *allowed, *_FREE_PORTS, "serve"), folder / "serve.log") as program:
            Output(target_of(folder)).wait_for(last_closed(before), program)
            figures = ticks(program, source, hearing, commits, warm)
    check_ticks(Output(target_of(folder)), commits)
    return figures


def takeover(folder: Path, scale: float) -> Figures:
    """Measure from the daemon's being killed to another one having taken a commit with every stream.

    The other one waits by then. Its processor seconds have its start in them.
    """
    path, count = new_source(folder), scaled(TAKEN_OVER, scale, 2)
    with open_lake(folder) as lake:
        for number in range(count):
            lake.sql(apart(number))
    outputs = [Output(folder / "lake" / "main" / f"t{number}") for number in range(count)]
    source, serve = DeltaTable(path), command(folder, *_FREE_PORTS, "serve")

    def take(number: int, program: Program) -> None:
        data.append(source, data.rows(number * TICK_ROWS, TICK_ROWS, data.LARGE_DEVICES))
        closed = last_closed((number + 1) * TICK_ROWS)
        for output in outputs if number else []:  # the first commit closes no window
            output.wait_for(closed, program)

    def take_over() -> None:
        first.kill()
        take(TAKEN_BEFORE, second)

    with Program(serve, folder / "first.log") as first:
        for number in range(TAKEN_BEFORE):
            take(number, first)
        with Program(serve, folder / "second.log") as second:
            second.wait_until_it_says("waiting to take over")
            took = spent(take_over, second.pid)
    newest = (TAKEN_BEFORE + 1) * TICK_ROWS // data.LARGE_DEVICES - 1
    windows = TUMBLING.closed(0, newest) * data.LARGE_DEVICES
    written = [DeltaTable(folder / "lake" / "main" / f"t{number}").count() for number in range(count)]
    require(written, [windows] * count, "windows that the daemons closed")
    return repeated([took])


def serve_notify_streaming(folder: Path, scale: float) -> Figures:
    """Measure the same of a query that sends what a batch has written."""
    source = new_source(folder)
    before = base(folder, scale)
    commits, warm = new_rows(before, scale * STREAMING_SHARE)
    with Hearing() as hearing, streaming_query(folder, hearing.url) as program:
        hearing.wait_for(last_closed(before), program)
        figures = ticks(program, source, hearing, commits, warm)
    check_ticks(Output(folder / "target"), commits)
    return figures


def notify_throughput(folder: Path, scale: float) -> Figures:
    """Send the events of an outbox to one listener; the first quarter is the warm-up."""
    commits = scaled(NOTIFIED_COMMITS, scale, 4)
    notified = Notified(folder)
    with notified.listening():
        for number in range(commits):
            notified.put(NOTIFIED_EVENTS)
            if number == commits // 4:
                notified.reach()
                notified.send()
        notified.reach()
        figures = processed((commits - commits // 4 - 1) * NOTIFIED_EVENTS, notified.send)
    notified.close()
    return figures


def notify_outage(folder: Path, scale: float) -> Figures:
    """Have a listener away for an hour of the lake's clock, with events every second; then it comes back."""
    away, events = scaled(AWAY_SECONDS, scale, 4), scaled(AWAY_EVENTS, scale, 4)
    notified = Notified(folder)
    for second in range(away):
        notified.put(events * (second + 1) // away - events * second // away)
        if second % AWAY_LOOKS == 0:
            notified.follow()
    with notified.listening():
        notified.reach()
        figures = processed(events, notified.send)
    notified.close()
    return figures
