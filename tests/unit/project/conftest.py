"""A project in a folder of its own, and a lake that no disk waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings
from lakestream.project.applying import apply_plan
from lakestream.project.files import read_project
from lakestream.project.planning import make_plan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakestream.project.applying import Outcome
    from lakestream.project.plan import Change, Plan

READINGS = "CREATE STABLE readings (ts TIMESTAMP, celsius DOUBLE) TAGS (room VARCHAR(20));"


def stream(
    name: str = "hourly", calculation: str = "avg(celsius) AS warmth", source: str = "readings"
) -> str:
    return (
        f"CREATE STREAM {name}_stream INTERVAL(1h) SLIDING(1h) FROM {source} STREAM_OPTIONS(FILL_HISTORY)\n"
        f"  INTO {name} AS SELECT _twstart AS {name}_at, {calculation} FROM %%trows;"
    )


class Project:
    """A folder of files and a lake."""

    def __init__(self, folder: Path, lake: Lake) -> None:
        self.folder = folder
        self.lake = lake
        self.write("lakestream.toml", "")

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text, encoding="utf-8")

    def plan(
        self, environment: str | None = None, *, prune: bool = False, profile: str | None = None
    ) -> Plan:
        return make_plan(read_project(self.folder, profile), self.lake, environment, prune=prune)

    def actions(self, environment: str | None = None, *, prune: bool = False) -> dict[str, str]:
        return {one.name: one.action for one in self.plan(environment, prune=prune).changes}

    def change(self, name: str, environment: str | None = None) -> Change:
        return next(one for one in self.plan(environment).changes if one.name == name)

    def apply(self, environment: str | None = None, *, prune: bool = False) -> list[Outcome]:
        made = self.plan(environment, prune=prune)
        return [*apply_plan(made, lambda text, dialect: self.lake.sql(text, dialect=dialect))]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with Lake(tmp_path / "lake", settings=Settings(durability="process")) as lake:
        yield Project(tmp_path / "project", lake)
