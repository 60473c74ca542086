"""Two texts of a column by which a table is partitioned are NULL, whoever wrote and whatever reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table(
    {
        "ts": pa.array(range(5), pa.timestamp("us", "UTC")),
        "g": pa.array(["", None, "x", "y", ""]),
        "v": pa.array(range(5), pa.int32()),
    }
)
NAMED = "__HIVE_DEFAULT_PARTITION__"
"""The text by which the folder of NULL is named; in a table without NULL delta-rs keeps it."""
FED = {"delta.enableChangeDataFeed": "true"}
CONDITIONS = (
    "g IS NULL",
    "g IS NOT NULL",
    "g = ''",
    "g = 'x'",
    "NOT g = 'x'",
    "g <> 'x'",
    "g < 'y'",
    "g IN ('x', 'y')",
    "g NOT IN ('x')",
    "g IN ('', 'x')",
    f"g = '{NAMED}'",
    f"g IN ('{NAMED}', 'x')",
    "(g = 'x' OR v = 0) AND v < 4",
    "g IS NULL AND v > 1",
    "v = 0",
)


@pytest.fixture(params=["", NAMED])
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    texts = pa.array([request.param if text == "" else text for text in ROWS["g"].to_pylist()])
    rows = ROWS.set_column(1, "g", texts)
    for part in (rows.slice(0, 1), rows.slice(1)):
        write_deltalake(tmp_path / "t", part, mode="append", partition_by=["g"], configuration=FED)
    found = Lake(tmp_path / "lake")
    found.sql(f"CREATE TABLE t LOCATION '{tmp_path / 't'}' TIMESTAMP BY ts")
    return found


def expected(*statements: str) -> list[tuple[object, ...]]:
    """Return what DuckDB has, to which the empty text was NULL from the start."""
    with duckdb.connect() as database:
        database.register("rows", ROWS)
        database.execute("CREATE TABLE t AS SELECT nullif(g, '') AS g, v FROM rows")
        for statement in statements:
            database.execute(statement)
        return database.execute("SELECT g, v FROM t ORDER BY g NULLS FIRST, v").fetchall()


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_finds_what_a_query_finds(lake: Lake, condition: str) -> None:
    changes = (f"UPDATE t SET v = 9 WHERE {condition}", f"DELETE FROM t WHERE v = 9 OR {condition}")
    with lake:
        for number, change in enumerate(changes, 1):
            lake.sql(change)
            found = lake.sql("SELECT g, v FROM t ORDER BY g NULLS FIRST, v").fetchall()
            assert found == expected(*changes[:number]), change


def test_what_is_made_of_the_empty_text_is_made_of_null(lake: Lake) -> None:
    with lake:
        lake.sql("UPDATE t SET v = CASE WHEN g IS NULL THEN 7 ELSE 8 END")
        assert lake.sql("SELECT v, count(*) AS n FROM t GROUP BY v ORDER BY v").fetchall() == [(7, 3), (8, 2)]


def test_folders_that_equal_no_text_of_a_condition_are_not_written_anew(lake: Lake, tmp_path: Path) -> None:
    with lake:
        before = set(DeltaTable(tmp_path / "t").file_uris())
        lake.sql("UPDATE t SET v = 9 WHERE g = 'x'")
        assert len(before - set(DeltaTable(tmp_path / "t").file_uris())) == 1
