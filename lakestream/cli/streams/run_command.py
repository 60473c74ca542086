"""``lakestream run``: process what is there, or keep watching for more."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from lakestream.cli.base.names import streams_option
from lakestream.cli.base.output import counted, described, print_json, print_table
from lakestream.cli.base.session import PROGRAM, Session, command, progress_option
from lakestream.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.errors import LakestreamError
    from lakestream.lake import Lake


@dataclass
class StreamTotals:
    """What a call of ``run`` did for one stream; ``lag`` is that after its last tick, in commits."""

    stream: str
    ticks: int = 0
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    lag: int = 0


@dataclass
class Totals:
    """What a call of ``run`` did, by stream."""

    streams: dict[str, StreamTotals] = field(default_factory=dict)

    def add(self, report: TickReport) -> None:
        """Count one tick."""
        of = self.streams.setdefault(report.stream, StreamTotals(report.stream))
        of.ticks += 1
        of.rows_in += report.rows_in
        of.rows_out += report.rows_out
        of.seconds += report.seconds
        of.lag = report.lag


@command("run")
@click.option("--watch", is_flag=True, help="Go on until Ctrl-C or SIGTERM.")
@click.option(
    "--poll",
    type=click.FloatRange(min=0.01),
    metavar="SECONDS",
    help="With --watch, look for new commits so often; else the setting poll_seconds.",
)
@streams_option
@progress_option
@click.pass_obj
def run(
    session: Session, watch: bool, poll: float | None, streams: tuple[str, ...] | None, progress: str
) -> None:
    """Bring all running streams up to date.

    On a terminal it shows rows, rows per second and lag while it works, elsewhere a line for each tick; at
    the end the totals. Leaves with status 1 when a stream has failed.

    With --watch it goes on until Ctrl-C or SIGTERM, finishes the running tick and leaves with 0.
    """
    if poll is not None and not watch:
        raise click.UsageError("--poll needs --watch")
    if watch and progress != "auto":
        raise click.UsageError("--watch says a line for each tick; --progress is for a run that ends")
    if watch and streams is not None:
        raise click.UsageError("--watch is for all streams; STOP STREAM leaves one out")
    totals = Totals()
    with session.open() as lake:
        if watch:
            _watch(session, lake, totals, poll)
        else:
            _run_until_idle(session, lake, totals, streams, session.progress(progress))
        failed = [
            f"{s.database}.{s.name}: {s.last_error}"
            for s in lake.streams()
            if s.is_failing and (streams is None or {s.name, f"{s.database}.{s.name}"} & {*streams})
        ]
        waiting = lake.waiting_events()
    _show_totals(session, totals)
    for target, events in waiting.items():
        if events:
            session.say(f"waiting for {target}: {counted(events, 'event')}")
    if failed:
        raise StreamError(
            "STREAM_FAILED", "; ".join(failed), hint=f"remove the cause, then `{PROGRAM} start STREAM`"
        )


def _run_until_idle(
    session: Session, lake: Lake, totals: Totals, streams: tuple[str, ...] | None, shown: str
) -> None:
    with _shown(session, shown) as show:

        def on_tick(report: TickReport) -> None:
            totals.add(report)
            show(report)

        lake.run(on_tick=on_tick, streams=streams)


@contextmanager
def _shown(session: Session, how: str) -> Iterator[Callable[[TickReport], None]]:
    """Give what shows a tick: by bars, by a line (``plain``), or not at all."""
    if how == "bars":
        from lakestream.cli.base.progress import TickProgress

        with TickProgress() as progress:
            yield progress.on_tick
    elif how == "plain":
        yield lambda report: session.say(tick_line(report))
    else:
        yield lambda _: None


@dataclass
class WatchTalk:
    """Says on stderr what a watch does, and counts it."""

    session: Session
    totals: Totals
    lake: str

    def started(self) -> None:
        """Say what is watched."""
        self.session.say(f"watching {self.lake}; Ctrl-C stops")

    def began(self) -> None:
        """Say nothing of it."""

    def ended(self) -> None:
        """Say nothing of it."""

    def ticked(self, report: TickReport) -> None:
        """Say and count a tick."""
        self.totals.add(report)
        self.session.say(tick_line(report))

    def failed(self, error: LakestreamError) -> None:
        """Say why a round ended early."""
        self.session.say(error.render())

    def stopping(self) -> None:
        """Say what the end waits for."""
        self.session.say("stopping after the running tick; Ctrl-C once more does not wait")


def _watch(session: Session, lake: Lake, totals: Totals, poll: float | None) -> None:
    from lakestream.scheduler.watch import watch

    talk = WatchTalk(session, totals, str(lake.root))
    watch(lake, talk, poll_seconds=poll or lake.settings.poll_seconds)


def tick_line(report: TickReport) -> str:
    """Return a tick as one line of talk."""
    if report.error:
        return f"{report.stream} tick {report.tick}: {report.error}"
    figures = described(report.rows_in, report.seconds, report.lag)
    written = counted(report.rows_out, "row")
    return f"{report.stream} tick {report.tick}: {figures}  {written} out  {report.seconds:.2f} s"


def _show_totals(session: Session, totals: Totals) -> None:
    done = list(totals.streams.values())
    if session.json:
        print_json({"streams": done})
    elif done:
        columns = ("stream", "ticks", "rows in", "rows out", "seconds", "rows/s", "lag")
        print_table(columns, [_total_row(of) for of in done])
    else:
        click.echo("nothing to do")


def _total_row(of: StreamTotals) -> tuple[object, ...]:
    speed = round(of.rows_in / of.seconds) if of.seconds > 0 else None
    return (of.stream, of.ticks, of.rows_in, of.rows_out, round(of.seconds, 2), speed, of.lag)
