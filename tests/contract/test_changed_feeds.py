"""UPDATE and DELETE over rows that are alike: the change feed tells of each, whoever computes it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakestream import Lake
from lakestream.statements.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

Row = tuple[int | None, int | None]
ALIKE: list[tuple[list[Row], str]] = [
    ([(1, 1), (1, 2)], "UPDATE t SET v = 1 WHERE v = 2"),
    ([(1, 1), (1, 2), (1, 2)], "UPDATE t SET v = v + 1"),
    ([(1, None), (1, 2)], "UPDATE t SET v = NULL WHERE v = 2"),
    ([(1, 1), (2, 1)], "UPDATE t SET k = 1 WHERE k = 2"),
    ([(1, 5), (1, 5), (2, 6)], "UPDATE t SET k = 2, v = 6"),
]
APART: list[tuple[list[Row], str]] = [
    ([(1, 1), (2, 2), (None, 2)], "UPDATE t SET v = 1 WHERE v = 2"),
    ([(1, 2), (1, 2), (2, 9)], "DELETE FROM t WHERE v = 2"),
]


def table_of(folder: Path, rows: list[Row]) -> str:
    kind = pa.schema([("k", pa.int32()), ("v", pa.int32())])
    written = pa.Table.from_pylist([dict(zip("kv", row, strict=True)) for row in rows], kind)
    write_deltalake(str(folder), written, configuration={"delta.enableChangeDataFeed": "true"})
    return str(folder)


def told(path: str, rows: list[Row]) -> Counter[Row]:
    """Return the rows after a commit, as its change feed tells of them."""
    found = Counter(rows)
    for change in pa.table(DeltaTable(path).load_cdf(starting_version=1).read_all()).to_pylist():
        came = change["_change_type"] in ("insert", "update_postimage")
        found[change["k"], change["v"]] += 1 if came else -1
    return +found


def there(path: str) -> Counter[Row]:
    rows = pa.table(DeltaTable(path).to_pyarrow_table()).to_pylist()
    return Counter((row["k"], row["v"]) for row in rows)


@pytest.mark.spark
@pytest.mark.parametrize(("rows", "statement"), ALIKE, ids=[statement for _, statement in ALIKE])
def test_rows_that_become_equal_to_others(
    rows: list[Row], statement: str, tmp_path: Path, spark: SparkSession
) -> None:
    path = table_of(tmp_path / "table", rows)
    with Lake(tmp_path / "lake", spark=spark) as lake:
        lake.sql(f"CREATE TABLE t LOCATION '{path}'")
        lake.sql(statement)
    assert told(path, rows) == there(path)


@pytest.mark.parametrize(("rows", "statement"), APART, ids=[statement for _, statement in APART])
def test_rows_that_stay_apart_need_no_spark(
    rows: list[Row], statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Workspace, "session", property(lambda _: pytest.fail("Spark was asked")))
    path = table_of(tmp_path / "table", rows)
    with Lake(tmp_path / "lake") as lake:
        lake.sql(f"CREATE TABLE t LOCATION '{path}'")
        lake.sql(statement)
    assert told(path, rows) == there(path)
