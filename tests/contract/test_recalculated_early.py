"""A recalculation takes in what was left out before a group's first window, and leaves what is open."""

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


OPEN = {
    "INTERVAL(10s) SLIDING(10s)": [(0, 10), (10, 20), (20, 20)],
    "SESSION(ts, 3s)": [(2, 2), (16, 18), (24, 24)],
    "STATE_WINDOW(v)": [(2, 18), (24, 24)],
    "EVENT_WINDOW(START WITH v = 2 END WITH v = 5)": [(24, 24)],
}
"""A trigger, and the seconds at which its windows begin and end: one that is open ends as it begins."""


def test_a_window_that_is_open_stays_as_it_opened(tmp_path: Path) -> None:
    def shown(number: int) -> list[tuple[int, int]]:
        rows = lake.sql(f"SELECT since, until FROM o{number} ORDER BY since").fetchall()
        return [(since.second, until.second) for since, until in rows]

    with without_spark(), Lake(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        for number, kind in enumerate(OPEN):
            lake.sql(
                f"CREATE STREAM s{number} {kind} FROM t "
                "STREAM_OPTIONS(EVENT_TYPE(WINDOW_OPEN | WINDOW_CLOSE)) "
                f"INTO o{number} AS SELECT _twstart AS since, _twend AS until"
            )
        rows = [(2, 1), (16, 1), (18, 1), (24, 2), (26, 2)]
        lake.insert("t", [{"ts": f"2025-01-01 00:00:{at:02}", "v": v} for at, v in rows])
        lake.run()
        assert [shown(number) for number, _ in enumerate(OPEN)] == [*OPEN.values()]
        for number, _ in enumerate(OPEN):
            lake.sql(f"RECALCULATE STREAM s{number} FROM '2024-12-31 00:00:00'")
        lake.run()
        assert [shown(number) for number, _ in enumerate(OPEN)] == [*OPEN.values()]
