"""``lakestream new``: the files of a project."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from lakestream.cli.base.output import print_json
from lakestream.cli.base.session import PROGRAM, Session, command

_NEXT = ("test", "plan", "apply", "run", "status")


@command("new")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.pass_obj
def new(session: Session, folder: Path) -> None:
    """Make a project in DIR: files that define tables and streams, which work as they stand."""
    from lakestream.project.skeletons import new_project

    made = new_project(folder)
    if session.json:
        print_json({"project": str(folder.absolute()), "files": made})
        return
    click.echo(f"made a project of {len(made)} files in {folder}; go on with\n")
    click.echo("\n".join([f"  cd {shlex.quote(str(folder))}", *(f"  {PROGRAM} {name}" for name in _NEXT)]))
