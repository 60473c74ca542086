"""Streams that follow every table they read: a few of the histories of ``make followed``, and what they owe.

All of it by the small path: no Spark is started.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakestream import Lake, Settings
from lakestream.engine.base.faults import SimulatedCrash, crash_at
from tests.properties.followed import POINTS, START, TABLES, differences, statements, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakestream.engine.rounds.runtime import TickReport

ROWS = """
INSERT INTO sites VALUES ('2025-01-01 08:00:00', 'a', 'x', 1) ('2025-01-01 08:00:00', 'b', 'y', 2);
INSERT INTO regions VALUES ('2025-01-01 08:00:00', 'x', 10) ('2025-01-01 08:00:00', 'y', 20);
INSERT INTO meters VALUES ('2025-01-01 08:00:10', 'a', 1) ('2025-01-01 08:01:10', 'b', 2)
                          ('2025-01-01 08:02:10', 'a', 3) ('2025-01-01 08:03:10', 'b', 4)
"""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with without_spark(), Lake(tmp_path, settings=Settings()) as lake:
        lake.sql(TABLES)
        yield lake


def rows(lake: Lake, table: str, columns: str = "factor, total") -> list[tuple[object, ...]]:
    return lake.sql(f"SELECT minute(at) AS m, {columns} FROM {table} ORDER BY m").fetchall()


def ran(lake: Lake) -> list[TickReport]:
    return lake.run().ticks


def test_random_histories_equal_the_batch_evaluation() -> None:
    with without_spark():
        assert differences("few", ("chain", "missing", "not_in"), steps=3) == []


def test_a_change_of_a_lookup_costs_the_windows_that_it_touches(lake: Lake) -> None:
    lake.sql(statements(["chain"], history=False) + ROWS)
    lake.run()
    assert rows(lake, "chain_o") == [(0, 10, 1), (1, 20, 2), (2, 10, 3)]
    lake.sql("INSERT INTO regions VALUES ('2025-01-01 08:00:00', 'y', 21)")
    assert [(tick.windows, tick.rows_out) for tick in ran(lake)] == [(1, 1)]
    assert rows(lake, "chain_o") == [(0, 10, 1), (1, 21, 2), (2, 10, 3)]
    lake.sql("DELETE FROM sites WHERE site = 'a'")
    assert [tick.windows for tick in ran(lake)] == [2]
    assert rows(lake, "chain_o") == [(1, 21, 2)]


def test_a_change_that_touches_nothing_writes_nothing(lake: Lake) -> None:
    lake.sql(statements(["chain"], history=False) + ROWS)
    lake.run()
    version = lake.sql("SELECT count(*) FROM chain_o").fetchall(), lake.streams()[0].version
    lake.sql("INSERT INTO regions VALUES ('2025-01-01 08:00:00', 'z', 5)")
    assert [(tick.windows, tick.rows_out) for tick in ran(lake)] == [(0, 0)]
    assert (lake.sql("SELECT count(*) FROM chain_o").fetchall(), lake.streams()[0].version) == version
    assert ran(lake) == []


def test_a_tick_happens_once_wherever_it_is_ended(tmp_path: Path) -> None:
    with without_spark():
        with Lake(tmp_path, settings=Settings(checkpoint_ticks=1)) as lake:
            lake.sql(TABLES)
            lake.sql(statements(["chain"], history=False) + ROWS)
            lake.run()
        for factor, point in enumerate(POINTS, 100):
            with Lake(tmp_path, settings=Settings(checkpoint_ticks=1)) as lake:
                lake.sql(f"INSERT INTO regions VALUES ('2025-01-01 08:00:00', 'y', {factor})")
                with suppress(SimulatedCrash), crash_at(point):
                    lake.run()
            with Lake(tmp_path, settings=Settings(checkpoint_ticks=1)) as lake:
                lake.run()
                assert rows(lake, "chain_o") == [(0, 10, 1), (1, factor, 2), (2, 10, 3)], point


def test_a_diamond_ends_consistent(lake: Lake) -> None:
    lake.sql(
        """
        CREATE STREAM sums INTERVAL(1m) SLIDING(1m) FROM meters STREAM_OPTIONS(EXACT) INTO sums_o
          AS SELECT _twstart AS at, sum(amps) AS total FROM %%trows;
        CREATE STREAM counts INTERVAL(1m) SLIDING(1m) FROM meters STREAM_OPTIONS(EXACT) INTO counts_o
          AS SELECT _twstart AS at, count(*) AS n FROM %%trows;
        CREATE STREAM both INTERVAL(1m) SLIDING(1m) FROM sums_o STREAM_OPTIONS(EXACT(ALL)) INTO both_o
          AS SELECT _twstart AS at, max(s.total) AS total, max(c.n) AS n FROM sums_o s
            JOIN counts_o c ON c.at = s.at WHERE s.at >= _twstart AND s.at < _twend;
        """
        + ROWS
    )
    lake.run()
    lake.sql("INSERT INTO meters VALUES ('2025-01-01 08:00:20', 'a', 50); DELETE FROM meters WHERE amps = 2")
    lake.run()
    assert rows(lake, "both_o", "total, n") == [(0, 51, 2), (1, None, 0)]


def test_a_recalculation_reads_what_the_stream_has_followed(lake: Lake) -> None:
    lake.sql(statements(["chain"], history=True) + ROWS)
    lake.run()
    lake.sql("RECALCULATE STREAM chain_s FROM '2025-01-01 08:00:00' TO '2025-01-01 08:02:00'")
    lake.sql("INSERT INTO regions VALUES ('2025-01-01 08:00:00', 'x', 11)")
    lake.run()
    assert rows(lake, "chain_o") == [(0, 11, 1), (1, 20, 2), (2, 11, 3)]


def test_a_table_that_is_another_one_stops_the_stream(lake: Lake) -> None:
    lake.sql(statements(["chain"], history=False) + ROWS)
    lake.run()
    lake.sql("DROP TABLE regions")
    lake.sql("CREATE TABLE regions (ts TIMESTAMP, region VARCHAR(4) COMPOSITE KEY, factor INT)")
    lake.run()
    assert "SOURCE_REPLACED" in str(lake.streams()[0].last_error)


@pytest.mark.parametrize("kind", ["stream", "view"])
def test_a_name_that_stands_for_another_table_stops_the_stream(
    lake: Lake, tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    for place, factor in (("one", 1), ("other", 2)):
        rows_there = pa.table(
            {"ts": pa.array([START], pa.timestamp("us", "UTC")), "region": ["x"], "factor": [factor]}
        )
        write_deltalake(outside / place, rows_there, configuration={"delta.enableChangeDataFeed": "true"})
    make = "DROP TABLE regions; CREATE TABLE regions LOCATION '{}' TIMESTAMP BY ts"
    lake.sql(make.format(outside / "one") + ";" + statements(["left_chain"], history=True))
    if kind == "view":
        joined = "SELECT m.site, r.factor FROM meters m JOIN sites s ON s.site = m.site "
        lake.sql("DROP STREAM left_chain_s; CREATE MATERIALIZED VIEW v AS "
                 + joined + "JOIN regions r ON r.region = s.region")  # fmt: skip
    lake.sql(ROWS)
    lake.run()
    lake.sql(make.format(outside / "other"))
    lake.run()
    assert "SOURCE_REPLACED" in str(lake.streams()[0].last_error)
    lake.sql(make.format(outside / "one") + f"; START STREAM {'v' if kind == 'view' else 'left_chain_s'}")
    lake.run()
    assert lake.streams()[0].last_error is None


def test_what_other_tables_touch_is_not_late(lake: Lake) -> None:
    lake.sql(statements(["chain"], history=False) + ROWS)
    lake.run()
    lake.sql("DELETE FROM sites WHERE site = 'a'; INSERT INTO meters VALUES ('2025-01-01 08:00:20', 'b', 1)")
    assert [(tick.windows, tick.late) for tick in ran(lake)] == [(2, 1)]


def test_more_windows_than_may_be_touched_stop_the_stream(tmp_path: Path) -> None:
    with without_spark(), Lake(tmp_path, settings=Settings(max_windows_per_tick=3)) as lake:
        lake.sql(
            TABLES + "CREATE STREAM of_site INTERVAL(1m) SLIDING(1m) FROM meters PARTITION BY site "
            "STREAM_OPTIONS(EXACT(ALL)) INTO of_site_o AS SELECT _twstart AS at, sum(s.most) AS total "
            "FROM meters m JOIN sites s ON s.site = m.site "
            "WHERE m.site = %%1 AND m.ts >= _twstart AND m.ts < _twend"
        )
        for minute in range(6):
            lake.sql(f"INSERT INTO meters VALUES ('2025-01-01 08:0{minute}:10', 'a', 1)")
            lake.run()
        lake.sql("INSERT INTO sites VALUES ('2025-01-01 08:00:00', 'a', 'x', 11)")
        lake.run()
        stream = lake.streams()[0]
        assert (stream.status, "TOO_MANY_WINDOWS" in str(stream.last_error)) == ("Failed", True)
