"""``lakestream attach``: from somebody's Delta table to a first stream over it."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import click

from lakestream.cli.doctor import described
from lakestream.cli.output import cell, print_json
from lakestream.cli.session import Session, command
from lakestream.errors import ConfirmationNeededError
from lakestream.language.names import quoted

if TYPE_CHECKING:
    from lakestream.engine.inspection import Inspection
    from lakestream.storage.layout import Layout


@command("attach")
@click.argument("path")
@click.option("--name", metavar="NAME", help="What to call it in the lake; else by the last part of PATH.")
@click.option("--time", metavar="COLUMN", help="Its event time; else the timestamp with the fewest NULLs.")
@click.option(
    "--unit",
    type=click.Choice(["seconds", "milliseconds", "microseconds"]),
    help="What a time that is a number counts since 1970; else what its values look like.",
)
@click.pass_obj
def attach(session: Session, path: str, name: str | None, time: str | None, unit: str | None) -> None:
    """Give a Delta table a name in the lake; propose a stream.

    Says what the table is and what streams need of it, and asks before anything is done.
    """
    from lakestream.engine.inspection import first_stream, inspect
    from lakestream.storage.layout import absolute
    from lakestream.storage.table import Table

    location = absolute(path)
    table = name or re.sub(r"\W+", "_", location.rpartition("/")[2])
    layout = session.layout()
    found = inspect(Table.open(location), time, unit and unit.upper())
    _refuse(layout, found, table)
    if not session.json:
        _show(found)
    _ask(session, found, table)
    with session.statements() as lake:
        said = lake.sql(_statement(found, table)).message
    stream = first_stream(found, table)
    if session.json:
        print_json({"table": found, "name": table, "message": said, "stream": stream})
        return
    click.echo(said)
    if stream is not None:
        click.echo(f"\nA first stream, which can be run as it stands:\n\n{stream}")


def _refuse(layout: Layout, found: Inspection, table: str) -> None:
    """Refuse before the question what the statement would refuse after it."""
    from lakestream.clock import SystemClock
    from lakestream.lake import DEFAULT_DATABASE
    from lakestream.storage.catalog import Catalog, with_time_column

    catalog, zone = Catalog(layout, SystemClock()), layout.timezone()
    by = partial(with_time_column, column=found.time, zone=zone, unit=found.unit) if found.time else None
    catalog.external(DEFAULT_DATABASE, table, found.path, timed=by)


def _show(found: Inspection) -> None:
    for check in described(found):
        click.echo(f"{check.name:<8} {cell(check.found)}")
        if check.hint:
            click.echo(f"         {cell(check.hint)}")


def _ask(session: Session, found: Inspection, table: str) -> None:
    """Ask once for all that is done. Raises ConfirmationNeededError unless that is answered with yes."""
    feed = "" if found.has_change_feed else ", and switch its change data feed on (a commit to the table)"
    question = f"Attach {found.path} as {table}{feed}?"
    if not session.confirm(question):
        raise ConfirmationNeededError(question, hint="nothing was done")
    session.yes = True


def _statement(found: Inspection, table: str) -> str:
    by = f" TIMESTAMP BY {quoted(found.time)} {found.unit or ''}" if found.time else ""
    location = found.path.replace("\\", "\\\\").replace("'", "\\'")
    return f"CREATE TABLE {quoted(table)} LOCATION '{location}'{by}"
