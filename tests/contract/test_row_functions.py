"""TDengine's functions that give several rows: their figures in queries, and in streams after late rows."""

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
STREAMED = [
    (number, case) for number, case in enumerate(CASES) if case.get("only") == "stream" or "types" in case
]
QUERIED = [case for case in CASES if case.get("only") != "stream"]
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


def write(lake: Lake, table: str, rows: list[tuple[Any, ...]]) -> None:
    lake.insert(table, [dict(zip(COLUMNS, (at(row[0]), *row[1:]), strict=True)) for row in rows])


def others(case: dict[str, Any]) -> range:
    """Return the numbers of the columns behind the first one."""
    return range(1, len(case["rows"][0]) if case["rows"] else 2)


def name(value: object) -> str:
    return str(value["query"])[:70] if isinstance(value, dict) else ""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Lake]:
    """Return a lake with the rows in a table."""
    with Lake(tmp_path_factory.mktemp("lake"), spark=spark, settings=Settings()) as lake:
        for table in ("nt", "six"):
            lake.sql(f"CREATE TABLE {table} (ts TIMESTAMP, v INT, d DOUBLE, b BOOL, s VARCHAR(10))")
        write(lake, "six", ROWS)
        yield lake


@pytest.fixture(scope="module")
def streams(lake: Lake) -> Lake:
    """Return the lake with a stream for each case that has one, which saw most of the rows late."""
    for number, case in STREAMED:
        names = [f"c{n} COMPOSITE KEY" if "histogram" in case["query"] else f"c{n}" for n in others(case)]
        query = case["query"].replace("FROM rows", "FROM %%trows")
        stream = f"CREATE STREAM s{number} INTERVAL(1m) SLIDING(1m) FROM nt INTO o{number}"
        lake.sql(f"{stream} ({', '.join(['t', *names])}) AS SELECT {query}")
    for seconds in ((0, 20, 50), (40, 10), (30,)):
        write(lake, "nt", [row for row in [*ROWS, (60, 0, 0.0, True, "z")] if row[0] in (60, *seconds)])
        assert not lake.run().failed
    return lake


def read(lake: Lake, query: str) -> list[list[Any]]:
    return [list(map(second, row)) for row in lake.sql(query).fetchall()]


def second(value: object) -> object:
    return (value - BEGIN).total_seconds() if isinstance(value, datetime) else value


def in_order(rows: list[list[Any]]) -> list[list[Any]]:
    return sorted(rows, key=lambda row: (row[0], str(row[1])))


def expected(case: dict[str, Any]) -> list[list[Any]]:
    return [
        [pytest.approx(value) if isinstance(value, float) else value for value in row]
        for row in in_order(case["rows"])
    ]


@pytest.mark.parametrize(("number", "case"), STREAMED, ids=name)
def test_figures_of_a_stream(number: int, case: dict[str, Any], streams: Lake) -> None:
    assert in_order(read(streams, f"SELECT * FROM o{number}")) == expected(case)
    if case.get("verified"):
        assert streams.verify(f"s{number}").holds
    if "types" in case:
        types = [row[1] for row in streams.sql(f"DESCRIBE o{number}").fetchall()][1:]
        assert [*map(str.lower, types)][: len(case["types"])] == case["types"]


@pytest.mark.parametrize("case", QUERIED, ids=name)
def test_figures_of_a_query(case: dict[str, Any], lake: Lake) -> None:
    query = case["query"].replace("FROM rows", "FROM six")
    assert in_order(read(lake, f"SELECT {query}")) == expected(case)
