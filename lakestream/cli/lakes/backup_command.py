"""``lakestream backup`` and ``lakestream restore``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from lakestream.cli.base.output import counted, print_json
from lakestream.cli.base.session import Session, command

if TYPE_CHECKING:
    from lakestream.storage.places.backup import Backup


@command("backup")
@click.argument("to")
@click.pass_obj
def backup(session: Session, to: str) -> None:
    """Copy the lake as it is now to TO, a folder or a URI.

    Ticks and statements go on meanwhile. A backup that is there is brought up to date. Tables outside of the
    lake are named, and not copied.
    """
    with session.open() as lake:
        found = lake.repair.back_up(to)
    _show(session, f"{to} holds the lake", found)


@command("restore")
@click.argument("backup")
@click.argument("path")
@click.pass_obj
def restore(session: Session, backup: str, path: str) -> None:
    """Make a lake at PATH of what `backup` has written to BACKUP.

    Its streams go on from where they stood, exactly once. Let one of the two lakes write to tables outside.
    """
    from lakestream.storage.places.backup import restore as restored

    _show(session, f"{path} is a lake", restored(backup, path))


def _show(session: Session, what: str, found: Backup) -> None:
    if session.json:
        print_json(asdict(found))
        return
    click.echo(f"{what}: {counted(found.files, 'file')}, {found.bytes:,} bytes, {found.copied:,} copied")
    for name in found.outside:
        click.echo(f"not in it: {name}, which lies elsewhere")
