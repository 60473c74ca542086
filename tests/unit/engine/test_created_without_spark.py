"""What is created without Spark, as its check has nothing to say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from lakestream.storage.sessions import session

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "instant", ["CAST(_tlocaltime / 1000000 AS TIMESTAMP)", "timestamp_micros(_tprev_localtime DIV 1000)"]
)
def test_an_instant_of_the_clock_is_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instant: str
) -> None:
    def refused() -> None:
        raise AssertionError("Spark is asked")

    monkeypatch.setattr(session, "spark_session", refused)
    with Lake(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        lake.sql(
            f"CREATE STREAM s PERIOD(1h) FROM t INTO o AS SELECT {instant} AS at, sum(v) AS n FROM %%trows"
        )
        assert [row[:2] for row in lake.sql("DESCRIBE o").fetchall()][:2] == [
            ("at", "TIMESTAMP"),
            ("n", "BIGINT"),
        ]
