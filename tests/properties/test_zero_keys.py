"""Keys of 0.0 and -0.0 are one key, as they are in SQL: the row that is written later counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from pathlib import Path

ZEROS = [("0.0", "-0.0"), ("-0.0", "0.0")]


@pytest.mark.parametrize(("first", "second"), ZEROS)
@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_a_row_that_is_inserted_replaces_that_of_the_other_zero(
    tmp_path: Path, kind: str, first: str, second: str
) -> None:
    with without_spark(), Lake(tmp_path) as lake:
        lake.sql(f"CREATE TABLE t (ts TIMESTAMP, k {kind} COMPOSITE KEY, x INT)")
        row = "('2025-01-01', {}, {})"
        lake.sql(f"INSERT INTO t VALUES {row.format(first, 1)}")
        lake.sql(f"INSERT INTO t VALUES {row.format(second, 2)}")
        assert lake.sql("SELECT k, x FROM t").fetchall() == [(0.0, 2)]
        lake.sql(f"INSERT INTO t VALUES {row.format(first, 3)} {row.format(second, 4)}")
        assert lake.sql("SELECT k, x FROM t").fetchall() == [(0.0, 4)]


@pytest.mark.parametrize(("first", "second"), [*ZEROS, ("1.0", "1.0")])
def test_a_later_window_replaces_the_row_of_the_other_zero(tmp_path: Path, first: str, second: str) -> None:
    with without_spark(), Lake(tmp_path) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, site VARCHAR(4) COMPOSITE KEY, v DOUBLE)")
        lake.sql(
            "CREATE STREAM s INTERVAL(2m) SLIDING(1m) FROM m STREAM_OPTIONS(IGNORE_DISORDER) "
            "INTO o (at, v COMPOSITE KEY, site) AS SELECT ts, v, site FROM %%trows"
        )
        for statement in (
            f"INSERT INTO m VALUES ('2025-01-01 08:00:30', 'a', {first})",
            "INSERT INTO m VALUES ('2025-01-01 08:01:30', 'c', 7)",
            f"UPDATE m SET v = {second} WHERE site = 'a'",
            "INSERT INTO m VALUES ('2025-01-01 08:02:30', 'c', 7)",
        ):
            lake.sql(statement)
            lake.run()
        found = lake.sql("SELECT v, site FROM o ORDER BY at, v").fetchall()
        assert found == [(float(second), "a"), (7.0, "c")]
        assert [stream.last_error for stream in lake.streams()] == [None]
