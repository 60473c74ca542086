"""Events of few rows are told without Spark, whatever they tell of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from lakestream import Lake
from lakestream.statements.workspace import Workspace
from lakestream.storage.sessions.jobs import OwnSession

if TYPE_CHECKING:
    from pathlib import Path

OPENED_AND_CLOSED = {
    "INTERVAL(10s) SLIDING(10s)": (5, 4),
    "INTERVAL(20s) SLIDING(10s)": (6, 4),
    "SESSION(ts, 5s)": (3, 2),
    "STATE_WINDOW(v)": (3, 2),
    "COUNT_WINDOW(2)": (2, 1),
}
COMMITS = ["('2026-01-01 00:00:00', 1)", "('2026-01-01 00:00:19', 2)", "('2026-01-01 00:00:41', 3)"]


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKESTREAM_NOTIFY_HOSTS", "127.0.0.1")
    monkeypatch.setattr(Workspace, "session", property(lambda _: pytest.fail("Spark was asked")))
    monkeypatch.setattr(OwnSession, "get", lambda _: pytest.fail("Spark was asked"))


@pytest.mark.parametrize("trigger", OPENED_AND_CLOSED)
def test_openings_and_closings_are_told_without_spark(tmp_path: Path, trigger: str) -> None:
    with Lake(tmp_path) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v BIGINT)")
        lake.sql(
            f"CREATE STREAM s {trigger} FROM m "
            "NOTIFY('ws://127.0.0.1:1/') ON (WINDOW_OPEN | WINDOW_CLOSE) "
            "INTO o AS SELECT _twstart AS at, sum(v) AS total FROM %%trows"
        )
        for rows in COMMITS:
            lake.sql(f"INSERT INTO m VALUES {rows}")
            assert not lake.run().failed
    events = DeltaTable(tmp_path / "_lakestream" / "outbox").to_pyarrow_table()
    assert events.num_rows == sum(OPENED_AND_CLOSED[trigger])


def test_a_result_of_windows_that_open_is_computed_without_spark(tmp_path: Path) -> None:
    with Lake(tmp_path) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, v BIGINT)")
        lake.sql(
            "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM m STREAM_OPTIONS(EVENT_TYPE(WINDOW_OPEN)) "
            "INTO o AS SELECT _twstart AS since, _twend AS until"
        )
        for rows in COMMITS:
            lake.sql(f"INSERT INTO m VALUES {rows}")
            assert not lake.run().failed
        assert [since.second for (since,) in lake.sql("SELECT since FROM o ORDER BY since").fetchall()] == [
            *(0, 10, 20, 30, 40)
        ]
