"""The project of the demo: ``tables/`` at the top, planned against the lake and applied in two parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lakestream.project.applying import apply_plan
from lakestream.project.files import read_project
from lakestream.project.planning import make_plan

if TYPE_CHECKING:
    from rich.console import Console

    from lakestream.lake import Lake
    from lakestream.project.plan import Plan

FOLDER = Path(__file__).parents[2] / "tables"


def plan(lake: Lake, console: Console) -> Plan:
    """Compare the files with the lake, and print what is to be made."""
    made = make_plan(read_project(FOLDER), lake)
    for change in made.changes:
        console.print(f"{change.kind:<9} {change.name:<30} {change.action}")
    return made


def apply(lake: Lake, made: Plan, *, streams: bool) -> None:
    """Make the streams of a plan, or all else; raises the first error.

    The demo loads January between the two: streams begin with the rows that are there.
    """
    part = replace(made, changes=tuple(one for one in made.changes if (one.kind == "stream") is streams))
    for outcome in apply_plan(part, lambda text, dialect: lake.sql(text, dialect=dialect)):
        if outcome.error is not None:
            raise outcome.error
