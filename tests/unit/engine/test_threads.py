"""One lake, and lakes of their own, in several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = {"interval": "INTERVAL(1m) SLIDING(1m)", "session": "SESSION(ts, 30s)", "count": "COUNT_WINDOW(3)"}
COMMITS = 6


def stream(name: str, trigger: str) -> str:
    """Return a statement that creates a stream over all rows, those before it too."""
    return (
        f"CREATE STREAM {name} {trigger} FROM t PARTITION BY id STREAM_OPTIONS(FILL_HISTORY) INTO o_{name} "
        "AS SELECT _twstart AS w, count(*) AS n FROM %%trows"
    )


@pytest.mark.parametrize("own", [0, 2, 4], ids=["shared", "mixed", "own"])
def test_threads_write_and_run_without_taking_one_anothers_ticks(tmp_path: Path, own: int) -> None:
    """Each of four threads inserts and runs, by one lake or with one of its own; nothing fails or is lost."""
    root = str(tmp_path / "lake")

    def works(lake: Lake, number: int) -> list[str]:
        failed = []
        for n in range(COMMITS):
            ts = START + timedelta(seconds=17 * (4 * n + number))
            lake.insert("t", [{"ts": ts, "id": f"d{number}", "v": n}])
            failed += [str(tick.error) for tick in lake.run().failed]
        return failed

    with without_spark(), Lake(root) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, id STRING, v INT)")
        for name, trigger in KINDS.items():
            lake.sql(stream(name, trigger))
        lakes = [lake.another() if number < own else lake for number in range(4)]
        with ThreadPoolExecutor(4) as pool:
            for failed in pool.map(works, lakes, range(4)):
                assert failed == []
        assert lake.sql("SELECT count(*) FROM t").fetchall() == [(4 * COMMITS,)]
        for name, trigger in KINDS.items():
            lake.sql(stream(f"again_{name}", trigger))
        lake.run()
        for name in KINDS:
            once, again = (lake.sql(f"SELECT * FROM o_{of}").fetchall() for of in (name, f"again_{name}"))
            assert sorted(once) == sorted(again)
            assert once
        for another in lakes[:own]:
            another.close()
