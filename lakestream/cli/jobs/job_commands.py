"""``lakestream job``: the jobs of the bundle, listed and run here."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from lakestream.cli.base.output import print_json, print_table
from lakestream.cli.base.session import PROGRAM, Session, command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakestream.cli.jobs.bundle import Bundle, Task

bundle_option = click.option(
    "--bundle",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The bundle's file; else jobs/databricks.yml of this folder or of the installation.",
)


@dataclass(frozen=True)
class Outcome:
    """What became of a task; ``exit_status`` is None for one that was skipped."""

    task: str
    state: Literal["done", "failed", "skipped"]
    exit_status: int | None = None


@click.group("job")
def job() -> None:
    """List the jobs of the bundle, and run them here."""


@command("list")
@bundle_option
@click.pass_obj
def list_jobs(session: Session, bundle: Path | None) -> None:
    """List the jobs, when they run, and their parameters."""
    jobs = _open(bundle).jobs()
    if session.json:
        print_json({"jobs": jobs})
    else:
        rows = [(one.name, one.schedule or "", ", ".join(one.parameters), one.description) for one in jobs]
        print_table(("job", "schedule", "parameters", "what it does"), rows)


def _parameters(_ctx: click.Context, _param: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    pairs = [assignment.partition("=") for assignment in given]
    for assignment, (name, equals, _) in zip(given, pairs, strict=True):
        if not name or not equals:
            raise click.BadParameter(f"{assignment!r} is not NAME=VALUE")
    return {name: value for name, _, value in pairs}


@command("run")
@click.argument("name")
@click.option(
    "--param",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_parameters,
    help="A parameter of the job; may be repeated.",
)
@click.option("--target", metavar="NAME", help="A target of the bundle; else its default one.")
@bundle_option
@click.pass_obj
def run_job(
    session: Session, name: str, given: dict[str, str], target: str | None, bundle: Path | None
) -> int:
    """Run the tasks of the job NAME here, one after the other.

    A task whose predecessor has failed is skipped. Leaves with the status of the first task that
    failed. --lake and --profile stand for the parameters of these names.
    """
    found = _open(bundle)
    known = found.parameters(name)
    named = {"lake": session.lake, "profile": session.profile}
    chosen = {key: value for key, value in named.items() if value and key in known}
    tasks = found.tasks(name, target, {**chosen, **given})
    outcomes = _run_all(session, tasks)
    if session.json:
        print_json({"job": name, "tasks": outcomes})
    else:
        print_table(("task", "state", "status"), [(o.task, o.state, _shown(o)) for o in outcomes])
    return next((outcome.exit_status for outcome in outcomes if outcome.exit_status), 0)


def _shown(outcome: Outcome) -> int | str:
    return "" if outcome.exit_status is None else outcome.exit_status


def _open(path: Path | None) -> Bundle:
    from lakestream.cli.jobs.bundle import Bundle, find_bundle

    return Bundle(find_bundle(path))


def _run_all(session: Session, tasks: Sequence[Task]) -> list[Outcome]:
    done: dict[str, Outcome] = {}
    for task in tasks:
        if any(done[before].state != "done" for before in task.after):
            done[task.key] = Outcome(task.key, "skipped")
            continue
        session.say(f"{task.key}: {PROGRAM} {' '.join(task.arguments)}")
        status = _run_task(session, task)
        done[task.key] = Outcome(task.key, "failed" if status else "done", status)
    return list(done.values())


def _run_task(session: Session, task: Task) -> int:
    """Run a task in this process, which keeps Spark from starting for each; return its exit status.

    In JSON mode what it prints goes to stderr: stdout is for the one document of the job.
    """
    root = click.get_current_context().find_root().command
    shared = [f"--set={name}={value}" for name, value in session.values.items()]
    shared += ["--debug"] if session.debug else []
    shared += ["--yes"] if session.yes else []
    with contextlib.redirect_stdout(sys.stderr if session.json else sys.stdout):
        try:
            root.main([*shared, *task.arguments])
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0


job.add_command(list_jobs)
job.add_command(run_job)
