"""SLIDING restarts its steps every midnight: what changes just before one leaves the next day as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake

if TYPE_CHECKING:
    from pathlib import Path

QUERY = "SELECT _tcurrent_ts AS at, count(*) AS n FROM %%trows"
BEFORE = "('2024-12-31 23:59:51', 1), ('2024-12-31 23:59:58', 1), ('2024-12-31 23:59:59', 1)"
AFTER = "('2025-01-01 00:00:13', 1), ('2025-01-01 00:00:35', 1), ('2025-01-01 00:00:41', 1)"
CHANGES = {
    "a row of the last window goes": ("DELETE FROM m WHERE ts = '2024-12-31 23:59:59'", [2, 0, 1, 0, 1]),
    "a row comes late into it": ("INSERT INTO m VALUES ('2024-12-31 23:59:57', 1)", [4, 0, 1, 0, 1]),
    "its rows go": ("DELETE FROM m WHERE ts < '2025-01-01 00:00:00'", [1, 0, 1]),
    "windows before it come": (
        "INSERT INTO m VALUES ('2024-12-31 23:59:31', 1)",
        [1, 0, 3, 0, 1, 0, 1],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_windows_behind_midnight_stay(tmp_path: Path, change: str) -> None:
    statement, expected = CHANGES[change]
    with Lake(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v INT)")
        lake.sql(f"CREATE STREAM s SLIDING(10s) FROM m STREAM_OPTIONS(EXACT) INTO o AS {QUERY}")
        for rows in (BEFORE, AFTER):
            lake.sql(f"INSERT INTO m VALUES {rows}")
            lake.run()
        lake.sql(statement)
        lake.run()
        assert [n for _, n in sorted(lake.sql("SELECT at, n FROM o").fetchall())] == expected
