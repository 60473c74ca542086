"""Comments of tables and columns: given by statements, carried into outputs, followed there, shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from lakestream.errors import NotSupportedError, StatementError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = """
CREATE TABLE temps (ts TIMESTAMP, room VARCHAR(10) COMMENT 'the room''s name', v DOUBLE COMMENT 'in °C')
  COMMENT 'readings';
CREATE TABLE rooms (ts TIMESTAMP, room VARCHAR(10), floor INT COMMENT 'counted from 0');
INSERT INTO rooms VALUES ('2026-01-01 00:00:00', 'a', 1);
"""
STREAM = """
CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM temps PARTITION BY room {} INTO o {} AS
  SELECT t.ts AS at, t.v AS value, t.v * 2 AS twice, r.floor AS level
  FROM temps t JOIN rooms r ON t.room = r.room WHERE t.ts >= _twstart AND t.ts < _twend
"""


def run(lake: Lake, script: str) -> None:
    for statement in filter(str.strip, script.split(";")):
        lake.sql(statement)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake")
    run(lake, TABLES)
    return lake


def insert(lake: Lake, *minutes: int) -> None:
    rows = " ".join(f"('2026-01-01 00:{minute:02d}:00', 'a', {minute})" for minute in minutes)
    lake.sql(f"INSERT INTO temps VALUES {rows}")
    assert not lake.run().failed


def columns(lake: Lake, table: str = "o") -> dict[str, str]:
    return {name: comment for name, _, _, comment in lake.sql(f"DESCRIBE {table}").fetchall() if comment}


def about(lake: Lake, table: str = "o") -> str:
    return lake.sql(f"DESCRIBE {table}").message


CARRIED = {"value": "in °C", "level": "counted from 0", "room": "the room's name"}


def test_an_output_has_the_comments_of_what_its_columns_are(lake: Lake) -> None:
    lake.sql(STREAM.format("", ""))
    assert columns(lake) == CARRIED
    assert about(lake) == "main.o: from main.temps: readings"
    [entry] = Path(lake.root, "main", "o", "_delta_log").glob("*.json")  # with the table itself
    assert "counted from 0" in entry.read_text("utf-8")


def test_comments_of_the_statement_are_its_own(lake: Lake) -> None:
    lake.sql(STREAM.format("", "TAGS (room VARCHAR(10) COMMENT 'mine' AS room)"))
    assert columns(lake) == CARRIED | {"room": "mine"}
    lake.sql("CREATE MATERIALIZED VIEW all_rooms COMMENT 'of the house' AS SELECT room, floor FROM rooms")
    assert about(lake, "all_rooms") == "main.all_rooms: of the house"


@pytest.mark.parametrize("closed", [False, True])
def test_outputs_follow_comments_that_are_changed(lake: Lake, closed: bool) -> None:
    lake.sql(STREAM.format("", ""))
    lake.sql(
        "CREATE STREAM next INTERVAL(1h) SLIDING(1h) FROM o PARTITION BY level INTO p AS "
        "SELECT _twstart AS w, count(*) AS n FROM %%trows"
    )
    insert(lake, 1, 2)
    if closed:
        lake.close()
        lake = Lake(lake.root)
    run(
        lake,
        """
        COMMENT ON TABLE temps IS 'all readings'; COMMENT ON COLUMN temps.v IS 'in K';
        ALTER TABLE temps ALTER COLUMN room COMMENT ''; ALTER TABLE rooms ALTER floor COMMENT 'from 1'
    """,
    )
    assert columns(lake) == CARRIED
    insert(lake, 3, 4)
    lake.run()
    assert columns(lake) == {"value": "in K", "level": "from 1"}
    assert about(lake) == "main.o: from main.temps: all readings"
    assert columns(lake, "p") == {"level": "from 1"}
    assert about(lake, "p") == "main.p: from main.o: from main.temps: all readings"
    assert lake.sql("SELECT count(*) FROM o").fetchall() == [(3,)]


def test_a_comment_that_somebody_gave_an_output_stays(lake: Lake) -> None:
    lake.sql(STREAM.format("", ""))
    run(lake, "COMMENT ON COLUMN o.value IS 'warmth'; COMMENT ON TABLE main.o IS 'mine'")
    run(lake, "COMMENT ON COLUMN main.temps.v IS 'in K'; ALTER TABLE temps COMMENT 'others'")
    insert(lake, 1, 2)
    assert columns(lake) == CARRIED | {"value": "warmth"}
    assert about(lake) == "main.o: mine"
    lake.sql("COMMENT ON TABLE o IS NULL")
    assert about(lake) == ""


def test_a_quarantine_has_and_follows_them(lake: Lake) -> None:
    expects = "EXPECT warm CHECK (v > 0) ON VIOLATION QUARANTINE"
    lake.sql(STREAM.format(expects, ""))
    insert(lake, 1, 2)
    assert columns(lake, "s__quarantine") == {"room": "the room's name", "v": "in °C"}
    lake.sql("COMMENT ON COLUMN temps.v IS 'in K'")
    insert(lake, 3)
    assert columns(lake, "s__quarantine") == {"room": "the room's name", "v": "in K"}


def test_comments_are_followed_whatever_is_killed(lake: Lake) -> None:
    lake.sql(STREAM.format("", ""))
    insert(lake, 1, 2)
    lake.sql("COMMENT ON COLUMN temps.v IS 'in K'")
    lake.sql("INSERT INTO temps VALUES ('2026-01-01 00:03:00', 'a', 3)")
    with pytest.raises(SimulatedCrash), crash_at("C2"):
        lake.run()
    again = Lake(lake.root)
    again.run()
    assert columns(again) == CARRIED | {"value": "in K"}
    assert again.sql("SELECT count(*) FROM o").fetchall() == [(2,)]


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("COMMENT ON TABLE nothing IS 'x'", "TABLE_NOT_FOUND"),
        ("COMMENT ON COLUMN temps.w IS 'x'", "COLUMN_NOT_FOUND"),
        ("COMMENT ON STREAM s IS 'x'", "SYNTAX"),
    ],
)
def test_what_is_not_there_has_no_comment(lake: Lake, statement: str, code: str) -> None:
    with pytest.raises(StatementError) as caught:
        lake.sql(statement)
    assert caught.value.code == code


def test_subtables_have_the_comments_of_their_super_table(lake: Lake) -> None:
    run(
        lake,
        """
        CREATE STABLE m (ts TIMESTAMP, v INT) TAGS (hall VARCHAR(8) COMMENT 'of the plant') COMMENT 'meters';
        CREATE TABLE m1 USING m TAGS ('A')
    """,
    )
    assert about(lake, "m1") == "main.m: meters"
    assert columns(lake, "m1") == {"hall": "of the plant"}
    with pytest.raises(NotSupportedError, match="m1"):
        lake.sql("COMMENT ON TABLE m1 IS 'x'")


@pytest.mark.spark
def test_an_output_that_spark_alone_writes_follows_too(tmp_path: Path, spark: SparkSession) -> None:
    lake = Lake(tmp_path / "lake", spark=spark)
    run(lake, TABLES)
    lake.sql(STREAM.format("", "").replace("INTO o", "INTO o CLUSTER BY (at)"))
    assert columns(lake) == CARRIED
    insert(lake, 1, 2)
    run(lake, "COMMENT ON COLUMN temps.v IS 'it''s $v'; COMMENT ON TABLE temps IS 'new'")
    lake.sql("COMMENT ON COLUMN o.level IS 'mine'")
    insert(lake, 3)
    assert columns(lake) == CARRIED | {"value": "it's $v", "level": "mine"}
    assert about(lake) == "main.o: from main.temps: new"
