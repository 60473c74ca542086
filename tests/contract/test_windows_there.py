"""What a late row has read of an output whose windows rows cut: those of its group, not the others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from lakestream import Lake, Settings
from lakestream.engine.streams import write

if TYPE_CHECKING:
    from pathlib import Path

BEGAN = datetime(2025, 1, 1, tzinfo=UTC)
KINDS = {
    "session": "SESSION(ts, 2s)",
    "state": "STATE_WINDOW(k)",
    "event": "EVENT_WINDOW(START WITH k = 0 END WITH k = 1)",
    "count": "COUNT_WINDOW(2)",
    "overlapping": "COUNT_WINDOW(4, 2)",
}
DAYS = (0, 1, 2, 6)
"""When rows come: none of them within a day of those of the sixth."""
MOMENTS = {
    "before all": (timedelta(days=-3),),
    "in the first window": (timedelta(seconds=1, milliseconds=500),),
    "far from all": (timedelta(days=4),),
    "behind a pause": (timedelta(days=5, seconds=-1),),
    "at two ends": (timedelta(days=4), timedelta(days=6, seconds=9, milliseconds=500)),
}
SETTINGS = Settings(durability="process", sink_commits_per_second=0)


def rows_of(days: tuple[int, ...], groups: int) -> list[dict[str, Any]]:
    """Return twenty rows of each group for each day, of windows of any kind."""
    return [
        {
            "ts": BEGAN + timedelta(days=day, seconds=3 * at, milliseconds=group),
            "g": group,
            "k": at // 2 % 2,
            "v": at,
        }
        for day in days
        for at in range(20)
        for group in range(groups)
    ]


def written(root: Path, trigger: str, *commits: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the output over rows that come in some commits."""
    with Lake(root, settings=SETTINGS) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, g INT, k INT, v INT)")
        lake.sql(
            f"CREATE STREAM s {trigger} FROM t PARTITION BY g STREAM_OPTIONS(EXACT) INTO o AS "
            "SELECT _twstart AS w, _twend AS e, count(*) AS n, sum(v) AS total FROM %%trows"
        )
        for rows in commits:
            lake.insert("t", rows)
            assert not lake.run().failed
    rows = DeltaTable(root / "main" / "o").to_pyarrow_table(columns=["g", "w", "e", "n", "total"])
    return sorted(tuple(row.values()) for row in rows.to_pylist())


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_late_row_has_windows_of_its_group_read(
    kind: str, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []
    windows_where = write._windows_where

    def counted(*given: Any) -> set[tuple[int, int, int]]:
        windows = windows_where(*given)
        found.append(len(windows))
        return windows

    there = rows_of(DAYS, 8)
    late = [{"ts": BEGAN + at, "g": 3, "k": 1, "v": 1000} for at in MOMENTS[moment]]
    at_once = written(tmp_path / "once", KINDS[kind], [*there, *late])
    monkeypatch.setattr(write, "_windows_where", counted)
    assert written(tmp_path / "late", KINDS[kind], there, late) == at_once
    assert max(found, default=0) < len(at_once) // 4
