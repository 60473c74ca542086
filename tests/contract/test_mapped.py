"""Databases of the tree that are tables which others write: queries, continuous queries, triggers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings
from lakestream.clock import ManualClock
from lakestream.errors import LakestreamError, StatementError
from tests import triggers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
START = datetime(2025, 1, 1, tzinfo=UTC)
SETTINGS = Settings(trigger_modules=("tests.triggers",))
MAP = "CREATE DATABASE root.ln USING TABLE readings (device = concat('root.ln.', site, '.', unit), time = at)"


class World:
    """A lake with a table that is written past it, partitioned by site."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.clock = ManualClock(START)
        triggers.log_into(root)
        self.lake = Lake(root / "lake", clock=self.clock, spark=spark, settings=SETTINGS)
        self.path = str(root / "elsewhere")
        self.write(("north", "u1", 1, 1.0), ("south", "u1", 2, 2.0))
        self.lake.sql(f"CREATE TABLE readings LOCATION '{self.path}'")

    def write(self, *rows: tuple[str | None, str, float | None, float | None]) -> None:
        """Append rows of (site, unit, second, temperature)."""
        sites, units, seconds, values = zip(*rows, strict=True)
        times = [None if s is None else START + timedelta(seconds=s) for s in seconds]
        data = {
            "site": pa.array(sites, pa.string()),
            "unit": pa.array(units, pa.string()),
            "price": pa.array([None] * len(rows), pa.decimal128(9, 2)),
            "note": pa.array([f"no. {s}" for s in seconds], pa.string()),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "temperature": pa.array(values, pa.float64()),
            "level": pa.array([7] * len(rows), pa.int16()),
        }
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(self.path, pa.table(data), mode="append", partition_by=["site"], configuration=feed)

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return self.lake.sql(text, dialect="iotdb").fetchall()

    def advance(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))
        assert not self.lake.run().failed


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> Iterator[World]:
    world = World(tmp_path, spark)
    yield world
    world.lake.close()


def at(second: int) -> datetime:
    return START + timedelta(seconds=second)


def test_rows_are_points_of_devices_that_come_and_go(world: World) -> None:
    said = world.lake.sql(MAP, dialect="iotdb").message
    assert said == "created database root.ln of main.readings: 2 devices"
    assert world.sql("SHOW DATABASES") == [("root.ln",)]
    assert world.sql("SHOW TIMESERIES root.ln.north.**") == [
        ("root.ln.north.u1.note", "TEXT", "main.readings", "note"),
        ("root.ln.north.u1.temperature", "DOUBLE", "main.readings", "temperature"),
        ("root.ln.north.u1.level", "INT32", "main.readings", "level"),
    ]
    world.write(
        ("east", "u9", 3, 3.0),
        ("east", "u9", 3, 4.0),  # two rows of a time: the greatest value
        (None, "u1", 3, 5.0),
        ("north", "u1", None, 6.0),
        ("7", "u1", 3, 7.0),  # root.ln.7.u1 is no path: it would be `7`
    )
    devices = "SELECT temperature, level FROM root.ln.** ALIGN BY DEVICE"
    assert world.sql(devices) == [
        (at(3), "root.ln.east.u9", 4.0, 7),
        (at(1), "root.ln.north.u1", 1.0, 7),
        (at(2), "root.ln.south.u1", 2.0, 7),
    ]
    assert world.sql("SELECT temperature FROM root.ln.*.u1") == [(at(1), 1.0, None), (at(2), None, 2.0)]
    DeltaTable(world.path).delete("site = 'north'")
    assert [row[1] for row in world.sql(devices)] == ["root.ln.east.u9", "root.ln.south.u1"]


def test_a_continuous_query_reads_it_and_writes_elsewhere(world: World) -> None:
    world.sql(MAP)
    world.sql(
        "CREATE CQ c RESAMPLE EVERY 10s BEGIN SELECT avg(temperature), count(temperature) "
        "INTO root.hall.::(mean, n) FROM root.ln.** GROUP BY (10s) ALIGN BY DEVICE END"
    )
    world.write(("west", "u1", 4, 4.0))
    world.advance(10)
    assert world.sql("SELECT mean, n FROM root.hall.** WHERE n > 0 ALIGN BY DEVICE") == [
        (START, f"root.hall.{site}.u1", mean, 1)
        for site, mean in (("north", 1.0), ("south", 2.0), ("west", 4.0))
    ]


def test_an_after_trigger_sees_what_is_written_since(world: World) -> None:
    trigger = (
        'CREATE STATELESS TRIGGER {0} AFTER INSERT ON {1} AS \'tests.triggers.Recorder\' WITH ("name"="{0}")'
    )
    world.sql(trigger.format("early", "root.**.temperature"))
    world.sql(trigger.format("other", "root.sg.**"))
    world.sql(MAP)
    world.sql(trigger.format("late", "root.ln.south.**"))
    world.write(("south", "u1", 3, 3.0), ("west", "u1", 3, 3.0), (None, "u1", 3, 3.0))
    world.advance(0)
    rows = [row for row in triggers.logged() if row["call"] == "fire"]
    assert sorted((row["name"], row["device"], row["measurements"], row["points"]) for row in rows) == [
        ("early", "root.ln.south.u1", "temperature", 1),
        ("early", "root.ln.west.u1", "temperature", 1),
        ("late", "root.ln.south.u1", "level,note,temperature", 3),
    ]
    assert not world.lake.run().ticks
    assert who_waits(world) == ["early", "late"]
    world.sql("DELETE DATABASE root.ln")
    assert who_waits(world) == []


def who_waits(world: World) -> list[str]:
    """Return the triggers that keep files of the table from being deleted."""
    records = world.lake._at.tree.triggers.definitions.triggers()
    return [record.name for record in records if world.path in record.versions]


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("INSERT INTO root.ln.north.u1(time, temperature) VALUES (1, 1)", "DATABASE_MAPPED"),
        ("CREATE TIMESERIES root.ln.north.u1.new DOUBLE", "DATABASE_MAPPED"),
        ("SELECT temperature INTO root.ln.copy(t) FROM root.ln.north.u1", "DATABASE_MAPPED"),
        (
            "CREATE CQ c BEGIN SELECT count(s) INTO root.ln.d(n) FROM root.sg.d GROUP BY(10s) END",
            "DATABASE_MAPPED",
        ),
        (
            "CREATE STATELESS TRIGGER t BEFORE INSERT ON root.ln.** AS 'tests.triggers.Recorder'",
            "DATABASE_MAPPED",
        ),
        ("CREATE DATABASE root.ln", "DATABASE_EXISTS"),
        ("CREATE DATABASE root.ln.north USING TABLE readings (device = site, time = at)", "DATABASE_EXISTS"),
        ("CREATE DATABASE root.x USING TABLE nosuch (device = site, time = at)", "TABLE_NOT_FOUND"),
        ("CREATE DATABASE root.x USING TABLE no.readings (device = site, time = at)", "DATABASE_NOT_FOUND"),
        ("CREATE DATABASE root.x USING TABLE root.sg (device = device, time = ts)", "NOT_SUPPORTED"),
        ("CREATE DATABASE root.x USING TABLE readings (device = site, time = nosuch)", "COLUMN_NOT_FOUND"),
        ("CREATE DATABASE root.x USING TABLE readings (device = site, time = note)", "TIME_TYPE"),
        ("CREATE DATABASE root.x USING TABLE readings (device = nosuch, time = at)", "COLUMN_NOT_FOUND"),
        ("CREATE DATABASE root.x USING TABLE readings (device = level, time = at)", "DEVICE_TYPE"),
        (
            "CREATE DATABASE root.x USING TABLE readings (device = nosuch(site), time = at)",
            "EXPRESSION_INVALID",
        ),
        (
            "CREATE DATABASE root.x USING TABLE readings (device = concat(*), time = at)".replace(
                "*", "site, unit, note, temperature, level"
            ),
            "NO_MEASUREMENTS",
        ),
        ("DELETE DATABASE root.lm", "DATABASE_NOT_FOUND"),
        ("DELETE DATABASE root.sg", "NOT_SUPPORTED"),
    ],
)
def test_what_is_refused(refusing: World, statement: str, code: str) -> None:
    with pytest.raises(LakestreamError) as refused:
        refusing.sql(statement)
    assert refused.value.code == code, refused.value.render()
    assert refused.value.place is not None
    assert "^" in refused.value.render()
    assert refusing.sql("SHOW DATABASES") == [("root.ln",), ("root.sg",)]
    assert refusing.sql("SHOW CQS") == refusing.sql("SHOW TRIGGERS") == []


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("refusing"), spark)
    world.sql(MAP)
    world.sql("CREATE TIMESERIES root.sg.d.s DOUBLE")
    yield world
    world.lake.close()


def test_the_table_outlives_the_database(world: World) -> None:
    world.sql(MAP)
    for statement in ("DROP TABLE readings", "DROP DATABASE main"):
        with pytest.raises(StatementError, match="TABLE_MAPPED"):
            world.lake.sql(statement)
    world.sql("DELETE DATABASE root.ln")
    assert world.sql("SHOW DATABASES") == world.sql("SHOW TIMESERIES") == []
    assert world.lake.sql("SELECT count(*) FROM readings").fetchall() == [(2,)]
