"""States beyond the memory that they may take lie in files, and every row is as if they did not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings
from lakestream.engine.base import keyed
from lakestream.engine.rounds.loading import Loader
from lakestream.storage.rows import settled

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

GROUPS, TOUCHED = 2_500, 40
START = datetime(2025, 1, 1, tzinfo=UTC)
COMMITS = [(0, GROUPS), (4, TOUCHED), (13, TOUCHED), (14, GROUPS), (31, TOUCHED), (33, TOUCHED), (55, GROUPS)]
"""Seconds, and how many groups have a row then."""


def feed(lake: Lake, commits: list[tuple[int, int]]) -> None:
    for second, groups in commits:
        drawn = np.random.default_rng(second).choice(GROUPS, groups, replace=False)
        times = [START + timedelta(seconds=second, milliseconds=int(g) % 900) for g in drawn]
        rows = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "g": drawn, "v": drawn * second}
        write_deltalake(f"{lake.root}/main/m", pa.table(rows), mode="append")
        assert not lake.run().failed


def outputs(root: Path, settings: Settings) -> list[list[dict[str, object]]]:
    """Return what the streams have written of the commits, with a start in between."""
    with Lake(root, settings=settings) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, g BIGINT, v BIGINT)")
        for name, window in {"a": "INTERVAL(10s) SLIDING(5s)", "b": "SESSION(ts, 5s)"}.items():
            lake.sql(
                f"CREATE STREAM {name} {window} FROM m PARTITION BY g INTO out_{name} "
                "AS SELECT _twstart AS at, sum(v) AS total, count(*) AS n FROM %%trows"
            )
        feed(lake, COMMITS[:4])
    with Lake(root, settings=settings, create=False) as lake:
        feed(lake, COMMITS[4:])
    names = [("at", "ascending"), ("g", "ascending")]
    tables = [pa.table(DeltaTable(f"{root}/main/out_{name}").to_pyarrow_table()) for name in "ab"]
    return [table.sort_by(names).to_pylist() for table in tables]


def test_states_in_files_change_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = outputs(tmp_path / "memory", Settings())
    kept: list[int] = []
    spill = Loader.spill

    def spilling(loader: Loader) -> None:
        spill(loader)
        kept.extend(len(one.state) for one in loader.known.values() if one.state.nbytes < 40 * len(one.state))

    monkeypatch.setattr(Loader, "spill", spilling)
    monkeypatch.setattr(keyed, "_MOST_APART", 64)
    monkeypatch.setattr(settled, "_BATCH_ROWS", 500)
    assert outputs(tmp_path / "files", Settings(state_memory=0)) == expected
    assert max(kept) == GROUPS
    assert min(map(len, expected)) > 2 * GROUPS


def test_states_stay_in_memory_where_the_disk_takes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(settled.Settled, "written", full)
    with Lake(tmp_path, settings=Settings(state_memory=0)) as lake:
        lake.sql("CREATE TABLE m (ts TIMESTAMP, g BIGINT, v BIGINT)")
        lake.sql(
            "CREATE STREAM a INTERVAL(10s) SLIDING(10s) FROM m PARTITION BY g INTO o "
            "AS SELECT _twstart AS at, sum(v) AS total FROM %%trows"
        )
        feed(lake, [(0, GROUPS), (14, TOUCHED)])
        assert len(lake.sql("SELECT * FROM o").fetchall()) == TOUCHED
    assert "the disk takes no states" in caplog.text
