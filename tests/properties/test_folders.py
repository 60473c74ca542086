"""What a table is partitioned by: texts that are NULL there are told from NULL in what it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakestream import Lake
from lakestream.engine.creation import compile as compiling
from lakestream.errors import StorageError
from tests.properties.followed import without_spark
from tests.properties.parted import KINDS, differences
from tests.properties.test_told_keys import _shown

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FORMS = {
    "SELECT k, count(*) AS n FROM t GROUP BY k": 1,
    "SELECT k, length(k) AS l, sum(x) AS n FROM t GROUP BY k": 1,
    "SELECT k, max(x) AS most FROM t GROUP BY k": 1,
    "SELECT DISTINCT k, x FROM t": 1,
    "SELECT upper(k) AS k, max(x) AS n FROM t GROUP BY upper(k)": 1,
    "SELECT k FROM t WHERE x > 0 UNION SELECT k FROM t WHERE x < 9": 1,
    "SELECT k, x FROM (SELECT *, rank() OVER (PARTITION BY k ORDER BY x DESC) AS n FROM t) q WHERE n = 1": 1,
    "SELECT k, max(x) AS m FROM t GROUP BY k UNION ALL SELECT k, x FROM t": 2,
    "SELECT k, count(*) AS n FROM t GROUP BY window(ts, '1 minute'), k": 1,
}
"""Queries, and how many rows of theirs one more row of the empty text changes."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    with without_spark():
        found = Lake(tmp_path)
        found.sql("CREATE TABLE t (ts TIMESTAMP, k VARCHAR(8), x INT)")
        found.sql("INSERT INTO t VALUES ('2025-01-01', 'a', 1) ('2025-01-01', '', 2) ('2025-01-01', NULL, 3)")
    return found


def compared(lake: Lake, form: str) -> None:
    columns = "nullif(k, '') AS k" + "".join(f", {name}" for name in lake.sql("SELECT * FROM v").columns[1:])
    assert [stream.last_error for stream in lake.streams()] == [None]
    query = form.replace("GROUP BY window(ts, '1 minute'), k", "GROUP BY date_trunc('minute', ts), k")
    assert _shown(lake, "SELECT * FROM v") == _shown(lake, f"SELECT {columns} FROM ({query}) q"), form


@pytest.mark.parametrize("form", FORMS)
def test_a_change_computes_the_keys_that_it_touches(lake: Lake, form: str) -> None:
    with without_spark(), lake:
        lake.sql(f"CREATE MATERIALIZED VIEW v PARTITIONED BY (k) AS {form}")
        lake.run()
        compared(lake, form)
        for number, value in enumerate(("''", "NULL", "''"), 4):
            lake.sql(f"INSERT INTO t VALUES ('2025-01-01 00:00:0{number}', {value}, {number})")
            assert [tick.rows_out for tick in lake.run().ticks] == [FORMS[form]]
            compared(lake, form)
        lake.sql("DELETE FROM t WHERE k = ''")
        lake.run()
        compared(lake, form)


@pytest.mark.parametrize("aggregate", ["count(*)", "max(x)"])
def test_a_view_that_told_no_folders_goes_on_without(lake: Lake, aggregate: str) -> None:
    form = f"SELECT k, {aggregate} AS n FROM t GROUP BY k"
    with without_spark():
        with lake, patch.object(compiling, "_folders", lambda *_: []):
            lake.sql(f"CREATE MATERIALIZED VIEW v PARTITIONED BY (k) AS {form}")
            lake.run()
        with Lake(lake.root) as opened:
            for number, value in enumerate(("''", "NULL", "''"), 4):
                opened.sql(f"INSERT INTO t VALUES ('2025-01-01 00:00:0{number}', {value}, {number})")
                opened.run()
                compared(opened, form)


@pytest.mark.parametrize("kind", [name for name, one in KINDS.items() if one.small])
def test_tables_by_folders_are_as_those_without(kind: str) -> None:
    with without_spark():
        assert differences(f"kept-{kind}", kind=kind, steps=2) == []


@pytest.mark.parametrize("value", ["'" + "x" * 300 + "'", "'" + "日" * 90 + "'"])
def test_a_text_that_no_folder_can_be_called_is_named(tmp_path: Path, value: str) -> None:
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string())])
    fed = {"delta.enableChangeDataFeed": "true"}
    DeltaTable.create(str(tmp_path / "theirs"), schema, partition_by=["k"], configuration=fed)
    with without_spark(), Lake(tmp_path / "lake") as lake:
        lake.sql(f"CREATE TABLE theirs LOCATION '{tmp_path / 'theirs'}' TIMESTAMP BY ts")
        lake.sql("INSERT INTO theirs VALUES ('2025-01-01', 'a')")
        for statement in (
            f"INSERT INTO theirs VALUES ('2025-01-01', {value})",
            f"UPDATE theirs SET k = {value}",
        ):
            with pytest.raises(StorageError, match="a value of k") as refused:
                lake.sql(statement)
            assert refused.value.code == "FOLDER_TOO_LONG"
        assert lake.sql("SELECT k FROM theirs").fetchall() == [("a",)]


@pytest.mark.parametrize("kind", ["VARCHAR(300)", "DOUBLE"])
def test_a_stream_says_which_value_no_folder_can_be_called(tmp_path: Path, kind: str) -> None:
    good, value = ("1", "1e-300") if kind == "DOUBLE" else ("'a'", "'" + "x" * 300 + "'")
    with without_spark(), Lake(tmp_path) as lake:
        lake.sql(f"CREATE TABLE t (ts TIMESTAMP, k {kind}, x INT)")
        lake.sql("CREATE MATERIALIZED VIEW v PARTITIONED BY (k) AS SELECT k, count(*) AS n FROM t GROUP BY k")
        lake.sql(f"INSERT INTO t VALUES ('2025-01-01', {good}, 1) ('2025-01-01 00:00:01', {value}, 2)")
        lake.run()
        (stopped,) = lake.streams()
        assert (stopped.status, str(stopped.last_error).partition(":")[0]) == ("Failed", "FOLDER_TOO_LONG")
        assert "RESYNC where its history has it" in str(stopped.last_error)
        lake.sql("DELETE FROM t WHERE x = 2")
        lake.sql("START STREAM v")
        lake.run()
        assert lake.sql("SELECT n FROM v").fetchall() == [(1,)]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("kind", KINDS)
def test_tables_by_folders_of_spark_are_as_those_without(kind: str, spark: SparkSession) -> None:
    assert differences(f"spark-{kind}", spark, kind=kind) == []


@pytest.mark.spark
@pytest.mark.parametrize("text", ["", "__HIVE_DEFAULT_PARTITION__"])
def test_verify_agrees_with_folders_and_with_sums_of_nothing(text: str, lake: Lake) -> None:
    with lake:
        lake.sql(f"INSERT INTO t VALUES ('2025-01-01 00:00:01', 'a', 1) ('2025-01-01 00:00:02', '{text}', 2)")
        lake.sql("CREATE MATERIALIZED VIEW v PARTITIONED BY (k) AS SELECT k, sum(x) AS n FROM t GROUP BY k")
        lake.sql("CREATE MATERIALIZED VIEW w PARTITIONED BY (k) AS SELECT k, max(x) AS n FROM t GROUP BY k")
        lake.sql(
            "CREATE STREAM s INTERVAL(1m) SLIDING(1m) FROM t STREAM_OPTIONS(FILL_HISTORY | EXACT) "
            "INTO o (at, k COMPOSITE KEY, n) PARTITIONED BY (k) "
            "AS SELECT _twstart, k, count(*) FROM %%trows GROUP BY k"
        )
        lake.run()
        lake.sql("UPDATE t SET x = NULL")
        lake.sql("INSERT INTO t VALUES ('2025-01-01 00:05:00', 'b', 1)")
        lake.run()
        for name in "vws":
            assert dict(lake.sql(f"VERIFY STREAM {name}").fetchall())["differing rows"] == "0", name
        rows = lake.sql("SELECT k, n FROM v ORDER BY ALL").fetchall()
        assert rows == [(None, None), (None, None), ("a", None), ("b", 1)]
