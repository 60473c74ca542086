"""The lake as a whole: ``init``, ``status``, ``show``. None of them starts Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from lakestream.cli.base.output import print_json, print_table
from lakestream.cli.base.session import Session, command
from lakestream.cli.sql.sql_command import show_result
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
@click.pass_obj
def status(session: Session) -> None:
    """Show the state of every stream and how far it lags."""
    with session.open() as lake:
        streams = lake.streams()
        if session.json:
            print_json({"lake": str(lake.root), "streams": streams})
            return
    if streams:
        print_table(_STATUS_COLUMNS, [_status_row(stream) for stream in streams])
    else:
        click.echo("no streams")


_STATUS_COLUMNS = ("stream", "status", "tick", "version", "lag", "rows in", "rows out", "late", "error")


def _status_row(stream: StreamStatus) -> tuple[object, ...]:
    return (
        f"{stream.database}.{stream.name}",
        _state(stream),
        stream.tick,
        stream.version,
        stream.lag,
        stream.rows_in,
        stream.rows_out,
        stream.late,
        stream.last_error or "",
    )


def _time(micros: int) -> str:
    return datetime.fromtimestamp(micros // 1_000_000, UTC).strftime("%H:%M:%S UTC")


def _state(stream: StreamStatus) -> str:
    remarks = [f"next try {_time(stream.retry_us)}"] if stream.retry_us else []
    remarks += [f"held back by {stream.held_back}"] if stream.held_back else []
    remarks += [f"recalculating: {stream.recalculating} done"] if stream.recalculating else []
    remarks += [f"waiting: {'; '.join(stream.waiting_groups)}"] if stream.waiting_groups else []
    return ", ".join([stream.status, *remarks])


@command("show")
@click.argument("what", type=click.Choice(["streams", "tables", "stables", "databases"]))
@click.option("--database", "-d", metavar="NAME", help="Of this database; else of main.")
@click.pass_obj
def show(session: Session, what: str, database: str | None) -> None:
    """List streams, tables, super tables or databases."""
    if database and what == "databases":
        raise click.UsageError("--database goes with streams, tables and stables")
    of = f"{quoted(database)}." if database else ""
    with session.open() as lake:
        show_result(session, lake.sql(f"SHOW {of}{what.upper()}"))
