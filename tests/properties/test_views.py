"""Materialized views: a few of the histories of ``make followed``, and how they are refreshed.

All of it by the small path: no Spark is started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings
from tests.properties.followed import TABLES, without_spark
from tests.properties.views import VIEWS, differences

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = """
INSERT INTO sites VALUES ('2025-01-01 08:00:00', 'a', 'x', 1) ('2025-01-01 08:00:00', 'b', 'y', 2);
INSERT INTO meters VALUES ('2025-01-01 08:00:10', 'a', 1) ('2025-01-01 08:03:10', 'b', 2)
                          ('2025-01-01 08:09:10', 'a', 3)
"""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with without_spark(), Lake(tmp_path, settings=Settings()) as lake:
        lake.sql(TABLES + ROWS)
        yield lake


def made(lake: Lake, name: str, clauses: str = "") -> str:
    return str(lake.sql(f"CREATE MATERIALIZED VIEW {name}_v {clauses} AS {VIEWS[name].query}").message)


def refreshed(lake: Lake, name: str) -> str:
    return str(lake.sql(f"EXPLAIN MATERIALIZED VIEW {name}_v").fetchall()[0][1])


def test_random_histories_equal_the_query() -> None:
    with without_spark():
        assert differences("few", ("tumbling", "hopping", "joined", "of_view"), steps=2) == []


def test_a_view_by_windows_computes_those_that_a_change_touches(lake: Lake) -> None:
    made(lake, "tumbling")
    lake.run()
    lake.sql("INSERT INTO sites VALUES ('2025-01-01 08:00:00', 'b', 'z', 2)")
    assert [tick.rows_out for tick in lake.run().ticks] == [2]  # and that of the window that is open
    rows = lake.sql("SELECT minute(low) AS m, region, total FROM tumbling_v ORDER BY m").fetchall()
    assert rows == [(0, "x", 1), (2, "z", 2), (8, "x", 3)]
    assert refreshed(lake, "tumbling").startswith("incremental, by windows of ts")


def test_a_view_without_windows_is_computed_as_a_whole(lake: Lake) -> None:
    made(lake, "by_key")
    lake.run()
    lake.sql("DELETE FROM sites WHERE site = 'a'")
    lake.run()
    assert lake.sql("SELECT * FROM by_key_v").fetchall() == [("y", 1, 2)]
    assert "without GROUP BY window" in refreshed(lake, "by_key")
    assert lake.run().ticks == []


def test_full_says_so(lake: Lake) -> None:
    made(lake, "by_key", "PARTITIONED BY (n) COMMENT 'all of it' REFRESH POLICY FULL")
    lake.run()
    assert sorted(lake.sql("SELECT * FROM by_key_v").fetchall()) == [("x", 1, 1), ("y", 1, 2)]
    assert refreshed(lake, "by_key") == "as a whole, with each change: REFRESH POLICY FULL"


def test_refresh_takes_what_is_new(lake: Lake) -> None:
    made(lake, "by_key")
    assert lake.sql("REFRESH MATERIALIZED VIEW by_key_v").message == "refreshed main.by_key_v: 2 rows written"
    assert lake.sql("REFRESH MATERIALIZED VIEW by_key_v").message == "refreshed main.by_key_v: 0 rows written"


def test_a_view_is_replaced_and_dropped_with_its_table(lake: Lake) -> None:
    made(lake, "by_key")
    lake.run()
    lake.sql("CREATE OR REPLACE MATERIALIZED VIEW by_key_v AS SELECT site FROM sites")
    lake.run()
    assert sorted(lake.sql("SELECT * FROM by_key_v").fetchall()) == [("a",), ("b",)]
    lake.sql("DROP MATERIALIZED VIEW by_key_v")
    assert "by_key_v" not in str(lake.sql("SHOW TABLES").fetchall())
