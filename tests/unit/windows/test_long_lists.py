"""Lists of more than ten thousand in a tick: windows of a range, of a row, open ones, alike rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakestream import Lake
from lakestream.statements.workspace import Workspace
from lakestream.storage.delta import read_arrow
from lakestream.storage.sessions.jobs import OwnSession
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    _Seconds = Sequence[float] | np.ndarray

MANY = 10_050
BEGIN = 1_735_689_600
_TOLD = "NOTIFY('ws://127.0.0.1:1/') ON (WINDOW_OPEN | WINDOW_CLOSE)"
_COUNTED = "SELECT _twstart AS w, count(*) AS n FROM %%trows"


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKESTREAM_NOTIFY_HOSTS", "127.0.0.1")
    monkeypatch.setattr(Workspace, "session", property(lambda _: pytest.fail("Spark was asked")))
    monkeypatch.setattr(OwnSession, "get", lambda _: pytest.fail("Spark was asked"))


def counted(folder: Path, create: str, commits: Iterable[_Seconds]) -> dict[int, int]:
    """Return the windows of a stream, by their start (s), with their rows, after commits of rows (s)."""
    with without_spark(), Lake(folder) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, g BIGINT)")
        lake.sql(create)
        for seconds in commits:
            times = pa.array((np.array(seconds) * 1_000_000).astype("int64") + BEGIN * 1_000_000)
            rows = pa.table({"ts": times.cast(pa.timestamp("us", "UTC")), "g": np.zeros(len(times), "int64")})
            write_deltalake(f"{lake.root}/main/t", rows, mode="append")
            assert [report.error for report in lake.tick_once()] == [None]
        found = read_arrow(f"{lake.root}/main/o", columns=["w", "n"]).sort_by("w")
    starts = [int(at.timestamp()) - BEGIN for at in found["w"].to_pylist()]
    return dict(zip(starts, found["n"].to_pylist(), strict=True))


def wanted(length: int, slide: int, rows: _Seconds) -> dict[int, int]:
    """Return the windows of a grid that have closed by the last of some rows, with their rows."""
    times = np.sort(np.array(rows))
    first = int((times[0] - length) // slide + 1) * slide
    starts = np.arange(first, times[-1] - length + 1e-9, slide)
    inside = np.searchsorted(times, starts + length) - np.searchsorted(times, starts)
    return dict(zip(starts.astype(int).tolist(), inside.tolist(), strict=True))


@pytest.mark.parametrize("options", ["", "STREAM_OPTIONS(EXACT)", "STREAM_OPTIONS(WATERMARK(2d))"])
@pytest.mark.parametrize(
    ("length", "slide"), [(1, 1), (4, 2), (3, 2), (MANY, 1)], ids=["tumbling", "hopping", "uneven", "wide"]
)
def test_windows_of_a_pause(length: int, slide: int, options: str, tmp_path: Path) -> None:
    rows = [[10.0, 11.0], [12.0 + MANY * slide], [12.5 + MANY * slide], [13.0 + (MANY + 2) * slide]]
    if "WATERMARK" in options:  # all of them are open until a row comes that is later by two days
        rows.append([13.0 + (MANY + 2) * slide + 172_800])
    create = f"CREATE STREAM s INTERVAL({length}s) SLIDING({slide}s) FROM t PARTITION BY g {options} {_TOLD}"
    found = counted(tmp_path, f"{create} INTO o AS {_COUNTED}", rows)
    expected = wanted(length, slide, [second for commit in rows for second in commit])
    last = max(found)
    assert last >= 12 + MANY * slide - length
    assert found == {start: n for start, n in expected.items() if start <= last}


@pytest.mark.parametrize("options", ["", "STREAM_OPTIONS(EXACT)"])
@pytest.mark.parametrize(("length", "slide"), [(1, 1), (4, 2)])
@pytest.mark.parametrize("late", ["one row before all", "a row for each"])
def test_windows_that_are_late(length: int, slide: int, options: str, late: str, tmp_path: Path) -> None:
    each = np.arange(MANY) * slide + 20.0
    one: list[_Seconds] = [[20.0 + MANY * slide], [10.0]]
    rows = one if late == "one row before all" else [each, each[:-5] + 0.5]
    create = f"CREATE STREAM s INTERVAL({length}s) SLIDING({slide}s) FROM t PARTITION BY g {options} {_TOLD}"
    found = counted(tmp_path, f"{create} INTO o AS {_COUNTED}", rows)
    assert found == wanted(length, slide, np.concatenate(rows))


@pytest.mark.parametrize("options", ["", "STREAM_OPTIONS(EXACT)"])
@pytest.mark.parametrize("trigger", ["INTERVAL(1s) SLIDING(1s)", "SESSION(ts, 5s)"])
def test_rows_that_are_alike(trigger: str, options: str, tmp_path: Path) -> None:
    create = f"CREATE STREAM s {trigger} FROM t PARTITION BY g {options} INTO o AS {_COUNTED}"
    found = counted(tmp_path, create, [[10.0], [20.0] * MANY, [30.0]])
    assert {start: n for start, n in found.items() if n} == {10: 1, 20: MANY}


@pytest.mark.parametrize("options", ["", "STREAM_OPTIONS(EXACT)"])
def test_windows_of_counts_that_are_open(options: str, tmp_path: Path) -> None:
    create = f"CREATE STREAM s COUNT_WINDOW({MANY}, 1) FROM t PARTITION BY g {options} {_TOLD}"
    rows: list[_Seconds] = [np.arange(MANY - 1) + 10.0, [float(MANY + 9)], [float(MANY + 10)]]
    assert counted(tmp_path, f"{create} INTO o AS {_COUNTED}", rows) == {10: MANY, 11: MANY}
