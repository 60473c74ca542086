"""What the benchmarks rest on: their rows, what they expect of a system, and the tables of figures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from tests.benchmarks import data, growth, ratios, report
from tests.benchmarks.output import counted, require
from tests.benchmarks.repetition import Repetition
from tests.benchmarks.scenarios import PREPARATIONS, SCENARIOS
from tests.benchmarks.scenarios.windows import HOPPING, TUMBLING, Window

if TYPE_CHECKING:
    from pathlib import Path

FIGURES = {
    ("catchup", "lakestream", "seconds"): [12.0, 10.0, 11.0],
    ("catchup", "lakestream", "rows_per_second"): [400_000.0, 500_000.0, 450_000.0],
    ("catchup", "lakestream", "cpu_seconds"): [20.0, 21.0, 20.5],
    ("poll", "lakestream", "seconds"): [0.001234],
}
TABLE = """\
| scenario | system | seconds | least to greatest | rows a second | CPU seconds | peak MiB |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
| `catchup` | `lakestream` | 11 | 10–12 | 450,000 | 20.5 |  |
| `poll` | `lakestream` | 0.00123 | 0.00123–0.00123 |  |  |  |
"""


@pytest.mark.parametrize("window", [TUMBLING, HOPPING, Window(10, 5)])
@pytest.mark.parametrize(("first", "newest"), [(0, 9), (0, 10), (0, 600), (500, 611), (7, 90)])
def test_windows_that_close_are_counted(window: Window, first: int, newest: int) -> None:
    starts = range(-600, 1_200, window.step)
    closed = [s for s in starts if s + window.length > first and s + window.length <= newest]
    assert window.closed(first, newest) == len(closed)


@pytest.mark.parametrize("scale", [0.01, 0.02, 0.3, 1.0, 2.0])
def test_the_large_source_ends_with_a_whole_window(scale: float) -> None:
    count, big, small = data.large_shape(scale)
    assert count % (data.LARGE_DEVICES * TUMBLING.length) == 0
    assert count >= (big + small) * 500


def test_the_large_source_at_full_scale() -> None:
    count, big, small = data.large_shape(1.0)
    assert (count, big + small) == (10_000_000, 2_000)


def test_the_large_source_is_a_delta_table(tmp_path: Path) -> None:
    path = tmp_path / "source"
    DeltaTable.create(path, data.SCHEMA)
    data.write_large(str(path), 0.01)
    count, big, small = data.large_shape(0.01)
    table = DeltaTable(path)
    assert table.version() == big + small
    query = QueryBuilder().register("source", table)
    [found] = pa.table(
        query.execute(
            "SELECT count(*) AS n, count(DISTINCT tbname) AS devices, count(DISTINCT ts) AS seconds"
            " FROM source"
        ).read_all()
    ).to_pylist()
    assert found == {"n": count, "devices": 100, "seconds": count // 100}


def test_rows_of_a_burst_have_times_of_their_own(tmp_path: Path) -> None:
    path = str(tmp_path / "source")
    write_deltalake(path, data.rows(0, 3_000, data.LARGE_DEVICES))
    data.write_burst(path, data.START_US, 100_000, 0, [2_000, 1_000], data.START_US + 60_000_000)
    times = DeltaTable(path).to_pyarrow_table().select(["ts", "tbname"])
    assert times.num_rows == 3_000 + 3_000 + data.LARGE_DEVICES
    assert times.group_by(["ts", "tbname"]).aggregate([]).num_rows == times.num_rows


def test_windows_of_an_output_are_counted(tmp_path: Path) -> None:
    starts = pa.array([0, 10, 20], pa.timestamp("us", "UTC"))
    write_deltalake(tmp_path, pa.table({"start": starts, "n": [1, 2, 4]}))
    assert counted(tmp_path, 0, 20) == (2, 3)


def test_a_wrong_result_is_no_figure() -> None:
    require((1, 2), (1, 2), "windows")
    with pytest.raises(RuntimeError, match=r"windows: expected \(1, 2\), found \(1, 3\)"):
        require((1, 3), (1, 2), "windows")


def test_every_preparation_is_there() -> None:
    starts = {scenario.start for scenario in SCENARIOS.values()} | {p.start for p in PREPARATIONS.values()}
    assert starts - {None} == set(PREPARATIONS)


def test_runs_get_copies_of_what_they_start_from(tmp_path: Path) -> None:
    prepared = tmp_path / "caught_up" / "_delta_log"
    prepared.mkdir(parents=True)
    (prepared / "0.json").write_text("{}")
    (tmp_path / "caught_up" / "rows.parquet").write_text("rows")
    repetition = Repetition(tmp_path, 1.0)
    assert repetition._set_up("caught_up")
    (tmp_path / "work" / "_delta_log" / "0.json").write_text("changed")
    assert (prepared / "0.json").read_text() == "{}"
    assert (tmp_path / "work" / "rows.parquet").samefile(tmp_path / "caught_up" / "rows.parquet")


def test_figures_are_summed_up() -> None:
    summary = report.summary(FIGURES)
    assert summary[0] == {
        "scenario": "catchup",
        "system": "lakestream",
        "metric": "seconds",
        "median": 11.0,
        "min": 10.0,
        "max": 12.0,
        "unit": "s",
    }
    assert json.loads(json.dumps(summary)) == summary


def test_figures_become_a_table() -> None:
    assert report.markdown(report.summary(FIGURES)) == TABLE


BOUNDS = [ratios.Bounded("catchup", 0.2, {"other": 2.0})]


@pytest.mark.parametrize(("theirs", "line"), [(5.5, "2 times"), (5.0, "2.2 times")])
def test_a_ratio_is_held_against_its_bound(theirs: float, line: str) -> None:
    rows = report.summary(FIGURES | {("catchup", "other", "seconds"): [theirs]})
    [(found, holds)] = ratios.compared(BOUNDS, rows)
    assert found == f"catchup: {line} other, at most 2"
    assert holds == (theirs == 5.5)


def test_what_was_not_measured_holds_no_bound() -> None:
    [(found, holds)] = ratios.compared(BOUNDS, report.summary(FIGURES))
    assert (found, holds) == ("catchup: nothing to hold against other", False)


@pytest.mark.parametrize(("peak", "said"), [(700.0, "700 MiB, at most 800"), (801.0, "801 MiB, at most 800")])
def test_the_peak_of_memory_is_held_to_its_bound(peak: float, said: str) -> None:
    bounds = [ratios.Bounded("catchup", 0.2, {}, 800)]
    figures = {("catchup", "lakestream", "peak_mib"): [peak], ("catchup", "other", "peak_mib"): [900.0]}
    assert ratios.compared(bounds, report.summary(figures)) == [(f"catchup: {said}", peak == 700.0)]
    assert ratios.compared(bounds, []) == [("catchup: no peak of memory", False)]


def test_bounds_are_of_scenarios_and_their_systems() -> None:
    for bounded in ratios.read():
        assert set(bounded.systems) <= set(SCENARIOS[bounded.scenario].systems)


def test_axes_are_of_scenarios_and_their_systems() -> None:
    for axis in growth.AXES:
        assert set(axis.systems) <= set(SCENARIOS[axis.scenario].systems)


def test_growth_becomes_a_table() -> None:
    axis = growth.AXES[2]
    rows = report.summary(
        {("many", "lakestream", "cpu_seconds"): [1.0, 2.0, 3.0], ("many", "x", "peak_mib"): [1.0]}
    )
    found = [*growth.points(rows, axis, 0.01), *growth.points(rows, axis, 1.0)]
    assert found[0] == {"axis": "streams", "size": 10, "system": "lakestream", "cpu_seconds": 2.0}
    page = growth.markdown(found)
    assert page.endswith("| 10 | 2 |  |\n| 1,000 | 2 |  |\n")
    assert "(growth-streams.svg)" in page
    assert "growth-rows" not in page


def test_only_the_block_of_a_page_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- figures -->\nold\n<!-- end of figures -->\nafter\n")
    report.fill(page, TABLE)
    assert page.read_text() == f"before\n<!-- figures -->\n{TABLE}<!-- end of figures -->\nafter\n"


def test_a_page_without_a_block_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("no block\n")
    with pytest.raises(ValueError, match="no block between"):
        report.fill(page, TABLE)
