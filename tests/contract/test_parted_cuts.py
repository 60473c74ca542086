"""Windows that rows cut, of many groups: looked at by parts of these, with the results of all at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake
from lakestream.engine.windows.rows import steps
from lakestream.engine.windows.rows.cutting import Cutting
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

START = datetime(2025, 1, 1, tzinfo=UTC)
GROUPS = 48
PART = 32
KINDS = {
    "session": "SESSION(ts, 7s) FROM t PARTITION BY g",
    "state": "STATE_WINDOW(k) FROM t PARTITION BY g",
    "event": "EVENT_WINDOW(START WITH k = 1 END WITH k = 2) FROM t PARTITION BY g",
    "counted": "COUNT_WINDOW(3) FROM t PARTITION BY g STREAM_OPTIONS(EXACT)",
    "exact": "SESSION(ts, 7s) FROM t PARTITION BY g STREAM_OPTIONS(EXACT)",
}


def rows(seconds: range, groups: range, *, beside: int = 0) -> pa.Table:
    """Return a row of each group at each second that is five times a number, pauses among them."""
    at = [(number, group) for number in seconds for group in groups]
    times = [START + timedelta(seconds=number * 5 + number // 4 * 10 + beside) for number, _ in at]
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "g": pa.array([group for _, group in at], pa.int32()),
            "v": pa.array([number * 7 + group for number, group in at], pa.int64()),
            "k": pa.array([number // 2 % 4 for number, _ in at], pa.int32()),
        }
    )


def outputs(root: Path) -> dict[str, list[str]]:
    """Return all outputs behind rows in order, late ones, changes and a recalculation."""
    with without_spark(), Lake(root) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, g INT, v BIGINT, k INT)")
        for name, trigger in KINDS.items():
            lake.sql(
                f"CREATE STREAM {name} {trigger} INTO o_{name} AS "
                f"SELECT _twstart AS w, count(*) AS n, sum(v) AS total FROM %%trows"
            )
        table = f"{root}/main/t"
        steps_of_source = (
            lambda: write_deltalake(table, rows(range(13), range(GROUPS)), mode="append"),
            lambda: write_deltalake(table, rows(range(2, 7), range(0, GROUPS, 2), beside=1), mode="append"),
            lambda: DeltaTable(table).update({"v": "v + 100"}, predicate="g % 3 = 0 AND k = 1"),
            lambda: DeltaTable(table).delete("g % 5 = 4 AND k = 0"),
        )
        for step in steps_of_source:
            step()
            assert lake.run().failed == []
        for name in KINDS:
            end = f" TO '{START + timedelta(seconds=60)}'" if name == "counted" else ""
            lake.sql(f"RECALCULATE STREAM {name} FROM '2024-12-31'{end}")
        assert lake.run().failed == []
        found = {name: DeltaTable(f"{root}/main/o_{name}").to_pyarrow_table() for name in KINDS}
    return {name: sorted(map(repr, table.to_pylist())) for name, table in found.items()}


def test_many_groups_are_cut_by_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = outputs(tmp_path / "at once")
    looked_at: list[int] = []
    windows_of = Cutting._windows

    def counted(cutting: Cutting, touched: list[Any]) -> dict[int, list[dict[str, Any]]]:
        found = windows_of(cutting, touched)
        looked_at.append(sum(map(len, found.values())))
        return found

    monkeypatch.setattr(Cutting, "_windows", counted)
    monkeypatch.setattr(steps, "PART_WINDOWS", PART)
    assert outputs(tmp_path / "by parts") == expected
    assert all(len(found) > GROUPS for found in expected.values())
    assert len(looked_at) > 5 * GROUPS // PART
    assert max(looked_at) < 2 * PART, looked_at
