"""``lakestream attach``: from somebody's Delta table to a first stream over it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from lakestream.cli.base.output import print_json
from lakestream.cli.base.session import Session, command
from lakestream.cli.lakes.doctor import described
from lakestream.engine.base.plain import cell
from lakestream.errors import ConfirmationNeededError
from lakestream.language.quoting import quoted, quoted_text

if TYPE_CHECKING:
    from lakestream.lake import Lake
    from lakestream.observation.inspection import Inspection


@command("attach")
@click.argument("path", required=False)
@click.option(
    "--using-table", metavar="NAME", help="Instead of PATH: catalog.schema.table, as Spark knows it."
)
@click.option("--name", metavar="NAME", help="What to call it in the lake; else by the last part of PATH.")
@click.option(
    "--time",
    metavar="TIME",
    help="Its event time: a column, or what stands behind TIMESTAMP BY; else the timestamp with the fewest "
    "NULLs.",
)
@click.option(
    "--unit",
    type=click.Choice(["seconds", "milliseconds", "microseconds"]),
    help="What a time that is a number counts since 1970; else what its values look like.",
)
@click.option("--format", "form", metavar="FORMAT", help="How a time that is a text is read; or ISO8601.")
@click.pass_obj
def attach(  # noqa: PLR0917 (each is an option)
    session: Session,
    path: str | None,
    using_table: str | None,
    name: str | None,
    time: str | None,
    unit: str | None,
    form: str | None,
) -> None:
    """Give a Delta table a name in the lake; propose a stream.

    Says what the table is, what streams need of it, and the statement that names it; asks before it is run.
    """
    from lakestream.observation.inspection import first_stream

    origin, own = _origin(path, using_table)
    table = name or own
    if form and not time:
        raise click.UsageError("--format reads the column that --time names.")
    read = f" {unit.upper()}" if unit else f" FORMAT {_format(form)}" if form else ""
    with session.open() as lake:
        statement, found = _inspected(lake, f"CREATE TABLE {quoted(table)} {origin}", time, read)
    if not session.json:
        _show(found, statement)
    _ask(session, found, table)
    with session.statements(written=True) as runner:
        said = runner.sql(statement).message
    stream = first_stream(found, table)
    if session.json:
        print_json({"table": found, "name": table, "statement": statement, "message": said, "stream": stream})
        return
    click.echo(said)
    if stream is not None:
        click.echo(f"\nA first stream, which can be run as it stands:\n\n{stream}")


def _origin(path: str | None, using_table: str | None) -> tuple[str, str]:
    """Return the clause that says where the table is, and a name for it."""
    from lakestream.storage.places.layout import absolute

    if (path is None) == (using_table is None):
        raise click.UsageError("Give the PATH of a Delta table, or its name in a catalog by --using-table.")
    if using_table is not None:
        return f"USING TABLE {using_table}", _plain(using_table.rpartition(".")[2].strip("`"))
    location = absolute(path or "")
    return f"LOCATION {quoted_text(location)}", _plain(location.rpartition("/")[2])


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name)


def _format(form: str) -> str:
    return form.upper() if form.upper() == "ISO8601" else quoted_text(form)


def _inspected(lake: Lake, named: str, time: str | None, read: str) -> tuple[str, Inspection]:
    """Return the statement with the time that is asked for, or else the best one, and what the table is."""
    found = lake.inspect(named)
    if time is None and found.time is None:
        return named, found
    if time is None and not read:
        return f"{named} TIMESTAMP BY {quoted(found.time or '')} {found.unit or ''}".rstrip(), found
    chosen = quoted(time or found.time or "") if time is None or time in dict(found.columns) else time
    statement = f"{named} TIMESTAMP BY {chosen}{read}"
    return statement, lake.inspect(statement)


def _show(found: Inspection, statement: str) -> None:
    for check in described(found):
        click.echo(f"{check.name:<8} {cell(check.found)}")
        if check.hint:
            click.echo(f"         {cell(check.hint)}")
    click.echo(f"runs     {cell(statement)}")


def _ask(session: Session, found: Inspection, table: str) -> None:
    """Ask once for all that is done. Raises ConfirmationNeededError unless that is answered with yes."""
    feed = "" if found.has_change_feed else ", and switch its change data feed on (a commit to the table)"
    question = f"Attach {found.path} as {table}{feed}?"
    if not session.confirm(question):
        raise ConfirmationNeededError(question, hint="nothing was done")
    session.yes = True
