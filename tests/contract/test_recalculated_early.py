"""A recalculation takes in what was left out before a group's first window: late rows, and expired ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from pathlib import Path

KINDS = {
    "INTERVAL(10s) SLIDING(10s)": [0, 10, 20],
    "INTERVAL(10s) SLIDING(5s)": [-5, 0, 5, 10, 15, 20, 25],
    "SESSION(ts, 3s)": [2, 16, 24],
}
"""A trigger, and the seconds at which its windows begin once all is recalculated."""


def begun(lake: Lake) -> list[list[int]]:
    """Return of each stream the seconds at which the windows begin that have been written."""
    text = "SELECT unix_seconds(w) - 1735689600 AS at FROM o{} ORDER BY w"
    return [[row[0] for row in lake.sql(text.format(number)).fetchall()] for number, _ in enumerate(KINDS)]


@pytest.mark.parametrize("policy", ["IGNORE_DISORDER", "EXPIRED_TIME(8s)"])
def test_windows_begin_with_what_was_left_out(tmp_path: Path, policy: str) -> None:
    with without_spark(), Lake(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        for number, kind in enumerate(KINDS):
            lake.sql(
                f"CREATE STREAM s{number} {kind} FROM t STREAM_OPTIONS({policy}) INTO o{number} "
                f"AS SELECT _twstart AS w, count(*) AS n FROM %%trows"
            )
        for seconds in ((16, 24), (2,), (35,)):
            lake.insert("t", [{"ts": f"2025-01-01 00:00:{at:02}", "v": 1} for at in seconds])
            lake.run()
        assert begun(lake) == [[at for at in wanted if at > 5] for wanted in KINDS.values()]
        for number, _ in enumerate(KINDS):
            lake.sql(f"RECALCULATE STREAM s{number} FROM '2024-12-31 00:00:00'")
        lake.run()
        assert begun(lake) == [*KINDS.values()]
