"""Materialized views: a few of the histories of ``make followed``, and how they are refreshed.

All of it by the small path: no Spark is started.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings
from lakestream.compute.windows.keyed.leads import OF_A_VIEW
from lakestream.errors import StreamError
from tests.properties import loads, nexmark, tpch
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
        assert differences("few", ("tumbling", "hopping", "of_all", "of_view"), steps=2) == []
        assert differences("groups", ("by_site", "by_number"), steps=2) == []
        assert differences("sessions", ("sessions", "sessions_of_all"), steps=2) == []
        assert differences("keys", ("joined", "by_factor", "first_of_region", "unknown"), steps=2) == []
        assert differences("united", ("united_once", "united_groups"), steps=2) == []
        assert differences("pairs", ("full_joined", "full_groups", "without_others", "in_both"), 2) == []
        assert differences("forms", ("right_joined", "renamed", "beyond_the_most"), steps=2) == []


@pytest.mark.parametrize("name", ["tumbling", "by_site", "sessions", "by_key", "united_once", "of_all"])
def test_a_list_of_columns_names_what_the_query_shows(lake: Lake, name: str) -> None:
    shown = lake.sql(made(lake, name) and f"SELECT * FROM {name}_v").columns
    names = [f"c{number}" for number, _ in enumerate(shown)]
    listed = ", ".join([f"{names[0]} COMMENT 'the first'", *names[1:]])
    lake.sql(f"CREATE MATERIALIZED VIEW l ({listed}) PARTITIONED BY (c0) AS {VIEWS[name].query}")
    for change in ("", "DELETE FROM meters WHERE amps = 2", "UPDATE sites SET region = 'x' WHERE most = 2"):
        lake.sql(change)
        lake.run()
        found = lake.sql("SELECT * FROM l")
        assert list(found.columns) == names
        assert sorted(found.fetchall(), key=repr) == sorted(
            lake.sql(f"SELECT * FROM {name}_v").fetchall(), key=repr
        )
    assert lake.sql("DESCRIBE MATERIALIZED VIEW l").fetchall()[0][3] == "the first"


@pytest.mark.parametrize("name", VIEWS)
def test_no_view_of_these_asks_for_spark(lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    if "tumbling_v" in VIEWS[name].query:
        made(lake, "tumbling")
    made(lake, name)


def test_a_limit_within_takes_the_first_rows_of_its_order(lake: Lake) -> None:
    most = "SELECT most FROM sites ORDER BY most DESC LIMIT 1"
    lake.sql(
        f"CREATE MATERIALIZED VIEW more AS SELECT m.amps FROM meters m, ({most}) s WHERE m.amps > s.most"
    )
    lake.run()
    assert lake.sql("SELECT * FROM more").fetchall() == [(3,)]


def test_rows_that_are_alike_come_in_the_order_of_what_is_shown(lake: Lake) -> None:
    numbered = "SELECT *, row_number() OVER (PARTITION BY site ORDER BY amps) AS n FROM meters"
    lake.sql(f"""
        CREATE MATERIALIZED VIEW least AS SELECT ts, site FROM meters ORDER BY amps LIMIT 1;
        CREATE MATERIALIZED VIEW firsts AS SELECT ts, site FROM ({numbered}) WHERE n = 1;
        INSERT INTO meters VALUES ('2025-01-01 08:00:05', 'a', 1)
    """)
    lake.run()
    lake.sql("INSERT INTO meters VALUES ('2025-01-01 08:00:03', 'a', 1) ('2025-01-01 08:00:07', 'a', 1)")
    lake.run()
    least = [(datetime(2025, 1, 1, 8, 0, 3, tzinfo=UTC), "a")]
    assert lake.sql("SELECT * FROM least").fetchall() == least
    assert lake.sql("SELECT * FROM firsts WHERE site = 'a'").fetchall() == least


@pytest.mark.long
def test_views_in_the_shape_of_tpch_under_refreshes() -> None:
    with without_spark():
        assert loads.differences(tpch.World(Random("few")), (*tpch.QUERIES,), steps=2) == []


@pytest.mark.long
def test_views_of_nexmark_under_changes_of_each_table() -> None:
    with without_spark():
        assert loads.differences(nexmark.World(Random("few")), (*nexmark.QUERIES,), steps=2) == []


def test_a_view_by_windows_computes_those_that_a_change_touches(lake: Lake) -> None:
    made(lake, "tumbling")
    lake.run()
    lake.sql("INSERT INTO sites VALUES ('2025-01-01 08:00:00', 'b', 'z', 2)")
    assert [tick.rows_out for tick in lake.run().ticks] == [2]  # and that of the window that is open
    rows = lake.sql("SELECT minute(low) AS m, region, total FROM tumbling_v ORDER BY m").fetchall()
    assert rows == [(0, "x", 1), (2, "z", 2), (8, "x", 3)]
    assert refreshed(lake, "tumbling").startswith("incremental, by windows of ts")


def test_a_view_by_windows_and_columns_computes_their_groups_alone(lake: Lake) -> None:
    made(lake, "by_site", "REFRESH POLICY INCREMENTAL")
    lake.sql("INSERT INTO meters VALUES ('2025-01-01 08:00:20', 'b', 5) ('2025-01-01 08:00:30', 'c', 6)")
    lake.run()
    lake.sql("INSERT INTO meters VALUES ('2025-01-01 08:00:40', 'c', 7)")
    assert [(tick.windows, tick.rows_out) for tick in lake.run().ticks] == [(1, 1)]
    lake.sql("INSERT INTO sites VALUES ('2025-01-01 08:00:00', 'a', 'z', 2)")
    assert [(tick.windows, tick.rows_out) for tick in lake.run().ticks] == [(2, 2)]
    rows = lake.sql(
        "SELECT minute(low) AS m, site, region, n, most FROM by_site_v ORDER BY m, site"
    ).fetchall()
    assert rows == [(0, "a", "z", 1, 1), (0, "b", "y", 1, 5), (0, "c", None, 2, 7), (2, "b", "y", 1, 2),
                    (8, "a", "z", 1, 3)]  # fmt: skip
    said = "incremental, by windows of ts and the keys site: those that a change touches"
    assert refreshed(lake, "by_site") == said


def test_a_view_by_sessions_computes_those_that_a_change_touches(lake: Lake) -> None:
    made(lake, "sessions", "REFRESH POLICY INCREMENTAL")
    lake.run()
    lake.sql("INSERT INTO meters VALUES ('2025-01-01 08:00:50', 'a', 7)")
    assert [(tick.windows, tick.rows_out) for tick in lake.run().ticks] == [(1, 1)]
    lake.sql("UPDATE meters SET amps = 0 WHERE amps = 1")
    lake.run()
    rows = lake.sql("SELECT site, minute(low) AS m, second(low) AS s, second(high) AS h, n FROM sessions_v")
    assert sorted(rows.fetchall()) == [("a", 0, 50, 30, 1), ("a", 9, 10, 50, 1), ("b", 3, 10, 50, 1)]
    assert refreshed(lake, "sessions").startswith("incremental, by windows of ts and the keys site:")


def test_a_view_that_knew_no_groups_goes_on_without(lake: Lake) -> None:
    made(lake, "by_site")
    record = lake._at.registry.stream("main", "by_site_v")
    lake._at.registry.update(record.uuid, compiled=replace(record.compiled, group_types=()))
    lake.run()
    lake.sql("INSERT INTO meters VALUES ('2025-01-01 08:00:20', 'b', 5)")
    assert [tick.rows_out for tick in lake.run().ticks] == [3]  # and that of the window that is open
    assert refreshed(lake, "by_site").startswith("incremental, by windows of ts: those")


def test_a_table_that_is_made_again_with_another_type_is_not_taken_for_the_first_one(lake: Lake) -> None:
    lake.sql(
        f"{ROWS}; CREATE MATERIALIZED VIEW v AS SELECT m.amps, s.most FROM meters m JOIN sites s USING (site)"
    )
    lake.run()
    lake.sql(
        "DROP TABLE sites; CREATE TABLE sites (ts TIMESTAMP, site VARCHAR(4) COMPOSITE KEY, most BIGINT)"
    )
    lake.run()
    assert "SOURCE_REPLACED" in str(lake.streams()[0].last_error)
    with pytest.raises(StreamError, match=r"one of .*meters, .*sites gives a column of type bigint") as error:
        lake.sql("RECALCULATE STREAM v RESYNC")
    assert error.value.hint == "put the columns back as they were; or drop and create main.v"


def test_group_by_all_goes_by_the_keys_that_it_stands_for(lake: Lake) -> None:
    lake.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT region AS r, 1 AS one, count(*) AS n FROM sites GROUP BY ALL"
    )
    lake.sql("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM sites GROUP BY ALL")
    lake.run()
    lake.sql("INSERT INTO sites VALUES ('2025-01-01 08:00:00', 'c', 'y', 3)")
    assert [(tick.windows, tick.rows_out) for tick in lake.run().ticks] == [(1, 1), (1, 1)]
    assert sorted(lake.sql("SELECT * FROM v").fetchall()) == [("x", 1, 1), ("y", 1, 2)]
    assert lake.sql("SELECT * FROM w").fetchall() == [(3,)]
    assert [
        str(lake.sql(f"EXPLAIN MATERIALIZED VIEW {name}").fetchall()[0][1]).partition(":")[0] for name in "vw"
    ] == ["incremental, by the keys region", "incremental, by the one key of all rows"]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT site FROM sites LIMIT 1", "a LIMIT (instead: row_number() OVER"),
        ("SELECT max(most) AS n FROM sites", "can be taken back exactly (instead: GROUP BY, or PARTITION"),
        (
            "SELECT r.factor FROM sites s FULL JOIN regions r USING (region)",
            "(instead: a FULL JOIN … ON of two tables, first in FROM",
        ),
        (
            "SELECT r.factor FROM meters m, sites s RIGHT JOIN regions r ON r.region = s.region",
            "a RIGHT JOIN (instead: LEFT JOIN with the tables the other way round",
        ),
        ("SELECT 1 AS n FROM sites EXCEPT SELECT amps FROM meters", "(instead: such a column in each"),
        ("SELECT region, count(*) AS n FROM sites GROUP BY ROLLUP (region)", "(instead: a GROUP BY for each"),
        ("SELECT r AS r FROM (SELECT region AS r FROM sites UNION ALL SELECT site FROM meters)", OF_A_VIEW),
    ],
)
def test_what_is_computed_as_a_whole_says_what_to_write_instead(lake: Lake, query: str, why: str) -> None:
    lake.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert why in str(lake.sql("EXPLAIN MATERIALIZED VIEW v").fetchall()[0][1])


def test_a_view_without_keys_is_computed_as_a_whole(lake: Lake) -> None:
    made(lake, "of_all")
    lake.run()
    lake.sql("DELETE FROM meters WHERE site = 'b'")
    lake.run()
    assert lake.sql("SELECT * FROM of_all_v").fetchall() == [(2, 3)]
    assert "without GROUP BY window(…), not by keys: it has no keys" in refreshed(lake, "of_all")
    assert lake.run().ticks == []


def test_a_view_by_keys_computes_those_that_a_change_touches(lake: Lake) -> None:
    made(lake, "by_factor")
    lake.sql("INSERT INTO regions VALUES ('2025-01-01 08:00:00', 'x', 7) ('2025-01-01 08:00:00', 'y', 8)")
    assert [tick.rows_out for tick in lake.run().ticks] == [2]
    lake.sql("INSERT INTO regions VALUES ('2025-01-01 08:00:00', 'y', 9)")
    assert [tick.windows for tick in lake.run().ticks] == [3]  # what it was, what it is, and that of none
    assert sorted(lake.sql("SELECT * FROM by_factor_v").fetchall()) == [(7, 1, 2, 2), (9, 2, 1, 1)]
    assert refreshed(lake, "by_factor").startswith("incremental, by the keys r.factor, s.most:")
    lake.sql("INSERT INTO regions VALUES ('2025-01-01 08:00:00', 'z', 5)")
    assert [(tick.windows, tick.rows_out) for tick in lake.run().ticks] == [(0, 0)]


def test_a_full_join_computes_the_rows_that_find_a_changed_one_or_do_not_any_more(lake: Lake) -> None:
    made(lake, "full_groups")
    lake.sql("INSERT INTO regions VALUES ('2025-01-01 08:00:00', 'x', 7) ('2025-01-01 08:00:00', 'z', 8)")
    lake.run()
    assert refreshed(lake, "full_groups").startswith("incremental, by the keys COALESCE(s.region, r.region):")
    lake.sql("UPDATE sites SET region = 'z' WHERE site = 'a'")
    assert [tick.rows_out for tick in lake.run().ticks] == [2]
    assert sorted(lake.sql("SELECT * FROM full_groups_v").fetchall()) == [
        ("x", 0, 7),
        ("y", 1, None),
        ("z", 1, 8),
    ]


@pytest.mark.parametrize(
    ("operation", "first", "then"),
    [
        ("EXCEPT", [], [("a", 1)]),
        ("EXCEPT ALL", [("a", 1)], [("a", 1), ("a", 1)]),
        ("INTERSECT", [("a", 1), ("b", 2)], [("b", 2)]),
        ("INTERSECT ALL", [("a", 1), ("b", 2)], [("b", 2)]),
    ],
)
def test_set_operations_go_by_the_rows_that_are_equal(
    lake: Lake, operation: str, first: list[tuple[str, int]], then: list[tuple[str, int]]
) -> None:
    lake.sql(
        "INSERT INTO meters VALUES ('2025-01-01 08:00:20', 'a', 1); CREATE MATERIALIZED VIEW v AS "
        f"SELECT site, amps FROM meters WHERE amps < 3 {operation} SELECT site, most FROM sites"
    )
    lake.run()
    assert sorted(lake.sql("SELECT * FROM v").fetchall()) == first
    assert "by the keys site, amps" in str(lake.sql("EXPLAIN MATERIALIZED VIEW v").fetchall()[0][1])
    lake.sql("UPDATE sites SET most = 5 WHERE site = 'a'")
    assert [tick.windows for tick in lake.run().ticks] == [2]  # that of the row before, and of it now
    assert sorted(lake.sql("SELECT * FROM v").fetchall()) == then


def test_the_first_value_of_a_key_is_that_of_its_earliest_row(lake: Lake) -> None:
    aggregates = "first(amps) AS a, last(amps, true) AS b, first_value(amps) FILTER (WHERE amps > 1) AS c"
    lake.sql(f"{ROWS}; CREATE MATERIALIZED VIEW v AS SELECT site, {aggregates} FROM meters GROUP BY site")
    lake.run()
    lake.sql("INSERT INTO meters VALUES ('2025-01-01 08:00:05', 'a', 4)")
    assert [tick.rows_out for tick in lake.run().ticks] == [1]
    assert lake.sql("SELECT * FROM v ORDER BY site").fetchall() == [("a", 4, 3, 4), ("b", 2, 2, 2)]


def test_rows_that_are_only_added_are_computed_alone(lake: Lake) -> None:
    made(lake, "projected", "REFRESH POLICY INCREMENTAL")
    lake.run()
    lake.sql("INSERT INTO meters VALUES ('2025-01-01 08:10:10', 'a', 4)")
    assert [tick.rows_out for tick in lake.run().ticks] == [1]
    lake.sql("DELETE FROM meters WHERE amps = 3")
    lake.run()
    rows = lake.sql("SELECT * FROM projected_v").fetchall()
    assert sorted(rows) == [("a", 2), ("a", 5), ("b", 3)]


def test_a_table_that_leads_nowhere_has_all_computed_again(lake: Lake) -> None:
    lake.sql(
        "CREATE MATERIALIZED VIEW times_v AS SELECT m.site, max(m.amps * r.factor) AS n FROM meters m "
        "CROSS JOIN regions r GROUP BY m.site"
    )
    lake.sql("INSERT INTO regions VALUES ('2025-01-01 08:00:00', 'x', 1)")
    lake.run()
    assert sorted(lake.sql("SELECT * FROM times_v").fetchall()) == [("a", 3), ("b", 2)]
    lake.sql("INSERT INTO regions VALUES ('2025-01-01 08:00:00', 'x', 2)")
    lake.run()
    assert sorted(lake.sql("SELECT * FROM times_v").fetchall()) == [("a", 6), ("b", 4)]
    said = [said for _, said in lake.sql("EXPLAIN MATERIALIZED VIEW times_v").fetchall()]
    nowhere = "from which no equal columns lead to keys (instead: a join with it by a.x = b.x)"
    assert said[:3] == [
        "incremental, by the keys m.site: those that a change touches",
        "a touched key is computed from all its rows: MAX(m.amps * r.factor) cannot be taken back exactly",
        f"as a whole, with each change of main.regions, {nowhere}",
    ]


_ROWS = "SELECT m.site, m.amps FROM meters m"


@pytest.mark.parametrize(
    "query",
    [
        f"{_ROWS} WHERE EXISTS (SELECT 1 FROM sites s WHERE s.site = m.site)",
        f"{_ROWS} WHERE site NOT IN (SELECT site FROM sites WHERE most > 0)",
        "SELECT site, amps IN (SELECT most FROM sites) AS known FROM meters",
        "SELECT site, (SELECT max(most) FROM sites s WHERE s.site = m.site) AS n FROM meters m",
        f"{_ROWS} LEFT JOIN (SELECT site, 1 AS n FROM sites GROUP BY ALL) s USING (site)",
        f"{_ROWS} JOIN (SELECT site FROM sites UNION SELECT site FROM meters) s USING (site)",
        "SELECT site FROM (SELECT site FROM meters UNION ALL SELECT site FROM sites) GROUP BY site",
    ],
)
def test_a_change_of_a_table_within_a_query_leads_to_keys(lake: Lake, query: str) -> None:
    lake.sql(f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL AS {query}")
    lake.run()
    lake.sql("INSERT INTO sites VALUES ('2025-01-01 09:00:00', 'b', 'y', 2)")
    assert [tick.windows for tick in lake.run().ticks] == [1]


def test_rows_are_held_against_a_group_of_their_own_table(lake: Lake) -> None:
    most = "JOIN (SELECT site, max(amps) AS most FROM meters GROUP BY site) t ON t.site = m.site"
    lake.sql(f"CREATE MATERIALIZED VIEW v AS {_ROWS} {most} AND t.most = m.amps")
    lake.run()
    lake.sql("INSERT INTO meters VALUES ('2025-01-01 08:20:00', 'b', 9)")
    assert [tick.windows for tick in lake.run().ticks] == [2]
    assert sorted(lake.sql("SELECT * FROM v").fetchall()) == [("a", 3), ("b", 9)]


def test_a_union_computes_the_rows_that_a_change_touches(lake: Lake) -> None:
    made(lake, "united_once", "REFRESH POLICY INCREMENTAL")
    lake.run()
    lake.sql("INSERT INTO sites VALUES ('2025-01-01 08:00:00', 'a', 'x', 3)")
    lake.run()
    assert sorted(lake.sql("SELECT * FROM united_once_v").fetchall()) == [("a", 1), ("a", 3), ("b", 2)]
    lake.sql("DELETE FROM meters WHERE site = 'a'")
    assert [tick.windows for tick in lake.run().ticks] == [2]
    assert sorted(lake.sql("SELECT * FROM united_once_v").fetchall()) == [("a", 3), ("b", 2)]
    assert refreshed(lake, "united_once").startswith("incremental, by the keys site, amps; site, most:")


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
