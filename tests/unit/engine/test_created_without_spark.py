"""What is created without Spark, as its check has nothing to say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake, Settings
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


@pytest.mark.parametrize(
    "stream",
    [
        "INTERVAL(1m) SLIDING(1m) FROM t NOTIFY('ws://localhost:9/n') ON (WINDOW_CLOSE)",
        "SESSION(ts, 1m) FROM t INTO o AS SELECT _twstart AS since, _twend AS until, _twduration / 1000 AS n",
        "SLIDING(1m) FROM t STREAM_OPTIONS(IDLE_TIMEOUT(5m) | EVENT_TYPE(IDLE)) INTO o AS SELECT now AS at",
    ],
)
def test_expressions_of_the_window_alone_are_plain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    def refused() -> None:
        raise AssertionError("Spark is asked")

    monkeypatch.setattr(session, "spark_session", refused)
    with Lake(tmp_path / "lake", settings=Settings(notify_hosts=("localhost",))) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        lake.sql(f"CREATE STREAM s {stream}")
