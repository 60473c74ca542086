"""``lakestream plan`` and ``apply``: a project's files and the lake, compared and made the same."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from lakestream.cli.base.failures import show_error
from lakestream.cli.base.names import complete_environment
from lakestream.cli.base.output import counted, print_json, print_table
from lakestream.cli.base.session import Session, command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakestream.lake import Lake
    from lakestream.project.applying import Outcome
    from lakestream.project.plan import Change, Plan

CHANGES = 2
"""The exit status of a plan with something to do."""

_SHOWN = {"left": "left as it is", "unlisted": "not in the files"}


_environment_option = click.option(
    "--env",
    "environment",
    metavar="NAME",
    shell_complete=complete_environment,
    help="Streams and outputs of their own, in databases called DATABASE__NAME, over the same tables.",
)
_prune_option = click.option("--prune", is_flag=True, help="Drop what is in the lake and not in the files.")


@command("plan")
@_environment_option
@_prune_option
@click.pass_obj
def plan(session: Session, environment: str | None, prune: bool) -> int:
    """Compare the project in this folder with the lake; nothing is changed.

    Leaves with status 0 when the lake is as the files say, 2 when something is to be done, and 1 when
    something is wrong with the files, or cannot be done.
    """
    made = _made(session, environment, prune)
    if session.json:
        print_json(made.to_dict())
    else:
        _show(session, made)
    if made.refused:
        return 1
    return CHANGES if made.has_changes else 0


@command("apply")
@_environment_option
@_prune_option
@click.pass_obj
def apply(session: Session, environment: str | None, prune: bool) -> int:
    """Make the lake as the project in this folder says, after asking.

    What fails leaves its table or stream as it was, and others go on; the next time does what is left.
    Leaves with status 1 when something failed.
    """
    from lakestream.project.applying import apply_plan

    made = _made(session, environment, prune)
    if not session.json:
        _show(session, made)
    count = sum(change.is_change for change in made.changes)
    if not count:
        return _tell(session, made, [])
    if not session.confirm(f"Make {counted(count, 'change')} to {made.lake}?"):
        session.say("nothing was applied")
        return 1
    session.open(create=True).close()
    with session.statements() as lake:
        outcomes = []
        for outcome in apply_plan(made, lambda text, dialect: lake.sql(text, dialect=dialect)):
            outcomes.append(outcome)
            _show_outcome(session, outcome)
    return _tell(session, made, outcomes)


def _made(session: Session, environment: str | None, prune: bool) -> Plan:
    """Return the plan of the working directory's project."""
    from lakestream.project.files import read_project
    from lakestream.project.planning import make_plan
    from lakestream.settings import profile_name

    statements = read_project(Path(), profile_name({"profile": session.profile}))
    with _lake(session) as lake:
        made = make_plan(statements, lake, environment, prune=prune)
    return replace(made, lake=session.location())


@contextmanager
def _lake(session: Session) -> Iterator[Lake]:
    """Open the lake to look at it, one that is not there yet as an empty one."""
    from lakestream.lake import Lake
    from lakestream.storage.places.layout import Layout

    if Layout(session.location()).exists():
        with session.open() as lake:
            yield lake
        return
    with TemporaryDirectory() as folder, Lake(folder, settings=session.settings()) as lake:
        yield lake


def _show(session: Session, made: Plan) -> None:
    rows = [(one.kind, one.name, _SHOWN.get(one.action, one.action), _note(one)) for one in made.changes]
    where = f"{made.lake}, environment {made.environment}" if made.environment else made.lake
    session.say(f"lake: {where}")
    print_table(("what", "name", "plan", ""), rows)
    for change in made.changes:
        for clause, before, after in change.clauses:
            click.echo(f"\n{change.name}, {clause}:\n  - {before}\n  + {after}")
    for change in made.refused:
        if change.error is not None:
            click.echo(err=True)
            show_error(change.error)


def _note(change: Change) -> str:
    clauses = ", ".join(clause for clause, _, _ in change.clauses)
    return "; ".join(filter(None, [clauses, change.note, change.error.message if change.error else ""]))


def _show_outcome(session: Session, outcome: Outcome) -> None:
    if session.json:
        return
    name = f"{outcome.change.kind} {outcome.change.name}"
    if outcome.error is not None:
        click.echo(f"failed: {name}", err=True)
        show_error(outcome.error)
    elif outcome.because_of is not None:
        click.echo(f"skipped: {name}, which needs {outcome.because_of}", err=True)
    else:
        click.echo(f"{outcome.change.action}: {name}{f' ({outcome.message})' if outcome.message else ''}")


def _tell(session: Session, made: Plan, outcomes: list[Outcome]) -> int:
    """Say what was done in all, and return the exit status."""
    failed = sum(outcome.outcome != "done" for outcome in outcomes)
    if session.json:
        found = {"lake": made.lake, "environment": made.environment}
        print_json({**found, "failed": failed, "items": [outcome.to_dict() for outcome in outcomes]})
    elif not outcomes:
        click.echo("the lake is as the files say")
    else:
        click.echo(
            f"{counted(len(outcomes) - failed, 'change')} made" + (f", {failed} not" if failed else "")
        )
    return 1 if failed else 0
