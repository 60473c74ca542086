"""Groups that come again after a long time: ticks read the rows of their windows, and none between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from lakestream import Lake, Settings
from lakestream.engine.reading import transport
from lakestream.storage.rows.reading import read_arrow

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

BETWEEN = 12
"""Ticks of another group before the first one comes again."""
WINDOWS = {
    "session": ("SESSION(ts, 4s)", "", [(0, 2, 3)]),
    "session that tells": ("SESSION(ts, 4s)", "STREAM_OPTIONS(MAX_DELAY(1h)) ", [(0, 2, 3)]),
    "state": ("STATE_WINDOW(v)", "STREAM_OPTIONS(EXACT) ", [(0, 1, 1), (1, 1, 2)]),
    "count": ("COUNT_WINDOW(3)", "", [(0, 3, 10)]),
}


@pytest.mark.parametrize("kind", WINDOWS)
def test_nothing_is_read_of_the_time_in_which_a_group_was_silent(tmp_path: Path, kind: str) -> None:
    clause, options, expected = WINDOWS[kind]
    read: list[int] = []

    def counted(*args: Any, **given: Any) -> pa.Table:
        rows = read_arrow(*args, **given)
        read.append(rows.num_rows)
        return rows

    with Lake(tmp_path, settings=Settings(durability="process", compact_commits=0)) as lake:
        lake.sql("CREATE STABLE m (ts TIMESTAMP, v INT) TAGS (g INT)")
        lake.sql("CREATE TABLE a USING m TAGS (1); CREATE TABLE b USING m TAGS (2)")
        lake.sql(
            f"CREATE STREAM s {clause} FROM m PARTITION BY tbname {options}INTO o "
            "AS SELECT _twstart AS w, count(*) AS n, sum(v) AS total FROM %%trows"
        )
        lake.sql("INSERT INTO a VALUES ('2025-01-01 00:00:00', 1) ('2025-01-01 00:00:01', 2)")
        assert lake.run().failed == []
        for minute in range(1, BETWEEN + 1):
            lake.sql(f"INSERT INTO b VALUES ('2025-01-01 00:{minute:02}:00', 1)")
        assert lake.run().failed == []
        lake.sql("INSERT INTO a VALUES ('2025-01-01 01:00:00', 7)")
        with patch.object(transport, "read_arrow", counted):
            assert lake.run().failed == []
        found = lake.sql(
            "SELECT unix_seconds(w) - 1735689600, n, total FROM o WHERE tag_tbname = 'a' AND n < 4 ORDER BY w"
        ).fetchall()
    assert [tuple(row) for row in found][: len(expected)] == expected
    assert max(read) <= 3
