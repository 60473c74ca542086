"""A source whose folder was moved or renamed: found again by its table id, and taken from there; no Spark."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.faults

FEED = {"delta.enableChangeDataFeed": "true"}


class World:
    """A lake with a stream of a table outside, ``here/data/theirs``, of a minute a commit."""

    def __init__(self, root: Path) -> None:
        self.root, self.minutes = root, 0
        self.place = root / "here" / "data" / "theirs"
        self.append(self.place)
        self.lake = Lake(root / "lake")
        self.lake.sql(
            f"CREATE TABLE a LOCATION '{self.place}'; "
            "CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM a STREAM_OPTIONS(EXACT | FILL_HISTORY) INTO o "
            "AS SELECT _twstart AS w, sum(v) AS s FROM %%trows"
        )
        self.lake.run()

    def append(self, place: Path) -> None:
        rows = {"ts": [datetime(2026, 1, 1, 0, self.minutes, tzinfo=UTC)], "v": [self.minutes]}
        write_deltalake(place, pa.table(rows), mode="append", configuration=FEED)
        self.minutes += 1

    def state(self) -> str:
        [found] = self.lake.streams()
        return f"{found.status} {(found.last_error or '').partition(':')[0]}".strip()

    def sums(self) -> list[int]:
        return sorted(DeltaTable(self.root / "lake/main/o").to_pyarrow_table()["s"].to_pylist())

    def moved(self, folder: Path, to: Path) -> Path:
        """Move a folder on the way to the table, and return where that lies then; a tick has seen it."""
        to.parent.mkdir(exist_ok=True)
        folder.rename(to)
        place = to / self.place.relative_to(folder)
        self.append(place)
        self.lake.run()
        assert self.state() == "Failed TABLE_NOT_FOUND"
        return place


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.lake.close()


@pytest.mark.parametrize(
    ("folder", "to"),
    [
        ("here/data/theirs", "here/data/renamed"),
        pytest.param("here/data/theirs", "here/data/old/theirs", marks=pytest.mark.long),
        pytest.param("here/data", "here/elsewhere", marks=pytest.mark.long),
        pytest.param("here", "there", marks=pytest.mark.long),
    ],
)
def test_its_name_leads_to_where_it_lies(world: World, folder: str, to: str) -> None:
    place = world.moved(world.root / folder, world.root / to)
    [finding] = world.lake.repair.check()
    assert (finding.where, finding.code, finding.remedy) == ("main.a", "TABLE_NOT_FOUND", "reattach")
    assert str(place) in finding.found
    world.lake.repair.repair(finding)
    world.append(place)
    world.lake.run()
    assert world.state() == "Running"
    assert world.sums() == [*range(world.minutes - 1)]
    assert [*world.lake.repair.check()] == []


def test_of_several_that_are_it_none_is_taken(world: World) -> None:
    place = world.moved(world.place, world.place.with_name("moved"))
    shutil.copytree(place, place.with_name("copied"))
    [finding] = world.lake.repair.check()
    assert (finding.where, finding.remedy) == ("main.a", "")
    shutil.rmtree(place.with_name("copied"))
    shutil.rmtree(place)
    write_deltalake(place, pa.table({"v": [1]}))  # another table is none of its id
    [finding] = world.lake.repair.check()
    assert (finding.where, finding.code, finding.remedy) == ("main.s", "TABLE_NOT_FOUND", "")
