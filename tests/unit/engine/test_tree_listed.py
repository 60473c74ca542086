"""Devices and series of the tree, listed and counted. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakestream import Lake
from lakestream.errors import StatementError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with Lake(tmp_path_factory.mktemp("tree") / "lake") as lake:
        for device, measurements in {
            "root.ln.wf01.wt01": "temperature, ok",
            "root.ln.wf01.wt02": "temperature",
            "root.ln.wf02": "temperature",
            "root.sgcc.`1`": "speed",
        }.items():
            values = ", ".join("1" for _ in measurements.split(","))
            lake.sql(
                f"INSERT INTO {device}(time, {measurements}) VALUES (1, {values}), (2, {values})",
                dialect="iotdb",
            )
        yield lake


WF01 = ["root.ln.wf01.wt01", "root.ln.wf01.wt02"]


@pytest.mark.parametrize(
    ("statement", "columns", "rows"),
    [
        ("SHOW DEVICES", ["Device"], [*WF01, "root.ln.wf02", "root.sgcc.`1`"]),
        ("SHOW DEVICES root.ln.**", ["Device"], [*WF01, "root.ln.wf02"]),
        ("SHOW DEVICES root.ln.wf01.*", ["Device"], WF01),
        ("SHOW DEVICES root.ln.wf02", ["Device"], ["root.ln.wf02"]),
        ("SHOW DEVICES root.ln", ["Device"], []),
        ("COUNT DEVICES", ["count(devices)"], [4]),
        ("COUNT DEVICES root.*.*", ["count(devices)"], [2]),
        ("COUNT TIMESERIES", ["count(timeseries)"], [5]),
        ("COUNT TIMESERIES root.**.temperature", ["count(timeseries)"], [3]),
        ("COUNT TIMESERIES root.nothing.**", ["count(timeseries)"], [0]),
        (
            "COUNT TIMESERIES GROUP BY LEVEL = 1",
            ["column", "count(timeseries)"],
            [("root.ln", 4), ("root.sgcc", 1)],
        ),
        (
            "COUNT TIMESERIES root.** GROUP BY LEVEL=3",
            ["column", "count(timeseries)"],
            [
                ("root.ln.wf01.wt01", 2),
                ("root.ln.wf01.wt02", 1),
                ("root.ln.wf02.temperature", 1),
                ("root.sgcc.`1`.speed", 1),
            ],
        ),
    ],
)
def test_devices_and_series_are_listed_and_counted(
    lake: Lake, statement: str, columns: list[str], rows: list[Any]
) -> None:
    found = lake.sql(statement)  # no other dialect has such a statement
    assert list(found.columns) == columns
    assert found.fetchall() == [row if isinstance(row, tuple) else (row,) for row in rows]


def test_a_level_is_a_number(lake: Lake) -> None:
    with pytest.raises(StatementError, match="a level"):
        lake.sql("COUNT TIMESERIES root.** GROUP BY LEVEL = x")
