"""What has happened: ``logs`` (ticks and failures) and ``events`` (the outbox). Neither starts Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from lakestream.cli.base.names import complete_stream
from lakestream.cli.base.output import print_json
from lakestream.cli.base.session import Session, command
from lakestream.engine.base.plain import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakestream.lake import Lake
    from lakestream.observation.observe import Event, Run

LOOK_SECONDS = 1.0
"""How often --follow looks."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_stream_option = click.option(
    "--stream", metavar="STREAM", shell_complete=complete_stream, help="Of this stream only."
)
_limit_option = click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="So many of the newest ones.",
)
_follow_option = click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until Ctrl-C.")


@command("logs")
@_stream_option
@_limit_option
@_follow_option
@click.pass_obj
def logs(session: Session, stream: str | None, limit: int, follow: bool) -> None:
    """Show the ticks of streams and what they failed of, oldest first.

    At least the last 100 ticks and 50 failures of each stream are kept. With --follow and
    --output json each is one line of JSON.
    """
    with session.open() as lake:
        found = _runs(lake, stream)
        _show(session, "runs", found[-limit:], _run_line, follow=follow)
        if follow:
            _go_on(session, _new_runs(lake, stream, found), _run_line)


def _runs(lake: Lake, stream: str | None) -> list[Run]:
    """Return the runs of a stream (None: of all), oldest first."""
    names = [f"{s.database}.{s.name}" for s in lake.streams()] if stream is None else [stream]
    found = [run for name in names for run in lake.runs(name)]
    return sorted(found, key=lambda run: (run.at_us, run.stream, run.tick))


def _new_runs(lake: Lake, stream: str | None, seen: Sequence[Run]) -> Iterator[list[Run]]:
    """Look again and again, and give what was not there the last time."""
    known = set(seen)
    while True:
        found = _runs(lake, stream)
        yield [run for run in found if run not in known]
        known = {*found}


def _run_line(run: Run) -> str:
    head = f"{_time(run.at_us)}  {run.stream}  tick {run.tick}"
    if run.error is not None:
        return f"{head}  failed: {run.error}"
    violated = f", {run.violated:,} violated" if run.violated else ""
    return (
        f"{head}  {run.kind}: {run.rows_in:,} rows in, {run.rows_out:,} out, {run.late:,} late{violated}  "
        f"{run.seconds:.2f} s  lag {run.lag:,}"
    )


@command("events")
@_stream_option
@_limit_option
@click.option("--after", metavar="ID", help="Those behind this one, the oldest first; else the newest.")
@_follow_option
@click.pass_obj
def events(session: Session, stream: str | None, limit: int, after: str | None, follow: bool) -> None:
    """Show events of notifications and whether they were sent, oldest first.

    With --follow and --output json each is one line of JSON.
    """
    with session.open() as lake:
        found = lake.events(stream, after, limit)
        _show(session, "events", found, _event_line, follow=follow)
        if follow:
            last = found[-1].id if found else after or "0-0"
            _go_on(session, _new_events(lake, stream, last), _event_line)


def _new_events(lake: Lake, stream: str | None, last: str) -> Iterator[list[Event]]:
    while True:
        found = lake.events(stream, last)
        last = found[-1].id if found else last
        yield found


def _event_line(event: Event) -> str:
    deliveries = ", ".join(f"{target}: {state}" for target, state in event.deliveries)
    return f"{event.id}  {_time(event.at_us)}  {event.stream}  {event.type}  [{deliveries}]  {event.event}"


def _show(
    session: Session, name: str, found: Sequence[Any], line: Callable[[Any], str], *, follow: bool
) -> None:
    if session.json and not follow:
        print_json({name: found})
        return
    if not found and not follow:
        click.echo(f"no {'ticks' if name == 'runs' else name}", err=True)
    _echo(session, found, line)


def _go_on(session: Session, looks: Iterator[Sequence[Any]], line: Callable[[Any], str]) -> None:
    from lakestream.clock import SystemClock

    clock = SystemClock()
    for found in looks:
        _echo(session, found, line)
        clock.sleep(LOOK_SECONDS)


def _echo(session: Session, found: Sequence[Any], line: Callable[[Any], str]) -> None:
    for one in found:
        click.echo(json.dumps(plain(one)) if session.json else line(one))


def _time(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(sep=" ", timespec="milliseconds")
