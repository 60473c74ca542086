"""Streams over DECIMAL and FLOAT columns: in this process, and as Spark has them, types included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from lakestream import Lake, Settings
from lakestream.storage.sessions import session

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

TABLE = (
    "CREATE TABLE src (ts TIMESTAMP, g VARCHAR(4) COMPOSITE KEY, i INT, p DECIMAL(10, 2), w DECIMAL(30, 8), "
    "f FLOAT)"
)
ROWS = """
'2025-01-01 08:00:00', 'a', 1, 1.25, 1.5, 0.1
'2025-01-01 08:00:01', 'b', 1, 0.5, 12345678901234567890.12345678, 0.5

'2025-01-01 08:00:12', 'a', 2, -7.25, -0.00000001, -2.5
'2025-01-01 08:00:13', 'b', 2, NULL, NULL, NULL
'2025-01-01 08:00:30', 'a', 3, 99999999.99, 3, 3e38

'2025-01-01 08:00:02', 'a', 1, 99999999.99, 2.5, 16777216
'2025-01-01 08:01:00', 'b', 4, 1.25, 1.5, 0.1

'2025-01-01 08:02:00', 'a', 1, 0, 0, 0
"""
INSERTS = [
    f"INSERT INTO src VALUES {' '.join(f'({row})' for row in rows.split(chr(10)))}"
    for rows in ROWS.strip().split("\n\n")
]
COMMITS = (*INSERTS[:-1], "DELETE FROM src WHERE i = 2 AND g = 'a'", INSERTS[-1])
WINDOWS = (
    "INTERVAL(10s) SLIDING(10s) FROM src",
    "INTERVAL(10s) SLIDING(5s) FROM src PARTITION BY g",
    "INTERVAL(10s) SLIDING(10s) FROM src PARTITION BY p",
    "SESSION(ts, 5s) FROM src PARTITION BY g",
    "STATE_WINDOW(i) FROM src",
    "EVENT_WINDOW(START WITH p > 1 END WITH p < 1) FROM src",
    "COUNT_WINDOW(2) FROM src",
    "INTERVAL(10s) SLIDING(10s) FROM src STREAM_OPTIONS(PRE_FILTER(p >= 0.5 OR f > 0.25))",
    "INTERVAL(10s) SLIDING(10s) FROM src STREAM_OPTIONS(WATERMARK(2s)|EXACT)",
)
RESULTS = (
    *("count(p)", "count(DISTINCT p)", "max(p)", "min(f)", "max(w)", "first(p)", "last(w)", "last(f)"),
    *(
        "sum(p)",
        "sum(w)",
        "sum(f)",
        "avg(f)",
        "sum(p * i)",
        "max(p) - min(p)",
        "sum(i) FILTER (WHERE f > 0.2)",
    ),
    *("sum(CASE WHEN p > 1 THEN p END)", "count_if(p BETWEEN 0 AND 2)"),
)
PRICES = "p AS price, count(*) AS n, max(f) AS most, sum(w) AS total FROM %%trows GROUP BY p"


def outputs(folder: Path, windows: str, *, small: bool) -> dict[str, pa.Table]:
    """Return what streams of all results write, with the types of their columns."""
    settings = Settings(small_path="auto" if small else "spark")
    names = [f"r{number}" for number in range(len(RESULTS))]
    listed = ", ".join(f"{result} AS {name}" for name, result in zip(names, RESULTS, strict=True))
    with Lake(folder, settings=settings) as lake:
        lake.sql(TABLE)
        lake.sql(f"CREATE STREAM s {windows} INTO totals AS SELECT _twstart AS at, {listed} FROM %%trows")
        lake.sql(
            f"CREATE STREAM e {windows} INTO prices (at, price COMPOSITE KEY, n, most, total) "
            f"AS SELECT _twstart, {PRICES}"
        )
        for commit in COMMITS:
            lake.sql(commit)
            assert lake.run().failed == []
        found = {}
        for name in ("totals", "prices"):
            rows = DeltaTable(f"{folder}/main/{name}").to_pyarrow_table()
            found[name] = rows.sort_by([(column, "ascending") for column in rows.column_names])
        return found


@pytest.mark.parametrize("windows", WINDOWS)
def test_ticks_over_decimals_and_floats_ask_no_spark(
    tmp_path: Path, windows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "spark_session", lambda *_, **__: pytest.fail("Spark is asked"))
    assert all(rows.num_rows for rows in outputs(tmp_path / "lake", windows, small=True).values())


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("windows", WINDOWS)
def test_ticks_over_decimals_and_floats_give_what_spark_gives(tmp_path: Path, windows: str) -> None:
    small, by_spark = (outputs(tmp_path / str(way), windows, small=way) for way in (True, False))
    for name, rows in by_spark.items():
        assert small[name].schema.equals(rows.schema)
        assert small[name].to_pylist() == rows.to_pylist()
