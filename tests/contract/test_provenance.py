"""Outputs as other engines read them: what the user defined, and one column with the window of each row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable

from lakestream import Lake, Settings
from lakestream.output.columns import FLAT

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STREAM = (
    "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM t STREAM_OPTIONS(EXACT) "
    "INTO o AS SELECT _twstart AS at, count(*) AS n, sum(v) AS total FROM %%trows"
)
OF_STREAM = (
    "CREATE STREAM later INTERVAL(1m) SLIDING(1m) FROM o STREAM_OPTIONS(EXACT) "
    "INTO minutes AS SELECT _twstart AS at, sum(n) AS n FROM %%trows"
)


@pytest.fixture(params=["flat", "struct"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make outputs as earlier versions did, or as they are made now."""
    if request.param == "flat":
        monkeypatch.setattr("lakestream.engine.streams.target.provenance_beside", lambda _names: FLAT)
    return str(request.param)


def insert(lake: Lake, *seconds: int) -> None:
    lake.insert("t", [{"ts": f"2025-01-01 00:{at // 60:02}:{at % 60:02}", "v": at} for at in seconds])


def rows_and_verified(lake: Lake) -> list[tuple[Any, ...]]:
    assert lake.verify("s").holds
    assert lake.verify("later").holds
    return lake.sql("SELECT unix_seconds(at) % 3600, n, total FROM o WHERE n > 0 ORDER BY at").fetchall()


@pytest.mark.parametrize("small_rows", [0, 1000])
def test_windows_are_written_again_in_either_form(
    tmp_path: Path, spark: SparkSession, form: str, small_rows: int
) -> None:
    with Lake(
        tmp_path / "lake", spark=spark, settings=Settings(duckdb_memory=0, small_rows=small_rows)
    ) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        lake.sql(STREAM)
        lake.sql(OF_STREAM)
        insert(lake, 1, 12, 25, 70)
        lake.run()
        insert(lake, 3, 36, 130)
        lake.run()
        lake.sql("DELETE FROM t WHERE v = 12")
        assert not lake.run().failed
        found = rows_and_verified(lake)
        assert lake.sql("SELECT * FROM o LIMIT 0").columns == ("at", "n", "total")
    assert found == [(0, 2, 4), (20, 1, 25), (30, 1, 36), (70, 1, 70)]
    output = DeltaTable(str(tmp_path / "lake" / "main" / "o"))
    held = [*FLAT.types] if form == "flat" else ["window"]
    frame = pl.read_delta(output)
    assert frame.columns == ["at", "n", "total", *held]
    assert duckdb.from_arrow(frame.to_arrow()).columns == frame.columns


def test_the_window_of_a_row_is_read_elsewhere(tmp_path: Path, spark: SparkSession) -> None:
    with Lake(tmp_path / "lake", spark=spark) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT)")
        lake.sql(STREAM)
        insert(lake, 3, 12)
        lake.run()
    (row,) = pl.read_delta(str(tmp_path / "lake" / "main" / "o")).to_dicts()
    start = datetime(2025, 1, 1, tzinfo=UTC)
    assert row["window"] == {
        "start": start,
        "end": start + timedelta(seconds=10),
        "group": row["window"]["group"],
    }


GROUPED = (
    "CREATE STREAM s INTERVAL(10s) SLIDING(10s) FROM t PARTITION BY site, v STREAM_OPTIONS(EXACT{}) "
    "INTO o AS SELECT _twstart AS at, count(*) AS n FROM %%trows"
)


@pytest.mark.parametrize(("small_rows", "option"), [(1000, ""), (0, ""), (0, "|MAX_DELAY(1d)")])
def test_groups_by_columns_are_columns_of_the_output(
    tmp_path: Path, spark: SparkSession, small_rows: int, option: str
) -> None:
    with Lake(
        tmp_path / "lake", spark=spark, settings=Settings(duckdb_memory=0, small_rows=small_rows)
    ) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT, site VARCHAR(10))")
        lake.sql(GROUPED.format(option))
        lake.sql(OF_STREAM.replace("FROM o", "FROM o PARTITION BY site"))
        for seconds in ([1, 2, 13], [3, 24]):
            places = [("a", seconds[0]), (None, seconds[1]), ("a", seconds[-1]), (None, seconds[-1])]
            given = [
                {"ts": f"2025-01-01 00:00:{at:02}.00{n}", "v": 1, "site": site}
                for n, (site, at) in enumerate(places)
            ]
            lake.insert("t", given)
            assert not lake.run().failed
        found = lake.sql("SELECT second(at), site, v, n FROM o ORDER BY at, site").fetchall()
        assert lake.verify("s").holds
        assert lake.verify("later").holds
    assert found == [(0, None, 1, 1), (0, "a", 1, 2), (10, None, 1, 1), (10, "a", 1, 1)]
    frame = pl.read_delta(str(tmp_path / "lake" / "main" / "o"))
    assert frame.columns == ["at", "n", "site", "v", "window"]


@pytest.mark.parametrize(
    "result", ["%%1 AS site, count(*) AS n FROM %%trows", "site, count(*) AS n FROM %%trows GROUP BY site"]
)
def test_a_group_that_the_query_gives_is_one_column(tmp_path: Path, spark: SparkSession, result: str) -> None:
    with Lake(tmp_path / "lake", spark=spark) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT, site VARCHAR(10))")
        window = (
            "INTERVAL(10s) SLIDING(10s) FROM t PARTITION BY site STREAM_OPTIONS(EXACT|IGNORE_NODATA_TRIGGER)"
        )
        lake.sql(f"CREATE STREAM s {window} INTO o AS SELECT _twstart AS at, {result}")
        for site in ("a", "b"):
            rows = [
                {"ts": f"2025-01-01 00:00:{at:02}.{ord(site)}", "v": 1, "site": site} for at in (1, 2, 12)
            ]
            lake.insert("t", rows)
            assert not lake.run().failed
        lake.sql("UPDATE t SET site = 'a' WHERE site = 'b' AND v = 1")
        assert not lake.run().failed
        assert lake.verify("s").holds
        found = lake.sql("SELECT * FROM o ORDER BY at, site")
        assert (*found.columns,) == ("at", "site", "n")
        assert [row[1:] for row in found.fetchall()] == [("a", 4)]


def test_an_output_of_an_earlier_version_keeps_its_subtables(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lake(tmp_path / "lake", spark=spark) as lake:
        lake.sql("CREATE TABLE t (ts TIMESTAMP, v INT, site VARCHAR(10))")
        with monkeypatch.context() as before:
            before.setattr("lakestream.engine.streams.target.provenance_beside", lambda _names: FLAT)
            before.setattr("lakestream.engine.streams.target.asks_for_subtables", lambda *_: True)
            lake.sql(GROUPED.format(""))
            lake.insert("t", [{"ts": f"2025-01-01 00:00:{at:02}", "v": 1, "site": "a"} for at in (1, 12)])
            lake.run()
        lake.insert("t", [{"ts": f"2025-01-01 00:00:{at:02}", "v": 1, "site": "a"} for at in (3, 24)])
        assert not lake.run().failed
        found = lake.sql("SELECT second(at), site, n, tbname IS NULL FROM o ORDER BY at").fetchall()
        assert lake.verify("s").holds
    assert found == [(0, "a", 2, False), (10, "a", 1, False)]
