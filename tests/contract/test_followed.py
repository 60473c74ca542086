"""Streams and views that follow every table they read, by Spark: verified, resynchronised, and at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings
from tests.properties.followed import FORMS, TABLES, World, plain, statements
from tests.properties.test_followed import ROWS
from tests.properties.views import VIEWS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

CHANGES = (
    "INSERT INTO regions VALUES ('2025-01-01 08:00:00', 'y', 21)",
    "DELETE FROM sites WHERE site = 'a'",
    "INSERT INTO sites VALUES ('2025-01-01 08:00:00', 'a', 'y', 5); DELETE FROM meters WHERE amps = 2",
)

BY_KEYS = ("top", "joined", "by_factor", "unknown")
SESSIONS = (
    "SELECT site, session_window(ts, '90 seconds').start AS low, count(*) AS n FROM meters "
    "GROUP BY session_window(ts, '90 seconds'), site"
)


@pytest.mark.long
def test_what_is_written_is_the_batch_evaluation_over_all_tables(spark: SparkSession, tmp_path: Path) -> None:
    names = ("exists", "of_group", "left_chain", "whole")
    with Lake(tmp_path, spark=spark, settings=Settings(small_path="spark")) as lake:
        lake.sql(TABLES + statements(names, history=True))
        lake.sql(f"CREATE MATERIALIZED VIEW tumbling_v AS {VIEWS['tumbling'].query}")
        for name in BY_KEYS:
            lake.sql(f"CREATE MATERIALIZED VIEW {name}_v REFRESH POLICY INCREMENTAL AS {VIEWS[name].query}")
        lake.sql(f"CREATE MATERIALIZED VIEW sessions_v REFRESH POLICY INCREMENTAL AS {SESSIONS}")
        lake.sql(ROWS)
        streams = [*(f"{name}_s" for name in names), *(f"{name}_v" for name in ("tumbling", *BY_KEYS))]
        streams.append("sessions_v")
        for change in ("", *CHANGES):
            lake.sql(change)
            lake.run()
            assert [stream for stream in streams if not lake.verify(stream).holds] == []
        lake.sql("RECALCULATE STREAM exists_s RESYNC; RECALCULATE STREAM joined_v RESYNC")
        lake.run()
        assert [stream for stream in streams if not lake.verify(stream).holds] == []
        assert {lake.verify(stream).left_out_rows for stream in streams} == {0}


@pytest.mark.parametrize("events", ["WINDOW_OPEN", "WINDOW_OPEN | WINDOW_CLOSE"])
def test_what_opens_is_the_batch_evaluation_too(spark: SparkSession, tmp_path: Path, events: str) -> None:
    options = f"STREAM_OPTIONS(FILL_HISTORY | EXACT(ALL) | EVENT_TYPE({events}))"
    rows = "meters m JOIN sites s ON s.site = m.site WHERE m.ts >= _twstart - INTERVAL 1 MINUTE"
    with Lake(tmp_path, spark=spark, settings=Settings()) as lake:
        lake.sql(TABLES)
        lake.sql(
            f"CREATE STREAM opens INTERVAL(1m) SLIDING(1m) FROM meters {options} INTO o (at, n, most) "
            f"AS SELECT _twstart, count(*), sum(s.most) FROM {rows} AND m.ts < _twend"
        )
        lake.sql(ROWS)
        seen = set()
        for change in ("", *CHANGES):
            lake.sql(change)
            lake.run()
            found = lake.verify("opens")
            assert (found.holds, found.compared_with) == (True, "the batch evaluation"), change
            seen.add(str(lake.sql("SELECT * FROM o ORDER BY at").fetchall()))
        assert len(seen) > 1


@pytest.mark.long
def test_spark_gives_what_duckdb_gives(spark: SparkSession, tmp_path: Path) -> None:
    from random import Random

    world = World(Random("by spark"))
    with Lake(tmp_path, spark=spark, settings=Settings(transport="spark")) as lake:
        lake.sql(TABLES + statements(["chain", "not_in"], history=True))
        for name in BY_KEYS:
            lake.sql(f"CREATE MATERIALIZED VIEW {name}_v AS {VIEWS[name].query}")
        for _ in range(4):
            lake.sql(world.statement())
            lake.sql(world.statement())
            lake.run()
        for name in ("chain", "not_in"):
            rows = lake.sql(f"SELECT * FROM {name}_o").fetchall()
            found = sorted((tuple(map(plain, row)) for row in rows), key=repr)
            expected = sorted((tuple(map(plain, row)) for row in world.expected(FORMS[name])), key=repr)
            assert found == expected
        for name in BY_KEYS:
            rows = lake.sql(f"SELECT * FROM {name}_v").fetchall()
            found = sorted((tuple(map(plain, row)) for row in rows), key=repr)
            ours = world.database().execute(VIEWS[name].ours or VIEWS[name].query).fetchall()
            assert found == sorted((tuple(map(plain, row)) for row in ours), key=repr)
