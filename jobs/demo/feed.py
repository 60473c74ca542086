"""The feeding: commits in the order of arrival with ticks between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from lakestream.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from jobs.demo.sources import Arrival
    from lakestream.clock import Clock
    from lakestream.lake import Lake

DATABASE = "nyc"
VIEW = "airline_days"
STREAMS = {
    **{
        name: f"{name}_stream"
        for name in ("weather_daily", "wind_6h", "departures_hourly", "delays_and_weather")
    },
    VIEW: VIEW,
}
"""The outputs, in the order they are shown, and the streams that keep them current: a view is one itself."""


@dataclass(frozen=True)
class Tick:
    """One tick of one stream: rows read and written, and its seconds."""

    stream: str
    rows_in: int
    rows_out: int
    seconds: float


@dataclass(frozen=True)
class Feed:
    """What was fed: rows and commits, the seconds from the first commit to the last tick, and the ticks."""

    rows: int
    commits: int
    seconds: float
    ticks: tuple[Tick, ...]


def feed(
    lake: Lake,
    arrivals: Sequence[Arrival],
    days_per_run: int,
    clock: Clock,
    console: Console,
    create_streams: Callable[[], None],
) -> Feed:
    """Load the first arrival as history, create the streams, then feed the others one by one.

    The streams run after the history, after every ``days_per_run`` further arrivals and at the end. Each
    arrival is one commit per table, the weather first: a day's join is due when a flight of the next
    day is there, and finds the weather then.
    """
    rows = commits = 0
    ticks: list[Tick] = []
    started = clock.monotonic()
    with _progress(console) as progress:
        bar = progress.add_task("", total=sum(arrival.rows for arrival in arrivals))
        for number, arrival in enumerate(arrivals):
            commits += _insert(lake, arrival)
            if number == 0:
                create_streams()
            if number % days_per_run == 0 or number == len(arrivals) - 1:
                ticks += run_streams(lake)
            rows += arrival.rows
            progress.update(bar, advance=arrival.rows, description=f"{arrival.last:%d %b %Y}")
            _log_month(progress.console.print, arrival, rows, clock.monotonic() - started)
    return Feed(rows, commits, clock.monotonic() - started, tuple(ticks))


def _insert(lake: Lake, arrival: Arrival) -> int:
    """Write the arrival and return the number of commits: a table without rows has none."""
    tables = {"weather": arrival.weather, "flights": arrival.flights}
    filled = {name: rows for name, rows in tables.items() if rows.num_rows}
    for name, rows in filled.items():
        lake.insert(f"{DATABASE}.{name}", rows)
    return len(filled)


def run_streams(lake: Lake) -> list[Tick]:
    """Process everything there is; raise StreamError for the first stream that failed."""
    summary = lake.run(until="idle")
    for failed in summary.failed:
        raise StreamError("STREAM_FAILED", f"{failed.stream} failed: {failed.error}")
    return [Tick(t.stream, t.rows_in, t.rows_out, t.seconds) for t in summary.ticks]


def _log_month(write: Callable[[str], None], arrival: Arrival, rows: int, seconds: float) -> None:
    """Write a line at the end of each month: it stays where a progress bar cannot be drawn."""
    if (arrival.last.month, arrival.last.day) in _MONTH_ENDS:
        write(f"{arrival.last:%d %b %Y}  {rows:>7,} rows  {rows / max(seconds, 1e-9):>7,.0f} rows/s")


_MONTH_ENDS = {
    *((month, 31) for month in (1, 3, 5, 7, 8, 10, 12)),
    *((month, 30) for month in (4, 6, 9, 11)),
    (2, 28),
}


class _RowsPerSecond(ProgressColumn):
    """Rows per second of the last seconds."""

    def render(self, task: Task) -> Text:
        """Show the speed, which is unknown before the second update."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f} rows/s" if speed else "- rows/s", style="progress.data.speed")


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<11}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"),
        _RowsPerSecond(),
        TimeElapsedColumn(),
        console=console,
    )
