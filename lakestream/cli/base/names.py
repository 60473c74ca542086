"""Names of streams and tables on the command line, and what completes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakestream.cli.base.session import Session
from lakestream.errors import LakestreamError
from lakestream.language.quoting import quoted
from lakestream.sorting import natural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lakestream.lake import Lake


def _completed(
    ctx: click.Context, incomplete: str, names: Callable[[Lake], Iterable[tuple[str, str]]]
) -> list[str]:
    """Return names, with and without their database, that begin so; none when there is no lake to ask."""
    try:
        with ctx.ensure_object(Session).open() as lake:
            found = [name for database, name in names(lake) for name in (name, f"{database}.{name}")]
    except LakestreamError:
        return []
    return [name for name in found if name.startswith(incomplete)]


def complete_stream(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the lake's streams that begin so."""
    return _completed(ctx, incomplete, lambda lake: [(s.database, s.name) for s in lake.streams()])


def complete_streams(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return lists of streams, with commas between them, of which the last one is completed."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in complete_stream(ctx, param, last)]


def complete_table(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the lake's tables and super tables that begin so."""
    return _completed(ctx, incomplete, _tables)


def complete_database(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the lake's databases that begin so."""
    try:
        with ctx.ensure_object(Session).open() as lake:
            names = [name for (name,) in lake.sql("SHOW DATABASES").fetchall()]
    except LakestreamError:
        return []
    return [name for name in names if name.startswith(incomplete)]


def complete_environment(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the environments that begin so: of databases called ``DATABASE__NAME``."""
    known = {name.partition("__")[2] for name in complete_database(ctx, param, "")} - {""}
    return sorted((name for name in known if name.startswith(incomplete)), key=natural)


def _tables(lake: Lake) -> list[tuple[str, str]]:
    return [
        (database, row[0])
        for (database,) in lake.sql("SHOW DATABASES").fetchall()
        for what in ("TABLES", "STABLES")
        for row in lake.sql(f"SHOW {quoted(database)}.{what}").fetchall()
    ]


def _listed(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, ...] | None:
    if value == "*":
        return None
    names = tuple(name.strip() for name in value.split(","))
    if not all(names):
        raise click.BadParameter(f"{value!r} has no name in a place; * is all streams")
    return names


streams_option = click.option(
    "--streams",
    default="*",
    metavar="NAMES",
    callback=_listed,
    shell_complete=complete_streams,
    help="Only these streams, with commas between them; * is all.",
)
