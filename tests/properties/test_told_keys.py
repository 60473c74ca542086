"""Keys of a view that have one number: none of them is lost, whatever values they have.

The function that numbers keys is made weak, so that there are two numbers.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import nan
from typing import TYPE_CHECKING
from unittest.mock import patch

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakestream import Lake
from lakestream.compute.windows.keyed.keys import Branch
from tests.properties.followed import TABLES, without_spark
from tests.properties.views import VIEWS, differences

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _weak() -> Iterator[None]:
    number = Branch.number_sql
    with patch.object(Branch, "number_sql", lambda self, keys: f"pmod({number(self, keys)}, 2L)"):
        yield


KEYS = {
    "INT": ("1", "2", "NULL", "-1"),
    "VARCHAR(10)": ("'a'", "'A'", "''", "NULL", "' a'"),
    "DOUBLE": ("0.0", "NULL", "1e300"),
    "DECIMAL(20, 4)": ("1.5", "1.5001", "NULL", "-1.5"),
    "TIMESTAMP": ("'2025-01-01'", "'2025-01-01 00:00:00.000001'", "NULL"),
    "BOOL": ("true", "false", "NULL"),
}
"""Values of keys by their type."""

FORMS = (
    "SELECT k, max(x) AS most FROM t GROUP BY k",
    "SELECT max(x) AS most FROM t GROUP BY k",
    "SELECT min(x) AS least FROM t WHERE x > 0 GROUP BY k HAVING count(*) > 0",
    "SELECT DISTINCT k FROM t",
    "SELECT x FROM t",
    "SELECT k FROM t WHERE x > 0 UNION SELECT k FROM t WHERE x < 2",
    "SELECT x FROM (SELECT x, row_number() OVER (PARTITION BY k ORDER BY x) AS n FROM t) q WHERE n = 1",
    "SELECT max(x) AS m FROM t GROUP BY k UNION ALL SELECT x AS m FROM t",
)


@pytest.mark.parametrize(
    "kind", [kind if kind == "DOUBLE" else pytest.param(kind, marks=pytest.mark.long) for kind in KEYS]
)
def test_no_key_is_lost_with_another_one(tmp_path: Path, kind: str) -> None:
    with without_spark(), Lake(tmp_path) as lake:
        lake.sql(f"CREATE TABLE t (ts TIMESTAMP, k {kind}, x INT)")
        for number, form in enumerate(FORMS):
            lake.sql(f"CREATE MATERIALIZED VIEW v{number} AS {form}")
        rows = [f"('2025-01-01 08:00:0{x}', {value}, {x})" for x, value in enumerate(KEYS[kind])]
        changes = (f"INSERT INTO t VALUES {rows[0]}", f"INSERT INTO t VALUES {' '.join(rows[1:])}")
        for statement in (*changes, "UPDATE t SET x = 7 WHERE x = 1", "DELETE FROM t WHERE x = 0"):
            lake.sql(statement)
            lake.run()
            _compare(lake)


def test_numbers_that_are_none_and_zeros_with_a_sign_are_keys(tmp_path: Path) -> None:
    with without_spark(), Lake(tmp_path) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, k DOUBLE, x INT)")
        for number, form in enumerate(FORMS):
            lake.sql(f"CREATE MATERIALIZED VIEW v{number} AS {form}")
        for values in ([nan, 1.0], [None, nan, 2.0], [0.0, -0.0]):
            times = pa.array([datetime(2025, 1, 1, tzinfo=UTC)] * len(values), pa.timestamp("us", "UTC"))
            numbers = pa.array([*range(len(values))], pa.int32())
            rows = pa.table({"ts": times, "k": pa.array(values, pa.float64()), "x": numbers})
            write_deltalake(lake._at.catalog.table("main", "t").path, rows, mode="append")
            lake.run()
            _compare(lake)


def _compare(lake: Lake) -> None:
    assert [stream.last_error for stream in lake.streams()] == [None] * len(FORMS)
    for number, form in enumerate(FORMS):
        assert _shown(lake, f"SELECT * FROM v{number}") == _shown(lake, form), form


def _shown(lake: Lake, query: str) -> list[str]:
    """Return the rows of a query as texts: NaN is NaN, and of zeros none has a sign."""
    rows = lake.sql(query).fetchall()
    return sorted(repr([x + 0.0 if isinstance(x, float) else x for x in row]) for row in rows)


@pytest.mark.long
def test_random_histories_equal_the_query() -> None:
    with without_spark():
        assert differences("weak", (*VIEWS,), steps=2) == []


def test_keys_of_other_numbers_are_left_alone(tmp_path: Path) -> None:
    with without_spark(), Lake(tmp_path) as lake:
        lake.sql(TABLES)
        lake.sql("INSERT INTO meters VALUES ('2025-01-01 08:00:10', 'a', 1)")
        lake.sql("CREATE MATERIALIZED VIEW v AS SELECT max(amps) AS most FROM meters GROUP BY site")
        lake.run()
        lake.sql("INSERT INTO meters VALUES ('2025-01-01 08:00:11', 'a', 2)")
        assert [tick.windows for tick in lake.run().ticks] == [1]
        assert lake.sql("SELECT * FROM v").fetchall() == [(2,)]
