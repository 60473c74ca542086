"""What happens to a stream by statement: passed over, replaced, and looked at by SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings
from lakestream.errors import StatementError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(params=["arrow", "spark"])
def lake(tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[Lake]:
    lake = Lake(tmp_path / "lake", spark=spark, settings=Settings(transport=request.param))
    lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
    yield lake
    lake.close()


def write(lake: Lake, *rows: tuple[int, int]) -> None:
    lake.insert("t", [{"ts": f"2025-01-01 00:00:{second:02}", "v": v} for second, v in rows])


def found(lake: Lake, query: str) -> list[tuple[object, ...]]:
    return lake.sql(query).fetchall()


STREAM = (
    "INTERVAL(10s) SLIDING(10s) FROM t {options} INTO o AS SELECT _twstart AS ws, {what} AS x FROM %%trows"
)


def stream(what: str = "sum(v)", options: str = "", verb: str = "CREATE") -> str:
    return f"{verb} STREAM s {STREAM.format(what=what, options=options)}"


# --- START … IGNORE UNTREATED ---


def test_what_was_passed_over_is_in_no_window(lake: Lake) -> None:
    lake.sql(stream())
    write(lake, (1, 1))
    lake.run()
    lake.sql("STOP STREAM s")
    write(lake, (2, 2), (15, 4))
    lake.sql("START STREAM IGNORE UNTREATED s")
    write(lake, (3, 8))
    write(lake, (21, 16))
    lake.run()
    again = Lake(lake.root, spark=lake.spark, settings=lake.settings)
    again.insert("t", [{"ts": "2025-01-01 00:00:16", "v": 32}, {"ts": "2025-01-01 00:00:33", "v": 64}])
    again.run()
    assert [x for _, x in found(again, "SELECT * FROM o ORDER BY ws")] == [9, 32, 16]
    assert again.verify("s").holds


def test_an_exact_stream_passes_nothing_over(lake: Lake) -> None:
    lake.sql(stream(options="STREAM_OPTIONS(EXACT)"))
    lake.sql("STOP STREAM s")
    with pytest.raises(StatementError) as refused:
        lake.sql("START STREAM IGNORE UNTREATED s")
    assert refused.value.code == "UNTREATED_NOT_IGNORED"


# --- CREATE OR REPLACE ---


def test_a_replaced_stream_is_computed_anew(lake: Lake) -> None:
    lake.sql(stream())
    write(lake, (1, 1), (2, 2), (12, 4), (23, 8))
    lake.run()
    assert [x for _, x in found(lake, "SELECT * FROM o ORDER BY ws")] == [3, 4]
    rows = lake.sql(stream("max(v)", verb="CREATE OR REPLACE")).fetchall()
    assert [clause for clause, _, _ in rows] == ["AS", "output", "recomputed"]
    lake.run()
    assert [x for _, x in found(lake, "SELECT * FROM o ORDER BY ws")] == [2, 4]
    write(lake, (31, 16))
    lake.run()
    assert [x for _, x in found(lake, "SELECT * FROM o ORDER BY ws")] == [2, 4, 8]
    assert lake.verify("s").holds


def test_the_output_is_made_anew_where_its_columns_are_others(lake: Lake) -> None:
    lake.sql(stream())
    write(lake, (1, 1), (12, 4))
    lake.run()
    lake.sql(stream("CAST(sum(v) AS STRING)", verb="CREATE OR REPLACE"))
    lake.run()
    assert [x for _, x in found(lake, "SELECT * FROM o ORDER BY ws")] == ["1"]
    assert lake.verify("s").holds


def test_the_same_definition_changes_nothing(lake: Lake) -> None:
    lake.sql(stream())
    result = lake.sql(stream(verb="CREATE OR REPLACE").replace(" FROM t", "\n  FROM  t"))
    assert "nothing is computed anew" in result.message
    assert lake.recalculations("s") == []


def test_a_refused_replacement_leaves_the_stream_as_it_was(lake: Lake) -> None:
    lake.sql(stream())
    before = lake.streams()
    with pytest.raises(StatementError):
        lake.sql(stream("sum(nosuch)", verb="CREATE OR REPLACE"))
    assert lake.streams() == before


# --- a table that is there ---


def test_columns_of_a_table_are_found_by_name_and_may_be_wider(lake: Lake) -> None:
    lake.sql("CREATE TABLE mine (ws TIMESTAMP, note VARCHAR(9), n BIGINT, top BIGINT)")
    lake.sql("INSERT INTO mine VALUES ('2024-12-31 00:00:00', 'kept', 1, 2)")
    lake.sql(
        "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM t INTO mine (ws, top, n) AS "
        "SELECT _twstart, max(v), count(*) FROM %%trows"
    )
    write(lake, (1, 5), (2, 7), (12, 4))
    lake.run()
    assert [row[1:] for row in found(lake, "SELECT * FROM mine ORDER BY ws")] == [
        ("kept", 1, 2),
        (None, 2, 7),
    ]
    verified = lake.verify("s")
    assert (verified.differing_rows, verified.others_rows) == (0, 1)


def test_rows_of_others_keep_all_their_columns_where_a_range_is_rewritten(lake: Lake) -> None:
    lake.sql("CREATE TABLE mine (ws TIMESTAMP, note VARCHAR(9), n BIGINT)")
    lake.sql(
        "INSERT INTO mine VALUES ('2025-01-01 00:01:00', 'old', 0) ('2025-01-01 00:01:00.500', 'kept', 1)"
    )
    lake.sql(
        "CREATE STREAM s INTERVAL(1s) SLIDING(1s) FROM t INTO mine (ws, n) AS "
        "SELECT _twstart, count(*) FROM %%trows"
    )
    lake.sql("INSERT INTO t VALUES ('2025-01-01 00:00:00', 1) ('2025-01-01 00:06:40', 2)")
    lake.run()
    near = found(
        lake, "SELECT note, n FROM mine WHERE ws BETWEEN '2025-01-01 00:01:00' AND '2025-01-01 00:01:01'"
    )
    assert sorted(near, key=str) == [("kept", 1), (None, 0), (None, 0)]
    assert found(lake, "SELECT count(*) FROM mine") == [(401,)]


# --- information_schema ---


def test_streams_ticks_and_recalculations_are_tables(lake: Lake) -> None:
    lake.sql(stream())
    write(lake, (1, 1), (12, 4))
    lake.run()
    lake.sql("RECALCULATE STREAM s FROM '2025-01-01 00:00:00'")
    lake.run()
    write(lake, (33, 4))
    assert found(
        lake,
        "SELECT stream_name, db_name, status, source, output, tick, lag, rows_in, rows_out "
        "FROM information_schema.ins_streams",
    ) == [("s", "main", "Running", "main.t", "main.o", 1, 1, 2, 1)]
    assert found(lake, "SELECT count(*), sum(rows_in) FROM information_schema.ins_stream_tasks") == [(1, 2)]
    assert found(
        lake, "SELECT stream_name, status, progress, end_time FROM information_schema.ins_stream_recalculates"
    ) == [("s", "Done", 100.0, None)]


# --- names ---


def test_a_stream_of_another_database_reads_what_it_was_created_on(lake: Lake) -> None:
    lake.sql("CREATE DATABASE other")
    lake.sql(stream().replace("STREAM s", "STREAM other.s"))
    write(lake, (1, 1), (12, 4))
    assert not lake.run().failed
    assert [x for _, x in found(lake, "SELECT * FROM o")] == [1]
