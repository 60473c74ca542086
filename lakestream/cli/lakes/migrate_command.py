"""``lakestream migrate``: outputs of earlier versions in the layout that new ones have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakestream.cli.base.names import complete_stream
from lakestream.cli.base.output import print_json, print_table
from lakestream.cli.base.session import Session, command
from lakestream.errors import StorageError

if TYPE_CHECKING:
    from lakestream.statements.migration import Migrated

_COLUMNS = ("stream", "output", "verdict", "dropped", "added", "rows", "told")


@command("migrate")
@click.argument("streams", nargs=-1, metavar="[STREAM]...", shell_complete=complete_stream)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.pass_obj
def migrate(session: Session, streams: tuple[str, ...], dry_run: bool) -> None:
    """Write outputs of earlier versions in the layout of new ones.

    Those of all streams, or of the streams that are named. What stays as it is, is named with the reason.
    Leaves with status 74 when an output could not be written; the others are.
    """
    with session.open() as lake:
        done = lake.migrate(*streams, dry_run=dry_run)
    if session.json:
        print_json({"dry_run": dry_run, "streams": done})
    else:
        print_table(_COLUMNS, [_row(one) for one in done])
    failed = [f"{one.stream}: {one.why}" for one in done if one.verdict == "failed"]
    if failed:
        raise StorageError("MIGRATION_FAILED", "; ".join(failed), hint="the others are done; say it again")


def _row(one: Migrated) -> tuple[object, ...]:
    dropped, added = ", ".join(one.dropped), ", ".join(one.added)
    return one.stream, one.output or "", one.verdict, dropped, added, one.rows, one.why or ""
