"""Times as statements write them, in a lake that is not in UTC: the same wherever they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream.errors import LakestreamError
from lakestream.lake import Lake
from lakestream.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

NINE = 1735686000000 + 3_600_000
"""09:00 of 1 January 2025 in Tokyo."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path / "lake"), settings=Settings(timezone="Asia/Tokyo"))
    lake.sql(
        "CREATE TABLE t (ts TIMESTAMP, v INT);"
        "INSERT INTO t VALUES ('2025-01-01 08:00', 8) ('2025-01-01 09:00', 9) ('2025-01-01 10:00', 10)"
    )
    return lake


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        ("ts = '2025-01-01 09:00:00'", [9]),
        (f"ts = {NINE}", [9]),
        (f"ts > {NINE}", [10]),
        (f"{NINE} > ts", [8]),
        (f"ts BETWEEN {NINE} AND '2025-01-01 09:30'", [9]),
        (f"ts IN ({NINE}, '2025-01-01 10:00:00')", [9, 10]),
        ("ts > -1", [8, 9, 10]),
    ],
)
def test_a_condition_means_the_same_in_every_statement(lake: Lake, condition: str, met: list[int]) -> None:
    assert lake.sql(f"SELECT v FROM t WHERE {condition} ORDER BY v").fetchall() == [(v,) for v in met]
    lake.sql(f"UPDATE t SET v = v + 100 WHERE {condition}")
    changed = lake.sql("SELECT v - 100 FROM t WHERE v > 100 ORDER BY v").fetchall()
    assert changed == [(v,) for v in met]
    lake.sql(f"DELETE FROM t WHERE {condition}")
    assert lake.sql("SELECT count(*) FROM t").fetchall() == [(3 - len(met),)]


def test_a_fraction_is_no_time(lake: Lake) -> None:
    with pytest.raises(LakestreamError, match="not compared with") as refused:
        lake.sql("DELETE FROM t WHERE ts > 1.5")
    assert refused.value.code == "BAD_VALUE"
