"""A history that is taken in parts goes on in whatever process comes next, from the part that is next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2025, 1, 1, tzinfo=UTC)
MOST = 8
TRIGGERS = {
    "tumbling": "INTERVAL(1m) SLIDING(1m) FROM t{} STREAM_OPTIONS(FILL_HISTORY)",
    "exact": "INTERVAL(1m) SLIDING(1m) FROM t{} STREAM_OPTIONS(FILL_HISTORY | EXACT)",
    "once": "INTERVAL(1m) SLIDING(1m) FROM t{} STREAM_OPTIONS(FILL_HISTORY | IGNORE_DISORDER)",
    "sessions": "SESSION(ts, 10s) FROM t{} STREAM_OPTIONS(FILL_HISTORY | IGNORE_DISORDER)",
    "counts": "COUNT_WINDOW(2) FROM t{} STREAM_OPTIONS(FILL_HISTORY | IGNORE_DISORDER)",
    "states": "STATE_WINDOW(v) FROM t{} STREAM_OPTIONS(FILL_HISTORY | IGNORE_DISORDER)",
}


def taken(root: Path, clause: str, *, apart: bool) -> tuple[list[Any], int]:
    """Return a stream's rows, and how many late ones it met; ``apart``: each tick has its own process."""
    settings = Settings(max_windows_per_tick=MOST, sink_commits_per_second=0)
    lake = Lake(root, settings=settings)
    lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT, g VARCHAR(4))")
    minutes = [START + timedelta(minutes=minute) for minute in range(40)]
    rows = [
        {"ts": minute + timedelta(seconds=second), "v": number, "g": g}
        for number, minute in enumerate(minutes)
        for g, seconds in (("a", (0, 20)), ("b", (1, 21)))
        for second in seconds
    ]
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("v", pa.int32()), ("g", pa.string())])
    write_deltalake(f"{root}/main/t", pa.Table.from_pylist(rows, schema=schema), mode="append")
    query = "SELECT _twstart AS w, count(*) AS n, sum(v) AS total FROM %%trows"
    lake.sql(f"CREATE STREAM s {clause} INTO o AS {query}")
    late = 0
    while ticks := lake.tick_once() if apart else lake.run().ticks:
        assert {tick.error for tick in ticks} == {None}
        late += sum(tick.late for tick in ticks)
        if apart:  # as after a kill: nothing is saved on the way out
            lake = Lake(root, settings=settings)
    found = DeltaTable(f"{root}/main/o").to_pyarrow_table().to_pylist()
    assert len(found) > MOST
    return sorted(map(repr, found)), late


@pytest.mark.parametrize("by", ["", " PARTITION BY g"], ids=["one group", "groups"])
@pytest.mark.parametrize("kind", TRIGGERS)
def test_each_part_in_a_process_of_its_own_gives_what_one_process_does(
    tmp_path: Path, kind: str, by: str
) -> None:
    with without_spark():
        expected = taken(tmp_path / "one", TRIGGERS[kind].format(by), apart=False)
        assert expected[1] == 0
        assert taken(tmp_path / "apart", TRIGGERS[kind].format(by), apart=True) == expected
