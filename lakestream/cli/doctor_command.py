"""``lakestream doctor``."""

from __future__ import annotations

import sys

import click

from lakestream.cli.doctor import Check, Verdict, check_lake, check_machine, check_streams
from lakestream.cli.output import cell, print_json, wants_colour
from lakestream.cli.session import Session, command
from lakestream.errors import LakestreamError

_COLOURS = {"ok": "green", "warning": "yellow", "wrong": "red"}


@command("doctor")
@click.option("--skip-keys", is_flag=True, help="Do not read the tables to look for repeated keys.")
@click.pass_obj
def doctor(session: Session, skip_keys: bool) -> int:
    """Check Java, jars, versions, tables and streams.

    Leaves with status 1 when something is wrong; warnings do not count.
    """
    checks: list[Check] = []

    def note(check: Check) -> None:
        checks.append(check)
        if not session.json:
            _show(check)

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
