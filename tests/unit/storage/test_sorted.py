"""Lists stand as people expect them: ``hourly_2`` before ``hourly_10``."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from lakestream.errors import LakestreamError, did_you_mean
from lakestream.sorting import natural

if TYPE_CHECKING:
    from pathlib import Path


def test_numbers_in_names_stand_by_their_size() -> None:
    names = ["1", "2", "10", "10a", "a1", "a1b1", "a1b2", "A1b10", "a2", "b"]
    for _ in range(20):
        assert sorted(Random(7).sample(names, len(names)), key=natural) == names


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake")
    lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT); CREATE STABLE s (ts TIMESTAMP, v INT) TAGS (k INT)")
    for number in (10, 2, 1, 20):
        lake.sql(
            f"CREATE STREAM hourly_{number} INTERVAL(1h) SLIDING(1h) FROM t INTO out_{number} "
            "AS SELECT _twstart, count(*) AS n FROM %%trows"
        )
        lake.sql(f"CREATE TABLE d{number} USING s TAGS ({number}); CREATE DATABASE plant_{number}")
    return lake


def test_lists_of_a_lake_stand_so(lake: Lake) -> None:
    def first(statement: str) -> list[str]:
        return [row[1 if statement == "SHOW STREAMS" else 0] for row in lake.sql(statement).fetchall()]

    with lake:
        streams = ["hourly_1", "hourly_2", "hourly_10", "hourly_20"]
        assert first("SHOW STREAMS") == streams
        assert [status.name for status in lake.streams()] == streams
        assert first("SHOW TABLES") == ["d1", "d2", "d10", "d20", "out_1", "out_2", "out_10", "out_20", "t"]
        assert first("SHOW DATABASES") == ["main", "plant_1", "plant_2", "plant_10", "plant_20"]
        lineage = lake.lineage()
        assert [one.stream for one in lineage.streams] == [f"main.{name}" for name in streams]
        assert [name for name, _ in lineage.tables] == [f"main.out_{n}" for n in (1, 2, 10, 20)] + ["main.t"]


def test_hints_and_places_of_names_that_are_not_there(lake: Lake) -> None:
    def refused(statement: str) -> LakestreamError:
        with pytest.raises(LakestreamError) as caught:
            lake.sql(statement)
        return caught.value

    with lake:
        assert did_you_mean("zzz", ["hourly_10", "hourly_2"]) == "known: hourly_2, hourly_10"
        assert refused("START STREAM hourly").hint == "did you mean hourly_1 or hourly_2 or hourly_20?"
        for statement, name in (
            ("START STREAM hourli", "hourli"),
            ("INSERT INTO main.nothing VALUES (1, 2)", "main.nothing"),
            ("ALTER TABLE nothing ADD COLUMN x INT", "nothing"),
            ("DESCRIBE `no such`", "`no such`"),
        ):
            place = refused(statement).place
            assert place is not None, statement
            assert statement.index(name) + 1 == place.column, statement
