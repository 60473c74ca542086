"""Columns beside a function that selects a row, and texts beside times; no Spark is asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings
from lakestream.clock import ManualClock
from lakestream.errors import LakestreamError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("selections")
    with pytest.MonkeyPatch.context() as patched, Lake(str(folder / "lake")) as lake:
        patched.setenv("JAVA_HOME", str(folder))
        lake.sql("CREATE STABLE m (ts TIMESTAMP, c DOUBLE, v INT, s VARCHAR(9)) TAGS (loc VARCHAR(9))")
        lake.sql(
            "INSERT INTO t1 USING m TAGS ('a') VALUES ('2025-01-01 00:00:00', 1, 10, 'x') "
            "('2025-01-01 00:00:01', 3, 11, 'y') ('2025-01-01 00:00:02', 2, 12, 'z') "
            "('2025-01-01 00:00:03', NULL, 13, 'n')"
        )
        lake.sql("INSERT INTO t2 USING m TAGS ('b') VALUES ('2025-01-01 00:00:00.500', 3, 14, 'w')")
        yield lake


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("max(c), v, s FROM m", [(3.0, 14, "w")]),
        ("v + 1, upper(s) AS big, max(c) + 1 FROM m", [(15, "W", 4.0)]),
        ("min(c), tbname, loc FROM m", [(1.0, "t1", "a")]),
        ("last(c), s FROM m", [(2.0, "z")]),
        ("last_row(c), s FROM m", [(None, "n")]),
        ("first(c), s, count(*) FROM m", [(1.0, "x", 5)]),
        ("max(c) FILTER (WHERE loc = 'a'), s FROM m", [(3.0, "y")]),
        ("loc, max(c), s FROM m GROUP BY loc ORDER BY loc", [("a", 3.0, "y"), ("b", 3.0, "w")]),
        (
            "tbname, last(c), s FROM m PARTITION BY tbname ORDER BY tbname",
            [("t1", 2.0, "z"), ("t2", 3.0, "w")],
        ),
        ("s, max(c) FROM t1 INTERVAL(2s)", [("y", 3.0), ("z", 2.0)]),
        ("_rowts > _wstart, max(c) FROM t1 INTERVAL(2s)", [(True, 3.0), (False, 2.0)]),
        ("max(c), CASE WHEN v > 11 THEN s ELSE 'no' END FROM t1", [(3.0, "no")]),
        ("max(p), s FROM (SELECT ts, c AS p, s FROM t1)", [(3.0, "y")]),
        ("max(c) OVER (PARTITION BY loc), s FROM t2", [(3.0, "w")]),
    ],
)
def test_a_column_is_that_of_the_row_that_is_taken(
    lake: Lake, query: str, rows: list[tuple[object, ...]]
) -> None:
    assert lake.sql(f"SELECT {query}").fetchall() == rows


def test_beside_several_selections_a_column_is_refused(lake: Lake) -> None:
    with pytest.raises(LakestreamError, match="s is neither in an aggregate") as refusal:
        lake.sql("SELECT max(c), min(c), s FROM m INTERVAL(2s)")
    assert refusal.value.code == "NOT_AGGREGATED"


def test_bounds_of_a_window_are_times_like_others(lake: Lake) -> None:
    milli = timedelta(milliseconds=1)
    begin = datetime(2025, 1, 1, tzinfo=UTC)
    result = lake.sql("SELECT _wstart + 1, _wend - 1, count(*) FROM t2 INTERVAL(1s)")
    assert result.columns == ("_wstart + 1", "_wend - 1", "count(*)")
    found = result.fetchall()
    assert found == [(begin + milli, begin + timedelta(seconds=1) - milli, 1)]
    having = "HAVING _wstart > '2025-01-01 00:00:01' AND _wend < 1735689604000"
    assert lake.sql(f"SELECT count(*) FROM t1 INTERVAL(1s) {having}").fetchall() == [(1,)]


def test_a_cast_is_a_time_like_a_column(lake: Lake) -> None:
    second = "CAST(1735689601000 AS TIMESTAMP)"
    found = lake.sql(f"SELECT {second} - 1000, count(*) FROM t1 WHERE ts > {second} - 1000").fetchall()
    assert found == [(datetime(2025, 1, 1, tzinfo=UTC), 3)]


def test_a_written_time_is_held_against_the_clock_in_nanoseconds(tmp_path: Path) -> None:
    clock, settings = ManualClock(datetime(2025, 6, 1, 12, tzinfo=UTC)), Settings(timezone="Europe/Berlin")
    held = ("_tlocaltime > '2025-06-01 13:59:59'", "'2025-06-01 14:00:01' <= _tlocaltime", "_tlocaltime > 5")
    results = ", ".join(f"CASE WHEN {one} THEN 1 ELSE 0 END AS c{at}" for at, one in enumerate(held))
    with Lake(str(tmp_path / "lake"), clock=clock, settings=settings) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        lake.sql(
            f"CREATE STREAM s COUNT_WINDOW(1) FROM t INTO o AS SELECT _twstart AS w, {results} FROM %%trows"
        )
        lake.sql("INSERT INTO t VALUES ('2025-01-01', 1)")
        lake.run()
        assert lake.sql("SELECT c0, c1, c2 FROM o").fetchall() == [(1, 0, 1)]
