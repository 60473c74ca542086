"""States lie in files beyond the memory that they may take, and a start goes on from what is saved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake, Settings
from lakestream.engine.base import keyed
from lakestream.engine.rounds.loading import Loader
from lakestream.engine.rounds.recording import Recording
from lakestream.engine.windows.grid.updating import Updating
from lakestream.storage.rows import settled

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.parametrize("window", ["INTERVAL(10s) SLIDING(10s)", "INTERVAL(10s) SLIDING(5s)"])
def test_a_start_reads_no_rows_of_open_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: str
) -> None:
    def never(*_: object) -> None:
        pytest.fail("open windows were computed from the source")

    monkeypatch.setattr(Updating, "_open_windows", never)
    with Lake(tmp_path) as lake:
        create(lake, window)
        feed(lake, [(0, 30), (4, 30)])
    for commits in [[(5, 3)], [(8, 30), (9, 2)], [(21, 30)], [(34, 30)]]:
        with Lake(tmp_path, create=False) as lake:
            feed(lake, commits)
    assert totals(tmp_path) == batch(tmp_path, window)


def test_open_windows_that_are_not_of_the_groups_tick_are_computed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = "INTERVAL(10s) SLIDING(10s)"
    with Lake(tmp_path) as lake:
        create(lake, window)
        feed(lake, [(0, 30)])
    with monkeypatch.context() as patch, Lake(tmp_path, create=False) as lake:
        patch.setattr(Recording, "_write_opened", lambda *_: None)  # as a crash in between leaves them
        feed(lake, [(4, 30)])
    with Lake(tmp_path, create=False) as lake:
        feed(lake, [(8, 10), (21, 30)])
    assert totals(tmp_path) == batch(tmp_path, window)


def test_open_windows_that_are_damaged_are_computed_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    window = "INTERVAL(10s) SLIDING(10s)"
    with Lake(tmp_path) as lake:
        create(lake, window)
        feed(lake, [(0, 30), (4, 30)])
    [*files] = (tmp_path / "_lakestream" / "opened").glob("*/*.parquet")
    for file in files:
        file.write_bytes(b"nothing")
    for commits in [[(8, 10)], [(21, 30)]]:
        with Lake(tmp_path, create=False) as lake:
            feed(lake, commits)
    assert totals(tmp_path) == batch(tmp_path, window)
    assert caplog.text.count("open windows are computed anew") == 1


def test_a_stream_that_is_dropped_leaves_no_open_windows(tmp_path: Path) -> None:
    with Lake(tmp_path) as lake:
        create(lake, "INTERVAL(10s) SLIDING(10s)")
        feed(lake, [(0, 30)])
    folder = tmp_path / "_lakestream" / "opened"
    assert len([*folder.iterdir()]) == 1
    with Lake(tmp_path, create=False) as lake:
        lake.sql("DROP STREAM a")
    assert not [*folder.iterdir()]


def create(lake: Lake, window: str) -> None:
    lake.sql("CREATE TABLE m (ts TIMESTAMP, g BIGINT, v BIGINT)")
    lake.sql(
        f"CREATE STREAM a {window} FROM m PARTITION BY g INTO o "
        "AS SELECT _twstart AS at, sum(v) AS total FROM %%trows"
    )


def totals(root: Path) -> list[tuple[object, ...]]:
    """Return what the stream has written of windows with rows (at, group, total), in order."""
    with Lake(root, create=False) as lake:
        return sorted(lake.sql("SELECT at, g, total FROM o WHERE total IS NOT NULL").fetchall())


def batch(root: Path, window: str) -> list[tuple[object, ...]]:
    """Return the closed windows with rows of the whole source."""
    step = 5 if window.endswith("(5s)") else 10
    rows = pa.table(DeltaTable(f"{root}/main/m").to_pyarrow_table()).to_pylist()
    newest = {g: max(row["ts"] for row in rows if row["g"] == g) for g in {row["g"] for row in rows}}
    found: dict[tuple[datetime, int], int] = {}
    for row in rows:
        second = int((row["ts"] - START).total_seconds())
        for start in range(second // step * step, second - 10, -step):
            at = START + timedelta(seconds=start)
            if at + timedelta(seconds=10) <= newest[row["g"]]:
                found[at, row["g"]] = found.get((at, row["g"]), 0) + row["v"]
    return sorted((at, g, total) for (at, g), total in found.items())
