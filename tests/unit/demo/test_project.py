"""The demo is a project: its files define all that it plans, and its tests of streams hold."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from click.testing import CliRunner
from rich.console import Console

from jobs.demo import project
from jobs.demo.feed import STREAMS
from lakestream import Lake, Settings
from lakestream.cli import cli

if TYPE_CHECKING:
    from pathlib import Path


def test_tables_come_first_and_streams_are_left_for_later(tmp_path: Path) -> None:
    with Lake(tmp_path / "lake", settings=Settings(durability="process")) as lake:
        plan = project.plan(lake, Console(file=io.StringIO()))
        assert {one.action for one in plan.changes} == {"new"}
        project.apply(lake, plan, streams=False)
        assert lake.sql("SHOW nyc.STABLES").fetchall() == [("flights",), ("weather",)]
        assert lake.streams() == []
        names = {one.name for one in plan.changes if one.kind == "stream"}
        assert names == {f"nyc.{stream}" for stream in STREAMS.values()}


def test_the_tests_of_its_streams_hold() -> None:
    outcome = CliRunner().invoke(cli, ["test", str(project.FOLDER / "tests")])
    assert outcome.exit_code == 0, outcome.output
