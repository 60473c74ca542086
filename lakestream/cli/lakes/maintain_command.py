"""``lakestream maintain``: compaction, old files, old events and old ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakestream.cli.base.output import print_json, print_table
from lakestream.cli.base.session import Session, command
from lakestream.errors import StorageError

if TYPE_CHECKING:
    from lakestream.statements.maintenance import Maintained

_COLUMNS = ("table", "files", "after", "deleted", "bytes freed", "rows deleted", "seconds", "told")


@command("maintain")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.pass_obj
def maintain(session: Session, dry_run: bool) -> None:
    """Compact tables and delete what is older than their retention.

    What a stream has still to read is left out and named. Leaves with status 74 when a table could not
    be maintained; the others are.
    """
    with session.open() as lake:
        done = lake.maintain(dry_run=dry_run)
    if session.json:
        print_json({"dry_run": dry_run, "tables": done})
    else:
        print_table(_COLUMNS, [_row(table) for table in done])
    failed = [f"{table.table}: {table.error}" for table in done if table.error]
    if failed:
        raise StorageError("MAINTENANCE_FAILED", "; ".join(failed), hint="the other tables are done")


def _row(done: Maintained) -> tuple[object, ...]:
    after = "" if done.files_after is None else done.files_after
    remark = done.error or done.left_out or ""
    freed, rows = done.bytes_freed, done.rows_deleted
    return (
        done.table,
        done.files_before,
        after,
        done.files_deleted,
        freed,
        rows,
        round(done.seconds, 2),
        remark,
    )
