"""A row of a lookup table changes, to which a thousandth of the windows of a large source belongs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import duckdb
from deltalake import DeltaTable

from tests.benchmarks import data, streaming
from tests.benchmarks.data import SECOND_US, START_US
from tests.benchmarks.output import require
from tests.benchmarks.process import spent
from tests.benchmarks.scenarios.lakes import new_source, open_lake, run_all, source_of, target_of
from tests.benchmarks.scenarios.model import repeated, scaled

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakestream import Lake
    from tests.benchmarks.process import Spent
    from tests.benchmarks.scenarios.model import Figures

_COMMITS, _COMMIT_ROWS, _DEVICES = 50, 1_000_000, 1_000
_WINDOW_SECONDS = 600
_WARM, _CHANGES = 3, 10
_STREAM = (
    f"CREATE STREAM s INTERVAL({_WINDOW_SECONDS}s) SLIDING({_WINDOW_SECONDS}s) FROM source "
    "PARTITION BY tbname STREAM_OPTIONS(EXACT(ALL)|FILL_HISTORY) INTO target AS SELECT _twstart AS start, "
    "avg(r.v * d.factor) AS mean, count(*) AS n FROM %%tbname r JOIN devices d ON d.device = %%1 "
    "WHERE r.ts >= _twstart AND r.ts < _twend"
)
_COUNTED = "SELECT count(*), sum(n)::BIGINT, round(sum(mean), 6) FROM {rows}"


def make_looked_up(folder: Path, scale: float) -> None:
    """Make the source and its devices, and have a stream that joins them catch up."""
    source, commits = new_source(folder), scaled(_COMMITS, scale, 2)
    data.write_apart(
        data.write_rows, path=str(source), first=0, sizes=[_COMMIT_ROWS] * commits, devices=_DEVICES
    )
    with open_lake(folder) as lake:
        lake.sql("CREATE TABLE devices (ts TIMESTAMP, device VARCHAR(10) COMPOSITE KEY, factor DOUBLE)")
        rows = " ".join(f"({START_US // 1_000}, 'd{number}', 1)" for number in range(_DEVICES))
        lake.sql(f"INSERT INTO devices VALUES {rows}; {_STREAM}")
        run_all(lake)


def changed_row(folder: Path, scale: float) -> Figures:
    """Measure the ticks that changes of one device bring, each of another one."""
    del scale
    with open_lake(folder) as lake:
        took = [_changed(lake, number) for number in range(_WARM + _CHANGES)]
    require(_written(folder), _expected(folder), "windows of the output, their rows and means")
    return repeated(took[_WARM:])


def all_windows(folder: Path, scale: float) -> Figures:
    """Measure the recalculation of all windows by the stream."""
    del scale
    with open_lake(folder) as lake:
        _changed(lake, 0)
        lake.spark.sql("SELECT 1").collect()
        lake.sql("RECALCULATE STREAM s FROM '2025-01-01 00:00:00'")
        took = spent(lambda: run_all(lake))
    require(_written(folder), _expected(folder), "windows of the output, their rows and means")
    return repeated([took])


def merged_row(folder: Path, scale: float) -> Figures:
    """Measure what a good engineer has Spark do: merge the windows of the devices in the change feed."""
    del scale
    spark, target = streaming.session(), folder / "merged"
    source, devices = source_of(folder), _devices(folder)
    spark.sql(f"CREATE TABLE delta.`{target}` USING delta AS {_merged(source, devices)}")
    took = []
    for number in range(_WARM + _CHANGES):
        spark.sql(f"UPDATE delta.`{devices}` SET factor = {number + 2} WHERE device = 'd{number}'")
        version = DeltaTable(devices).version()
        took.append(spent(partial(_merge, spark, source, devices, target, version)))
    expected = _connection().execute(_COUNTED.format(rows=f"({_query(folder)})")).fetchall()
    found = _COUNTED.format(rows=f"read_parquet({_files(target)})")
    require(_connection().execute(found).fetchall(), expected, "windows, their rows and means")
    return repeated(took[_WARM:])


def _merge(spark: SparkSession, source: Path, devices: Path, target: Path, version: int) -> None:
    feed = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", version)
    changed = feed.load(str(devices)).select("device").distinct().collect()
    those = f"tbname IN ({', '.join(repr(row.device) for row in changed)})"
    spark.sql(
        f"MERGE INTO delta.`{target}` AS old USING ({_merged(source, devices, f'WHERE r.{those}')}) AS new "
        f"ON old.{those} AND old.start = new.start AND old.tbname = new.tbname "
        "WHEN MATCHED THEN UPDATE SET mean = new.mean, n = new.n WHEN NOT MATCHED THEN INSERT *"
    )


def _merged(source: Path, devices: Path, where: str = "") -> str:
    window = f"window(r.ts, '{_WINDOW_SECONDS} seconds')"
    return (
        f"SELECT {window}.start AS start, r.tbname, avg(r.v * d.factor) AS mean, count(*) AS n "
        f"FROM delta.`{source}` r JOIN delta.`{devices}` d ON d.device = r.tbname {where} "
        f"GROUP BY {window}, r.tbname"
    )


def duckdb_anew(folder: Path, scale: float) -> Figures:
    """Measure one query of DuckDB over all rows, into a file."""
    del scale
    target = folder / "anew.parquet"
    copy = f"COPY ({_query(folder)}) TO '{target}' (FORMAT parquet)"
    took = [spent(lambda: _connection().execute(copy)) for _ in range(_WARM)]
    return repeated(took[1:])


def _changed(lake: Lake, number: int) -> Spent:
    lake.sql(f"UPDATE devices SET factor = {number + 2} WHERE device = 'd{number}'")
    return spent(lambda: run_all(lake))


def _query(folder: Path) -> str:
    rows, devices = (_files(path) for path in (source_of(folder), _devices(folder)))
    start = f"epoch_us(r.ts) // {_WINDOW_SECONDS * SECOND_US}"
    return (
        f"SELECT {start} AS start, r.tbname, avg(r.v * d.factor) AS mean, count(*) AS n "
        f"FROM read_parquet({rows}) r JOIN read_parquet({devices}) d ON d.device = r.tbname GROUP BY ALL"
    )


def _expected(folder: Path) -> object:
    """Return what the output is to hold: the windows of a device but for its last one, which is open."""
    closed = f"SELECT * FROM ({_query(folder)}) QUALIFY start < max(start) OVER (PARTITION BY tbname)"
    return _connection().execute(_COUNTED.format(rows=f"({closed})")).fetchall()


def _written(folder: Path) -> object:
    written = f"read_parquet({_files(target_of(folder))})"
    return _connection().execute(_COUNTED.format(rows=written)).fetchall()


def _devices(folder: Path) -> Path:
    return source_of(folder).parent / "devices"


def _files(table: Path) -> list[str]:
    return DeltaTable(table).file_uris()


def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 2})
