"""A change that touches windows all over a table: as many of their rows as fit are read as Arrow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings
from lakestream.engine.reading import transport
from lakestream.statements.workspace import Workspace
from lakestream.storage.delta import read_arrow

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2025, 1, 1, tzinfo=UTC)
GROUPS = 320
"""More than are named one by one where rows are read."""
CELLS = 4_000
"""What fits, where that is little: 1,333 rows of three columns."""
WINDOWS = {
    "tumbling": "INTERVAL(10s) SLIDING(10s)",
    "session": "SESSION(ts, 4s)",
}


def rows(seconds: list[int]) -> pa.Table:
    """Return a row of each group at some seconds."""
    times = [START + timedelta(seconds=second) for second in seconds for _ in range(GROUPS)]
    columns = {
        "ts": pa.array(times, pa.timestamp("us", "UTC")),
        "g": pa.array([*range(GROUPS)] * len(seconds), pa.int64()),
        "v": pa.array([1] * len(times), pa.int64()),
    }
    return pa.table(columns)


def opened(root: Path) -> Lake:
    """Return a lake with a stream for each kind of window that has taken rows of a minute and a half."""
    lake = Lake(root, settings=Settings())
    lake.sql("CREATE TABLE m (ts TIMESTAMP, g BIGINT, v BIGINT)")
    for name, window in WINDOWS.items():
        lake.sql(
            f"CREATE STREAM {name} {window} FROM m PARTITION BY g STREAM_OPTIONS(EXACT) INTO out_{name} AS "
            "SELECT _twstart AS at, sum(v) AS total FROM %%trows"
        )
    write_deltalake(f"{lake.root}/main/m", rows([*range(0, 90, 9)]), mode="append")
    assert not lake.run().failed
    return lake


def change(lake: Lake) -> None:
    """Have late rows come in windows all over the table."""
    write_deltalake(f"{lake.root}/main/m", rows([1, 41, 75]), mode="append")


def outputs(lake: Lake) -> dict[str, Any]:
    """Return the rows of all outputs, in order."""
    found = {name: DeltaTable(f"{lake.root}/main/out_{name}").to_pyarrow_table() for name in WINDOWS}
    return {name: sorted(map(repr, pa.table(table).to_pylist())) for name, table in found.items()}


def test_a_wide_read_is_for_spark_and_the_next_small_tick_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[None] = []
    read: list[int] = []

    def shared(_: Workspace) -> None:
        asked.append(None)
        raise RuntimeError("Spark is asked")

    def counted(*args: Any, **given: Any) -> pa.Table:
        found = read_arrow(*args, **given)
        read.append(found.num_rows)
        return found

    monkeypatch.setattr(Workspace, "shared", property(shared))
    with opened(tmp_path / "lake") as lake:
        assert not asked
        change(lake)
        with monkeypatch.context() as patched:
            patched.setattr(transport, "MAX_ARROW_CELLS", CELLS)
            patched.setattr(transport, "read_arrow", counted)
            failed = lake.run().failed
        assert {tick.stream for tick in failed} == {f"main.{name}" for name in WINDOWS}
        assert all("Spark is asked" in (tick.error or "") for tick in failed)
        assert all(count <= CELLS // 3 for count in read)
        asked.clear()
        for name in WINDOWS:
            lake.sql(f"START STREAM {name}")
        assert not lake.run().failed
        assert not asked
        assert sum("total': 3" in row for row in outputs(lake)["tumbling"]) >= GROUPS


@pytest.mark.spark
@pytest.mark.long
def test_spark_gives_what_arrow_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "here") as lake:
        change(lake)
        assert not lake.run().failed
        expected = outputs(lake)
    with opened(tmp_path / "beyond") as lake:
        change(lake)
        monkeypatch.setattr(transport, "MAX_ARROW_CELLS", CELLS)
        assert not lake.run().failed
        assert outputs(lake) == expected
