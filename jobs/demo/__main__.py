"""``python -m jobs.demo``: the whole demo, from an empty folder to the checked outputs."""

from __future__ import annotations

import os
import sys
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from jobs.demo import by_clock, changes, check, home, project, report, sources
from jobs.demo.feed import DATABASE, STREAMS, feed
from jobs.demo.outputs import read_outputs
from lakestream.clock import SystemClock
from lakestream.errors import LakestreamError
from lakestream.lake import Lake
from lakestream.settings import Settings

BACKLOG = date(2013, 1, 31)
_DAYS_AFTER_BACKLOG = 334
_WIDE = 200


@click.command()
@click.option(
    "--lake",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("demo-lake"),
    show_default=True,
    help="Folder of the lake; what an earlier demo left there is removed.",
)
@click.option(
    "--days",
    type=click.IntRange(1, _DAYS_AFTER_BACKLOG),
    default=_DAYS_AFTER_BACKLOG,
    show_default=True,
    help="Days fed one by one after January, which comes at once.",
)
@click.option(
    "--days-per-run",
    type=click.IntRange(1),
    default=28,
    show_default=True,
    help="Daily commits that arrive between two runs of the streams.",
)
def main(folder: Path, days: int, days_per_run: int) -> None:
    """Feed New York's flights and weather of 2013 into a lake, keep streams current, check every row."""
    try:
        holds = run(folder, BACKLOG + timedelta(days=days), days_per_run, _console())
    except LakestreamError as error:
        click.echo(error.render(), err=True)
        sys.exit(error.exit_status)
    sys.exit(0 if holds else 1)


def run(folder: Path, last: date, days_per_run: int, console: Console) -> bool:
    """Run the demo up to the local day ``last`` and return whether every output row is as expected.

    Raises LakestreamError: no data (DATA_NOT_FOUND), a foreign folder (NOT_A_DEMO_LAKE), or what the
    lake raises.
    """
    files = sources.find_files()
    weather = sources.read_weather(files)
    arrivals = list(sources.arrivals(weather, sources.read_flights(files), BACKLOG, last))
    home.prepare(folder)
    with Lake(folder, settings=Settings(timezone=report.TIMEZONE)) as lake:
        plan = project.plan(lake, console)
        project.apply(lake, plan, streams=False)
        lake.insert(f"{DATABASE}.airlines", changes.misname(sources.read_airlines(files)))
        spoilt, streams = changes.spoil(arrivals), partial(project.apply, lake, plan, streams=True)
        fed = feed(lake, spoilt, days_per_run, SystemClock(), console, streams)
        for effect in changes.make_changes(lake):
            report.print_effect(effect, console)
        report.print_highlights(lake, console)
        report.print_ticks(fed, console)
        report.print_rates(fed, console)
        verified = {stream: lake.verify(f"{DATABASE}.{stream}") for stream in STREAMS.values()}
    for fired in by_clock.run(folder, weather, report.TIMEZONE):
        report.print_fired(fired, console)
    expected = check.expected_outputs(files, last)
    outputs = read_outputs(folder) | by_clock.read_outputs(folder)
    compared = {name: check.compare(expected[name], rows) for name, rows in outputs.items()}
    holds = report.print_checks(verified, compared, console)
    report.print_query_lines(folder, console)
    return holds


def _console() -> Console:
    """Return a console as wide as the terminal; in a file or pipe no line is broken."""
    width = None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", _WIDE))
    return Console(markup=False, highlight=False, emoji=False, width=width)


if __name__ == "__main__":
    main()
