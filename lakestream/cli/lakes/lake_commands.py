"""The lake as a whole: ``init``, ``status``, ``show``. None of them starts Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakestream.cli.base.names import complete_database
from lakestream.cli.base.output import print_json, print_table
from lakestream.cli.base.session import Session, command
from lakestream.cli.sql.sql_command import show_result
from lakestream.engine.base.plain import plain
from lakestream.language.quoting import quoted

if TYPE_CHECKING:
    from lakestream.statements.status import StreamStatus


@command("init")
@click.argument("path", required=False)
@click.pass_obj
def init(session: Session, path: str | None) -> None:
    """Make a lake at PATH, else at --lake; one that is there stays."""
    from lakestream.storage.places.layout import Layout

    if path:
        session.lake = path
    layout = Layout(session.location())
    there = layout.exists()
    with session.open(create=True):
        pass
    if session.json:
        print_json({"lake": layout.root, "created": not there})
    else:
        click.echo(f"{layout.root} is a lake already" if there else f"created the lake {layout.root}")


@command("status")
@click.option(
    "--failed", is_flag=True, help="Only streams that are Failed or Retrying; status 1 when there are."
)
@click.pass_obj
def status(session: Session, failed: bool) -> int:
    """Show the state of every stream, and why it is not current."""
    with session.open() as lake:
        streams = [stream for stream in lake.streams() if stream.is_failing or not failed]
        root = str(lake.root)
    if session.json:
        print_json({"lake": root, "streams": [{**_plain(stream), "why": stream.why} for stream in streams]})
    elif streams:
        print_table(_STATUS_COLUMNS, [_status_row(stream) for stream in streams])
    else:
        click.echo("no stream has failed" if failed else "no streams")
    return 1 if failed and streams else 0


_STATUS_COLUMNS = (
    "stream",
    "status",
    "tick",
    "version",
    "lag",
    "rows in",
    "rows out",
    "late",
    "why not current",
)


def _plain(stream: StreamStatus) -> dict[str, object]:
    made = plain(stream)
    assert isinstance(made, dict), "a dataclass is made one"
    return made


def _status_row(stream: StreamStatus) -> tuple[object, ...]:
    return (
        f"{stream.database}.{stream.name}",
        stream.status,
        stream.tick,
        stream.version,
        stream.lag,
        stream.rows_in,
        stream.rows_out,
        stream.late,
        stream.why,
    )


@command("show")
@click.argument("what", type=click.Choice(["streams", "tables", "stables", "databases"]))
@click.option(
    "--database",
    "-d",
    metavar="NAME",
    shell_complete=complete_database,
    help="Of this database; else of main.",
)
@click.pass_obj
def show(session: Session, what: str, database: str | None) -> None:
    """List streams, tables, super tables or databases."""
    if database and what == "databases":
        raise click.UsageError("--database goes with streams, tables and stables")
    of = f"{quoted(database)}." if database else ""
    with session.open() as lake:
        show_result(session, lake.sql(f"SHOW {of}{what.upper()}"))
