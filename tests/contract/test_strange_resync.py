"""The way out of too many windows, for streams that judge rows as they come: RESYNC, whenever it is said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from shutil import rmtree
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakestream import Lake, Settings
from tests.contract.test_strange_rows import FIRST, STRANGE, THEN, expected, story

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.contract.test_strange_rows import Story

pytestmark = pytest.mark.spark
__all__ = ["story"]


@pytest.mark.parametrize("name", ["the last second", "the first year"])
def test_a_resynchronisation_leads_back_also_after_one_that_came_too_early(story: Story, name: str) -> None:
    lake = story.lake
    story.begin([])
    lake.sql(
        "CREATE STREAM every INTERVAL(10s) SLIDING(10s) FROM t PARTITION BY g STREAM_OPTIONS(FILL_HISTORY) "
        "INTO o_every AS SELECT _twstart AS w, count(*) AS n FROM %%trows"
    )
    story.run()
    story.append([STRANGE[name]])
    for _ in range(2):
        story.run()
        [status] = lake.streams()
        assert (status.status, status.last_error, status.recalculating) == ("Running", None, None)
        assert [group.partition(":")[0] for group in status.waiting_groups] == ["g = 1"]
        lake.sql("RECALCULATE STREAM every RESYNC")
    story.run()
    story.append(THEN)
    story.delete_strange()
    lake.sql("RECALCULATE STREAM every RESYNC")
    story.run()
    [status] = lake.streams()
    assert (status.status, status.last_error, status.recalculating) == ("Running", None, None)
    assert status.waiting_groups == ()
    assert lake.verify("every").holds
    assert story.found("every", "n > 0") == expected("tumbling", [*FIRST, *THEN], (1, 2))


CUT = {
    "sessions": "SESSION(ts, 45s)",
    "states": "STATE_WINDOW(v)",
    "events": "EVENT_WINDOW(START WITH v >= 1 END WITH v >= 2)",
    "counts": "COUNT_WINDOW(1)",
    "grid": "INTERVAL(1m) SLIDING(1m)",
}


def _make(folder: Path, rows: list[tuple[int, str, int]]) -> None:
    """Make a table of (seconds, group, v), whatever was there."""
    rmtree(folder, ignore_errors=True)
    start, at = datetime(2025, 1, 1, tzinfo=UTC), pa.timestamp("us", "UTC")
    schema = pa.schema([("ts", at), ("g", pa.string()), ("v", pa.int32())])
    listed = [{"ts": start + timedelta(seconds=at), "g": g, "v": v} for at, g, v in rows]
    fed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(str(folder), pa.Table.from_pylist(listed, schema), configuration=fed)


@pytest.mark.parametrize("rows", [[], [(0, "a", 1), (90, "a", 2)]], ids=["none", "of one group"])
def test_windows_of_groups_that_the_new_table_has_not_go(
    tmp_path: Path, spark: SparkSession, rows: list[tuple[int, str, int]]
) -> None:
    source = tmp_path / "theirs"
    _make(source, [(0, "a", 1), (100, "b", 2), (300, "a", 1), (400, "b", 2)])
    ways = [("", "whole"), ("PARTITION BY g", "parted")]
    with Lake(tmp_path / "lake", spark=spark, settings=Settings()) as lake:
        lake.sql(f"CREATE TABLE theirs LOCATION '{source}' TIMESTAMP BY ts")
        names = [f"{name}_{way}" for name in CUT for _, way in ways]
        for name, trigger in CUT.items():
            for groups, way in ways:
                lake.sql(
                    f"CREATE STREAM {name}_{way} {trigger} FROM theirs {groups} "
                    "STREAM_OPTIONS(FILL_HISTORY | EXACT) "
                    f"INTO o_{name}_{way} (at, n) AS SELECT _twstart, count(*) FROM %%trows"
                )
        lake.run()
        assert len([name for name in names if lake.sql(f"SELECT * FROM o_{name}").fetchall()]) > 7
        _make(source, rows)
        lake.run()
        for name in names:
            lake.sql(f"RECALCULATE STREAM {name} RESYNC")
        lake.run()
        for name in names:
            assert lake.verify(name).holds if rows else not lake.sql(f"SELECT * FROM o_{name}").fetchall(), (
                name
            )
