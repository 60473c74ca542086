"""``lakestream doctor``."""

from __future__ import annotations

import sys

import click

from lakestream.cli.base.names import complete_table
from lakestream.cli.base.output import print_json, wants_colour
from lakestream.cli.base.session import Session, command
from lakestream.cli.lakes.doctor import Check, Verdict, check_lake, check_machine, check_streams, check_table
from lakestream.engine.base.plain import cell
from lakestream.errors import LakestreamError

_COLOURS = {"ok": "green", "warning": "yellow", "wrong": "red"}


@command("doctor")
@click.argument("table", required=False, shell_complete=complete_table)
@click.option("--skip-keys", is_flag=True, help="Do not read the tables to look for repeated keys.")
@click.pass_obj
def doctor(session: Session, table: str | None, skip_keys: bool) -> int:
    """Check Java, jars, tables and streams; or say all of TABLE.

    Leaves with status 1 when something is wrong; warnings do not count.
    """
    checks: list[Check] = []

    def note(check: Check) -> None:
        checks.append(check)
        if not session.json:
            _show(check)

    if table is not None:
        for check in check_table(session.layout(), table, keys=not skip_keys):
            note(check)
        return _verdict(session, checks)
    for check in check_machine(session.settings):
        note(check)
    try:
        for check in check_lake(session.layout(), keys=not skip_keys):
            note(check)
        with session.open() as lake:
            for check in check_streams(lake.streams()):
                note(check)
    except LakestreamError as error:
        # Without a lake the machine alone was asked about.
        verdict: Verdict = "warning" if error.code == "LAKE_NOT_GIVEN" else "wrong"
        note(Check("lake", verdict, f"{error.code}: {error.message}", error.hint))
    return _verdict(session, checks)


def _verdict(session: Session, checks: list[Check]) -> int:
    healthy = all(check.verdict != "wrong" for check in checks)
    if session.json:
        print_json({"healthy": healthy, "checks": checks})
    return 0 if healthy else 1


def _show(check: Check) -> None:
    verdict = check.verdict.ljust(8)
    if wants_colour(sys.stdout):
        verdict = click.style(verdict, fg=_COLOURS[check.verdict])
    click.echo(f"{verdict} {cell(check.name)}: {cell(check.found)}")
    if check.hint and check.verdict != "ok":
        click.echo(f"         {cell(check.hint)}")
