"""``lakestream check`` and ``lakestream repair``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakestream.cli.base.output import counted, print_json, print_table
from lakestream.cli.base.session import Session, command

if TYPE_CHECKING:
    from lakestream.statements.repair import Finding

_COLUMNS = ("where", "code", "found", "remedy")


@command("check")
@click.option("--deep", is_flag=True, help="Read all data files too, and verify every output (needs Spark).")
@click.pass_obj
def check(session: Session, deep: bool) -> int:
    """Check that tables, records and outputs are whole and fit.

    Prints each finding with its remedy, and changes nothing. Leaves with status 1 when there is one.
    """
    with session.open() as lake:
        found = [*lake.repair.check(deep=deep)]
    if session.json:
        print_json({"findings": found})
    else:
        _show(found)
    return 1 if found else 0


@command("repair")
@click.pass_obj
def repair(session: Session) -> int:
    """Do the remedies of what `check` finds, once confirmed.

    Nothing is deleted: what is damaged is put aside under `_lakestream/set_aside`. Leaves with status 1 when
    something is left that has no remedy.
    """
    done: list[str] = []
    tried: set[Finding] = set()
    with session.open() as lake:
        found = [*lake.repair.check()]
        while new := [one for one in found if one.remedy and one not in tried]:
            if not session.json:
                _show(found)
            if not session.confirm(f"repair {counted(len(new), 'finding')}?"):
                break
            for finding in new:
                done += lake.repair.repair(finding)
            tried |= {*new}
            # What could not be read before may have more to tell.
            found = [one for one in lake.repair.check() if one not in tried]
    if session.json:
        print_json({"done": done, "findings": found})
    else:
        click.echo("\n".join(done) or "nothing to repair")
        if done:
            _show(found)
    return 1 if found else 0


def _show(found: list[Finding]) -> None:
    if found:
        print_table(_COLUMNS, [(one.where, one.code, one.found, one.does) for one in found])
    else:
        click.echo("nothing is wrong")
