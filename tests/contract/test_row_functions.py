"""TDengine's functions that give several rows: their figures in streams, before and after late rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lakestream import Lake, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CASES: list[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("row_functions.yaml").read_text("utf-8")
)
COLUMNS = ("ts", "v", "d", "b", "s")
BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
ROWS = [
    (0, 1, 1.5, True, "a"),
    (10, 4, 2.5, False, "b"),
    (20, None, None, None, None),
    (30, 3, 4.0, True, "a"),
    (40, 8, 0.5, True, "c"),
    (50, 8, 0.5, False, "b"),
]


def at(second: float) -> datetime:
    return BEGIN + timedelta(seconds=second)


def write(lake: Lake, rows: list[tuple[Any, ...]]) -> None:
    lake.insert("nt", [dict(zip(COLUMNS, (at(row[0]), *row[1:]), strict=True)) for row in rows])


def width(case: dict[str, Any]) -> int:
    return len(case["rows"][0]) if case["rows"] else 2


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Lake]:
    """Return a lake with a stream per case, of which half saw some rows late, in another order."""
    with Lake(tmp_path_factory.mktemp("lake"), spark=spark, settings=Settings()) as lake:
        lake.sql("CREATE TABLE nt (ts TIMESTAMP, v INT, d DOUBLE, b BOOL, s VARCHAR(10))")
        for number, case in enumerate(CASES):
            columns = ", ".join(["t", *(f"c{n}" for n in range(1, width(case)))])
            query = case["query"].replace("FROM rows", "FROM %%trows")
            stream = f"CREATE STREAM s{number} INTERVAL(1m) SLIDING(1m) FROM nt INTO o{number} ({columns})"
            lake.sql(f"{stream} AS SELECT {query}")
        write(lake, [row for row in ROWS if row[0] in (0, 20, 50)] + [(60, 0, 0.0, True, "z")])
        assert not lake.run().failed
        write(lake, [row for row in ROWS if row[0] in (40, 10)])
        assert not lake.run().failed
        write(lake, [row for row in ROWS if row[0] == 30])
        assert not lake.run().failed
        yield lake


def second(value: object) -> object:
    return (value - BEGIN).total_seconds() if isinstance(value, datetime) else value


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: str(CASES[number]["query"])[:70])
def test_figures_of_a_stream(number: int, lake: Lake) -> None:
    found = lake.sql(f"SELECT * FROM o{number} ORDER BY t").fetchall()
    assert [list(map(second, row)) for row in found] == [
        [pytest.approx(value) if isinstance(value, float) else value for value in row]
        for row in CASES[number]["rows"]
    ]
