"""Rows of every library that has an Arrow stream go into a table as the same rows in mappings do."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakestream import Lake
from lakestream.cli.base.output import print_table
from lakestream.engine.base.result import Result
from lakestream.errors import StatementError
from lakestream.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

DAY = dt.datetime(2025, 1, 1, 10, tzinfo=dt.UTC)
ROWS = [(DAY, "a", 1), (DAY + dt.timedelta(hours=1), "b", None)]
COLUMNS: dict[str, list[Any]] = {
    "ts": [time for time, _, _ in ROWS],
    "s": [text for _, text, _ in ROWS],
    "n": [number for _, _, number in ROWS],
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake", settings=Settings(timezone="Europe/Helsinki"))
    lake.sql("CREATE TABLE t (ts TIMESTAMP, s VARCHAR(9), n INT)")
    return lake


def rows_of(lake: Lake) -> list[tuple[Any, ...]]:
    from deltalake import DeltaTable

    table = DeltaTable(f"{lake.root}/main/t").to_pyarrow_table().sort_by("ts")
    return [tuple(row.values()) for row in table.to_pylist()]


FRAMES: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas, times as the index": lambda: pd.DataFrame(COLUMNS).set_index("ts"),
    "pandas, some rows of another frame": lambda: pd.DataFrame(COLUMNS, index=[7, 3]),
    "pandas, categories": lambda: pd.DataFrame(COLUMNS).astype({"s": "category"}),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars, categories": lambda: pl.DataFrame(COLUMNS).with_columns(pl.col("s").cast(pl.Categorical)),
    "pyarrow": lambda: pa.table(COLUMNS),
    "pyarrow, a reader": lambda: pa.table(COLUMNS).to_reader(),
    "pyarrow, milliseconds": lambda: pa.table(
        {**COLUMNS, "ts": [int(time.timestamp() * 1_000) for time in COLUMNS["ts"]]}
    ),
    "pyarrow, text": lambda: pa.table({**COLUMNS, "ts": [time.isoformat() for time in COLUMNS["ts"]]}),
    "pyarrow, on the lake's clock": lambda: pa.table(
        {**COLUMNS, "ts": [time.replace(tzinfo=None) + dt.timedelta(hours=2) for time in COLUMNS["ts"]]}
    ),
    "duckdb": lambda: duckdb.sql(
        "SELECT TIMESTAMPTZ '2025-01-01 10:00:00+00' AS ts, 'a'::ENUM('a', 'b') AS s, 1::HUGEINT AS n "
        "UNION ALL SELECT TIMESTAMPTZ '2025-01-01 11:00:00+00', 'b', NULL"
    ),
    "a result": lambda: Result(arrow=pa.table(COLUMNS)),
    "mappings": lambda: pa.table(COLUMNS).to_pylist(),
    "mappings, one after another": lambda: iter(pa.table(COLUMNS).to_pylist()),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_frame_is_rows(lake: Lake, frame: Callable[[], Any]) -> None:
    assert lake.insert("t", frame()) == 1
    assert rows_of(lake) == ROWS


@pytest.mark.spark
def test_a_frame_of_spark_is_rows(lake: Lake, spark: SparkSession) -> None:
    lake.insert("t", spark.createDataFrame(pa.table(COLUMNS)))
    assert rows_of(lake) == ROWS


def test_a_day_begins_on_the_lakes_clock(lake: Lake) -> None:
    lake.insert("t", pl.DataFrame({"ts": [dt.date(2025, 1, 2)]}))
    assert rows_of(lake)[0][0] == dt.datetime(2025, 1, 1, 22, tzinfo=dt.UTC)


@pytest.mark.parametrize("frame", [pd.DataFrame(), pd.DataFrame({"ts": [], "s": []})])
def test_a_frame_without_rows_writes_nothing(lake: Lake, frame: pd.DataFrame) -> None:
    assert lake.insert("t", frame) == 0


REFUSED: dict[str, tuple[Any, str, str]] = {
    "no rows": (7, "BAD_VALUE", "int"),
    "one mapping": ({"ts": DAY}, "BAD_VALUE", "dict"),
    "no mappings": ([1, 2], "BAD_VALUE", "list"),
    "an unknown column": (pa.table({"ts": [DAY], "m": [1]}), "COLUMN_NOT_FOUND", "no column m"),
    "a column twice": (
        pa.table([pa.array([DAY]), pa.array([DAY])], names=["ts", "ts"]),
        "DUPLICATE_COLUMN",
        "ts",
    ),
    "a column twice in pandas": (pd.DataFrame([[1, 1]], columns=["ts", "ts"]), "BAD_VALUE", "ts"),
    "several types": (pd.DataFrame({"ts": [DAY, "x"]}), "BAD_VALUE", "no Arrow table"),
    "no time": (pa.table({"n": [1]}), "BAD_VALUE", "lack ts"),
    "a text that is no time": (pa.table({"ts": ["noon"]}), "BAD_VALUE", "noon"),
    "half a number": (pa.table({"ts": [DAY], "n": [1.5]}), "BAD_VALUE", "column n"),
    "too large a number": (pa.table({"ts": [DAY], "n": [2**40]}), "BAD_VALUE", "column n"),
    "a list": (pa.table({"ts": [DAY], "n": [[1]]}), "BAD_VALUE", "column n"),
    "nanoseconds": (pa.table({"ts": pa.array([1], pa.timestamp("ns"))}), "BAD_VALUE", "column ts"),
    "an hour that the clock passes over": (
        pa.table({"ts": [dt.datetime(2025, 3, 30, 3, 30)]}),  # noqa: DTZ001 - without a zone on purpose
        "BAD_VALUE",
        "column ts",
    ),
}


@pytest.mark.parametrize(("rows", "code", "words"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(lake: Lake, rows: Any, code: str, words: str) -> None:
    with pytest.raises(StatementError) as raised:
        lake.insert("t", rows)
    assert raised.value.code == code
    assert words in raised.value.message
    assert rows_of(lake) == []


@pytest.mark.spark
def test_points_come_as_frames_too(lake: Lake, spark: SparkSession) -> None:
    lake._at.spark._session = spark
    lake.insert("root.ln.d1", pl.DataFrame({"ts": [DAY], "v": [1.5], "state": ["on"]}))
    found = lake.sql("SELECT v, state FROM root.ln.d1", dialect="iotdb").fetchall()
    assert [row[1:] for row in found] == [(1.5, "on")]


# --- results ---


@pytest.mark.parametrize("result", [Result(arrow=pa.table(COLUMNS)), Result(("ts", "s", "n"), ROWS)])
def test_a_result_is_a_frame_of_any_library(result: Result) -> None:
    assert list(result.to_pandas()["s"]) == ["a", "b"]
    assert result.to_pandas()["ts"][0] == DAY
    assert result.to_polars().rows() == ROWS
    assert duckdb.from_arrow(result.to_arrow()).fetchall()[1][2] is None
    assert pa.table(result).num_rows == 2


def test_a_result_needs_a_lake_for_spark() -> None:
    with pytest.raises(ValueError, match="lake"):
        Result(("n",), [(1,)]).to_spark()


def test_a_result_is_shown_as_the_command_line_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    at = dt.datetime(2025, 1, 1, tzinfo=dt.UTC)
    rows = [
        (at, {"start": at, "n": [1, None]}, b"\x01", None, True, "a\nb"),
        (None, None, None, "", False, "c"),
    ]
    result = Result(("at", "held", "raw", "text", "flag", "lines"), rows)
    print_table(result.columns, rows)
    shown = capsys.readouterr().out
    assert repr(result) == shown.rstrip("\n")
    assert '{"start": "2025-01-01T00:00:00+00:00", "n": [1, null]}' in shown
    assert "datetime" not in shown
    wide = Result([f"column_{number}" for number in range(40)], [tuple(range(40))])
    assert len(repr(wide).splitlines()) == 3


@pytest.mark.spark
def test_a_result_is_a_frame_of_the_lakes_spark(lake: Lake, spark: SparkSession) -> None:
    lake._at.spark._session = spark
    assert lake.sql("DESCRIBE t").to_spark().count() == 3
    assert lake.sql("SHOW STREAMS").to_spark().collect() == []
    assert lake.sql("SELECT 1 AS one").to_spark().collect() == [(1,)]


def test_a_notebook_shows_a_table() -> None:
    html = Result(("<a>", "b"), [("x & y", None)] * 101)._repr_html_()
    assert "<th>&lt;a&gt;</th>" in html
    assert "<td>x &amp; y</td><td>NULL</td>" in html
    assert "<p>1 more row</p>" in html
    assert Result(message="made <t>")._repr_html_() == "<p>made &lt;t&gt;</p>"
    assert Result(("a",), [(1,)], message="<t>")._repr_html_().endswith("</table><p>&lt;t&gt;</p>")
