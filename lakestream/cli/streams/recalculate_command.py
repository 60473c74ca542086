"""``lakestream recalculate``: windows of a range of event time again, by the daemon or by this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakestream.cli.base.output import console, counted, print_json
from lakestream.cli.base.session import Session, command, progress_option
from lakestream.cli.streams.stream_commands import stream_argument

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakestream.cli.base.remote import RemoteLake, Stand
    from lakestream.engine.rounds.runtime import TickReport
    from lakestream.lake import Lake

    Asked = tuple[str, str | None, str | None, bool]

LOOK_SECONDS = 0.5
"""How often the daemon is asked how far it has come."""


@command("recalculate")
@stream_argument
@click.option("--from", "start", metavar="TIME", help="First event time to recalculate (included).")
@click.option("--to", "end", metavar="TIME", help="Event time to stop at (not included); else all there is.")
@click.option("--resync", is_flag=True, help="Begin anew from the source as it is: changes were lost.")
@progress_option
@click.pass_obj
def recalculate(
    session: Session, stream: str, start: str | None, end: str | None, resync: bool, progress: str
) -> int:
    """Compute the windows of a range of event time again.

    Windows that overlap the range are computed whole, from the source as it is, and rows of windows
    that are no more go. A bar, or without a terminal a line, shows the parts; whatever stops this, the
    next run, or the daemon, goes on with the part that was not done. Leaves with status 1 when the
    stream fails.
    """
    if (start is None) != resync or (resync and end is not None):
        raise click.UsageError("recalculate takes --from TIME [--to TIME], or --resync")
    asked = (stream, start, end, resync)
    with session.statements() as lake:
        stand = _shown(session, session.progress(progress), stream, lambda show: _done(lake, asked, show))
    if session.json:
        print_json({"status": stand.status, "part": stand.part, "parts": stand.parts, "rows": stand.rows})
    elif stand.is_open:
        click.echo(f"not done: {stand.obstacle}")
    else:
        click.echo(f"recalculated: {counted(stand.rows, 'row')} in {counted(stand.parts or 1, 'part')}")
    return 1 if stand.is_open else 0


def _shown(
    session: Session, how: str, stream: str, work: Callable[[Callable[[Stand], None]], Stand]
) -> Stand:
    """Do some work, and show its parts: by a bar, by a line when one is done (``plain``), or not at all."""
    if how != "bars":
        done = -1

        def say(stand: Stand) -> None:
            nonlocal done
            if how == "plain" and stand.part != done:
                done = stand.part
                of = "" if stand.parts is None else f" of {stand.parts}"
                session.say(f"recalculating {stream}: {stand.part}{of} parts done")

        return work(say)
    from rich.progress import Progress

    with Progress(console=console(err=True), transient=True) as progress:
        bar = progress.add_task(f"recalculating {stream}", total=None)
        return work(lambda stand: progress.update(bar, completed=stand.part, total=stand.parts))


def _done(lake: Lake | RemoteLake, asked: Asked, show: Callable[[Stand], None]) -> Stand:
    from lakestream.cli.base.remote import RemoteLake

    if isinstance(lake, RemoteLake):
        return _by_daemon(lake, asked, show)
    return _by_itself(lake, asked, show)


def _by_daemon(lake: RemoteLake, asked: Asked, show: Callable[[Stand], None]) -> Stand:
    """Have the daemon do it, until it is done or goes no further."""
    from lakestream.clock import SystemClock

    stream, start, end, resync = asked
    queued, clock = lake.recalculate(stream, start, end, resync=resync), SystemClock()
    while (stand := lake.recalculation(stream, queued)).is_open and stand.obstacle is None:
        show(stand)
        clock.sleep(LOOK_SECONDS)
    return stand


def _by_itself(lake: Lake, asked: Asked, show: Callable[[Stand], None]) -> Stand:
    """Run until idle."""
    from lakestream.cli.base.remote import Stand

    stream, start, end, resync = asked
    queued = lake.recalculate(stream, start, end, resync=resync).id

    def stand() -> Stand:
        job = next(job for job in lake.recalculations(stream) if job.id == queued)
        record = next(s for s in lake.streams() if stream in {s.name, f"{s.database}.{s.name}"})
        reason = record.last_error or f"the stream is {record.status.lower()}"
        return Stand(job.status, job.part, job.parts, job.rows_out, reason if job.is_open else None)

    def on_tick(report: TickReport) -> None:
        if report.kind == "recalculation":
            show(stand())

    lake.run(on_tick=on_tick)
    return stand()
