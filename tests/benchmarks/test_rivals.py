"""The rivals compute what they are measured for: whatever is late, and wherever they begin again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyarrow import parquet

from tests.benchmarks import data
from tests.benchmarks.data import SECOND_US, START_US
from tests.benchmarks.nexmark.events import TABLES, events
from tests.benchmarks.nexmark.queries import QUERIES
from tests.benchmarks.output import Files
from tests.benchmarks.rivals import floors
from tests.benchmarks.rivals.deltalog import Log
from tests.benchmarks.rivals.duckdb_job import Grid, Job, Sessions
from tests.benchmarks.scenarios.windows import CUTS, HOPPING, TUMBLING, Window

if TYPE_CHECKING:
    from pathlib import Path

    from tests.benchmarks.rivals.duckdb_job import Windows

DEVICES = data.LARGE_DEVICES
HISTORY = [
    data.rows(0, 6_000, DEVICES),
    data.rows(6_000, 1_000, DEVICES),
    data.burst(START_US, 0, 5, 1),
    pa.concat_tables([data.burst(START_US + 20 * SECOND_US, 0, 7, 3), data.rows(7_000, 1_500, DEVICES)]),
    data.rows(8_500, 1, DEVICES),
    data.rows(8_501, 799, DEVICES),
]
"""Commits in order, late ones, both in one, and one that closes nothing."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    DeltaTable.create(tmp_path / "source", data.SCHEMA)
    return tmp_path / "source"


@pytest.mark.parametrize("window", [TUMBLING, HOPPING])
@pytest.mark.parametrize("restarts", [False, True])
def test_the_duckdb_job_equals_one_query(source: Path, window: Window, restarts: bool) -> None:
    windows = Grid(window.length * SECOND_US, window.step * SECOND_US)
    job = Job(source, source.parent / "job", windows)
    for number, rows in enumerate(HISTORY):
        data.append(DeltaTable(source), rows)
        if restarts:
            job = Job(source, source.parent / "job", windows)
        job.run()
        assert _rows(job.target) == _expected(pa.concat_tables(HISTORY[: number + 1]), window)


@pytest.mark.parametrize("windows", [Grid(10 * SECOND_US, 10 * SECOND_US), Sessions(5 * SECOND_US)])
def test_the_duckdb_job_takes_a_commit_once(source: Path, windows: Windows) -> None:
    data.append(DeltaTable(source), HISTORY[0])
    job = Job(source, source.parent / "job", windows)
    assert job.run() == 2
    written = _rows(job.target)
    assert Job(source, source.parent / "job", windows).run() == 2
    assert _rows(job.target) == written
    assert len(list((source.parent / "job").glob("open-*.parquet"))) == 1


def test_sessions_of_the_duckdb_job_go_on_over_commits(tmp_path: Path) -> None:
    rows = data.runs(0, 5_000, DEVICES)
    DeltaTable.create(tmp_path / "source", rows.schema)
    for first in range(0, 5_000, 700):
        data.append(DeltaTable(tmp_path / "source"), rows.slice(first, 700))
        job = Job(tmp_path / "source", tmp_path / "job", Sessions(30 * SECOND_US))
        job.run()
    found = _rows(job.target)
    assert len(found) == 4 * DEVICES
    assert {row[4] for row in found} == {data.RUN_ROWS}


def test_rows_that_are_taken_away_are_refused(source: Path) -> None:
    data.append(DeltaTable(source), HISTORY[0])
    DeltaTable(source).delete("v > 0")
    with pytest.raises(ValueError, match=r"version 2 of .* removes rows"):
        Log(source).added(0)


@pytest.mark.parametrize("query", [floors.duckdb_cut, floors.polars_cut])
@pytest.mark.parametrize("kind", CUTS)
def test_floors_cut_the_windows_of_runs(tmp_path: Path, kind: str, query: Any) -> None:
    parquet.write_table(data.runs(0, 5_000, DEVICES), tmp_path / "rows.parquet")
    query(kind, 30 * SECOND_US, data.RUN_ROWS, [str(tmp_path / "rows.parquet")], tmp_path / "windows.parquet")
    found = parquet.read_table(tmp_path / "windows.parquet")
    assert found.num_rows == CUTS[kind].closed(5) * DEVICES
    assert set(found["n"].to_pylist()) == {data.RUN_ROWS}
    runs = {data.run_us(number) for number in range(CUTS[kind].closed(5))}
    assert set(found["start"].cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()) == runs


def test_events_of_auctions_are_the_same_each_time_and_in_order() -> None:
    made, again = events(5_000), events(5_000)
    assert made == again
    assert [getattr(made, name).num_rows for name in TABLES] == [100, 300, 4_600]
    for name in TABLES:
        times = getattr(made, name)["ts"].to_pylist()
        assert times == sorted(times)


@pytest.mark.parametrize("name", QUERIES)
def test_each_query_over_auctions_has_an_answer(name: str) -> None:
    made, connection = events(60_000), duckdb.connect()
    for table in TABLES:
        connection.register(table, getattr(made, table))
    found = connection.execute(f"SELECT count(*), min(n) FROM ({QUERIES[name].duckdb})").fetchall()
    assert found[0][0] > 0
    assert found[0][1] > 0


def test_files_of_a_folder_are_an_output(tmp_path: Path) -> None:
    starts = pa.array([0, 10, 20], pa.timestamp("us", "UTC"))
    parquet.write_table(pa.table({"start": starts, "n": [1, 2, 4]}), tmp_path / "part-0")
    parquet.write_table(pa.table({"start": starts, "n": [9, 9, 9]}), tmp_path / ".part-1.inprogress")
    assert Files(tmp_path).counted(0, 20) == (2, 3)


def _rows(target: Path) -> list[Any]:
    reader = QueryBuilder().register("rows", DeltaTable(target)).execute("SELECT * FROM rows")
    rows = pa.table(reader.read_all())
    query = "SELECT epoch_us(start), tbname, round(mean, 6), top, n FROM rows ORDER BY ALL"
    return _query(rows, query)


def _expected(rows: pa.Table, window: Window) -> list[Any]:
    length, step = window.length * SECOND_US, window.step * SECOND_US
    query = (
        "SELECT start, tbname, round(avg(v), 6), max(v), count(*) FROM"
        f" (SELECT epoch_us(ts) // {step} * {step} - back AS start, tbname, v"
        f"  FROM rows, range(0, {length}, {step}) steps(back))"
        f" WHERE start + {length} <= (SELECT epoch_us(max(ts)) FROM rows) GROUP BY start, tbname ORDER BY ALL"
    )
    return _query(rows, query)


def _query(rows: pa.Table, query: str) -> list[Any]:
    connection = duckdb.connect()
    connection.register("rows", rows)
    return connection.execute(query).fetchall()
